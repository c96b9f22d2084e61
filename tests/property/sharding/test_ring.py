"""The ring of events by shards: each event stays until it is passed once, by the owner of its shard."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from peloton.eventstream import Added, EventRing, Numbered

SHARDS, OWNERS, CAPACITY = 4, 3, 12
shards = st.integers(0, SHARDS - 1)
owners = st.integers(0, OWNERS - 1)


class Ring(RuleBasedStateMachine):
    """Owners read their shards, store what they have read, purge, and take shards from each other."""

    def __init__(self) -> None:
        super().__init__()
        self.ring: EventRing[int] = EventRing("s", ("jobmgr", "resmgr"), "jobmgr", CAPACITY, SHARDS)
        self.owner = dict.fromkeys(range(SHARDS), 0)
        self.begin = [0] * OWNERS
        self.early: set[int] = set()
        self.seen: list[set[int]] = [set() for _ in range(OWNERS)]
        """What each owner has read since it started over."""
        self.waiting: dict[int, int] = {}
        """The shards of events that nobody has passed, by offset."""

    def mine(self, owner: int) -> set[int]:
        return {shard for shard, of in self.owner.items() if of == owner}

    @rule(shard=shards)
    def append(self, shard: int) -> None:
        offset = self.ring.end
        added = self.ring.append(offset, b"%d" % offset, shard)
        room = offset - min(self.waiting, default=offset) < CAPACITY
        assert room or added is Added.FULL
        if added is Added.APPENDED:
            self.waiting[offset] = shard

    @rule(owner=owners, limit=st.integers(1, 5))
    def read(self, owner: int, limit: int) -> None:
        mine = self.mine(owner)
        if not mine:
            return
        begin = max(self.begin[owner], self.ring.first)
        events, self.begin[owner] = self.ring.read_shards(begin, limit, mine)
        assert all(each.shard in mine and begin <= each.offset < self.begin[owner] for each in events)
        self.seen[owner] |= {each.offset for each in events}

    @rule(owner=owners, back=st.integers(0, 4), read=st.booleans())
    def purge(self, owner: int, back: int, read: bool) -> None:
        """An owner is done with all that it has read, or some of it less; it may own all."""
        mine = self.mine(owner)
        if not mine or self.begin[owner] < self.ring.first:
            return
        purge = max(self.begin[owner] - back, 0)
        named = None if len(mine) == SHARDS and read else mine
        self.note(self.ring.purge("jobmgr", "s", self.begin[owner], purge, named), owner, purge)

    def note(self, passed: list[Numbered[int]], owner: int, purge: int) -> None:
        mine = self.mine(owner)
        due = {offset for offset, shard in self.waiting.items() if shard in mine and offset < purge}
        assert sorted(each.offset for each in passed) == sorted(due - self.early)
        assert due <= self.seen[owner], "passed, and never read by its owner"
        for offset in due:
            del self.waiting[offset]
            self.early.discard(offset)

    @rule(owner=owners)
    def pass_early(self, owner: int) -> None:
        mine = self.mine(owner)
        stored = [
            offset for offset, shard in self.waiting.items() if shard in mine and offset in self.seen[owner]
        ]
        passed = self.ring.pass_early("s", stored[-1:])
        assert [each.offset for each in passed] == [each for each in stored[-1:] if each not in self.early]
        self.early |= {each.offset for each in passed}

    @rule(shard=shards, owner=owners)
    def take(self, shard: int, owner: int) -> None:
        """A shard changes its owner, who starts over where the one before it has ended."""
        self.owner[shard] = owner
        first, purged = self.ring.start("jobmgr", self.mine(owner))
        self.begin[owner] = max(first, purged)
        self.seen[owner] = {offset for offset in self.seen[owner] if offset < self.begin[owner]}

    @rule()
    def pass_all_as_resmgr(self) -> None:
        self.ring.purge("resmgr", "s", self.ring.end, self.ring.end)

    @invariant()
    def nothing_is_dropped_before_it_is_passed(self) -> None:
        assert self.ring.first <= min(self.waiting, default=self.ring.end)
        kept = {each.offset for each in self.ring.read(self.ring.first, CAPACITY)}
        assert kept >= self.waiting.keys()
        assert self.ring.pending >= len(self.waiting)


TestRing = Ring.TestCase
TestRing.settings = settings(max_examples=60, stateful_step_count=50)
