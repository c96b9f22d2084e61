"""What a task uses by the account of its control groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

MICROSECONDS = 1_000_000
NANOSECONDS = 1_000_000_000
Read = Callable[[str], str | None]
"""Returns what is in a control file, None where there is none."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group has used, or uses; None where that is not known. Memory is in bytes, time in seconds."""

    memory: int | None = None
    memory_peak: int | None = None
    memory_limit: int | None = None
    anonymous: int | None = None
    """Memory that is no file's."""
    cached: int | None = None
    """Memory of files."""
    user_seconds: float | None = None
    system_seconds: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None
    processes: int | None = None
    """Processes and threads, as `pids.current` counts them."""


def usage_of(read: Read, version: int) -> Usage:
    """Return the usage that the control files tell of."""
    return _usage_1(read) if version == 1 else _usage_2(read)


def _usage_1(read: Read) -> Usage:
    stat, cpu = _pairs(read("memory.stat")), _pairs(read("cpu.stat"))
    user, system = (_number(read(f"cpuacct.usage_{kind}")) for kind in ("user", "sys"))
    throttled = cpu.get("throttled_time")
    return Usage(
        memory=_number(read("memory.usage_in_bytes")),
        memory_peak=_number(read("memory.max_usage_in_bytes")),
        memory_limit=_number(read("memory.limit_in_bytes")),
        anonymous=stat.get("total_rss", stat.get("rss")),
        cached=stat.get("total_cache", stat.get("cache")),
        user_seconds=_part(user, NANOSECONDS),
        system_seconds=_part(system, NANOSECONDS),
        periods=cpu.get("nr_periods"),
        throttled_periods=cpu.get("nr_throttled"),
        throttled_seconds=_part(throttled, NANOSECONDS),
        processes=_number(read("pids.current")),
    )


def _usage_2(read: Read) -> Usage:
    stat, cpu = _pairs(read("memory.stat")), _pairs(read("cpu.stat"))
    return Usage(
        memory=_number(read("memory.current")),
        memory_peak=_number(read("memory.peak")),
        memory_limit=_number(read("memory.max")),
        anonymous=stat.get("anon"),
        cached=stat.get("file"),
        user_seconds=_part(cpu.get("user_usec"), MICROSECONDS),
        system_seconds=_part(cpu.get("system_usec"), MICROSECONDS),
        periods=cpu.get("nr_periods"),
        throttled_periods=cpu.get("nr_throttled"),
        throttled_seconds=_part(cpu.get("throttled_usec"), MICROSECONDS),
        processes=_number(read("pids.current")),
    )


def _number(text: str | None) -> int | None:
    """Return a number; None for `max`, which is no limit."""
    text = (text or "").strip()
    return int(text) if text.isdecimal() else None


def _part(number: int | None, whole: int) -> float | None:
    return None if number is None else number / whole


def _pairs(text: str | None) -> Mapping[str, int]:
    fields = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in fields if len(pair) == 2 and pair[1].isdecimal()}
