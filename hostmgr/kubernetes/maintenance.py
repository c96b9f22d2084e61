"""Maintenance of nodes: they are cordoned, and an annotation says how far their maintenance is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hostmgr.core.agents.draining import Machine, MasterStatus
from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.nodes import DOWN, DRAINING, MAINTENANCE
from hostmgr.kubernetes.messages import HostMessages
from peloton.errors import Unavailable
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.model.cluster import mesos_hostname

_NOT_FOUND = 404


class NodeMaintenance:
    """Read and change the maintenance of nodes."""

    def __init__(
        self,
        client: ApiClient,
        core: KubernetesCluster,
        messages: HostMessages,
        fence: Callable[[], None],
    ) -> None:
        self._client = client
        self._core = core
        self._messages = messages
        self._fence = fence

    def status(self) -> MasterStatus:
        """Return the nodes in maintenance, as the watch has them."""
        return MasterStatus(tuple(self._in(DRAINING)), tuple(self._in(DOWN)))

    def _in(self, stage: str) -> Iterable[Machine]:
        for node in self._core.nodes.values():
            if node.maintenance == stage:
                yield Machine(self._messages.hostname(node.name), node.ip)

    async def change(self, cordon: Sequence[Machine], uncordon: Sequence[Machine]) -> None:
        """Begin the maintenance of nodes, and end that of others. Raises Unavailable."""
        for machine in cordon:
            await self._set(machine, DRAINING, True)
        for machine in uncordon:
            await self._set(machine, None, None)

    async def take_down(self, machines: Sequence[Machine]) -> None:
        """Mark nodes as down. Raises Unavailable."""
        for machine in machines:
            await self._set(machine, DOWN, True)

    async def _set(self, machine: Machine, stage: str | None, cordoned: bool | None) -> None:
        """Patch a node; one that was deleted meanwhile has no maintenance."""
        self._fence()
        change = {"metadata": {"annotations": {MAINTENANCE: stage}}, "spec": {"unschedulable": cordoned}}
        name = mesos_hostname(machine.hostname)
        try:
            await self._client.call("PATCH", f"/api/v1/nodes/{name}", change, content_type=MERGE)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise Unavailable(f"node {name}: {error}") from None
