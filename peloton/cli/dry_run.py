"""Plans of jobs that are not created: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.session import Session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, Refused
from peloton.model.amounts import duration
from peloton.model.ids import is_uuid
from peloton.model.plural import plural
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.private.plan.plan_pb2 import PlanJobResponse, PlannedInstances
    from peloton.private.resmgr.planning.planning_pb2 import GangsPlan, PlannedVictims

T = TypeVar("T")

TIMEOUT_SECONDS = 40.0
_INDENT = "  "


def show_plan(session: Session, kind: str, file: str, path: str, job_id: str) -> int:
    """Print the plan of a job of a kind, or all reasons for which it would be refused; return the exit code.

    `file` is its spec, `path` the path of its pool, `job_id` the id it shall have or nothing.
    """
    from peloton.cli.spec_check import check
    from peloton.client.yamltree import read_text

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
    session.show(plan, lambda: "\n".join(plan_lines(plan)))
    return DONE


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


def plan_lines(plan: PlanJobResponse) -> Iterator[str]:
    """Describe a plan, line by line."""
    yield "Nothing is created. As things are now:"
    for group in plan.groups:
        yield from _group_lines(group, daemon=not plan.instances)
    if plan.held_back:
        more = _counted(plan.held_back, "more instance")
        yield f"{more} would follow as others end: maximumRunningInstances"
    for victims in plan.victims:
        yield _victims_line(victims)


def _group_lines(group: PlannedInstances, daemon: bool) -> Iterator[str]:
    plan = group.plan
    gangs = plan.placed + plan.unplaced + plan.waiting + plan.refused_gangs
    size = 1 if daemon else group.count // max(1, gangs)
    if daemon:
        yield "an instance for each host that matches:"
    elif size > 1:
        yield f"instances {group.instances}: a gang of {plural(size, 'task')}, placed together or not at all"
    else:
        yield f"{'instances' if group.count > 1 else 'instance'} {group.instances}:"
    for line in _outcomes(plan, size):
        yield f"{_INDENT}{line}"


def _outcomes(plan: GangsPlan, size: int) -> Iterator[str]:
    if plan.placed:
        hosts = sum(each.hosts for each in plan.hosts)
        yield f"{plan.placed * size} would be placed now, on {_counted(hosts, 'host')}"
        for each in plan.hosts:
            names = ", ".join(map(clean, each.names)) + (", …" if each.hosts > len(each.names) else "")
            yield f"{_INDENT}{_counted(each.tasks, 'task')} on {'each of ' if each.hosts > 1 else ''}{names}"
    if plan.unplaced:
        yield f"{plan.unplaced * size} would be admitted and wait for a host: {clean(plan.unplaced_reason)}"
    if plan.waiting:
        yield f"{plan.waiting * size} would wait in the queue of the pool: {clean(plan.waiting_reason)}"
        if plan.ahead:
            yield f"{_INDENT}{_counted(plan.ahead, 'gang')} would be ahead of them"
    if plan.refused_gangs:
        count = plan.refused_gangs * size
        always = f"no host could take {'it' if count == 1 else 'them'}, even when empty: "
        yield f"{count}: {always if plan.HasField('shortage') else 'refused: '}{clean(plan.refused)}"


def _victims_line(victims: PlannedVictims) -> str:
    jobs = ", ".join(job.value for job in victims.jobs)
    return (
        f"{_counted(victims.tasks, 'task')} in pool {clean(victims.pool)} would be preempted within about"
        f" {duration(victims.after_seconds)} (jobs {jobs}): {clean(victims.reason)}"
    )


def _counted(count: int, what: str) -> str:
    return plural(count, what)
