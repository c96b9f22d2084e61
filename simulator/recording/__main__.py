"""Record the cores of daemons, and replay what was recorded.

    python -m simulator.recording record FOLDER jobmgr -c jobmgr.yaml
    python -m simulator.recording replay FOLDER

`record` runs a daemon as `python -m` does, and has each core that it makes write a journal to FOLDER: its
inputs with its answers. `replay` gives the inputs to new cores, and exits with 1 where one answers otherwise.
Journals are pickles: replay none that you do not trust.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from simulator.recording.cores import CORES, ENDING, Recorder
from simulator.recording.replay import replay


def main(argv: Sequence[str] | None = None) -> int:
    """Record or replay; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.recording",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run a daemon, and record its core")
    recording.add_argument("folder", type=Path)
    recording.add_argument("daemon", choices=sorted(CORES))
    recording.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the daemon")
    replaying = commands.add_parser("replay", help="replay all journals of a folder")
    replaying.add_argument("folder", type=Path)
    options = parser.parse_args(argv)
    if options.command == "record":
        return _record(options.folder, options.daemon, options.arguments)
    return _replay(options.folder)


def _record(folder: Path, daemon: str, arguments: Sequence[str]) -> int:
    sys.argv = [daemon, *arguments]
    with Recorder(daemon, folder).recording():
        runpy.run_module(daemon, run_name="__main__", alter_sys=True)
    return 0


def _replay(folder: Path) -> int:
    journals = sorted(folder.glob(f"*{ENDING}"))
    if not journals:
        print(f"no journal in {folder}", file=sys.stderr)
        return 1
    equal = True
    for path in journals:
        found = replay(path)
        print(f"{path.name}: {found.calls.total():,} calls and {found.states} states are equal")
        if found.difference is not None:
            equal = False
            print(f"{path.name}: {found.difference}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
