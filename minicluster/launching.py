"""Start a cluster's processes: Python programs out of one process, others by their commands.

A program that is forked (`minicluster.forked`) and one that is started by its command are alike to everyone:
a process with a session and a process group of its own, the same environment, arguments (as `ps` shows them),
umask, standard input and log, default signals, and its module as `__main__`. It reads its settings after the
fork, and no event loop, thread, socket or file is older than that. Both are children of who launches them.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from minicluster.forked import READY, ROOM, Program
from minicluster.mesos.common.process_identity import start_of
from minicluster.processes import Process, clean_environment, launch, uninterrupted
from peloton.config.private import UMASK

PARENT = "minicluster.forked"
PR_SET_CHILD_SUBREAPER = 36
Started = Callable[[str, Process], None]
"""Takes the name of a program and its process, right after it has been started."""


def launch_all(programs: Sequence[Program], started: Started, modules: Sequence[str] = ()) -> None:
    """Start programs. `modules`: what they share beyond what all such programs do.

    Signals that end this program wait while `started` does not know of a process that runs already: such a
    process could not be ended.
    """
    forkable = [each for each in programs if each.module] if sys.platform == "linux" else []
    done = _fork(forkable, started, modules) if len(forkable) > 1 else set()
    for program in programs:
        if program.name not in done:
            with uninterrupted():
                started(program.name, launch(program.argv, Path(program.log), {}))


def _fork(programs: Sequence[Program], started: Started, modules: Sequence[str]) -> set[str]:
    """Start programs out of one process; return the names of those that were started.

    None are where that process fails: their commands then say what is wrong.
    """
    with _adopting(), _parent() as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        if parent.stdout.readline().strip() != READY:
            return set()
        with uninterrupted():
            plan = {"modules": modules, "programs": [asdict(each) for each in programs]}
            parent.stdin.write(json.dumps(plan) + "\n")
            parent.stdin.flush()
            found = {name: Process(pid, start_of(pid) or "") for name, pid in _told(parent.stdout)}
            _tell(found, started)
    return set(found)


def _told(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Iterate over the names and pids of the processes that were started."""
    for line in lines:
        held = json.loads(line)
        yield held["name"], held["pid"]


def _tell(found: Mapping[str, Process], started: Started) -> None:
    """Tell of the processes; kill those of which nobody would know."""
    unknown = dict(found)
    try:
        for name, process in found.items():
            started(name, process)
            del unknown[name]
    except BaseException:
        for process in unknown.values():
            process.signal(signal.SIGKILL)
        raise


@contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of processes whose own ends in the body (PR_SET_CHILD_SUBREAPER, see prctl(2))."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(0))


@contextmanager
def _parent() -> Iterator[subprocess.Popen[str]]:
    """Run the process that forks the programs; it has ended after the body."""
    with subprocess.Popen(
        [sys.executable, "-m", PARENT, ROOM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean_environment(),
        start_new_session=True,
        umask=UMASK,
    ) as parent:
        try:
            yield parent
        except BaseException:
            parent.kill()
            raise
