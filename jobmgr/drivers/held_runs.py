"""Asks resmgr which runs it does not hold, so that only these are enqueued again."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import Counter

from jobmgr.core.state.events import Compared, RunOf
from jobmgr.core.state.instructions import Compare
from jobmgr.drivers.enqueue import Post
from jobmgr.engine.outbox import Queue
from jobmgr.ports.resmgr import PoolQueues
from peloton.errors import PelotonError
from peloton.model.ids import JobId

RUNS_PER_CALL = 100_000
COMPARED = Counter("jobmgr_compared_runs", "Waiting runs that were compared with what resmgr holds.")
MISSING = Counter("jobmgr_missing_runs", "Compared runs that resmgr did not hold.")
log = logging.getLogger(__name__)


class Comparer:
    """Carries out Compare."""

    def __init__(self, resmgr: PoolQueues, post: Post) -> None:
        self._resmgr = resmgr
        self._post = post

    async def run(self, queue: Queue[Compare]) -> None:
        """Compare runs; run for ever."""
        while True:
            for comparisons in _calls(await queue.take(RUNS_PER_CALL)):
                await self._compare(comparisons)

    async def _compare(self, comparisons: Sequence[Compare]) -> None:
        missing: Mapping[JobId, Sequence[RunOf]]
        try:
            missing = await self._resmgr.missing(comparisons)
        except PelotonError as error:  # to enqueue a run that it holds does no harm
            log.warning("all waiting runs are enqueued again: %s", error)
            missing = _all(comparisons)
        COMPARED.inc(sum(map(_size, comparisons)))
        MISSING.inc(sum(map(len, missing.values())))
        left = dict(missing)
        for comparison in comparisons:
            self._post(Compared(comparison.job_id, left.pop(comparison.job_id, ())))


def _calls(comparisons: Sequence[Compare]) -> Iterator[list[Compare]]:
    """Group comparisons into calls of bounded size."""
    call: list[Compare] = []
    size = 0
    for comparison in comparisons:
        if call and size + _size(comparison) > RUNS_PER_CALL:
            yield call
            call, size = [], 0
        call.append(comparison)
        size += _size(comparison)
    if call:
        yield call


def _size(comparison: Compare) -> int:
    return sum(span.end - span.first for span in comparison.spans)


def _all(comparisons: Sequence[Compare]) -> Mapping[JobId, Sequence[RunOf]]:
    """Return all runs of comparisons, by job."""
    runs: defaultdict[JobId, list[RunOf]] = defaultdict(list)
    for comparison in comparisons:
        for span in comparison.spans:
            runs[comparison.job_id] += ((instance, span.run) for instance in range(span.first, span.end))
    return runs
