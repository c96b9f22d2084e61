"""One host: its tasks, attributes, resources by role, and what maintenance would mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peloton.model.amounts import plain
from peloton.web.views.hosts.rows import HostRow

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.private.hostmgr.hostsvc.hostsvc_pb2 import GetMesosAgentInfoResponse

MOST_TASKS = 200
"""Tasks of a host that are read and listed."""
_KINDS = {"cpus": "CPU", "mem": "Memory (MB)", "disk": "Disk (MB)", "gpus": "GPU"}


@dataclass(frozen=True, slots=True)
class Run:
    """A run on a host, by the parts of its Mesos task id; `instance` is -1 where it is none of Peloton's."""

    id: str
    job_id: str
    instance: int
    number: int

    @property
    def ours(self) -> bool:
        """Return whether it is a run of a Peloton job."""
        return self.instance >= 0


def run_of(task_id: str) -> Run:
    """Take a Mesos task id apart."""
    rest, _, number = task_id.rpartition("-")
    job_id, _, instance = rest.rpartition("-")
    if not (job_id and instance.isdigit() and number.isdigit()):
        return Run(task_id, "", -1, 0)
    return Run(task_id, job_id, int(instance), int(number))


@dataclass(frozen=True, slots=True)
class HostTask:
    """A task on a host."""

    run: Run
    job_name: str = ""
    state: str = ""
    started: str = ""
    cpu: float = 0.0
    memory: float = 0.0
    note: str = ""
    """What is to be known about it, or why nothing is known."""


def host_task(run: Run, info: TaskInfo | None, job: JobInfo | None, trouble: str = "") -> HostTask:
    """Describe a task by what the job manager says of it, if it says something."""
    from peloton.api.v0.task import task_pb2

    name = job.config.name if job is not None else ""
    if info is None:
        return HostTask(run, name, note=trouble if run.ours else "not a task of Peloton")
    asked, runtime = info.config.resource, info.runtime
    current = runtime.mesosTaskId.value in ("", run.id)
    return HostTask(
        run,
        name,
        task_pb2.TaskState.Name(runtime.state) if current else "ENDING",
        runtime.startTime if current else "",
        asked.cpuLimit,
        asked.memLimitMb,
        runtime.message if current else "an earlier run of its instance",
    )


@dataclass(frozen=True, slots=True)
class RoleAmount:
    """What an agent has for a role."""

    agent: str
    role: str
    """`*` for what no role has reserved."""
    kind: str
    total: float
    allocated: float
    revocable: bool = False
    ranges: str = ""
    """Ports, which are ranges instead of an amount."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent of a host as the Mesos master lists it."""

    id: str
    version: str
    address: str
    active: bool
    registered: float
    """Seconds since 1970; 0 where it is not known."""
    attributes: tuple[tuple[str, str], ...]
    amounts: tuple[RoleAmount, ...]


def agent_views(answer: GetMesosAgentInfoResponse) -> tuple[AgentView, ...]:
    """Return the agents of an answer."""
    return tuple(map(_agent, answer.agents))


def _agent(agent: Any) -> AgentView:
    info = agent.agent_info
    time = agent.reregistered_time if agent.HasField("reregistered_time") else agent.registered_time
    return AgentView(
        id=info.id.value,
        version=agent.version,
        address=agent.pid.partition("@")[2] or f"{info.hostname}:{info.port}",
        active=agent.active,
        registered=time.nanoseconds / 1e9,
        attributes=tuple((each.name, _value(each)) for each in info.attributes),
        amounts=_amounts(info.id.value, agent.total_resources, agent.allocated_resources),
    )


def _value(resource: Any) -> str:
    """Return the value of an attribute or a resource as text."""
    if resource.HasField("ranges"):
        return ", ".join(f"{part.begin}-{part.end}" for part in resource.ranges.range)
    if resource.HasField("set"):
        return ", ".join(resource.set.item)
    return f"{plain(resource.scalar.value)}" if resource.HasField("scalar") else str(resource.text.value)


def _role(resource: Any) -> str:
    """Return the role that holds a resource: of the innermost reservation, else `*`."""
    return resource.reservations[-1].role if resource.reservations else resource.role or "*"


