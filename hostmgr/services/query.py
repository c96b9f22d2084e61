"""Queries about hosts: their free resources, and the runs on hosts of a state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hostmgr.drivers.manager import HostManager
from peloton.errors import InvalidArgument
from peloton.model.ids import MesosTaskId
from peloton.model.resources import Resources
from peloton.model.states import HostState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.waking import until_tick
from peloton.wire.hosts import resources_to
from peloton.wire.ids import run_id
from peloton.wire.task import resources_from

MAX_WAIT_MILLISECONDS = 60_000
LOOK_SECONDS = 1.0
"""How often a waiting call looks again, where no host changes its state."""
_STATES = frozenset(HostState) - {HostState.INVALID}


def hosts_by_query(manager: HostManager, request: pb.GetHostsByQueryRequest) -> pb.GetHostsByQueryResponse:
    """Return hosts by their free resources.

    For each kind with an amount above 0, at least that amount must be free, or less with cmpLess.
    """
    table, wanted = manager.hosts.table, set(request.hostnames)
    requested = resources_from(request.resource)
    answer = pb.GetHostsByQueryResponse()
    rows = [row for name in wanted for row in table.rows_of(name)] if wanted else table.rows()
    for row in sorted(rows, key=lambda row: table.hostnames[row]):
        free = table.free(row)
        slack_cpu = free.slack_cpu if request.includeRevocable else 0
        if _matches(free.normal + Resources(cpu=slack_cpu), requested, request.cmpLess):
            answer.hosts.add(
                hostname=table.hostnames[row],
                resources=resources_to(free.normal, slack_cpu),
                status=table.claim(row).name.lower(),
                tasks=[run_id(run) for run in manager.runs.on(table.agent_ids[row])],
            )
    return answer


async def runs_by_host_state(
    manager: HostManager, state: int, limit: int, milliseconds: int
) -> list[MesosTaskId]:
    """Return the runs on hosts of a state, as soon as there are any; none after `milliseconds`.

    `limit`: how many at most, 0 for all. Raises InvalidArgument.
    """
    if state not in _STATES:
        known = ", ".join(f"HOST_STATE_{each.name} ({each:d})" for each in sorted(_STATES))
        raise InvalidArgument("host_state", state, f"one of {known}")
    if milliseconds > MAX_WAIT_MILLISECONDS:
        raise InvalidArgument("timeout", milliseconds, f"at most {MAX_WAIT_MILLISECONDS} milliseconds")
    end = manager.clock.monotonic() + milliseconds / 1000
    while True:
        runs = list(islice(_runs_on(manager, HostState(state)), limit or None))
        left = end - manager.clock.monotonic()
        if runs or left <= 0:
            return runs
        await manager.host_states.wait(min(until_tick(LOOK_SECONDS), left))


def _runs_on(manager: HostManager, state: HostState) -> Iterator[MesosTaskId]:
    table = manager.hosts.table
    for row in table.rows_in(state):
        yield from manager.runs.on(table.agent_ids[row])


def _matches(free: Resources, requested: Resources, less: bool) -> bool:
    pairs = [pair for pair in zip(free.values(), requested.values(), strict=True) if pair[1] > 0]
    return all(amount < bound if less else amount >= bound for amount, bound in pairs)
