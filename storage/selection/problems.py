"""Whether the store answers quickly, and has room: what is told to people."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from peloton.clock import Clock
from peloton.model.amounts import duration, rounded
from peloton.model.problems import Problem
from peloton.model.usage import BYTES_PER_MB
from storage.config import CassandraSettings, SqliteSettings
from storage.interface import Store

Source = Callable[[], Awaitable[Iterable[Problem]]]
READS = 3
"""The quickest of them counts: one may wait for a moment's work of others."""
SLOW_SECONDS = 0.5
"""A read of the pools, of which there are a thousand at most, takes milliseconds."""
LITTLE_BYTES, LEAST_BYTES = 2 << 30, 200 << 20
"""Free space of the file system of SQLite's file below which it is told, as a warning and as what is bad."""


async def store_problems(
    store: Store, settings: SqliteSettings | CassandraSettings, monotonic: Callable[[], float]
) -> list[Problem]:
    """Return what is wrong with a store; it is read for that. Raises Unavailable where it cannot be.

    `monotonic` returns seconds.
    """
    times = list[float]()
    for _ in range(READS):
        began = monotonic()
        await store.pools.all()
        times.append(monotonic() - began)
        if times[-1] < SLOW_SECONDS:
            break
    found, quickest = list[Problem](), min(times)
    if quickest >= SLOW_SECONDS:
        remedy = "see the load of its disk, or of the nodes of Cassandra"
        text = f"The store is slow: each read of the pools takes {duration(quickest)} or more"
        found.append(Problem("warn", text, "", remedy))
    if isinstance(settings, SqliteSettings):
        found += await asyncio.to_thread(_space, settings.path)
    return found


def certificate_problems(settings: SqliteSettings | CassandraSettings, clock: Clock) -> Source:
    """Return what tells of certificates between the store and this daemon.

    Raises Refused where a file is not usable.
    """
    if isinstance(settings, SqliteSettings) or not settings.tls.enabled:
        return _nothing
    # Only for these, they are large.
    from peloton.rpc.expiry import ServerCertificates
    from storage.cassandra.access import tls_of

    places = [(point, settings.port) for point in settings.contact_points]
    context = tls_of(settings.tls).contexts
    return ServerCertificates("Cassandra", places, settings.tls, context, clock).problems


async def _nothing() -> list[Problem]:
    return []


def _space(path: Path) -> list[Problem]:
    """Return whether a file has little room to grow."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        return [Problem("warn", f"It is not known how much room {path} has: {error.strerror}")]
    if free >= LITTLE_BYTES:
        return []
    return [
        Problem(
            "bad" if free < LEAST_BYTES else "warn",
            f"The file system of the store {path} has {rounded(free / BYTES_PER_MB, 'disk')} left",
            "",
            "make room, or keep less: event_days and workflows_kept of jobmgr, age_days of the archiver",
        )
    ]
