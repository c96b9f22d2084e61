"""`peloton spark`: applications of Apache Spark."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import click
from click.core import ParameterSource

from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session
from peloton.cli.spark_submit import ARCHIVE, CLUSTER, MASTER_SCHEME, parse, spark_home
from peloton.errors import InvalidArgument, Unavailable

PAUSE_SECONDS, LONGEST_END_SECONDS = 0.1, 600.0


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


@spark.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument(
    "words", metavar="[OPTIONS OF SPARK-SUBMIT] PROGRAM [ARGUMENTS]", nargs=-1, type=click.UNPROCESSED
)
def archive(words: tuple[str, ...]) -> int:
    """Have executors start faster, by an archive of the classes that they load for PROGRAM.

    The program runs once with one executor on this machine, without a cluster. The archive is left in Spark's
    folder, where executors find it: do this on all hosts, or in their image, and again after each change of
    Spark's jars or of Java. Executors do without an archive that does not fit.
    """
    try:
        submission = parse(words, MASTER_SCHEME)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from None
    home = spark_home(os.environ, shutil.which)
    made, new = home / ARCHIVE, home / f"{ARCHIVE}.new"
    new.unlink(missing_ok=True)
    code, log = _whole_group(submission.archive_command(home, new), {**os.environ, "SPARK_HOME": str(home)})
    if code or not new.is_file():
        sys.stderr.write(log)
        raise Unavailable(f"spark-submit ended with {code}, and its executor has left no archive")
    new.replace(made)
    click.echo(made)
    return 0


def _whole_group(command: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command until it and all that it has started have ended; return its exit code, and its log.

    The executor writes its archive after Spark's own end.
    """
    import tempfile

    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )
        try:
            code = process.wait()
            end = time.monotonic() + LONGEST_END_SECONDS
            while _is_left(process.pid) and time.monotonic() < end:
                time.sleep(PAUSE_SECONDS)
        except BaseException:
            if _is_left(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        log.seek(0)
        return code, log.read()


def _is_left(group: int) -> bool:
    """Return whether there is a process of a group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


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
