"""Who holds cores or memory that were not used, where a pool has too little of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from peloton.model.amounts import rounded
from peloton.model.plural import plural
from peloton.model.states import TaskState
from peloton.present.accounts import cpu_hint, memory_hint
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.private.jobmgr.usage.usage_pb2 import JobUsed
    from peloton.private.resmgr.explain.explain_pb2 import Explanation

MOST_JOBS = 3
"""Jobs that are named."""
MEASURED = ("cpu", "memory")
"""The kinds of which is known what is used."""


def lacking(found: Explanation | None) -> str:
    """Return of which kind a task's pool has too little for its gang, or for the one ahead.

    Empty where the task waits for something else, or where nobody knows what of the kind is used.
    """
    if found is None or int(found.state) != TaskState.PENDING:
        return ""
    check = found.head_check if found.HasField("head_check") else found.check
    return check.kind if check.kind in MEASURED else ""


def unused(kind: str, pool_id: str, jobs: Iterable[JobUsed]) -> list[str]:
    """Return which jobs of a pool ask for far more of a kind than they use, those that hold most first.

    Such as `job etl asks for 4 GB, peaked at 600 MB: its 12 running instances hold up to 41 GB …`.
    """
    told = []
    for each in jobs:
        hint = hint_of(kind, each)
        if each.pool_id == pool_id and hint:
            idle, name = _idle(kind, each) * each.runs, clean(each.name) or each.job_id
            told.append((idle, f"job {name} {hint}: {_held(kind, each.runs, idle)}"))
    return [text for _, text in sorted(told, key=lambda each: (-each[0], each[1]))[:MOST_JOBS]]


def hint_of(kind: str, job: JobUsed) -> str:
    """Return what a job asks for and uses of a kind, where that is far less; else nothing."""
    if kind == "cpu":
        return cpu_hint(job.cores_asked, job.cores_mean, job.mean_seconds)
    return memory_hint(job.memory_asked_mb, job.memory_peak_mb)


def _idle(kind: str, job: JobUsed) -> float:
    """Return what an instance holds and does not use."""
    return job.cores_asked - job.cores_mean if kind == "cpu" else job.memory_asked_mb - job.memory_peak_mb


def _held(kind: str, runs: int, idle: float) -> str:
    holds = "holds" if runs == 1 else "hold"
    never = "were not used" if kind == "cpu" else "was never used"
    upto = "about" if kind == "cpu" else "up to"
    return f"its {plural(runs, 'running instance')} {holds} {upto} {rounded(idle, kind)} that {never}"
