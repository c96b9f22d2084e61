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
from peloton.private.hostmgr.reservations.reservations_pb2_grpc import ReservationServiceStub
from peloton.private.resmgr.placing.placing_pb2_grpc import PlacingServiceStub
from peloton.private.resmgr.planning.planning_pb2_grpc import PlanningServiceStub
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub
from placement.clients import HostmgrClaims, HostmgrReservations, ResmgrPlans, ResmgrQueue
from placement.config import PlacementSettings
from placement.core import batch, daemon, service
from placement.core.strategy import Strategy
from placement.engine import Engine
from placement.last_resort import LastResort
from placement.placing import Context
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
        queue = process.client(Role.RESMGR, ResourceManagerServiceStub)
        placing = process.client(Role.RESMGR, PlacingServiceStub)
        claims = HostmgrClaims(
            process.hostmgrs(InternalHostServiceStub),
            process.hostmgrs(FeasibilityServiceStub),
        )
        reservations = HostmgrReservations(process.hostmgrs(ReservationServiceStub))
        plans = process.client(Role.RESMGR, PlanningServiceStub)
        for type_ in settings.types:
            context = Context(
                strategy=strategy(type_, settings.longest),
                queue=ResmgrQueue(queue, placing, type_),
                claims=claims,
                clock=process.clock,
                slots=asyncio.Semaphore(FAMILIES_AT_ONCE),
                max_hosts=settings.max_hosts,
                patience=settings.patience,
                desired_host_patience=settings.desired_host_patience,
            )
            engine = Engine(
                context,
                settings.dequeue_limit,
                settings.dequeue_wait,
                settings.max_waiting,
                last_resort=LastResort(context, reservations),
            )
            process.spawn(f"{type_.name.lower()} engine", engine.run())
            planner = Planner(context, ResmgrPlans(plans, type_), claims, settings.dequeue_wait)
            process.spawn(f"{type_.name.lower()} plans", planner.run())
        yield

    process.work(working)


def main() -> int:
    """Run the daemon; return the exit code of the process."""
    return run(PlacementSettings, Role.PLACEMENT, build)


if __name__ == "__main__":
    sys.exit(main())
