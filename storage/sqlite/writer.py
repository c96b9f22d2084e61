"""Group commit: the writes that wait during a transaction are committed together in the next one.

A single thread writes. A write that fails has no effect and fails alone: the transaction runs without
savepoints, and where a write in it raises, it is rolled back and all writes run again, each in its savepoint.

A write may go ahead: the next transaction begins with it and takes little else, so that whoever waits for it
waits for no large writes that came before. Writes of one job keep their order all the same: none goes ahead
of an earlier one, and none overtakes one that goes ahead.

Where the file cannot be written, as on a full disk, `trouble` says so until a write of some size succeeds.
Such a write is tried regularly: an idle cluster makes no other.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from peloton.errors import Fenced, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.shard import shard_of
from storage.interface import Fence, unfenced
from storage.sqlite.errors import translated, unwritable
from storage.sqlite.terms import RAISE_TERM, NewestTerms, Term, begin_shards, begin_term, fenced, of_shard

T = TypeVar("T")
Write = Callable[[sqlite3.Connection], T]
"""Runs within a transaction. Where it raises, its changes are undone and the caller gets the error."""

_ROWS_PER_TRANSACTION = 20_000
_ROWS_BESIDE_AHEAD = 1_000
"""Of writes that do not go ahead, in a transaction with some that do. These rows take a few milliseconds, as
a commit of their own would."""
TRIAL_SECONDS = 2.0
"""Time between two trial writes."""
TRIAL = "trial" + 256 * 1024 * "."
"""Key of the row of a trial write: little room may be left when a write that needs more has failed."""
_OWN_FAULTS = (PelotonError, sqlite3.Error, ValueError, TypeError, ArithmeticError)
"""Errors of one write that do not affect the others."""

DELETE_TERM = "DELETE FROM terms WHERE role = ?"
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Queued:
    write: Write[Any]
    rows: int
    term: Term | None
    job_id: JobId | None
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


class _WriteFailed(Exception):
    """A write of the transaction raised: run them one by one."""


class Writer:
    """Accept writes on the event loop that created it."""

    def __init__(self, db: sqlite3.Connection, max_queued: int) -> None:
        self._db = db
        self._room = asyncio.Semaphore(max_queued)
        self._thread = ThreadPoolExecutor(1, "storage-writer")
        self._queue: deque[_Queued] = deque()
        self._ahead: deque[_Queued] = deque()
        """What the next transaction begins with."""
        self._passed_over = False
        """Whether the last transaction left out what was queued first, for writes that went ahead."""
        self._writing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._term: Term | None = None
        self._shards: dict[int, Term] | None = None
        """The terms of shards; None where writes of jobs are checked by the term of the leader."""
        self._newest = NewestTerms()
        self._fence: Fence = unfenced
        self._trial: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why nothing can be written at present; empty where writes succeed."""

    async def submit(
        self, write: Write[T], rows: int = 1, job_id: JobId | None = None, ahead: bool = False
    ) -> T:
        """Return the result of a write once it is on disk. `rows` is its approximate size.

        `job_id` is the job of all rows that it changes, if it is of one. `ahead`: it is small, somebody waits
        for it, and it may come before queued writes that are not of this job.

        Waits while too many writes are queued. Raises what the write raised, Fenced where the term is over,
        Unavailable where nothing can be written.
        """
        self._fence()
        term = self._term if job_id is None or self._shards is None else self._term_of(job_id, self._shards)
        return await self._enqueue(write, rows, term, job_id, ahead)

    def _term_of(self, job_id: JobId, shards: Mapping[int, Term]) -> Term:
        shard = shard_of(job_id)
        if shard not in shards:
            raise Fenced(f"job {job_id} is of shard {shard}, which is not owned here")
        return shards[shard]

    async def begin_term(self, role: str, term: int, fence: Fence = unfenced) -> None:
        """Write in this term from now on. Raises as `storage.interface.Store` says."""
        assert term > 0, "terms count from 1: 0 stands for none"
        fence()
        await self._enqueue(partial(begin_term, role, term), 1, None)
        self._term = (role, term)
        self._fence = fence

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        """Write jobs of these shards in these terms from now on.

        Raises Fenced where a newer one of any of them has begun.
        """
        assert all(term > 0 for term in terms.values()), "terms count from 1: 0 stands for none"
        await self._enqueue(partial(begin_shards, role, terms), len(terms) + 1, None)
        self._shards = (self._shards or {}) | {
            shard: (of_shard(role, shard), term) for shard, term in terms.items()
        }

    def end_shards(self, shards: Collection[int]) -> None:
        """Write no more jobs of these shards. What is queued is written."""
        if self._shards is not None:
            self._shards = {shard: term for shard, term in self._shards.items() if shard not in shards}

    async def close(self) -> None:
        """Commit accepted writes, then refuse further ones."""
        if self._closed:
            return
        self._closed = True
        if self._trial is not None:
            self._trial.cancel()
        self.trouble = ""
        await self._idle.wait()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown()

    async def _enqueue(
        self,
        write: Write[T],
        rows: int,
        term: Term | None,
        job_id: JobId | None = None,
        ahead: bool = False,
    ) -> T:
        async with self._room:
            if self._closed:
                raise Unavailable("the store is closed")
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            queue = self._ahead if ahead and not self._waits(job_id) else self._queue
            queue.append(_Queued(write, rows, term, job_id, future))
            self._start()
            return await future

    def _waits(self, job_id: JobId | None) -> bool:
        """Return whether a write of the job is queued, which must come first."""
        return any(queued.job_id == job_id for queued in self._queue)

    def _start(self) -> None:
        if not self._writing:
            self._writing = True
            self._idle.clear()
            # In the next iteration of the loop, so that writes submitted in this one are included.
            asyncio.get_running_loop().call_soon(self._next_transaction)

    def _next_transaction(self) -> None:
        assert self._writing and not self._idle.is_set(), "one transaction runs at a time"
        batch = self._take()
        transaction = partial(commit, self._db, batch, self._newest)
        running = asyncio.get_running_loop().run_in_executor(self._thread, transaction)
        running.add_done_callback(partial(self._complete, batch))

    def _take(self) -> list[_Queued]:
        batch: list[_Queued] = []
        _move(self._ahead, batch, _ROWS_PER_TRANSACTION, least=1)
        if self._ahead:  # what is queued must not overtake it
            return batch
        most = _ROWS_BESIDE_AHEAD if batch and not self._passed_over else _ROWS_PER_TRANSACTION
        moved = _move(self._queue, batch, most, least=0 if batch and not self._passed_over else 1)
        self._passed_over = bool(self._queue) and not moved
        return batch

    def _complete(self, batch: Sequence[_Queued], running: asyncio.Future[list[Any]]) -> None:
        if self._queue or self._ahead:
            self._next_transaction()
        else:
            self._writing = False
            self._idle.set()
        error = running.exception()
        self._note_trouble(
            [error] if error else [each.error for each in running.result() if isinstance(each, _Failed)]
        )
        outcomes = [_Failed(error)] * len(batch) if error else running.result()
        for queued, outcome in zip(batch, outcomes, strict=True):
            if queued.future.done():
                continue
            if isinstance(outcome, _Failed):
                queued.future.set_exception(_reported(outcome.error))
            else:
                queued.future.set_result(outcome)

    def _note_trouble(self, errors: Iterable[BaseException]) -> None:
        wrong = next(filter(unwritable, errors), None)
        if wrong is None:
            return
        self.trouble = f"the database cannot be written: {wrong}"
        if self._trial is None and not self._closed:
            log.error("%s", self.trouble)
            self._trial = asyncio.get_running_loop().create_task(
                self._try_until_written(), name="trial write"
            )

    async def _try_until_written(self) -> None:
        """Write a row of some size, and delete it, until both succeed."""
        while self.trouble:
            await asyncio.sleep(TRIAL_SECONDS)
            try:
                await self._enqueue(_write_trial, 1, None)
                await self._enqueue(_delete_trial, 1, None)
                self.trouble = ""
            except PelotonError as error:
                log.debug("trial write: %s", error)
        self._trial = None
        log.info("the database can be written again")


