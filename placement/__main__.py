"""Main program of the placement engine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from peloton.daemon.lifecycle import Daemon, run
from peloton.membership.interface import Role
from placement.clients import HostmgrClient, ResmgrClient
from placement.config import PlacementSettings
from placement.core.rounds import Rounds
from placement.engine import Engine
from placement.planning import Planner

FAMILIES_AT_ONCE = 16
"""Families that are placed at a time."""


def build(process: Daemon[PlacementSettings]) -> None:
    """Set up an engine for each task type in a daemon. They share its connections."""
    settings = process.settings

    @asynccontextmanager
    async def working() -> AsyncIterator[None]:
        caller, hostmgr = process.client(Role.RESMGR), HostmgrClient(process.hostmgrs())
        for type_ in settings.types:
            resmgr = ResmgrClient(caller, type_, settings.use_host_pools)
            rules = settings.rules(type_)
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
