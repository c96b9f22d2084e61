"""The archiver's process: `python -m archiver -c FILE`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from archiver.archive import Archiver, keep_archiving
from archiver.config import ArchiverSettings
from archiver.jobs import JobmgrJobs
from archiver.sink import FileSink, Sink, StreamSink
from peloton.daemon.lifecycle import Daemon, run
from peloton.membership.interface import Role
from storage.selection.factory import Stores


def sink(settings: ArchiverSettings) -> Sink:
    """Return where archived jobs go."""
    return StreamSink(sys.stdout.buffer) if settings.archive is None else FileSink(settings.archive)


def build(daemon: Daemon[ArchiverSettings]) -> None:
    """Compose the archiver: it works while it leads."""
    settings, stores = daemon.settings, Stores(daemon.settings.storage)

    @asynccontextmanager
    async def leading(term: int) -> AsyncIterator[None]:
        store = await stores.open()
        try:
            jobs = JobmgrJobs(daemon.client(Role.JOBMGR))
            archiver = Archiver(store, jobs, sink(settings), daemon.clock, settings.age, daemon.fence)
            daemon.spawn("archiver", keep_archiving(archiver, settings.interval))
            yield
        finally:
            await store.close()

    daemon.checks.append(stores.trouble)
    daemon.lead(leading, standby=lambda: stores.standby(daemon.spawn))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the archiver; return its exit status."""
    return run(ArchiverSettings, Role.ARCHIVER, build, argv)


if __name__ == "__main__":
    sys.exit(main())
