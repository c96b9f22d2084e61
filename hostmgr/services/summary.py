"""Hosts as operators see them: summaries with their offers."""

from __future__ import annotations

from collections.abc import Collection

from hostmgr.core.claims.holds import beside
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.offers import PORTS
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.host import host_pb2
from peloton.model.ids import TaskId
from peloton.model.resources import MILLI
from peloton.wire.hosts import offers_to
from peloton.wire.v1alpha.constraint import labels_to


def host_summary(
    hosts: Hosts, agent_id: str, hostname: str, held_for: Collection[TaskId] = ()
) -> host_pb2.HostSummary:
    """Return what a host has free beside what is held for other instances than those named.

    A host that is gone has nothing but its name.
    """
    summary = host_pb2.HostSummary(hostname=hostname, labels=labels_to(hosts.labels_of(agent_id)))
    row = hosts.table.row(agent_id)
    if row is None:
        return summary
    free = beside(hosts.table.free(row), hosts.holds.kept(hostname, held_for))
    cpu, memory, disk, gpu = (amount / MILLI for amount in free.normal.values())
    summary.resources.CopyFrom(peloton_pb2.Resources(cpu=cpu, memMb=memory, diskMb=disk, gpu=gpu))
    offers = hosts.offers.of(agent_id)
    ranges = [
        part for each in offers for entry in each.entries if entry.name == PORTS for part in entry.ranges
    ]
    for begin, end in sorted(ranges):
        summary.available_ports.add(begin=begin, end=end)
    for wire in offers_to(each.wire for each in offers):
        summary.Offers[wire.id.value].CopyFrom(wire)
    return summary
