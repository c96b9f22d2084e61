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
class Trigger:
    job: str = ""
    """Job that the point must be about; empty: any."""
    target: int = 0
    """Pid of the process that gets the signal; 0: the daemon that reaches the point."""
    number: int = signal.SIGKILL
    hold: float = 0.0
    """Seconds for which the daemon is held at the point, where it survives the signal."""

    def fire(self) -> None:
        os.kill(self.target or os.getpid(), self.number)


def file_of(folder: Path, role: str, point: str) -> Path:
    return folder / f"{role} {point}.trigger"


def set_trigger(folder: Path, role: str, point: str, trigger: Trigger) -> Path:
    """Returns the file, which is gone once the trigger has fired."""
    file = file_of(folder, role, point)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(trigger)))
    draft.rename(file)
    return file


def take(folder: Path, role: str, point: str, about: Callable[[str], bool]) -> Trigger | None:
    """The trigger that is set for the point and about this job, removed. `about` is asked for a job's id."""
    file = file_of(folder, role, point)
    try:
        trigger = Trigger(**json.loads(file.read_text()))
        if trigger.job and not about(trigger.job):
            return None
        file.unlink()
    except FileNotFoundError:
        return None
    return trigger
