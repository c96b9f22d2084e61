"""Asks the resource manager which runs it does not hold, so that only these are enqueued again."""

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
COMPARED = Counter("jobmgr_compared_runs", "Waiting runs of which resmgr was asked whether it holds them.")
MISSING = Counter("jobmgr_missing_runs", "Those of them that it did not hold.")
log = logging.getLogger(__name__)


class Comparer:
    def __init__(self, resmgr: Caller, post: Post) -> None:
        self._resmgr = resmgr
        self._post = post

    async def run(self, queue: Queue[Compare]) -> None:
        """Run for ever."""
        while True:
            for questions in _calls(await queue.take(RUNS_PER_CALL)):
                await self._ask(questions)

    async def _ask(self, questions: Sequence[Compare]) -> None:
        request = pb.FindMissingRequest(jobs=[_runs(question) for question in questions])
        missing: defaultdict[JobId, list[RunOf]] = defaultdict(list)
        try:
            answer = await until_answered(self._resmgr, "FindMissing", request)
            for job in answer.missing:
                missing[job.job_id] += _of(job)
        except PelotonError as error:  # it holds what it holds: to be told again does no harm
            log.warning("all that waits is enqueued again: %s", error)
            for job in request.jobs:
                missing[job.job_id] += _of(job)
        COMPARED.inc(sum(map(_size, questions)))
        MISSING.inc(sum(map(len, missing.values())))
        for question in questions:
            self._post(Compared(question.job_id, missing.pop(question.job_id, [])))


def _calls(questions: Sequence[Compare]) -> Iterator[list[Compare]]:
    """Cut into calls that are not too large."""
    call: list[Compare] = []
    size = 0
    for question in questions:
        if call and size + _size(question) > RUNS_PER_CALL:
            yield call
            call, size = [], 0
        call.append(question)
        size += _size(question)
    if call:
        yield call


def _size(question: Compare) -> int:
    return sum(span.end - span.first for span in question.spans)


def _runs(question: Compare) -> pb.RunsOfJob:
    spans = [
        pb.Span(first_instance=span.first, count=span.end - span.first, run=span.run)
        for span in question.spans
    ]
    return pb.RunsOfJob(job_id=question.job_id, spans=spans)


def _of(job: pb.RunsOfJob) -> Iterator[RunOf]:
    for span in job.spans:
        for instance in range(span.first_instance, span.first_instance + span.count):
            yield instance, span.run
