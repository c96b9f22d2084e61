"""Instance ranges of requests, which are half-open (docs/behaviour/jobs.md)."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.errors import InvalidArgument

WireRange = task_pb2.InstanceRange | pod_pb2.InstanceIDRange
"""A range as either API has it."""

OPEN_END = 2**31 - 1
"""From here on `to` means the last instance: command lines send it for a range such as `5:`."""


class OutOfRange(InvalidArgument):
    """A range names instances that the job does not have."""

    def __init__(self, wire: WireRange, count: int) -> None:
        self.count = count
        super().__init__(
            "range",
            f"{_begin(wire)}:{'' if wire.to >= OPEN_END else wire.to}",
            f"within the job's instances, 0 to {count - 1}",
        )


def chosen(ranges: Iterable[WireRange], count: int) -> list[int] | None:
    """Return the instances of ranges in a job of `count`, in order; None for all of them.

    No range at all stands for all instances. Raises OutOfRange.
    """
    named: set[int] = set()
    some = False
    for each in ranges:
        some = True
        first, end = bounds(each, count, strict=True)
        named.update(range(first, end))
    if not some or len(named) == count:
        return None
    return sorted(named)


def bounds(wire: WireRange, count: int, strict: bool = False) -> tuple[int, int]:
    """Return the first instance and the end of a range, clipped to the job.

    Raises OutOfRange where it begins behind the last instance, or, if `strict`, ends behind it.
    """
    first = _begin(wire)
    if first >= count or (strict and count < wire.to < OPEN_END):
        raise OutOfRange(wire, count)
    return first, max(first, min(wire.to, count))


def _begin(wire: WireRange) -> int:
    """Return the field `from`, which is a keyword of Python."""
    return int(getattr(wire, "from"))
