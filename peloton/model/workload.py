"""Workloads: what training and data processing need of a job and its tasks beyond a plain one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Framework(IntEnum):
    """What the members of a gang are processes of. The numbers are those of the API."""

    NONE = 0
    TORCH = 1
    TENSORFLOW = 2
    JAX = 3
    MPI = 4
    HOROVOD = 5
    RAY = 6


class GangPolicy(IntEnum):
    """What becomes of a gang when the run of a member ends. The numbers are those of the API."""

    DEFAULT = 0
    """RESTART_GANG where a framework is named, else RESTART_MEMBER."""
    RESTART_GANG = 1
    """All members are ended, and run again as one."""
    RESTART_MEMBER = 2
    """The member runs again alone, by its restart policy."""
    FAIL = 3
    """After a failure all members are ended. After what is none, all run again as one."""


GROWTH_INTERVAL_SECONDS = 300
"""The growth interval of an elastic gang whose job says nothing."""
MAX_GROWTH_INTERVAL_SECONDS = 30 * 86400

ROLES = ("chief", "worker", "ps", "evaluator")
"""The parts that a task may play in TensorFlow's cluster."""

STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Signals by which a task may be told to end."""


@dataclass(frozen=True, slots=True)
class JobWorkload:
    """The workload of a job as a whole."""

    framework: Framework = Framework.NONE
    rendezvous: bool = False
    """Whether each member of the gang gets the addresses of all; a framework asks for them, too."""

    gang_policy: GangPolicy = GangPolicy.DEFAULT
    growth_interval: int = 0
    """Seconds that a round of an elastic gang lasts at least before it grows; 0: its size is fixed."""

    @property
    def elastic(self) -> bool:
        """Whether the gang may have more members than it needs."""
        return self.growth_interval > 0

    @property
    def in_place(self) -> bool:
        """Whether the gang is elastic, and members join and leave while the others go on."""
        return self.elastic and self.gang_policy is GangPolicy.RESTART_MEMBER

    @property
    def binds(self) -> bool:
        """Whether the members of the gang end, and run again, as one."""
        if self.gang_policy is GangPolicy.DEFAULT:
            return self.framework is not Framework.NONE or self.elastic
        return self.gang_policy is not GangPolicy.RESTART_MEMBER

    @property
    def meets(self) -> bool:
        """Whether each member of the gang gets the addresses of all."""
        return self.rendezvous or self.framework is not Framework.NONE or self.elastic


@dataclass(frozen=True, slots=True)
class TaskWorkload:
    """What one task needs."""

    rendezvous_port: str = ""
    """Names the port by which others reach the task. Empty: the first dynamic one, or the first one."""
    role: str = ""
    """One of ROLES; empty: `worker`."""
    peer: int | None = None
    """The instance whose address the task needs; None: of no one."""
    stop_signal: str = ""
    """One of STOP_SIGNALS; empty: SIGTERM."""
    grace_seconds: int = 0
    """Seconds that the task has to save its work; 0: its kill grace period."""
    checkpoint_file: str = ""
    """The file of the sandbox whose time tells when the task has saved its work; empty: it does not."""
    token: bool = False
    """Whether it gets what it needs to act on its own job."""


NO_JOB_WORKLOAD, NO_TASK_WORKLOAD = JobWorkload(), TaskWorkload()
"""Those of plain jobs and tasks."""
