"""`peloton minicluster …`: a whole cluster on one machine."""

from __future__ import annotations

import csv
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from minicluster import discovery
from minicluster.layout import Layout
from minicluster.overview import Overview, Status, as_json, as_yaml, plain, read_overview
from minicluster.processes import interruptible
from peloton.client.extensions import VARIABLE

if TYPE_CHECKING:
    from minicluster.cluster import Cluster

OUTPUTS = ("table", "wide", "json", "yaml", "name", "csv")
"""Forms of the output, as all commands of `peloton` have them."""
MOST_TIMEOUT_SECONDS = 86_400
DIRECTORY = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=VARIABLE,
    show_envvar=True,
    default=discovery.default_directory,
    show_default="~/.peloton/minicluster",
    help="Folder of the cluster's state.",
)
NAMES = click.argument("names", nargs=-1, metavar="[NAME]...")
TIMEOUT = click.option(
    "--timeout",
    type=click.IntRange(1, MOST_TIMEOUT_SECONDS),
    metavar="SECONDS",
    help="How long components may take until they answer: 90, or 240 with a Cassandra that is started along, "
    "unless given. A ZooKeeper or Cassandra whose log grows is waited for longer.",
)


@click.group()
def minicluster() -> None:
    """Run a whole cluster on this machine, each component a process of its own."""


@minicluster.command()
@DIRECTORY
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="What to run, as YAML.")
@click.option("--mesos", metavar="HOST:PORT", help="Use a Mesos master that already runs.")
@click.option(
    "--kubernetes",
    is_flag=False,
    flag_value="own",
    metavar="[KUBECONFIG]",
    help="Kubernetes in place of Mesos: an API server and kubelets that run pods as processes, started "
    "along, or the cluster of a kubeconfig.",
)
@click.option("--clusters", metavar="N", help="How many Mesos clusters; cluster2, cluster3, … have names.")
@click.option(
    "--membership",
    metavar="local|zookeeper[=HOST:PORT,…]",
    help="How the daemons find each other: by a folder, by a ZooKeeper started along, or by one that runs.",
)
@click.option(
    "--storage",
    metavar="sqlite|cassandra[=HOST:PORT,…]",
    help="Where the daemons keep what lasts: in a file, in a Cassandra started along, or in one that runs.",
)
@click.option(
    "--launch-seconds", metavar="MIN-MAX", help="How long each launch takes on an agent; at once otherwise."
)
@click.option("--executor-starts-per-second", metavar="N", help="How many executors an agent can start.")
@click.option(
    "--executor-registration-timeout", metavar="SECONDS", help="A launch that takes longer has failed."
)
@click.option("--concurrent-launches", metavar="N", help="How many launches go on at a time on an agent.")
@click.option(
    "--images", metavar="refuse|docker|plain", help="What becomes of a task that asks for an image."
)
@click.option("--secure", is_flag=True, help="With TLS, asking callers who they are.")
@click.option("--bare", is_flag=True, help="Mesos and the servers only, for `peloton deploy`.")
@click.option("--free-ports", is_flag=True, help="Take any free ports, as `ports: free` does.")
@TIMEOUT
def up(
    directory: Path,
    config: Path | None,
    free_ports: bool,
    secure: bool,
    bare: bool,
    timeout: int | None,
    **given: str | None,
) -> None:
    """Start everything and wait until it answers.

    ZooKeeper and Cassandra, where they are to be started along, need Java 17, and Maven to fetch them once.
    """
    from minicluster.settings import read_cluster, with_web

    overrides: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if secure:
        overrides["secure"] = True
    if bare:
        overrides["bare"] = True
    if free_ports:
        overrides["ports"] = "free"
    cluster = _cluster(directory, timeout)
    settings = with_web(read_cluster(config, overrides))
    with interruptible():
        cluster.up(settings, progress)
    try:
        discovery.register(cluster.directory)
    except OSError as error:
        progress(f"`peloton` will not find the cluster without exports: {error.filename}: {error.strerror}")
    show(cluster.overview())


@minicluster.command()
@DIRECTORY
@click.option("--keep", is_flag=True, help="Leave data and logs in the folder.")
def down(directory: Path, keep: bool) -> None:
    """End every process, tasks included, and remove the folder."""
    cluster = _cluster(directory)
    cluster.down(keep, progress)
    discovery.unregister(cluster.directory)


