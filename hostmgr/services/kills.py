"""Kills of many runs, as both services make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostmgr.core.claims.holds import HoldRequest
from hostmgr.core.cluster_manager.kills import CALLS_AT_ONCE
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from peloton.model.ids import MesosTaskId


async def kill(
    manager: HostManager,
    reconciliation: Reconciliation,
    runs: Sequence[MesosTaskId],
    maintenance: bool = False,
) -> None:
    """Kill runs, known here or not; for the `maintenance` of their hosts as soon as the cluster allows it.

    Raises Refused while kills are disabled, and Unavailable.
    """
    manager.core.kills.require_enabled()
    await reconciliation.locate(runs)
    for start in range(0, len(runs), CALLS_AT_ONCE):
        manager.kill(runs[start : start + CALLS_AT_ONCE], maintenance)
        await manager.room()


async def kill_and_hold(
    manager: HostManager,
    reconciliation: Reconciliation,
    runs: Mapping[MesosTaskId, HoldRequest],
    maintained: frozenset[MesosTaskId] = frozenset(),
) -> None:
    """Kill runs, and hold room of a host for the next run of the instance of each. Raises as `kill` does.

    `maintained`: those of them that are killed for the maintenance of their hosts.
    """
    manager.core.kills.require_enabled()
    await reconciliation.locate(list(runs))
    entries = list(runs.items())
    for start in range(0, len(entries), CALLS_AT_ONCE):
        manager.kill_and_hold(dict(entries[start : start + CALLS_AT_ONCE]), maintained)
        await manager.room()
