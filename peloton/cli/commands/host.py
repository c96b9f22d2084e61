"""`peloton host`: hosts of the cluster."""

from __future__ import annotations

from typing import Any

import click

from peloton.cli.commands.maintenance import maintenance
from peloton.cli.groups import Group
from peloton.cli.params import EnumName
from peloton.cli.session import Session, pass_session


def _host_states() -> Any:
    from peloton.api.v0.host import host_pb2

    return host_pb2.HostState.DESCRIPTOR


@click.group(cls=Group)
def host() -> None:
    """Hosts of the cluster."""


host.add_command(maintenance)


@host.command()
@click.option("-s", "--states", type=EnumName(_host_states), default="", help="Hosts in one of these.")
@pass_session
def query(session: Session, states: list[int]) -> None:
    """List hosts with their maintenance state."""
    from peloton.api.v0.host import host_pb2
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.cli.listing import listing

    wanted = [host_pb2.HostState.ValueType(state) for state in states]
    request = host_svc_pb2.QueryHostsRequest(host_states=wanted)
    response = host_svc_pb2.QueryHostsResponse()
    for answer in session.call_clusters("host_svc", "QueryHosts", request):
        response.MergeFrom(answer)
    heads = ("Hostname", "IP", "State", "Goal State", "Pool", "Labels")

    def row(info: host_pb2.HostInfo) -> tuple[object, ...]:
        labels = ",".join(f"{label.key}={label.value}" for label in info.labels)
        pool = info.current_pool
        if info.desired_pool and info.desired_pool != pool:
            pool = f"{pool} -> {info.desired_pool}"
        return info.hostname, info.ip, _short(info.state), _short(info.goal_state), pool, labels

    found = sorted(response.host_infos, key=lambda info: info.hostname)
    session.show(response, lambda: listing(heads, [row(info) for info in found]))


def _short(state: Any) -> str:
    from peloton.api.v0.host import host_pb2

    return host_pb2.HostState.Name(state).removeprefix("HOST_STATE_")
