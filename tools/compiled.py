"""Compile the pure packages of this checkout into .compiled, where PELOTON_COMPILED=1 finds them.

    python -m tools.compiled [-O LEVEL]

Does nothing where what is there is of these sources already.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from peloton.compiled import FOLDER, MANIFEST, MODULES, ROOT, differences, digests_of, write_manifest
from tools.extensions import extensions, processors, sources


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, and say how long it took and how large it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-O", dest="level", default="1", choices=("0", "1", "2", "3"), help="default: 1")
    level: str = parser.parse_args(arguments).level
    paths = [path for group in sources().values() for path in group]
    if not differences(paths):
        print("compiled: nothing has changed")
        return 0
    if shutil.which(compiler := compiler_name()) is None:
        print(f"compiled: there is no C compiler ({compiler}) here; everything runs plain", file=sys.stderr)
        return 0
    begun = time.monotonic()
    os.chdir(ROOT)
    digests = digests_of(paths)  # before: what is changed meanwhile is not what was compiled
    build(Path(FOLDER), level)
    write_manifest(digests)
    size = sum(file.stat().st_size for file in (ROOT / FOLDER / MODULES).rglob("*.so"))
    taken = time.monotonic() - begun
    print(f"compiled: {len(paths)} modules in {taken:.0f} s, {size / 2**20:.0f} MiB")
    print("PELOTON_COMPILED=1 runs them")
    return 0


def compiler_name() -> str:
    """Return the C compiler that Python's own build tells, or the variable CC."""
    return (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]


def build(folder: Path, level: str) -> None:
    """Build the modules under `folder`."""
    from setuptools import Distribution  # type: ignore[import-untyped]

    (folder / MANIFEST).unlink(missing_ok=True)  # an interrupted build leaves nothing that runs
    shutil.rmtree(folder / MODULES, ignore_errors=True)
    # mypyc 2.4.1 does not keep in its cache which attributes of a class have a bit for "defined".
    shutil.rmtree(folder / "c" / "cache", ignore_errors=True)
    command = Distribution({"name": "peloton", "ext_modules": extensions(folder / "c", level)})
    step = command.get_command_obj("build_ext")
    step.build_lib, step.build_temp = str(folder / MODULES), str(folder / "objects")
    step.parallel = processors()
    step.ensure_finalized()
    step.run()


if __name__ == "__main__":
    sys.exit(main())
