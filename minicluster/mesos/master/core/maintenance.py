"""The maintenance schedule: machines that will be unavailable or are down (recording ``11-maintenance``)."""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.allocator import allocator_pb2 as allocation
from mesos.v1.maintenance import maintenance_pb2 as maintenance
from minicluster.mesos.master.core.agents import take_down
from minicluster.mesos.master.core.allocator import allocate
from minicluster.mesos.master.core.state import Agent, Machine, Master
from peloton.mesos.json import encode

Key = tuple[str, str]
_Status = allocation.InverseOfferStatus


def _key(machine: mesos.MachineID) -> Key:
    return machine.hostname, machine.ip


def _name(machine: mesos.MachineID) -> str:
    return encode(machine).decode()


def _machines_error(machines: Iterable[mesos.MachineID]) -> str | None:
    seen: set[Key] = set()
    for machine in machines:
        if not machine.hostname and not machine.ip:
            return "Both 'hostname' and 'ip' for a machine are empty"
        if _key(machine) in seen:
            return f"Machine '{_name(machine)}' appears more than once in the schedule"
        seen.add(_key(machine))
    return None


def _schedule_error(cluster: Master, schedule: maintenance.Schedule) -> str | None:
    for window in schedule.windows:
        if not window.machine_ids:
            return "List of machines in the maintenance window is empty"
        if window.unavailability.duration.nanoseconds < 0:
            return "Unavailability 'duration' is negative"
    listed = [machine for window in schedule.windows for machine in window.machine_ids]
    error = _machines_error(listed)
    if error is not None:
        return error
    kept = {_key(machine) for machine in listed}
    for key, machine in cluster.machines.items():
        if machine.down and key not in kept:
            return f"Machine '{_name(machine.id)}' is deactivated and cannot be removed from the schedule"
    return None


def update_schedule(cluster: Master, schedule: maintenance.Schedule, now: float) -> str | None:
    """Replace the schedule; return why it is refused, or None.

    All offers and inverse offers are rescinded, also those of agents that are not in it, and new ones are
    made.
    """
    error = _schedule_error(cluster, schedule)
    if error is not None:
        return error
    down = {key for key, machine in cluster.machines.items() if machine.down}
    cluster.machines = {
        _key(machine): Machine(machine, window.unavailability, _key(machine) in down)
        for window in schedule.windows
        for machine in window.machine_ids
    }
    _apply(cluster, schedule)
    for offer in list(cluster.offers.values()):
        cluster.rescind(offer)
    for inverse in list(cluster.inverse_offers.values()):
        cluster.rescind_inverse(inverse)
    for framework in cluster.frameworks.values():
        framework.inverse_filters.clear()
    allocate(cluster, now)
    return None


def _apply(cluster: Master, schedule: maintenance.Schedule) -> None:
    cluster.schedule = schedule.SerializeToString()
    cluster.registry_changed = True
    for agent in cluster.agents.values():
        machine = cluster.machines.get((agent.hostname, agent.ip))
        agent.unavailability = machine.unavailability if machine is not None else None


def start(cluster: Master, machines: list[mesos.MachineID], now: float) -> str | None:
    """Bring machines down: their agents are removed and end; return why not, or None."""
    if not machines:
        return "List of machines is empty"
    error = _machines_error(machines)
    if error is not None:
        return error
    for machine in machines:
        known = cluster.machines.get(_key(machine))
        if known is None or known.down:
            return f"Machine '{_name(machine)}' is not in DRAINING mode and cannot be brought down"
    for machine in machines:
        cluster.machines[_key(machine)].down = True
        for agent in _agents_on(cluster, _key(machine)):
            take_down(cluster, agent, now)
    cluster.registry_changed = True
    return None


def _agents_on(cluster: Master, key: Key) -> list[Agent]:
    return [agent for agent in cluster.agents.values() if (agent.hostname, agent.ip) == key]


def stop(cluster: Master, machines: list[mesos.MachineID]) -> str | None:
    """Bring machines up again; they leave the schedule. Return why not, or None."""
    if not machines:
        return "List of machines is empty"
    for machine in machines:
        known = cluster.machines.get(_key(machine))
        if known is None or not known.down:
            return f"Machine '{_name(machine)}' is not in DOWN mode and cannot be brought up"
    back = {_key(machine) for machine in machines}
    for key in back:
        cluster.machines.pop(key, None)
    schedule = maintenance.Schedule()
    for window in get_schedule(cluster).windows:
        left = [machine for machine in window.machine_ids if _key(machine) not in back]
        if left:
            schedule.windows.add(machine_ids=left, unavailability=window.unavailability)
    _apply(cluster, schedule)
    return None


def get_schedule(cluster: Master) -> maintenance.Schedule:
    """Return the schedule as it was given."""
    return maintenance.Schedule.FromString(cluster.schedule)


def get_status(cluster: Master) -> maintenance.ClusterStatus:
    """Return which machines drain, with each framework's last answer, and which are down."""
    out = maintenance.ClusterStatus()
    for machine in cluster.machines.values():
        if machine.down:
            out.down_machines.add().CopyFrom(machine.id)
            continue
        draining = out.draining_machines.add(id=machine.id)
        for framework_id, (accepted, when) in machine.answers.items():
            answer = draining.statuses.add(status=_Status.ACCEPT if accepted else _Status.DECLINE)
            answer.framework_id.value = framework_id
            answer.timestamp.nanoseconds = int(when * 1e9)
    return out


def restore(cluster: Master, schedule: bytes, down: list[Key]) -> None:
    """Start with the schedule of an earlier master."""
    cluster.schedule = schedule
    barred = set(down)
    for window in get_schedule(cluster).windows:
        for machine in window.machine_ids:
            key = _key(machine)
            cluster.machines[key] = Machine(machine, window.unavailability, key in barred)
