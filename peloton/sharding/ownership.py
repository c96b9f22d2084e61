"""What one session owns: from the tables it sees, what to open, to finish, to hand over and to drop.

A shard that is owned is OPENING until its jobs are known, and OPEN. One that has a successor is DRAINING:
what was begun is finished, nothing new begins. When that is done it is HANDING_OVER, and nothing is done for
it any more, since the table may name another owner at any time. `see` takes tables; one that is older than
one that was seen changes nothing. The session's lease is checked beside this: `acts` does not know whether it
still holds.

A hand-over is taken back where the successor is gone before it. A shard that was HANDING_OVER opens again
only by a table that is newer than the one that the hand-over was to replace: then that write cannot succeed
any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from peloton.sharding.table import ShardTable, hand_over

MOST_DRAINING = 4
"""Shards that are drained at a time: the others are served until it is their turn."""


class Phase(Enum):
    """How far a shard is."""

    OPENING = "opening"
    OPEN = "open"
    DRAINING = "draining"
    HANDING_OVER = "handing over"


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to own a shard in a term; answered by `opened`."""

    shard: int
    term: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Finish what was begun for a shard, and begin nothing; answered by `drained`."""

    shard: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a shard that was being drained: it is kept."""

    shard: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Replace the table of this version by `table`, in which shards are their successors'.

    It is answered by `see` with a newer table, whether that has the change or another one; and where the
    write had no known outcome, with a table read again.
    """

    table: ShardTable
    version: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget a shard, which is owned by another session now."""

    shard: int


Instruction = Open | Drain | Resume | HandOver | Drop


@dataclass(slots=True)
class _Held:
    term: int
    phase: Phase
    tried: int = -1
    """The version of the table that a write was last to replace by one in which the shard is handed over."""


class Ownership:
    """The shards of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self._held: dict[int, _Held] = {}
        self._table: ShardTable | None = None
        self._version = -1

    @property
    def version(self) -> int:
        """The version of the newest table that was seen, -1 before the first one."""
        return self._version

    @property
    def terms(self) -> Mapping[int, int]:
        """The terms of the shards for which something may be done, by number."""
        return {
            number: held.term for number, held in self._held.items() if held.phase is not Phase.HANDING_OVER
        }

    @property
    def held(self) -> list[int]:
        """The shards that have not been handed over and dropped, by all that is known."""
        return list(self._held)

    def acts(self, shard: int) -> bool:
        """Return whether something may be done for a shard, while the session's lease is held."""
        held = self._held.get(shard)
        return held is not None and held.phase is not Phase.HANDING_OVER

    def term(self, shard: int) -> int:
        """Return the term of a shard for which `acts` is true."""
        assert self.acts(shard), f"shard {shard} is not owned"
        return self._held[shard].term

    def phase(self, shard: int) -> Phase | None:
        """Return how far a shard is, None where it is not owned."""
        held = self._held.get(shard)
        return None if held is None else held.phase

    def see(self, table: ShardTable, version: int) -> list[Instruction]:
        """Take the table of a version; return what follows. A version may be seen again."""
        if version < self._version:
            return []
        self._table, self._version = table, version
        done: list[Instruction] = []
        for number, shard in enumerate(table.shards):
            held = self._held.get(number)
            if held is not None and (shard.owner, shard.term) != (self.session, held.term):
                del self._held[number]
                done.append(Drop(number))
                held = None
            if shard.owner == self.session:
                done += self._keep(number, shard.term, held, bool(shard.successor))
        return done + self._hand_over() + self._drain_some()

    def opened(self, shard: int) -> list[Instruction]:
        """Take that the jobs of a shard are known."""
        held = self._held.get(shard)
        if held is not None and held.phase is Phase.OPENING:
            held.phase = Phase.OPEN
        return self._drain_some()

    def drained(self, shard: int) -> list[Instruction]:
        """Take that everything that was begun for a shard is finished."""
        held = self._held.get(shard)
        if held is None or held.phase is not Phase.DRAINING:
            return []
        held.phase = Phase.HANDING_OVER
        return self._hand_over() + self._drain_some()

    def _keep(self, number: int, term: int, held: _Held | None, succeeded: bool) -> list[Instruction]:
        """Return what follows from a table in which the session owns a shard."""
        if held is None:
            self._held[number] = _Held(term, Phase.OPENING)
            return [Open(number, term)]
        if held.phase not in (Phase.DRAINING, Phase.HANDING_OVER) or succeeded:
            return []
        assert self._version > held.tried, f"shard {number}: two tables of one version"
        held.phase = Phase.OPEN
        return [Resume(number)]

    def _hand_over(self) -> list[Instruction]:
        """Return the write that hands over what is finished, by the newest table."""
        finished = [number for number, held in self._held.items() if held.phase is Phase.HANDING_OVER]
        if not finished or self._table is None:
            return []
        for number in finished:
            self._held[number].tried = self._version
        return [HandOver(hand_over(self._table, self.session, finished), self._version)]

    def _drain_some(self) -> list[Instruction]:
        """Begin to drain shards that have a successor, as many as may be at a time."""
        if self._table is None:
            return []
        left = MOST_DRAINING - sum(held.phase is Phase.DRAINING for held in self._held.values())
        done: list[Instruction] = []
        for number, held in sorted(self._held.items()):
            if left > 0 and held.phase is Phase.OPEN and self._table.shards[number].successor:
                held.phase = Phase.DRAINING
                done.append(Drain(number))
                left -= 1
        return done
