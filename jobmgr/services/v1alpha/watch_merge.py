"""The watches of several owners as one: what of their messages is told, and when some may be missed. Pure.

Each owner says, within its stream, which shards it owns from there on, and in which term. It says that it has
given one up after all changes of it; it says that it has got one before all changes of it. It also says which
generation of the table it has seen: by then it has sent what it sends of shards that another one has got by
that generation. Until then a message of an earlier owner may come after one of a later owner: it is old.

Nothing is missed of a shard whose owners were all watched before they got it, and gave it up in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peloton.model.ids import JobId
from peloton.model.shard import SHARDS, shard_of

Terms = Mapping[int, int]
"""Of shards, by number."""


class Missed(Exception):
    """A change may not have been seen: the watcher is to begin again, and to list what is there."""


@dataclass(frozen=True, slots=True)
class Owned:
    """What an owner says in its stream."""

    terms: Terms
    generation: int
    """Of the table, as it has seen it."""


class Merge:
    """What is told of the streams of some owners, each named by its session."""

    def __init__(self) -> None:
        self._owned: dict[str, Owned] = {}
        self._newest = [0] * SHARDS
        """The newest term of each shard in which an owner was seen."""
        self._old: frozenset[int] = frozenset()
        """Shards of which an earlier owner may still send something."""
        self._told: dict[int, dict[str, int]] = {}
        """Of these, what was told, with the term in which that was."""
        self._began = False

    def begin(self) -> None:
        """Tell what comes from now on: all who are there are watched."""
        self._began = True

    @property
    def moving(self) -> bool:
        """Whether messages have to be looked at."""
        return bool(self._old)

    def joined(self, owner: str, owned: Owned) -> None:
        """Take that an owner is watched, which has these shards already.

        Raises Missed where it has got one since the watch began.
        """
        if self._began and any(term > self._newest[shard] for shard, term in owned.terms.items()):
            raise Missed(f"{owner} owned shards before it was watched")
        self.owns(owner, owned)

    def owns(self, owner: str, owned: Owned) -> None:
        """Take what an owner has from here on in its stream."""
        self._owned[owner] = owned
        for shard, term in owned.terms.items():
            self._newest[shard] = max(self._newest[shard], term)
        self._look()

    def left(self, owner: str) -> None:
        """Take that the stream of an owner has ended. Raises Missed unless it had given all shards up."""
        owned = self._owned.pop(owner, None)
        if owned is not None and owned.terms:
            raise Missed(f"{owner} has ended with shards of its own")
        self._look()

    def tells(self, owner: str, job_id: JobId, subject: str) -> bool:
        """Return whether what an owner sends of a job, or of a pod of it, is told: unless it is old."""
        shard = shard_of(job_id)
        if shard not in self._old:
            return True
        told, term = self._told.setdefault(shard, {}), self._owned[owner].terms.get(shard, 0)
        if term < told.get(subject, 0):
            return False
        told[subject] = term
        return True

    def _look(self) -> None:
        """Find the shards that have changed owners, as far as one of them has not seen it."""
        seen = min((owned.generation for owned in self._owned.values()), default=0)
        self._old = frozenset(shard for shard, term in enumerate(self._newest) if term > seen)
        for shard in self._told.keys() - self._old:
            del self._told[shard]
