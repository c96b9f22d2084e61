"""Actions on jobs: which may be taken, what each will do, and the requests that carry them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Generic

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls import web
from peloton.errors import InvalidArgument, NotFound
from peloton.model.amounts import amount
from peloton.model.plural import plural
from peloton.model.states import TERMINAL_TASK_STATES
from peloton.model.workflow import WorkflowOptions
from peloton.private.jobmgr.scheduling.scheduling_pb2 import (
    PauseScheduleRequest,
    ResumeJobRequest,
    ResumeScheduleRequest,
    SuspendJobRequest,
)
from peloton.web.cluster import Calls, Q
from peloton.web.permissions import Method
from peloton.web.views.jobs.job import JobHead
from peloton.web.views.jobs.workflow import Workflow
from peloton.wire.v1alpha.workflow import restart_spec

ON_HOSTS = ("RUNNING", "STARTING", "LAUNCHED", "LAUNCHING", "KILLING", "PREEMPTING")
_ENDED = tuple(state.name for state in TERMINAL_TASK_STATES)
MOST_BATCH = 100_000


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done to a job."""

    key: str
    label: str
    refused: str = ""
    """Why it cannot be done now; empty where it can."""
    danger: bool = False
    denied: bool = False
    """Whether it is the user who may not do it."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What an action changes of one kind in the job's pool."""

    kind: str
    change: str
    """With a sign; an amount that is asked for is not there yet."""
    before: str
    after: str
    reservation: str
    limit: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action will do, before it is done."""

    action: Action
    title: str
    effects: Sequence[str]
    pool: Sequence[Effect]
    notes: Sequence[str] = ()


def actions(
    head: JobHead, workflow: Workflow | None, denied: Mapping[str, str] = MappingProxyType({})
) -> list[Action]:
    """Return the actions for a job, with the reason where one cannot be taken now.

    `denied` has the reasons why the user may not take some.
    """
    found = _possible(head, workflow)
    return [
        replace(each, refused=denied[each.key], denied=True) if each.key in denied else each for each in found
    ]


def _possible(head: JobHead, workflow: Workflow | None) -> list[Action]:
    stopped = head.goal == "KILLED"
    ended = f"the job has ended: {head.state}" if head.batch and head.terminal else ""
    stopping = "it is being stopped" if stopped and head.batch else ""
    suspended = "it is suspended: resume it" if head.suspended else ""
    none_stopped = "" if stopped or head.count("KILLED") else "nothing is stopped"
    running = workflow is not None and workflow.active
    found = [
        Action("start", "Start", ended or suspended or none_stopped),
        Action("stop", "Stop", ended or ("it is stopped already" if stopped else ""), danger=True),
        Action("restart", "Restart", ended or stopping or suspended, danger=True),
        Action("update", "Update…", ended or stopping),
    ]
    if head.schedule is not None:
        paused_now = bool(head.schedule.paused)
        return [
            *found,
            Action("pause", "Pause", stopping or ("it is paused already" if paused_now else "")),
            Action("resume", "Resume", stopping or ("" if paused_now else "it is not paused")),
        ]
    if head.batch:
        bound = "its gang ends as one: stop it" if head.bound else ""
        change = (
            Action("resume", "Resume") if head.suspended else Action("suspend", "Suspend", bound, danger=True)
        )
        return [*found, replace(change, refused=ended or stopping or change.refused)]
    no_earlier = "" if head.version > 1 else "there is no earlier version"
    none = "no update or restart is under way"
    paused = workflow is not None and workflow.paused
    return [
        *found,
        Action("rollback", "Roll back…", no_earlier),
        Action("pause", "Pause", none if not running else "it is paused already" if paused else ""),
        Action("resume", "Resume", none if not running else "" if paused else "it is not paused"),
        Action("abort", "Abort", "" if running else none, danger=True),
    ]


def action_of(
    key: str, head: JobHead, workflow: Workflow | None, denied: Mapping[str, str] = MappingProxyType({})
) -> Action:
    """Return an action. Raises NotFound for an unknown one."""
    found = next((each for each in actions(head, workflow, denied) if each.key == key), None)
    if found is None:
        raise NotFound(f"a {head.type} job has no action {key!r}")
    return found


def preview(
    action: Action,
    head: JobHead,
    workflow: Workflow | None,
    pool: respool_pb2.ResourcePoolInfo | None,
    config: job_pb2.JobConfig,
    batch_size: int = 0,
) -> Preview:
    """Return what an action will do to a job as it is now; nothing where it cannot be taken."""
    title = f"{action.label.rstrip('…')} {head.name}"
    if action.refused:
        return Preview(action, title, (), ())
    effects, change, notes = _EFFECTS[action.key](head, workflow, batch_size)
    if head.overrides and change:
        notes = [
            *notes,
            f"{plural(head.overrides, 'instance')} with a config of their own may ask for other amounts",
        ]
    changed = pool_effects(config, change, pool) if change else []
    return Preview(action, title, effects, changed, notes)


_Told = tuple[list[str], int, list[str]]


def _stop(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    on_hosts = head.count(*ON_HOSTS)
    waiting = head.instances - on_hosts - head.count(*_ENDED)
    lines = []
    if on_hosts:
        grace = "it gets" if on_hosts == 1 else "each gets"
        lines.append(
            f"{plural(on_hosts, 'instance')} on hosts will be killed; {grace} its kill grace period to end"
        )
    if waiting:
        lines.append(f"{plural(waiting, 'waiting instance')} will not start")
    if over := head.count(*_ENDED):
        stay = "stays as it is" if over == 1 else "stay as they are"
        lines.append(f"{plural(over, 'instance')} ended already and {stay}")
    after = "a batch job that was stopped has ended: it cannot be started again"
    notes = [after] if head.batch else ["its instances stay stopped until the job is started"]
    if workflow is not None and workflow.active:
        notes.append(f"the {workflow.kind} that is under way ends")
    return lines, -on_hosts, notes


def _start(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    stopped = head.count("KILLED")
    lines = [f"{plural(stopped, 'stopped instance')} will be started with a new run each"]
    return lines, stopped, ["they wait until the pool's entitlement and the hosts have room for them"]


def _restart(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    size = batch_size if not head.batch else 0
    stopped = head.count("KILLED")
    lines = [f"all {plural(head.instances, 'instance')} will be stopped and started with a new run each"]
    if stopped and stopped == head.instances:
        lines = [f"{plural(stopped, 'stopped instance')} will be started with a new run each"]
    elif stopped:
        lines.append(f"{plural(stopped, 'stopped instance')} among them will be started as well")
    if size and size < head.instances:
        lines.append(f"{size:,} at a time: {plural(-(-head.instances // size), 'batch', 'batches')}")
    else:
        lines.append("all at the same time")
    notes = ["the pool holds no more than now, but what is free in between may go to others"]
    if stopped:
        notes = ["stopped instances wait until the pool's entitlement and the hosts have room for them"]
    if workflow is not None and workflow.active:
        notes.append(f"it replaces the {workflow.kind} that is under way")
    return lines, stopped, notes


def _suspend(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    on_hosts = head.count(*ON_HOSTS)
    left = head.instances - head.count(*_ENDED)
    lines = []
    if on_hosts:
        lines.append(f"{plural(on_hosts, 'instance')} on hosts will be killed, and what they did is lost")
    lines.append(f"{plural(left, 'instance')} will wait, in no queue, until the job is resumed")
    return lines, -on_hosts, ["what has succeeded, or has failed for good, stays so"]


def _pause(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    if head.schedule is not None:
        return ["no run begins until it is resumed; a run that lives goes on"], 0, []
    assert workflow is not None
    lines = [
        f"the {workflow.kind} stops after what is in flight: {plural(workflow.now_count, 'instance')}",
        f"{plural(workflow.left, 'instance')} left as they are until it is resumed",
    ]
    return lines, 0, []


def _resume(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    if head.schedule is not None:
        return ["runs begin again at the next time of the schedule; the times of the pause get none"], 0, []
    if head.batch:
        waiting = head.instances - head.count("SUCCEEDED", "FAILED")
        lines = [f"{plural(waiting, 'instance')} will get a new run each"]
        return lines, waiting, ["they wait until the pool's entitlement and the hosts have room for them"]
    assert workflow is not None
    size = f"{workflow.batch_size:,} at a time" if workflow.batch_size else "all at the same time"
    return [f"the {workflow.kind} goes on with {plural(workflow.left, 'instance')}, {size}"], 0, []


def _abort(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    assert workflow is not None
    stay = "stays as it is" if workflow.done == 1 else "stay as they are"
    keep = "keeps the version that it has" if workflow.left == 1 else "keep the version that they have"
    lines = [
        f"the {workflow.kind} ends: {plural(workflow.done, 'instance')} done {stay}",
        f"{plural(workflow.left, 'instance')} left {keep}",
    ]
    return lines, 0, ["instances then have different versions until the next update"] if workflow.done else []


def _update(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    notes = []
    if workflow is not None and workflow.active:
        notes.append(f"it replaces the {workflow.kind} that is under way")
    return [], 0, notes


_EFFECTS: Mapping[str, Callable[[JobHead, Workflow | None, int], _Told]] = {
    "stop": _stop,
    "start": _start,
    "restart": _restart,
    "suspend": _suspend,
    "pause": _pause,
    "resume": _resume,
    "abort": _abort,
    "update": _update,
    "rollback": _update,
}


def pool_effects(
    config: job_pb2.JobConfig, instances: int, pool: respool_pb2.ResourcePoolInfo | None
) -> list[Effect]:
    """Return what it means for the job's pool that `instances` are added, or removed where negative."""
    asks, found = config.defaultConfig.resource, []
    each = (
        ("cpu", asks.cpuLimit),
        ("memory", asks.memLimitMb),
        ("disk", asks.diskLimitMb),
        ("gpu", asks.gpuLimit),
    )
    held = {use.kind: use.allocation + use.slack for use in pool.usage} if pool is not None else {}
    bounds = {of.kind: of for of in pool.config.resources} if pool is not None else {}
    for kind, one in each:
        if one:
            change, now, bound = one * instances, held.get(kind, 0.0), bounds.get(kind)
            found.append(
                Effect(
                    kind,
                    f"{'+' if change > 0 else '−'}{amount(abs(change), kind)}",
                    amount(now, kind) if pool is not None else "unknown",
                    amount(max(now + change, 0.0), kind) if pool is not None else "unknown",
                    amount(bound.reservation, kind) if bound is not None else "–",
                    amount(bound.limit, kind) if bound is not None else "–",
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """How an update or a restart proceeds, as the fields of a form say it."""

    batch_size: int = 0
    max_retries: int = 0
    max_failures: int = 0
    rollback: bool = False
    start_paused: bool = False
    in_place: bool = False
    start_pods: bool = False

    @classmethod
    def of(cls, field: Callable[[str], str]) -> Options:
        """Return the options of a form; `field` gives an empty text for what is not in it."""
        return cls(
            batch_size=whole_number("instances at a time", field("batch_size")),
            max_retries=whole_number("failed runs of an instance", field("max_retries")),
            max_failures=whole_number("failed instances", field("max_failures")),
            rollback=bool(field("rollback")),
            start_paused=bool(field("start_paused")),
            in_place=bool(field("in_place")),
            start_pods=bool(field("start_pods")),
        )

    @classmethod
    def typed(cls, field: Callable[[str], str]) -> Mapping[str, str]:
        """Return the options of a form as they were typed, to show the form again; they may be wrong."""
        return {each.name: field(each.name) for each in fields(cls)}

    @property
    def workflow(self) -> WorkflowOptions:
        """How the workflow proceeds."""
        return WorkflowOptions(
            batch_size=self.batch_size,
            rollback_on_failure=self.rollback,
            max_instance_attempts=self.max_retries,
            max_failure_instances=self.max_failures,
            start_paused=self.start_paused,
            in_place=self.in_place,
            start_tasks=self.start_pods,
        )


def whole_number(name: str, text: str) -> int:
    """Return the number of a field, 0 where it is empty. Raises InvalidArgument."""
    text = text.strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MOST_BATCH):
        raise InvalidArgument(name, text, f"a whole number from 0 to {MOST_BATCH:,}")
    return int(text)


Asking = Callable[[Calls], Awaitable[object]]
"""A call that is made as soon as it is told in whose name."""


@dataclass(frozen=True, slots=True)
class _Way(Generic[Q]):
    """How an action is carried out: the method, and its request by id, entity version and options."""

    called: web.RoleRpc[Q, Any]
    request: Callable[[str, str, Options], Q]

    def asking(self, job: str, version: str, options: Options) -> Asking:
        """Return the call."""
        made = self.request(job, version, options)
        return lambda calls: calls.call(self.called, made)


def _named(job: str, version: str) -> dict[str, Any]:
    return {"job_id": peloton_pb2.JobID(value=job), "version": peloton_pb2.EntityVersion(value=version)}


def _named_v0(job: str, version: str) -> dict[str, Any]:
    return {"id": v0_peloton.JobID(value=job), "resourceVersion": int(version.partition("-")[0] or 0)}


_STOP = _Way(web.STOP_JOB_V1ALPHA, lambda job, version, _: pb.StopJobRequest(**_named(job, version)))
"""It ends batch jobs and services alike, and refuses a version that is not the newest."""
_BATCH_WAYS: Mapping[str, _Way[Any]] = {
    "start": _Way(web.START_JOB, lambda job, version, _: job_pb2.StartRequest(**_named_v0(job, version))),
    "stop": _STOP,
    "restart": _Way(
        web.RESTART_JOB, lambda job, version, _: job_pb2.RestartRequest(**_named_v0(job, version))
    ),
    "suspend": _Way(web.SUSPEND_JOB, lambda job, *_: SuspendJobRequest(job_id=v0_peloton.JobID(value=job))),
    "resume": _Way(web.RESUME_JOB, lambda job, *_: ResumeJobRequest(job_id=v0_peloton.JobID(value=job))),
}
_SCHEDULED_WAYS: Mapping[str, _Way[Any]] = {
    **_BATCH_WAYS,
    "pause": _Way(
        web.PAUSE_SCHEDULE, lambda job, *_: PauseScheduleRequest(job_id=v0_peloton.JobID(value=job))
    ),
    "resume": _Way(
        web.RESUME_SCHEDULE, lambda job, *_: ResumeScheduleRequest(job_id=v0_peloton.JobID(value=job))
    ),
}
_WAYS: Mapping[str, _Way[Any]] = {
    "start": _Way(web.START_JOB_V1ALPHA, lambda job, version, _: pb.StartJobRequest(**_named(job, version))),
    "stop": _STOP,
    "restart": _Way(
        web.RESTART_JOB_V1ALPHA,
        lambda job, version, options: pb.RestartJobRequest(
            **_named(job, version), restart_spec=restart_spec(options.workflow)
        ),
    ),
    "pause": _Way(
        web.PAUSE_JOB_WORKFLOW, lambda job, version, _: pb.PauseJobWorkflowRequest(**_named(job, version))
    ),
    "resume": _Way(
        web.RESUME_JOB_WORKFLOW, lambda job, version, _: pb.ResumeJobWorkflowRequest(**_named(job, version))
    ),
    "abort": _Way(
        web.ABORT_JOB_WORKFLOW, lambda job, version, _: pb.AbortJobWorkflowRequest(**_named(job, version))
    ),
}

SIMPLE = (*_WAYS, "suspend")
"""The actions that need no spec."""


def _ways(head: JobHead) -> Mapping[str, _Way[Any]]:
    if head.schedule is not None:
        return _SCHEDULED_WAYS
    return _BATCH_WAYS if head.batch else _WAYS


def methods_of(head: JobHead) -> Mapping[str, Method]:
    """Return the methods that carry out the actions for a job."""
    with_spec: dict[str, Method] = {"update": web.UPDATE_JOB}
    if not head.batch:
        with_spec = {"update": web.REPLACE_JOB, "rollback": web.REPLACE_JOB}
    return {**{key: way.called for key, way in _ways(head).items()}, **with_spec}


def simple_call(key: str, head: JobHead, version: str, options: Options) -> Asking:
    """Return the call of an action that needs no spec. `version` is the entity version that the user saw."""
    return _ways(head)[key].asking(head.id, version, options)
