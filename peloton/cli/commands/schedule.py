"""`peloton schedule`: jobs that begin by a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peloton.cli import references
from peloton.cli.groups import Group
from peloton.cli.listing import Listing, listing
from peloton.cli.live_names import live_jobs
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peloton.api.scheduling.scheduling_pb2 import ScheduleStatus
    from peloton.private.jobmgr.scheduling.scheduling_pb2 import Schedule

HEADS = ("JOB", "NAME", "POOL", "SCHEDULE", "NEXT RUN", "LAST RUN", "RUNS")
MOST_LISTED = 1000
MOST_RUNS = 100
"""Runs that are listed: as many as are kept where the spec does not say."""


@click.group(cls=Group)
def schedule() -> None:
    """List, pause and resume the schedules of jobs. A job gets one by `schedule` in its spec."""


@schedule.command("list")
@click.option("--pool", default="", metavar="PATH", help="Only those in this pool and below.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, MOST_LISTED),
    default=MOST_LISTED,
    show_default=True,
    help="List at most this number.",
)
@pass_session
def list_(session: Session, pool: str, limit: int) -> None:
    """List the jobs with a schedule, the one that runs next first, paused ones last."""
    from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb

    request = pb.ListSchedulesRequest(pool=pool, limit=limit)
    answer = session.call(RPCS.scheduling_svc.ListSchedules, request)
    session.show(answer, lambda: _table(answer.schedules))
    if (rest := answer.total - len(answer.schedules)) > 0:
        told = "one more is not shown" if rest == 1 else f"{rest:,} more are not shown"
        click.echo(f"{told}: --limit is {limit}", err=True)


@schedule.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def pause(session: Session, job_id: str) -> None:
    """Let a schedule begin no runs until it is resumed. A run that lives goes on."""
    from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb

    request = pb.PauseScheduleRequest()
    request.job_id.value = job_id
    answer = session.call(RPCS.scheduling_svc.PauseSchedule, request)
    session.show(answer, lambda: _paused(job_id, answer.status))


@schedule.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def resume(session: Session, job_id: str) -> None:
    """Let a paused schedule go on. The times of the pause get no run."""
    from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb

    request = pb.ResumeScheduleRequest()
    request.job_id.value = job_id
    answer = session.call(RPCS.scheduling_svc.ResumeSchedule, request)
    session.show(answer, lambda: f"The schedule of job {job_id} goes on: {_next(answer.status)}")


@schedule.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def runs(session: Session, job_id: str) -> None:
    """List the runs of a schedule that are kept, newest first. Each is a job of its own."""
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.query import query_pb2
    from peloton.cli.rows import job_table
    from peloton.model.schedule import SCHEDULE_LABEL

    spec = job_pb2.QuerySpec(pagination=query_pb2.PaginationSpec(limit=MOST_RUNS))
    spec.labels.add(key=SCHEDULE_LABEL, value=job_id)
    order = spec.pagination.orderBy.add(order=query_pb2.OrderBy.DESC)
    order.property.value = "creation_time"
    answer = session.call(RPCS.job_svc.Query, job_pb2.QueryRequest(spec=spec, summaryOnly=True))
    session.show(answer, lambda: job_table(answer.results))


def _paused(job_id: str, status: ScheduleStatus) -> str:
    lives = f"; the run {status.running_job_id} goes on" if status.running_job_id else ""
    return f"The schedule of job {job_id} is paused{lives}"


def _next(status: ScheduleStatus) -> str:
    if status.paused_since:
        return f"paused since {status.paused_since}"
    return f"next run at {status.next_times[0]}" if status.next_times else "no further run"


def _table(schedules: Iterable[Schedule]) -> Listing:
    return listing(HEADS, [_row(each) for each in schedules])


def _row(each: Schedule) -> tuple[object, ...]:
    from peloton.api.v0.job import job_pb2

    status = each.status
    last = status.last_time
    if last and each.last_state:
        last += f" {job_pb2.JobState.Name(each.last_state)}"
    return (
        each.job_id.value,
        each.name,
        each.pool,
        f"{each.schedule.cron} ({each.schedule.time_zone or 'UTC'})",
        _next(status).removeprefix("next run at "),
        last or "none",
        status.kept_runs,
    )
