"""The labels of the system in what is launched."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.model.constraint import Label
from peloton.model.ids import PoolId
from peloton.model.job import JobSpec
from peloton.model.pool import PoolConfig, pool_path
from peloton.model.states import JobType
from peloton.model.system_labels import system_labels

log = logging.getLogger(__name__)


class SystemLabels:
    """The labels that the system gives to tasks, by the paths of their pools."""

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

    def of(self, spec: JobSpec) -> Sequence[Label]:
        """Return the labels of a task that is launched. Tasks of batch jobs get none."""
        if spec.type is JobType.BATCH:
            return ()
        return system_labels(spec, self._cluster, self._paths.get(spec.pool_id, ""))
