"""Plans of jobs that are not created: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.session import Session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, Refused
from peloton.model.ids import is_uuid
from peloton.present.estimates import estimate_lines, estimate_plain
from peloton.present.plain import as_json
from peloton.present.plans import plan_lines

if TYPE_CHECKING:
    from peloton.model.estimate import StartEstimate
    from peloton.private.plan.plan_pb2 import PlanJobResponse

T = TypeVar("T")

TIMEOUT_SECONDS = 40.0
_INDENT = "  "


def show_plan(session: Session, kind: str, file: str, path: str, job_id: str) -> int:
    """Print the plan of a job of a kind, or all reasons for which it would be refused; return the exit code.

    `file` is its spec, `path` the path of its pool, `job_id` the id it shall have or nothing.
    """
    from peloton.client.yamltree import read_text
    from peloton.specs import check

    checked = check(read_text(file), file, kind)
    refusals = [str(error) for error in checked.errors]
    pool = _tried(refusals, lambda: pool_id(session, path))
    _tried(refusals, lambda: _check_id(session, job_id))
    plan = None
    if pool is not None and not checked.errors:
        plan = _tried(refusals, lambda: _plan(session, kind, checked.message, path, pool))
    if plan is None or refusals:
        lines = ["Nothing is created. It would be refused:", *(f"{_INDENT}{each}" for each in refusals)]
        session.show({"refused": refusals}, lambda: "\n".join(lines))
        return REFUSED
    start = start_of_plan(session, checked.message, plan)
    session.show(plan_plain(plan, start), lambda: "\n".join(planned_lines(plan, start)))
    return DONE


def start_of_plan(session: Session, spec: Any, plan: PlanJobResponse) -> StartEstimate | str | None:
    """Return when a planned job would start, or why that is not known; None where nothing of it would wait.

    `spec` is of either API, and names its pool by id.
    """
    from peloton.api.v0.job import job_pb2
    from peloton.cli.estimate import start_of_planned
    from peloton.wire.job import job_spec
    from peloton.wire.v1alpha.job_config import job_config_of

    if not any(group.plan.waiting or group.plan.unplaced for group in plan.groups):
        return None
    config = spec if isinstance(spec, job_pb2.JobConfig) else job_config_of(spec)
    return start_of_planned(session, job_spec(config, 1))


def planned_lines(plan: PlanJobResponse, start: StartEstimate | str | None) -> list[str]:
    """Return a plan, and when the job would start, as lines."""
    return [*plan_lines(plan), *([] if start is None else estimate_lines(start))]


def plan_plain(plan: PlanJobResponse, start: StartEstimate | str | None) -> Any:
    """Return the same as a message or plain data."""
    return plan if start is None else {**as_json(plan), "start": estimate_plain(start)}


def _plan(session: Session, kind: str, spec: Any, path: str, pool: str) -> PlanJobResponse:
    name = "respoolID" if kind == "job" else "respool_id"
    held = getattr(spec, name)
    if held.value not in ("", pool):
        raise InvalidArgument(name, held.value, f"the pool {path}: leave it out of the spec")
    held.value = pool
    return planned(session, spec)


def planned(session: Session, spec: Any) -> PlanJobResponse:
    """Return the plan of a spec of either API, which names its pool by id. Raises Refused and CallFailed."""
    from peloton.api.v0.job import job_pb2
    from peloton.private.plan import plan_pb2

    field = "config" if isinstance(spec, job_pb2.JobConfig) else "spec"
    request = plan_pb2.PlanJobRequest(**{field: spec})
    seconds = max(session.timeout, TIMEOUT_SECONDS)
    return session.call(RPCS.plan_svc.PlanJob, request, seconds)


def _check_id(session: Session, job_id: str) -> None:
    """Raise Refused where a new job cannot have the id."""
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.job import job_pb2
    from peloton.cli.failures import CallFailed

    if not job_id:
        return
    if not is_uuid(job_id):
        raise Refused(f"--jobID: {job_id!r} is not a UUID of 36 characters")
    try:
        session.call(RPCS.job_svc.Get, job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id)))
    except Refused:  # there is none
        return
    except CallFailed as failure:
        if failure.code != "NOT_FOUND":
            raise
        return
    raise Refused(f"--jobID: a job {job_id} exists")


def _tried(refusals: list[str], call: Callable[[], T]) -> T | None:
    """Make a call; note its refusal. Raises CallFailed where nobody answers."""
    from peloton.cli.failures import CallFailed

    try:
        return call()
    except (Refused, InvalidArgument) as refusal:
        refusals.append(str(refusal))
    except CallFailed as failure:
        if failure.transient or failure.code == "UNIMPLEMENTED":
            raise
        refusals.append(str(failure))
    return None
