"""The pull buffer of hostmgr's event stream: a ring of numbered events that clients read and purge.

Offsets count from 0 and never repeat within one stream. A client names two offsets with each read: `begin`,
the first event it wants, and `purge`, below which it is done with everything. One client is the holder:
what it has not passed is never dropped, and when nothing but that is left in a full ring, further events are
refused. The others block nothing: one whose events were dropped gets OutOfRange and starts over.
See docs/behaviour/hosts.md, Event stream.

The holder may be several processes, each for some shards of the events (docs/shards.md). They name their
shards with each call, read the events of these, and are done with these alone. Whoever gets a further shard
starts over, where the process before it has ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from peloton.errors import PelotonError, Refused
from peloton.fast_init import fast_init

E = TypeVar("E")


class Added(Enum):
    """The result of offering an event to the ring."""

    APPENDED = "appended"
    DUPLICATE = "duplicate"
    """Its key is in the ring, and the holder has not passed it yet."""
    PASSED = "passed"
    """Its key was passed by the holder before: nothing more has to be done than to acknowledge it again."""
    FULL = "full"
    """Refused: the ring holds only what the holder has not passed."""


class UnknownClient(PelotonError):
    """The name is not that of one of the ring's clients."""


class StreamChanged(Refused):
    """The stream id is not the current one: the client starts over."""

    def __init__(self, current: str) -> None:
        self.current = current
        super().__init__(f"the stream is {current} now")


class OutOfRange(Refused):
    """The requested event is no longer, or not yet, in the ring."""

    def __init__(self, requested: int, first: int, end: int) -> None:
        self.requested, self.first, self.end = requested, first, end
        super().__init__(f"offset {requested} is not within {first} … {end}")


class InvalidPurge(PelotonError):
    """The client would purge an event that it has not read yet."""

    def __init__(self, purge: int, begin: int) -> None:
        self.purge, self.begin = purge, begin
        super().__init__(f"purge offset {purge} is beyond begin offset {begin}")


@dataclass(frozen=True, slots=True)
class Numbered(Generic[E]):
    """An event with its offset."""

    offset: int
    key: bytes
    """What duplicates are known by (Mesos' status uuid); empty: never a duplicate."""
    event: E
    shard: int = 0


fast_init(Numbered)


