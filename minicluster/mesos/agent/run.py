"""One run of a task, as its agent knows it."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.statuses import EndCause
from minicluster.mesos.common.status_updates import Key
from peloton.model.system_labels import STOP_SIGNAL_LABEL
from peloton.model.workload import STOP_SIGNALS

DEFAULT_GRACE_SECONDS = 3.0
"""How long a killed task has between SIGTERM and SIGKILL, unless its kill policy says otherwise."""


@dataclass(slots=True)
class Run:
    """One run of a task. ``pid`` is its supervisor's. ``unreported``: no updates are sent any more.

    ``pidfd`` watches a supervisor of an earlier agent process, which sends this one nothing. ``attempt`` is
    the number of the attempt to start it, from 0 on.
    """

    place: RunLocation
    framework: mesos.FrameworkInfo
    task: mesos.TaskInfo
    pid: int = 0
    pidfd: int = -1
    attempt: int = 0
    running: bool = False
    ended: bool = False
    unreported: bool = False
    ending: EndCause | None = None
    grace: float = DEFAULT_GRACE_SECONDS
    statuses: list[mesos.TaskStatus] = field(default_factory=list)
    container: mesos.ContainerStatus | None = None

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal by which its task is told to end: as Peloton labels the task, else SIGTERM."""
        for label in self.task.labels.labels:
            if label.key == STOP_SIGNAL_LABEL and label.value in STOP_SIGNALS:
                return signal.Signals[label.value]
        return signal.SIGTERM

    @property
    def latest(self) -> mesos.TaskStatus | None:
        """Its newest status."""
        return self.statuses[-1] if self.statuses else None

    @property
    def key(self) -> Key:
        """Framework id and task id."""
        return self.place.framework_id, self.task.task_id.value

    def take(self, status: mesos.TaskStatus) -> None:
        """Keep one status of each state in a row, the newest."""
        if self.statuses and self.statuses[-1].state == status.state:
            self.statuses.pop()
        self.statuses.append(status)
