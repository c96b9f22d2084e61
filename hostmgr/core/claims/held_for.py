"""For whom room of hosts is held, as it is told to others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hostmgr.core.claims.holds import Hold
from peloton.model.ids import JobId
from peloton.model.workflow import ranges_of

SHOWN_RANGES = 20
"""Ranges of instances in one text."""


@dataclass(frozen=True, slots=True)
class HeldFor:
    """The holds for the instances of one job."""

    job_id: JobId
    instances: str
    """Such as `0-29, 31`."""
    hosts: int
    until: float
    """When the last of them ends by itself, in seconds on the monotonic clock."""


def held_for(holds: Iterable[Hold]) -> list[HeldFor]:
    """Return holds by job, those of most instances first."""
    by_job: dict[JobId, list[tuple[int, Hold]]] = {}
    for hold in holds:
        job_id, _, instance = hold.task_id.rpartition("-")
        if instance.isascii() and instance.isdigit():
            by_job.setdefault(job_id, []).append((int(instance), hold))
    found = sorted(by_job.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        HeldFor(
            job_id,
            _text(instance for instance, _ in held),
            len({hold.hostname for _, hold in held}),
            max(hold.until for _, hold in held),
        )
        for job_id, held in found
    ]


def _text(instances: Iterable[int]) -> str:
    ranges = ranges_of(instances)
    shown = [
        str(each.first) if each.end == each.first + 1 else f"{each.first}-{each.end - 1}"
        for each in ranges[:SHOWN_RANGES]
    ]
    return ", ".join([*shown, *(["…"] if len(ranges) > SHOWN_RANGES else [])])