def _move(queue: deque[_Queued], batch: list[_Queued], most: int, least: int) -> int:
    """Move writes of `most` rows to the end of a batch, and at least `least` writes; return how many."""
    moved = rows = 0
    while queue and (moved < least or rows + queue[0].rows <= most):
        batch.append(queue.popleft())
        rows += batch[-1].rows
        moved += 1
    return moved


def commit(db: sqlite3.Connection, batch: Sequence[_Queued], terms: NewestTerms) -> list[Any]:
    """Commit a batch; return outcomes in its order, a `_Failed` for each write that raised.

    Raises where the transaction itself fails: then none of the writes is stored.
    """
    try:
        return _transaction(db, batch, terms, _run_together)
    except _WriteFailed:
        return _transaction(db, batch, terms, _run_apart)


def _transaction(
    db: sqlite3.Connection,
    batch: Sequence[_Queued],
    terms: NewestTerms,
    run: Callable[[sqlite3.Connection, Sequence[_Queued], Mapping[str, int]], list[Any]],
) -> list[Any]:
    assert not db.in_transaction, "the last transaction has not ended"
    db.execute("BEGIN IMMEDIATE")
    try:
        newest = terms.read(db, {queued.term[0] for queued in batch if queued.term is not None})
        outcomes = run(db, batch, newest)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return outcomes


def _run_together(db: sqlite3.Connection, batch: Sequence[_Queued], newest: Mapping[str, int]) -> list[Any]:
    try:
        return [_run(db, queued, newest) for queued in batch]
    except _OWN_FAULTS as error:
        raise _WriteFailed from error


def _run_apart(db: sqlite3.Connection, batch: Sequence[_Queued], newest: Mapping[str, int]) -> list[Any]:
    outcomes: list[Any] = []
    for queued in batch:
        db.execute("SAVEPOINT one")
        try:
            outcomes.append(_run(db, queued, newest))
        except _OWN_FAULTS as error:
            if not db.in_transaction:  # such as a full disk, which has undone everything
                raise
            db.execute("ROLLBACK TO one")
            outcomes.append(_Failed(error))
        db.execute("RELEASE one")
    return outcomes


def _run(db: sqlite3.Connection, queued: _Queued, newest: Mapping[str, int]) -> Any:
    if queued.term is not None:
        key, term = queued.term
        if newest[key] > term:
            raise fenced(key, term, newest[key])
    return queued.write(db)


def _write_trial(db: sqlite3.Connection) -> None:
    db.execute(RAISE_TERM, (TRIAL, 0, ""))


def _delete_trial(db: sqlite3.Connection) -> None:
    db.execute(DELETE_TERM, (TRIAL,))


def _reported(error: BaseException) -> BaseException:
    return translated(error) if isinstance(error, sqlite3.Error) else error
