"""Whether a caller may act for a job: one that names shards (`peloton-shards`) acts for their jobs only.

A shard may have moved between the moment in which a call was composed and that in which it was sent: then
the claim of the call no longer names it, and another instance decides about its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from peloton.errors import Fenced, InvalidArgument
from peloton.model.ids import JobId, MesosTaskId, TaskId, parse_mesos_task_id, parse_task_id
from peloton.model.shard import SHARDS, shard_of
from peloton.rpc.server import caller
from peloton.sharding.claims import terms_of

T = TypeVar("T")
Shards = frozenset[int] | None
"""Shards that a caller names; None where these are all, or it says nothing of shards."""


def shards(context: object) -> Shards:
    """Return the shards that a caller names; None where these are all, or it says nothing of shards."""
    return shards_in(caller(context).shards)


@lru_cache(64)
def shards_in(claim: str) -> Shards:
    """Return the shards of a claim; None where these are all, or none."""
    found = frozenset(terms_of(claim)) & frozenset(range(SHARDS))
    return None if not found or len(found) == SHARDS else found


def refusal(mine: Shards, job_id: JobId) -> str:
    """Return why a caller may not act for a job; empty where it may."""
    if mine is None or (shard := shard_of(job_id)) in mine:
        return ""
    return f"job {job_id} is not the caller's: it does not name shard {shard}"


def divided(
    mine: Shards, given: Sequence[T], refusal_of: Callable[[T], str]
) -> tuple[Sequence[T], list[tuple[T, str]]]:
    """Divide what a call names into what its caller may act for, and the rest, each with the reason."""
    if mine is None:
        return given, []
    judged = [(each, refusal_of(each)) for each in given]
    return [each for each, why in judged if not why], [(each, why) for each, why in judged if why]


def run_refusal(mine: Shards, run: MesosTaskId) -> str:
    """Return why a caller may not act for a run; empty where it may, and for what is no run of a job."""
    if mine is None:
        return ""
    try:
        return refusal(mine, parse_mesos_task_id(run).job_id)
    except InvalidArgument:
        return ""


def task_refusal(mine: Shards, task: TaskId) -> str:
    """Return why a caller may not act for a task; empty where it may, and for what is no task of a job."""
    if mine is None:
        return ""
    try:
        return refusal(mine, parse_task_id(task)[0])
    except InvalidArgument:
        return ""


def require_runs(mine: Shards, runs: Iterable[MesosTaskId]) -> None:
    """Raise Fenced unless a caller may act for all of some runs."""
    if mine is None:
        return
    for run in runs:
        if why := run_refusal(mine, run):
            raise Fenced(why)
