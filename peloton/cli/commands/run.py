"""`peloton run`: a program on the cluster, as if it ran here."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Unpack

import click

from peloton.cli.commands.run_file import POOL, is_spec, run_file
from peloton.cli.groups import Command
from peloton.cli.live_names import files
from peloton.cli.params import CORES, INDEX, MEGABYTES, Amount, WholeNumber
from peloton.cli.run_spec import FRAMEWORKS, Needs, Program, config_of
from peloton.cli.session import Session, pass_session, pool_id
from peloton.client.rpcs import RPCS

_WITH_FILE = ("command", "pool", "yes", "detach", "batch_size")
MOST_PROCESSES = 100_000


class Variable(click.ParamType[tuple[str, str]]):
    """A variable as `NAME=VALUE`; NAME alone takes the value from here."""

    name = "NAME[=VALUE]"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split a variable."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not name or (not equals and name not in os.environ):
            self.fail(f"{value!r} is neither NAME=VALUE nor a variable that is set here", param, ctx)
        return name, text if equals else os.environ[name]


class Run(Command):
    """A command whose flags may follow a FILE, and end before a COMMAND."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the line; what follows a program is its own."""
        found, _, _ = self.make_parser(ctx).parse_args(list(args))
        words = found.get("command")  # click's mark of what is not given, where there are none
        ctx.allow_interspersed_args = isinstance(words, tuple | list) and is_spec(words)
        return super().parse_args(ctx, args)


@click.command(cls=Run, context_settings={"allow_interspersed_args": False})
@click.argument(
    "command",
    metavar="FILE | COMMAND...",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    shell_complete=files,
)
@click.option("-y", "--yes", is_flag=True, help="With FILE: do not ask before it is done.")
@click.option("-d", "--detach", is_flag=True, help="With FILE: do not wait until it runs or has ended.")
@click.option(
    "--batchSize",
    "batch_size",
    type=INDEX,
    help="With FILE: instances that an update of a service goes through at a time, 0 for all.  "
    "[default: a quarter]",
)
@click.option(
    "--framework",
    type=click.Choice(FRAMEWORKS),
    default="none",
    show_default=True,
    help="What the processes run: it decides by which variables they find each other.",
)
@click.option(
    "-n",
    "--processes",
    type=WholeNumber(1, MOST_PROCESSES),
    default=1,
    show_default=True,
    help="Processes. They are placed all or none, and know of each other.",
)
@click.option(
    "--minSize",
    "least",
    type=WholeNumber(1, MOST_PROCESSES),
    metavar="N",
    help="Begin with N processes or more, as there is room, and run again with more when there is.  "
    "[default: all]",
)
@click.option(
    "--growthInterval",
    "growth_interval",
    type=WholeNumber(1, 30 * 86400),
    metavar="SECONDS",
    help="With --minSize: the time between two restarts for a larger number.  [default: 300]",
)
@POOL
@click.option("--cpus", type=CORES, default=1.0, show_default=True, help="Cores of each process.")
@click.option(
    "--mem",
    "memory_mb",
    type=MEGABYTES,
    default=512.0,
    show_default=True,
    help="Memory of each process, in MB.",
)
@click.option(
    "--disk", "disk_mb", type=MEGABYTES, default=0.0, show_default=True, help="Disk of each process, in MB."
)
@click.option("--gpus", type=Amount(), default=0.0, show_default=True, help="GPUs of each process.")
@click.option(
    "--env",
    "environment",
    type=Variable(),
    multiple=True,
    callback=lambda _context, _param, pairs: dict(pairs),
    help="Variable of the processes; NAME alone takes the value that it has here. Everybody who may read the "
    "job sees it.",
)
@click.option(
    "--folder",
    metavar="DIR",
    help="Folder in which the processes run, on each host; empty: the sandbox.  [default: this one, or the "
    "sandbox where there are --uri]",
)
@click.option(
    "--uri", "uris", multiple=True, metavar="URI", help="File that each process finds in its sandbox."
)
@click.option(
    "--maxFailures",
    "failures",
    type=WholeNumber(0, 100),
    default=0,
    show_default=True,
    help="Failures after which a process runs again.",
)
@click.option(
    "--grace",
    "grace_seconds",
    type=WholeNumber(1, 86400),
    metavar="SECONDS",
    help="Time between SIGTERM and SIGKILL where the job is stopped.  [default: the cluster's]",
)
@click.option("--name", default="", help="Name of the job.  [default: that of the program]")
@pass_session
def run(
    session: Session,
    command: tuple[str, ...],
    yes: bool,
    detach: bool,
    batch_size: int | None,
    pool: str,
    **needs: Unpack[Needs],
) -> int:
    """Run the job of a spec, or COMMAND as if it ran here: `peloton run -n 4 -- python train.py`.

    FILE (.yaml, .yml, or `-` for standard input) is the spec of a job or service. On a terminal, what would
    happen is shown, as `plan` shows it, and you are asked. The job is created, or the service of this name
    that runs in the pool is updated, and followed until it runs or has ended. The exit code is 0 only if that
    went well.

    With COMMAND, a batch job is created. What its processes write is printed, behind their ranks where there
    are several. Ctrl-C stops the job, each process within its grace period; Ctrl-C again leaves without
    waiting. The exit code is 0 where all processes succeed, else that of the process that failed first, 128
    and the signal where a signal ended it. The program runs in this folder on each host: give it by --uri
    where hosts have other files.
    """
    if is_spec(command):
        _check_flags(command)
        return run_file(session, command[0], pool, yes, detach, batch_size)
    if yes or detach or batch_size is not None:
        raise click.UsageError("--yes, --detach and --batchSize go with a FILE, not with a COMMAND")
    if not session.plain:
        raise click.UsageError("run prints the output of processes: -o and -j do not go with it")
    return _run_program(session, pool, _program(command, needs))


