"""Jobs: config, runtime, and the row that queries read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from peloton.fast_init import fast_init
from peloton.model.constraint import Label
from peloton.model.dependency import Dependency
from peloton.model.ids import JobId, PoolId
from peloton.model.payload import Payload
from peloton.model.plural import plural
from peloton.model.schedule import Schedule, ScheduleState
from peloton.model.spans import spans
from peloton.model.states import JobState, JobType, PlacementStrategy, TaskState, TaskType
from peloton.model.task import TaskSpec
from peloton.model.workload import NO_JOB_WORKLOAD, JobWorkload

MAX_INSTANCES = 100_000
"""The most instances that a job may have."""


_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Sla:
    """The SLA of a job."""

    priority: int = 0
    preemptible: bool = False
    revocable: bool = False
    maximum_running_instances: int = 0
    """0: all instances."""
    minimum_running_instances: int = 0
    """Above 1: instances 0 … n-1 form one gang."""
    max_running_time: int = 0
    """Seconds since RUNNING; 0: no limit."""
    maximum_unavailable_instances: int = 0
    priority_class: str = ""
    """The name of the class that gave it its priority; empty: none."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One version of a job's config. Kept once per version; instances share it."""

    version: int
    name: str
    type: JobType
    pool_id: PoolId
    instance_count: int
    """One more than the highest number of an instance; 0 for a daemon job, whose hosts decide. Released
    instances of a batch job are among them: the function `instance_count` leaves them out."""
    sla: Sla
    default: TaskSpec
    overrides: Mapping[int, TaskSpec]
    """Specs of the instances that differ from the default, already merged with it."""
    payload: Payload
    """The config as it was given."""
    owning_team: str = ""
    owner: str = ""
    """As given. What queries and summaries call a job's owner is its owning team."""
    labels: tuple[Label, ...] = ()
    placement_strategy: PlacementStrategy = PlacementStrategy.INVALID
    workload: JobWorkload = NO_JOB_WORKLOAD
    depends_on: tuple[Dependency, ...] = ()
    """The jobs whose ends it waits for before its instances are created."""
    schedule: Schedule | None = None
    """When it is run; each run is a job of its own, and this one has no instances."""
    has_peers: bool = False
    """Whether a task needs the address of another one."""

    def task(self, instance: int) -> TaskSpec:
        """Return the spec of an instance."""
        return self.overrides.get(instance, self.default)

    def preemptible(self, instance: int) -> bool:
        """Return whether the instance may be preempted. A stateful one may not: it could run nowhere else."""
        if self.task(instance).stateful:
            return False
        own = self.task(instance).preemptible
        return self.sla.preemptible if own is None else own

    def revocable(self, instance: int) -> bool:
        """Return whether the instance takes its CPU from slack: by the SLA of the job or by its own spec."""
        return self.sla.revocable or self.task(instance).revocable

    def task_type(self, instance: int) -> TaskType:
        """Return the type of engine that places the instance."""
        if self.type is JobType.DAEMON:
            return TaskType.DAEMON
        if self.task(instance).stateful:
            return TaskType.STATEFUL
        return TaskType.BATCH if self.type is JobType.BATCH else TaskType.STATELESS

    @property
    def stateful(self) -> bool:
        """Return whether an instance has a volume."""
        return self.default.stateful or any(task.stateful for task in self.overrides.values())

    @property
    def gang_size(self) -> int:
        """Number of instances, from 0 on, that form one gang; 0 where each stands alone.

        Of an elastic gang these are the members that it needs: extras may join them.
        """
        minimum = self.sla.minimum_running_instances
        if self.workload.elastic:
            return max(minimum, 1)
        return minimum if minimum > 1 else 0

    @property
    def rendezvous_size(self) -> int:
        """Number of instances, from 0 on, that get the addresses of all of them; 0 where none does."""
        if not self.workload.meets:
            return 0
        if self.workload.elastic:
            return self.instance_count
        return self.gang_size or (1 if self.instance_count == 1 else 0)

    @property
    def bound_members(self) -> int:
        """Number of instances, from 0 on, that end and run again as one; 0 where each does alone."""
        if self.workload.elastic and self.workload.binds:
            return self.instance_count
        return self.gang_size if self.workload.binds else 0

    def is_extra(self, instance: int) -> bool:
        """Return whether the instance is a member of an elastic gang beyond those that it needs."""
        return self.workload.elastic and instance >= self.gang_size

    def in_gang(self, instance: int) -> bool:
        """Return whether the instance is one of a gang of several."""
        return instance < self.gang_size

    def gang_size_of(self, instance: int) -> int:
        """Return the size of the gang of an instance; 1 for one that stands alone."""
        size = self.gang_size
        return size if instance < size else 1


fast_init(JobSpec)


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """Instances of a service that failed and wait, throttled, before their next run."""

    throttled: int
    """How many they are."""
    instances: int
    """How many the service has."""
    next_try: int
    """When the first of them runs again, in nanoseconds since 1970."""

    def told(self, next_try: str) -> str:
        """Tell the crash loop; `next_try` is the time as the wire has it, shown to the second."""
        wait = "instance waits" if self.instances == 1 else "instances wait"
        counted = f"{self.throttled} of {self.instances} {wait}"
        second = next_try.partition(".")[0].removesuffix("Z")
        return f"crash-looping: {counted} after failures, next try at {second}Z"


