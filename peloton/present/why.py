"""Explanations of the states of tasks, from what the job manager and the resource manager know of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peloton.clock import rfc3339
from peloton.model.plural import plural
from peloton.model.states import TERMINAL_TASK_STATES, TaskState
from peloton.model.task import MAX_FAILURES
from peloton.present.explanations import blocking_shares, explanation_lines, position_text
from peloton.present.texts import clean
from peloton.present.times import run_time, short_time

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.api.v0.task.task_pb2 import PodEvent, QueryRequest, RuntimeInfo, TaskInfo
    from peloton.model.job import JobSpec
    from peloton.private.resmgr.explain.explain_pb2 import Explanation, Share
    from peloton.private.resmgr.explain.explain_pb2 import Group as ResmgrGroup

UNKNOWN_TO_RESMGR = (
    "the resource manager does not know it: the job manager has just enqueued it or will do so again"
)
MAX_TASKS = 1000
"""Tasks of one state that are read for a job; the others are only counted."""
_ACTIVITIES = {
    "LAUNCHED": "handed to Mesos; its agent has not started it yet",
    "STARTING": "its agent starts it",
    "RUNNING": "running",
    "KILLING": "being killed",
    "PREEMPTING": "to be evicted: its resources are needed elsewhere",
}
ENDED = tuple(state.name for state in sorted(TERMINAL_TASK_STATES))
ON_HOST = tuple(_ACTIVITIES)
"""Those of `peloton.model.states.ON_HOST_TASK_STATES`, in the order of a run."""


@dataclass(slots=True)
class Group:
    """Instances of a job in one state for one cause."""

    state: str
    cause: str
    count: int = 0
    instances: list[int] = field(default_factory=list)
    """Those that were read, which may be fewer than `count`."""
    lines: list[str] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    """What its pool and that one's ancestors have, where a pool holds it up."""
    first: Explanation | None = None
    """What the resource manager knows of the first of them; None where the job manager explains them."""


@dataclass(frozen=True, slots=True)
class Why:
    """The state of a task and its cause, what is known beside them, and the shares of its pools."""

    state: str
    cause: str
    lines: list[str] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)


def state_name(number: int) -> str:
    """Return the name of a task state. Raises ValueError for an unknown number."""
    return TaskState(number).name


# One task.


def explain_task(
    info: TaskInfo, found: Explanation | None, job: JobInfo | None, now: float, failure: str = ""
) -> Why:
    """Explain a task.

    `found` is what the resource manager knows of a task that is on no host, `failure` why that is not known;
    `job` is needed for one that is INITIALIZED; `now` is in seconds since 1970.
    """
    why = _explain_task(info, found, job, now)
    if failure and why.state not in ON_HOST:
        why.lines.append(failure)
    return why


def _explain_task(info: TaskInfo, found: Explanation | None, job: JobInfo | None, now: float) -> Why:
    runtime = info.runtime
    state = state_name(runtime.state)
    if found is not None and not _runs(state, found):
        return Why(
            state_name(found.state), clean(found.cause), explanation_lines(found), blocking_shares(found)
        )
    if state in ENDED:
        return Why(state, ended(runtime), _ended_lines(info))
    if state in ON_HOST:
        return Why(state, _ACTIVITIES[state], _on_host_lines(runtime, now))
    if state == "INITIALIZED" and job is not None:
        cause = not_enqueued(runtime, info.instanceId, job, _spec(job))
        return Why(state, cause, _failed_before(info))
    return Why(state, message_text(runtime) or UNKNOWN_TO_RESMGR)


def _runs(state: str, found: Explanation) -> bool:
    """Return whether a task is on a host, by both managers, and left there."""
    return state in ON_HOST and state_name(found.state) in ON_HOST and state_name(found.state) != "PREEMPTING"


# What the job manager knows.


def _spec(job: JobInfo) -> JobSpec:
    from peloton.wire.job import job_spec

    return job_spec(job.config, 0)


def not_enqueued(runtime: RuntimeInfo, instance: int, job: JobInfo, spec: JobSpec) -> str:
    """Return why an INITIALIZED task of a job is not with the resource manager."""
    stats = job.runtime.taskStats
    scheduled = sum(count for name, count in stats.items() if name not in (*ENDED, "INITIALIZED", "UNKNOWN"))
    most = spec.sla.maximum_running_instances
    created = sum(count for name, count in stats.items() if name != "UNKNOWN")
    if state_name(runtime.goalState) == "KILLED":
        return "it is stopped: its goal is KILLED"
    if message_text(runtime):
        return message_text(runtime)
    if most and scheduled >= most:
        return (
            f"not enqueued: {plural(scheduled, 'instance is', 'instances are')} scheduled, "
            f"maximumRunningInstances is {most}; it follows when one ends"
        )
    if spec.in_gang(instance) and created < min(spec.gang_size, spec.instance_count):
        return f"not enqueued: only {created} of the {spec.gang_size} of its gang are created"
    return "the job manager has not enqueued it yet"


