"""The private PlacingService: failed placements with typed reasons."""

from __future__ import annotations

import asyncio
from typing import Any

from peloton.private.resmgr.placing import placing_pb2 as pb
from peloton.private.resmgr.placing import placing_pb2_grpc
from peloton.rpc.server import caller
from resmgr.drivers.loop import Driver
from resmgr.wire.tasks import reserved_from, unplaced_from

_AT_ONCE = 100
"""Hosts whose tasks are counted before other work runs."""


class PlacingService(placing_pb2_grpc.PlacingServiceServicer):
    """Take back gangs, follow those that wait for reserved hosts, and tell which tasks are on hosts."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GiveBack(self, request: pb.GiveBackRequest, context: Any) -> pb.GiveBackResponse:
        """Take back gangs that failed. Raises Fenced for a leader whose successor has called."""
        driver, who = self._driver, caller(context)
        holder = driver.scheduler.leases.touch(who.instance, driver.now(), who.term)
        driver.scheduler.propose(holder, (), [unplaced_from(wire) for wire in request.gangs], driver.now())
        driver.wake()
        return pb.GiveBackResponse()

    async def GetLabelsOnHosts(
        self, request: pb.GetLabelsOnHostsRequest, context: Any
    ) -> pb.GetLabelsOnHostsResponse:
        """Return the labels of the tasks on hosts, once the tasks have been read from the store."""
        await self._driver.restored.wait()
        registry, answer = self._driver.scheduler.registry, pb.GetLabelsOnHostsResponse()
        for number, host in enumerate(request.hostnames, 1):
            found = registry.labels_on_host(host)
            if found:
                labels = (pb.LabelCount(key=key, value=value, count=n) for (key, value), n in found.items())
                answer.hosts.add(hostname=host, labels=labels)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return answer

    async def ReportReservations(
        self, request: pb.ReportReservationsRequest, context: Any
    ) -> pb.ReportReservationsResponse:
        """Note why gangs wait that have hosts reserved; return which of them are gone. Raises Fenced."""
        driver, who = self._driver, caller(context)
        now = driver.now()
        holder = driver.scheduler.leases.touch(who.instance, now, who.term)
        kept = [driver.scheduler.reserve(holder, reserved_from(wire), now) for wire in request.gangs]
        driver.wake()
        return pb.ReportReservationsResponse(gone=[i for i, each in enumerate(kept) if not each])
