"""Persistent volumes: which may be created and destroyed."""

from __future__ import annotations

from hostmgr.core.cluster_manager.instructions import DestroyVolume
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.offers import OfferedVolume
from peloton.errors import AlreadyExists, NotFound, Refused, Unavailable

CREATED_SECONDS = 60.0
"""Time in which a volume appears in the offers or in the map of agents after its creation."""


class Volumes:
    """The volumes of all hosts, by their ids."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._created: dict[str, float] = {}
        """Volumes that were created, with the time: in the order of their creation."""

    def create(self, volume_id: str, now: float) -> None:
        """Note that a volume is being created. Raises AlreadyExists."""
        self._forget_created(now)
        hosts = self._hosts
        known = hosts.agents.has_volume(volume_id) or hosts.offers.volume(volume_id) is not None
        if volume_id in self._created or known:
            raise AlreadyExists(f"there is a volume {volume_id} already")
        self._created[volume_id] = now

    def not_created(self, volume_id: str) -> None:
        """Note that a volume was not created after all."""
        self._created.pop(volume_id, None)

    def destroy(self, volume_id: str) -> DestroyVolume:
        """Return the call that destroys a volume that no task uses, and frees its disk.

        Raises NotFound where no agent has it, Refused while it is not offered, which it is not while a task
        uses it, and Unavailable while its host is claimed.
        """
        offered = self._hosts.offers.volume(volume_id)
        if offered is None:
            if not self._hosts.agents.has_volume(volume_id):
                raise NotFound(f"no agent has the volume {volume_id}")
            raise Refused(f"volume {volume_id} is in use, or not offered by Mesos at the moment")
        if offered.offer.agent_id in self._hosts.claims:
            raise Unavailable(f"{offered.offer.hostname} is claimed by a placement engine at the moment")
        return DestroyVolume(offered)

    def destroyed(self, volume: OfferedVolume) -> None:
        """Take over that the call was sent: it has used the offer."""
        self._hosts.offers.remove(volume.offer.id)

    def _forget_created(self, now: float) -> None:
        while self._created and now - next(iter(self._created.values())) >= CREATED_SECONDS:
            del self._created[next(iter(self._created))]