def _amounts(agent: str, total: Iterable[Any], allocated: Iterable[Any]) -> tuple[RoleAmount, ...]:
    have: dict[tuple[str, str, bool], float] = defaultdict(float)
    used: dict[tuple[str, str, bool], float] = defaultdict(float)
    spans: list[RoleAmount] = []
    for amounts, resources in ((have, total), (used, allocated)):
        for each in resources:
            if each.HasField("scalar"):
                amounts[_role(each), each.name, each.HasField("revocable")] += each.scalar.value
            elif amounts is have:
                spans.append(RoleAmount(agent, _role(each), each.name, 0, 0, ranges=_value(each)))
    rows = [
        RoleAmount(agent, role, _KINDS.get(name, name), have.get(key, 0.0), used.get(key, 0.0), revocable)
        for key in sorted({**have, **used})
        for role, name, revocable in [key]
    ]
    return tuple(rows + spans)


@dataclass(frozen=True, slots=True)
class JobImpact:
    """What the maintenance of hosts means for the tasks of one job."""

    job_id: str
    name: str
    kind: str
    here: int
    """Its tasks on the hosts."""
    text: str
    binds: bool
    """Whether its SLA makes the tasks wait for each other or for others."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What the maintenance of some hosts would do."""

    hosts: tuple[HostRow, ...]
    unknown: tuple[str, ...]
    """Names of hosts that there are not."""
    not_up: tuple[HostRow, ...]
    """Hosts in maintenance already."""
    impacts: tuple[JobImpact, ...]
    others: int
    """Tasks on the hosts that are not Peloton's."""
    concerns: tuple[str, ...]
    """Jobs that would have no host left for some instances."""
    unchecked: str
    """Why it is not known whether there are concerns; empty where it is known."""

    @property
    def tasks(self) -> int:
        """Return how many tasks would end on the hosts."""
        return sum(each.here for each in self.impacts) + self.others

    @property
    def possible(self) -> bool:
        """Return whether maintenance can start."""
        return bool(self.hosts) and not self.unknown


def preview(
    hosts: Sequence[HostRow],
    unknown: Iterable[str],
    runs: Iterable[Run],
    jobs: Mapping[str, JobInfo | None],
    concerns: Iterable[str],
    unchecked: str = "",
) -> Preview:
    """Describe the maintenance of hosts, which have these runs now."""
    runs = list(runs)
    counts = Counter(run.job_id for run in runs if run.ours)
    impacts = [_impact(job_id, count, jobs.get(job_id)) for job_id, count in counts.items()]
    return Preview(
        hosts=tuple(row for row in hosts if row.up),
        unknown=tuple(unknown),
        not_up=tuple(row for row in hosts if not row.up),
        impacts=tuple(sorted(impacts, key=lambda each: (not each.binds, -each.here, each.name))),
        others=sum(not run.ours for run in runs),
        concerns=tuple(concerns),
        unchecked=unchecked,
    )


def _impact(job_id: str, here: int, job: JobInfo | None) -> JobImpact:
    from peloton.api.v0.job import job_pb2

    if job is None:
        return JobImpact(job_id, "", "", here, "nothing is known about this job at the moment", False)
    kind = job_pb2.JobType.Name(job.config.type).lower()
    text, binds = _consequence(job, here)
    return JobImpact(job_id, job.config.name, kind, here, text, binds)


def _consequence(job: JobInfo, here: int) -> tuple[str, bool]:
    """Return what becomes of a job's tasks on the hosts, and whether its SLA binds."""
    from peloton.api.v0.job import job_pb2

    one = here == 1
    if job.config.type == job_pb2.DAEMON:
        return (
            "ends here, and runs here again" if one else "end here, and run here again"
        ) + " afterwards", False
    if job.config.type == job_pb2.BATCH:
        return ("is" if one else "are") + " killed and run again elsewhere; no failure is counted", False
    limit, total = job.config.sla.maximumUnavailableInstances, job.config.instanceCount
    if not limit:
        return ("moves" if one else "move at once") + ": the job has no limit of unavailable instances", False
    missing = max(total - job.runtime.taskStats.get("RUNNING", 0), 0)
    bound = f"at most {limit} of {total} may be unavailable"
    if missing >= limit:
        return f"wait{'s' if one else ''}: {bound}, and {missing} {_are(missing)} now", True
    room = limit - missing
    if here > room:
        return f"move {room} at a time: {bound}" + (
            f", and {missing} {_are(missing)} now" if missing else ""
        ), True
    return ("moves" if one else "move at once") + f": {bound}", False


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
