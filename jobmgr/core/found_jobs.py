"""The result of a query for jobs, put together from what the owners of their shards find. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobKeys, JobLosses, JobQuery
from peloton.model.shard import SHARDS


def whole(parts: Iterable[Collection[int]]) -> bool:
    """Return whether each shard is in one part, and in one only.

    It is in none while its next owner reads its jobs, and in two where it moves while the owners are asked.
    """
    counts = Counter(shard for part in parts for shard in part)
    return len(counts) == SHARDS and set(counts.values()) == {1}


def merged(query: JobQuery, parts: Sequence[JobKeys]) -> tuple[list[JobId], int]:
    """Return the jobs of the query's page in order, and the number of all matches (after max_limit).

    Jobs that are equal in all properties of the order are ordered by id.
    """
    total = sum(part.total for part in parts)
    if query.max_limit:
        total = min(total, query.max_limit)
    keys = sorted((key for part in parts for key in part.keys), key=lambda key: key.job_id)
    for place, (_, descending) in reversed(list(enumerate(query.order))):
        keys.sort(key=lambda key: key.values[place], reverse=descending)
    end = min(query.offset + query.limit, total)
    return [key.job_id for key in keys[query.offset : end]], total


def summed(parts: Iterable[JobLosses]) -> dict[PoolId, float]:
    """Return what the jobs of all parts have lost, by pool."""
    sums: defaultdict[PoolId, float] = defaultdict(float)
    for part in parts:
        for pool_id, seconds in part.seconds.items():
            sums[pool_id] += seconds
    return dict(sums)
