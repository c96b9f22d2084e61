"""Tables of resource pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.model.amounts import plain

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo

HEADS = (
    *("Pool", "CPU", "CPU Reserved", "CPU Limit", "Memory", "Memory Reserved", "Memory Limit"),
    *("GPU", "GPU Limit"),
)
WIDE = ("Disk", "Disk Reserved", "Disk Limit", "Policy", "Team", "ID")


def pool_table(pools: Iterable[ResourcePoolInfo]) -> Listing:
    """Return a table of pools in the order given; memory and disk are in MB."""
    return listing((*HEADS, *WIDE), [_row(pool) for pool in pools], wide=len(WIDE))


def _row(pool: ResourcePoolInfo) -> tuple[str, ...]:
    from peloton.api.v0.respool import respool_pb2

    config = pool.config
    used = {each.kind: each.allocation for each in pool.usage}
    reserved = {each.kind: each.reservation for each in config.resources}
    limits = {each.kind: each.limit for each in config.resources}
    return (
        pool.path.value,
        *_amounts("cpu", used, reserved, limits),
        *_amounts("memory", used, reserved, limits),
        *_amounts("gpu", used, limits),
        *_amounts("disk", used, reserved, limits),
        respool_pb2.SchedulingPolicy.Name(config.policy),
        config.owningTeam,
        pool.id.value,
    )


def _amounts(kind: str, *amounts: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(plain(each.get(kind, 0)) for each in amounts)
