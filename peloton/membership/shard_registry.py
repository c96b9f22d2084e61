"""The port to what job managers agree by on who owns which shard: one table, and the sessions of its owners.

A session is a process's lease on all that it owns. It ends when the process does, when the registry has not
heard of it for its length, or when it leaves; then it never comes back, and a process begins another one. The
table is replaced as a whole, by a living session, over the version that it read. A session that lives loses a
shard only by its own write; so nobody owns a shard while another one may still act for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from peloton.membership.interface import Address, Member, Membership
from peloton.membership.lease import Standing
from peloton.sharding.table import ShardTable


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What others see of a living session."""

    address: Address
    leaving: bool = False
    """Whether it is about to end, and is to be given no more shards."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The table and the sessions as last seen."""

    table: ShardTable
    version: int
    """It grows with each replacement of the table."""
    sessions: Mapping[str, SessionInfo]
    """The living sessions, by name."""


class OwnerSession(Protocol):
    """A session from its begin until it is lost or ended."""

    @property
    def name(self) -> str:
        """Name under which it is in the table, `<member id>-<number>`."""
        ...

    def standing(self, now: float) -> Standing:
        """Return whether its owner may act at `now` (seconds on the monotonic clock)."""
        ...

    async def lost(self) -> None:
        """Wait until the session is over by itself."""
        ...

    async def announce_end(self) -> None:
        """Let others see that it is about to end. Raises Unavailable where that is unknown."""
        ...

    async def end(self) -> None:
        """End the session: whatever it owns may be given to others at once."""
        ...


class ShardRegistry(Protocol):
    """Access to the table and the sessions. Calls raise Unavailable where their outcome is unknown."""

    async def start(self, count: int) -> None:
        """Begin to watch, unless that has begun; the first of all makes a table of `count` shards.

        Raises Refused where the table has another number of shards, or is none.
        """
        ...

    async def begin(self, member: Member) -> OwnerSession:
        """Begin a session. A process has one at a time: what an earlier one of its member left is removed."""
        ...

    def seen(self) -> Shards:
        """Return the table and the sessions as last seen."""
        ...

    async def changed(self) -> None:
        """Wait for the next change of either."""
        ...

    async def replace(self, session: OwnerSession, table: ShardTable, version: int) -> None:
        """Replace the table of a version, which `seen` has returned; it returns the new one at once.

        Raises Conflict where another version is there, or another session that would lose a shard is alive;
        Fenced where the writing session is over.
        """
        ...

    async def close(self) -> None:
        """Stop to watch."""
        ...


class ShardedMembership(Membership, Protocol):
    """A membership with a registry of the job managers' shards."""

    def shards(self) -> ShardRegistry:
        """Return a registry, to be started. It is closed before the membership."""
        ...
