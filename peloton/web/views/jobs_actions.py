"""Actions on jobs: which may be taken, what each will do, and the requests that carry them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.errors import InvalidArgument, NotFound
from peloton.model.states import TERMINAL_TASK_STATES
from peloton.web.formats import amount, count
from peloton.web.views.jobs_page import JobHead
from peloton.web.views.jobs_workflow import Workflow

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


_JOBS, _SERVICES = "peloton.api.v0.job.JobManager", "peloton.api.v1alpha.job.stateless.svc.JobService"


def methods_of(head: JobHead) -> Mapping[str, tuple[str, str]]:
    """Return the methods that carry out the actions for a job, with the role that serves them."""
    if head.batch:
        return {
            name.lower(): ("jobmgr", f"{_JOBS}/{name}") for name in ("Start", "Stop", "Restart", "Update")
        }
    changes = {"update": "ReplaceJob", "rollback": "ReplaceJob"}
    changes |= {name.lower(): f"{name}Job" for name in ("Start", "Stop", "Restart")}
    changes |= {name.lower(): f"{name}JobWorkflow" for name in ("Pause", "Resume", "Abort")}
    return {key: ("jobmgr", f"{_SERVICES}/{method}") for key, method in changes.items()}


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
    running = workflow is not None and workflow.active
    found = [
        Action("start", "Start", ended or ("" if stopped or head.count("KILLED") else "nothing is stopped")),
        Action("stop", "Stop", ended or ("it is stopped already" if stopped else ""), danger=True),
        Action("restart", "Restart", ended or ("it is stopped: start it" if stopped else ""), danger=True),
        Action("update", "Update…", ended or ("it is being stopped" if stopped and head.batch else "")),
    ]
    if head.batch:
        return found
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
            f"{count(head.overrides, 'instance')} with a config of their own may ask for other amounts",
        ]
    changed = pool_effects(config, change, pool) if change else []
    return Preview(action, title, effects, changed, notes)


_Told = tuple[list[str], int, list[str]]


def _stop(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    on_hosts = head.count(*ON_HOSTS)
    waiting = head.instances - on_hosts - head.count(*_ENDED)
    lines = [f"{count(on_hosts, 'instance')} on hosts will be killed; each gets its kill grace period to end"]
    if waiting:
        lines.append(f"{count(waiting, 'waiting instance')} will not start")
    if over := head.count(*_ENDED):
        stay = "stays as it is" if over == 1 else "stay as they are"
        lines.append(f"{count(over, 'instance')} ended already and {stay}")
    after = "a batch job that was stopped has ended: it cannot be started again"
    notes = [after] if head.batch else ["its instances stay stopped until the job is started"]
    if workflow is not None and workflow.active:
        notes.append(f"the {workflow.kind} that is under way ends")
    return lines, -on_hosts, notes


def _start(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    stopped = head.count("KILLED")
    lines = [f"{count(stopped, 'stopped instance')} will be started with a new run each"]
    return lines, stopped, ["they wait until the pool's entitlement and the hosts have room for them"]


def _restart(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    size = batch_size if not head.batch else 0
    lines = [f"all {count(head.instances, 'instance')} will be stopped and started with a new run each"]
    if size and size < head.instances:
        lines.append(f"{size:,} at a time: {count(-(-head.instances // size), 'batch', 'batches')}")
    else:
        lines.append("all at the same time")
    notes = ["the pool holds no more than now, but what is free in between may go to others"]
    if workflow is not None and workflow.active:
        notes.append(f"it replaces the {workflow.kind} that is under way")
    return lines, 0, notes


def _pause(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    assert workflow is not None
    lines = [
        f"the {workflow.kind} stops after what is in flight: {count(workflow.now_count, 'instance')}",
        f"{count(workflow.left, 'instance')} left as they are until it is resumed",
    ]
    return lines, 0, []


def _resume(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    assert workflow is not None
    size = f"{workflow.batch_size:,} at a time" if workflow.batch_size else "all at the same time"
    return [f"the {workflow.kind} goes on with {count(workflow.left, 'instance')}, {size}"], 0, []


def _abort(head: JobHead, workflow: Workflow | None, batch_size: int) -> _Told:
    assert workflow is not None
    stay = "stays as it is" if workflow.done == 1 else "stay as they are"
    keep = "keeps the version that it has" if workflow.left == 1 else "keep the version that they have"
    lines = [
        f"the {workflow.kind} ends: {count(workflow.done, 'instance')} done {stay}",
        f"{count(workflow.left, 'instance')} left {keep}",
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
    "pause": _pause,
    "resume": _resume,
    "abort": _abort,
    "update": _update,
    "rollback": _update,
}


def pool_effects(
    config: job_pb2.JobConfig, instances: int, pool: respool_pb2.ResourcePoolInfo | None
) -> list[Effect]:
    """Return what it means for the job's pool that so many instances are added, or removed where negative."""
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
    """How an update or a restart goes about it."""

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

    def update_spec(self) -> stateless_pb2.UpdateSpec:
        """Return the options of an update."""
        return stateless_pb2.UpdateSpec(
            batch_size=self.batch_size,
            rollback_on_failure=self.rollback,
            max_instance_retries=self.max_retries,
            max_tolerable_instance_failures=self.max_failures,
            start_paused=self.start_paused,
            in_place=self.in_place,
            start_pods=self.start_pods,
        )


def whole_number(name: str, text: str) -> int:
    """Return the number of a field, 0 where it is empty. Raises InvalidArgument."""
    text = text.strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MOST_BATCH):
        raise InvalidArgument(name, text, f"a whole number from 0 to {MOST_BATCH:,}")
    return int(text)


def simple_request(key: str, head: JobHead, version: str, options: Options) -> tuple[str, str, object]:
    """Return service, method and request of an action that needs no spec.

    `version` is the entity version that the user saw.
    """
    if head.batch and key in ("start", "restart"):
        job = v0_peloton.JobID(value=head.id)
        seen = int(version.partition("-")[0] or 0)
        if key == "start":
            return "job_svc", "Start", job_pb2.StartRequest(id=job, resourceVersion=seen)
        return "job_svc", "Restart", job_pb2.RestartRequest(id=job, resourceVersion=seen)
    method, make = _REQUESTS[key]
    request = make(job_id=peloton_pb2.JobID(value=head.id), version=peloton_pb2.EntityVersion(value=version))
    if key == "restart":
        request.restart_spec.batch_size = options.batch_size
        request.restart_spec.in_place = options.in_place
    return "stateless_svc", method, request


_REQUESTS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "start": ("StartJob", pb.StartJobRequest),
    "stop": ("StopJob", pb.StopJobRequest),
    "restart": ("RestartJob", pb.RestartJobRequest),
    "pause": ("PauseJobWorkflow", pb.PauseJobWorkflowRequest),
    "resume": ("ResumeJobWorkflow", pb.ResumeJobWorkflowRequest),
    "abort": ("AbortJobWorkflow", pb.AbortJobWorkflowRequest),
}
