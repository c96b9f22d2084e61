"""Leadership in ZooKeeper: the place of a leader, under a lease that is renewed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from peloton.errors import Conflict, PelotonError
from peloton.membership.connection import Connection, check, drop, put
from peloton.membership.kept_lease import KeptLease
from peloton.membership.lease import Lease, Standing

RESIGN_SECONDS = 1.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of one role."""

    role: str

    @property
    def leader(self) -> str:
        """Path of the leader's node."""
        return f"{self.role}/leader"

    @property
    def term(self) -> str:
        """Path of the node of the term."""
        return f"{self.role}/term"

    @property
    def contenders(self) -> str:
        """Path of the queue of contenders."""
        return f"{self.role}/contenders"

    @property
    def members(self) -> str:
        """Path of the members."""
        return f"{self.role}/members"

    @property
    def persistent(self) -> tuple[str, ...]:
        """Nodes that outlive sessions."""
        return self.term, self.contenders, self.members, self.role


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a leader."""

    paths: Paths
    own: str
    """Path of its node in the queue."""
    term: int


class ZooKeeperLeadership:
    """Leadership as described in `interface.Leadership`."""

    def __init__(
        self, connection: Connection, place: Place, version: int, lease: Lease, patience: float
    ) -> None:
        """Renew the lease as long as the loop is not silent for `patience` seconds."""
        self._connection = connection
        self._place = place
        self._version = version
        name = f"term {place.term}"
        self._lease = KeptLease(connection, lease, patience, name, self._renew, self._give_up_place)

    @property
    def term(self) -> int:
        """Number of the term."""
        return self._place.term

    def standing(self, now: float) -> Standing:
        """Return whether a leader may act now."""
        return self._lease.standing(now)

    async def lost(self) -> None:
        """Wait until leadership is over by itself."""
        await self._lease.lost()

    async def resign(self) -> None:
        """Give up leadership.

        Where ZooKeeper cannot be reached, the end of the session or this member's next candidacy does it.
        """
        await self._lease.leave()
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                await self._connection.commit(drop(self._place.own), drop(self._place.paths.leader))
        except (PelotonError, TimeoutError) as error:
            log.info("the end of term %d could not be sent to ZooKeeper: %r", self.term, error)

    # In the thread of the lease.

    def _renew(self, timeout: float) -> bool:
        """Confirm the place, as described at `kept_lease.Renew`."""
        paths, value = self._place.paths, text_of(self.term)
        try:
            *_, stat = self._connection.commit_blocking(
                timeout,
                check(self._place.own, 0),
                check(paths.leader, 0),
                put(paths.term, value, self._version),
            )
        except Conflict:
            # An earlier renewal may have succeeded though its answer was lost.
            node = self._connection.get_blocking(timeout, paths.term)
            if node.value != value or node.version == self._version:
                raise
            self._version = node.version
            return False
        self._version = stat.version
        return True

    def _give_up_place(self) -> None:
        """Let another instance lead."""
        try:
            self._connection.commit_blocking(
                RESIGN_SECONDS, drop(self._place.own), drop(self._place.paths.leader)
            )
        except PelotonError as error:
            log.warning("the end of term %d could not be sent to ZooKeeper: %s", self.term, error)


def text_of(term: int) -> bytes:
    """Return the content of the node of a term."""
    return str(term).encode()
