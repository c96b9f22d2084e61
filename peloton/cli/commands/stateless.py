"""`peloton job stateless`: services of the v1alpha API, and what changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.commands.stateless_ends import ENDS
from peloton.cli.commands.stateless_reads import READS
from peloton.cli.commands.workflow import workflow
from peloton.cli.exit_codes import DONE
from peloton.cli.groups import Group
from peloton.cli.live_names import files, live_jobs, live_pools
from peloton.cli.params import DRY_RUN, INDEX, InstanceRange
from peloton.cli.session import Session, pass_session
from peloton.cli.updates import (
    BATCH_SIZE,
    FOLLOW,
    OPAQUE_DATA,
    UpdateFlags,
    create_options,
    take_pool,
    update_options,
)
from peloton.cli.versions import (
    VERSION,
    Versioned,
    WithOpaqueData,
    before_last_update,
    call_job,
    replaceable,
    secrets_of,
    version_or_present,
)
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobSpec
    from peloton.api.v1alpha.peloton_pb2 import JobID
    from peloton.client.spec import Parsed

JOB = click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)


@click.group(cls=Group)
def stateless() -> None:
    """Services: jobs whose instances run until they are stopped."""


stateless.add_command(workflow)
for _command in (*READS, *ENDS):
    stateless.add_command(_command)


@stateless.command()
@click.argument("respool", shell_complete=live_pools)
@click.argument("spec", shell_complete=files)
@BATCH_SIZE
@click.option(
    "-i", "--jobID", "job_id", default="", help="UUID of the new job.  [default: the server makes one]"
)
@create_options
@FOLLOW
@DRY_RUN
@pass_session
def create(
    session: Session, /, respool: str, spec: str, job_id: str, follows: bool, dry_run: bool, **given: Any
) -> int:
    """Create a service from SPEC (YAML, `-` for standard input) in the pool at path RESPOOL.

    BATCH-SIZE instances are started at a time, all at once with 0. Instances that no host of the cluster
    could take are warned of on standard error. With --dry-run the service is checked and planned only, as if
    all instances were started at a time; all is told for which it would be refused.
    """
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.spec_check import located
    from peloton.wire.v1alpha.workflow import create_spec

    if dry_run and follows:
        raise click.UsageError("--follow and --dry-run do not go together: nothing is created")
    if dry_run:
        from peloton.cli.dry_run import show_plan

        return show_plan(session, "service", spec, respool, job_id)
    flags, parsed = UpdateFlags(**given), _read(spec)
    content: JobSpec = parsed.message
    with located(parsed):
        take_pool(session, content.respool_id, "respool_id", respool)
        request = pb.CreateJobRequest(
            job_id=_id(job_id), spec=content, create_spec=create_spec(flags.options)
        )
        _set_opaque_data(request, flags.opaque_data)
        response = call_job(session, RPCS.stateless_svc.CreateJob, request)
    created = response.job_id.value
    done = f"Job {created} created"
    return _begun(session, created, response, done, follows, lambda: _warn(session, response, content))


@stateless.command()
@JOB
@click.argument("spec", shell_complete=files)
@BATCH_SIZE
@click.argument("respool", shell_complete=live_pools)
@VERSION
@update_options
@FOLLOW
@pass_session
def replace(
    session: Session, /, job_id: str, spec: str, respool: str, version: str, follows: bool, **given: Any
) -> int:
    """Update a service to the new SPEC, BATCH-SIZE instances at a time, all at once with 0.

    Its secrets stay. With ENTITYVERSION only if the job is still at this version. Without it the present
    version is taken; an update or restart that is under way is then replaced with --override only. Warnings
    are those of `create`.
    """
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.spec_check import located
    from peloton.wire.v1alpha.workflow import update_spec

    flags, parsed = UpdateFlags(**given), _read(spec)
    content: JobSpec = parsed.message
    with located(parsed):
        take_pool(session, content.respool_id, "respool_id", respool)
        request = pb.ReplaceJobRequest(
            job_id=_id(job_id), spec=content, update_spec=update_spec(flags.options)
        )
        request.version.value = version or replaceable(session, job_id, flags.override)
        request.secrets.extend(secrets_of(session, job_id))
        _set_opaque_data(request, flags.opaque_data)
        response = call_job(session, RPCS.stateless_svc.ReplaceJob, request, version)
    done = f"Job {job_id} is being updated"
    return _begun(session, job_id, response, done, follows, lambda: _warn(session, response, content))


@stateless.command("replace-diff")
@JOB
@click.argument("spec", shell_complete=files)
@click.argument("respool", shell_complete=live_pools)
@VERSION
@pass_session
def replace_diff(session: Session, job_id: str, spec: str, respool: str, version: str) -> None:
    """Show what `replace` with SPEC would do to the instances, and for which changes; change nothing."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.service_rows import diff_text

    content: JobSpec = _read(spec).message
    take_pool(session, content.respool_id, "respool_id", respool)
    request = pb.GetReplaceJobDiffRequest(job_id=_id(job_id), spec=content)
    request.version.value = version_or_present(session, job_id, version)
    response = call_job(session, RPCS.stateless_svc.GetReplaceJobDiff, request, version)
    session.show(response, lambda: diff_text(response))


