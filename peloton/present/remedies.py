"""What would let a waiting task go on, by what the resource manager knows of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from peloton.model.amounts import amount, amount_of
from peloton.model.states import TaskState
from peloton.present.texts import clean
from peloton.wire.feasibility import shortage_from

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.private.resmgr.explain.explain_pb2 import Check, Explanation

_BY_FINDING = {
    "insufficient_offer_resources": "ask for less per instance, or wait until tasks on these hosts end",
    "insufficient_resources": "ask for less per instance, or add larger hosts",
    "mismatch_constraints": "loosen the constraint, or label more hosts",
    "mismatch_task_constraints": "loosen the constraint about other tasks, or add hosts",
    "mismatch_gpu": "ask for fewer GPUs, or add hosts with GPUs",
    "mismatch_status": "end the maintenance of hosts; claims of others end by themselves",
    "scarce_resources": "add hosts without GPUs, or ask for a GPU",
    "no_offer": "check the Mesos agents of these hosts: they offer nothing now",
    "too_many_starting": "wait: these hosts start as many tasks as they may at a time",
}


def remedies(found: Explanation) -> list[str]:
    """Return what would help a task that waits, the most direct first; nothing where waiting is all."""
    state = TaskState(found.state)
    if state is TaskState.PENDING:
        return _pending(found)
    if state is TaskState.READY and found.HasField("tries"):
        return _placing(found)
    if state is TaskState.READY and not found.HasField("position"):
        return ["wait: placing is tried again"]
    return []


def remedies_before_resmgr(job: JobInfo, cause: str) -> list[str]:
    """Return what would help tasks of a job that are not with the resource manager, by their cause."""
    from peloton.api.v0.job import job_pb2

    if job.runtime.goalState == job_pb2.KILLED:
        return ["start the job"]
    if "maximumRunningInstances" in cause:
        return ["raise sla.maximumRunningInstances, or wait until instances end"]
    if " > limit " in cause:
        return ["raise the limit of the pool, or ask for less: the gang alone is larger than the limit"]
    return []


def _pending(found: Explanation) -> list[str]:
    if found.HasField("shortage"):
        shortage = shortage_from(found.shortage)
        return [] if shortage is None else [f"it needs {shortage.remedy}"]
    lines = []
    behind = found.HasField("head_check")
    check = found.head_check if behind else found.check if found.HasField("check") else None
    if check is not None:
        lines += _CHECKS.get(check.check, _other)(check, found)
    if behind or (found.HasField("position") and found.position.position > 1):
        lines.append("a higher sla.priority, or priority class, would put it ahead of gangs of the same pool")
    return lines


def _lacking(check: Check) -> str:
    return amount_of(check.held + check.gang - check.bound, check.kind)


def _entitlement(check: Check, found: Explanation) -> list[str]:
    on = f" on {clean(check.hosts)}" if check.hosts else ""
    lines = [f"it goes on when tasks of {clean(check.pool)}{on} give back {_lacking(check)}"]
    share = next((each for each in found.shares if each.pool == check.pool and each.kind == check.kind), None)
    if share is not None and check.gang > share.limit:
        return [
            f"raise the limit of {clean(check.pool)}, {amount(share.limit, share.kind)} now, to at least "
            f"{amount_of(check.gang, check.kind)}, or ask for less: "
            "the gang alone is larger than the limit"
        ]
    if share is not None and check.held + check.gang > share.limit:
        lines.append(
            f"or raise the limit of {clean(check.pool)} from {amount(share.limit, share.kind)} to at least "
            f"{amount_of(check.held + check.gang, check.kind)}"
        )
    else:
        lines.append(
            f"or give {clean(check.pool)} a larger reservation or share: its entitlement{on} would have to"
            f" grow from {amount(check.bound, check.kind)}"
            f" to {amount_of(check.held + check.gang, check.kind)}"
        )
    if check.hosts:
        lines.append(f"or add {clean(check.hosts)}: others do not take it")
    return lines


def _limit(check: Check, found: Explanation) -> list[str]:
    return [
        f"it goes on when tasks of {clean(check.pool)} give back {_lacking(check)}",
        f"or raise the limit of {clean(check.pool)} from {amount(check.bound, check.kind)} to at least "
        f"{amount_of(check.held + check.gang, check.kind)}",
    ]


def _slack(check: Check, found: Explanation) -> list[str]:
    return [
        f"it goes on when revocable tasks of {clean(check.pool)} give back {_lacking(check)}",
        f"or raise the slack limit of {clean(check.pool)}",
    ]


def _controller(check: Check, found: Explanation) -> list[str]:
    return [
        f"it goes on when controllers of {clean(check.pool)} give back {_lacking(check)}",
        f"or raise the controller limit of {clean(check.pool)}",
    ]


def _reservation(check: Check, found: Explanation) -> list[str]:
    return [
        f"raise the reservation of {clean(check.pool)} from {amount(check.bound, check.kind)} to at least "
        f"{amount_of(check.held + check.gang, check.kind)}",
        "or make the job preemptible (sla.preemptible): only then may it use more than the reservation",
    ]


def _other(check: Check, found: Explanation) -> list[str]:
    return [f"{_lacking(check)} would have to be free in {clean(check.pool)}"]


_CHECKS: Mapping[str, Callable[[Check, Explanation], list[str]]] = {
    "entitlement": _entitlement,
    "limit": _limit,
    "slack entitlement": _slack,
    "controller limit": _controller,
    "reservation": _reservation,
}


def _placing(found: Explanation) -> list[str]:
    counts = sorted(found.tries.hosts.items(), key=lambda item: (-item[1], item[0]))
    return [_BY_FINDING[name] for name, _ in counts if name in _BY_FINDING][:3]
