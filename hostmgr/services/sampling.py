"""SamplingService: what runs and hosts use."""

from __future__ import annotations

from typing import Any

from hostmgr.drivers.sampling import Sampler
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.sampling import sampling_pb2 as pb
from peloton.private.hostmgr.sampling import sampling_pb2_grpc
from storage.histories.courses import MOST_DAYS

MOST_RUNS = 10_000
MOST_SECONDS = 60
GAP_SECONDS = 3600
"""Longer times of which nothing is known are shown as times in which nothing was used."""


class SamplingService(sampling_pb2_grpc.SamplingServiceServicer):
    """Return what agents have told."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    async def WaitForReadings(
        self, request: pb.WaitForReadingsRequest, context: Any
    ) -> pb.WaitForReadingsResponse:
        """Return what agents have told since an offset. Raises InvalidArgument."""
        if request.limit > MOST_RUNS:
            raise InvalidArgument("limit", request.limit, f"at most {MOST_RUNS}")
        if not 0 <= request.wait_seconds <= MOST_SECONDS:
            raise InvalidArgument("wait_seconds", request.wait_seconds, f"0 to {MOST_SECONDS}")
        begin, limit = request.begin, request.limit or MOST_RUNS
        following, found = await self._sampler.readings(request.stream_id, begin, limit, request.wait_seconds)
        answer = pb.WaitForReadingsResponse(stream_id=self._sampler.stream_id, next=following)
        told = [each for readings in found for each in readings]
        answer.runs.extend(run for run, _ in told)
        answer.at.extend(reading.at for _, reading in told)
        answer.cpu.extend(reading.cpu for _, reading in told)
        answer.memory.extend(reading.memory for _, reading in told)
        answer.peak.extend(reading.peak for _, reading in told)
        return answer

    async def ListHosts(self, request: pb.ListHostsRequest, context: Any) -> pb.ListHostsResponse:
        """Return what the tasks on hosts use. Raises InvalidArgument."""
        if request.with_course and len(request.hostnames) != 1:
            raise InvalidArgument("with_course", True, "for one host only")
        if request.days and not request.with_course:
            raise InvalidArgument("days", request.days, "with `with_course` only")
        if request.days > MOST_DAYS:
            raise InvalidArgument("days", request.days, f"at most {MOST_DAYS}")
        wanted = set(request.hostnames)
        answer = pb.ListHostsResponse(silent=self._sampler.silent)
        for each in self._sampler.hosts():
            if not wanted or each.hostname in wanted:
                answer.hosts.add(
                    hostname=each.hostname,
                    at=each.at,
                    cores=each.cores,
                    memory_bytes=each.memory,
                    tasks=each.tasks,
                )
        if request.with_course:
            await self._add_course(answer, request.hostnames[0], request.days)
        return answer

    async def _add_course(self, answer: pb.ListHostsResponse, hostname: str, days: int) -> None:
        """Add the course of a host. One that was not followed has none."""
        course = await self._sampler.course(hostname, days)
        if not course:
            return
        found = answer.hosts[0] if answer.hosts else answer.hosts.add(hostname=hostname)
        found.course_begin = until = course[0].since
        for span in course:
            if span.since - until > GAP_SECONDS:  # without tasks, or without a leader
                found.course.add(until=span.since)
            until = span.until
            cores, memory = span.amounts
            found.course.add(until=until, cores=cores, memory_mb=memory)
