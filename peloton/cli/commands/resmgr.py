"""`peloton resmgr`: what the resource manager holds."""

from __future__ import annotations

import click

from peloton.cli import references
from peloton.cli.groups import Group
from peloton.cli.live_names import live_pools
from peloton.cli.params import COUNT, Words
from peloton.cli.session import Session, pass_session, pool_id
from peloton.client.rpcs import RPCS


@click.group(cls=Group)
def resmgr() -> None:
    """Look into the resource manager."""


@resmgr.group()
def tasks() -> None:
    """List tasks that it schedules."""


@tasks.command()
@click.option("--job", type=references.JOB, metavar="TEXT", default="", help="Tasks of this job.")
@click.option("--respool", default="", help="Tasks of this pool, by id or path.")
@click.option("--states", type=Words(), default="", help="Only tasks in any of these states.")
@pass_session
def active(session: Session, job: str, respool: str, states: list[str]) -> None:
    """List tasks by state, with the reason of those that wait."""
    from peloton.cli.listing import listing
    from peloton.present.times import short_time
    from peloton.private.resmgrsvc import resmgrsvc_pb2

    request = resmgrsvc_pb2.GetActiveTasksRequest(
        jobID=job, respoolID=_pool(session, respool), states=[state.upper() for state in states]
    )
    response = session.call(RPCS.resmgr_svc.GetActiveTasks, request)
    rows = [
        (
            entry.taskID,
            entry.taskState or state,
            entry.hostname,
            short_time(entry.lastUpdateTime),
            entry.reason,
        )
        for state, entries in sorted(response.tasksByState.items())
        for entry in entries.taskEntry
    ]
    heads = ("Task ID", "State", "Host", "Last Update", "Reason")
    session.show(response, lambda: listing(heads, rows))


@tasks.command()
@click.argument("respool", metavar="RESPOOL", shell_complete=live_pools)
@click.option(
    "--limit", type=COUNT, default=100, show_default=True, help="Number of gangs to show of each queue."
)
@pass_session
def pending(session: Session, respool: str, limit: int) -> None:
    """List gangs that wait for admission in the pool RESPOOL (its id or path), queue by queue in order."""
    from peloton.api.v0 import peloton_pb2
    from peloton.cli.listing import listing
    from peloton.private.resmgrsvc import resmgrsvc_pb2

    pool = peloton_pb2.ResourcePoolID(value=_pool(session, respool))
    request = resmgrsvc_pb2.GetPendingTasksRequest(respoolID=pool, limit=limit)
    response = session.call(RPCS.resmgr_svc.GetPendingTasks, request)
    rows = [
        (queue, position, task_id)
        for queue, gangs in sorted(response.pendingGangsByQueue.items())
        for position, gang in enumerate(gangs.pendingGangs, 1)
        for task_id in gang.taskIDs
    ]
    session.show(response, lambda: listing(("Queue", "Gang", "Task ID"), rows))


@tasks.command()
@click.option("--respool", default="", help="Tasks of this pool, by id or path.")
@pass_session
def orphan(session: Session, respool: str) -> None:
    """List runs that were replaced and have not ended yet."""
    from peloton.cli.listing import listing
    from peloton.private.resmgrsvc import resmgrsvc_pb2

    request = resmgrsvc_pb2.GetOrphanTasksRequest(respoolID=_pool(session, respool))
    response = session.call(RPCS.resmgr_svc.GetOrphanTasks, request)
    rows = [(task.taskId.value, task.name, task.hostname) for task in response.orphanTasks]
    session.show(response, lambda: listing(("Mesos Task ID", "Name", "Host"), rows))


def _pool(session: Session, pool: str) -> str:
    return pool_id(session, pool) if pool.startswith("/") else pool
