"""The table of the shards: who owns each, in which term, and who is to own it next.

It is stored as a whole, and replaced by compare-and-set. An owner is named by its session: a process that has
lost one begins another, under another name, and owns nothing at first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Shard:
    """A row of the table."""

    owner: str = ""
    """The session of the owner, empty where there never was one."""
    term: int = 0
    """The generation of the table in which the owner got the shard, larger than each earlier owner's."""
    successor: str = ""
    """The session to which the owner is to hand the shard over, empty where it is to keep it."""

    def __post_init__(self) -> None:
        assert bool(self.owner) == (self.term > 0), f"an owner has a term, nobody has none: {self.owner!r}"
        assert not self.successor or self.successor != self.owner, f"{self.owner} is to follow itself"


@dataclass(frozen=True, slots=True)
class ShardTable:
    """All shards, by number."""

    shards: tuple[Shard, ...]
    generation: int = 0
    """Number of the changes so far, and at least the terms of all shards."""

    def __post_init__(self) -> None:
        assert self.shards, "a table without shards"
        assert all(shard.term <= self.generation for shard in self.shards), "a term of a later generation"

    @classmethod
    def unowned(cls, shards: int) -> ShardTable:
        """Return the first table of an installation."""
        return cls((Shard(),) * shards)

    def changed(self, changes: Mapping[int, Shard], generation: int) -> ShardTable:
        """Return the table with some shards replaced."""
        assert generation > self.generation, f"generation {generation} after {self.generation}"
        shards = tuple(changes.get(number, shard) for number, shard in enumerate(self.shards))
        return ShardTable(shards, generation)

    def owned(self, session: str) -> dict[int, int]:
        """Return the terms of the shards that a session owns, by number."""
        return {number: shard.term for number, shard in enumerate(self.shards) if shard.owner == session}

    def dispossessed(self, later: ShardTable) -> set[str]:
        """Return the sessions that own a shard here and no longer in a later table."""
        pairs = zip(self.shards, later.shards, strict=True)
        return {old.owner for old, new in pairs if old.owner and old.owner != new.owner}

    def to_json(self) -> str:
        """Encode the table."""
        rows = [[shard.owner, shard.term, shard.successor] for shard in self.shards]
        return json.dumps({"generation": self.generation, "shards": rows}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ShardTable:
        """Decode a table. Raises ValueError for an invalid one."""
        try:
            held: dict[str, Any] = json.loads(text)
            shards = tuple(Shard(str(owner), int(term), str(next_)) for owner, term, next_ in held["shards"])
            return cls(shards, int(held["generation"]))
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a table of shards: {text[:200]!r}: {error!r}") from None


def hand_over(table: ShardTable, session: str, numbers: Iterable[int]) -> ShardTable:
    """Return the table in which a session has handed over shards that it owns, to their successors."""
    generation, changes = table.generation + 1, dict[int, Shard]()
    for number in numbers:
        shard = table.shards[number]
        assert shard.owner == session, f"shard {number} is owned by {shard.owner or 'nobody'}, not {session}"
        assert shard.successor, f"shard {number} has no successor"
        changes[number] = Shard(shard.successor, generation)
    assert changes, "nothing is handed over"
    return table.changed(changes, generation)


def with_successor(shard: Shard, successor: str) -> Shard:
    """Return the shard with another successor."""
    return replace(shard, successor=successor)
