"""Follows the pods of others on a cluster of Kubernetes: carries out what `jobmgr.core.foreign` decides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

from jobmgr.core.foreign.decide import NewJob, PodJob, PodTask, Stop, decide
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.drivers.retry import for_ever
from jobmgr.engine.engine import Engine
from jobmgr.ports.hostmgr import ForeignPods
from peloton.errors import AlreadyExists, PelotonError
from peloton.model.cluster import UNNAMED
from peloton.model.foreign_pod import ForeignPod, PodChanges, Told
from peloton.model.ids import JobId, PoolId
from peloton.model.pool import PoolConfig, pool_paths
from peloton.model.states import TaskState
from peloton.wire.foreign_pods import job_config_of
from peloton.wire.job import config_payload, job_spec

WAIT_SECONDS = 1.0
"""How long a call waits in hostmgr for a change while there are pods: why they wait changes meanwhile."""
IDLE_SECONDS = 20.0
"""While there are none."""
PAUSE_SECONDS = 0.2
"""Between two looks: changes that come in it are decided about together."""
TOLD_AGAIN_SECONDS = 5.0
"""Until an owner is told anew why his pod waits: each text is a call of the API server."""
CREATED_AT_ONCE = 32
_WAITING = frozenset({TaskState.UNKNOWN, TaskState.INITIALIZED, TaskState.PENDING})
log = logging.getLogger(__name__)


class PodFollower:
    """Keep a job for each pod, or gang of pods, that is to be bound."""

    def __init__(self, hostmgr: ForeignPods, engine: Engine, cluster: str = UNNAMED) -> None:
        """Follow the pods that the `hostmgr` of a cluster sees."""
        self._hostmgr = hostmgr
        self._engine = engine
        self._cluster = cluster
        self._stream, self._last = "", 0
        self._pods: dict[str, ForeignPod] = {}
        self._told: dict[tuple[str, str], tuple[Told, float]] = {}
        """What owners were told last, and when."""
        self._ended: set[JobId] = set()
        """Jobs that were created before, and are not active any more."""

    async def run(self) -> None:
        """Follow for ever."""
        await for_ever(f"pods of others {self._cluster}".rstrip(), self._step)

    async def _step(self) -> None:
        wait = WAIT_SECONDS if self._pods else IDLE_SECONDS
        changes = await self._hostmgr.pods(self._stream, self._last, wait)
        self._take(changes)
        if changes.enabled and self._engine.recovery.settled:
            await self._decide()
        await asyncio.sleep(PAUSE_SECONDS)

    def _take(self, changes: PodChanges) -> None:
        if changes.whole:
            self._pods.clear()
        for uid in changes.gone:
            self._pods.pop(uid, None)
        self._pods.update((pod.uid, pod) for pod in changes.pods)
        self._stream, self._last = changes.stream, changes.last
        self._told = {key: told for key, told in self._told.items() if key[0] in self._pods}

    async def _decide(self) -> None:
        pools = _leaves(await self._engine.store.pools.all())
        if not self._engine.recovery.settled:
            return  # shards have come meanwhile, whose jobs are not known yet
        # Of the same moment as the pods: shards that are given away have neither.
        jobs = list(self._jobs())
        self._ended -= {job.job_id for job in jobs}
        decisions = decide(self._own_pods(), jobs, pools, self._ended)
        for stop in decisions.stop:
            await self._stop(stop)
        for at in range(0, len(decisions.create), CREATED_AT_ONCE):
            await asyncio.gather(*map(self._create, decisions.create[at : at + CREATED_AT_ONCE]))
        now = self._engine.clock.monotonic()
        await self._tell([told for told in decisions.tell if self._is_news(told, now)], now)

    def _own_pods(self) -> dict[str, ForeignPod]:
        """Return the pods whose jobs this job manager owns."""
        shards = self._engine.shards
        if shards.whole:
            return self._pods
        return {uid: pod for uid, pod in self._pods.items() if shards.holds(pod.home)}

    def _is_news(self, told: Told, now: float) -> bool:
        before, at = self._told.get((told.uid, told.reason), (None, -TOLD_AGAIN_SECONDS))
        return told != before and now - at >= TOLD_AGAIN_SECONDS

    async def _tell(self, news: list[Told], now: float) -> None:
        if news:
            await self._hostmgr.tell_owners(news)
            self._told.update(((told.uid, told.reason), (told, now)) for told in news)

    def _jobs(self) -> Iterator[PodJob]:
        """Yield the active jobs of the pods of this cluster."""
        for job in self._engine.lanes.in_memory():
            first = job.spec.task(0).pod
            if first is None or first.cluster != self._cluster or job.runtime.state.terminal:
                continue
            if self._engine.shards.holds(job.job_id):
                tasks = tuple(_task(job, instance) for instance in range(job.spec.instance_count))
                yield PodJob(job.job_id, tasks, job.runtime.goal in ENDING_JOB_GOALS)

    async def _create(self, new: NewJob) -> None:
        """Create a job, unless an earlier leader has done so."""
        config = job_config_of(new.pods, new.pool, self._cluster, self._engine.clock.wall())
        try:
            spec = job_spec(config, 1, config_payload(config))
            await self._engine.create_job(new.job_id, spec)
        except AlreadyExists:
            self._ended.add(new.job_id)
        else:
            log.info("job %s stands for %s", new.job_id, ", ".join(pod.name for pod in new.pods[:3]))

    async def _stop(self, stop: Stop) -> None:
        try:
            if stop.instances is None:
                await self._engine.stop_run(stop.job_id, stop.by)
            else:
                await self._engine.stop(stop.job_id, stop.instances)
        except PelotonError as error:
            log.warning("job %s is not stopped yet: %s", stop.job_id, error)


def _task(job: CachedJob, instance: int) -> PodTask:
    pod, task = job.spec.task(instance).pod, job.task(instance)
    assert pod is not None, f"{job.job_id}: instance {instance} has no pod, and others have"
    waits = task is None or task.state in _WAITING
    return PodTask(pod.uid, waits, job.reason(instance) if waits else "")


def _leaves(pools: Sequence[PoolConfig]) -> dict[str, PoolId]:
    """Return the pools that take tasks, by their paths."""
    parents = {pool.parent for pool in pools}
    return {path: pool_id for pool_id, path in pool_paths(pools).items() if pool_id not in parents and path}
