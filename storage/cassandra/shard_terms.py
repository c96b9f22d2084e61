"""The terms of shards in Cassandra: one row for all, changed conditionally only.

It holds the newest term of each shard with the handle that began it, and up to which timestamp each of these
handles has reserved its own. So whoever begins the term of a shard learns, by the very change that ends the
term before, above which timestamps its writes have to be. A write takes its timestamp before it checks its
term: where the check passes, the timestamp was reserved when the next term began.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from peloton.errors import Fenced, Unavailable
from peloton.model.ids import JobId
from peloton.model.shard import shard_of
from storage.cassandra.session import Session
from storage.shared_read import SharedRead

AHEAD_MICROSECONDS = 10_000_000
"""Microseconds by which a term reserves timestamps ahead of its clock."""
LEAST_AHEAD_MICROSECONDS = 1_000_000
"""The same where its timestamps are ahead of the clock already: enough for as many writes. Each of several
terms in quick succession advances the timestamps by this much only."""
TRIES = 5
MARK = "#"
"""Follows the name of a role in the key of its row of shards."""


@dataclass(frozen=True, slots=True)
class ShardTerms:
    """The content of the row."""

    changes: int = 0
    terms: Mapping[int, int] = field(default_factory=dict)
    """The newest term of each shard that has had one."""
    handles: Mapping[int, str] = field(default_factory=dict)
    """The handle that began it, by shard."""
    stamps: Mapping[str, int] = field(default_factory=dict)
    """The last timestamp that each of these handles has reserved, in microseconds."""

    def begun(self, handle: str, terms: Mapping[int, int]) -> ShardTerms:
        """Return the row after a handle has begun terms of shards.

        Raises Fenced where a newer one of any of them has begun.
        """
        for shard, term in terms.items():
            self.require(shard, term)
        handles = {**self.handles, **dict.fromkeys(terms, handle)}
        stamps = {each: self.stamps.get(each, 0) for each in set(handles.values())}
        return ShardTerms(self.changes + 1, {**self.terms, **terms}, handles, stamps)

    def reserved(self, handle: str, until: int) -> ShardTerms:
        """Return the row after a handle that owns shards has reserved timestamps."""
        return ShardTerms(self.changes + 1, self.terms, self.handles, {**self.stamps, handle: until})

    def before(self, shards: Iterable[int]) -> int:
        """Return the last timestamp that the writes of these shards may have had so far."""
        return max((self.stamps[self.handles[shard]] for shard in shards if shard in self.handles), default=0)

    def require(self, shard: int, term: int) -> None:
        """Raise Fenced where a newer term of a shard has begun."""
        newest = self.terms.get(shard, 0)
        if newest > term:
            raise Fenced(f"shard {shard}: term {term} is over, term {newest} has begun")

    def to_json(self) -> str:
        """Encode the row, but for the number of changes."""
        rows = [[shard, term, self.handles[shard]] for shard, term in sorted(self.terms.items())]
        return json.dumps({"shards": rows, "stamps": dict(self.stamps)}, separators=(",", ":"))

    @classmethod
    def from_row(cls, changes: int, text: str) -> ShardTerms:
        """Decode the row."""
        held = json.loads(text)
        return cls(
            changes,
            {shard: term for shard, term, _ in held["shards"]},
            {shard: handle for shard, _, handle in held["shards"]},
            held["stamps"],
        )


class OwnedShards:
    """The shards of a handle, and the row as last read."""

    def __init__(self, session: Session, role: str) -> None:
        self._session = session
        self._key = f"{role}{MARK}"
        self._handle = uuid4().hex
        self._terms: dict[int, int] = {}
        self._newest = ShardTerms()
        self.reads = SharedRead(self._read)
        """Of the newest terms, for `require`."""

    def term(self, job_id: JobId) -> int:
        """Return the term of a job's shard, 0 where it is not owned."""
        return self._terms.get(shard_of(job_id), 0)

    async def begin(self, terms: Mapping[int, int]) -> int:
        """Begin terms of shards, if any, and reserve timestamps above those of the terms before.

        Return the last timestamp that is reserved. Raises Fenced where a newer term has begun.
        """
        for _ in range(TRIES):
            row = await self._session.row("read_shards", self._key, serial=True)
            found = ShardTerms.from_row(*row) if row else ShardTerms()
            self._session.advance_beyond(found.before(terms))
            ahead = self._session.ahead(AHEAD_MICROSECONDS, LEAST_AHEAD_MICROSECONDS)
            changed = found.begun(self._handle, terms).reserved(self._handle, ahead)
            if await self._session.decide([self._change(row is not None, found, changed)]):
                self._newest = changed
                self._terms |= terms
                return ahead
        raise Unavailable(f"{self._key}: the row of terms is changed by others repeatedly")

    def _change(self, there: bool, found: ShardTerms, changed: ShardTerms) -> tuple[str, tuple[object, ...]]:
        text = changed.to_json()
        if there:
            return "change_shards", (changed.changes, text, self._key, found.changes)
        return "create_shards", (self._key, changed.changes, text)

    def end(self, shards: Collection[int]) -> None:
        """Own these shards no more."""
        for shard in shards:
            self._terms.pop(shard, None)

    async def _read(self) -> None:
        """Read the newest terms, where they have changed since."""
        row = await self._session.row("read_term", self._key)
        if row is not None and row[0] > self._newest.changes:
            found = await self._session.row("read_shards", self._key)
            if found is not None and found[0] > self._newest.changes:
                self._newest = ShardTerms.from_row(*found)

    async def current(self) -> frozenset[int]:
        """Return the shards that are owned and have no newer term, which is read after the call."""
        await self.reads.made()
        newest = self._newest.terms
        return frozenset(shard for shard, term in self._terms.items() if newest.get(shard, 0) <= term)

    def require(self, job_id: JobId) -> None:
        """Raise Fenced where a job's shard is not owned, or has a newer term."""
        shard = shard_of(job_id)
        if shard not in self._terms:
            raise Fenced(f"job {job_id} is of shard {shard}, which is not owned here")
        self._newest.require(shard, self._terms[shard])

    def refuse(self, job_id: JobId, found: int) -> None:
        """Raise Fenced where a job was changed in a newer term than that of its shard here."""
        if found > self.term(job_id):
            raise Fenced(
                f"job {job_id}: term {self.term(job_id)} of its shard is over, term {found} has begun"
            )
