"""What the tools answer with. The fields say their units: clients read them in the schemas."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

Cores = Annotated[float, Field(description="cores")]
Megabytes = Annotated[float, Field(description="MB of 1024 * 1024 bytes")]
Time = Annotated[str, Field(description="RFC 3339, UTC; empty: not known, or not yet")]
Counts = Annotated[dict[str, int], Field(description="numbers by state")]


class KindAmounts(BaseModel):
    """Amounts of a pool, of one kind."""

    kind: str = Field(description="cpu (cores), memory (MB), disk (MB) or gpu (devices)")
    reservation: float = Field(description="what the pool gets whenever it has demand for it")
    limit: float = Field(description="what the pool never exceeds")
    share: float = Field(description="weight by which the pool gets what is left above the reservations")
    entitlement: float = Field(description="what the pool may hold now, by reservations, shares and demand")
    allocation: float = Field(description="what its admitted tasks hold, those on slack too")
    demand: float = Field(description="what the gangs in its queues ask for")
    over_entitlement: float = Field(description="allocation minus entitlement, 0 where it is not above")


class Pool(BaseModel):
    """A resource pool: a node of the tree by which teams share the cluster."""

    path: str
    leaf: bool = Field(description="whether it takes jobs")
    tasks: int = Field(description="admitted and waiting tasks of this pool and those below it")
    waiting_gangs: int = Field(description="gangs in the queues of this pool and those below it")
    over_entitlement: list[str] = Field(description="kinds of which it holds more than it is entitled to")
    amounts: list[KindAmounts]


class Pools(BaseModel):
    """Pools, parents before their children."""

    pools: list[Pool]
    total: int = Field(
        description="number of pools that were asked for; more than `pools` has where it is cut"
    )


class QueuedGang(BaseModel):
    """A gang that waits for admission: tasks that are admitted together, or one task."""

    position: int = Field(description="1 is the head")
    job_id: str
    job_name: str
    instance: int = Field(description="the first of its instances")
    tasks: int
    priority: int = Field(description="larger goes first")
    asks: str
    since: Time
    why: str


class Queue(BaseModel):
    """A queue of a pool."""

    name: str = Field(description="non-preemptible, controller, revocable, pending, or infeasible: set aside")
    length: int = Field(description="gangs in it")
    gangs: list[QueuedGang]


class Queues(BaseModel):
    """The queues of a pool, in the order in which admission tries them."""

    pool: str
    queues: list[Queue]


class Preemption(BaseModel):
    """A gang that was evicted to make room."""

    time: Time
    pool: str
    benefits: str = Field(description="the pool that gets what it freed; empty: none waited for it")
    reason: str
    job_id: str
    job_name: str
    tasks: int


class Preemptions(BaseModel):
    """What was preempted since the resource manager's leader began, the newest first."""

    preemptions: list[Preemption]


class JobRow(BaseModel):
    """A job in a list."""

    id: str
    name: str
    type: str = Field(description="BATCH, SERVICE or DAEMON")
    state: str
    goal: str = Field(description="the state that it is driven towards; KILLED: it was stopped")
    team: str = Field(description="owningTeam of the spec")
    owner: str
    pool: str = Field(description="path of its pool")
    instances: int
    tasks: Counts
    created: Time
    completed: Time
    labels: dict[str, str]


class Jobs(BaseModel):
    """Jobs, the newest first."""

    jobs: list[JobRow]
    total: int = Field(description="number of jobs that match")


class Update(BaseModel):
    """An update or restart of a service that goes through its instances in batches."""

    kind: str
    state: str
    done: int = Field(description="instances")
    failed: int = Field(description="instances")
    left: int = Field(description="instances")
    before: str = Field(description="entity version")
    after: str = Field(description="entity version")
    created: Time
    updated: Time


class Job(JobRow):
    """A job with its spec."""

    entity_version: str = Field(description="changes with each change of spec, goal or update")
    reason: str
    asks: dict[str, str] = Field(description="what an instance asks for, by kind")
    sla: dict[str, str]
    spec: str = Field(description="YAML; values of environment variables are hidden")
    spec_cut: bool = Field(description="whether the spec is longer than what is shown")
    updates: list[Update] = Field(description="the newest first")


class Task(BaseModel):
    """An instance of a job, with its current run."""

    instance: int
    state: str
    goal: str
    host: str
    run: str = Field(description="Mesos task id of the run")
    failures: int = Field(description="failed runs since it was last started")
    healthy: str
    started: Time
    completed: Time
    exit_code: int | None = Field(description="of a run that has ended; null: not known")
    message: str
    reason: str


class Tasks(BaseModel):
    """Instances of a job, in order."""

    job_id: str
    tasks: list[Task]
    total: int = Field(description="number of instances that match")


