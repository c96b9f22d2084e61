"""Why a gang waits for the hosts that are reserved for it, for users."""

from __future__ import annotations

import math
from dataclasses import dataclass

from peloton.model.amounts import duration
from peloton.model.plural import plural

_MINUTE, _HOUR = 60.0, 3600.0
_UNKNOWN = "is not known, because tasks there have no maxRunningTime"


@dataclass(frozen=True, slots=True)
class Reserved:
    """How far the reservation of hosts for a gang is. Times are in seconds from now; None: not known."""

    hosts: int = 0
    """Hosts that are reserved."""
    free: int = 0
    """How many of them have room for their part of the gang."""
    hostnames: tuple[str, ...] = ()
    """The names of the first few."""
    start: float | None = None
    """When the gang is expected to start."""
    next: float | None = None
    """When the next host is expected to have room."""
    ahead: int = 0
    """Older reservations, where no host is reserved."""


def describe(reserved: Reserved, tasks: int) -> str:
    """Describe how far the reservation for a gang of `tasks` is."""
    if not reserved.hosts:
        return _in_line(reserved.ahead)
    if reserved.hosts == 1:
        name = f"host {reserved.hostnames[0]} is reserved for it"
        if reserved.start is None:
            return f"{name}; when it has room {_UNKNOWN}"
        return f"{name} and has room {_when(reserved.start)}"
    hosts = plural(reserved.hosts, "host")
    has = "has" if reserved.free == 1 else "have"
    parts = [f"{reserved.free} of the {hosts} reserved for its {plural(tasks, 'task')} {has} room"]
    if reserved.next is None:
        parts.append(f"when the next one has {_UNKNOWN}")
    else:
        parts.append(f"the next one has {_when(reserved.next)}")
    if reserved.start is not None and reserved.hosts - reserved.free > 1:
        parts.append(f"all have {_when(reserved.start)}")
    return "; ".join(parts)


def _in_line(ahead: int) -> str:
    if not ahead:
        return "no hosts can be reserved for it at the moment: those that fit are not in service"
    others = "another gang has" if ahead == 1 else f"{ahead} other gangs have"
    return f"waits until hosts can be reserved for it: {others} waited longer"


def _when(seconds: float) -> str:
    """Return how soon, rounded up so that the text seldom changes."""
    if seconds <= _MINUTE:
        return "in less than a minute"
    if seconds <= 2 * _HOUR:
        return f"in about {duration(math.ceil(seconds / _MINUTE) * _MINUTE)}"
    return f"in about {duration(math.ceil(seconds / _HOUR) * _HOUR)}"