def message_text(runtime: RuntimeInfo) -> str:
    """Return message and reason of a run as one text."""
    parts = dict.fromkeys(clean(part) for part in (runtime.message, runtime.reason) if part)
    return "; ".join(parts)


def waits_for_next_run(runtime: RuntimeInfo) -> bool:
    """Return whether a run has failed and a next one is to come: its message may tell of the wait alone."""
    state = state_name(runtime.state)
    return state in ENDED and state != "SUCCEEDED" and state_name(runtime.goalState) == "RUNNING"


def end_of_run(runtime: RuntimeInfo, events: Iterable[PodEvent]) -> str:
    """Return what the events of a run tell of its end, and its message does not; empty where nothing."""
    state, told = state_name(runtime.state), message_text(runtime)
    for event in events:
        message = clean(event.message)
        if event.actualState == state and message and message not in told:
            return f"the run ended: {message}"
    return ""


def ended(runtime: RuntimeInfo) -> str:
    """Describe how a run ended, with the same text for runs that ended the same way."""
    from peloton.api.v0.task import task_pb2

    end = runtime.terminationStatus
    parts = []
    if end.killed_for:
        parts.append(clean(end.killed_for))
    elif runtime.HasField("terminationStatus") and end.reason:
        name = task_pb2.TerminationStatus.Reason.Name(end.reason)
        parts.append(name.removeprefix("TERMINATION_STATUS_REASON_").replace("_", " ").lower())
    if end.signal:
        parts.append(f"signal {clean(end.signal)}")
    elif end.exit_code or state_name(runtime.state) == "SUCCEEDED":
        parts.append(f"exit code {end.exit_code}")
    return ", ".join(parts) or message_text(runtime) or "no reason is known"


def _ended_lines(info: TaskInfo) -> list[str]:
    runtime = info.runtime
    lines = []
    if runtime.completionTime:
        took = run_time(runtime.startTime, runtime.completionTime, 0.0)
        lines.append(f"ended {short_time(runtime.completionTime)}" + (f" after {took}" if took else ""))
    if runtime.host:
        lines.append(f"on host {clean(runtime.host)}")
    if message_text(runtime):
        lines.append(message_text(runtime))
    if state_name(runtime.state) != "SUCCEEDED":
        lines.append(_retries(info))
    return lines


def _retries(info: TaskInfo) -> str:
    most = min(info.config.restartPolicy.maxFailures, MAX_FAILURES)
    failed = info.runtime.failureCount
    if rules := info.config.restartPolicy.rules:
        rest = f"maxFailures {most} for other ends"
        return f"failed runs: {failed}; {plural(len(rules), 'retry rule')}, {rest}"
    return f"failed runs: {failed}; maxFailures {most}: retries left: {max(most - failed, 0)}"


def _failed_before(info: TaskInfo) -> list[str]:
    return [_retries(info)] if info.runtime.failureCount else []


def _on_host_lines(runtime: RuntimeInfo, now: float) -> list[str]:
    lines = []
    if runtime.startTime:
        lines.append(f"since {short_time(runtime.startTime)}: {run_time(runtime.startTime, '', now)}")
    elif runtime.revision.updatedAt:
        lines.append(f"since {short_time(rfc3339(runtime.revision.updatedAt))}")
    if runtime.host:
        lines.append(f"on host {clean(runtime.host)}")
    if message_text(runtime):
        lines.append(message_text(runtime))
    return lines


# A job.


def waiting_groups(groups: Iterable[ResmgrGroup]) -> list[Group]:
    """Return the groups of tasks that the resource manager keeps from running."""
    found = []
    for each in groups:
        state = state_name(each.first.state)
        if state in ON_HOST and state != "PREEMPTING":
            continue
        lines = explanation_lines(each.first)
        if each.count > 1 and each.first.HasField("position"):
            mine = position_text(each.first.position)
            lines[lines.index(mine)] = position_text(each.first.position, each.last_position)
        shares = blocking_shares(each.first)
        cause, instances = clean(each.first.cause), list(each.instances)
        found.append(Group(state, cause, each.count, instances, lines, shares, each.first))
    return found


def task_query(job_id: str, state: str) -> QueryRequest:
    """Return the request for the tasks of a state that `job_groups` looks at."""
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.query import query_pb2
    from peloton.api.v0.task import task_pb2

    spec = task_pb2.QuerySpec(
        taskStates=[task_pb2.TaskState.Value(state)], pagination=query_pb2.PaginationSpec(limit=MAX_TASKS)
    )
    return task_pb2.QueryRequest(jobId=peloton_pb2.JobID(value=job_id), spec=spec)


