"""`peloton job`: v0 jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from peloton.cli.commands.rolling import ROLLING
from peloton.cli.commands.stateless import stateless
from peloton.cli.exit_codes import JOB_FAILED
from peloton.cli.groups import Group
from peloton.cli.listing import Listing, listing
from peloton.cli.live_names import files, live_jobs, live_pools
from peloton.cli.params import COUNT, DRY_RUN, Labels, WholeNumber
from peloton.cli.queries import PAGE, JobQuery, job_query_options
from peloton.cli.session import Session, pass_session, pool_id
from peloton.errors import InvalidArgument, PelotonError, Refused

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig, JobInfo
    from peloton.api.v0.peloton_pb2 import JobID, Secret


SECRET_DATA = (
    "What the file holds: @FILE reads it from a file, - from standard input. Text that is given plainly is "
    "seen by all users of this machine in its list of processes, and warned of."
)


@click.group(cls=Group)
def job() -> None:
    """Create, watch, change and stop jobs."""


for _command in (*ROLLING, stateless):
    job.add_command(_command)


def secret_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the two flags that give a job a secret file."""
    command = click.option("--secret-data", help=SECRET_DATA)(command)
    return click.option("--secret-path", help="Path of a secret file in the job's containers.")(command)


@job.command()
@click.argument("respool", shell_complete=live_pools)
@click.argument("config", shell_complete=files)
@click.option(
    "-i", "--jobID", "job_id", default="", help="UUID of the new job.  [default: the server makes one]"
)
@secret_options
@click.option("--follow", is_flag=True, help="Show the progress until the job has ended.")
@DRY_RUN
@pass_session
def create(
    session: Session,
    respool: str,
    config: str,
    job_id: str,
    secret_path: str | None,
    secret_data: str | None,
    follow: bool,
    dry_run: bool,
) -> int:
    """Create a job from the spec CONFIG (YAML, `-` for standard input) in the pool at path RESPOOL.

    With --follow the exit code is 0 only if the job SUCCEEDED. Instances that no host of the cluster could
    take are warned of on standard error. With --dry-run the job is checked and planned only.
    """
    from peloton.api.v0.job import job_pb2
    from peloton.cli.feasibility import warnings
    from peloton.cli.output import say

    if dry_run and follow:
        raise click.UsageError("--follow and --dry-run do not go together: nothing is created")
    secrets = _secrets(secret_path, secret_data, config)
    spec = _read(config)
    _set_pool(spec, session, respool)
    if dry_run:
        from peloton.cli.dry_run import show_plan

        return show_plan(session, config=spec)
    request = job_pb2.CreateRequest(id=_id(job_id), config=spec, secrets=secrets)
    response = session.call("job_svc", "Create", request)
    if not follow:
        session.show(response, lambda: f"Job {response.jobId.value} created", response.jobId.value)
    elif session.plain:
        click.echo(f"Job {response.jobId.value} created")
    for warning in warnings(session, spec):
        say(warning)
    if not follow:
        return 0
    info = _follow(session, response.jobId.value)
    session.show(info, lambda: "", info.id.value)
    return _ended(session, info)


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@click.argument("config", shell_complete=files)
@secret_options
@pass_session
def update(
    session: Session, job_id: str, config: str, secret_path: str | None, secret_data: str | None
) -> None:
    """Add instances to a batch job: CONFIG is its whole spec, with a larger instanceCount.

    Its secrets stay; the one that has the path of the secret given here gets the new content.
    """
    from peloton.api.v0.job import job_pb2

    held = session.call_unchecked("job_svc", "Get", job_pb2.GetRequest(id=_id(job_id))).secrets
    secrets = _secrets(secret_path, secret_data, config)
    secrets += [secret for secret in held if secret.path != secret_path]
    request = job_pb2.UpdateRequest(id=_id(job_id), config=_read(config), secrets=secrets)
    response = session.call("job_svc", "Update", request)
    session.show(
        response, lambda: f"Job {job_id} updated" + (f": {response.message}" if response.message else "")
    )


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@pass_session
def delete(session: Session, job_id: str) -> None:
    """Remove a job that has ended, with its tasks."""
    from peloton.api.v0.job import job_pb2

    response = session.call("job_svc", "Delete", job_pb2.DeleteRequest(id=_id(job_id)))
    session.show(response, lambda: f"Job {job_id} deleted")


