"""The tools that plan: each shows what would happen, and gives the token by which `apply_plan` does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.cli.overview import read_pools
from peloton.cli.pool_edit import place, text_of
from peloton.cli.references import only_job
from peloton.cli.service_rows import diff_text
from peloton.cli.session import Session
from peloton.cli.spec_run import Wanted, carried_out, planned_of, wanted
from peloton.cli.versions import before_last_update, call_job, secrets_of
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, Refused
from peloton.mcp import answers
from peloton.mcp.bounds import BatchSize, JobName, PoolPath, Spec
from peloton.mcp.hiding import hide_changes, shown
from peloton.mcp.jobs import entity_version, workflows
from peloton.mcp.plans import Done, Plan
from peloton.model.plural import plural
from peloton.model.workflow import WorkflowOptions
from peloton.specs import Checked, check
from peloton.web.views.jobs.actions import Preview, action_of, preview
from peloton.web.views.jobs.job import job_head
from peloton.web.views.jobs.workflow import workflow
from peloton.wire.v1alpha.workflow import restart_spec, update_spec

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo

SPEC = "spec"
"""The name of a spec in errors."""
DEFAULT_POOL = "/DefaultResPool"
NOTHING = "nothing"
"""The state of what is not there."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a tool of this module returns: what is shown, and the plan; None where it would be refused."""

    plan: Plan | None
    subject: str
    will: list[str]
    notes: list[str]
    refused: str = ""


def check_spec(session: Session, spec: Spec) -> answers.SpecCheck:
    """Check a spec by form and rules, without asking the cluster; `plan_run` tells whether there is room."""
    found = check(spec, SPEC)
    errors, warnings = (
        [answers.SpecError(line=each.line or 0, path=each.path, message=str(each)) for each in some]
        for some in (found.errors, found.warnings)
    )
    return answers.SpecCheck(kind=found.kind, valid=not errors, errors=errors, warnings=warnings)


def plan_run(
    session: Session,
    spec: Spec,
    pool: Annotated[PoolPath, Field(description="where the spec names no pool")] = DEFAULT_POOL,
    batch_size: Annotated[
        int | None,
        Field(ge=0, le=100_000, description="instances an update goes through at a time; empty: a quarter"),
    ] = None,
) -> Shown:
    """Plan to create the job of a spec, or to update the service of its name that runs in the pool.

    Shows where the instances would go, what would wait and for what, and whom it would evict; of an update,
    what changes.
    """
    checked = _valid(spec, ("job", "service"))
    job = wanted(session, checked, pool, pool_given=False)
    _, lines = planned_of(session, job, shown, hide_changes)
    subject = (
        f"service {job.running.name} ({job.running.id.value})" if job.running else f"job {job.spec.name!r}"
    )

    def present(session: Session) -> str:
        return _running_state(
            session, wanted(session, _valid(spec, ("job", "service")), pool, pool_given=False)
        )

    def apply(session: Session) -> Done:
        job_id, warnings = carried_out(session, job, batch_size)
        return Done(f"job {job_id} {'is being updated' if job.running else 'was created'}", job_id, warnings)

    will = lines if job.running else lines[1:]  # the first says that nothing is created
    return Shown(Plan(subject, _running_state(session, job), present, apply), subject, will, [])


def plan_job_action(
    session: Session,
    job: JobName,
    action: Literal["start", "stop", "restart", "pause", "resume", "abort", "rollback", "delete"],
    batch_size: BatchSize = 0,
    in_place: Annotated[bool, Field(description="restart: on the hosts where the instances are")] = False,
) -> Shown:
    """Plan to start, stop or restart a job; to pause, resume or abort an update; to roll back; to delete.

    `rollback` updates a service to the spec before its last update. A job is deleted after it has ended, with
    its history.
    """
    job_id = only_job(session, job)
    read = _Read.of(session, job_id)
    if action == "delete":
        return _delete(read)
    if action == "rollback":
        return _rollback(session, read, batch_size)
    told = read.preview(action, batch_size)
    options = WorkflowOptions(batch_size=batch_size, in_place=in_place)
    return read.shown(told, lambda session: _ask(session, action, read, options))