def states_to_read(job: JobInfo) -> list[str]:
    """Return the states of a job's tasks that the job manager explains, those that wait first."""
    return [state for state in ("INITIALIZED", *ON_HOST, *ENDED) if job.runtime.taskStats.get(state, 0)]


def job_groups(
    job: JobInfo, waiting: Iterable[ResmgrGroup], failure: str, read: Mapping[str, Iterable[TaskInfo]]
) -> list[Group]:
    """Return the tasks of a job, those with one cause together.

    `waiting` is what the resource manager answers, `failure` why it does not, and `read` the tasks that
    `task_query` finds by state.
    """
    groups = waiting_of_job(job, waiting, failure, read.get("INITIALIZED", ()))
    for state, tasks in read.items():
        if state != "INITIALIZED":
            groups += _complete(jobmgr_groups(tasks, job), state, job.runtime.taskStats[state])
    return groups


def waiting_of_job(
    job: JobInfo, waiting: Iterable[ResmgrGroup], failure: str, initialized: Iterable[TaskInfo]
) -> list[Group]:
    """Return the tasks of a job that wait, those with one cause together; as for `job_groups`.

    `initialized` are the tasks that are not with the resource manager, as `task_query` finds them.
    """
    groups, stats = waiting_groups(waiting), job.runtime.taskStats
    unknown = stats.get("PENDING", 0) - sum(group.count for group in groups if group.state != "PREEMPTING")
    if unknown > 0:
        groups.append(Group("PENDING", failure or UNKNOWN_TO_RESMGR, unknown))
    if stats.get("INITIALIZED", 0):
        groups += _complete(jobmgr_groups(initialized, job), "INITIALIZED", stats["INITIALIZED"])
    return groups


def _complete(groups: list[Group], state: str, count: int) -> list[Group]:
    """Add the tasks that were not read to the groups of a state."""
    unread = count - sum(group.count for group in groups)
    if unread > 0 and len(groups) == 1:
        groups[0].count += unread
    elif unread > 0:
        groups.append(Group(state, f"not looked at: only the first {MAX_TASKS} were", unread))
    return groups


def jobmgr_groups(tasks: Iterable[TaskInfo], job: JobInfo) -> list[Group]:
    """Return tasks of one state, grouped by the cause that the job manager knows."""
    spec = _spec(job)
    found: dict[tuple[str, str], Group] = {}
    hosts: dict[tuple[str, str], set[str]] = {}
    for task in tasks:
        runtime, state = task.runtime, state_name(task.runtime.state)
        if state in ENDED:
            cause = ended(runtime)
        elif state in ON_HOST:
            cause = _ACTIVITIES[state]
        else:
            cause = not_enqueued(runtime, task.instanceId, job, spec)
        group = found.setdefault((state, cause), Group(state, cause))
        group.count += 1
        group.instances.append(task.instanceId)
        if runtime.host:
            hosts.setdefault((state, cause), set()).add(runtime.host)
        if state in ENDED and state != "SUCCEEDED" and message_text(runtime) and not group.lines:
            group.lines.append(f"instance {task.instanceId}: {message_text(runtime)}")
    for key, names in hosts.items():
        found[key].lines.insert(0, _hosts_text(names))
    return sorted(found.values(), key=lambda group: -group.count)


def _hosts_text(names: set[str]) -> str:
    shown = ", ".join(clean(name) for name in sorted(names)[:3])
    return f"on {plural(len(names), 'host')}: {shown}" + (", …" if len(names) > 3 else "")


def job_head(job: JobInfo) -> str:
    """Return a text such as `Job ID (name): RUNNING; 10 instances: 7 RUNNING, 3 PENDING`."""
    from peloton.api.v0.job import job_pb2

    stats: Mapping[str, int] = job.runtime.taskStats
    counts = ", ".join(f"{count} {name}" for name, count in sorted(stats.items()) if count)
    name = f" ({clean(job.config.name)})" if job.config.name else ""
    state = job_pb2.JobState.Name(job.runtime.state)
    size = plural(job.config.instanceCount, "instance")
    text = f"Job {job.id.value}{name}: {state}; {size}: {counts or 'none created'}"
    if job.config.type == job_pb2.DAEMON and not sum(stats.values()):
        return f"{text}; no host matches its constraint, or the hosts are not known yet"
    missing = job.config.instanceCount - sum(stats.values())
    return text + (f"; {missing} are still to be created" if missing > 0 and counts else "")
