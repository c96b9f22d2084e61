"""Operations on hosts: reservations and volumes on a host of choice, or any operations on a claimed host."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.state.offers import InsufficientOffers
from hostmgr.core.state.operations import CreateVolume, HostOperation, launched_by
from hostmgr.drivers.manager import HostManager
from peloton.errors import InvalidArgument, Refused
from peloton.model.plural import plural

HOSTS_AT_ONCE = 500
"""Hosts that are tried before other work runs."""


class Operations:
    """Carry out operations on what hosts offer."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager

    async def on_any_host(self, operation: HostOperation) -> str:
        """Carry out an operation on a host that is not claimed; return its agent's id.

        Raises Refused where no such host offers what it takes, and Unavailable without a connection.
        """
        manager = self._manager
        manager.require_connection()
        tried, reason = 0, ""
        for agent_id in manager.hosts.unclaimed():
            try:
                manager.backend.operate(agent_id, manager.hosts.offers.of(agent_id), [operation])
            except InsufficientOffers as error:
                tried, reason = tried + 1, str(error)
            else:
                manager.hosts.offers.use(agent_id)
                return agent_id
            if not tried % HOSTS_AT_ONCE:
                await asyncio.sleep(0)
        last = f"; of the last one: {reason}" if reason else ""
        raise Refused(f"none of {plural(tried, 'unclaimed host')} with offers can do it{last}")

    async def create_volume(self, operation: CreateVolume) -> None:
        """Create a volume on a host that is not claimed. Raises AlreadyExists, and as `on_any_host` does."""
        volumes, volume_id = self._manager.core.volumes, operation.mount.id
        volumes.create(volume_id, self._manager.clock.monotonic())
        try:
            await self.on_any_host(operation)
        except BaseException:
            volumes.not_created(volume_id)
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
            manager = self._manager
            manager.core.launching.refused(claim_id, hostname, manager.clock.monotonic())
            raise

    def _on_claimed_host(
        self, claim_id: str, hostname: str, operations: Sequence[HostOperation], content: Hashable
    ) -> None:
        manager = self._manager
        launching = manager.core.launching
        manager.require_connection()
        launches = launched_by(operations)
        claim = launching.claim_for(claim_id, hostname, launches, content)
        if claim is None:
            return
        try:
            offers = manager.hosts.offers.of(claim.agent_id)
            manager.backend.operate(claim.agent_id, offers, operations)
        except InsufficientOffers as error:
            raise InvalidOffers(f"invalid offers: {error}") from None
        launching.operated(claim, content, launches)
        manager.note_launched([each.mesos_task_id for each in launches], hostname)
