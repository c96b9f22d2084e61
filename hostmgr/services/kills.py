"""Kills of many runs, as both services make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostmgr.drivers.manager import CALLS_AT_ONCE, HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from peloton.errors import Refused
from peloton.model.ids import MesosTaskId, TaskId

KILLS_DISABLED = "killing tasks is disabled; a restart of hostmgr enables it"


async def kill(manager: HostManager, reconciliation: Reconciliation, runs: Sequence[MesosTaskId]) -> None:
    """Kill runs, known here or not. Raises Refused while kills are disabled, and Unavailable."""
    _require_kills(manager)
    await reconciliation.locate(runs)
    for start in range(0, len(runs), CALLS_AT_ONCE):
        manager.kill(runs[start : start + CALLS_AT_ONCE])
        await manager.room()


async def kill_and_hold(
    manager: HostManager,
    reconciliation: Reconciliation,
    runs: Mapping[MesosTaskId, tuple[TaskId, str]],
) -> None:
    """Kill runs, and hold a host for the next run of the instance of each. Raises as `kill` does."""
    _require_kills(manager)
    await reconciliation.locate(list(runs))
    entries = list(runs.items())
    for start in range(0, len(entries), CALLS_AT_ONCE):
        manager.kill_and_hold(dict(entries[start : start + CALLS_AT_ONCE]))
        await manager.room()


def _require_kills(manager: HostManager) -> None:
    if manager.kills_disabled:
        raise Refused(KILLS_DISABLED)
