"""Who holds memory that was never used, where a pool has too little of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from peloton.model.amounts import rounded
from peloton.model.plural import plural
from peloton.model.states import TaskState
from peloton.present.accounts import memory_hint
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.private.jobmgr.usage.usage_pb2 import JobUsed
    from peloton.private.resmgr.explain.explain_pb2 import Explanation

MOST_JOBS = 3
"""Jobs that are named."""


def waits_for_memory(found: Explanation | None) -> bool:
    """Return whether a task waits since its pool has too little memory for its gang, or for the one ahead."""
    if found is None or int(found.state) != TaskState.PENDING:
        return False
    check = found.head_check if found.HasField("head_check") else found.check
    return check.kind == "memory"


def unused_memory(pool_id: str, jobs: Iterable[JobUsed]) -> list[str]:
    """Return which jobs of a pool ask for far more memory than they have had, those that hold most first.

    Such as `job etl asks for 4 GB, peaked at 600 MB: its 12 running instances hold up to 41 GB …`.
    """
    told = []
    for each in jobs:
        hint = memory_hint(each.memory_asked_mb, each.memory_peak_mb)
        if each.pool_id == pool_id and hint:
            idle = (each.memory_asked_mb - each.memory_peak_mb) * each.runs
            told.append((idle, f"job {clean(each.name) or each.job_id} {hint}: {_held(each.runs, idle)}"))
    return [text for _, text in sorted(told, key=lambda each: (-each[0], each[1]))[:MOST_JOBS]]


def _held(runs: int, idle: float) -> str:
    holds = "holds" if runs == 1 else "hold"
    return (
        f"its {plural(runs, 'running instance')} {holds} up to {rounded(idle, 'memory')} that was never used"
    )
