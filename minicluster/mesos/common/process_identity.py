"""Identify processes for certain: a pid alone may belong to another process by now.

A start time is read from /proc and not from psutil: supervisors, which import nothing, record it in clock
ticks since boot. psutil gives it in seconds since the epoch, which move when the clock is set, and its import
takes 50 ms of processor time in each agent and each call of the command line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A process: its pid and its start time, in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    start: str


def start_of(pid: int) -> str | None:
    """Return when a process started; None for one that is gone or a zombie.

    One whose first thread has ended before others is none: those still hold its ports and files.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" and int(fields[17]) <= 1 else fields[19]


def is_alive(identity: Identity) -> bool:
    """Return whether that very process still runs."""
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


def children_of(pid: int) -> list[int]:
    """Return the children of a process that has one thread; none of one that is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def with_variable(name: str, value: str) -> list[Identity]:
    """Return all processes with this environment variable, as far as their environment may be read."""
    wanted = f"{name}={value}".encode()
    return [identity for identity, variables in environments() if wanted in variables]


def environments() -> Iterator[tuple[Identity, list[bytes]]]:
    """Yield all processes with their environments, NAME=VALUE each, as far as these may be read."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            pid = int(folder.name)
            with suppress(OSError):  # gone, or another user's
                variables = (folder / "environ").read_bytes().split(b"\0")
                if start := start_of(pid):
                    yield Identity(pid, start), variables
