"""The root of the command line: global flags and the groups of commands (docs/behaviour/command-line.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

import peloton
from peloton.cli.groups import LazyEntry, LazyGroup
from peloton.cli.json_query import JsonQuery
from peloton.cli.params import Duration
from peloton.cli.session import OUTPUTS, Session
from peloton.cli.targets import NAMES, Targets, TargetSource
from peloton.compiled import mode

GROUPS = {
    "status": LazyEntry("peloton.cli.commands.overview:status", "The cluster on one screen."),
    "top": LazyEntry("peloton.cli.commands.overview:top", "Pools, jobs or hosts, live."),
    "usage": LazyEntry(
        "peloton.cli.commands.usage:usage", "What jobs have held and used, by pool, owner or label."
    ),
    "run": LazyEntry(
        "peloton.cli.commands.run:run", "Run a job from its spec, or a program as if it ran here."
    ),
    "plan": LazyEntry("peloton.cli.commands.run_file:plan", "Show what `run FILE` would do with a spec."),
    "spark": LazyEntry("peloton.cli.commands.spark:spark", "Run applications of Apache Spark."),
    "job": LazyEntry("peloton.cli.commands.job:job", "Create, watch, change and stop jobs."),
    "schedule": LazyEntry(
        "peloton.cli.commands.schedule:schedule", "Jobs by a schedule: list, pause, resume, runs."
    ),
    "task": LazyEntry(
        "peloton.cli.commands.task:task", "Look at and control the instances of a job; read their output."
    ),
    "pod": LazyEntry("peloton.cli.commands.pod:pod", "Look at and control single instances, run by run."),
    "update": LazyEntry("peloton.cli.commands.update:update", "Update services, instance by instance."),
    "volume": LazyEntry(
        "peloton.cli.commands.volume:volume", "Look at and delete the volumes of stateful jobs."
    ),
    "logs": LazyEntry("peloton.cli.commands.logs:logs", "The output of one, several or all instances."),
    "respool": LazyEntry(
        "peloton.cli.commands.respool:respool", "Resource pools: how teams share the cluster."
    ),
    "host": LazyEntry("peloton.cli.commands.host:host", "Hosts of the cluster."),
    "hostpool": LazyEntry(
        "peloton.cli.commands.hostpool:hostpool", "Host pools: which hosts take which kind of jobs."
    ),
    "jobmgr": LazyEntry("peloton.cli.commands.jobmgr:jobmgr", "Look into the job manager."),
    "resmgr": LazyEntry("peloton.cli.commands.resmgr:resmgr", "Look into the resource manager."),
    "hostmgr": LazyEntry("peloton.cli.commands.hostmgr:hostmgr", "Look into the host manager."),
    "hostcache": LazyEntry(
        "peloton.cli.commands.hostmgr:hostcache", "The hosts as the host manager holds them."
    ),
    "watch": LazyEntry("peloton.cli.commands.watch:watch", "Print changes of jobs and pods as they come."),
    "admin": LazyEntry("peloton.cli.commands.admin:admin", "Halt components of the job manager."),
    "completion": LazyEntry(
        "peloton.cli.commands.completion:completion", "Completion by the shell, with live names."
    ),
    "auth": LazyEntry("peloton.cli.commands.auth:auth", "Who you are, and what you may do."),
    "certs": LazyEntry(
        "peloton.cli.commands.certs:certs", "A small authority, for tests and small clusters."
    ),
    "mcp": LazyEntry("", "Serve the cluster to programs with a language model."),
    "minicluster": LazyEntry("", "A whole cluster on this machine."),
    "deploy": LazyEntry("", "Deploy Peloton itself on a Mesos cluster."),
    "simulate": LazyEntry("", "What a cluster would do with a workload."),
}


def _tell_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"peloton, version {peloton.__version__}, {mode()}")
        context.exit()


@click.group(cls=LazyGroup, lazy=GROUPS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Show the version and exit.",
)
@click.option("-j", "--json", is_flag=True, help="Print JSON, as `-o json`.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), help="How to print.  [default: as suits it]")
@click.option(
    "-q", "--query", type=JsonQuery(), help="Print what an expression of JMESPath chooses of the JSON."
)
@click.option(
    "-m",
    "--jobmgr",
    envvar="JOBMGR_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Job manager, localhost:5392 where nothing says where the cluster is.",
)
@click.option(
    "-v",
    "--resmgr",
    envvar="RESMGR_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Resource manager, likewise localhost:5394.",
)
@click.option(
    "-u",
    "--hostmgr",
    envvar="HOSTMGR_URL",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Host manager, likewise localhost:5391.",
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
    multiple=True,
    metavar="HOST:PORT,…",
    help="ZooKeeper servers to find leaders by, also more than once; in the environment also one a line.",
)
@click.option(
    "--zkroot",
    "zk_root",
    envvar="ZK_ROOT",
    show_envvar=True,
    default="/peloton",
    show_default=True,
    help="Node of ZooKeeper below which Peloton's nodes are.",
)
@click.option(
    "--mesosCluster",
    "mesos_cluster",
    envvar="MESOS_CLUSTER",
    show_envvar=True,
    default="",
    metavar="NAME",
    help="Of several Mesos clusters, the one whose host manager is called.",
)
@click.option(
    "--basicAuthConfig",
    "basic_auth",
    envvar="BASIC_AUTH_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help="YAML with username and password, or token, for every call.",
)
@click.option(
    "--zkTls",
    "zk_tls",
    is_flag=True,
    envvar="ZK_TLS",
    show_envvar=True,
    help="ZooKeeper is asked by TLS, with the files of --tlsCa, --tlsCert and --tlsKey.",
)
@click.option(
    "--tlsCa",
    "tls_ca",
    envvar="PELOTON_CA_FILE",
    show_envvar=True,
    metavar="FILE",
    help="Certificates of the authorities that are trusted: calls are encrypted.",
)
@click.option(
    "--tlsCert",
    "tls_cert",
    envvar="PELOTON_CERT_FILE",
    show_envvar=True,
    metavar="FILE",
    help="Own certificate, where the daemons ask for one.",
)
@click.option(
    "--tlsKey",
    "tls_key",
    envvar="PELOTON_KEY_FILE",
    show_envvar=True,
    metavar="FILE",
    help="File with the key of the own certificate (--tlsCert).",
)
@click.option(
    "--agentCa",
    "agent_ca",
    envvar="PELOTON_AGENT_CA_FILE",
    show_envvar=True,
    metavar="FILE",
    help="Certificates of the authorities of Mesos agents, which are then called by HTTPS.",
)
@click.option(
    "--agentAuth",
    "agent_auth",
    envvar="PELOTON_AGENT_AUTH",
    show_envvar=True,
    metavar="FILE",
    help="YAML with username and password for Mesos agents that ask for them.",
)
@click.option(
    "-t",
    "--timeout",
    type=Duration(),
    envvar="TIMEOUT",
    show_envvar=True,
    default="20s",
    show_default=True,
    help="Longest time for one call, and for finding ZooKeeper.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(ctx: click.Context, /, **flags: Any) -> None:
    """Peloton: run jobs on a cluster that many teams share."""
    ctx.obj = session = session_of(ctx, flags)
    ctx.call_on_close(session.close)


def session_of(ctx: click.Context, flags: Mapping[str, Any]) -> Session:
    """Return the session for global flags. Raises UsageError."""
    timeout = flags["timeout"]
    output = "json" if flags["json"] else flags["output"] or ""
    tls = flags["tls_ca"], flags["tls_cert"], flags["tls_key"]
    targets = Targets(*_sources(ctx, flags), flags["zk_root"], timeout, tls if flags["zk_tls"] else None)
    agents = flags["agent_ca"], flags["agent_auth"]
    cluster, basic_auth = flags["mesos_cluster"], flags["basic_auth"]
    found = Session(output, flags["debug"], timeout, targets, basic_auth, cluster, tls, agents)
    found.query = flags["query"]
    return found


def _sources(ctx: click.Context, flags: Mapping[str, Any]) -> tuple[TargetSource, TargetSource]:
    """Return what the flags and what the environment give to find the cluster by."""
    by_flag: dict[str, Any] = {}
    for name, (flag, _) in NAMES.items():
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = by_flag[name] = flags[name]
            if not all(value if isinstance(value, tuple) else (value,)):  # as an unset variable of a script
                raise click.UsageError(f"{flag} is given without a value", ctx)
    rest = {name: flags[name] for name in NAMES if name not in by_flag}
    return TargetSource.of(by_flag), TargetSource.of(rest)
