"""An instance's page: its runs, its events as a time line, what it asked for, held and used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from peloton.api.v0.task import task_pb2
from peloton.model.states import TaskState
from peloton.present.accounts import held_and_used
from peloton.present.why import ended, message_text
from peloton.web.formats import seconds_of
from peloton.web.views.jobs.job import asks_of, health_of
from peloton.web.views.shared.timeline import Lane, Span

EVENTS = 200
"""Events that a page shows."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of an instance; times in seconds since 1970, 0 where not known."""

    number: str
    state: str
    current: bool
    host: str
    started: float
    ended: float
    exit: str
    reason: str
    health: str
    version: int
    launched: bool
    """Whether it came to a host, so that there may be a sandbox."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an instance."""

    run: str
    at: float
    state: str
    goal: str
    health: str
    host: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a job."""

    job_id: str
    number: int
    name: str
    state: str
    goal: str
    health: str
    run: str
    host: str
    wanted_host: str
    failures: int
    max_failures: int
    text: str
    """Message and reason."""
    version: int
    wanted_version: int
    asks: Sequence[tuple[str, str]]
    held: Sequence[tuple[str, str]]
    ports: Sequence[tuple[str, int]]
    labels: Sequence[tuple[str, str]]
    volume: str
    runs: Sequence[Run]

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"/jobs/{self.job_id}/instances/{self.number}"


def instance_of(job_id: str, answer: task_pb2.GetResponse) -> Instance:
    """Return the instance that an answer holds."""
    info, runtime = answer.result, answer.result.runtime
    infos = list(answer.results) or [info]
    return Instance(
        job_id=job_id,
        number=info.instanceId,
        name=info.config.name,
        state=task_pb2.TaskState.Name(runtime.state),
        goal=task_pb2.TaskState.Name(runtime.goalState),
        health=health_of(runtime),
        run=run_of(runtime.mesosTaskId.value),
        host=runtime.host,
        wanted_host=runtime.desiredHost,
        failures=runtime.failureCount,
        max_failures=0 if info.config.restartPolicy.rules else info.config.restartPolicy.maxFailures,
        text=message_text(runtime),
        version=runtime.configVersion,
        wanted_version=runtime.desiredConfigVersion,
        asks=asks_of(info.config),
        held=held_and_used(runtime.resourceUsage),
        ports=sorted(runtime.ports.items()),
        labels=[(label.key, label.value) for label in info.config.labels],
        volume=runtime.volumeID.value,
        runs=[_run(each, at == 0) for at, each in enumerate(infos)],
    )


def run_of(mesos_task_id: str) -> str:
    """Return the number of a run, empty where there is none."""
    return mesos_task_id.rpartition("-")[2]


def _run(info: task_pb2.TaskInfo, current: bool) -> Run:
    runtime = info.runtime
    state = TaskState(runtime.state)
    end = runtime.terminationStatus
    code = f"exit code {end.exit_code}" if state.terminal and runtime.HasField("terminationStatus") else ""
    return Run(
        number=run_of(runtime.mesosTaskId.value),
        state=state.name,
        current=current,
        host=runtime.host,
        started=seconds_of(runtime.startTime),
        ended=seconds_of(runtime.completionTime) if state.terminal else 0.0,
        exit=f"signal {end.signal}" if end.signal else code,
        reason=ended(runtime) if state.terminal and not message_text(runtime) else message_text(runtime),
        health=health_of(runtime),
        version=runtime.configVersion,
        launched=bool(runtime.host and runtime.agentID.value),
    )


def events_of(events: Iterable[task_pb2.PodEvent]) -> list[Event]:
    """Return the events of an instance, newest first, EVENTS at most."""
    found = []
    for event in events:
        text = "; ".join(dict.fromkeys(part for part in (event.message, event.reason) if part))
        found.append(
            Event(
                run=run_of(event.taskId.value),
                at=seconds_of(event.timestamp),
                state=event.actualState,
                goal=event.goalState,
                health=event.healthy if event.healthy in ("HEALTHY", "UNHEALTHY") else "",
                host=event.hostname,
                version=event.configVersion,
                text=text,
            )
        )
    return sorted(found, key=lambda event: -event.at)[:EVENTS]


def lanes_of(events: Iterable[Event]) -> list[Lane]:
    """Return a lane for each run, the newest first, with a span for each state that it was in."""
    by_run = sorted(events, key=lambda event: (-_number(event.run), event.at))
    lanes = []
    for run, group in groupby(by_run, key=lambda event: event.run):
        of_run = list(group)
        ends = [event.at for event in of_run[1:]] + [0.0]
        last = of_run[-1]
        if last.state in TaskState.__members__ and TaskState[last.state].terminal:
            ends[-1] = last.at
        spans = [
            Span(event.state, event.at, end, f"run {run}: {event.state.lower()}")
            for event, end in zip(of_run, ends, strict=True)
        ]
        lanes.append(Lane(f"run {run}", "", spans))
    return lanes


def _number(run: str) -> int:
    return int(run) if run.isascii() and run.isdigit() else 0
