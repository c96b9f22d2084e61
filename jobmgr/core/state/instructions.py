"""What the core wants done, once what it decided is stored."""

from __future__ import annotations

from dataclasses import dataclass

from jobmgr.core.state.events import RunOf, Span
from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Answered by Enqueued or EnqueueRefused."""

    job_id: JobId
    gangs: tuple[tuple[RunOf, ...], ...]
    again: bool = False
    """Whether they had been enqueued before and are missing in resmgr: such gangs wait for the others."""


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
    """One host's launch. Answered by Launched, LaunchRefused or LaunchUncertain."""

    hostname: str
    agent_id: str
    offer_id: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Give back the claim of a host that nothing goes to."""

    hostname: str
    agent_id: str
    offer_id: str


@dataclass(frozen=True, slots=True)
class Kill:
    """In Mesos. The status that follows is the answer; without one the core asks again."""

    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The executors of runs that do not die."""

    runs: tuple[tuple[Run, str], ...]
    """With the agent's id."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Tell resmgr what became of runs that it had handed over."""

    runs: tuple[tuple[Run, TaskState], ...]


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Ask Mesos what became of runs, each with its agent's id. A status is the answer."""

    runs: tuple[tuple[Run, str], ...]


@dataclass(frozen=True, slots=True)
class Retire:
    """The job has ended and is stored as such."""

    job_id: JobId


Instruction = Enqueue | Compare | Withdraw | Launch | Release | Kill | ShutDown | Settle | Reconcile | Retire
