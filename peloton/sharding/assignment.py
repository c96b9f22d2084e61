"""The assignment: which session is to own which shard.

It is fair and moves as few shards as that takes: the numbers of two sessions' shards differ by one at most,
and a shard moves only where its owner is gone, leaves, or has more than its part. A shard whose owner is gone
changes its owner in the table at once. One whose owner lives gets a successor: the owner hands it over when
it has finished what it had begun (`ownership`).
"""

from __future__ import annotations

from collections.abc import Collection

from peloton.sharding.table import Shard, ShardTable, with_successor


def assign(
    table: ShardTable, living: Collection[str], leaving: Collection[str] = (), floor: int = 0
) -> ShardTable:
    """Return the next table, or the same one where nothing is to change.

    `living` are the sessions that the registry has; those that are `leaving` get nothing. Where none stays,
    nothing changes. The generation of a changed table is larger than `floor`, so that terms of shards are
    larger than the terms of leaders before there were shards.
    """
    staying = sorted(set(living) - set(leaving))
    if not staying:
        return table
    wanted = _wanted(table, staying)
    generation = max(table.generation, floor) + 1
    changes = {
        number: row
        for number, shard in enumerate(table.shards)
        if (row := _row(shard, wanted[number], living, generation)) != shard
    }
    return table.changed(changes, generation) if changes else table


def _row(shard: Shard, wanted: str, living: Collection[str], generation: int) -> Shard:
    """Return the row of a shard that a session is to own."""
    if shard.owner == wanted:
        return with_successor(shard, "")
    if shard.owner in living:
        return with_successor(shard, wanted)
    return Shard(wanted, generation)


def _wanted(table: ShardTable, staying: list[str]) -> list[str]:
    """Return who is to own each shard."""
    wanted = [_expected(shard, staying) for shard in table.shards]
    parts = _parts(wanted, staying)
    free = [number for number, session in enumerate(wanted) if not session]
    for session in staying:
        free += _surplus(table, wanted, session, parts[session])
    for number in free:
        wanted[number] = ""
    missing = {session: parts[session] - wanted.count(session) for session in staying}
    for number in sorted(free):  # first those whose owner has room for them: they do not move
        owner = table.shards[number].owner
        if missing.get(owner, 0) > 0:
            wanted[number] = owner
            missing[owner] -= 1
    takers = [session for session in staying for _ in range(missing[session])]
    rest = sorted(number for number in free if not wanted[number])
    for number, session in zip(rest, takers, strict=True):
        wanted[number] = session
    return wanted


def _expected(shard: Shard, staying: Collection[str]) -> str:
    """Return who owns a shard when the hand-overs under way are done; empty where it has to be assigned."""
    for session in (shard.successor, shard.owner):
        if session in staying:
            return session
    return ""


def _parts(wanted: list[str], staying: list[str]) -> dict[str, int]:
    """Return how many shards each session is to have. Those with most now have one more, if any do."""
    base, more = divmod(len(wanted), len(staying))
    ranked = sorted(staying, key=lambda session: (-wanted.count(session), session))
    return {session: base + (rank < more) for rank, session in enumerate(ranked)}


def _surplus(table: ShardTable, wanted: list[str], session: str, part: int) -> list[int]:
    """Return which shards a session is not to own that has too many: first those that it has not got yet."""
    held = [number for number, each in enumerate(wanted) if each == session]
    held.sort(key=lambda number: (table.shards[number].owner != session, number))
    return held[part:]
