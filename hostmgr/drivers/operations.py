"""Operations on hosts: reservations and volumes on a host of choice, or any operations on a claimed host."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

from hostmgr.core.claims import InvalidOffers
from hostmgr.core.offers import InsufficientOffers, need_of
from hostmgr.core.operations import CreateVolume, HostOperation, LaunchTasks
from hostmgr.drivers.manager import HostManager, check_distinct
from peloton.errors import AlreadyExists, InvalidArgument, Refused

HOSTS_AT_ONCE = 500
"""Hosts that are tried before other work runs."""
CREATED_SECONDS = 60.0
"""Time in which a volume appears in the offers or in the map of agents after its creation."""


class Operations:
    """Carry out operations on what hosts offer."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager
        self._created: dict[str, float] = {}
        """Volumes that were created, with the time: in the order of their creation."""

    async def on_any_host(self, operation: HostOperation) -> str:
        """Carry out an operation on a host that is not claimed; return its agent's id.

        Raises Refused where no such host offers what it takes, and Unavailable without a connection.
        """
        manager = self._manager
        manager.require_connection()
        tried, reason = 0, ""
        for agent_id in manager.hosts.unclaimed():
            try:
                manager.backend.operate(agent_id, manager.hosts.offers_of(agent_id), [operation])
            except InsufficientOffers as error:
                tried, reason = tried + 1, str(error)
            else:
                manager.hosts.use_offers(agent_id)
                return agent_id
            if not tried % HOSTS_AT_ONCE:
                await asyncio.sleep(0)
        last = f"; of the last one: {reason}" if reason else ""
        raise Refused(f"none of {tried} unclaimed hosts with offers can do it{last}")

    async def create_volume(self, operation: CreateVolume) -> None:
        """Create a volume on a host that is not claimed. Raises AlreadyExists, and as `on_any_host` does."""
        volume_id, now = operation.mount.id, self._manager.clock.monotonic()
        self._forget_created(now)
        hosts = self._manager.hosts
        if volume_id in self._created or hosts.has_volume(volume_id) or hosts.offered_volume(volume_id):
            raise AlreadyExists(f"there is a volume {volume_id} already")
        self._created[volume_id] = now
        try:
            await self.on_any_host(operation)
        except BaseException:
            self._created.pop(volume_id, None)
            raise

    def on_claimed_host(
        self, claim_id: str, hostname: str, operations: Sequence[HostOperation], content: Hashable
    ) -> None:
        """Carry out operations on a claimed host, using all its offers; repeated with `content`, do nothing.

        Raises InvalidOffers and InvalidArgument, which end the claim, and Unavailable without any effect.
        """
        try:
            self._on_claimed_host(claim_id, hostname, operations, content)
        except (InvalidOffers, InvalidArgument):
            self._manager.give_up(claim_id, hostname)
            raise

    def _on_claimed_host(
        self, claim_id: str, hostname: str, operations: Sequence[HostOperation], content: Hashable
    ) -> None:
        manager = self._manager
        manager.require_connection()
        launches = [each for part in operations if isinstance(part, LaunchTasks) for each in part.launches]
        check_distinct([need_of(each) for each in launches])
        claim = manager.hosts.claim_to_use(claim_id, hostname, "", content)
        if claim is None:
            return
        runs = [each.mesos_task_id for each in launches]
        manager.refuse_late(runs)
        try:
            offers = manager.hosts.offers_of(claim.agent_id)
            manager.backend.operate(claim.agent_id, offers, operations)
        except InsufficientOffers as error:
            raise InvalidOffers(f"invalid offers: {error}") from None
        manager.hosts.use(claim, content, runs)
        manager.follow_launched(runs, claim.agent_id)

    def _forget_created(self, now: float) -> None:
        while self._created and now - next(iter(self._created.values())) >= CREATED_SECONDS:
            del self._created[next(iter(self._created))]
