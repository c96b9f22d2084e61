"""HoldService, and holds as other services show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostmgr.core.claims.held_for import HeldFor, held_for
from hostmgr.core.claims.holds import Hold, HoldRequest, Holds
from hostmgr.core.state.offers import Free
from hostmgr.drivers.manager import HostManager
from peloton.clock import NANOSECONDS, Clock, rfc3339
from peloton.errors import InvalidArgument
from peloton.model.plural import plural
from peloton.model.resources import Resources
from peloton.private.hostmgr.holds import holds_pb2 as pb
from peloton.private.hostmgr.holds import holds_pb2_grpc
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.rpc.claimed import divided, shards, task_refusal
from peloton.wire.holds import room_from, room_to
from peloton.wire.host_list import Held

MAX_HOLDS = 100_000
SHOWN_JOBS = 3
"""Jobs that the answer of a claim names for which hosts are held."""
TEXTS_SECONDS = 1.0


class HoldService(holds_pb2_grpc.HoldServiceServicer):
    """Serve the holds there are, and their renewal."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager

    async def ListHolds(self, request: pb.ListHoldsRequest, context: Any) -> pb.ListHoldsResponse:
        """Return all holds, or those on the hosts named."""
        now, holds = self._manager.clock.monotonic(), self._manager.hosts.holds
        holds.expire(now)
        names = dict.fromkeys(request.hostnames)
        found = [hold for name in names for hold in holds.on(name)] if names else holds
        return pb.ListHoldsResponse(holds=[_hold_to(each, now) for each in found])

    async def RenewHolds(self, request: pb.RenewHoldsRequest, context: Any) -> pb.RenewHoldsResponse:
        """Let holds last as long as new ones, with other amounts; those that have ended stay ended.

        Those for jobs that are not the caller's stay as they are. Raises InvalidArgument, changing nothing.
        """
        if len(request.holds) > MAX_HOLDS:
            raise InvalidArgument("holds", f"{len(request.holds)} holds", f"at most {MAX_HOLDS} holds")
        rooms = [_room(each, f"holds[{i}].room") for i, each in enumerate(request.holds)]
        now, holds = self._manager.clock.monotonic(), self._manager.hosts.holds
        holds.expire(now)
        mine = shards(context)
        own, _ = divided(
            mine,
            list(zip(request.holds, rooms, strict=True)),
            lambda hold: task_refusal(mine, hold[0].task_id),
        )
        for each, room in own:
            holds.renew(each.hostname, each.task_id, now, room)
        return pb.RenewHoldsResponse()


def hold_from(entry: hostsvc_pb2.KillAndReserveTasksRequest.Entry, position: int) -> HoldRequest:
    """Return what an entry asks for. Raises InvalidArgument for invalid amounts."""
    path = f"entries[{position}]"
    freed = _free(*room_from(entry.freed, f"{path}.freed"))
    return HoldRequest(entry.id.value, entry.hostToReserve, _room(entry, f"{path}.room"), freed)


def _room(wire: Any, path: str) -> Free | None:
    """Return the room of a message; None where it has none."""
    return _free(*room_from(wire.room, path)) if wire.HasField("room") else None


def _free(resources: Resources, revocable: bool, ports: int) -> Free:
    if not revocable:
        return Free(resources, 0, ports)
    return Free(Resources(0, resources.memory, resources.disk, resources.gpu), resources.cpu, ports)


def _hold_to(hold: Hold, now: float) -> pb.Hold:
    wire = pb.Hold(task_id=hold.task_id, hostname=hold.hostname, seconds=max(0.0, hold.until - now))
    if (room := hold.room) is not None:
        revocable = bool(room.slack_cpu)
        amounts = room.normal + Resources(cpu=room.slack_cpu)
        wire.room.CopyFrom(room_to(amounts, revocable, room.ports))
    return wire


class HeldTexts:
    """Says for whom hosts are held that are passed over: the jobs with the most holds."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager
        self._texts: Sequence[str] = ()
        self._until = 0.0

    def now(self) -> Sequence[str]:
        """Return a text for each job, made anew once in TEXTS_SECONDS: there may be very many holds."""
        clock = self._manager.clock
        now = clock.monotonic()
        if now >= self._until or not self._texts:
            found = held_for(self._manager.hosts.holds)[:SHOWN_JOBS]
            self._texts = [_text(clock, each) for each in found]
            self._until = now + TEXTS_SECONDS
        return self._texts


def _text(clock: Clock, each: HeldFor) -> str:
    hosts = plural(each.hosts, "host")
    return f"{hosts} held for {_whom(each)} until {_time(clock, each.until)}"


def _whom(each: HeldFor) -> str:
    one = each.instances.isdigit()
    return f"{'instance' if one else 'instances'} {each.instances} of {each.job_id}"


def _time(clock: Clock, monotonic: float) -> str:
    """Return a time on the monotonic clock in UTC, to the second."""
    return f"{rfc3339(_wall(clock, monotonic))[:19]}Z"


def _wall(clock: Clock, monotonic: float) -> int:
    return clock.wall() + round((monotonic - clock.monotonic()) * NANOSECONDS)


def held_rooms(holds: Holds, clock: Clock, hostname: str) -> tuple[Held, ...]:
    """Return for whom room of a host is held: job, instances, until when; nothing for most hosts."""
    if not holds.is_held(hostname):
        return ()
    found = held_for(holds.on(hostname))
    return tuple((each.job_id, each.instances, _time(clock, each.until)) for each in found)
