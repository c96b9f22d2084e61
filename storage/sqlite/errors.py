"""Translation of errors of sqlite3."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from peloton.errors import PelotonError, Refused, Unavailable

_BUSY = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED"})
_UNWRITABLE = _BUSY | {"SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM"}
_UNREADABLE = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})


def busy(error: sqlite3.Error) -> bool:
    """Return whether another process holds the lock."""
    return _code(error) in _BUSY


def unwritable(error: BaseException) -> bool:
    """Return whether an error says that the file cannot be written now, as where the disk is full."""
    return isinstance(error, sqlite3.Error) and _code(error) in _UNWRITABLE


def translated(error: sqlite3.Error) -> PelotonError:
    """Translate an error: an unsound file is Refused, a temporary failure is Unavailable."""
    if _code(error) in _UNREADABLE:
        return Refused(f"not a sound database: {error}")
    if busy(error):
        return Unavailable("database is locked by another process's write")
    return Unavailable(f"database: {error}")


@contextmanager
def translation() -> Iterator[None]:
    """Raise PelotonError for sqlite3 errors of the body."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error) from error


def _code(error: sqlite3.Error) -> str:
    """Return the name of the primary result code: SQLITE_IOERR for SQLITE_IOERR_WRITE."""
    name: str = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])
