"""From a task's resources to the values of control files, of cgroups of version 1 and of version 2.

Sources: the kernel's documentation of cgroups; shares and period are those of Mesos' cgroups isolator,
weights those that container runtimes derive from shares.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

MIN_MEMORY_BYTES = 32 * 1024 * 1024
"""Mesos' floor, in bytes: no task is held to less."""
SHARES_PER_CPU = 1024
MIN_SHARES, MAX_SHARES = 2, 1 << 18
"""The bounds of the kernel."""
MAX_WEIGHT = 10_000
PERIOD_MICROSECONDS = 100_000
MIN_QUOTA_MICROSECONDS = 1_000
MILLI = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task is held to; 0: no limit.

    ``memory`` is in bytes, ``cpus`` in thousandths. ``ceiling``: the CPUs are the most that it gets, not only
    its share where they are scarce. ``pids``: processes and threads at a time.
    """

    memory: int = 0
    cpus: int = 0
    ceiling: bool = False
    pids: int = 0


@dataclass(frozen=True, slots=True)
class ControlValue:
    """A value for a control file. ``required``: the limit is none without it."""

    file: str
    value: str
    required: bool = True


def control_values(limits: Limits, controllers: Collection[str], version: int) -> tuple[ControlValue, ...]:
    """Return what to write, in order, into a group with these controllers."""
    of = _VERSION_1 if version == 1 else _VERSION_2
    return tuple(value for name in of if name in controllers for value in of[name](limits))


def shares(cpus: int) -> int:
    """Return the shares of thousandths of a CPU."""
    return min(max(cpus * SHARES_PER_CPU // MILLI, MIN_SHARES), MAX_SHARES)


def weight(cpus: int) -> int:
    """Return the weight of thousandths of a CPU: 1 to 10,000, as shares are from 2 to 262,144."""
    return 1 + (shares(cpus) - MIN_SHARES) * (MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def quota(cpus: int) -> int:
    """Return the microseconds of CPU time that thousandths of a CPU are in a period."""
    return max(cpus * PERIOD_MICROSECONDS // MILLI, MIN_QUOTA_MICROSECONDS)


def held_memory(size: int) -> int:
    """Return to how many bytes a task is held that asks for some; 0 where it asks for none."""
    return max(size, MIN_MEMORY_BYTES) if size > 0 else 0


def _memory_1(limits: Limits) -> tuple[ControlValue, ...]:
    if not limits.memory:
        return ()
    size = str(limits.memory)
    return (
        ControlValue("memory.limit_in_bytes", size),
        ControlValue(
            "memory.memsw.limit_in_bytes", size, required=False
        ),  # not there without swap accounting
    )


def _memory_2(limits: Limits) -> tuple[ControlValue, ...]:
    if not limits.memory:
        return ()
    return (
        ControlValue("memory.max", str(limits.memory)),
        ControlValue("memory.swap.max", "0", required=False),
    )


def _cpu_1(limits: Limits) -> tuple[ControlValue, ...]:
    if not limits.cpus:
        return ()
    share = ControlValue("cpu.shares", str(shares(limits.cpus)))
    if not limits.ceiling:
        return (share,)
    period = ControlValue("cpu.cfs_period_us", str(PERIOD_MICROSECONDS))
    return share, period, ControlValue("cpu.cfs_quota_us", str(quota(limits.cpus)))


def _cpu_2(limits: Limits) -> tuple[ControlValue, ...]:
    if not limits.cpus:
        return ()
    share = ControlValue("cpu.weight", str(weight(limits.cpus)))
    if not limits.ceiling:
        return (share,)
    return share, ControlValue("cpu.max", f"{quota(limits.cpus)} {PERIOD_MICROSECONDS}")


def _pids(limits: Limits) -> tuple[ControlValue, ...]:
    return (ControlValue("pids.max", str(limits.pids)),) if limits.pids else ()


_VERSION_1 = {"memory": _memory_1, "cpu": _cpu_1, "pids": _pids}
_VERSION_2 = {"memory": _memory_2, "cpu": _cpu_2, "pids": _pids}
