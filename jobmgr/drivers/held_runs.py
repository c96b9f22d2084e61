"""Asks resmgr which runs it does not hold, so that only these are enqueued again."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

from prometheus_client import Counter

from jobmgr.core.state.events import Compared, RunOf
from jobmgr.core.state.instructions import Compare
from jobmgr.drivers.enqueue import Post
from jobmgr.drivers.retry import until_answered
from jobmgr.engine.outbox import Queue
from peloton.errors import PelotonError
from peloton.model.ids import JobId
from peloton.private.resmgr.holding import holding_pb2 as pb
from peloton.rpc.client import Caller

RUNS_PER_CALL = 100_000
COMPARED = Counter("jobmgr_compared_runs", "Waiting runs that were compared with what resmgr holds.")
MISSING = Counter("jobmgr_missing_runs", "Compared runs that resmgr did not hold.")
log = logging.getLogger(__name__)


class Comparer:
    """Carries out Compare."""

    def __init__(self, resmgr: Caller, post: Post) -> None:
        self._resmgr = resmgr
        self._post = post

    async def run(self, queue: Queue[Compare]) -> None:
        """Compare runs; run for ever."""
        while True:
            for comparisons in _calls(await queue.take(RUNS_PER_CALL)):
                await self._compare(comparisons)

    async def _compare(self, comparisons: Sequence[Compare]) -> None:
        request = pb.FindMissingRequest(jobs=[_runs(comparison) for comparison in comparisons])
        missing: defaultdict[JobId, list[RunOf]] = defaultdict(list)
        try:
            answer = await until_answered(self._resmgr, "FindMissing", request)
            for job in answer.missing:
                missing[job.job_id] += _of(job)
        except PelotonError as error:  # to enqueue a run that it holds does no harm
            log.warning("all waiting runs are enqueued again: %s", error)
            for job in request.jobs:
                missing[job.job_id] += _of(job)
        COMPARED.inc(sum(map(_size, comparisons)))
        MISSING.inc(sum(map(len, missing.values())))
        for comparison in comparisons:
            self._post(Compared(comparison.job_id, missing.pop(comparison.job_id, [])))


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


def _runs(comparison: Compare) -> pb.RunsOfJob:
    spans = [
        pb.Span(first_instance=span.first, count=span.end - span.first, run=span.run)
        for span in comparison.spans
    ]
    return pb.RunsOfJob(job_id=comparison.job_id, spans=spans)


def _of(job: pb.RunsOfJob) -> Iterator[RunOf]:
    for span in job.spans:
        for instance in range(span.first_instance, span.first_instance + span.count):
            yield instance, span.run
