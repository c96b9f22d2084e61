"""What pools hold, are entitled to, want and use, a row for each kind of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.cli.pool_rows import held
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError
from peloton.model.amounts import plain
from peloton.model.resources import KINDS

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo
    from peloton.cli.session import Session
    from peloton.private.resmgr.monitoring.monitoring_pb2 import Pool

HEADS = ("Pool", "Kind", "Held", "Entitled", "Demand", "Reserved", "Limit", "Waiting")
ALWAYS = ("cpu", "memory")
"""Kinds that are shown though no pool has anything of them."""
UNKNOWN = "?"
Cells = Callable[[str, str], str]
"""Returns the cell of a further column, for the path of a pool and a kind."""


def read_figures(session: Session) -> Mapping[str, Pool]:
    """Return what the resource manager knows of all pools, by ids. Raises CallFailed."""
    from peloton.private.resmgr.monitoring import monitoring_pb2

    answer = session.call(RPCS.monitoring_svc.ListPools, monitoring_pb2.ListPoolsRequest())
    return {pool.id: pool for pool in answer.pools}


def figures_or_none(session: Session) -> Mapping[str, Pool] | None:
    """Return what `read_figures` returns; None where the caller may not read it."""
    try:
        return read_figures(session)
    except PelotonError:
        return None


def amounts_listing(
    pools: Sequence[ResourcePoolInfo],
    figures: Mapping[str, Pool] | None,
    further: Mapping[str, Cells] | None = None,
) -> Listing:
    """Return the amounts of pools in the order given; memory and disk are in MB.

    `figures` has what only the resource manager tells, by ids of pools; what it lacks is shown as `?`.
    `further` has the columns behind, by their heads.
    """
    known, more = figures or {}, further or {}
    rows = [
        (
            *_row(pool, known.get(pool.id.value), kind),
            *(cells(pool.path.value, kind) for cells in more.values()),
        )
        for pool in pools
        for kind in _kinds(pools, known.values())
    ]
    return listing((*HEADS, *more), rows)


def _kinds(pools: Iterable[ResourcePoolInfo], figures: Iterable[Pool]) -> list[str]:
    """Return the kinds that a pool holds, wants, is entitled to or has reserved, and those shown always."""
    found = set(ALWAYS)
    for pool in pools:
        found.update(kind for kind, amount in held(pool).items() if amount)
        found.update(each.kind for each in pool.config.resources if each.reservation)
    for figure in figures:
        amounts = (figure.demand, figure.entitlement)
        found.update(kind for kind in KINDS if any(getattr(each, kind) for each in amounts))
    return [kind for kind in KINDS if kind in found]


def _row(pool: ResourcePoolInfo, figure: Pool | None, kind: str) -> tuple[str, ...]:
    config = next((each for each in pool.config.resources if each.kind == kind), None)
    entitled, demand, waiting = UNKNOWN, UNKNOWN, UNKNOWN
    if figure is not None:
        entitled, demand = plain(getattr(figure.entitlement, kind)), plain(getattr(figure.demand, kind))
        waiting = str(figure.waiting)
    return (
        pool.path.value,
        kind,
        plain(held(pool).get(kind, 0.0)),
        entitled,
        demand,
        plain(config.reservation) if config is not None else "",
        plain(config.limit) if config is not None else "",
        # Gangs wait with all that they ask for: they are counted once.
        waiting if kind == KINDS[0] else "",
    )