def _program(command: tuple[str, ...], needs: Needs) -> Program:
    """Return what the flags describe. Raises UsageError for flags that contradict each other."""
    least = needs["least"]
    if least is not None and least > needs["processes"]:
        raise click.UsageError(f"--minSize {least} is more than -n {needs['processes']}")
    if needs["growth_interval"] is not None and least is None:
        raise click.UsageError("--growthInterval goes with --minSize")
    if needs["folder"] is None:
        here = "" if needs["uris"] else os.getcwd()  # noqa: PTH109 - slow to import
        needs["folder"] = here
    return Program(command, team=getpass.getuser(), **needs)


def _run_program(session: Session, pool: str, program: Program) -> int:
    """Create a program's job and follow it to its end; return the exit code."""
    from peloton.api.v0.job import job_pb2
    from peloton.cli.colours import has_colours
    from peloton.cli.feasibility import told, warnings
    from peloton.cli.job_run import JobRun
    from peloton.cli.output import say

    config = config_of(program)
    config.respoolID.value = pool_id(session, pool)
    response = session.call(RPCS.job_svc.Create, job_pb2.CreateRequest(config=config))
    say(f"peloton: job {response.jobId.value}")
    for warning in (*told(response), *warnings(session, config)):
        say(warning)
    following = JobRun(
        session,
        response.jobId.value,
        program.processes,
        sys.stdout.buffer,
        sys.stderr.buffer,
        lambda text: say(f"peloton: {text}"),
        has_colours(sys.stdout),
    )
    return following.follow()


def _check_flags(words: tuple[str, ...]) -> None:
    """Raise UsageError for more than one file, and for flags that only a program has."""
    from click.core import ParameterSource

    if len(words) > 1:
        raise click.UsageError(f"{words[0]} is a spec: {words[1]} behind it has no meaning")
    context = click.get_current_context()
    for param in context.command.params:
        name = param.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _WITH_FILE and param.expose_value:
            raise click.UsageError(f"{param.opts[-1]} does not go with a FILE: the spec says it")