@minicluster.command()
@DIRECTORY
@click.option("-j", "--json", "json_", is_flag=True, help="JSON.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), help="How to print.")
@click.pass_context
def status(context: click.Context, directory: Path, json_: bool, output: str | None) -> int:
    """Each component's name, state, pid and addresses; and exports by which `peloton` finds the cluster.

    The exit code is 1 where a component is dead: it ended by itself or was killed.
    """
    root = directory.resolve()
    overview = read_overview(Layout(root)) or _cluster(root).overview()
    flags = context.find_root().params
    form = output or flags.get("output") or ("json" if json_ or flags.get("json") else "")
    statuses = show(overview, form)
    dead = [each.name for each in statuses if each.state == "dead"]
    if dead:
        place = "" if root == discovery.default_directory() else f" --dir {root}"
        again = f"peloton minicluster start {' '.join(dead)}{place}"
        progress(f"peloton: dead: {', '.join(dead)} (`{again}`)")
    return 1 if dead else 0


@minicluster.command()
@DIRECTORY
@click.argument("name")
@click.option("-F", "--follow", is_flag=True, help="Go on as the log grows.")
def logs(directory: Path, name: str, follow: bool) -> None:
    """Print a component's log."""
    with _cluster(directory).log_file(name).open(errors="replace") as log:
        _pour(log)
        while follow:
            time.sleep(0.2)
            _pour(log)


@minicluster.command()
@DIRECTORY
@NAMES
@click.option("--hostname", help="Of one agent: come back under this name.")
@click.option("--resources", help="Of one agent: in Mesos' notation.")
@click.option("--attributes", help="Of one agent: in Mesos' notation.")
@TIMEOUT
def start(directory: Path, names: tuple[str, ...], timeout: int | None, **changes: str | None) -> None:
    """Start the components named, or all that do not run."""
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    _cluster(directory, timeout).start(names, given, progress)


@minicluster.command()
@DIRECTORY
@NAMES
def stop(directory: Path, names: tuple[str, ...]) -> None:
    """End the components named, or all, in an orderly way; an agent's tasks are lost with it."""
    _cluster(directory).stop(names, progress)


@minicluster.command()
@DIRECTORY
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def kill(directory: Path, names: tuple[str, ...]) -> None:
    """Kill the components named with SIGKILL; an agent's tasks run on."""
    _cluster(directory).kill(names)


@minicluster.command()
@DIRECTORY
@NAMES
@TIMEOUT
def restart(directory: Path, names: tuple[str, ...], timeout: int | None) -> None:
    """Stop, then start."""
    cluster = _cluster(directory, timeout)
    cluster.stop(names, progress)
    cluster.start(names, report=progress)


def show(overview: Overview, form: str = "") -> list[Status]:
    """Print and return the components; print the exports. `form` is one of OUTPUTS, or empty."""
    statuses = overview.statuses()
    if form == "name":
        click.echo("\n".join(each.name for each in statuses))
    elif form in ("json", "yaml"):
        content = plain(statuses, overview.urls())
        click.echo(as_json(content) if form == "json" else as_yaml(content))
    elif form == "csv":
        rows = csv.writer(sys.stdout, lineterminator="\n")
        rows.writerow(("name", "state", "pid", "addresses"))
        for each in statuses:
            where = " ".join(f"{kind}={address}" for kind, address in each.addresses.items())
            rows.writerow((each.name, each.state, each.pid or "", where))
    else:
        _show_table(overview, statuses)
    return statuses


def _show_table(overview: Overview, statuses: Sequence[Status]) -> None:
    width = max(len(each.name) for each in statuses)
    for each in statuses:
        where = "  ".join(f"{kind:<4} {address}" for kind, address in each.addresses.items())
        click.echo(f"{each.name:<{width}}  {each.state:<7}  {each.pid or '-':<7}  {where}")
    for address in overview.web_addresses():
        click.echo(f"\nweb UI: {overview.scheme}://{address}/")
    click.echo()
    for name, value in overview.urls().items():
        click.echo(f"export {name}={shlex.quote(value)}")


def progress(line: str) -> None:
    """Print a line of progress to standard error."""
    click.echo(line, err=True)


def _cluster(directory: Path, timeout: int | None = None) -> Cluster:
    """Return the cluster in a folder; what it needs to be changed takes half a second to import."""
    from minicluster.cluster import Cluster

    return Cluster(directory, timeout)


def _pour(log: IO[str]) -> None:
    while text := log.read(65536):
        sys.stdout.write(text)
    sys.stdout.flush()