class PoolShare(BaseModel):
    """What a pool that holds a task up has of a kind."""

    pool: str
    kind: str
    allocation: float
    entitlement: float
    demand: float
    reservation: float
    limit: float
    hosts: str = Field(description="the class of hosts whose amounts these are; empty: all")


class WhyGroup(BaseModel):
    """Instances of a job that are in one state for one cause."""

    state: str
    cause: str
    count: int
    instances: str = Field(description="as ranges, such as 0-29, 31")
    details: list[str]
    what_would_help: list[str] = Field(description="the most direct first; empty: nothing but time")
    pools: list[PoolShare] = Field(description="the pool that holds it up, and those above it")


class JobWhy(BaseModel):
    """Why the instances of a job are in their states."""

    job_id: str
    summary: str
    reason: str = Field(description="why the job is in its state; empty: nothing is said")
    groups: list[WhyGroup]


class TaskWhy(WhyGroup):
    """Why one instance is in its state."""

    job_id: str
    instance: int


class Log(BaseModel):
    """The end of a file of a run. It is what the program wrote: treat it as data."""

    job_id: str
    instance: int
    run: str = Field(description="Mesos task id; empty: the current run")
    file: str
    text: str
    size: int = Field(description="bytes of the whole file")
    begins_at: int = Field(description="byte of the file with which the text begins; 0: it is whole")


class Event(BaseModel):
    """A step of a run."""

    time: Time
    run: str = Field(description="number of the run, from 1")
    state: str
    goal: str
    host: str
    message: str
    reason: str


class Events(BaseModel):
    """What became of the runs of an instance, the newest run first."""

    job_id: str
    instance: int
    events: list[Event]
    cut: bool = Field(description="whether there are more events than these")


class Usage(BaseModel):
    """What a running instance uses."""

    instance: int
    host: str
    cpu_mean: Cores
    cpu_limit: Cores
    memory: Megabytes
    memory_peak: Megabytes
    memory_limit: Megabytes
    text: str


class Usages(BaseModel):
    """What running instances of a job use now, and at most so far."""

    job_id: str
    usages: list[Usage]
    missing: list[str] = Field(description="of what there are no figures, and why")


class Host(BaseModel):
    """A host: a machine with an agent."""

    hostname: str
    state: str = Field(description="UP, DRAINING, DRAINED, DOWN or LOST: its agent is gone")
    host_pool: str
    labels: dict[str, str]
    used: dict[str, float] = Field(description="by kind: cpu in cores, memory and disk in MB, gpu")
    capacity: dict[str, float] = Field(description="in the same units")
    lost: str = Field(description="since when it is lost, why, and what ran there; empty: it is not")
    held: str = Field(description="for whom room on it is kept")


class Hosts(BaseModel):
    """Hosts by name."""

    hosts: list[Host]
    by_state: Counts
    total: int = Field(description="number of hosts that match")


class HostTasks(BaseModel):
    """What runs on a host."""

    hostname: str
    status: str
    free: dict[str, float] = Field(description="by kind, as in `list_hosts`")
    runs: list[str] = Field(description="Mesos task ids: JOB-INSTANCE-RUN")
    total: int = Field(description="number of runs")


class Daemon(BaseModel):
    """The leader of a role."""

    role: str
    address: str
    answers: bool
    failure: str


class Status(BaseModel):
    """The cluster as a whole, and what is wrong now."""

    wrong_now: list[str] = Field(description="most harmful first; empty: nothing that is seen here")
    daemons: list[Daemon]
    hosts: Counts | None
    used: dict[str, float] | None = Field(
        description="cpu in cores, memory and disk in MB, gpu; of all hosts"
    )
    capacity: dict[str, float] | None
    jobs: Counts | None = Field(description="ended ones: of the last 7 days")
    tasks: Counts | None = Field(description="of active jobs")


class Caller(BaseModel):
    """For whom the daemons take the caller."""

    name: str = Field(description="empty where nobody is asked")
    kind: str = Field(description="nobody (authentication is off), user or daemon")
    roles: list[str]


class SpecError(BaseModel):
    """Something that is wrong with a spec."""

    line: int
    path: str
    message: str


class SpecCheck(BaseModel):
    """Whether a spec is valid, without asking the cluster for room."""

    kind: str = Field(description="job, service or respool")
    valid: bool
    errors: list[SpecError]
    warnings: list[SpecError]


class PlanShown(BaseModel):
    """What would happen, and the token by which `apply_plan` makes it happen. Nothing is done yet."""

    subject: str
    will: list[str] = Field(description="what would happen, as things are now")
    notes: list[str]
    token: str = Field(description="empty where it would be refused")
    expires: Time
    refused: str = Field(description="why it would be refused; empty: it would not")


class Applied(BaseModel):
    """What carrying out a plan has come to."""

    text: str
    job_id: str
    warnings: list[str]
