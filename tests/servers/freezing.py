"""Stop a process where it stands, and wait until it stands."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

LONGEST_SECONDS = 60.0
STANDS = frozenset("TtZX")
"""States of threads that run nothing (proc(5), `stat`): stopped, traced, ended."""


def freeze(pid: int) -> None:
    """Send SIGSTOP and return once no thread of the process runs.

    The signal alone is not enough: kill(2) returns before threads on other processors have stopped,
    and one of them can still answer a call. Raises TimeoutError where one still runs after a minute.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + LONGEST_SECONDS
    while running := [thread for thread, state in _states(pid).items() if state not in STANDS]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"threads {running} of process {pid} run {LONGEST_SECONDS:g} s after SIGSTOP")
        time.sleep(0.001)


def _states(pid: int) -> dict[int, str]:
    """Return the state of each thread; of a process that has ended, none."""
    found = {}
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            # The name of the program, in brackets, may hold any character.
            found[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue  # this thread has ended
    return found
