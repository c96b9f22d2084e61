"""What an agent writes down so that, killed and started again, it goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.layout import Layout, overwrite
from minicluster.mesos.agent.spare_files import SpareFiles
from minicluster.mesos.common.status_updates import TERMINAL

_FRAMEWORK, _TASK, _UPDATE, _ACKNOWLEDGED, _DEVICES = b"F", b"T", b"U", b"A", b"D"
_EMPTY_LOG_BYTES = 1
"""Bytes of a log that is no run's; one of no bytes would be flushed to the disk when it is written again."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as the checkpoint has it: its pending updates and all its statuses, in order, and its GPUs."""

    container_id: str
    framework: mesos.FrameworkInfo
    task: mesos.TaskInfo
    pending: list[mesos.TaskStatus]
    statuses: list[mesos.TaskStatus]
    devices: tuple[str, ...] = ()


class Checkpoint:
    """The checkpoints of all runs below one work directory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._spares = SpareFiles(layout.spare)

    def begin(self, container_id: str, framework: mesos.FrameworkInfo, task: mesos.TaskInfo) -> None:
        """Write a run down, before anything of it exists."""
        self._spares.take(self._layout.claim(container_id, 0))
        log = self._layout.log(container_id)
        self._spares.take(log)
        frames = ((_FRAMEWORK, framework.SerializeToString()), (_TASK, task.SerializeToString()))
        overwrite(log, b"".join(_frame(kind, payload) for kind, payload in frames))

    def take_back(self, container_id: str) -> int | None:
        """Make sure that a run that has not begun can only begin by a new attempt; return that attempt.

        None when it has begun. There is a claim all the while, should the agent be killed in the middle.
        """
        claims = self._layout.claims(container_id)
        if not claims:
            return None
        attempt = claims[-1] + 1
        Path(self._layout.claim(container_id, attempt)).touch(0o600)
        try:
            for old in claims:
                Path(self._layout.claim(container_id, old)).unlink()
        except FileNotFoundError:
            Path(self._layout.claim(container_id, attempt)).unlink()
            return None
        return attempt

    def update(self, container_id: str, status: mesos.TaskStatus) -> None:
        """Write an update down, before it is sent."""
        self._append(container_id, _UPDATE, status.SerializeToString())

    def devices(self, container_id: str, names: Sequence[str]) -> None:
        """Write down which GPUs belong to a run, before its task begins."""
        self._append(container_id, _DEVICES, json.dumps(names).encode())

    def acknowledged(self, container_id: str, uuid: bytes) -> None:
        """Write down that an update was acknowledged."""
        self._append(container_id, _ACKNOWLEDGED, uuid)

    def end(self, container_id: str, begun: bool) -> None:
        """Forget a run."""
        for attempt in () if begun else self._layout.claims(container_id):
            Path(self._layout.claim(container_id, attempt)).unlink(missing_ok=True)
        self._spares.give(self._layout.exit_file(container_id))
        log = self._layout.log(container_id)
        os.truncate(log, _EMPTY_LOG_BYTES)
        self._spares.give(log)

    def _append(self, container_id: str, kind: bytes, payload: bytes) -> None:
        try:
            log = os.open(self._layout.log(container_id), os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return  # the run is forgotten
        try:
            os.write(log, _frame(kind, payload))
        finally:
            os.close(log)

    def load(self) -> list[SavedRun]:
        """Read all runs; one that cannot be read (it was being written) is dropped."""
        runs = []
        for path in sorted(self._layout.runs.glob("*.log")):
            run = _load(path)
            if run is None:
                self.end(path.stem, begun=False)
            else:
                runs.append(run)
        known = {run.container_id for run in runs}
        for path in self._layout.claim_dir.iterdir():
            if path.stem not in known:
                path.unlink()
        return runs


def _frame(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


def _frames(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and payload of each frame that is there as a whole."""
    at = 0
    while at + 5 <= len(data):
        end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        if end > len(data):
            return
        yield data[at : at + 1], data[at + 5 : end]
        at = end


def _load(path: Path) -> SavedRun | None:
    frames = list(_frames(path.read_bytes()))
    if [kind for kind, _ in frames[:2]] != [_FRAMEWORK, _TASK]:
        return None
    pending, statuses = _replay(frames[2:])
    if statuses and statuses[-1].state in TERMINAL and not pending:
        return None
    framework = mesos.FrameworkInfo.FromString(frames[0][1])
    task = mesos.TaskInfo.FromString(frames[1][1])
    [names, *_] = [*(json.loads(payload) for kind, payload in frames if kind == _DEVICES), ()]
    return SavedRun(path.stem, framework, task, pending, statuses, tuple(names))


def _replay(frames: list[tuple[bytes, bytes]]) -> tuple[list[mesos.TaskStatus], list[mesos.TaskStatus]]:
    pending: list[mesos.TaskStatus] = []
    statuses: list[mesos.TaskStatus] = []
    for kind, payload in frames:
        if kind == _UPDATE:
            statuses.append(mesos.TaskStatus.FromString(payload))
            pending.append(statuses[-1])
        elif kind == _ACKNOWLEDGED:
            pending = [status for status in pending if status.uuid != payload]
    return pending, statuses
