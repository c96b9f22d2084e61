"""`peloton hostmgr`: what the host manager holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peloton.cli.groups import Group
from peloton.cli.params import Amount, Words
from peloton.cli.session import Session, pass_session

if TYPE_CHECKING:
    from peloton.private.hostmgr.hostsvc.hostsvc_pb2 import GetHostsByQueryResponse

AMOUNT = Amount()


@click.group(cls=Group)
def hostmgr() -> None:
    """Look into the host manager."""


@hostmgr.command()
@pass_session
def offers(session: Session) -> None:
    """List outstanding offers of Mesos."""
    from peloton.cli.output import table
    from peloton.cli.rows import resources_text
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    response = session.call_unchecked(
        "hostmgr_svc", "GetOutstandingOffers", hostsvc_pb2.GetOutstandingOffersRequest()
    )
    response.ClearField("error")  # its only refusal is that there are none
    rows = sorted(
        (offer.hostname, offer.id.value, offer.agent_id.value, resources_text(offer.resources))
        for offer in response.offers
    )
    session.show(response, lambda: table(("Hostname", "Offer ID", "Agent ID", "Resources"), rows))


@hostmgr.command()
@click.option("-c", "--cpu", type=AMOUNT, default=0.0, help="Hosts with so many cores free.")
@click.option("-g", "--gpu", type=AMOUNT, default=0.0, help="Hosts with so many GPUs free.")
@click.option("--mem", type=AMOUNT, default=0.0, help="Hosts with so many MB of memory free.")
@click.option("--disk", type=AMOUNT, default=0.0, help="Hosts with so many MB of disk free.")
@click.option("-l", "--less", is_flag=True, help="Hosts with less than these amounts instead.")
@click.option("--hosts", type=Words(), default="", help="Only these hosts.")
@click.option("-r", "--revocable", is_flag=True, help="Count revocable resources too.")
@pass_session
def hosts(
    session: Session,
    cpu: float,
    gpu: float,
    mem: float,
    disk: float,
    less: bool,
    hosts: list[str],
    revocable: bool,
) -> None:
    """List hosts with their free resources and the tasks that they run."""
    from peloton.api.v0.task import task_pb2
    from peloton.cli.output import table
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    amounts = task_pb2.ResourceConfig(cpuLimit=cpu, gpuLimit=gpu, memLimitMb=mem, diskLimitMb=disk)
    request = hostsvc_pb2.GetHostsByQueryRequest(
        resource=amounts, cmpLess=less, hostnames=hosts, includeRevocable=revocable
    )
    response = session.call("hostmgr_svc", "GetHostsByQuery", request)
    found = sorted(response.hosts, key=lambda host: host.hostname)
    heads = ("Hostname", "CPU", "GPU", "Mem (MB)", "Disk (MB)", "Status", "Held", "Tasks")
    session.show(response, lambda: table(heads, [_row(host) for host in found]))


def _row(host: GetHostsByQueryResponse.Host) -> tuple[object, ...]:
    free: dict[str, float] = {}
    for resource in host.resources:
        free[resource.name] = free.get(resource.name, 0.0) + resource.scalar.value
    amounts = (free.get(name, 0.0) for name in ("cpus", "gpus", "mem", "disk"))
    return host.hostname, *amounts, host.status, len(host.held_tasks), len(host.tasks)
