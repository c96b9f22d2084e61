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
from dataclasses import dataclass

from peloton.clock import SystemClock
from peloton.errors import AlreadyExists, Conflict, NotFound, PelotonError, Unavailable
from peloton.membership.connection import Connection, add, check, drop, put
from peloton.membership.interface import Member
from peloton.membership.lease import Lease, Standing

PAUSE = 0.2
RESIGN_SECONDS = 1.0
RENEWALS = 5
"""Renewals of the lease in a session's length."""
_NUMBERED = re.compile(r"-\d+\Z")
"""Suffix that ZooKeeper adds to the name of a contender; other programs may have left other nodes."""
log = logging.getLogger(__name__)
_clock = SystemClock()


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


class Election:
    """The candidacy of a member, which has at most one at a time."""

    def __init__(self, connection: Connection, paths: Paths, member: Member, session: float) -> None:
        self._connection = connection
        self._paths = paths
        self._member = member
        self._session = session
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
                    put(self._paths.term, _text(term + 1), version),
                    add(self._paths.leader, address),
                )
            except NotFound as error:
                raise Unavailable(str(error)) from None
            except Conflict:
                continue
            except AlreadyExists:
                await self._until_vacant()
                continue
            return ZooKeeperLeadership(self._connection, self._paths, own, term + 1, stat.version, lease)

    async def _last_term(self) -> tuple[int, int]:
        """Return the last term and the version of its node."""
        while True:
            try:
                node = await self._connection.get(self._paths.term)
                return int(node.value or b"0"), node.version
            except NotFound:
                with suppress(AlreadyExists):
                    await self._connection.create(self._paths.term, _text(0))

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


class ZooKeeperLeadership:
    """Leadership as described in `interface.Leadership`."""

    def __init__(
        self, connection: Connection, paths: Paths, own: str, term: int, version: int, lease: Lease
    ) -> None:
        self._connection = connection
        self._paths = paths
        self._own = own
        self._term = term
        self._version = version
        self._lease = lease
        self._over = asyncio.Event()
        self._wake = asyncio.Event()
        connection.on_state.append(self._on_state)
        # Changes of the connection since the answer to the election were not reported to this object.
        self._on_state("CONNECTED" if connection.is_connected else "SUSPENDED")
        self._renewing = asyncio.create_task(self._keep_renewing(), name="lease")

    @property
    def term(self) -> int:
        """Number of the term."""
        return self._term

    def standing(self, now: float) -> Standing:
        """Return whether a leader may act now."""
        return self._lease.standing(now)

    async def lost(self) -> None:
        """Wait until leadership is over by itself."""
        await self._over.wait()

    async def resign(self) -> None:
        """Give up leadership.

        Where ZooKeeper cannot be reached, the end of the session or this member's next candidacy does it.
        """
        self._end()
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        if self._on_state in self._connection.on_state:
            self._connection.on_state.remove(self._on_state)
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                await self._connection.commit(drop(self._own), drop(self._paths.leader))
        except (PelotonError, TimeoutError) as error:
            log.info("the end of term %d could not be sent to ZooKeeper: %r", self._term, error)

    async def _keep_renewing(self) -> None:
        """Renew the lease until it is over: a leader that cannot renew it gives up leadership."""
        try:
            while _clock.monotonic() < self._lease.until:
                await self._renew_and_wait()
            log.warning("term %d is over: ZooKeeper ended the session, or did not answer in time", self._term)
        except PelotonError as error:
            log.warning("term %d is over: %s", self._term, error)
        finally:
            self._end()

    async def _renew_and_wait(self) -> None:
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(self._lease.until - _clock.monotonic()):
                    self._wake.clear()
                    await self._renew()
                    async with asyncio.timeout(self._lease.session / RENEWALS):
                        await self._wake.wait()
            except Unavailable:
                await asyncio.sleep(PAUSE)

    async def _renew(self) -> None:
        """Renew the lease.

        Raises NotFound or Conflict where the election is lost, Unavailable where the outcome is unknown.
        """
        stamp = _clock.monotonic()
        try:
            *_, stat = await self._connection.commit(
                check(self._own, 0),
                check(self._paths.leader, 0),
                put(self._paths.term, _text(self._term), self._version),
            )
        except Conflict:
            # An earlier renewal may have succeeded though its answer was lost.
            node = await self._connection.get(self._paths.term)
            if node.value != _text(self._term) or node.version == self._version:
                raise
            self._version = node.version
            self._wake.set()
            return
        self._version = stat.version
        self._lease.renew(stamp, _clock.monotonic())

    def _on_state(self, state: str) -> None:
        if state == "LOST":
            self._end()
        elif state == "SUSPENDED":
            self._lease.suspend(_clock.monotonic())
        else:
            self._lease.shorten(self._connection.granted)
        self._wake.set()

    def _end(self) -> None:
        self._lease.end()
        self._over.set()


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _text(term: int) -> bytes:
    return str(term).encode()