@job.command()
@click.argument("job_id", metavar="[JOB]", required=False, shell_complete=live_jobs)
@click.option("--progress", is_flag=True, help="Show the progress until the jobs have ended.")
@click.option("--owner", help="Stop the active jobs of this owner.")
@click.option("-l", "--labels", type=Labels(), help="Stop the active jobs that have these labels.")
@click.option(
    "-f", "--force", is_flag=True, help="Do not ask before jobs found by owner or labels are stopped."
)
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(1, PAGE),
    default=100,
    show_default=True,
    help="Stop at most so many.",
)
@click.option("-q", "--total", type=COUNT, default=100, show_default=True, help="Look at so many.")
@pass_session
def stop(
    session: Session,
    job_id: str | None,
    progress: bool,
    owner: str | None,
    labels: list[tuple[str, str]] | None,
    force: bool,
    limit: int,
    total: int,
) -> int:
    """Stop a job, or the active jobs of an owner or with labels."""
    if bool(job_id) == bool(owner or labels):
        raise click.UsageError("give either a job's id, or --owner or --labels")
    ids = [job_id] if job_id else _active(session, owner, labels, limit, total)
    if not job_id and ids and not force:
        click.echo("\n".join(ids), err=True)
        click.confirm(f"Stop these {len(ids)} jobs?", abort=True, err=True)
    stopped = [one for one in (_stop(session, one) for one in ids) if one is not None]
    infos = [_follow(session, one["jobId"]) for one in stopped] if progress else []
    if session.json:
        from peloton.client.plain import as_json

        session.show([as_json(one) for one in infos] if progress else stopped, lambda: "")
    elif not ids:
        click.echo("No active job found")
    return 0 if len(stopped) == len(ids) else 1


def _stop(session: Session, job_id: str) -> dict[str, Any] | None:
    """Stop a job; return what was stopped, or None and print why where it was refused."""
    from peloton.api.v0.task import task_pb2
    from peloton.cli.output import say

    try:
        response = session.call("task_svc", "Stop", task_pb2.StopRequest(jobId=_id(job_id)))
    except Refused as refusal:
        said = str(refusal)
        say(f"peloton: {said}" if job_id in said else f"peloton: job {job_id}: {said}")
        return None
    count = len(response.stoppedInstanceIds)
    if not session.json:
        click.echo(
            f"Job {job_id} "
            + (f"is being stopped: {count} instances" if count else "has no instance left to stop")
        )
    return {"jobId": job_id, "stoppedInstanceIds": list(response.stoppedInstanceIds)}


def _active(
    session: Session, owner: str | None, labels: list[tuple[str, str]] | None, limit: int, total: int
) -> list[str]:
    query = JobQuery(owner=owner or "", labels=labels or [], states=_unended(), limit=limit, total=total)
    response = session.call("job_svc", "Query", query.request())
    return [one.id.value for one in response.results]


def _unended() -> list[int]:
    from peloton.api.v0.job import job_pb2

    return [job_pb2.UNINITIALIZED, job_pb2.INITIALIZED, job_pb2.PENDING, job_pb2.RUNNING]


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@pass_session
def get(session: Session, job_id: str) -> None:
    """Show a job's config and runtime."""
    from peloton.api.v0.job import job_pb2

    response = session.call("job_svc", "Get", job_pb2.GetRequest(id=_id(job_id)))
    session.show_object(response, job_id)


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@pass_session
def status(session: Session, job_id: str) -> None:
    """Show a job's runtime: state, times, instances by state."""
    runtime = _get(session, job_id).runtime
    session.show_object(runtime, job_id)


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@pass_session
def refresh(session: Session, job_id: str) -> None:
    """Have the job manager read the job from the store again."""
    from peloton.api.v0.job import job_pb2

    response = session.call("job_svc", "Refresh", job_pb2.RefreshRequest(id=_id(job_id)))
    session.show(response, lambda: f"Job {job_id} refreshed")


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@pass_session
def cache(session: Session, job_id: str) -> None:
    """Show what the job manager holds of a job in memory."""
    from peloton.api.v0.job import job_pb2

    response = session.call("job_svc", "GetCache", job_pb2.GetCacheRequest(id=_id(job_id)))
    session.show_object(response)


@job.command()
@click.argument("job_id", metavar="JOB", shell_complete=live_jobs)
@pass_session
def why(session: Session, job_id: str) -> None:
    """Explain the states of a job's instances: how many wait for what, run, or ended how."""
    from peloton.cli.explain_client import explain_job
    from peloton.cli.why import job_plain, job_text

    explained = explain_job(session, job_id)
    session.show(job_plain(explained), lambda: job_text(explained))


@job.command("active-list")
@pass_session
def active_list(session: Session) -> None:
    """List the ids of all active jobs."""
    from peloton.api.v0.job import job_pb2

    response = session.call("job_svc", "GetActiveJobs", job_pb2.GetActiveJobsRequest())
    ids = sorted(one.value for one in response.ids)

    def human() -> str | Listing:
        return listing(("ID",), [(one,) for one in ids]) if session.output else "\n".join(ids)

    session.show(response, human)


