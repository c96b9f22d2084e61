"""The store's history in memory."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.errors import Unavailable
from peloton.model.history import HistoryBlock


class Blocks:
    """Blocks of samples and events, as `storage.interface.History` has them; `away` makes all calls fail."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int, int, int], HistoryBlock] = {}
        self.away = False
        self.reads = 0

    async def write(self, blocks: Sequence[HistoryBlock], keep_seconds: int) -> None:
        self._check()
        self.rows |= {(each.scope, each.step, each.start, each.part): each for each in blocks}

    async def read(
        self, scope: str, step: int, starts: Sequence[int], part: int | None = None
    ) -> Sequence[HistoryBlock]:
        self._check()
        self.reads += 1
        wanted = [
            row
            for key, row in sorted(self.rows.items())
            if key[:2] == (scope, step) and key[2] in starts and part in (None, key[3])
        ]
        return sorted(wanted, key=lambda row: (list(starts).index(row.start), row.part))

    def _check(self) -> None:
        if self.away:
            raise Unavailable("the database is away")