@dataclass(frozen=True, slots=True)
class GangRestart:
    """A gang that is to run again as one, and waits for the ends of runs."""

    waits: tuple[int, ...]
    """The instances whose runs have not ended."""
    cause: str
    """By which instance, and how that ended."""
    failures: int
    most: int
    """The maxFailures of the instance that ended first."""

    def told(self) -> str:
        """Tell the restart, such as `gang restarts: waits for the end of instances 1-3, failure 2 of 5`."""
        which = ("instance " if len(self.waits) == 1 else "instances ") + spans(self.waits)
        failed = f", failure {self.failures} of {self.most}" if self.failures else ""
        return f"gang restarts: waits for the end of {which}{failed}; {self.cause}"


@dataclass(frozen=True, slots=True)
class GangMembers:
    """The members of an elastic gang."""

    there: int
    """How many are on hosts."""
    least: int
    most: int

    def told(self) -> str:
        """Tell the size, such as `elastic gang: 3 members on hosts, of 2 to 4`."""
        return f"elastic gang: {plural(self.there, 'member')} on hosts, of {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class JobRuntime:
    """The state of a job. Times are nanoseconds since 1970 in UTC, 0 where not yet known."""

    state: JobState
    goal: JobState
    config_version: int
    creation_time: int
    start_time: int = 0
    completion_time: int = 0
    task_counts: Mapping[TaskState, int] = field(default_factory=dict)
    config_counts: Mapping[int, int] = field(default_factory=dict)
    """Instances by config version."""
    workflow_version: int = 0
    state_version: int = 1
    desired_state_version: int = 1
    update_id: str = ""
    resource_usage: Mapping[str, float] = field(default_factory=dict)
    revision: int = 1
    updated_at: int = 0
    goal_by: str = ""
    """Who asked for the goal; empty where callers are not known."""
    crash_loop: CrashLoop | None = None
    """Known of active services, where they are read. It follows from the tasks and is not stored."""
    gang_restart: GangRestart | None = None
    """Known of active batch jobs, likewise."""
    gang_members: GangMembers | None = None
    """Known of active jobs with an elastic gang, likewise."""
    released: int = 0
    """Instances of a batch job that were released: their numbers are free, or will be when they end."""
    unmet: tuple[JobId, ...] = ()
    """Jobs whose ends it still waits for: it has no instances yet."""
    schedule: ScheduleState | None = None
    """How far its schedule is; None where it has none, or that has not begun."""
    suspended: int = 0
    """Since when a batch job is suspended; 0: it is not."""
    waits: str = ""
    """What an active job waits for before it gets instances, where it is read. It is not stored."""
    follows: tuple[JobId, Schedule] | None = None
    """An active job with a schedule, likewise."""

    @property
    def schedule_state(self) -> ScheduleState:
        """How far the schedule is: times before the job was created are none of it."""
        return self.schedule or ScheduleState(seen=self.creation_time // _NANOSECONDS)


fast_init(JobRuntime)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job without its instances' configs."""

    job_id: JobId
    spec: JobSpec
    runtime: JobRuntime

    @property
    def instance_count(self) -> int:
        """Number of instances: of a daemon job as many as there are now, of others those not released."""
        return instance_count(self.spec, self.runtime)


def instance_count(spec: JobSpec, runtime: JobRuntime) -> int:
    """Return the number of instances: of a daemon job those there are now, of others those not released.

    Those of a batch job may have any numbers below the `instance_count` of its spec.
    """
    if spec.type is JobType.DAEMON:
        return sum(runtime.task_counts.values())
    return spec.instance_count - runtime.released


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Closed range of nanoseconds since 1970; None is open."""

    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class JobScope:
    """A part of all jobs."""

    pools: frozenset[PoolId] | None = None
    """None: of all pools."""
    owner: str | None = None
    """The owner of the spec, not its owning team. None: of all owners."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A query for jobs. Empty fields do not filter; all given ones must match."""

    labels: tuple[Label, ...] = ()
    keywords: tuple[str, ...] = ()
    """Each found somewhere in the config, without regard to case."""
    states: frozenset[JobState] = frozenset()
    pool_id: PoolId = ""
    owner: str = ""
    name: str = ""
    """`*` stands for any text and `?` for any character; else a part of the name is enough."""
    exact_name: str = ""
    reference: str = ""
    """A whole name, or an id or its first characters (`peloton.model.ids.may_begin_id`)."""
    created: TimeRange = TimeRange()
    completed: TimeRange | None = None
    """Where given, jobs that have not ended are left out."""
    order: tuple[tuple[str, bool], ...] = (("creation_time", True),)
    """Property and whether descending: creation_time, completion_time, name, owner, state."""
    max_limit: int = 0
    """Cuts the result first; 0: no cut."""
    offset: int = 0
    limit: int = 10
    ids: frozenset[JobId] | None = None
    """Only these jobs; None: all jobs."""
    within: tuple[JobScope, ...] | None = None
    """Only jobs of any of these parts; None: all jobs."""


@dataclass(frozen=True, slots=True)
class JobKey:
    """A job that a query matches, and its place in the order of the result."""

    job_id: JobId
    values: tuple[int | str, ...]
    """One for each property of the query's order."""


@dataclass(frozen=True, slots=True)
class JobKeys:
    """What the jobs of some shards add to the result of a query."""

    shards: frozenset[int]
    keys: tuple[JobKey, ...]
    """The first ones in the order of the result, up to the end of the page that is asked for."""
    total: int
    """The number of all matches, without regard to max_limit."""


@dataclass(frozen=True, slots=True)
class JobLosses:
    """The seconds of work that the jobs of some shards have lost since checkpoints."""

    shards: frozenset[int]
    """The shards whose jobs are counted."""
    seconds: Mapping[PoolId, float]


@dataclass(frozen=True, slots=True)
class JobPage:
    """The result of a query: one page, and the number of all matches (after max_limit)."""

    jobs: tuple[JobSummary, ...]
    total: int