class EventRing(Generic[E]):
    """A ring of at most `capacity` numbered events; their keys are remembered to detect duplicates."""

    def __init__(
        self,
        stream_id: str,
        clients: Sequence[str],
        holder: str,
        capacity: int = 100_000,
        shards: int = 1,
    ) -> None:
        if holder not in clients:
            raise ValueError(f"holder {holder} is not one of {clients}")
        self.stream_id = stream_id
        self.capacity = capacity
        self._holder = holder
        self._purged = dict.fromkeys(clients, 0)
        self._slots: list[Numbered[E] | None] = [None] * capacity
        self._first = 0
        self._end = 0
        self._pending: set[bytes] = set()
        self._passed: OrderedDict[bytes, None] = OrderedDict()
        self._shards = shards
        self._marks: dict[int, int] | None = None
        """Up to which offset the holder has passed the events of each shard; None: as `_purged` for all."""
        self._early: set[int] = set()
        """Offsets that the holder passed, and not yet all before them."""

    @property
    def first(self) -> int:
        """Offset of the oldest event that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """Offset of the next event."""
        return self._end

    @property
    def pending(self) -> int:
        """Number of events that the holder has not passed."""
        return self._end - self._purged[self._holder]

    def append(self, event: E, key: bytes = b"", shard: int = 0) -> Added:
        """Offer an event to the ring."""
        assert 0 <= shard < self._shards, f"shard {shard} of {self._shards}"
        if key and key in self._pending:
            return Added.DUPLICATE
        if key and key in self._passed:
            return Added.PASSED
        if self.pending >= self.capacity:
            return Added.FULL
        if self._end - self._first >= self.capacity:
            self._drop(self._first + 1)
        self._slots[self._end % self.capacity] = Numbered(self._end, key, event, shard)
        self._end += 1
        if key:
            self._pending.add(key)
        return Added.APPENDED

    def start(self, client: str, shards: Collection[int] | None = None) -> tuple[int, int]:
        """Return the offset of the oldest event, and the client's last purge offset. Raises UnknownClient.

        For the holder of some shards it is the offset from which on it has not passed the events of all.
        """
        self._known(client)
        if client == self._holder and shards and self._marks is not None:
            return self._first, min(self._marks[shard] for shard in shards)
        return self._first, self._purged[client]

    def purge(
        self, client: str, stream_id: str, begin: int, purge: int, shards: Collection[int] | None = None
    ) -> list[Numbered[E]]:
        """Record that `client` is done with all events below `purge`; return those the holder passed.

        `shards` are those of the holder that calls; None: all.

        Raises UnknownClient, StreamChanged, OutOfRange, InvalidPurge, having changed nothing.
        """
        self._known(client)
        if stream_id != self.stream_id:
            raise StreamChanged(self.stream_id)
        if not self._first <= begin <= self._end:
            raise OutOfRange(begin, self._first, self._end)
        if purge > begin:
            raise InvalidPurge(purge, begin)
        if client == self._holder and (shards is not None or self._marks is not None):
            passed = self._pass(range(self._shards) if shards is None else shards, purge)
        else:
            before = self._purged[client]
            if purge <= before:
                return []
            passed = self._slice(before, purge) if client == self._holder else []
            self._purged[client] = purge
        if self._early:
            early = {numbered.offset for numbered in passed} & self._early
            passed = [numbered for numbered in passed if numbered.offset not in early]
            self._early -= early
        for numbered in passed:
            self._remember(numbered.key)
        self._drop(min(self._purged.values()))
        return passed

    def _pass(self, shards: Iterable[int], purge: int) -> list[Numbered[E]]:
        """Record that the holder is done with events of these shards; return those it passed."""
        marks = self._marks or dict.fromkeys(range(self._shards), self._purged[self._holder])
        moved = {shard for shard in shards if marks[shard] < purge}
        if not moved:
            return []
        events = self._slice(min(marks[shard] for shard in moved), purge)
        passed = [each for each in events if each.shard in moved and each.offset >= marks[each.shard]]
        marks |= dict.fromkeys(moved, purge)
        self._purged[self._holder] = least = min(marks.values())
        self._marks = None if least == max(marks.values()) else marks
        return passed

    def pass_early(self, stream_id: str, offsets: Iterable[int]) -> list[Numbered[E]]:
        """Record that the holder is done with these events, though not with all before them.

        Return those that it was not done with before. They stay until it purges them. Raises StreamChanged.
        """
        if stream_id != self.stream_id:
            raise StreamChanged(self.stream_id)
        held = range(self._purged[self._holder], self._end)
        fresh = {offset for offset in offsets if offset in held} - self._early
        if self._marks is not None:
            fresh = {offset for offset in fresh if not self._is_passed(offset, self._marks)}
        self._early |= fresh
        passed = [each for offset in sorted(fresh) for each in self._slice(offset, offset + 1)]
        for numbered in passed:
            self._remember(numbered.key)
        return passed

    def read(self, begin: int, limit: int) -> list[Numbered[E]]:
        """Return up to `limit` events from `begin` on. Raises OutOfRange where that one is not kept."""
        if begin < self._first:
            raise OutOfRange(begin, self._first, self._end)
        return self._slice(begin, min(self._end, begin + limit))

    def read_shards(self, begin: int, limit: int, shards: Collection[int]) -> tuple[list[Numbered[E]], int]:
        """Return up to `limit` events of some shards from `begin` on, and the offset at which to go on.

        Raises OutOfRange where the event at `begin` is not kept.
        """
        if begin < self._first:
            raise OutOfRange(begin, self._first, self._end)
        found: list[Numbered[E]] = []
        for offset in range(begin, self._end):
            if len(found) == limit:
                return found, offset
            numbered = self._slots[offset % self.capacity]
            if numbered is not None and numbered.shard in shards:
                found.append(numbered)
        return found, self._end

    def _is_passed(self, offset: int, marks: dict[int, int]) -> bool:
        numbered = self._slots[offset % self.capacity]
        return numbered is None or offset < marks[numbered.shard]

    def _known(self, client: str) -> None:
        if client not in self._purged:
            raise UnknownClient(f"{client!r} is not one of {', '.join(self._purged)}")

    def _slice(self, begin: int, end: int) -> list[Numbered[E]]:
        held = (self._slots[offset % self.capacity] for offset in range(max(begin, self._first), end))
        return [numbered for numbered in held if numbered is not None]

    def _remember(self, key: bytes) -> None:
        if not key:
            return
        self._pending.discard(key)
        self._passed[key] = None
        if len(self._passed) > self.capacity:
            self._passed.popitem(last=False)

    def _drop(self, up_to: int) -> None:
        for offset in range(self._first, up_to):
            self._slots[offset % self.capacity] = None
        self._first = max(self._first, up_to)
