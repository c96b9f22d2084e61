"""Gangs that a limit of their pool keeps from running, however long they wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from peloton.model.amounts import amount
from peloton.model.ids import ROOT_POOL
from peloton.model.job import JobSpec
from peloton.model.pool import PoolConfig, pool_path
from peloton.model.resources import KINDS, MILLI, Resources
from peloton.model.task import TaskSpec


class OverLimit(NamedTuple):
    """Instances that a limit keeps from running, and which one."""

    instances: Sequence[int]
    text: str


def over_limit_text(kind: str, gang: float, limit: float, path: str) -> str:
    """Say that a gang asks for more than a pool's limit, both in thousandths."""
    return f"{kind}: gang {amount(gang / MILLI, kind)} > limit {amount(limit / MILLI, kind)} of {path}"


def over_limits(spec: JobSpec, pools: Sequence[PoolConfig]) -> list[OverLimit]:
    """Return the gangs of a new job that ask for more than a limit of its pool, or of one above it."""
    by_id = {pool.id: pool for pool in pools}
    found = []
    for instances, needs in _gangs(spec):
        pool = by_id.get(spec.pool_id)
        while pool is not None and pool.id != ROOT_POOL:
            over = _over(needs, pool)
            if over is not None:
                kind, amount, limit = over
                text = over_limit_text(kind, amount, limit, pool_path(pool.id, pools))
                found.append(OverLimit(instances, text))
                break
            pool = by_id.get(pool.parent)
    return found


def _over(needs: Sequence[int], pool: PoolConfig) -> tuple[str, int, int] | None:
    for kind, needed in zip(KINDS, needs, strict=True):
        limit = pool.kind(kind).limit
        if needed > limit:
            return kind, needed, limit
    return None


def _gangs(spec: JobSpec) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield the instances of each gang and what they ask for; those that stand alone, by their spec."""
    size, count = spec.gang_size, max(spec.instance_count, 1)
    own = {instance: _needs(task) for instance, task in spec.overrides.items() if instance < count}
    default = _needs(spec.default)
    if size:
        yield range(size), _together([own[each] for each in own if each < size], default, size)
    alone = range(size, count)
    if inheriting := [each for each in alone if each not in own] if own else alone:
        yield inheriting, default
    yield from (([instance], needs) for instance, needs in own.items() if instance >= size)


def _together(members: Sequence[Sequence[int]], default: Sequence[int], size: int) -> Sequence[int]:
    """Sum up what a gang asks for: `members` for themselves, and each other one the default."""
    others = size - len(members)
    assert others >= 0, (size, len(members))
    return [sum(each[k] for each in members) + others * default[k] for k in range(len(default))]


def _needs(task: TaskSpec) -> Sequence[int]:
    volume = Resources() if task.volume is None else Resources.of(disk=task.volume.size_mb)
    return tuple((task.resources + volume).values())
