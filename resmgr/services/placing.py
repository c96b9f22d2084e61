"""The private PlacingService: failed placements with typed reasons."""

from __future__ import annotations

from typing import Any

from peloton.private.resmgr.placing import placing_pb2 as pb
from peloton.private.resmgr.placing import placing_pb2_grpc
from peloton.rpc.server import caller
from resmgr.drivers.loop import Driver
from resmgr.wire.tasks import unplaced_from


class PlacingService(placing_pb2_grpc.PlacingServiceServicer):
    """Take back gangs that an engine could not place."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GiveBack(self, request: pb.GiveBackRequest, context: Any) -> pb.GiveBackResponse:
        """Take back gangs that failed. Raises Fenced for a leader whose successor has called."""
        driver, who = self._driver, caller(context)
        holder = driver.scheduler.leases.touch(who.instance, driver.now(), who.term)
        driver.scheduler.propose(holder, (), [unplaced_from(wire) for wire in request.gangs], driver.now())
        driver.wake()
        return pb.GiveBackResponse()
