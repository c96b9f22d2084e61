"""Telling processes apart for certain: a pid alone may have been given to somebody else meanwhile."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Identity:
    """A process: its pid and when it started, in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    start: str


def start_of(pid: int) -> str | None:
    """Return when a process started; None for one that is gone or a zombie."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def is_alive(identity: Identity) -> bool:
    """Whether that very process still runs."""
    return start_of(identity.pid) == identity.start


def signal_group(leader: Identity, number: signal.Signals) -> bool:
    """Send a signal to the process group of ``leader``, if that very process still leads it."""
    if not is_alive(leader):
        return False
    try:
        os.killpg(leader.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def with_variable(assignment: str) -> list[Identity]:
    """Return all processes whose environment holds ``NAME=value``, as far as it may be read."""
    wanted = assignment.encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        start = start_of(int(entry.name))
        if start is not None and wanted in environment.split(b"\0"):
            found.append(Identity(int(entry.name), start))
    return found
