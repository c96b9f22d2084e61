"""Main program of the placement engine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from peloton.daemon.lifecycle import Daemon, run
from peloton.membership.interface import Role
from peloton.model.states import TaskType
from placement.clients import HostmgrClient, ResmgrClient
from placement.config import PlacementSettings
from placement.core import batch, daemon, service
from placement.core.giving_up import Rules
from placement.core.rounds import Rounds
from placement.core.strategy import Strategy
from placement.engine import Engine
from placement.planning import Planner

FAMILIES_AT_ONCE = 16
"""Families that are placed at a time."""


def strategy(type_: TaskType, longest: float) -> Strategy:
    """Return the strategy for a task type. `longest`: seconds that a gang is tried; 0: the type's own."""
    if type_ is TaskType.BATCH:
        return batch.Batch(longest=longest or batch.LONGEST)
    if type_ is TaskType.DAEMON:
        return daemon.OnePerHost(longest=longest or daemon.LONGEST)
    return service.Service(type_, longest or service.LONGEST)


def build(process: Daemon[PlacementSettings]) -> None:
    """Set up an engine for each task type in a daemon. They share its connections."""
    settings = process.settings

    @asynccontextmanager
    async def working() -> AsyncIterator[None]:
        caller, hostmgr = process.client(Role.RESMGR), HostmgrClient(process.hostmgrs())
        for type_ in settings.types:
            resmgr = ResmgrClient(caller, type_, settings.use_host_pools)
            rules = Rules(
                strategy(type_, settings.longest),
                settings.max_hosts,
                settings.patience,
                settings.desired_host_patience,
            )
            engine = Engine(
                Rounds(rules, settings.dequeue_limit, settings.max_waiting),
                resmgr,
                hostmgr,
                process.clock,
                asyncio.Semaphore(FAMILIES_AT_ONCE),
                settings.dequeue_wait,
            )
            process.spawn(f"{type_.name.lower()} engine", engine.run())
            planner = Planner(rules, resmgr, hostmgr, process.clock, settings.dequeue_wait)
            process.spawn(f"{type_.name.lower()} plans", planner.run())
        yield

    process.work(working)


def main() -> int:
    """Run the daemon; return the exit code of the process."""
    return run(PlacementSettings, Role.PLACEMENT, build)


if __name__ == "__main__":
    sys.exit(main())
