"""The messages and stubs, which are modules of `peloton.api` and `mesos`, by their names below this package.

`peloton_client.pbgen.peloton.api.v0.job.job_pb2` is `peloton.api.v0.job.job_pb2`, the same module: protobuf
takes a message once only. Names without `v0`, which older programs use, are those of v0.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_OWN = __name__ + "."
_BELOW = ("peloton", "mesos")
_VERSIONED = ("v0", "v1alpha")


def _name_here(name: str) -> str:
    """Return the name of a module by that below this package."""
    parts = name.removeprefix(_OWN).split(".")
    if parts[:2] == ["peloton", "api"] and parts[2:] and parts[2] not in _VERSIONED:
        parts.insert(2, "v0")
    return ".".join(parts)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules below this package under the names that they have."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a module; None for one that is not below this package, or not there."""
        if not fullname.startswith(_OWN) or fullname.removeprefix(_OWN).split(".")[0] not in _BELOW:
            return None
        try:
            found = importlib.util.find_spec(_name_here(fullname))
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return the module itself where it has messages; a package is made anew, to have its own names."""
        if spec.submodule_search_locations is not None:
            return None
        module = importlib.import_module(_name_here(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave a module as it was executed under its own name."""
        given = module.__spec__
        if given is not None and given.loader_state is not None:
            module.__spec__ = given.loader_state


sys.meta_path.append(_Finder())
