"""Triggers: a signal to a process at an exact point of a daemon's work.

A fault sets a trigger by writing a file. The recording daemon (`tests.faults.recording_daemon`) looks for the
file at each point, removes it, and sends the signal. A trigger fires once.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Trap:
    job: str = ""
    """Job that the moment must be about; empty: any."""
    victim: int = 0
    """Pid of the process that gets the signal; 0: the daemon that reaches the moment."""
    number: int = signal.SIGKILL
    hold: float = 0.0
    """Seconds for which the daemon is held at the moment, where it survives the signal."""

    def spring(self) -> None:
        os.kill(self.victim or os.getpid(), self.number)


def file_of(folder: Path, role: str, moment: str) -> Path:
    return folder / f"{role} {moment}.trap"


def set_trap(folder: Path, role: str, moment: str, trap: Trap) -> Path:
    """Returns the file, which is gone once the trap has sprung."""
    file = file_of(folder, role, moment)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(trap)))
    draft.rename(file)
    return file


def take(folder: Path, role: str, moment: str, about: Callable[[str], bool]) -> Trap | None:
    """The trap that is set for the moment and about this job, removed. `about` is asked for a job's id."""
    file = file_of(folder, role, moment)
    try:
        trap = Trap(**json.loads(file.read_text()))
        if trap.job and not about(trap.job):
            return None
        file.unlink()
    except FileNotFoundError:
        return None
    return trap
