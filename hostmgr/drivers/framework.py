"""The framework under which tasks are launched: its id is stored, so that the next leader goes on with it."""

from __future__ import annotations

from hostmgr.core.cluster_manager.instructions import StoreFrameworkId
from peloton.model.cluster import UNNAMED
from storage.interface import Store


class FrameworkRecord:
    """The stored id of the framework in one Mesos cluster."""

    def __init__(self, store: Store, name: str, cluster: str = UNNAMED) -> None:
        """Store the id under the framework's name."""
        self.store = store
        self.cluster = cluster
        self._name = name

    async def read(self) -> str:
        """Return the stored id; empty where there is none. Raises Unavailable."""
        return await self.store.hosts.framework_id(self._name) or ""

    async def write(self, instruction: StoreFrameworkId) -> None:
        """Store the id. Raises Unavailable."""
        await self.store.hosts.write_framework_id(self._name, instruction.framework_id)