@stateless.command()
@JOB
@BATCH_SIZE
@VERSION
@update_options
@FOLLOW
@pass_session
def rollback(session: Session, /, job_id: str, version: str, follows: bool, **given: Any) -> int:
    """Update a service back to the spec that it had at ENTITYVERSION, BATCH-SIZE instances at a time.

    Without ENTITYVERSION, to the spec before the last update. `list-updates` shows the versions there were.
    An update or restart that is under way is replaced with
    --override only.
    """
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.wire.v1alpha.workflow import update_spec

    flags = UpdateFlags(**given)
    now = replaceable(session, job_id, flags.override)
    version = version or before_last_update(session, job_id, now)
    earlier = pb.GetJobRequest(job_id=_id(job_id))
    earlier.version.value = version
    spec = call_job(session, RPCS.stateless_svc.GetJob, earlier).job_info.spec
    request = pb.ReplaceJobRequest(job_id=_id(job_id), spec=spec, update_spec=update_spec(flags.options))
    request.version.value = now
    request.secrets.extend(secrets_of(session, job_id))
    _set_opaque_data(request, flags.opaque_data)
    response = call_job(session, RPCS.stateless_svc.ReplaceJob, request)
    return _begun(
        session, job_id, response, f"Job {job_id} is being updated to its spec of {version}", follows
    )


@stateless.command()
@JOB
@VERSION
@click.option(
    "-r",
    "--range",
    "ranges",
    type=InstanceRange(),
    multiple=True,
    help="from:to, more than once.  [default: all]",
)
@click.option(
    "--batch-size",
    type=INDEX,
    default=0,
    help="Number of instances to restart at a time.  [default: all at once]",
)
@click.option("--in-place", is_flag=True, help="Start instances again on the hosts they were on.")
@OPAQUE_DATA
@FOLLOW
@pass_session
def restart(
    session: Session,
    job_id: str,
    version: str,
    ranges: tuple[tuple[int, int], ...],
    batch_size: int,
    in_place: bool,
    opaque_data: str,
    follows: bool,
) -> int:
    """Restart the instances of a service. Those that are stopped are started.

    An update or restart that is under way is replaced with ENTITYVERSION only.
    """
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb

    request = pb.RestartJobRequest(job_id=_id(job_id))
    request.version.value = version or replaceable(
        session, job_id, False, "`restart` with its ENTITYVERSION replaces it"
    )
    request.restart_spec.batch_size, request.restart_spec.in_place = batch_size, in_place
    for low, high in ranges:
        request.restart_spec.ranges.add(**{"from": low, "to": high})
    _set_opaque_data(request, opaque_data)
    response = call_job(session, RPCS.stateless_svc.RestartJob, request, version)
    return _begun(session, job_id, response, f"Job {job_id} is being restarted", follows)


@stateless.command()
@JOB
@VERSION
@FOLLOW
@pass_session
def start(session: Session, job_id: str, version: str, follows: bool) -> int:
    """Start a service that was stopped, with all of its instances."""
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.cli.follow_workflow import follow_until_it_runs

    request = pb.StartJobRequest(job_id=_id(job_id))
    request.version.value = version_or_present(session, job_id, version)
    response = call_job(session, RPCS.stateless_svc.StartJob, request, version)
    done = f"Job {job_id} is being started, entity version {response.version.value}"
    if not follows:
        session.show(response, lambda: done, job_id)
        return DONE
    if session.plain:
        click.echo(done)
    return follow_until_it_runs(session, job_id)


def _begun(
    session: Session,
    job_id: str,
    response: Versioned,
    done: str,
    follows: bool,
    warn: Callable[[], object] = lambda: None,
) -> int:
    """Print what was begun, with the entity version then; follow it where that is wanted."""
    text = f"{done}, entity version {response.version.value}"
    if not follows:
        session.show(response, lambda: text, job_id)
    elif session.plain:
        click.echo(text)
    warn()
    if not follows:
        return DONE
    from peloton.cli.follow_workflow import follow_workflow

    return follow_workflow(session, job_id)


def _warn(session: Session, response: Any, spec: JobSpec) -> None:
    """Print the warnings about a spec that was accepted, and which instances no host could take."""
    from peloton.cli.feasibility import told, warnings
    from peloton.cli.output import say
    from peloton.wire.v1alpha.job_config import job_config_of

    for warning in (*told(response), *warnings(session, job_config_of(spec))):
        say(warning)


def _id(value: str) -> JobID:
    from peloton.api.v1alpha import peloton_pb2

    return peloton_pb2.JobID(value=value)


def _read(spec: str) -> Parsed[Any]:
    """Read a spec, and print which of its entrypoints have no effect. Raises SpecError."""
    from peloton.cli.output import say
    from peloton.cli.spec_check import read

    parsed = read("service", spec)
    for path in _overruled(parsed.message):
        say(
            f"warning: {spec}: {path}.entrypoint has no effect: it differs from command, which is used; "
            "leave out one"
        )
    return parsed


def _overruled(spec: JobSpec) -> list[str]:
    """Return the paths of the containers whose command and entrypoint differ.

    `get` prints both of them, and a user who edits what it printed may edit one alone.
    """
    from peloton.wire.v1alpha.duplicate_fields import entrypoint_of

    pods = {"default_spec": spec.default_spec}
    pods |= {f"instance_spec[{instance}]": pod for instance, pod in sorted(spec.instance_spec.items())}
    return [
        f"{path}.{field}[{at}]"
        for path, pod in pods.items()
        for field in ("init_containers", "containers")
        for at, container in enumerate(getattr(pod, field))
        if container.HasField("command")
        and container.HasField("entrypoint")
        and entrypoint_of(container.command) != container.entrypoint
    ]


def _set_opaque_data(request: WithOpaqueData, text: str) -> None:
    if text:
        request.opaque_data.data = text
