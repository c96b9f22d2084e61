"""Destroys deleted volumes on their hosts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from jobmgr.ports.hostmgr import Volumes
from peloton.clock import Clock
from peloton.errors import NotFound, PelotonError
from peloton.model.cluster import UNNAMED, cluster_of
from peloton.model.ids import JobId
from peloton.model.volume import Volume, VolumeId, VolumeState
from storage.interface import Store

RETRY_SECONDS = 2.0
UNSEEN_SECONDS = 30.0
"""Time after which a volume that hostmgr does not see on a host is believed not to be there: hostmgr reads
Mesos' map of agents each 10 s."""
VOLUMES_AT_ONCE = 100
log = logging.getLogger(__name__)


class VolumeDestroyer:
    """Carries out DestroyVolume, again until the volume is gone. Begins with what is stored as deleted.

    A volume on a host that is not there stays deleted, and is destroyed when the host comes back.
    """

    def __init__(
        self,
        hostmgr: Volumes,
        store: Store,
        clock: Clock,
        retry_seconds: float = RETRY_SECONDS,
        cluster: str = UNNAMED,
        holds: Callable[[JobId], bool] = lambda job_id: True,
    ) -> None:
        """Destroy the volumes of this host manager's Mesos cluster, of jobs that this instance `holds`."""
        self._holds = holds
        self._hostmgr = hostmgr
        self._store = store
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._cluster = cluster
        self._waiting: dict[VolumeId, Volume] = {}
        self._sent: set[VolumeId] = set()
        """Volumes that Mesos was asked to destroy."""
        self._unseen: dict[VolumeId, float] = {}
        """When hostmgr first did not see a volume on its host, by the monotonic clock."""
        self._problems: dict[VolumeId, str] = {}

    async def run(self, queue: Queue[Volume]) -> None:
        """Destroy volumes, first those that are stored as deleted; run for ever."""
        await self._read()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._retry_seconds if self._waiting else None):
                    taken = await queue.take(VOLUMES_AT_ONCE)
                    self._waiting.update((each.id, each) for each in taken)
            for volume in list(self._waiting.values()):
                if self._holds(volume.job_id):
                    await self._try(volume)
                else:
                    self._forget(volume)

    async def _read(self) -> None:
        delays = backoff()
        while True:
            try:
                stored = await self._store.volumes.all()
                break
            except TRANSIENT as error:
                log.warning("cannot read volumes, will try again: %s", error)
            await delays.wait()
        own = (each for each in stored if cluster_of(each.hostname) == self._cluster)
        self._waiting.update((each.id, each) for each in own if each.to_destroy and self._holds(each.job_id))

    async def _try(self, volume: Volume) -> None:
        try:
            if not await self._destroyed(volume):
                return
            done = replace(volume, state=VolumeState.DELETED, updated_at=self._clock.wall())
            await self._store.volumes.write(done)
        except PelotonError as error:
            self._note(volume, str(error))
            return
        self._forget(volume)
        log.info("volume %s on %s is destroyed", volume.id, volume.hostname)

    def _forget(self, volume: Volume) -> None:
        del self._waiting[volume.id]
        self._sent.discard(volume.id)
        self._unseen.pop(volume.id, None)
        self._problems.pop(volume.id, None)

    async def _destroyed(self, volume: Volume) -> bool:
        """Have a volume destroyed; return whether it is gone. Raises PelotonError where nobody can tell."""
        try:
            await self._hostmgr.destroy_volume(volume.id)
        except NotFound:
            return await self._is_unseen(volume)
        self._sent.add(volume.id)
        return False

    async def _is_unseen(self, volume: Volume) -> bool:
        """Return whether a volume that hostmgr does not know is gone, and not only its host."""
        if not await self._hostmgr.is_host_known(volume.hostname):
            self._note(volume, f"host {volume.hostname} is not there")
            return False
        since = self._unseen.setdefault(volume.id, self._clock.monotonic())
        return volume.id in self._sent or self._clock.monotonic() - since >= UNSEEN_SECONDS

    def _note(self, volume: Volume, problem: str) -> None:
        """Log why a volume is not destroyed yet, once."""
        if self._problems.get(volume.id) != problem:
            log.warning("volume %s is not destroyed yet: %s", volume.id, problem)
        self._problems[volume.id] = problem
