"""Values of the adapter in the form in which the port and the internal API have them: Mesos' messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from hostmgr.core.cluster_manager.events import StatusEvent, StatusUpdate
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offers import DISK, PORTS, SCALARS, Entry, Offer
from hostmgr.kubernetes.core.instructions import Room
from hostmgr.kubernetes.core.nodes import Node
from hostmgr.kubernetes.core.ports import PortRange
from hostmgr.kubernetes.core.states import RunState, RunStatus
from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.clock import NANOSECONDS
from peloton.model.cluster import LABEL, in_cluster
from peloton.model.constraint import Label
from peloton.model.ids import MesosTaskId
from peloton.model.resources import MILLI, Resources
from peloton.wire.hosts import volume_resource
from peloton.wire.mesos import task_status

NO_FILES = 0
"""The port of a node: itself it serves neither logs nor files of tasks."""
NEARBY_NANOSECONDS = 5 * NANOSECONDS
"""Kubernetes writes times in whole seconds: one that is as near is taken for the present, which is exact."""


def status_update(status: RunStatus, now: int) -> StatusEvent:
    """Return a status as the port has it. `now`: nanoseconds since 1970."""
    wire = mesos_pb2.TaskStatus(
        state=mesos_pb2.TaskState.Value(status.state.value),
        message=status.message,
        timestamp=_time(status.at, now) / NANOSECONDS,
        uuid=status.uid.encode() or None,
    )
    wire.task_id.value, wire.agent_id.value = status.run, status.node
    if status.reason:
        wire.reason = mesos_pb2.TaskStatus.Reason.Value(f"REASON_{status.reason}")
    if status.healthy is not None:
        wire.healthy = status.healthy
    return StatusUpdate(task_status(wire), unknown=False, missing=status.missing, wire=wire)


def killed_with_namespace(run: MesosTaskId, node: str, namespace: str, now: int) -> StatusEvent:
    """Return the status of a run whose namespace was deleted."""
    text = f"namespace {namespace} was deleted"
    return status_update(RunStatus(run, RunState.KILLED, node, "FRAMEWORK_REMOVED", text), now)


def _time(text: str, now: int) -> int:
    try:
        told = round(datetime.fromisoformat(text).timestamp()) * NANOSECONDS
    except ValueError:
        return now
    return now if abs(now - told) < NEARBY_NANOSECONDS else told


class HostMessages:
    """Translate nodes and their rooms. The labels of a node are encoded once."""

    def __init__(self, cluster: str, framework_id: str = "", pid: str = "") -> None:
        """Name hosts as those of a cluster, which may have no name.

        `pid` tells where sandboxes are served; empty: nowhere.
        """
        self._cluster = cluster
        self._pid = pid
        self.framework_id = framework_id
        self._labels: dict[tuple[Label, ...], tuple[list[mesos_pb2.Attribute], tuple[bytes, ...]]] = {}

    def hostname(self, node: str) -> str:
        """Return the name in Peloton of a node."""
        return in_cluster(self._cluster, node)

    def labels(self, node: Node) -> tuple[Label, ...]:
        """Return the labels of a node's host."""
        return (*node.labels, (LABEL, self._cluster)) if self._cluster else node.labels

    def offer(self, room: Room, node: Node) -> Offer:
        """Return an offer of a room."""
        labels = self.labels(node)
        attributes, encoded = self._attributes(labels)
        resources = [*_resources(room.free, room.ports), *(_volume(*each) for each in room.volumes)]
        wire = mesos_pb2.Offer(hostname=self.hostname(node.name), attributes=attributes, resources=resources)
        wire.id.value, wire.agent_id.value = room.id, node.name
        wire.framework_id.value = self.framework_id
        return Offer(
            room.id,
            node.name,
            wire.hostname,
            tuple(_entries(room)),
            labels,
            wire,
            None,
            tuple(each.SerializeToString() for each in resources),
            encoded,
        )

    def agent(
        self,
        node: Node,
        allocated: Resources,
        ports: Sequence[PortRange],
        volumes: frozenset[str] = frozenset(),
    ) -> Agent:
        """Return a node as an agent."""
        labels = self.labels(node)
        wire = master_pb2.Response.GetAgents.Agent(active=True, version="", pid=self._pid)
        wire.agent_info.id.value, wire.agent_info.hostname = node.name, self.hostname(node.name)
        wire.agent_info.port = NO_FILES
        wire.agent_info.attributes.extend(self._attributes(labels)[0])
        wire.total_resources.extend(_resources(node.total, ports))
        wire.allocated_resources.extend(_resources(allocated, ()))
        return Agent(
            node.name,
            self.hostname(node.name),
            labels,
            node.total,
            allocated=allocated,
            ip=node.ip,
            volumes=volumes,
            wire=wire,
            ports=tuple(ports),
        )

    def _attributes(self, labels: tuple[Label, ...]) -> tuple[list[mesos_pb2.Attribute], tuple[bytes, ...]]:
        found = self._labels.get(labels)
        if found is None:
            if len(self._labels) > 50_000:
                self._labels.clear()
            made = [_attribute(*each) for each in labels]
            found = self._labels[labels] = made, tuple(each.SerializeToString() for each in made)
        return found


def _attribute(name: str, value: str) -> mesos_pb2.Attribute:
    return mesos_pb2.Attribute(name=name, type=mesos_pb2.Value.TEXT, text=mesos_pb2.Value.Text(value=value))


def _entries(room: Room) -> Iterable[Entry]:
    for template, (name, amount) in enumerate(zip(SCALARS, room.free.values(), strict=True)):
        if amount:
            yield Entry(name, template, amount=amount)
    if room.ports:
        yield Entry(PORTS, len(SCALARS), ranges=room.ports)
    for number, (name, size) in enumerate(room.volumes):
        yield Entry(DISK, len(SCALARS) + 1 + number, reserved=True, amount=size, volume=name)


def _volume(name: str, size: int) -> mesos_pb2.Resource:
    resource = volume_resource(name)
    resource.scalar.value = size / MILLI
    return resource


def _resources(amounts: Resources, ports: Sequence[PortRange]) -> list[mesos_pb2.Resource]:
    found = [
        mesos_pb2.Resource(
            name=name, type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=amount / MILLI)
        )
        for name, amount in zip(SCALARS, amounts.values(), strict=True)
        if amount
    ]
    if ports:
        found.append(mesos_pb2.Resource(name=PORTS, type=mesos_pb2.Value.RANGES))
        for first, last in ports:
            found[-1].ranges.range.add(begin=first, end=last)
    return found