@job.command()
@job_query_options
@pass_session
def query(session: Session, /, **given: Any) -> None:
    """Find jobs, newest first."""
    from peloton.cli.rows import job_table

    response = session.call("job_svc", "Query", JobQuery(**given).request())
    session.show(response, lambda: job_table(response.results))


def _get(session: Session, job_id: str) -> JobInfo:
    from peloton.api.v0.job import job_pb2

    info: JobInfo = session.call("job_svc", "Get", job_pb2.GetRequest(id=_id(job_id))).jobInfo
    return info


def _follow(session: Session, job_id: str) -> JobInfo:
    from peloton.cli.progress import follow_job, progress_line

    stream = sys.stdout if session.plain else sys.stderr
    return follow_job(
        lambda: _get(session, job_id), progress_line(stream), lambda: _waiting_reason(session, job_id)
    )


def _waiting_reason(session: Session, job_id: str) -> str:
    """Return why the first of the job's PENDING tasks waits, empty where that is unknown."""
    from peloton.api.v0.query import query_pb2
    from peloton.api.v0.task import task_pb2
    from peloton.client.texts import clean

    spec = task_pb2.QuerySpec(taskStates=[task_pb2.PENDING], pagination=query_pb2.PaginationSpec(limit=1))
    try:
        found = session.call("task_svc", "Query", task_pb2.QueryRequest(jobId=_id(job_id), spec=spec)).records
    except PelotonError:
        return ""
    return clean(found[0].runtime.reason) if found else ""


def _ended(session: Session, info: JobInfo) -> int:
    from peloton.api.v0.job import job_pb2
    from peloton.cli.output import say

    if info.runtime.state == job_pb2.SUCCEEDED:
        return 0
    say(f"Job {info.id.value} ended {job_pb2.JobState.Name(info.runtime.state)}")
    for line in _failed_instances(session, info.id.value):
        say(line)
    return JOB_FAILED


def _failed_instances(session: Session, job_id: str) -> list[str]:
    """Return a line on each of the first three instances that did not succeed."""
    from peloton.api.v0.query import query_pb2
    from peloton.api.v0.task import task_pb2
    from peloton.client.texts import clean

    states = [task_pb2.FAILED, task_pb2.LOST, task_pb2.KILLED]
    spec = task_pb2.QuerySpec(taskStates=states, pagination=query_pb2.PaginationSpec(limit=3))
    try:
        found = session.call("task_svc", "Query", task_pb2.QueryRequest(jobId=_id(job_id), spec=spec)).records
    except PelotonError as error:
        return [f"the reasons cannot be read: {error}"]
    names = task_pb2.TaskState.Name
    return [
        f"  instance {one.instanceId} {names(one.runtime.state)}: "
        f"{clean(one.runtime.message or one.runtime.reason or 'no message')}"
        for one in found
    ]


def _id(value: str) -> JobID:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.JobID(value=value)


def _read(config: str) -> JobConfig:
    from peloton.api.v0.job import job_pb2
    from peloton.client.spec import read_spec

    return read_spec(job_pb2.JobConfig, config)


def _set_pool(spec: JobConfig, session: Session, path: str) -> None:
    found = pool_id(session, path)
    if spec.respoolID.value not in ("", found):
        raise InvalidArgument("respoolID", spec.respoolID.value, f"the pool {path}: leave it out of the spec")
    spec.respoolID.value = found


def _secrets(path: str | None, data: str | None, config: str) -> list[Secret]:
    from peloton.api.v0 import peloton_pb2
    from peloton.cli.output import say

    if path is None and data is None:
        return []
    if not path or data is None:
        raise click.UsageError("--secret-path and --secret-data belong together")
    if data == "-" == config:
        raise click.UsageError("--secret-data - and the spec - cannot both be read from standard input")
    if data != "-" and not data.startswith("@"):
        say(
            "warning: --secret-data: others on this machine see the secret in its list of processes, and the "
            "shell keeps it in its history; give @FILE, or - for standard input"
        )
    return [peloton_pb2.Secret(path=path, value=peloton_pb2.Secret.Value(data=_secret(data)))]


def _secret(data: str) -> bytes:
    """Return the secret that `--secret-data` gives: `-`, `@FILE`, or the text itself."""
    if data == "-":
        return sys.stdin.buffer.read()
    if not data.startswith("@"):
        return data.encode()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise PelotonError(f"--secret-data: {data[1:]} cannot be read: {error.strerror}") from error
