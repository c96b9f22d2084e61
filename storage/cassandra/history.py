"""Blocks of samples over time. The database drops them by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from peloton.model.history import HistoryBlock
from storage.cassandra.session import Session
from storage.cassandra.terms import Gate

_TOGETHER = 16
"""Blocks that are written, and begins that are read, concurrently."""


class CassandraHistory:
    """Blocks in the Cassandra store: those of one begin are a partition."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def write(self, blocks: Sequence[HistoryBlock], keep_seconds: int) -> None:
        """Insert or replace blocks of one step."""
        async with self._gate() as when:
            for at in range(0, len(blocks), _TOGETHER):
                await asyncio.gather(
                    *(
                        self._session.write(
                            "put_history",
                            *(each.scope, each.step, each.start, each.part, each.body),
                            when,
                            keep_seconds,
                        )
                        for each in blocks[at : at + _TOGETHER]
                    )
                )

    async def read(
        self, scope: str, step: int, starts: Sequence[int], part: int | None = None
    ) -> Sequence[HistoryBlock]:
        """Return the blocks of some begins, in their order; with `part`, that part of each."""
        found: list[HistoryBlock] = []
        async with self._session.use():
            for at in range(0, len(starts), _TOGETHER):
                some = starts[at : at + _TOGETHER]
                rows = await asyncio.gather(*(self._rows(scope, step, each, part) for each in some))
                found += [
                    HistoryBlock(scope, step, start, number, body)
                    for start, of_start in zip(some, rows, strict=True)
                    for number, body in of_start
                ]
        return found

    async def _rows(self, scope: str, step: int, start: int, part: int | None) -> list[tuple[int, bytes]]:
        if part is None:
            rows = await self._session.rows("read_history", scope, step, start)
        else:
            rows = await self._session.rows("read_history_part", scope, step, start, part)
        return [(number, body) for number, body in rows]
