"""The labels of the system in what is launched."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.api.v0.task import task_pb2
from peloton.model.ids import PoolId
from peloton.model.job import JobSpec
from peloton.model.pool import PoolConfig, pool_path
from peloton.model.states import JobType
from peloton.model.system_labels import SYSTEM_PREFIX, system_labels
from peloton.wire.constraint import labels_to

log = logging.getLogger(__name__)


class SystemLabels:
    """Puts the labels of the system in place of what users give under its prefix."""

    def __init__(self, pools: Callable[[], Awaitable[Sequence[PoolConfig]]], cluster: str = "") -> None:
        self._pools = pools
        self._cluster = cluster
        self._paths: dict[PoolId, str] = {}
        """Paths of pools in which services were launched, as they were at the first launch."""

    async def learn(self, specs: Iterable[JobSpec]) -> None:
        """Read the paths of the pools of services that are not known; repeat until the store answers."""
        missing = {spec.pool_id for spec in specs if spec.type is not JobType.BATCH} - self._paths.keys()
        delays = backoff()
        while missing:
            try:
                pools = await self._pools()
                self._paths.update({pool_id: pool_path(pool_id, pools) for pool_id in missing})
                return
            except TRANSIENT as error:
                log.warning("cannot read pools for the labels of tasks, will try again: %s", error)
            await delays.wait()

    def put(self, config: task_pb2.TaskConfig, spec: JobSpec) -> None:
        """Replace the labels of a config that is launched. Tasks of batch jobs get none."""
        if any(label.key.startswith(SYSTEM_PREFIX) for label in config.labels):
            kept = [label for label in config.labels if not label.key.startswith(SYSTEM_PREFIX)]
            del config.labels[:]
            config.labels.extend(kept)
        if spec.type is not JobType.BATCH:
            path = self._paths.get(spec.pool_id, "")
            config.labels.extend(labels_to(system_labels(spec, self._cluster, path)))
