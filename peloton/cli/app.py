"""The root of the command line: global flags and the groups of commands (behaviour 11)."""

from __future__ import annotations

from typing import Any

import click

import peloton
from peloton.cli.groups import Lazy, LazyGroup
from peloton.cli.params import Duration
from peloton.cli.session import Session

GROUPS = {
    "job": Lazy("peloton.cli.commands.job:job", "Create, watch, change and stop jobs."),
    "task": Lazy(
        "peloton.cli.commands.task:task", "Look at and steer the instances of a job; read their output."
    ),
    "pod": Lazy("peloton.cli.commands.pod:pod", "The history of an instance, run by run."),
    "respool": Lazy("peloton.cli.commands.respool:respool", "Resource pools: how teams share the cluster."),
    "host": Lazy("peloton.cli.commands.host:host", "Hosts of the cluster."),
    "resmgr": Lazy("peloton.cli.commands.resmgr:resmgr", "Look into the resource manager."),
    "hostmgr": Lazy("peloton.cli.commands.hostmgr:hostmgr", "Look into the host manager."),
    "minicluster": Lazy("peloton.minicluster.cli:minicluster", "A whole cluster on this machine."),
}


@click.group(cls=LazyGroup, lazy=GROUPS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(peloton.__version__, prog_name="peloton")
@click.option("-j", "--json", is_flag=True, help="Print JSON.")
@click.option(
    "-m",
    "--jobmgr",
    envvar="JOBMGR_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Job manager, localhost:5392 unless given.",
)
@click.option(
    "-v",
    "--resmgr",
    envvar="RESMGR_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Resource manager, localhost:5394 unless given.",
)
@click.option(
    "-u",
    "--hostmgr",
    envvar="HOSTMGR_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Host manager, localhost:5391 unless given.",
)
@click.option(
    "-e",
    "--clusterName",
    "cluster",
    envvar="CLUSTER_NAME",
    show_envvar=True,
    help="A cluster of clusters.json.",
)
@click.option(
    "-z",
    "--zkservers",
    "zk_servers",
    envvar="ZK_SERVERS",
    show_envvar=True,
    help="ZooKeeper servers to find leaders by.",
)
@click.option(
    "--zkroot",
    "zk_root",
    envvar="ZK_ROOT",
    show_envvar=True,
    default="/peloton",
    show_default=True,
    help="Their root node.",
)
@click.option(
    "--basicAuthConfig", "basic_auth", metavar="FILE", help="YAML with username and password for every call."
)
@click.option(
    "-t",
    "--timeout",
    type=Duration(),
    envvar="TIMEOUT",
    show_envvar=True,
    default="20s",
    show_default=True,
    help="Longest time for one call.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(ctx: click.Context, /, **flags: Any) -> None:
    """Peloton: run jobs on a cluster that many teams share."""
    session = Session(**flags)
    ctx.obj = session
    ctx.call_on_close(session.close)
