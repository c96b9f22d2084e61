"""What an agent writes down so that, killed and started again, it goes on where it was."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.updates import TERMINAL

_UPDATE, _ACKNOWLEDGED = b"U", b"A"


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as the checkpoint has it: its pending updates and all its statuses, in order."""

    container_id: str
    framework: mesos.FrameworkInfo
    task: mesos.TaskInfo
    pending: list[mesos.TaskStatus]
    statuses: list[mesos.TaskStatus]


class Checkpoint:
    """The checkpoints of all runs below one work directory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def begin(self, container_id: str, framework: mesos.FrameworkInfo, task: mesos.TaskInfo) -> None:
        """Write a run down, before anything of it exists."""
        path = self._layout.run_meta(container_id)
        path.mkdir(parents=True)
        (path / "framework.pb").write_bytes(framework.SerializeToString())
        (path / "task.pb").write_bytes(task.SerializeToString())

    def update(self, container_id: str, status: mesos.TaskStatus) -> None:
        """Write an update down, before it is sent."""
        self._append(container_id, _UPDATE, status.SerializeToString())

    def acknowledged(self, container_id: str, uuid: bytes) -> None:
        """Write down that an update was acknowledged."""
        self._append(container_id, _ACKNOWLEDGED, uuid)

    def end(self, container_id: str) -> None:
        """Forget a run."""
        shutil.rmtree(self._layout.run_meta(container_id), ignore_errors=True)

    def _append(self, container_id: str, kind: bytes, payload: bytes) -> None:
        path = self._layout.run_meta(container_id)
        if path.is_dir():
            with (path / "updates").open("ab") as file:
                file.write(kind + len(payload).to_bytes(4, "big") + payload)

    def load(self) -> list[SavedRun]:
        """Read all runs; one that cannot be read (it was being written) is dropped."""
        runs = []
        for path in sorted(self._layout.runs.iterdir()):
            run = _load(path)
            if run is None:
                shutil.rmtree(path, ignore_errors=True)
            else:
                runs.append(run)
        return runs


def _load(path: Path) -> SavedRun | None:
    try:
        framework = mesos.FrameworkInfo.FromString((path / "framework.pb").read_bytes())
        task = mesos.TaskInfo.FromString((path / "task.pb").read_bytes())
    except (OSError, DecodeError):
        return None
    pending, statuses = _replay(path / "updates")
    if statuses and statuses[-1].state in TERMINAL and not pending:
        return None
    return SavedRun(path.name, framework, task, pending, statuses)


def _replay(path: Path) -> tuple[list[mesos.TaskStatus], list[mesos.TaskStatus]]:
    data = path.read_bytes() if path.exists() else b""
    pending: list[mesos.TaskStatus] = []
    statuses: list[mesos.TaskStatus] = []
    at = 0
    while at + 5 <= len(data):
        size = int.from_bytes(data[at + 1 : at + 5], "big")
        payload = data[at + 5 : at + 5 + size]
        if len(payload) < size:
            break
        if data[at : at + 1] == _UPDATE:
            statuses.append(mesos.TaskStatus.FromString(payload))
            pending.append(statuses[-1])
        else:
            pending = [status for status in pending if status.uuid != payload]
        at += 5 + size
    return pending, statuses
