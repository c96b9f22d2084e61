"""`peloton job`: v0 jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.commands.job_ends import ENDS
from peloton.cli.commands.job_move import move
from peloton.cli.commands.job_suspend import SUSPENSION
from peloton.cli.commands.members import members
from peloton.cli.commands.rolling import ROLLING
from peloton.cli.commands.specs import SPEC_COMMANDS
from peloton.cli.commands.stateless import stateless
from peloton.cli.groups import Group
from peloton.cli.listing import Listing, listing
from peloton.cli.live_names import files, live_jobs, live_pools
from peloton.cli.params import DRY_RUN, INDEX
from peloton.cli.queries import JobQuery, job_query_options
from peloton.cli.session import Session, pass_session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, PelotonError

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig, UpdateResponse
    from peloton.api.v0.peloton_pb2 import JobID, Secret


SECRET_DATA = (
    "What the file holds: @FILE reads it from a file, - from standard input. Text that is given plainly is "
    "seen by all users of this machine in its list of processes, and warned of."
)


@click.group(cls=Group)
def job() -> None:
    """Create, watch, change and stop jobs."""


for _command in (*ENDS, *ROLLING, *SPEC_COMMANDS, *SUSPENSION, members, move, stateless):
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
@click.option("--follow", is_flag=True, help="Show the progress until the job has ended, or a service runs.")
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

    With --follow the exit code is 0 only if the job SUCCEEDED, or all instances of a service run. Instances
    that no host of the cluster could take are warned of on standard error. With --dry-run the job is checked
    and planned only: all is told for which it would be refused.
    """
    from peloton.api.v0.job import job_pb2
    from peloton.cli.feasibility import told, warnings
    from peloton.cli.output import say
    from peloton.cli.spec_check import located, read

    if dry_run and follow:
        raise click.UsageError("--follow and --dry-run do not go together: nothing is created")
    secrets = _secrets(secret_path, secret_data, config)
    if dry_run:
        from peloton.cli.dry_run import show_plan

        return show_plan(session, "job", config, respool, job_id)
    parsed = read("job", config)
    spec = parsed.message
    with located(parsed):
        _set_pool(spec, session, respool)
        request = job_pb2.CreateRequest(id=_id(job_id), config=spec, secrets=secrets)
        response = session.call(RPCS.job_svc.Create, request)
    if not follow:
        session.show(response, lambda: f"Job {response.jobId.value} created", response.jobId.value)
    elif session.plain:
        click.echo(f"Job {response.jobId.value} created")
    for warning in (*told(response), *warnings(session, spec)):
        say(warning)
    if not follow:
        return 0
    from peloton.cli.follow import ended, follow_to_end
    from peloton.cli.follow_workflow import follow_until_it_runs

    if spec.type != job_pb2.BATCH:
        return follow_until_it_runs(session, response.jobId.value)
    info = follow_to_end(session, response.jobId.value)
    session.show(info, lambda: "", info.id.value)
    return ended(session, info)


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
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
    from peloton.cli.feasibility import told
    from peloton.cli.output import say
    from peloton.cli.spec_check import located, read

    held = session.call_unchecked(RPCS.job_svc.Get, job_pb2.GetRequest(id=_id(job_id))).secrets
    secrets = _secrets(secret_path, secret_data, config)
    secrets += [secret for secret in held if secret.path != secret_path]
    parsed = read("job", config)
    request = job_pb2.UpdateRequest(id=_id(job_id), config=parsed.message, secrets=secrets)
    with located(parsed):
        response = session.call(RPCS.job_svc.Update, request)
    session.show(response, lambda: f"Job {job_id} updated{_done(response)}")
    for warning in told(response):
        say(warning)


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def get(session: Session, job_id: str) -> None:
    """Show a job's config and runtime, with what agents told last of its runs."""
    from peloton.api.v0.job import job_pb2
    from peloton.cli.told import told_of_job

    response = session.call(RPCS.job_svc.Get, job_pb2.GetRequest(id=_id(job_id)))
    session.show_object(response, job_id, told_of_job(session, job_id))


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def status(session: Session, job_id: str) -> None:
    """Show a job's runtime: state, times, instances by state."""
    from peloton.cli.follow import get_info

    runtime = get_info(session, job_id).runtime
    session.show_object(runtime, job_id)


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.option(
    "-i", "--instance", "instances", type=INDEX, multiple=True, help="More than once.  [default: all]"
)
@pass_session
def usage(session: Session, job_id: str, instances: tuple[int, ...]) -> None:
    """Show what the running instances use now, and the most memory that each had at a time.

    Agents of at most 64 hosts are asked. Those of Apache Mesos do not tell the most memory.
    """
    from peloton.cli.usage import left_out, read_usage, usage_listing

    answer = read_usage(session, job_id, instances)
    session.show(answer, lambda: usage_listing(answer.usages))
    for line in left_out(answer):
        click.echo(line, err=True)


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def refresh(session: Session, job_id: str) -> None:
    """Have the job manager read the job from the store again."""
    from peloton.api.v0.job import job_pb2

    response = session.call(RPCS.job_svc.Refresh, job_pb2.RefreshRequest(id=_id(job_id)))
    session.show(response, lambda: f"Job {job_id} refreshed")


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def cache(session: Session, job_id: str) -> None:
    """Show what the job manager holds of a job in memory."""
    from peloton.api.v0.job import job_pb2

    response = session.call(RPCS.job_svc.GetCache, job_pb2.GetCacheRequest(id=_id(job_id)))
    session.show_object(response)


