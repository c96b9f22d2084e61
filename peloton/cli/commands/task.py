"""`peloton task`: the instances of v0 jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.commands.exec import exec_
from peloton.cli.groups import Group
from peloton.cli.live_names import live_jobs
from peloton.cli.params import INDEX, UINT64_MAX, EnumName, InstanceRange, WholeNumber, Words
from peloton.cli.queries import page_options, pagination
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.api.v0.peloton_pb2 import JobID
    from peloton.api.v0.task.task_pb2 import InstanceRange as RangeMessage
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.cli.listing import Listing

JOB = click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
INSTANCE = click.argument("instance", type=INDEX)
RUNS = WholeNumber(0, UINT64_MAX)
RANGES = click.option(
    "-r",
    "--range",
    "ranges",
    type=InstanceRange(),
    multiple=True,
    help="from:to, more than once.  [default: all]",
)
RANGE = click.option("-r", "--range", "span", type=InstanceRange(), help="from:to.  [default: all]")


def _task_states() -> Any:
    from peloton.api.v0.task import task_pb2

    return task_pb2.TaskState.DESCRIPTOR


@click.group(cls=Group)
def task() -> None:
    """Look at and control the instances of a job; read their output."""


task.add_command(exec_)


@task.command()
@JOB
@INSTANCE
@pass_session
def get(session: Session, job_id: str, instance: int) -> None:
    """Show one instance with its current run."""
    from peloton.api.v0.task import task_pb2
    from peloton.cli.told import told_of_instance

    request = task_pb2.GetRequest(jobId=_job(job_id), instanceId=instance)
    response = session.call(RPCS.task_svc.Get, request)
    running = response.result.runtime.state == task_pb2.RUNNING
    told = told_of_instance(session, job_id, instance) if running else None
    session.show_object(response.result, f"{job_id}-{instance}", told)


@task.command("list")
@JOB
@RANGE
@pass_session
def list_(session: Session, job_id: str, span: tuple[int, int] | None) -> None:
    """List the instances of a job, with what agents told last of those that run."""
    from peloton.api.v0.task import task_pb2

    request = task_pb2.ListRequest(jobId=_job(job_id), range=_range(span))
    response = session.call(RPCS.task_svc.List, request)
    tasks = response.result.value
    session.show(response, lambda: _table(session, job_id, [tasks[each] for each in sorted(tasks)]))


@task.command()
@JOB
@click.option(
    "-s", "--states", type=EnumName(_task_states), default="", help="Only instances in any of STATES."
)
@click.option("--names", type=Words(), default="", help="Only instances with any of these task names.")
@click.option("--hosts", type=Words(), default="", help="Only instances on any of these hosts.")
@page_options("instance_id", "ASC")
@pass_session
def query(session: Session, /, job_id: str, **given: Any) -> None:
    """Find instances of a job by state, name and host."""
    from peloton.api.v0.task import task_pb2

    page = pagination(given["limit"], given["offset"], given["sort"], given["sortorder"])
    states = [task_pb2.TaskState.ValueType(state) for state in given["states"]]
    spec = task_pb2.QuerySpec(taskStates=states, names=given["names"], hosts=given["hosts"], pagination=page)
    response = session.call(RPCS.task_svc.Query, task_pb2.QueryRequest(jobId=_job(job_id), spec=spec))
    session.show(response, lambda: _table(session, job_id, response.records))


def _table(session: Session, job_id: str, tasks: Sequence[TaskInfo]) -> Listing:
    """Return a table of tasks, with what agents told last of those that run."""
    from peloton.api.v0.task import task_pb2
    from peloton.cli.rows import task_table
    from peloton.cli.told import read_told

    running = [task.instanceId for task in tasks if task.runtime.state == task_pb2.RUNNING]
    return task_table(tasks, told=read_told(session, job_id, running))


@task.command()
@JOB
@RANGES
@pass_session
def start(session: Session, job_id: str, ranges: tuple[tuple[int, int], ...]) -> None:
    """Start instances that were stopped."""
    from peloton.api.v0.task import task_pb2

    request = task_pb2.StartRequest(jobId=_job(job_id), ranges=_ranges(ranges))
    response = session.call(RPCS.task_svc.Start, request)
    session.show(response, lambda: _done("started", response.startedInstanceIds, response.invalidInstanceIds))


@task.command()
@JOB
@RANGES
@pass_session
def stop(session: Session, job_id: str, ranges: tuple[tuple[int, int], ...]) -> None:
    """Stop instances; without a range the whole job."""
    from peloton.api.v0.task import task_pb2

    request = task_pb2.StopRequest(jobId=_job(job_id), ranges=_ranges(ranges))
    response = session.call(RPCS.task_svc.Stop, request)
    session.show(
        response, lambda: _done("being stopped", response.stoppedInstanceIds, response.invalidInstanceIds)
    )


@task.command()
@JOB
@RANGES
@pass_session
def restart(session: Session, job_id: str, ranges: tuple[tuple[int, int], ...]) -> None:
    """Stop instances and start them again."""
    from peloton.api.v0.task import task_pb2

    request = task_pb2.RestartRequest(jobId=_job(job_id), ranges=_ranges(ranges))
    response = session.call(RPCS.task_svc.Restart, request)
    session.show(response, lambda: f"Instances of job {job_id} are being restarted")


@task.command()
@JOB
@INSTANCE
@click.argument("run", metavar="[TASKID]", default="")
@click.option(
    "-f",
    "--filename",
    default="stdout",
    show_default=True,
    help="The file of the sandbox to show, such as out/report.txt.",
)
@click.option(
    "-F", "--follow", is_flag=True, help="Go on until the run has ended; wait for it if it has not begun."
)
@pass_session
def logs(session: Session, job_id: str, instance: int, run: str, filename: str, follow: bool) -> None:
    """Print the output of an instance, of its current run or of TASKID (a Mesos task id, or a run's number).

    With -j, the file is the text of one JSON object and cannot be followed.
    """
    from peloton.cli.logs import Logs
    from peloton.cli.output import say

    if session.json and follow:
        raise click.UsageError("--json and --follow do not go together")
    output = sys.stdout.buffer
    pieces: list[bytes] = []

    def write(piece: bytes) -> None:
        output.write(piece)
        output.flush()

    task_id = full_task_id(job_id, instance, run)
    reader = Logs(session, job_id, instance, task_id, filename, pieces.append if session.json else write, say)
    if follow:
        reader.follow()
    else:
        reader.copy()
    text = b"".join(pieces).decode(errors="replace")
    if session.json:
        session.show({"jobId": job_id, "instanceId": instance, "filename": filename, "text": text}, str)


@task.command()
@JOB
@INSTANCE
@click.option("-r", "--run", default="", help="Only this run: its number or Mesos task id.")
@click.option(
    "-l", "--limit", type=RUNS, default=0, help="Number of runs to show, the last ones.  [default: 10]"
)
@pass_session
def events(session: Session, job_id: str, instance: int, run: str, limit: int) -> None:
    """Show the history of an instance, run by run."""
    show_events(session, job_id, instance, run, limit)


@task.command()
@JOB
@RANGE
@pass_session
def refresh(session: Session, job_id: str, span: tuple[int, int] | None) -> None:
    """Have the job manager read instances from the store again."""
    from peloton.api.v0.task import task_pb2

    request = task_pb2.RefreshRequest(jobId=_job(job_id), range=_range(span))
    response = session.call(RPCS.task_svc.Refresh, request)
    session.show(response, lambda: f"Instances of job {job_id} refreshed")


@task.command()
@JOB
@INSTANCE
@pass_session
def cache(session: Session, job_id: str, instance: int) -> None:
    """Show what the job manager holds of an instance in memory."""
    from peloton.api.v0.task import task_pb2

    request = task_pb2.GetCacheRequest(jobId=_job(job_id), instanceId=instance)
    response = session.call(RPCS.task_svc.GetCache, request)
    session.show_object(response, f"{job_id}-{instance}")


@task.command()
@JOB
@INSTANCE
@pass_session
def why(session: Session, job_id: str, instance: int) -> None:
    """Explain the state of an instance: what it waits for, where it runs, or how it ended."""
    from peloton.cli.explain_client import explain_task
    from peloton.cli.why import task_plain, task_text

    explained = explain_task(session, job_id, instance)
    session.show(task_plain(job_id, instance, explained), lambda: task_text(job_id, instance, explained))


def show_events(session: Session, job_id: str, instance: int, run: str, limit: int) -> None:
    """Print the history of an instance; `run` as in `full_task_id`, `limit` in runs (0: 10)."""
    from peloton.api.v0.task import task_pb2
    from peloton.cli.rows import event_table

    run_id = full_task_id(job_id, instance, run)
    request = task_pb2.GetPodEventsRequest(jobId=_job(job_id), instanceId=instance, limit=limit, runId=run_id)
    response = session.call(RPCS.task_svc.GetPodEvents, request)
    session.show(response, lambda: event_table(response.result))


def full_task_id(job_id: str, instance: int, run: str) -> str:
    """Return the Mesos task id of a run given by its number; return any other text as it is."""
    return f"{job_id}-{instance}-{run}" if run.isascii() and run.isdecimal() else run


def _job(value: str) -> JobID:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.JobID(value=value)


def _range(span: tuple[int, int] | None) -> RangeMessage | None:
    return _ranges((span,))[0] if span else None


def _ranges(spans: tuple[tuple[int, int], ...]) -> list[RangeMessage]:
    from peloton.api.v0.task import task_pb2

    return [task_pb2.InstanceRange(**{"from": low, "to": high}) for low, high in spans]


def _done(what: str, done: Any, refused: Any) -> str:
    from peloton.model.spans import spans

    text = f"{what}: {spans(done)}"
    return f"{text}\nnot {what}: {spans(refused)}" if refused else text
