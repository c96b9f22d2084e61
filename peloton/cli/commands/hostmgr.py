"""`peloton hostmgr` and `peloton hostcache`: what the host manager holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peloton.cli.groups import Group
from peloton.cli.params import CORES, MEGABYTES, Amount, Words
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS
from peloton.model.amounts import plain

if TYPE_CHECKING:
    from peloton.private.hostmgr.hostsvc.hostsvc_pb2 import GetHostsByQueryResponse


@click.group(cls=Group)
def hostmgr() -> None:
    """Look into the host manager."""


@hostmgr.command()
@pass_session
def offers(session: Session) -> None:
    """List outstanding offers of Mesos."""
    from peloton.cli.listing import listing
    from peloton.cli.rows import resources_text
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    response = session.call_unchecked(
        RPCS.hostmgr_svc.GetOutstandingOffers, hostsvc_pb2.GetOutstandingOffersRequest()
    )
    response.ClearField("error")  # its only refusal is that there are none
    rows = sorted(
        (offer.hostname, offer.id.value, offer.agent_id.value, resources_text(offer.resources))
        for offer in response.offers
    )
    session.show(response, lambda: listing(("Hostname", "Offer ID", "Agent ID", "Resources"), rows))


@hostmgr.command()
@click.option("-c", "--cpu", type=CORES, default=0.0, help="Hosts with this number of cores free.")
@click.option("-g", "--gpu", type=Amount(), default=0.0, help="Hosts with this number of GPUs free.")
@click.option("--mem", type=MEGABYTES, default=0.0, help="Hosts with this amount of memory free, in MB.")
@click.option("--disk", type=MEGABYTES, default=0.0, help="Hosts with this amount of disk free, in MB.")
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
    from peloton.cli.listing import listing
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    amounts = task_pb2.ResourceConfig(cpuLimit=cpu, gpuLimit=gpu, memLimitMb=mem, diskLimitMb=disk)
    request = hostsvc_pb2.GetHostsByQueryRequest(
        resource=amounts, cmpLess=less, hostnames=hosts, includeRevocable=revocable
    )
    response = session.call(RPCS.hostmgr_svc.GetHostsByQuery, request)
    found = sorted(response.hosts, key=lambda host: host.hostname)
    heads = ("Hostname", "CPU", "GPU", "Mem (MB)", "Disk (MB)", "Status", "Held", "Tasks")
    session.show(response, lambda: listing(heads, [_row(host) for host in found]))


@hostmgr.command("events-mesos-update")
@pass_session
def events_mesos_update(session: Session) -> None:
    """Print status updates of tasks as they come from Mesos."""
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2
    from peloton.wire.mesos import state_name

    def line(message: hostsvc_pb2.WatchEventStreamEventResponse) -> str:
        if not message.HasField("mesos_task_update"):
            return f"watch {message.watch_id}"
        event = message.mesos_task_update
        status = event.mesosTaskStatus
        words = (
            event.offset,
            status.task_id.value,
            state_name(status),
            status.agent_id.value,
            status.message,
        )
        return " ".join(str(word) for word in words if word != "")

    request = hostsvc_pb2.WatchEventRequest()
    for message in session.stream(RPCS.hostmgr_svc.WatchEventStreamEvent, request, endless=True):
        session.show(message, lambda message=message: line(message))  # type: ignore[misc]


@hostmgr.command("events-host-summary")
@pass_session
def events_host_summary(session: Session) -> None:
    """Print hosts as what they have free changes."""
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    def line(message: hostsvc_pb2.WatchHostSummaryEventResponse) -> str:
        if not message.HasField("hostSummaryEvent"):
            return f"watch {message.watch_id}"
        host = message.hostSummaryEvent
        if not host.HasField("resources"):
            return f"{host.hostname} is gone"
        free = host.resources
        kinds = (("cpu", free.cpu), ("memory", free.memMb), ("disk", free.diskMb), ("gpu", free.gpu))
        amounts = " ".join(f"{kind}:{plain(value)}" for kind, value in kinds)
        return f"{host.hostname} {amounts} offers:{len(host.Offers)}"

    request = hostsvc_pb2.WatchEventRequest()
    for message in session.stream(RPCS.hostmgr_svc.WatchHostSummaryEvent, request, endless=True):
        session.show(message, lambda message=message: line(message))  # type: ignore[misc]


@hostmgr.command("disable-kill-tasks")
@pass_session
def disable_kill_tasks(session: Session) -> None:
    """Refuse to kill any task until the host manager is restarted."""
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    response = session.call(RPCS.hostmgr_svc.DisableKillTasks, hostsvc_pb2.DisableKillTasksRequest())
    session.show(response, lambda: "No task is killed until the host manager is restarted")


@click.group(cls=Group)
def hostcache() -> None:
    """Show the hosts as the host manager holds them."""


@hostcache.command()
@pass_session
def dump(session: Session) -> None:
    """List hosts with their status, their capacity, and how much of it is not offered."""
    from peloton.cli.listing import listing
    from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2

    response = session.call(RPCS.hostmgr_v1alpha_svc.GetHostCache, hostmgr_svc_pb2.GetHostCacheRequest())
    kinds = (("cpu", "CPU"), ("gpu", "GPU"), ("memory", "Mem (MB)"), ("disk", "Disk (MB)"))
    rows = []
    for host in response.summaries:
        taken = {each.kind: each.capacity for each in host.allocation}
        whole = {each.kind: each.capacity for each in host.capacity}
        cells = (f"{plain(taken.get(kind, 0))} of {plain(whole.get(kind, 0))}" for kind, _ in kinds)
        rows.append((host.hostname, host.status, *cells))
    heads = ("Hostname", "Status", *(head for _, head in kinds))
    session.show(response, lambda: listing(heads, rows))


def _row(host: GetHostsByQueryResponse.Host) -> tuple[object, ...]:
    free: dict[str, float] = {}
    for resource in host.resources:
        free[resource.name] = free.get(resource.name, 0.0) + resource.scalar.value
    amounts = (free.get(name, 0.0) for name in ("cpus", "gpus", "mem", "disk"))
    return host.hostname, *amounts, host.status, len(host.held_tasks), len(host.tasks)
