"""The assignment is fair, moves no more than that takes, and takes nothing from an owner that lives."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from peloton.sharding.assignment import assign
from peloton.sharding.table import Shard, ShardTable, hand_over

SESSIONS = ("a", "b", "c", "d", "e")
GENERATION = 20


@st.composite
def shards(draw: st.DrawFn) -> Shard:
    owner = draw(st.sampled_from(("", *SESSIONS)))
    successor = draw(st.sampled_from(("", "", *(each for each in SESSIONS if each != owner))))
    return Shard(owner, draw(st.integers(1, GENERATION)) if owner else 0, successor if owner else "")


tables = st.lists(shards(), min_size=1, max_size=40).map(lambda rows: ShardTable(tuple(rows), GENERATION))
some = st.sets(st.sampled_from(SESSIONS))


def done(table: ShardTable) -> list[str]:
    """Return who owns each shard when the hand-overs are made."""
    return [shard.successor or shard.owner for shard in table.shards]


@given(table=tables, living=some, leaving=some, floor=st.integers(0, 2 * GENERATION))
def test_a_plan(table: ShardTable, living: set[str], leaving: set[str], floor: int) -> None:
    planned = assign(table, living, leaving, floor)
    staying = living - leaving
    if not staying:
        assert planned is table
        return
    for old, new in zip(table.shards, planned.shards, strict=True):
        assert new.owner == old.owner or old.owner not in living
        assert (new.term == old.term) == (new.owner == old.owner)
        assert new.term == old.term or new.term == planned.generation > max(floor, table.generation)
    ends = done(planned)
    count = Counter(ends)
    assert count.keys() <= staying
    parts = [count[session] for session in staying]
    assert max(parts) - min(parts) <= 1
    before = [expected(shard, staying) for shard in table.shards]
    moved = sum(old not in ("", new) for old, new in zip(before, ends, strict=True))
    had = sorted((before.count(session) for session in staying), reverse=True)
    assert moved == sum(max(old - new, 0) for old, new in zip(had, sorted(parts, reverse=True), strict=True))
    assert assign(planned, living, leaving, floor) is planned, "a plan needs no other"


def expected(shard: Shard, staying: set[str]) -> str:
    """Return where a shard would be without a plan; empty where it has to go elsewhere."""
    return next((each for each in (shard.successor, shard.owner) if each in staying), "")


@given(table=tables)
def test_what_is_handed_over_is_the_successors(table: ShardTable) -> None:
    for session in SESSIONS:
        numbers = [
            number
            for number, shard in enumerate(table.shards)
            if shard.owner == session and shard.successor and number % 2
        ]
        if not numbers:
            continue
        after = hand_over(table, session, numbers)
        for number, (old, new) in enumerate(zip(table.shards, after.shards, strict=True)):
            expected = Shard(old.successor, after.generation) if number in numbers else old
            assert new == expected
        assert table.dispossessed(after) == {session}


@given(table=tables)
def test_a_table_is_read_as_it_was_written(table: ShardTable) -> None:
    assert ShardTable.from_json(table.to_json()) == table
