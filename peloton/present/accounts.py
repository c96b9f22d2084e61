"""What jobs have held and used over time, in words: shared by command line and web."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.model.amounts import duration, percent, rounded, short
from peloton.model.mean_use import LATELY_SECONDS
from peloton.model.usage import PEAK_MEMORY, USED_CPU, USED_MEMORY

MB_PER_GB = 1024
_KINDS = (("cpu", USED_CPU, "core", 1), ("gpu", "", "GPU", 1), ("memory", USED_MEMORY, "GB", MB_PER_GB))
WORTH_A_HINT = 0.5
"""Below this part of what is asked for, the peak of memory is worth a hint."""
MINUTE_SECONDS = 60.0
IN_HOURS_SECONDS = 360.0
"""From this amount × seconds on, hours are told."""
LEAST_MB = 256
"""And from this difference on."""
LEAST_CORES = 0.5
"""The same of cores."""
LEAST_MEAN_SECONDS = 600.0
"""From which time on a mean of cores says something."""
LEAST_HELD = 1.0
"""Core, GPU or GB seconds that are held from which on percentages of them say something."""


def over_time(seconds: float, unit: str, beside: float = 0.0) -> str:
    """Return an amount × seconds as text: in hours where these, or those `beside` them, are not very few."""
    hours = max(seconds, beside) >= IN_HOURS_SECONDS
    amount, name = (seconds / 3600, "hours") if hours else (seconds, "seconds")
    return f"{short(amount)} {unit} {name}" if amount >= 0.01 else f"less than 0.01 {unit} {name}"


def held_and_used(usage: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return what was held over time, and used where that is known, by kind.

    Such as `2 core hours, used 1.5 core hours (75%)`. `usage` is the resource usage of a job or a task. Kinds
    of which nothing was held are left out.
    """
    found = []
    for kind, measured, unit, per in _KINDS:
        held = usage.get(kind, 0.0)
        if held:
            used = usage.get(measured)
            found.append(
                (kind, over_time(held / per, unit, (used or 0.0) / per) + _used(used, held, per, unit))
            )
    return found


def _used(used: float | None, held: float, per: float, unit: str) -> str:
    """Return what was used, with its part of what was held where that is enough to be divided by."""
    if used is None:
        return ""
    part = f" ({percent(used, held)})" if held / per >= LEAST_HELD else ""
    return f", used {over_time(used / per, unit, held / per)}{part}"


def peak_text(usage: Mapping[str, float]) -> str:
    """Return the most memory at a time, such as `600 MB`; empty where that is not known."""
    peak = usage.get(PEAK_MEMORY, 0.0)
    return rounded(peak, "memory") if peak else ""


def memory_hint(asked_mb: float, peak_mb: float) -> str:
    """Return `asks for 4 GB, peaked at 600 MB` where far more is asked for than was needed; else nothing."""
    if not peak_mb or peak_mb > asked_mb * WORTH_A_HINT or asked_mb - peak_mb < LEAST_MB:
        return ""
    return f"asks for {rounded(asked_mb, 'memory')}, peaked at {rounded(peak_mb, 'memory')}"


def cpu_hint(asked: float, mean: float, seconds: float) -> str:
    """Return `asks for 4 cores, used 0.3 in the mean of the last hour` where that is far less; else nothing.

    `seconds`: the time that the mean is of. A mean of 0 was not measured.
    """
    if not mean or mean > asked * WORTH_A_HINT or asked - mean < LEAST_CORES or seconds < LEAST_MEAN_SECONDS:
        return ""
    time = "hour" if seconds >= LATELY_SECONDS - MINUTE_SECONDS else duration(round(seconds, -1))
    return f"asks for {rounded(asked, 'cpu')}, used {_cores(mean)} in the mean of the last {time}"


def _cores(mean: float) -> str:
    return short(mean) if mean >= 0.01 else "less than 0.01"
