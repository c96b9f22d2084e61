"""Hosts as the planner of reservations sees them."""

from __future__ import annotations

from dataclasses import replace

from hostmgr.core.claims.holds import beside
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.reservations.plan import NOTHING, HostView, Running, unused
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.runs.run_info import Vector
from hostmgr.core.state.offers import Free
from hostmgr.core.state.states import ClaimState
from peloton.model.resources import Resources

OVERDUE_SECONDS = 5.0
"""A task that is past its expected end is expected to end so much later."""
MANY_PORTS = 1 << 30
"""Ports are not planned for: how many a host has in all is not known."""


class Views:
    """The views of hosts at one moment, each made once: all reservations compare the same hosts.

    Void once anything of the hosts but their reservations has changed.
    """

    def __init__(self, hosts: Hosts, runs: Runs, now: float) -> None:
        self._hosts = hosts
        self._runs = runs
        self._now = now
        self._known: dict[str, HostView] = {}

    def of(self, agent_id: str, reservation: str) -> HostView:
        """Return a host, which is known, as it is for the gang of a reservation."""
        view = self._known.get(agent_id)
        if view is None:
            view = self._known[agent_id] = self._view(agent_id)
        return replace(view, held=True) if self._hosts.reserved.holder(agent_id) == reservation else view

    def _view(self, agent_id: str) -> HostView:
        """Return a host as it is for a gang that it is not reserved for."""
        hosts, table, row = self._hosts, self._hosts.table, self._hosts.table.row(agent_id)
        assert row is not None
        hostname = table.hostnames[row]
        holds = hosts.holds.on(hostname)
        free = beside(table.free(row), hosts.holds.kept(hostname)) if holds else table.free(row)
        total, slack = table.total(row)
        offered = _of(free)
        whole = _largest(_amounts(total, slack, MANY_PORTS), offered)
        tasks, known = self._runs.count(agent_id), self._runs.infos_on(agent_id)
        spare = _amounts(free.normal, free.slack_cpu, MANY_PORTS)
        if len(known) == tasks and not holds:
            spare = _largest(spare, unused(whole, [info.amounts for info in known]))
        ends = [
            Running(info.amounts, _not_over(info.end, self._now)) for info in known if info.end is not None
        ]
        unknown = tasks - len(ends)
        ends += [Running(_of(hold.kept), hold.until) for hold in holds]
        claim = hosts.claims.on(agent_id)
        if claim is not None and claim.ends_by is not None:
            ends.append(Running(spare, claim.ends_by))
            spare = NOTHING
        elif table.claim(row) is ClaimState.PLACING or hosts.holds.is_closed(hostname):
            unknown, spare = unknown + 1, NOTHING
        ends.sort(key=lambda task: task.end)
        return HostView(agent_id, whole, offered, spare, tuple(ends), unknown, tasks)


def _amounts(normal: Resources, slack_cpu: int, ports: int) -> Vector:
    cpu, memory, disk, gpu = normal.values()
    return cpu, memory, disk, gpu, slack_cpu, ports


def _of(room: Free) -> Vector:
    return _amounts(room.normal, room.slack_cpu, room.ports)


def _largest(one: Vector, other: Vector) -> Vector:
    a, b, c, d, e, f = map(max, one, other)
    return a, b, c, d, e, f


def _not_over(end: float, now: float) -> float:
    return end if end > now else now + OVERDUE_SECONDS