@job.command()
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.option(
    "--estimate/--no-estimate",
    "estimated",
    default=True,
    help="Estimate when instances that wait will start, which takes seconds.  [default: estimate]",
)
@pass_session
def why(session: Session, job_id: str, estimated: bool) -> None:
    """Explain the states of a job's instances: how many wait for what, run, or ended how.

    When those that wait will start is estimated here, by a simulation that goes on from the cluster's state.
    """
    from dataclasses import replace

    from peloton.cli.estimate import start_of
    from peloton.cli.explain_client import explain_job
    from peloton.cli.why import job_plain, job_text

    explained = explain_job(session, job_id)
    if estimated and explained.waits:
        explained = replace(explained, start=start_of(session, job_id, click.get_current_context().meta))
    session.show(job_plain(explained), lambda: job_text(explained))


@job.command("active-list")
@pass_session
def active_list(session: Session) -> None:
    """List the ids of all active jobs."""
    from peloton.api.v0.job import job_pb2

    response = session.call(RPCS.job_svc.GetActiveJobs, job_pb2.GetActiveJobsRequest())
    ids = sorted(one.value for one in response.ids)

    def human() -> str | Listing:
        return listing(("ID",), [(one,) for one in ids]) if session.output else "\n".join(ids)

    session.show(response, human)


@job.command("priority-classes")
@pass_session
def priority_classes(session: Session) -> None:
    """List the priority classes that jobs may name in `sla.priorityClass`, the highest first."""
    from peloton.private.jobmgr.scheduling import scheduling_pb2

    response = session.call(
        RPCS.scheduling_svc.ListPriorityClasses, scheduling_pb2.ListPriorityClassesRequest()
    )
    columns = ("CLASS", "PRIORITY", "DESCRIPTION")
    rows = [(each.name, each.priority, each.description) for each in response.classes]
    session.show(response, lambda: listing(columns, rows))


@job.command()
@job_query_options
@pass_session
def query(session: Session, /, **given: Any) -> None:
    """Find jobs, newest first."""
    from peloton.cli.rows import job_table

    response = session.call(RPCS.job_svc.Query, JobQuery(**given).request())
    session.show(response, lambda: job_table(response.results))


def _done(response: UpdateResponse) -> str:
    """Say what an update has done, and the numbers of the instances that it has added."""
    from peloton.model.workflow import ranges_of

    named = ", ".join(f"{each.first}:{each.end}" for each in ranges_of(response.addedInstances))
    return (f": {response.message}" if response.message else "") + (f" ({named})" if named else "")


def _id(value: str) -> JobID:
    from peloton.api.v0 import peloton_pb2

    return peloton_pb2.JobID(value=value)


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
