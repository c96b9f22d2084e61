"""The election of one role in ZooKeeper.

    <root>/<role>/contenders/<member>-<number>  ephemeral; the lowest number leads
    <root>/<role>/leader                        ephemeral, made by the winner; its address
    <root>/<role>/term                          number of the last term; the leader's heartbeat

Winning is one transaction: the place in the queue is still held, nobody else is leader, the term grows by
one. The heartbeat is a write too, since a read may be answered by a server that is cut off from the others.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress

from peloton.clock import SystemClock
from peloton.errors import AlreadyExists, Conflict, NotFound, PelotonError, Unavailable
from peloton.membership.connection import Connection, add, check, put
from peloton.membership.interface import Member
from peloton.membership.kept_lease import PAUSE
from peloton.membership.leadership import (
    RESIGN_SECONDS,
    Paths,
    Place,
    ZooKeeperLeadership,
    text_of,
)
from peloton.membership.lease import Lease

_NUMBERED = re.compile(r"-\d+\Z")
"""Suffix that ZooKeeper adds to the name of a contender; other programs may have left other nodes."""
log = logging.getLogger(__name__)
_clock = SystemClock()


class Election:
    """The candidacy of a member, which has at most one at a time."""

    def __init__(
        self, connection: Connection, paths: Paths, member: Member, session: float, patience: float
    ) -> None:
        """Lead with a lease of `session` seconds, unless the event loop is silent for `patience` seconds."""
        self._connection = connection
        self._paths = paths
        self._member = member
        self._session = session
        self._patience = patience
        self._prefix = f"{member.id}-"

    async def win(self) -> ZooKeeperLeadership:
        """Wait until elected. Raises Refused where ZooKeeper does not allow it."""
        while True:
            try:
                await self._remove_leftovers()
                return await self._contend()
            except (Unavailable, NotFound) as error:
                log.info("will contend again to lead: %s", error)
            await asyncio.sleep(PAUSE)
            await self._connection.connected()

    async def _remove_leftovers(self) -> None:
        """Delete nodes of an earlier candidacy whose end could not be sent to ZooKeeper."""
        await self._connection.make(self._paths.contenders)
        for name in await self._connection.children(self._paths.contenders):
            if name.startswith(self._prefix):
                await self._connection.delete(f"{self._paths.contenders}/{name}")
        with suppress(NotFound):
            if (await self._connection.get(self._paths.leader)).owner == self._connection.session:
                await self._connection.delete(self._paths.leader)

    async def _contend(self) -> ZooKeeperLeadership:
        path = f"{self._paths.contenders}/{self._prefix}"
        own = await self._connection.create(path, b"", ephemeral=True, sequence=True)
        try:
            await self._until_first(own.rpartition("/")[2])
            return await self._claim(own)
        except asyncio.CancelledError:
            with suppress(PelotonError, TimeoutError):
                async with asyncio.timeout(RESIGN_SECONDS):
                    await self._connection.delete(own)
            raise

    async def _until_first(self, own: str) -> None:
        """Wait until first in the queue. Raises Unavailable where the place is lost."""
        while True:
            names = await self._connection.children(self._paths.contenders)
            if own not in names:
                raise Unavailable(f"{own} is no contender any more: its session has ended")
            earlier = [name for name in names if _NUMBERED.search(name) and _number(name) < _number(own)]
            if not earlier:
                return
            gone = asyncio.Event()
            if await self._connection.exists(
                f"{self._paths.contenders}/{max(earlier, key=_number)}", gone.set
            ):
                await gone.wait()

    async def _claim(self, own: str) -> ZooKeeperLeadership:
        """Become leader. Raises Unavailable where the place is lost or the outcome unknown."""
        address = self._member.address.to_json().encode()
        while True:
            term, version = await self._last_term()
            lease = Lease(min(self._session, self._connection.granted), _clock.monotonic())
            try:
                _, stat, _ = await self._connection.commit(
                    check(own, 0),
                    put(self._paths.term, text_of(term + 1), version),
                    add(self._paths.leader, address),
                )
            except NotFound as error:
                raise Unavailable(str(error)) from None
            except Conflict:
                continue
            except AlreadyExists:
                await self._until_vacant()
                continue
            place = Place(self._paths, own, term + 1)
            return ZooKeeperLeadership(self._connection, place, stat.version, lease, self._patience)

    async def _last_term(self) -> tuple[int, int]:
        """Return the last term and the version of its node."""
        while True:
            try:
                node = await self._connection.get(self._paths.term)
                return int(node.value or b"0"), node.version
            except NotFound:
                with suppress(AlreadyExists):
                    await self._connection.create(self._paths.term, text_of(0))

    async def _until_vacant(self) -> None:
        """Wait until a leader is gone that did not contend here, such as another program."""
        gone = asyncio.Event()
        with suppress(NotFound):
            node = await self._connection.get(self._paths.leader, gone.set)
            if node.owner:
                log.warning("%s is held by session %x: waiting", self._paths.leader, node.owner)
                await gone.wait()
            else:
                log.warning("%s was left by a program that does not lead: removing it", self._paths.leader)
                await self._connection.delete(self._paths.leader)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
