"""What a job manager needs of the host manager of a Mesos cluster. All raise PelotonError.

Calls that are repeated until hostmgr answers say so. Calls with `wait` wait there for up to `wait` seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from jobmgr.core.launch_answers import LaunchAnswer
from jobmgr.core.state.instructions import Launch, Release
from peloton.errors import PelotonError
from peloton.model.constraint import Constraint, Label
from peloton.model.foreign_pod import PodChanges, Told
from peloton.model.host import HostMatch
from peloton.model.ids import Run, TaskId
from peloton.model.job import JobSpec
from peloton.model.resources import Resources
from peloton.model.task import TaskRuntime, TaskSpec, TaskStatus
from peloton.model.usage import Reading
from peloton.model.volume import VolumeId, VolumeMount


class LaunchedTask(NamedTuple):
    """A run that is launched."""

    run: Run
    spec: JobSpec
    """By the version of the run."""
    runtime: TaskRuntime
    labels: Sequence[Label]
    """Those of the system."""
    secrets: Sequence[tuple[str, bytes]]
    """Path and content of each secret file."""
    volume: VolumeMount | None
    environment: Sequence[tuple[str, str]] = ()
    """Variables beside those of the spec, which they replace."""
    told: Mapping[str, str] = MappingProxyType({})
    """Variables about other tasks of the job, which those of the spec replace."""


LaunchCall = Callable[[], Awaitable[LaunchAnswer]]
"""Makes the call once; it may be called again. Raises PelotonError, where the outcome is not known."""


class Launches(Protocol):
    """Launches on claimed hosts."""

    def launch(self, claim: Launch, tasks: Sequence[LaunchedTask]) -> LaunchCall:
        """Return what makes the call: the tasks are translated once, however often it is made."""
        ...

    async def release(self, claims: Sequence[Release]) -> None:
        """Release claims on hosts."""
        ...


class Failures(NamedTuple):
    """Kills that failed: how many, and why."""

    runs: int
    message: str


class Kills(Protocol):
    """Ends of runs. Each is repeated until hostmgr answers."""

    async def kill(self, runs: Collection[Run], maintenance: bool = False) -> Failures | None:
        """Kill runs; for the `maintenance` of their hosts where their cluster allows it, later otherwise."""
        ...

    async def shut_down(self, runs: Sequence[tuple[Run, str]]) -> None:
        """Shut down the executors of runs, each with its agent's id."""
        ...

    async def reconcile(self, runs: Sequence[tuple[Run, str]]) -> None:
        """Ask Mesos for the states of runs, each with its agent's id."""
        ...


class HeldKill(NamedTuple):
    """A run whose host is held when it is killed."""

    run: Run
    host: str
    next_spec: TaskSpec | None
    """What the instance's next run asks for."""
    killed_spec: TaskSpec | None
    """What the killed run gives back."""
    maintenance: bool = False
    """Whether it is killed for the maintenance of its host."""


class Hold(NamedTuple):
    """What is held of a host for the next run of an instance."""

    task_id: TaskId
    host: str


class Holds(Protocol):
    """Room of hosts that is held for instances. Each call but `holds` is repeated until hostmgr answers."""

    async def kill(self, runs: Collection[Run], maintenance: bool = False) -> Failures | None:
        """Kill runs; for the `maintenance` of their hosts where their cluster allows it, later otherwise."""
        ...

    async def kill_and_hold(self, kills: Sequence[HeldKill]) -> str:
        """Kill runs and hold their hosts; return why some of that failed, empty where none did."""
        ...

    async def release_holds(self, instances: Sequence[TaskId]) -> str:
        """Release what is held; return why some of that failed, empty where none did."""
        ...

    async def renew_holds(self, holds: Sequence[tuple[Hold, TaskSpec]]) -> None:
        """Hold hosts anew, for what instances ask for now."""
        ...

    async def holds(self) -> Sequence[Hold]:
        """Return what is held with an amount, as by job managers."""
        ...


class Volumes(Protocol):
    """Persistent volumes on hosts."""

    async def destroy_volume(self, volume: VolumeId) -> None:
        """Destroy a volume. Raises NotFound where hostmgr knows no such volume."""
        ...

    async def is_host_known(self, hostname: str) -> bool:
        """Return whether a host is registered."""
        ...


class Maintenance(NamedTuple):
    """Who began the maintenance of a host, empty where that is not known, and when."""

    begun_by: str
    since: str


