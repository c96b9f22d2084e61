"""Whether the pure packages run compiled, and the choice of it in a checkout (docs/compiled.md).

In a checkout `make compiled` leaves extension modules in a folder of their own: they run where
PELOTON_COMPILED is 1, and only while they are of these sources. A wheel that was built with extension modules
has them beside the sources: they run unless PELOTON_COMPILED is 0.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

VARIABLE = "PELOTON_COMPILED"
FOLDER = ".compiled"
MODULES = "modules"
ROOT = Path(__file__).resolve().parents[1]
SUFFIX = EXTENSION_SUFFIXES[0]
MANIFEST = "manifest.json"
"""In FOLDER: for which Python, and the SHA-256 of each source by its path from the root."""
PACKAGES = frozenset({"peloton", "jobmgr", "resmgr", "placement", "hostmgr", "storage", "simulator"})
"""Which have compiled modules."""
_PROBE = "peloton.model.resources"
"""A module that is compiled where any is."""


class NotCompiled(ImportError):
    """Compiled modules are asked for, and there are none of these sources."""


class CompiledModules(MetaPathFinder):
    """Finds the extension modules in a folder, before Python looks for sources."""

    def __init__(self, folder: Path) -> None:
        names = {file: file.relative_to(folder).as_posix() for file in folder.rglob(f"*{SUFFIX}")}
        self._files = {name.removesuffix(SUFFIX).replace("/", "."): file for file, name in names.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is; None for one that is not compiled."""
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)


class SourceModules(MetaPathFinder):
    """Finds the sources of our modules that are compiled in the same folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the source of a module is; None for one that is not compiled."""
        if path is None or fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path)
        compiled = (spec.origin or "") if spec is not None else ""
        source = Path(compiled.removesuffix(SUFFIX) + ".py")
        if not compiled.endswith(SUFFIX) or not source.exists():
            return None
        return spec_from_file_location(fullname, source)


def choose(environment: Mapping[str, str], root: Path = ROOT) -> MetaPathFinder | None:
    """Return what finds the modules that the environment asks for, where they would not be found without.

    Raises NotCompiled where a checkout's are not there, or of other sources, or for another Python.
    """
    wish = environment.get(VARIABLE, "0")
    if wish not in ("0", "1"):
        raise NotCompiled(f"{VARIABLE}: {wish!r} is neither 0 (plain) nor 1 (compiled)")
    if not (root / "setup.py").exists():
        return SourceModules() if wish == "0" and VARIABLE in environment else None
    if wish == "0":
        return None
    if found := differences(root=root):
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise NotCompiled(f"{VARIABLE} is 1, but {found[0]}{more}: call `make compiled`, or set it to 0")
    return CompiledModules(root / FOLDER / MODULES)


def differences(paths: Iterable[str] = (), root: Path = ROOT) -> list[str]:
    """Return why what is compiled is not of the sources, nor of all `paths`; empty where it is."""
    try:
        known = json.loads((root / FOLDER / MANIFEST).read_text())
    except FileNotFoundError:
        return ["nothing is compiled"]
    if known["suffix"] != SUFFIX:
        return [f"what is compiled is for {known['suffix']}, and this Python takes {SUFFIX}"]
    sources: dict[str, str] = known["sources"]
    changed = [path for path, digest in sources.items() if _digest(root / path) != digest]
    return [f"{path} has changed since" for path in changed] + [
        f"{path} is not compiled" for path in paths if path not in sources
    ]


def digests_of(paths: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """Return the SHA-256 of each source."""
    return {path: _digest(root / path) for path in paths}


def write_manifest(digests: Mapping[str, str], root: Path = ROOT) -> None:
    """Note of which sources the modules in FOLDER are."""
    known = {"suffix": SUFFIX, "sources": dict(digests)}
    (root / FOLDER / MANIFEST).write_text(json.dumps(known, indent=1))


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def mode() -> str:
    """Return what this process runs: `compiled` or `plain`."""
    probe = find_spec(_PROBE)
    return "compiled" if probe is not None and (probe.origin or "").endswith(SUFFIX) else "plain"


def remark() -> str:
    """Return what /health adds to its `OK`: `compiled` where compiled modules run, else nothing."""
    return mode() if mode() == "compiled" else ""


def use_chosen() -> None:
    """Let the modules be imported that the environment asks for. Raises as `choose`."""
    finder = choose(os.environ)
    if finder is not None:
        sys.meta_path.insert(0, finder)
