"""A job's page: what the job is, its instances by state, and a page of the table of its instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.amounts import amount, duration
from peloton.model.states import TERMINAL_JOB_STATES, JobState, TaskState
from peloton.present.accounts import held_and_used, peak_text
from peloton.present.why import ended, message_text
from peloton.web.formats import seconds_of
from peloton.web.views.jobs.counts import ORDER, counts
from peloton.web.views.jobs.search import order_of, page_number, page_of
from peloton.web.views.shared.lines import lines, near
from peloton.wire.workload import job_workload

PAGE = 50
"""Instances on a page."""
SORTS = {
    "instance_id": "Instance",
    "state": "State",
    "host": "Host",
    "creation_time": "Started",
    "reason": "Reason",
}


@dataclass(frozen=True, slots=True)
class JobSchedule:
    """When a job is run. Times are in seconds since 1970; 0: none."""

    cron: str
    time_zone: str
    next: Sequence[float]
    paused: float
    kept: int


@dataclass(frozen=True, slots=True)
class JobHead:
    """What a job is."""

    id: str
    name: str
    type: str
    state: str
    goal: str
    pool_id: str
    pool: str
    team: str
    owner: str
    description: str
    created: float
    """Times in seconds since 1970; 0 where not known."""
    started: float
    completed: float
    updated: float
    updated_by: str
    version: int
    """Of the config."""
    entity_version: str
    instances: int
    released: int
    """Instances of a batch job that were released, and are not counted in `instances`."""
    labels: Sequence[tuple[str, str]]
    sla: Sequence[tuple[str, str]]
    asks: Sequence[tuple[str, str]]
    """What an instance asks for, as kind and amount; the default's."""
    overrides: int
    """Instances whose config differs from the default."""
    command: str
    counts: Sequence[tuple[str, int]]
    usage: Sequence[tuple[str, str]]
    """What runs that have ended have held over time, and used, by kind; of a batch job."""
    peak: str = ""
    """The most memory that an instance had at a time; empty where that is not known."""
    asked_mb: float = 0.0
    """The most memory that an instance asks for."""
    asked_cores: float = 0.0
    """The most cores that an instance asks for."""
    reason: str = ""
    """Why it is in its state, such as that it crash-loops."""
    lost: str = ""
    """Work since the last checkpoints of runs that ended too early; empty: none."""
    schedule: JobSchedule | None = None
    """By which it begins; None: it has none, or has ended."""
    suspended: bool = False
    bound: bool = False
    """Whether it has a gang whose members end, and run again, as one, or an elastic one."""

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"/jobs/{self.id}"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return JobState[self.state] in TERMINAL_JOB_STATES

    @property
    def batch(self) -> bool:
        """Whether it is a batch job."""
        return self.type == "batch"

    def count(self, *states: str) -> int:
        """Return how many instances are in these states."""
        return sum(count for state, count in self.counts if state in states)


def job_head(job: job_pb2.JobInfo, entity_version: str, pools: Mapping[str, str]) -> JobHead:
    """Return the head of a job's page; `pools` are the paths of pools by their ids."""
    config, runtime, pool = job.config, job.runtime, job.config.respoolID.value
    log, workload = config.changeLog, job_workload(config)
    return JobHead(
        id=job.id.value,
        name=config.name or "(no name)",
        type=job_pb2.JobType.Name(config.type).lower(),
        state=job_pb2.JobState.Name(runtime.state),
        goal=job_pb2.JobState.Name(runtime.goalState),
        pool_id=pool,
        pool=pools.get(pool, pool),
        team=config.owningTeam,
        owner=config.owner,
        description=config.description,
        created=seconds_of(runtime.creationTime) or log.createdAt / NANOSECONDS,
        started=seconds_of(runtime.startTime),
        completed=seconds_of(runtime.completionTime),
        updated=log.updatedAt / NANOSECONDS,
        updated_by=log.updatedBy,
        version=log.version or runtime.configurationVersion,
        entity_version=entity_version,
        instances=config.instanceCount,
        released=runtime.releasedInstances,
        labels=[(label.key, label.value) for label in config.labels],
        sla=sla_terms(config),
        asks=asks_of(config.defaultConfig),
        overrides=len(config.instanceConfig),
        command=_command(config.defaultConfig),
        counts=counts(runtime.taskStats, config.instanceCount),
        usage=held_and_used(runtime.resourceUsage),
        peak=peak_text(runtime.resourceUsage),
        asked_mb=asked_memory(config),
        asked_cores=asked_cores(config),
        lost=duration(lost) if (lost := runtime.resourceUsage.get("lost", 0.0)) else "",
        reason=runtime.reason,
        schedule=_schedule(config, runtime) if runtime.HasField("schedule") else None,
        suspended=bool(runtime.suspendedSince),
        bound=workload.elastic or (workload.binds and config.sla.minimumRunningInstances > 1),
    )