def plan_pool_change(session: Session, pool: PoolPath, spec: Spec) -> Shown:
    """Plan to create a resource pool of a spec, or to replace the config of the one at this path.

    The rules about parents, siblings and children are applied when it is carried out. Amounts are in cores,
    MB and devices.
    """
    config: Any = _valid(spec, ("respool",)).message
    place(session, pool, config)
    found = _pool_at(session, pool)
    subject = f"resource pool {pool}"
    before = "" if found is None else text_of(found.config)
    will = ["creates the pool with the config:" if found is None else "replaces the config:"]
    will += [f"  {line}" for line in _changes(before, text_of(config))] or ["  nothing changes"]

    def apply(session: Session) -> Done:
        if found is None:
            answer = session.call(
                RPCS.respool_svc.CreateResourcePool, respool_pb2.CreateRequest(config=config)
            )
            return Done(f"resource pool {pool} was created: {answer.result.value}")
        request = respool_pb2.UpdateRequest(id=found.id, config=config)
        session.call(RPCS.respool_svc.UpdateResourcePool, request)
        return Done(f"resource pool {pool} was updated")

    plan = Plan(subject, _pool_state(found), lambda session: _pool_state(_pool_at(session, pool)), apply)
    return Shown(plan, subject, will, [])


def plan_pool_delete(session: Session, pool: PoolPath) -> Shown:
    """Plan to delete a resource pool: a leaf without jobs that hold or ask for anything."""
    found = _pool_at(session, pool)
    subject = f"resource pool {pool}"
    if found is None:
        return Shown(None, subject, [], [], f"there is no resource pool {pool!r}")
    refused = f"it has {plural(len(found.children), 'pool')} below it" if found.children else ""

    def apply(session: Session) -> Done:
        request = respool_pb2.DeleteRequest(path=respool_pb2.ResourcePoolPath(value=pool))
        session.call(RPCS.respool_svc.DeleteResourcePool, request)
        return Done(f"resource pool {pool} was deleted")

    plan = Plan(subject, _pool_state(found), lambda session: _pool_state(_pool_at(session, pool)), apply)
    return Shown(None if refused else plan, subject, ["deletes the pool and its config"], [], refused)


PLAN_TOOLS: tuple[Callable[..., Shown], ...] = (plan_run, plan_job_action, plan_pool_change, plan_pool_delete)


# Specs.


def _valid(spec: str, kinds: tuple[str, ...]) -> Checked:
    """Check a spec. Raises Refused with all that is wrong."""
    found = check(spec, SPEC)
    if found.errors:
        raise Refused("; ".join(map(str, found.errors)))
    if found.kind not in kinds:
        raise InvalidArgument(SPEC, found.kind, f"the spec of a {' or '.join(kinds)}")
    return found


def _running_state(session: Session, job: Wanted) -> str:
    if job.running is None:
        return NOTHING
    return f"{job.running.id.value} at {entity_version(session, job.running.id.value)}"


# Jobs.


@dataclass(frozen=True, slots=True)
class _Read:
    """A job as it is now."""

    job: job_pb2.JobInfo
    version: str
    pool: ResourcePoolInfo | None
    head: Any
    workflow: Any

    @classmethod
    def of(cls, session: Session, job_id: str) -> _Read:
        """Read a job. Raises Refused and CallFailed."""
        request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
        info = session.call(RPCS.job_svc.Get, request).jobInfo
        version = entity_version(session, job_id)
        pools = {pool.id.value: pool for pool in read_pools(session)}
        last = next(iter(workflows(session, job_id, 1)), None)
        head = job_head(info, version, {key: pool.path.value for key, pool in pools.items()})
        return cls(
            info,
            version,
            pools.get(head.pool_id),
            head,
            None if last is None else workflow(last),
        )

    @property
    def subject(self) -> str:
        """What it is called."""
        return f"job {self.head.name} ({self.head.id})"

    def preview(self, action: str, batch_size: int) -> Preview:
        """Return what an action would do."""
        found = action_of(action, self.head, self.workflow)
        return preview(found, self.head, self.workflow, self.pool, self.job.config, batch_size)

    def shown(self, told: Preview, ask: Callable[[Session], Any]) -> Shown:
        """Return the plan of what was previewed, which is carried out by `ask`."""
        will = list(told.effects)
        will += [
            f"pool {self.head.pool} {each.kind}: {each.change}, from {each.before} to {each.after} "
            f"(reservation {each.reservation}, limit {each.limit})"
            for each in told.pool
        ]

        def apply(session: Session) -> Done:
            ask(session)
            return Done(f"{told.title}: begun", self.head.id)

        return self.planned(apply, will, list(told.notes), told.action.refused)

    def planned(
        self, apply: Callable[[Session], Done], will: list[str], notes: list[str], refused: str = ""
    ) -> Shown:
        """Return a plan about the job as it is now."""
        job_id = self.head.id
        plan = Plan(self.subject, self.version, lambda session: entity_version(session, job_id), apply)
        return Shown(None if refused else plan, self.subject, will, notes, refused)


def _named(read: _Read) -> dict[str, Any]:
    return {
        "job_id": v1alpha.JobID(value=read.head.id),
        "version": v1alpha.EntityVersion(value=read.version),
    }


