"""`peloton spark`: applications of Apache Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

import click
from click.core import ParameterSource

from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session
from peloton.cli.spark_submit import CLUSTER, MASTER_SCHEME, parse, spark_home
from peloton.errors import InvalidArgument, Unavailable


@click.group(cls=Group)
def spark() -> None:
    """Run applications of Apache Spark on the cluster."""


@spark.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument(
    "words", metavar="[OPTIONS OF SPARK-SUBMIT] PROGRAM [ARGUMENTS]", nargs=-1, type=click.UNPROCESSED
)
@click.option("--detach", is_flag=True, help="Do not wait for a driver on the cluster.")
@click.option(
    "--folder",
    metavar="DIR",
    help="Folder in which a driver on the cluster runs; empty: the sandbox.  [default: this one]",
)
@pass_session
def submit(session: Session, words: tuple[str, ...], detach: bool, folder: str | None) -> int:
    """Run an application, with the arguments of spark-submit.

    Its executors are instances of a job. With `--deploy-mode client`, the default, the driver runs here. With
    `--deploy-mode cluster` it is instance 0 of that job; its output is printed, and Ctrl-C stops it.
    `--queue` names the pool. Spark is that of SPARK_HOME, or of the spark-submit on the path.
    """
    try:
        submission = parse(words, MASTER_SCHEME)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from None
    environment = _environment(session)
    home = spark_home(environment, shutil.which)
    environment["SPARK_HOME"] = str(home)
    sys.stdout.flush()
    if submission.mode != CLUSTER:
        command = submission.client_command(home)
        os.execve(command[0], command, environment)
    where = os.getcwd() if folder is None else folder  # noqa: PTH109 - slow to import
    job_id = _created(submission.cluster_command(home, where, environment), environment)
    return 0 if detach else _followed(session, job_id)


def _environment(session: Session) -> dict[str, str]:
    """Return the variables by which programs find the cluster that the flags name."""
    from peloton.client.discovery import LocalDiscovery

    found = dict(os.environ)
    context = click.get_current_context().find_root()
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if given and isinstance(param.envvar, str):
            value = context.params[param.name or ""]
            found[param.envvar] = ",".join(value) if isinstance(value, tuple) else str(value)
    local = session.targets.found(lambda text: None)
    if local.local is not None:
        if isinstance(local.discovery, LocalDiscovery):
            found["JOBMGR_URL"] = local.discovery.address("jobmgr")
            found["RESMGR_URL"] = local.discovery.address("resmgr")
        else:
            found["ZK_SERVERS"] = local.local.zookeeper
    return found


def _created(command: list[str], environment: Mapping[str, str]) -> str:
    """Create the job of a driver on the cluster; return its id. Raises Unavailable."""
    from peloton.cli.output import say

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode or not last.startswith("job "):
        sys.stderr.write(done.stderr)
        raise Unavailable(f"spark-submit ended with {done.returncode}, and has created no job: see above")
    job_id = last.removeprefix("job ")
    say(f"peloton: job {job_id}")
    return job_id


def _followed(session: Session, job_id: str) -> int:
    """Print what the driver writes until it has ended; return its exit code."""
    from peloton.cli.colours import has_colours
    from peloton.cli.job_run import JobRun
    from peloton.cli.output import say

    run = JobRun(
        session,
        job_id,
        1,
        sys.stdout.buffer,
        sys.stderr.buffer,
        lambda text: say(f"peloton: {text}"),
        has_colours(sys.stdout),
    )
    return run.follow()