def _schedule(config: job_pb2.JobConfig, runtime: job_pb2.RuntimeInfo) -> JobSchedule:
    told = runtime.schedule
    return JobSchedule(
        config.schedule.cron,
        config.schedule.time_zone or "UTC",
        [seconds_of(time) for time in told.next_times],
        seconds_of(told.paused_since),
        told.kept_runs,
    )


def sla_terms(config: job_pb2.JobConfig) -> list[tuple[str, str]]:
    """Return the terms of a job's SLA that say something, in words."""
    sla = config.sla
    terms = [
        (
            "priority",
            f"{sla.priority}, of class {sla.priorityClass}" if sla.priorityClass else str(sla.priority),
        ),
        ("preemptible", "yes: it may be evicted" if sla.preemptible else "no"),
    ]
    if sla.revocable:
        terms.append(("revocable", "yes: its CPU comes from slack"))
    if sla.minimumRunningInstances > 1:
        terms.append(("gang", f"instances 0 to {sla.minimumRunningInstances - 1} start together"))
    if sla.maximumRunningInstances:
        terms.append(("at most running", f"{sla.maximumRunningInstances:,} at a time"))
    if sla.maxRunningTime:
        terms.append(("longest run", duration(sla.maxRunningTime)))
    if sla.maximumUnavailableInstances:
        terms.append(("at most unavailable", f"{sla.maximumUnavailableInstances:,}"))
    return terms


def asks_of(task: task_pb2.TaskConfig) -> list[tuple[str, str]]:
    """Return what a task asks for, without kinds of which it asks for nothing."""
    of = task.resource
    kinds = (
        ("CPU", of.cpuLimit, "cpu"),
        ("memory", of.memLimitMb, "memory"),
        ("disk", of.diskLimitMb, "disk"),
        ("GPU", of.gpuLimit, "gpu"),
    )
    return [(title, amount(value, kind)) for title, value, kind in kinds if value]


def asked_memory(config: job_pb2.JobConfig) -> float:
    """Return the most memory that an instance asks for, in MB."""
    return max(each.memLimitMb for each in _asked(config))


def asked_cores(config: job_pb2.JobConfig) -> float:
    """Return the most cores that an instance asks for."""
    return max(each.cpuLimit for each in _asked(config))


def _asked(config: job_pb2.JobConfig) -> list[task_pb2.ResourceConfig]:
    return [task.resource for task in (config.defaultConfig, *config.instanceConfig.values())]


def _command(task: task_pb2.TaskConfig) -> str:
    return " ".join([task.command.value, *task.command.arguments]).strip()


