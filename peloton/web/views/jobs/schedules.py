"""The page of jobs that begin by a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peloton.api.v0.job import job_pb2
from peloton.calls.web import LIST_SCHEDULES
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb
from peloton.web.formats import seconds_of
from peloton.web.pages import Page, Subject

MOST = 1000
AGE = 4.0
POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job with a schedule. Times are in seconds since 1970; 0: none."""

    url: str
    name: str
    pool: str
    cron: str
    time_zone: str
    next: float
    paused: float
    last: float
    last_state: str
    last_url: str
    running: bool
    kept: int


async def load_schedules(subject: Subject) -> Mapping[str, Any]:
    """Return the schedules that are followed. Raises PelotonError."""
    answer = await subject.calls.read(LIST_SCHEDULES, pb.ListSchedulesRequest(limit=MOST), AGE)
    return {"schedules": schedules(answer.schedules), "total": answer.total}


def schedules(found: Sequence[pb.Schedule]) -> list[Scheduled]:
    """Return the rows of the page."""
    return [_row(each) for each in found]


def _row(each: pb.Schedule) -> Scheduled:
    status = each.status
    return Scheduled(
        url=f"/jobs/{each.job_id.value}",
        name=each.name or "(no name)",
        pool=each.pool,
        cron=each.schedule.cron,
        time_zone=each.schedule.time_zone or "UTC",
        next=seconds_of(status.next_times[0]) if status.next_times else 0.0,
        paused=seconds_of(status.paused_since),
        last=seconds_of(status.last_time),
        last_state=job_pb2.JobState.Name(each.last_state) if each.last_state else "",
        last_url=f"/jobs/{status.last_job_id}" if status.last_job_id and each.last_state else "",
        running=bool(status.running_job_id),
        kept=status.kept_runs,
    )


PAGES = (Page("/schedules", "schedules.html", load_schedules, ("schedules",), "Jobs", POLL_SECONDS),)
