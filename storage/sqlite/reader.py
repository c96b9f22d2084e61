"""Reads, each in one snapshot, on connections and threads apart from the writer's."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

from peloton.errors import Unavailable
from storage.sqlite.errors import translation

T = TypeVar("T")
Read = Callable[[sqlite3.Connection], T]


class Readers:
    """One thread for each connection; further reads wait for a free one.

    Where there are several, long reads leave one to the others.
    """

    def __init__(self, connections: Sequence[sqlite3.Connection]) -> None:
        self._connections = tuple(connections)
        self._free: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for db in connections:
            self._free.put(db)
        self._threads = ThreadPoolExecutor(len(connections), "storage-reader")
        self._long = asyncio.Semaphore(max(len(self._connections) - 1, 1))
        self._closed = False

    async def run_long(self, read: Read[T]) -> T:
        """As `run`, of a read of many rows."""
        async with self._long:
            return await self.run(read)

    async def run(self, read: Read[T]) -> T:
        """Run a read in one snapshot.

        Raises what `read` raises, and Unavailable where the database cannot answer.
        """
        if self._closed:
            raise Unavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._in_snapshot, read)

    async def close(self) -> None:
        """Finish accepted reads, then close the connections."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for db in self._connections:
            db.close()

    def _in_snapshot(self, read: Read[T]) -> T:
        db = self._free.get()
        try:
            with translation():
                assert not db.in_transaction, "the last read has not ended its snapshot"
                db.execute("BEGIN")
                try:
                    return read(db)
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
        finally:
            self._free.put(db)
