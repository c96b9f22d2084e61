"""Generates the protobuf and gRPC stubs at install: nothing generated is committed.

A regular install writes them into the package that is built; an editable one beside the sources. With
PELOTON_WHEEL=compiled in the environment a wheel has the pure packages compiled too (docs/compiled.md).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()
PROTO = ROOT / "proto"
KINDS = ("plain", "compiled")
KIND = os.environ.get("PELOTON_WHEEL", "plain")


def generate(target: Path) -> None:
    """Write the messages and stubs of every file in proto/, with their types, under `target`."""
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    arguments = [f"-I{PROTO}", f"-I{well_known}"]
    outputs = {
        "python": "",
        "grpc_python": "",
        "mypy": "quiet:",
        "mypy_grpc": "quiet,generate_concrete_servicer_stubs:",
    }
    arguments += [f"--{kind}_out={option}{target}" for kind, option in outputs.items()]
    if protoc.main(["protoc", *arguments, *sources]) != 0:
        raise SystemExit("protoc failed: see its message above")
    for source in sources:
        _make_packages(target, Path(source).parent)


def _make_packages(target: Path, folder: Path) -> None:
    """Create an empty `__init__.py` in each generated folder; the hand-written `peloton` has its own."""
    for part in (folder, *folder.parents):
        if part.parts not in ((), ("peloton",)):
            (target / part / "__init__.py").touch()


class BuildWithStubs(build_py):
    """The build of the packages, with generated protobuf stubs."""

    def run(self) -> None:
        """Build the packages, then generate the stubs beside them."""
        super().run()
        target = ROOT if self.editable_mode else Path(self.build_lib)
        target.mkdir(parents=True, exist_ok=True)
        generate(target)


class BuildAtOnce(build_ext):
    """The build of the extension modules, several at the same time."""

    def finalize_options(self) -> None:
        """Use all processors, where nobody says otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or len(os.sched_getaffinity(0))


def compiled() -> list[Extension]:
    """Translate the pure packages to C. The translation reads the types of the stubs, beside the sources."""
    os.chdir(ROOT)
    generate(ROOT)
    sys.path.insert(0, str(ROOT))
    from tools.extensions import extensions

    return extensions(Path("build") / "c")


# The steps that only ask for metadata need no modules.
BUILDS = not {"dist_info", "egg_info"} & set(sys.argv)
if KIND not in KINDS:
    raise SystemExit(f"PELOTON_WHEEL: {KIND!r} is neither {' nor '.join(KINDS)}")
setup(
    cmdclass={"build_py": BuildWithStubs, "build_ext": BuildAtOnce},
    ext_modules=compiled() if KIND == "compiled" and BUILDS else [],
)
