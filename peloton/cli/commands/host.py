"""`peloton host`: hosts of the cluster."""

from __future__ import annotations

from collections.abc import Callable

import click

from peloton.cli.commands.maintenance import maintenance
from peloton.cli.groups import Group
from peloton.cli.host_states import HostStates
from peloton.cli.live_names import live_hosts
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS


@click.group(cls=Group)
def host() -> None:
    """Hosts of the cluster."""


host.add_command(maintenance)


@host.command()
@click.option("-s", "--states", type=HostStates(), default="", help="Only hosts in any of STATES.")
@pass_session
def query(session: Session, states: list[str]) -> None:
    """List hosts with their maintenance state, of all Mesos clusters, and for whom room is held.

    A host whose agent is gone is LOST, with since when, why, and what ran there, until it is forgotten.
    """
    from peloton.api.v0.host import host_pb2
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.cli.host_states import LOST, lost_text, state_of
    from peloton.cli.listing import listing
    from peloton.present.holds import held_text

    wanted = [host_pb2.HostState.Value(f"HOST_STATE_{name}") for name in states if name != LOST]
    include_lost = not states or LOST in states
    if include_lost and states and not wanted:
        wanted = [host_pb2.HOST_STATE_INVALID]  # no host is in it
    request = host_svc_pb2.QueryHostsRequest(host_states=wanted, include_lost=include_lost)
    response = host_svc_pb2.QueryHostsResponse()
    for answer in session.call_clusters(RPCS.host_svc.QueryHosts, request):
        response.MergeFrom(answer)
    found = sorted(response.host_infos, key=lambda info: info.hostname)
    heads = ["Hostname", "IP", "State", "Goal State", "Pool", "Labels"]
    further: list[tuple[str, Callable[[host_pb2.HostInfo], str]]] = [
        ("Held", lambda info: held_text(info.held)),
        ("Lost", lambda info: lost_text(info.lost) if info.HasField("lost") else ""),
    ]
    shown = [(head, text) for head, text in further if any(map(text, found))]

    def row(info: host_pb2.HostInfo) -> tuple[object, ...]:
        labels = ",".join(f"{label.key}={label.value}" for label in info.labels)
        pool = info.current_pool
        if info.desired_pool and info.desired_pool != pool:
            pool = f"{pool} -> {info.desired_pool}"
        goal = host_pb2.HostState.Name(info.goal_state).removeprefix("HOST_STATE_")
        cells = info.hostname, info.ip, state_of(info), goal, pool, labels
        return (*cells, *(text(info) for _, text in shown))

    heads += [head for head, _ in shown]
    session.show(response, lambda: listing(heads, [row(info) for info in found]))


@host.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...", shell_complete=live_hosts)
@pass_session
def forget(session: Session, hosts: tuple[str, ...]) -> None:
    """Forget lost hosts, given apart or with commas: those whose agents will not come back.

    They are listed no longer, and are out of their host pools. A host whose agent registers later is a new
    one. Of several hosts, none is forgotten where one of them is not lost.
    """
    from peloton.cli.commands.maintenance import names_of
    from peloton.private.hostmgr.registry import registry_pb2

    names = names_of(hosts)
    answer = session.call(
        RPCS.host_registry_svc.ForgetHosts, registry_pb2.ForgetHostsRequest(hostnames=names)
    )
    session.show(answer, lambda: "\n".join(f"Host {name} is forgotten" for name in names))
