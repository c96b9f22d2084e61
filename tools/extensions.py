"""The pure packages as extension modules, compiled by mypyc (docs/compiled.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Extension  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {
    "model": ("peloton/model", "peloton/sharding", "peloton/statemachine.py", "peloton/deadlines.py"),
    "resmgr": ("resmgr/core",),
    "placement": ("placement/core",),
    "jobmgr": ("jobmgr/core",),
    "hostmgr": ("hostmgr/core",),
    "wire": ("peloton/wire", "storage/codec.py"),
    "mesos": ("peloton/mesos",),
    "simulator": ("simulator/world", "simulator/daemons", "simulator/jobs.py"),
}
"""Folders and modules. A group becomes one library; several are built at the same time."""
PLAIN = {
    "resmgr/core/state/needs.py": "Needs are held by weak references, which compiled objects do not have",
    "peloton/mesos/utf8.py": "texts of proto2 that are no UTF-8 are bytes, against the types of the stubs",
}
"""Modules in these folders that stay Python, and why. Those with coroutines do, too."""
_COROUTINES = re.compile(r"^import asyncio$|^ *async def ", re.MULTILINE)


def sources(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the modules of each group, as paths from the root."""
    return {name: sorted(_modules(root, places)) for name, places in GROUPS.items()}


def _modules(root: Path, places: tuple[str, ...]) -> Iterator[str]:
    for place in places:
        folder = root / place
        for file in [folder] if folder.is_file() else folder.rglob("*.py"):
            path = file.relative_to(root).as_posix()
            if file.name != "__init__.py" and path not in PLAIN and not _COROUTINES.search(file.read_text()):
                yield path


def extensions(target: Path, optimization: str = "1") -> list[Extension]:
    """Translate the modules to C under `target`, and return what a C compiler is to build.

    The working directory must be the root, with the stubs of proto/ in it. `optimization` is the compiler's
    level, 0 to 3. Exits where mypyc refuses something.
    """
    groups = sources(Path())
    target.mkdir(parents=True, exist_ok=True)
    options = ["--config-file=", f"--cache-dir={target / 'cache'}", "--ignore-missing-imports"]
    return mypycify(
        [*options, *(path for paths in groups.values() for path in paths)],
        separate=[(paths, f"peloton_{name}") for name, paths in groups.items()],
        target_dir=str(target),
        opt_level=optimization,
        debug_level="0",  # tracebacks name the lines of the Python sources without it
    )


def processors() -> int:
    """Return how many libraries are to be built at a time."""
    return len(os.sched_getaffinity(0))