def _named_v0(read: _Read) -> dict[str, Any]:
    version = int(read.version.partition("-")[0] or 0)
    return {"id": peloton_pb2.JobID(value=read.head.id), "resourceVersion": version}


_ASK: Mapping[str, Callable[[Session, _Read, WorkflowOptions], Any]] = {
    "stop": lambda session, read, _: call_job(
        session, RPCS.stateless_svc.StopJob, pb.StopJobRequest(**_named(read))
    ),
    "start": lambda session, read, _: call_job(
        session, RPCS.stateless_svc.StartJob, pb.StartJobRequest(**_named(read))
    ),
    "restart": lambda session, read, options: call_job(
        session,
        RPCS.stateless_svc.RestartJob,
        pb.RestartJobRequest(**_named(read), restart_spec=restart_spec(options)),
    ),
    "pause": lambda session, read, _: call_job(
        session, RPCS.stateless_svc.PauseJobWorkflow, pb.PauseJobWorkflowRequest(**_named(read))
    ),
    "resume": lambda session, read, _: call_job(
        session, RPCS.stateless_svc.ResumeJobWorkflow, pb.ResumeJobWorkflowRequest(**_named(read))
    ),
    "abort": lambda session, read, _: call_job(
        session, RPCS.stateless_svc.AbortJobWorkflow, pb.AbortJobWorkflowRequest(**_named(read))
    ),
}
_ASK_BATCH: Mapping[str, Callable[[Session, _Read, WorkflowOptions], Any]] = {
    "stop": _ASK["stop"],  # it ends batch jobs and services alike
    "start": lambda session, read, _: session.call(
        RPCS.job_svc.Start, job_pb2.StartRequest(**_named_v0(read))
    ),
    "restart": lambda session, read, _: session.call(
        RPCS.job_svc.Restart, job_pb2.RestartRequest(**_named_v0(read))
    ),
}


def _ask(session: Session, action: str, read: _Read, options: WorkflowOptions) -> Any:
    return (_ASK_BATCH if read.head.batch else _ASK)[action](session, read, options)


def _delete(read: _Read) -> Shown:
    stopped = read.head.terminal or not set(read.job.runtime.taskStats) - {
        "KILLED",
        "SUCCEEDED",
        "FAILED",
        "LOST",
    }
    refused = "" if stopped else f"it is {read.head.state}: stop it first"

    def apply(session: Session) -> Done:
        if read.head.batch:
            request = job_pb2.DeleteRequest(id=peloton_pb2.JobID(value=read.head.id))
            session.call(RPCS.job_svc.Delete, request)
        else:
            call_job(session, RPCS.stateless_svc.DeleteJob, pb.DeleteJobRequest(**_named(read)))
        return Done(f"job {read.head.id} was deleted", read.head.id)

    return read.planned(apply, ["deletes the job with its instances and their history"], [], refused)


def _rollback(session: Session, read: _Read, batch_size: int) -> Shown:
    if read.head.batch:
        raise Refused(f"{read.subject} is a batch job, which is not rolled back")
    told = read.preview("rollback", batch_size)
    if told.action.refused:
        return read.planned(lambda session: Done(""), [], [], told.action.refused)
    target = before_last_update(session, read.head.id, read.version)
    earlier = pb.GetJobRequest(job_id=v1alpha.JobID(value=read.head.id))
    earlier.version.value = target
    spec = call_job(session, RPCS.stateless_svc.GetJob, earlier).job_info.spec
    asked = pb.GetReplaceJobDiffRequest(**_named(read), spec=spec)
    diff = call_job(session, RPCS.stateless_svc.GetReplaceJobDiff, asked)
    hide_changes(diff)

    def apply(session: Session) -> Done:
        options = WorkflowOptions(batch_size=batch_size)
        request = pb.ReplaceJobRequest(**_named(read), spec=spec, update_spec=update_spec(options))
        request.secrets.extend(secrets_of(session, read.head.id))
        call_job(session, RPCS.stateless_svc.ReplaceJob, request)
        return Done(f"job {read.head.id} is being updated to its spec of {target}", read.head.id)

    will = [f"updates to the spec of entity version {target}:", *diff_text(diff).splitlines()]
    return read.planned(apply, will, list(told.notes))


# Pools.


def _pool_at(session: Session, path: str) -> ResourcePoolInfo | None:
    wanted = path.rstrip("/") or "/"
    return next((pool for pool in read_pools(session) if pool.path.value == wanted), None)


def _pool_state(pool: ResourcePoolInfo | None) -> str:
    if pool is None:
        return NOTHING
    return f"pool {pool.id.value} with the config {text_of(pool.config)!r}"


def _changes(before: str, after: str) -> list[str]:
    if not before:
        return after.splitlines()
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1))[2:]
    return [line for line in lines if not line.startswith("@@")]
