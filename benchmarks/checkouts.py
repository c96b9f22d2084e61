"""Checkouts of commits with what they need to run: stubs, and an environment with their pins."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from minicluster.processes import uninterrupted
from peloton.errors import PelotonError

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^;\s]+)(?P<marker>.*)")
ELSEWHERE = "sys_platform == 'win32'"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit's files and the Python that runs them. `shared`: this program's own Python.

    `compiled`: its pure packages are extension modules, which are to run.
    """

    label: str
    path: Path
    python: Path
    shared: bool
    compiled: bool = False

    def variables(self) -> dict[str, str]:
        """The environment variables by which its files run, and none of another checkout."""
        return {"PYTHONPATH": str(self.path), "PELOTON_COMPILED": "1" if self.compiled else "0"}


def working_tree(root: Path) -> Checkout:
    """The files under `root` as they are, with changes that are not committed."""
    changed = " with changes" if _git(root, "status", "--porcelain") else ""
    return Checkout(f"{_described(root, 'HEAD')}{changed}", root, Path(sys.executable), True)


@contextmanager
def checkout(commit: str, folder: Path, root: Path) -> Iterator[Checkout]:
    """Give the files of a commit of the repository `root` under `folder`, and remove them afterwards.

    The environment is this program's own where each pin of the commit is the version installed here;
    otherwise `make setup` of the commit makes one. Raise PelotonError if there is no such commit.
    """
    label = _described(root, commit)
    path = folder / label.split()[0]
    try:
        _git(root, "worktree", "add", "--quiet", "--detach", str(path), commit)
        yield _prepared(label, path)
    finally:
        with uninterrupted():
            _remove(root, path)


def compiled(side: Checkout) -> Checkout:
    """Compile the pure packages of a checkout. Raise PelotonError where it cannot be."""
    environment = {**os.environ, **side.variables()}
    said = _run([str(side.python), "-m", "tools.compiled"], side.path, environment)
    if not (side.path / ".compiled/manifest.json").exists():
        raise PelotonError(f"{side.label} is not compiled: {said or 'there is no C compiler'}")
    return replace(side, label=f"{side.label}, compiled", compiled=True)


def _remove(root: Path, path: Path) -> None:
    with suppress(PelotonError):  # it may not have been made
        _git(root, "worktree", "remove", "--force", str(path))
    shutil.rmtree(path, ignore_errors=True)
    _git(root, "worktree", "prune")


def _prepared(label: str, path: Path) -> Checkout:
    shared = not different_pins(path)
    if shared:
        generate(path)
        python = Path(sys.executable)
    else:
        _run(["make", "--silent", "setup"], path)
        python = path / ".venv/bin/python"
    _run([str(python), "-m", "compileall", "-q", "-x", r"\.venv", "."], path)
    return Checkout(label, path, python, shared)


def different_pins(path: Path) -> list[str]:
    """The pins of the checkout at `path` that are not what is installed here, as `name==version`."""
    return [f"{name}=={version}" for name, version in pins(path).items() if installed(name) != version]


def pins(path: Path) -> dict[str, str]:
    """Version by distribution: pyproject.toml's dependencies, and what constraints.txt says of the others."""
    project = tomllib.loads((path / "pyproject.toml").read_text())
    lines: list[str] = list(project["project"].get("dependencies", ()))
    lines += project.get("build-system", {}).get("requires", ())
    with suppress(FileNotFoundError):
        lines += (path / "constraints.txt").read_text().splitlines()
    found = (PIN.match(line) for line in lines)
    return {pin["name"]: pin["version"] for pin in found if pin and ELSEWHERE not in pin["marker"]}


def installed(name: str) -> str | None:
    """The version of a distribution in this program's environment."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def generate(path: Path) -> None:
    """Write the protobuf and gRPC stubs of the checkout's proto/ beside its sources."""
    proto = path / "proto"
    sources = sorted(str(file.relative_to(proto)) for file in proto.rglob("*.proto"))
    if not sources:
        return
    arguments = [f"-I{proto}", f"--python_out={path}", f"--grpc_python_out={path}"]
    _run([sys.executable, "-m", "grpc_tools.protoc", *arguments, *sources], path)
    for folder in {part for source in sources for part in Path(source).parents} - {Path(), Path("peloton")}:
        (path / folder / "__init__.py").touch()


def _described(root: Path, commit: str) -> str:
    """Short hash and subject."""
    return _git(root, "log", "-1", "--format=%h %s", f"{commit}^{{commit}}")


def _git(root: Path, *arguments: str) -> str:
    # A hook that runs this has these set, to its own repository.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return _run(["git", "-C", str(root), *arguments], root, clean)


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise PelotonError(f"{' '.join(command[:4])}… failed with code {done.returncode}: {said[-2000:]}")
    return done.stdout.strip()
