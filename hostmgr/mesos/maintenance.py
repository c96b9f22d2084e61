"""Mesos' maintenance schedule, read and changed through the operator API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hostmgr.core.agents.draining import Machine, MasterStatus
from hostmgr.mesos.host_names import HostNames
from mesos.v1 import mesos_pb2
from mesos.v1.maintenance import maintenance_pb2
from peloton.mesos.operator import Call, OperatorClient
from peloton.model.cluster import mesos_hostname


class MaintenanceCalls:
    """Calls about maintenance. They raise Unavailable, also where the master refuses one."""

    def __init__(
        self, client: OperatorClient, wall: Callable[[], int], hosts: HostNames | None = None
    ) -> None:
        """`wall` returns the time in nanoseconds since 1970; `hosts` names the machines' hosts."""
        self._client = client
        self._wall = wall
        self._hosts = hosts or HostNames("")

    async def status(self) -> MasterStatus:
        """Return the machines of the schedule."""
        status = await self._client.maintenance_status()
        return MasterStatus(
            tuple(self._machine(each.id) for each in status.draining_machines),
            tuple(map(self._machine, status.down_machines)),
        )

    async def change_schedule(self, add: Sequence[Machine], remove: Sequence[Machine]) -> None:
        """Add machines to the schedule, and remove others; all others stay as they are.

        Mesos replaces the schedule as a whole: a change by someone else between the two calls is lost.
        """
        schedule = self._without(await self._client.maintenance_schedule(), [*add, *remove])
        if add:
            window = schedule.windows.add(machine_ids=self._ids(add))
            window.unavailability.start.nanoseconds = self._wall()
        call = Call(type=Call.UPDATE_MAINTENANCE_SCHEDULE)
        call.update_maintenance_schedule.schedule.CopyFrom(schedule)
        await self._client.act(call)

    async def take_down(self, machines: Sequence[Machine]) -> None:
        """Make scheduled machines DOWN: their agents end and are refused until they are brought up."""
        call = Call(type=Call.START_MAINTENANCE)
        call.start_maintenance.machines.extend(self._ids(machines))
        await self._client.act(call)

    async def bring_up(self, machines: Sequence[Machine]) -> None:
        """End the maintenance of machines that are DOWN; they leave the schedule."""
        call = Call(type=Call.STOP_MAINTENANCE)
        call.stop_maintenance.machines.extend(self._ids(machines))
        await self._client.act(call)

    def _without(
        self, schedule: maintenance_pb2.Schedule, machines: Iterable[Machine]
    ) -> maintenance_pb2.Schedule:
        """Return a schedule without some machines, and without windows that become empty."""
        gone = {machine.key() for machine in machines}
        left = maintenance_pb2.Schedule()
        for window in schedule.windows:
            kept = [each for each in window.machine_ids if self._machine(each).key() not in gone]
            if kept:
                left.windows.add(machine_ids=kept, unavailability=window.unavailability)
        return left

    def _machine(self, wire: mesos_pb2.MachineID) -> Machine:
        return Machine(self._hosts.host(wire.hostname), wire.ip)

    def _ids(self, machines: Iterable[Machine]) -> list[mesos_pb2.MachineID]:
        """Return messages; an address that is not known is left out."""
        return [
            mesos_pb2.MachineID(hostname=mesos_hostname(each.hostname), ip=each.ip or None)
            for each in machines
        ]
