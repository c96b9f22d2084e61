"""Connections to the database file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from peloton.errors import Refused, Unavailable
from storage.sqlite.errors import translation

_PAGES_BETWEEN_CHECKPOINTS = 4000
_LARGEST_LOG_BYTES = 64 * 1024 * 1024


def prepare_directory(path: Path) -> None:
    """Create the directory of the file. Raises Unavailable where it cannot be created or written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"database directory {path.parent}: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise Unavailable(f"database directory {path.parent} is not writable")
    if path.is_dir():
        raise Refused(f"database {path} is a directory, not a file")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise Unavailable(f"database {path} is not writable")


def writer_connection(path: Path, busy_timeout: float, cache_kb: int = 65536) -> sqlite3.Connection:
    """Open a connection whose commits are on disk when they return (WAL, synchronous=FULL).

    Transactions are explicit. `cache_kb`: for pages of the database.
    """
    db = _connect(path, busy_timeout)
    with translation():
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BETWEEN_CHECKPOINTS}")
        db.execute(f"PRAGMA journal_size_limit = {_LARGEST_LOG_BYTES}")
        db.execute(f"PRAGMA cache_size = -{cache_kb}")
    return db


def reader_connection(path: Path, busy_timeout: float, cache_kb: int = 32768) -> sqlite3.Connection:
    """Open a read-only connection. `cache_kb`: for pages of the database."""
    db = _connect(path, busy_timeout)
    with translation():
        db.execute("PRAGMA query_only = ON")
        db.execute(f"PRAGMA cache_size = -{cache_kb}")
    return db


def _make_private(path: Path) -> None:
    """Create the file for this user alone, if it is not there. SQLite gives its log and index the same mode.

    A file that is there must not be opened: closing it would end the locks that SQLite holds in this process
    (https://sqlite.org/howtocorrupt.html, 2.2), and other processes would take its log for left over.
    """
    with suppress(OSError):  # SQLite says what is wrong with a path
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    with translation():
        _make_private(path)
        return sqlite3.connect(
            path, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=512
        )
