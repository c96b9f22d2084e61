"""What the core wants done, after its decisions are stored."""

from __future__ import annotations

from dataclasses import dataclass

from jobmgr.core.state.events import RunOf, Span
from peloton.model.cluster import UNNAMED
from peloton.model.ids import JobId, Run, TaskId
from peloton.model.states import TaskState
from peloton.model.volume import Volume
from peloton.model.workflow import WorkflowId


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Hand gangs to resmgr. Answered by Enqueued or EnqueueRefused."""

    job_id: JobId
    gangs: tuple[tuple[RunOf, ...], ...]
    again: bool = False
    """Whether they were enqueued before and are missing in resmgr: such gangs go behind the others."""


@dataclass(frozen=True, slots=True)
class Compare:
    """Ask resmgr which of these runs it does not hold. Answered by Compared."""

    job_id: JobId
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take runs out of resmgr. Answered by Withdrawn."""

    job_id: JobId
    runs: tuple[RunOf, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch runs on one host. Answered by Launched, LaunchRefused or LaunchUncertain."""

    hostname: str
    agent_id: str
    offer_id: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Release the claim on a host to which no run goes."""

    hostname: str
    agent_id: str
    offer_id: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill runs in Mesos. A status is the answer; without one the core kills again."""

    runs: tuple[Run, ...]
    held: tuple[tuple[Run, str], ...] = ()
    """Those of them whose hosts are to be held for the next runs of their instances, with the hosts."""
    cluster: str = UNNAMED
    """The Mesos cluster of these runs."""


@dataclass(frozen=True, slots=True)
class ReleaseHolds:
    """Release what is held of hosts for instances: they are to end, or go elsewhere."""

    instances: tuple[TaskId, ...]
    cluster: str = UNNAMED
    """The Mesos cluster of these hosts."""


@dataclass(frozen=True, slots=True)
class RenewHolds:
    """Hold hosts anew for instances of a job that come back with another config than before."""

    job_id: JobId
    holds: tuple[tuple[int, str], ...]
    """Each instance with the host."""
    cluster: str = UNNAMED
    """The Mesos cluster of these hosts."""


@dataclass(frozen=True, slots=True)
class ShutDown:
    """Shut down the executors of runs that kills do not end."""

    runs: tuple[tuple[Run, str], ...]
    """With the agent's id."""
    cluster: str = UNNAMED
    """The Mesos cluster of these runs."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Report to resmgr the runs that it preempts and that stay because of the SLA of their service."""

    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """Report to resmgr the states of runs that it handed over."""

    runs: tuple[tuple[Run, TaskState], ...]


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Ask Mesos for the states of runs, each with its agent's id. A status is the answer."""

    runs: tuple[tuple[Run, str], ...]
    cluster: str = UNNAMED
    """The Mesos cluster of these runs."""


@dataclass(frozen=True, slots=True)
class Retire:
    """Take a job that has ended out of the active set."""

    job_id: JobId
    delete: bool = False
    """Whether it is to be deleted, too."""


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete the oldest workflows of a job: a new one has begun."""

    job_id: JobId
    current: WorkflowId


@dataclass(frozen=True, slots=True)
class DestroyVolume:
    """Destroy a volume on its host, as soon as it is there and unused."""

    volume: Volume


@dataclass(frozen=True, slots=True)
class FollowHosts:
    """Report the hosts that match the newest config of a daemon job, now and whenever they change.

    Answered by HostsMatched.
    """

    job_id: JobId


Instruction = (
    Enqueue
    | Compare
    | Withdraw
    | Launch
    | Release
    | Kill
    | ReleaseHolds
    | RenewHolds
    | ShutDown
    | Keep
    | Settle
    | Reconcile
    | Retire
    | Prune
    | DestroyVolume
    | FollowHosts
)
