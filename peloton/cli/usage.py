"""What the running instances of a job use: `job usage` and `top tasks`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.model.amounts import plain
from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.private.jobmgr.usage.usage_pb2 import GetUsageResponse, InstanceUsage

HEADS = (
    *("Instance", "Host", "Cores", "Cores Limit", "CPU Seconds"),
    *("Memory MB", "Peak MB", "Limit MB", "Processes"),
)
WIDE = ("Throttled Seconds", "Run")
BYTES_PER_MB = 1024 * 1024
Rates = Mapping[str, float]
"""Cores in use, by the Mesos task id of the run."""


def read_usage(session: Session, job_id: str, instances: Iterable[int] = ()) -> GetUsageResponse:
    """Return what running instances of a job use. Raises CallFailed."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.private.jobmgr.usage import usage_pb2

    job = peloton_pb2.JobID(value=job_id)
    request = usage_pb2.GetUsageRequest(job_id=job, instances=instances)
    return session.call(RPCS.usage_svc.GetUsage, request)


def usage_listing(usages: Iterable[InstanceUsage], rates: Rates | None = None) -> Listing:
    """Return a table; without `rates`, cores are the mean since the start of the run."""
    rows = [_row(each, each.cpu_mean if rates is None else rates[each.run]) for each in usages]
    return listing((*HEADS, *WIDE), rows, wide=len(WIDE))


def _row(usage: InstanceUsage, cores: float) -> tuple[object, ...]:
    memory = (usage.memory_bytes, usage.memory_peak_bytes, usage.memory_limit_bytes)
    return (
        usage.instance,
        usage.host,
        f"{cores:.2f}",
        plain(usage.cpu_limit),
        f"{usage.cpu_seconds:.1f}",
        *(f"{count / BYTES_PER_MB:.1f}" if count else "" for count in memory),
        usage.processes,
        f"{usage.throttled_seconds:.1f}",
        usage.run,
    )


def left_out(answer: GetUsageResponse) -> list[str]:
    """Return, a line each, what the answer does not have."""
    lines = [f"{each.host}: {each.reason}" for each in answer.unread]
    missing = answer.running - len(answer.usages)
    if missing:
        lines.append(f"{plural(missing, 'running instance')} without figures")
    return lines


class CpuRates:
    """The cores that runs use between two reads; of those that are new, the mean since their start."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def take(self, usages: Iterable[InstanceUsage], now: float | None = None) -> Rates:
        """Return the rates since the last time. `now`: seconds of a monotonic clock."""
        at = time.monotonic() if now is None else now
        rates, held = {}, {}
        for each in usages:
            then, seconds = self._before.get(each.run, (at, 0.0))
            used = each.cpu_seconds - seconds
            rates[each.run] = max(used, 0.0) / (at - then) if at > then else each.cpu_mean
            held[each.run] = at, each.cpu_seconds
        self._before = held
        return rates