class DrainingRuns(Protocol):
    """Runs on hosts in maintenance."""

    async def draining_runs(self, wait: float) -> Sequence[Run]:
        """Return the runs on draining hosts, waiting for some."""
        ...

    async def maintenances(self) -> Mapping[str, Maintenance]:
        """Return the maintenances there are, by host."""
        ...


class StreamBroken(PelotonError):
    """The stream of statuses is a new one, or no longer holds the next event: open it again."""


@dataclass(frozen=True, slots=True)
class StatusBatch:
    """Successive events of the stream; none where there are events of other shards alone."""

    count: int
    """Number of events, those without a status of a run included."""
    first: int
    """Offset of the first event, or of where they would be."""
    end: int
    """Offset at which to go on, behind the last event."""
    runs: Sequence[tuple[Run, TaskStatus]]
    """The statuses of runs, in order."""
    offsets: Sequence[int]
    """Of each of these."""


class StatusEvents(Protocol):
    """The stream of statuses."""

    async def open_stream(self) -> tuple[str, int]:
        """Return the id of the stream and the offset of its first event."""
        ...

    async def statuses(
        self, stream: str, stored: int, begin: int, limit: int, wait: float
    ) -> StatusBatch | None:
        """Return events from the offset `begin` on, waiting for some; None: there are none.

        Those before `stored` are let go. Raises StreamBroken.
        """
        ...

    async def acknowledge(self, stream: str, offsets: Sequence[int]) -> None:
        """Acknowledge events behind some that are not stored yet."""
        ...


class ReadingBatch(NamedTuple):
    """What agents told of runs."""

    stream: str
    """Of what the offset is; another host manager has another one."""
    next: int
    """The offset to begin with next."""
    readings: Sequence[tuple[Run, Reading]]


class Readings(Protocol):
    """What runs use."""

    async def readings(self, stream: str, begin: int, wait: float) -> ReadingBatch:
        """Return what agents have told since an offset, waiting for some. `stream` is empty at first."""
        ...


class HostNeeds(NamedTuple):
    """What a task asks of a host."""

    resources: Resources
    ports: int
    """Number of dynamic ports."""
    revocable: bool
    constraint: Constraint | None


class PooledNeeds(NamedTuple):
    """What a task asks of a host of a host pool; empty: of any."""

    needs: HostNeeds
    pool: str


class HostMatches(Protocol):
    """Hosts by what tasks ask of them."""

    async def matches(
        self, needs: Sequence[HostNeeds], known: str, wait: float
    ) -> tuple[str, Sequence[HostMatch]] | None:
        """Return the version of the hosts, and the hosts for each need.

        Where the version is `known`, wait for another; None: there is none.
        """
        ...


class LeavingHosts(Protocol):
    """Hosts that are about to leave."""

    async def last_hosts(
        self, needs: Sequence[PooledNeeds], leaving: Sequence[str]
    ) -> Mapping[PooledNeeds, frozenset[str]]:
        """Return those of the leaving hosts that have the size for a need, where no other host has it."""
        ...


MOST_TRIALS = 20
"""Configs of one call."""


class Trials(Protocol):
    """What clusters say to tasks that are not launched."""

    async def try_tasks(self, configs: Sequence[bytes]) -> Sequence[str]:
        """Return for each encoded config of a task, MOST_TRIALS at most, why no cluster takes it.

        Empty: one takes it, or cannot be asked. Raises Unimplemented for host managers of older versions.
        """
        ...


class AgentAddress(NamedTuple):
    """An agent of Mesos, and where it answers."""

    id: str
    pid: str
    """Such as slave(1)@10.0.0.7:5051."""
    hostname: str
    port: int


class Agents(Protocol):
    """The agents of Mesos, and its master."""

    async def agents(self, hostname: str) -> Sequence[AgentAddress]:
        """Return the agents of a host. Raises NotFound."""
        ...

    async def master(self) -> tuple[str, str]:
        """Return host and port of the leading master."""
        ...


class ForeignPods(Protocol):
    """Pods of others that are queued and bound."""

    async def pods(self, stream: str, after: int, wait: float) -> PodChanges:
        """Return what has become of them since an earlier answer."""
        ...

    async def tell_owners(self, told: Sequence[Told]) -> None:
        """Tell their owners what becomes of them."""
        ...


class Hostmgr(
    Launches, Kills, Holds, Volumes, DrainingRuns, StatusEvents, Readings, HostMatches, ForeignPods, Protocol
):
    """What the drivers of a Mesos cluster need of it."""
