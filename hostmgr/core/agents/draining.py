"""Maintenance of hosts: which calls the master needs, and when a host is drained (docs/behaviour/hosts.md).

The store's records decide. The master follows: its schedule lists the hosts in maintenance, and those that
are DOWN are down there. Machines of its schedule without a record belong to another operator and are left
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hostmgr.core.state.states import LIFE, LifeCause
from peloton.model.amounts import amount_of
from peloton.model.host import HostInfo
from peloton.model.plural import plural
from peloton.model.resources import KINDS, MILLI, Resources
from peloton.model.states import HostState


class Machine(NamedTuple):
    """A host as the master's maintenance schedule names it."""

    hostname: str
    ip: str

    def key(self) -> tuple[str, str]:
        """Return what identifies it: Mesos compares hostnames without case."""
        return self.hostname.lower(), self.ip


@dataclass(frozen=True, slots=True)
class MasterStatus:
    """The machines of the master's maintenance schedule."""

    draining: tuple[Machine, ...] = ()
    """Scheduled, and not down."""
    down: tuple[Machine, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls to make, and changes of records that the master's status confirms."""

    schedule: tuple[Machine, ...] = ()
    """To add to the schedule."""
    unschedule: tuple[Machine, ...] = ()
    """To remove from it."""
    take_down: tuple[Machine, ...] = ()
    bring_up: tuple[Machine, ...] = ()
    confirmed: tuple[tuple[str, LifeCause], ...] = ()
    """Hosts, with what happened to them."""

    def __bool__(self) -> bool:
        return bool(self.schedule or self.unschedule or self.take_down or self.bring_up or self.confirmed)


def machine_of(record: HostInfo) -> Machine:
    """Return the machine of a host."""
    return Machine(record.hostname, record.ip)


class _Where:
    """The place of a machine in the master's status."""

    def __init__(self, status: MasterStatus) -> None:
        self._draining = {machine.key() for machine in status.draining}
        self._down = {machine.key() for machine in status.down}

    def state(self, machine: Machine) -> HostState:
        """Return DRAINING for one that is scheduled, DOWN for one that is down, else UP."""
        key = machine.key()
        if key in self._down:
            return HostState.DOWN
        return HostState.DRAINING if key in self._draining else HostState.UP


_SCHEDULE, _UNSCHEDULE, _TAKE_DOWN, _BRING_UP = "schedule", "unschedule", "take_down", "bring_up"
_S = HostState
_STEPS: Mapping[tuple[HostState, HostState, HostState], str | LifeCause | None] = {
    # Record's state and goal, and the machine's state in the master.
    (_S.DRAINING, _S.DOWN, _S.UP): _SCHEDULE,
    (_S.DRAINING, _S.DOWN, _S.DRAINING): None,
    (_S.DRAINING, _S.DOWN, _S.DOWN): None,
    (_S.DRAINED, _S.DOWN, _S.UP): _SCHEDULE,
    (_S.DRAINED, _S.DOWN, _S.DRAINING): _TAKE_DOWN,
    (_S.DRAINED, _S.DOWN, _S.DOWN): LifeCause.TAKE_DOWN,
    (_S.DOWN, _S.DOWN, _S.UP): _SCHEDULE,
    (_S.DOWN, _S.DOWN, _S.DRAINING): _TAKE_DOWN,
    (_S.DOWN, _S.DOWN, _S.DOWN): None,
    (_S.DOWN, _S.UP, _S.DOWN): _BRING_UP,
    (_S.DOWN, _S.UP, _S.DRAINING): _UNSCHEDULE,
    (_S.DOWN, _S.UP, _S.UP): LifeCause.COMPLETE_MAINTENANCE,
}
"""The next step for each host in maintenance: a call, or what the master confirms."""


def plan(records: Iterable[HostInfo], status: MasterStatus) -> Plan:
    """Return what brings the master to the records, and the records to what the master has done."""
    where = _Where(status)
    calls: dict[str, list[Machine]] = {_SCHEDULE: [], _UNSCHEDULE: [], _TAKE_DOWN: [], _BRING_UP: []}
    confirmed: list[tuple[str, LifeCause]] = []
    for record in records:
        machine = machine_of(record)
        step = _STEPS.get((record.state, record.goal, where.state(machine)))
        if isinstance(step, LifeCause):
            confirmed.append((record.hostname, step))
        elif step is not None:
            calls[step].append(machine)
    return Plan(
        tuple(calls[_SCHEDULE]),
        tuple(calls[_UNSCHEDULE]),
        tuple(calls[_TAKE_DOWN]),
        tuple(calls[_BRING_UP]),
        tuple(confirmed),
    )


def allows(record: HostInfo, cause: LifeCause) -> bool:
    """Return whether this may happen to a host in its present state."""
    return LIFE.allows(record.state, cause)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What is known to be on a draining host."""

    runs: int
    """Runs that are not known to have ended."""
    allocated: Resources
    """Resources that the master has allocated to our role there."""
    allocated_slack_cpu: int
    known: bool
    """Whether the map of agents is as new as the connection, and shows the host or that it is gone."""


def occupied(occupancy: Occupancy) -> str:
    """Return what is left on a draining host, for a message; empty where it is drained."""
    if occupancy.runs:
        return f"{plural(occupancy.runs, 'task is', 'tasks are')} left"
    if not occupancy.known:
        return "Mesos has not told yet what runs there"
    amounts = [
        amount_of(amount / MILLI, kind)
        for kind, amount in zip(KINDS, occupancy.allocated.values(), strict=True)
        if amount
    ]
    if occupancy.allocated_slack_cpu:
        amounts.append(amount_of(occupancy.allocated_slack_cpu / MILLI, "revocable cpu"))
    return f"Mesos has {', '.join(amounts)} allocated there" if amounts else ""
