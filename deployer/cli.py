"""`peloton deploy …`: Peloton deploys itself on a Mesos cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from deployer.deployment import Outcome
    from deployer.installation import Installation

T = TypeVar("T")
DEFAULT_SECONDS = 600
MOST_REVISIONS = 2**32 - 1
FILE = click.option(
    "-f",
    "--file",
    "file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The installation, as YAML.",
)
TIMEOUT = click.option(
    "--timeout",
    type=click.IntRange(1, 86_400),
    default=DEFAULT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long it may take; what is left then is done by the next `apply`.",
)


@click.group()
def deploy() -> None:
    """Deploy Peloton itself on a Mesos cluster, and change what is deployed.

    The daemons are tasks of a framework of their own. What is wanted and what was started is in ZooKeeper; no
    daemon of Peloton is needed for it.
    """


@deploy.command()
@FILE
def plan(file: Path) -> None:
    """Show what `apply` would do, step by step, and change nothing."""
    from deployer.status import planned

    for line in _run(planned(_read(file))):
        click.echo(line)


@deploy.command()
@FILE
@TIMEOUT
@click.option("--keep", is_flag=True, help="Go on until interrupted: replace daemons whose host dies.")
def apply(file: Path, timeout: int, keep: bool) -> int:
    """Bring the installation about: start what is missing, and replace daemons one after another.

    Where new daemons do not become healthy, the installation goes back to what it was; the exit code is 1
    then. An `apply` that was interrupted is continued by the next one.
    """
    from deployer.work import applied

    return _told(_run(applied(_read(file), timeout, keep, progress)))


@deploy.command()
@FILE
@click.option("-j", "--json", "json_", is_flag=True, help="JSON.")
@click.pass_context
def status(context: click.Context, file: Path, json_: bool) -> int:
    """Show the daemons of the installation: where they run, their health and version, who leads.

    The exit code is 1 where the installation is not as it is wanted.
    """
    from deployer.status import as_lines, inspected

    found = _run(inspected(_read(file)))
    if json_ or context.find_root().params.get("json"):
        click.echo(json.dumps(found, indent=2))
    else:
        for line in as_lines(found):
            click.echo(line)
    return 0 if found["whole"] else 1


@deploy.command()
@FILE
@TIMEOUT
@click.option(
    "--to", type=click.IntRange(1, MOST_REVISIONS), metavar="REVISION", help="The one before, unless given."
)
def rollback(file: Path, timeout: int, to: int | None) -> int:
    """Go back to an earlier revision of the installation, which `status` lists."""
    from deployer.work import rolled_back

    return _told(_run(rolled_back(_read(file), to, timeout, progress)))


@deploy.command()
@FILE
@TIMEOUT
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def destroy(file: Path, timeout: int, yes: bool) -> None:
    """End all daemons of the installation, and forget it.

    The store and what ZooKeeper has of the daemons stay, and the tasks of jobs run on.
    """
    from deployer.work import destroyed

    installation = _read(file)
    if not yes:
        click.confirm(f"End all daemons of the installation {installation.name}?", abort=True, err=True)
    _run(destroyed(installation, timeout, progress))
    progress(f"the installation {installation.name} is destroyed")


@deploy.command()
@FILE
@click.option("--systemd", is_flag=True, required=True, help="Unit files of systemd.")
@click.option(
    "-d",
    "--directory",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the files are written.",
)
def render(file: Path, systemd: bool, directory: Path) -> None:
    """Write the installation for hosts without Mesos: a unit file and settings for each daemon."""
    from deployer.systemd import write_units

    for written in write_units(_read(file), directory):
        click.echo(str(written))


def progress(line: str) -> None:
    """Print a line of progress, with the time, to standard error."""
    click.echo(f"{datetime.now(UTC):%H:%M:%S} {line}", err=True)


def _read(file: Path) -> Installation:
    from deployer.installation import read_installation

    return read_installation(file)


def _told(outcome: Outcome) -> int:
    progress(outcome.text)
    return 0 if outcome.whole else 1


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; an interrupt ends it where it is, and the next deployer goes on there."""
    return asyncio.run(work)
