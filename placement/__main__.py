"""Main program of the placement engine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from peloton.daemon.lifecycle import Daemon, run
from peloton.membership.interface import Role
from peloton.model.states import TaskType
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import FeasibilityServiceStub
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub
from peloton.private.resmgr.placing.placing_pb2_grpc import PlacingServiceStub
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub
from placement.clients import HostmgrClaims, ResmgrQueue
from placement.config import PlacementSettings
from placement.core import batch, service
from placement.core.strategy import Strategy
from placement.engine import Engine
from placement.placing import Context

FAMILIES_AT_ONCE = 16
"""Families that are placed at a time."""


def strategy(settings: PlacementSettings) -> Strategy:
    """Return the strategy for the task type of the engine."""
    if settings.type is TaskType.BATCH:
        return batch.Batch(longest=settings.longest or batch.LONGEST)
    return service.Service(settings.type, settings.longest or service.LONGEST)


def build(daemon: Daemon[PlacementSettings]) -> None:
    """Set up the engine in a daemon."""
    settings = daemon.settings

    @asynccontextmanager
    async def working() -> AsyncIterator[None]:
        context = Context(
            strategy=strategy(settings),
            queue=ResmgrQueue(
                daemon.client(Role.RESMGR, ResourceManagerServiceStub),
                daemon.client(Role.RESMGR, PlacingServiceStub),
                settings.type,
            ),
            claims=HostmgrClaims(
                daemon.client(Role.HOSTMGR, InternalHostServiceStub),
                daemon.client(Role.HOSTMGR, FeasibilityServiceStub),
            ),
            clock=daemon.clock,
            slots=asyncio.Semaphore(FAMILIES_AT_ONCE),
            max_hosts=settings.max_hosts,
            patience=settings.patience,
            desired_host_patience=settings.desired_host_patience,
        )
        engine = Engine(context, settings.dequeue_limit, settings.dequeue_wait, settings.max_waiting)
        daemon.spawn("engine", engine.run())
        yield

    daemon.work(working)


def main() -> int:
    """Run the daemon; return the exit code of the process."""
    return run(PlacementSettings, Role.PLACEMENT, build)


if __name__ == "__main__":
    sys.exit(main())