@dataclass(frozen=True, slots=True)
class TaskSearch:
    """Which instances the table shows."""

    job_id: str
    state: tuple[str, ...] = ()
    host: str = ""
    name: str = ""
    sort: str = "instance_id"
    """A key of SORTS; with `-` before it, largest first."""
    page: int = 1

    @classmethod
    def of(cls, job_id: str, query: QueryParams) -> TaskSearch:
        """Return the search of an address. Raises InvalidArgument."""
        states = tuple(dict.fromkeys(text.upper() for text in query.getlist("state") if text))
        for state in states:
            if state not in TaskState.__members__:
                raise InvalidArgument("state", state, f"one of {', '.join(ORDER)}")
        sort = order_of(query, SORTS, "instance_id")
        host, name = query.get("host", "").strip(), query.get("name", "").strip()
        return cls(job_id, states, host, name, sort, page_number(query))

    @property
    def url(self) -> str:
        """The address of this table."""
        pairs = [("state", state) for state in self.state]
        texts = (("host", "", self.host), ("name", "", self.name), ("sort", "instance_id", self.sort))
        pairs += [(key, value) for key, usual, value in texts if value != usual]
        pairs += [("page", str(self.page))] if self.page > 1 else []
        address = f"/jobs/{quote(self.job_id, safe='')}"
        return f"{address}?{urlencode(pairs)}" if pairs else address

    def in_state(self, state: str) -> str:
        """Return the address of the instances in one state."""
        return replace(self, state=(state,), page=1).url + "#instances"

    @property
    def narrow(self) -> bool:
        """Whether some instances are left out."""
        return bool(self.state or self.host or self.name)

    def request(self) -> task_pb2.QueryRequest:
        """Return the request for the page."""
        spec = task_pb2.QuerySpec(
            taskStates=[task_pb2.TaskState.Value(state) for state in self.state],
            hosts=[self.host] if self.host else [],
            names=[self.name] if self.name else [],
            pagination=page_of(self.page, PAGE, self.sort),
        )
        return task_pb2.QueryRequest(jobId=peloton_pb2.JobID(value=self.job_id), spec=spec)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """An instance in the table."""

    instance: int
    name: str
    state: str
    goal: str
    health: str
    run: str
    host: str
    started: float
    ended: float
    """0 where it has not."""
    reason: str
    failures: int
    version: int
    url: str
    last: int = -1
    """The last instance of a line of several that wait alike; below 0 for one instance."""
    last_url: str = ""

    @property
    def count(self) -> int:
        """How many instances the line has."""
        return self.last - self.instance + 1 if self.last >= 0 else 1


def task_row(job_id: str, task: task_pb2.TaskInfo) -> TaskRow:
    """Return the row of an instance."""
    runtime = task.runtime
    state = TaskState(runtime.state)
    return TaskRow(
        instance=task.instanceId,
        name=task.config.name,
        state=state.name,
        goal=task_pb2.TaskState.Name(runtime.goalState),
        health=health_of(runtime),
        run=runtime.mesosTaskId.value.rpartition("-")[2],
        host=runtime.host,
        started=seconds_of(runtime.startTime),
        ended=seconds_of(runtime.completionTime) if state.terminal else 0.0,
        reason=ended(runtime) if state.terminal else message_text(runtime),
        failures=runtime.failureCount,
        version=runtime.configVersion,
        url=f"/jobs/{job_id}/instances/{task.instanceId}",
    )


def health_of(runtime: task_pb2.RuntimeInfo) -> str:
    """Return the health that checks found; empty where there are none."""
    if runtime.healthy in (task_pb2.HEALTHY, task_pb2.UNHEALTHY):
        return task_pb2.HealthState.Name(runtime.healthy)
    return ""


@dataclass(frozen=True, slots=True)
class TaskTable:
    """A page of the instances."""

    search: TaskSearch
    rows: Sequence[TaskRow]
    total: int


def task_table(search: TaskSearch, answer: task_pb2.QueryResponse) -> TaskTable:
    """Return the page that an answer holds; instances in a row that are on no host and alike are one line."""
    rows = lines((task_row(search.job_id, task) for task in answer.records), _wait_alike)
    return TaskTable(search, list(map(_line, rows)), answer.pagination.total)


def _wait_alike(one: TaskRow, other: TaskRow) -> bool:
    """Return whether an instance says the same as the one before it, and neither is on a host."""
    if one.host or other.host or other.instance != one.instance + 1:
        return False
    here = replace(one, instance=0, url="", started=other.started, ended=other.ended)
    return (
        here == replace(other, instance=0, url="")
        and near(one.started, other.started)
        and near(one.ended, other.ended)
    )


def _line(rows: Sequence[TaskRow]) -> TaskRow:
    first, last = rows[0], rows[-1]
    return replace(first, last=last.instance, last_url=last.url) if len(rows) > 1 else first
