"""When tasks have saved their work: the times of the files that Peloton names in a label of theirs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.common.status_updates import Key
from peloton.model.system_labels import CHECKPOINT_LABEL

SECONDS_BETWEEN_LOOKS = 15.0


def saved_at(task: mesos.TaskInfo, place: RunLocation) -> float | None:
    """Return when a task has saved its work, in seconds since 1970; None where it has not, or does not."""
    name = next((label.value for label in task.labels.labels if label.key == CHECKPOINT_LABEL), "")
    if not name or name.startswith("/") or ".." in name.split("/"):
        return None
    try:
        return os.lstat(place.sandbox / name).st_mtime
    except (OSError, ValueError):
        return None


class SavedWork:
    """Looks after the files of running tasks, and reports those that have changed."""

    def __init__(self, report: Callable[[Key], None], seconds: float = SECONDS_BETWEEN_LOOKS) -> None:
        self._report = report
        self._seconds = seconds
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def start(self, key: Key, task: mesos.TaskInfo, place: RunLocation) -> None:
        """Look after a run, if it has such a file."""
        if any(label.key == CHECKPOINT_LABEL for label in task.labels.labels) and key not in self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks[key] = loop.create_task(self._look_after(key, task, place))

    def stop(self, key: Key) -> None:
        """Look no more after a run."""
        task = self._tasks.pop(key, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _look_after(self, key: Key, task: mesos.TaskInfo, place: RunLocation) -> None:
        last: float | None = None
        while key in self._tasks:
            found = saved_at(task, place)
            if found is not None and found != last:
                last = found
                self._report(key)
            await asyncio.sleep(self._seconds)
