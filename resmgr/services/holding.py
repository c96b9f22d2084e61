"""The private HoldingService: which runs resmgr holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from peloton.errors import InvalidArgument
from peloton.model.plural import plural
from peloton.private.resmgr.holding import holding_pb2 as pb
from peloton.private.resmgr.holding import holding_pb2_grpc
from resmgr.core.state.entities import Task
from resmgr.drivers.loop import Driver

MOST_RUNS = 200_000
MAX_INSTANCES = 2**31
"""Instances are numbered up to this."""
AT_ONCE = 10_000
"""Runs that are examined before other work runs."""


class HoldingService(holding_pb2_grpc.HoldingServiceServicer):
    """Report to jobmgr which of its runs are missing here."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def FindMissing(self, request: pb.FindMissingRequest, context: Any) -> pb.FindMissingResponse:
        """Return the runs that are not held here.

        Raises InvalidArgument for too many, and for instances that no job has.
        """
        _check(request)
        await self._driver.recovered.wait()
        jobs = self._driver.scheduler.registry.jobs
        answer = pb.FindMissingResponse()
        examined = 0
        for runs_of_job in request.jobs:
            missing = pb.RunsOfJob(job_id=runs_of_job.job_id)
            for part in _split_spans(runs_of_job):
                examined += part.count
                if examined >= AT_ONCE:
                    examined = 0
                    await asyncio.sleep(0)
                job = jobs.get(runs_of_job.job_id)
                missing.spans.extend(_missing(part, job.tasks if job is not None else {}))
            if missing.spans:
                answer.missing.append(missing)
        return answer


def _check(request: pb.FindMissingRequest) -> None:
    """Raise InvalidArgument for too many runs or spans, and for instances that no job has."""
    spans = [span for job in request.jobs for span in job.spans]
    runs = sum(span.count for span in spans)
    if runs > MOST_RUNS:
        raise InvalidArgument("jobs", plural(runs, "run"), f"at most {MOST_RUNS} runs")
    if len(spans) > MOST_RUNS:
        raise InvalidArgument("jobs", f"{len(spans)} spans", f"at most {MOST_RUNS} spans")
    for i, job in enumerate(request.jobs):
        for j, span in enumerate(job.spans):
            if span.first_instance + span.count > MAX_INSTANCES:
                path, given = f"jobs[{i}].spans[{j}]", f"{span.first_instance} + {span.count}"
                raise InvalidArgument(path, given, f"within the instances of a job, at most {MAX_INSTANCES}")


def _split_spans(runs_of_job: pb.RunsOfJob) -> Iterator[pb.Span]:
    """Iterate over a job's spans; split those that are too long for one step."""
    for span in runs_of_job.spans:
        for first in range(0, span.count, AT_ONCE):
            count = min(span.count - first, AT_ONCE)
            yield pb.Span(first_instance=span.first_instance + first, count=count, run=span.run)


def _missing(span: pb.Span, tasks: Mapping[int, Task]) -> Iterator[pb.Span]:
    """Iterate over spans of instances of which neither this run nor a later one is held."""
    run, begin = span.run, None
    end = span.first_instance + span.count
    for instance in range(span.first_instance, end):
        task = tasks.get(instance)
        if task is None or task.run < run:
            if begin is None:
                begin = instance
        elif begin is not None:
            yield pb.Span(first_instance=begin, count=instance - begin, run=run)
            begin = None
    if begin is not None:
        yield pb.Span(first_instance=begin, count=end - begin, run=run)
