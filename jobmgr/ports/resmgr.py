"""What a job manager needs of the resource manager. All raise PelotonError.

Calls that hand something over are repeated until resmgr answers: they raise what is not transient. Calls that
take something, with `wait`, are made once; they wait for up to `wait` seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from jobmgr.core.state.events import Placement, RunOf
from jobmgr.core.state.instructions import Compare
from peloton.model.ids import JobId, MesosTaskId, PoolId, Run, TaskId
from peloton.model.job import JobSpec
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime


class WaitingTask(NamedTuple):
    """A task that is to be enqueued: the current run of an instance."""

    job_id: JobId
    spec: JobSpec
    """By the version of the run."""
    instance: int
    runtime: TaskRuntime


class Reasons(NamedTuple):
    """What has changed in why tasks wait."""

    leader: str
    """The resource manager that answers."""
    stream: str
    last: int
    """Number of the last change in the stream."""
    deltas: Sequence[tuple[Run, TaskState, str]]
    """With states in resmgr; an empty reason: nothing holds the task up."""


class PoolQueues(Protocol):
    """The queues of tasks that wait for a place."""

    async def enqueue(self, pool: PoolId, gangs: Sequence[Sequence[WaitingTask]]) -> Mapping[int, str]:
        """Queue gangs in a pool; return why some are refused, by position. Known runs are not refused."""
        ...

    async def withdraw(self, runs: Sequence[Run]) -> Mapping[TaskId, str]:
        """Take runs out, but no newer ones; return why some stay. Repeated after any failure."""
        ...

    async def missing(self, waiting: Sequence[Compare]) -> Mapping[JobId, Sequence[RunOf]]:
        """Return those of the runs that resmgr does not hold."""
        ...


class PlacedTasks(Protocol):
    """Tasks that have a place."""

    async def placements(self, limit: int, wait: float) -> Sequence[Placement]:
        """Take up to `limit` placements. Raises Refused."""
        ...

    async def settle(self, states: Sequence[tuple[Run, TaskState]]) -> None:
        """Report the states of runs that were handed over. READY: not launched, and to be placed anew."""
        ...


class PreemptedTasks(Protocol):
    """Tasks that are to give way to others."""

    async def preempted(self, limit: int, wait: float) -> Sequence[MesosTaskId]:
        """Take up to `limit` runs that resmgr preempts."""
        ...

    async def preemption_reasons(self, runs: Sequence[MesosTaskId]) -> Mapping[MesosTaskId, str]:
        """Return why runs are preempted, without those that have been spared since. Made once."""
        ...

    async def keep(self, runs: Sequence[Run]) -> None:
        """Report preempted runs that stay. Made once."""
        ...


class WaitingReasons(Protocol):
    """Why tasks wait."""

    async def reasons(self, stream: str, after: int, wait: float) -> Reasons:
        """Return what has changed after a number of a stream; everything where resmgr has another stream."""
        ...


class Resmgr(PoolQueues, PlacedTasks, PreemptedTasks, WaitingReasons, Protocol):
    """All of these."""
