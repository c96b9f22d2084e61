"""Specs of every kind of job, as `peloton plan` and `peloton run` take them: what they do, and doing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from peloton.cli.session import Session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import Refused
from peloton.model.workflow import WorkflowOptions

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig, JobSummary
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobSpec
    from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2 import GetReplaceJobDiffResponse as Diff
    from peloton.specs import Checked

_SHARE = 4
"""An update goes through a quarter of the instances at a time, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job as a file has it, and the running service that it would change."""

    checked: Checked
    spec: Any
    """A JobConfig of v0, or a JobSpec of v1alpha."""
    pool: str
    """The path that was given."""
    running: JobSummary | None

    @property
    def is_v0(self) -> bool:
        """Whether the spec is one of the v0 API."""
        return self.checked.kind == "job"

    def batch(self, given: int | None) -> int:
        """Return how many instances an update goes through at a time."""
        count = self.spec.instanceCount if self.is_v0 else self.spec.instance_count
        return -(-count // _SHARE) if given is None else given


def wanted(session: Session, checked: Checked, path: str, pool_given: bool) -> Wanted:
    """Find what a valid spec is about. Raises Refused and CallFailed."""
    if checked.kind == "respool":
        raise Refused(f"{checked.file} is the spec of a resource pool, which `peloton respool create` takes")
    spec: Any = checked.message
    held = spec.respoolID if checked.kind == "job" else spec.respool_id
    own = str(held.value)
    if not own or pool_given:
        found = pool_id(session, path)
        if own not in ("", found):
            raise Refused(f"{checked.file} names another pool than {path}: leave one out")
        held.value = found
    return Wanted(checked, spec, path, _running(session, spec, held.value))


def _running(session: Session, spec: Any, pool: str) -> JobSummary | None:
    """Return the service of this name in the pool that has not ended. Raises Refused for several."""
    from peloton.api.v0.job import job_pb2
    from peloton.cli.references import jobs_named
    from peloton.cli.selection import unended

    if not spec.name or (isinstance(spec, job_pb2.JobConfig) and spec.type == job_pb2.BATCH):
        return None
    found = [
        job
        for job in jobs_named(session, spec.name)
        if job.type != job_pb2.BATCH and job.respoolID.value == pool and job.runtime.state in unended()
    ]
    if len(found) > 1:
        ids = ", ".join(job.id.value for job in found)
        raise Refused(
            f"several services have the name {spec.name!r} in this pool ({ids}): update one by its id, with "
            "`peloton job stateless replace`"
        )
    return found[0] if found else None


def plan_of(session: Session, job: Wanted) -> tuple[Any, list[str]]:
    """Return what would happen as a message or plain data, and as lines. Raises Refused and CallFailed.

    When a new job would start is estimated here, which takes seconds.
    """
    from peloton.cli.dry_run import plan_plain, planned, planned_lines, start_of_plan

    if job.running is None:
        plan = planned(session, job.spec)
        start = start_of_plan(session, job.spec, plan)
        return plan_plain(plan, start), planned_lines(plan, start)
    return planned_of(session, job, lambda config: config, lambda diff: None)


def planned_of(
    session: Session, job: Wanted, shown: Callable[[JobConfig], JobConfig], hide: Callable[[Diff], None]
) -> tuple[Any, list[str]]:
    """Return what `plan_of` does; `shown` returns a config as it may be seen, `hide` changes a diff so."""
    from peloton.cli.dry_run import planned
    from peloton.cli.follow import get_info
    from peloton.present.plans import plan_lines

    if job.running is None:
        plan = planned(session, job.spec)
        return plan, list(plan_lines(plan))
    head = f"Updates the service {job.running.name} ({job.running.id.value}), which runs:"
    if not job.is_v0:
        from peloton.cli.service_rows import diff_text

        diff = _diff_of_service(session, job.spec, job.running.id.value)
        hide(diff)
        return diff, [head, *(f"  {line}" for line in diff_text(diff).splitlines())]
    before = get_info(session, job.running.id.value).config
    lines = list(_diff_of_config(shown(before), shown(job.spec)))
    return {"updates": job.running.id.value, "diff": lines}, [head, *(lines or ["  nothing changes"])]


def _diff_of_service(session: Session, spec: JobSpec, job_id: str) -> Diff:
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.versions import call_job, present

    request = pb.GetReplaceJobDiffRequest(spec=spec)
    request.job_id.value = job_id
    request.version.CopyFrom(present(session, job_id).version)
    return call_job(session, RPCS.stateless_svc.GetReplaceJobDiff, request)


def _diff_of_config(before: JobConfig, after: JobConfig) -> Iterator[str]:
    for line in list(unified_diff(_text(before), _text(after), lineterm="", n=1))[2:]:
        if not line.startswith("@@"):
            yield f"  {line}"


def _text(config: JobConfig) -> Sequence[str]:
    from peloton.cli.output import yaml_text

    shown = type(config)()
    shown.CopyFrom(config)
    shown.ClearField("changeLog")
    shown.ClearField("respoolID")
    return yaml_text(shown).splitlines()


def carried_out(session: Session, job: Wanted, batch_size: int | None) -> tuple[str, list[str]]:
    """Create the job, or update the service; return its id and the warnings. Raises Refused, CallFailed."""
    if job.is_v0:
        return _config(session, job, batch_size)
    return _service(session, job, batch_size)


def _config(session: Session, job: Wanted, batch_size: int | None) -> tuple[str, list[str]]:
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.update.svc import update_svc_pb2
    from peloton.cli.feasibility import told, warnings
    from peloton.wire.workflow import options_to

    if job.running is not None:
        options = WorkflowOptions(batch_size=job.batch(batch_size))
        request = update_svc_pb2.CreateUpdateRequest(
            jobId=job.running.id, jobConfig=job.spec, updateConfig=options_to(options)
        )
        session.call(RPCS.update_svc.CreateUpdate, request)
        return job.running.id.value, warnings(session, job.spec)
    response = session.call(RPCS.job_svc.Create, job_pb2.CreateRequest(config=job.spec))
    return response.jobId.value, [*told(response), *warnings(session, job.spec)]


def _service(session: Session, job: Wanted, batch_size: int | None) -> tuple[str, list[str]]:
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.feasibility import told, warnings
    from peloton.cli.versions import call_job, replaceable, secrets_of
    from peloton.wire.v1alpha.job_config import job_config_of
    from peloton.wire.v1alpha.workflow import update_spec

    if job.running is None:
        created = session.call(RPCS.stateless_svc.CreateJob, pb.CreateJobRequest(spec=job.spec))
        return created.job_id.value, [*told(created), *warnings(session, job_config_of(job.spec))]
    job_id = job.running.id.value
    options = WorkflowOptions(batch_size=job.batch(batch_size))
    request = pb.ReplaceJobRequest(spec=job.spec, update_spec=update_spec(options))
    request.job_id.value = job_id
    request.version.value = replaceable(
        session, job_id, False, "wait for it, or end it with `peloton job stateless workflow abort`"
    )
    request.secrets.extend(secrets_of(session, job_id))
    replaced = call_job(session, RPCS.stateless_svc.ReplaceJob, request)
    return job_id, [*told(replaced), *warnings(session, job_config_of(job.spec))]


def follow_run(session: Session, job: Wanted, job_id: str) -> int:
    """Show the progress until the job runs or has ended, and why it does not; return the exit code."""
    from peloton.api.v0.job import job_pb2
    from peloton.cli.follow import ended, follow_to_end
    from peloton.cli.follow_workflow import follow_until_it_runs, follow_workflow

    if job.running is not None:
        return follow_workflow(session, job_id)
    if not job.is_v0 or job.spec.type != job_pb2.BATCH:
        return follow_until_it_runs(session, job_id)
    info = follow_to_end(session, job_id)
    session.show(info, lambda: "", job_id)
    return ended(session, info)
