"""Warnings about specs that are taken."""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.engine.engine import Engine
from peloton.model.job import JobSpec
from peloton.model.limits import over_limits
from peloton.model.pool import PoolConfig
from peloton.model.spans import spans
from peloton.offload import run_by_size
from peloton.wire.payload import job_config
from peloton.wire.validation.notes import MOST, image_notes, notes


class SpecWarnings:
    """Tells what of a spec will hardly work as meant, in this cluster."""

    def __init__(self, engine: Engine, images: bool) -> None:
        """Warn of images where the agents run none."""
        self._engine = engine
        self._images = images

    async def v0(self, spec: JobSpec, pools: Sequence[PoolConfig] | None = None) -> list[str]:
        """Return the warnings about a job, with the paths of the v0 API.

        `pools` are those of the store, for a caller who has just read them.
        """
        return await self._of(spec, pools, v1alpha=False)

    async def v1alpha(self, spec: JobSpec) -> list[str]:
        """Return the warnings about a job, with the paths of the v1alpha API."""
        return await self._of(spec, None, v1alpha=True)

    async def _of(self, spec: JobSpec, given: Sequence[PoolConfig] | None, v1alpha: bool) -> list[str]:
        pools = await self._engine.store.pools.all() if given is None else given

        def found() -> list[str]:
            config = job_config(spec.payload)
            odd = [*notes(config), *(() if self._images else image_notes(config))]
            texts = [str(each.v1alpha if v1alpha else each) for each in odd]
            return texts + [_waits(each.instances, each.text) for each in over_limits(spec, pools)[:MOST]]

        return await run_by_size(len(spec.payload.data), found)


def _waits(instances: Sequence[int], text: str) -> str:
    one = len(instances) == 1
    who = f"{'instance' if one else 'instances'} {spans(instances)} {'waits' if one else 'wait'}"
    return f"{who} until the limit is raised or the spec asks for less: {text}"
