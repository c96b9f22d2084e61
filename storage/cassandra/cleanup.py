"""Cleanup by a new leader after interrupted creations and deletions."""

from __future__ import annotations

import logging

from peloton.errors import PelotonError
from storage.cassandra.configs import Configs
from storage.cassandra.jobs import CassandraJobs
from storage.cassandra.session import Session

KEPT_MICROSECONDS = 14 * 24 * 3600 * 1_000_000
"""Age at which bodies that no config names are dropped, microseconds. A conditional write whose outcome is
unknown may take effect as long as Cassandra remembers it: gc_grace_seconds of the jobs' table, 10 days."""
log = logging.getLogger(__name__)


class Cleanup:
    """Finish interrupted deletions, and drop the bodies of configs of interrupted creations."""

    def __init__(self, session: Session, jobs: CassandraJobs, configs: Configs) -> None:
        self._session = session
        self._jobs = jobs
        self._configs = configs

    async def run(self) -> None:
        """Clean up, within the term of a leader. A failure leaves it to the next leader."""
        try:
            finished = await self._jobs.finish_deletions()
            dropped = await self._configs.sweep(self._session.timestamp() - KEPT_MICROSECONDS)
        except PelotonError as error:
            log.warning("cleanup failed, the next leader repeats it: %s", error)
            return
        if finished or dropped:
            log.info("%d deletions finished, %d unused bodies of configs dropped", finished, dropped)
