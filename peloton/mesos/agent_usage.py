"""What the JSON of an agent's `/containers` says of the use of tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peloton.clock import NANOSECONDS
from peloton.errors import Unavailable
from peloton.model.ids import CUSTOM_EXECUTOR_PREFIX, MesosTaskId
from peloton.model.usage import Reading

PATH = "/containers"
_PROCESS = re.compile(r"slave\(\d{1,9}\)")
_MOST = 2**62
_MOST_SECONDS = _MOST / NANOSECONDS


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What a container uses; 0 where that is not told. `at` is in seconds since 1970."""

    at: float
    cpu_seconds: float
    cpu_limit: float
    throttled_seconds: float
    memory_bytes: int
    memory_peak_bytes: int
    memory_limit_bytes: int
    processes: int

    @property
    def reading(self) -> Reading:
        """Return what counts for the account of the run."""
        at, cpu = (round(min(each, _MOST_SECONDS) * NANOSECONDS) for each in (self.at, self.cpu_seconds))
        return Reading(at, cpu, min(self.memory_bytes, _MOST), min(self.memory_peak_bytes, _MOST))


def containers_path(pid: str) -> str:
    """Return where an agent tells what containers use: `slave(2)@10.0.0.7:5051` at `/slave(2)/containers`.

    libprocess serves the paths of each of its processes below the name. Several agents in one process, as the
    simulated ones are, differ in that only.
    """
    process = pid.partition("@")[0]
    return f"/{process}{PATH}" if _PROCESS.fullmatch(process) else PATH


def usages(listing: Any, address: str) -> Mapping[MesosTaskId, ContainerUsage]:
    """Return the use of each run on an agent. Raises Unavailable where the listing has an unknown form."""
    try:
        return {
            str(each["executor_id"]).removeprefix(CUSTOM_EXECUTOR_PREFIX): _usage(each["statistics"])
            for each in listing
            if "statistics" in each
        }
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise Unavailable(f"agent {address} lists containers of unknown form: {error!r}") from None


def _usage(told: Mapping[str, Any]) -> ContainerUsage:
    return ContainerUsage(
        at=_amount({"timestamp": told["timestamp"]}, "timestamp"),
        cpu_seconds=_amount(told, "cpus_user_time_secs") + _amount(told, "cpus_system_time_secs"),
        cpu_limit=_amount(told, "cpus_limit"),
        throttled_seconds=_amount(told, "cpus_throttled_time_secs"),
        memory_bytes=int(_amount(told, "mem_rss_bytes")),
        memory_peak_bytes=int(_amount(told, "mem_peak_bytes")),
        memory_limit_bytes=int(_amount(told, "mem_limit_bytes")),
        processes=int(_amount(told, "processes")),
    )


def _amount(told: Mapping[str, Any], name: str) -> float:
    value = float(told.get(name, 0))
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {value}")
    return value
