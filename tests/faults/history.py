"""The history of a run: the Mesos master's log, the API's answers, and the state at the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.leader_actions import LeaderAction

ENDS = {
    "TASK_FINISHED": "SUCCEEDED",
    "TASK_FAILED": "FAILED",
    "TASK_ERROR": "FAILED",
    "TASK_KILLED": "KILLED",
}
"""State of an instance by the terminal state of its run."""
OVER = {*ENDS, "TASK_LOST", "TASK_GONE", "TASK_GONE_BY_OPERATOR", "TASK_DROPPED"}
GIVEN_UP = {
    "TASK_UNREACHABLE",
    "TASK_LOST",
    "TASK_GONE",
    "TASK_GONE_BY_OPERATOR",
    "TASK_UNKNOWN",
    "TASK_DROPPED",
}
TERMINAL = {"SUCCEEDED", "FAILED", "KILLED", "LOST"}


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One try of one instance: a Mesos task."""

    job: str
    instance: int
    number: int

    @classmethod
    def of(cls, mesos_id: str) -> Run:
        """Raises ValueError for an id that is not `<job>-<instance>-<run>`."""
        job, instance, number = mesos_id.rsplit("-", 2)
        return cls(job, int(instance), int(number))

    def __str__(self) -> str:
        return f"{self.job}-{self.instance}-{self.number}"


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the master's history; see `minicluster.mesos.master.history`. `at`: seconds.

    One kind more, by who plays the faults: `dead`, an agent that was ended with all its tasks.
    """

    at: float
    kind: str
    run: Run | None = None
    agent: str = ""
    state: str = ""
    latest: str = ""
    uuid: str = ""
    when: float = 0.0
    """Time of the agent's own clock, of an update."""
    sent: bool = True
    amounts: Mapping[str, float] = field(default_factory=dict)
    """A launch's resources, or all of a registering agent's."""
    ports: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """An API call that was answered with success (but for `perhaps-update`): in force from `answered` on."""

    method: str
    """create, update, stop; perhaps-update for one whose answer never came"""
    job: str
    answered: float
    instances: int = 0
    """After a create or an update."""
    stopped: tuple[int, ...] | None = None
    """By a stop; None for the whole job."""
    max_failures: int = 0
    """Of a created job's tasks."""
    fails: bool = False
    """Whether a created job's command fails by itself, at least once."""


@dataclass(frozen=True, slots=True)
class Instance:
    state: str
    run: int


@dataclass(frozen=True, slots=True)
class Job:
    """How the API shows a job at the end."""

    state: str
    count: int
    """By its config."""
    stats: Mapping[str, int]
    instances: Mapping[int, Instance]


@dataclass(frozen=True, slots=True)
class Pod:
    """How an instance was found after the workflow."""

    state: str
    """By v1alpha's ListPods, as are the versions."""
    version: int
    """Of the config of the current run."""
    label: str
    """What the command that started last says it is; empty where none started."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """One workflow of a service, from the request to some time after its end."""

    job: str
    instances: int
    most_down: int
    """Batch size, and tolerated failures where the new config is bad."""
    began: float
    """Seconds since the epoch: before the request. All instances are up then."""
    until: float
    """When `pods` were listed."""
    wanted_state: str
    wanted_label: str
    state: str
    """Found at the end, as are `version` and `pods`."""
    version: int
    """Of the job's config."""
    pods: Mapping[int, Pod]


@dataclass(frozen=True, slots=True)
class Life:
    """When a run lived on its agent, by the agent's updates. `given_up`: when the framework heard, after the
    launch, that its agent is not to be reached, if it did."""

    run: Run
    agent: str
    begin: float
    end: float
    given_up: float


@dataclass(frozen=True, slots=True)
class DaemonJob:
    """How a daemon job was found when it had followed its hosts."""

    job: str
    hosts: Sequence[str]
    """All that there are."""
    instances: Mapping[int, tuple[str, str]]
    """Host and state."""


@dataclass(frozen=True, slots=True)
class End:
    """The state after the cluster has settled."""

    jobs: Mapping[str, Job]
    live: Sequence[tuple[Run, str]]
    """Runs that Mesos' agents have, with the agent."""
    undeleted: Sequence[str] = ()
    """Jobs that were deleted, and are there."""
    answers: Sequence[str] = ()
    """Answers that no call may get."""
    left: Sequence[str] = ()
    """What is left behind where no job runs: claims, holds, reservations, allocation."""


@dataclass(frozen=True, slots=True)
class History:
    events: Sequence[Event]
    calls: Sequence[Call]
    end: End
    actions: Sequence[LeaderAction] = ()
    """In the order in which they began."""
    workflows: Sequence[Workflow] = ()
    daemons: Sequence[DaemonJob] = ()


@dataclass(slots=True)
class EventLog:
    """Reads the master's file, each line once: what waits for a point asks often."""

    path: Path
    _offset: int = 0
    _read: list[Event] = field(default_factory=list)

    def since(self, when: float) -> list[Event]:
        """In order, with all agents. A last line that is not whole stays unread. One that a killed master
        left unfinished is passed over."""
        self._go_on()
        return [event for event in self._read if event.at >= when or event.kind == "agent"]

    def _go_on(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as opened:
            opened.seek(self._offset)
            lines, end, _ = opened.read().rpartition(b"\n")
        self._offset += len(lines) + len(end)
        self._read += [event for line in lines.split(b"\n") if (event := _event(line)) is not None]


def _event(line: bytes) -> Event | None:
    try:
        held = json.loads(line)
    except ValueError:
        return None
    return Event(
        at=held["at"],
        kind=held["kind"],
        run=Run.of(held["run"]) if "run" in held else None,
        agent=held.get("agent", ""),
        state=held.get("state", ""),
        latest=held.get("latest", ""),
        uuid=held.get("uuid", ""),
        when=held.get("when", 0.0),
        sent=held.get("sent", True),
        amounts=held.get("resources", held.get("total", {})),
        ports=tuple(held.get("ports", ())),
    )


def of_jobs(events: Iterable[Event], jobs: Iterable[str]) -> list[Event]:
    """What concerns these jobs, and the agents."""
    wanted = set(jobs)
    return [event for event in events if event.run is None or event.run.job in wanted]
