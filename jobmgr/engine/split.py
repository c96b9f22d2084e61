"""Split events that name runs of several jobs: into one event per lane, and by the jobs of an instance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, TypeVar

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import (
    Compared,
    Draining,
    Event,
    Launched,
    LaunchRefused,
    LaunchUncertain,
    PendingReasons,
    Placed,
    Placement,
    Preempted,
    ResmgrChanged,
    Sampled,
    SecretMissing,
    Statuses,
)
from jobmgr.core.state.ports import ports_needed, shares
from peloton.model.ids import JobId, Run

LaneOf = Callable[[JobId], int]
Jobs = Callable[[JobId], CachedJob | None]
T = TypeVar("T")
E = TypeVar("E")


def split(event: Event, lanes: int, lane_of: LaneOf, jobs: Jobs) -> Mapping[int, Event]:
    """Return each lane's part of an event, in the order of the event."""
    match event:
        case Statuses():
            statuses = _by_lane(event.statuses, lambda each: lane_of(each[0].job_id))
            return {lane: Statuses(part, event.cluster) for lane, part in statuses.items()}
        case PendingReasons():
            deltas = _by_lane(event.deltas, lambda each: lane_of(each[0].job_id))
            return {lane: PendingReasons(part) for lane, part in deltas.items()}
        case Sampled():
            readings = _by_lane(event.readings, lambda each: lane_of(each[0].job_id))
            return {lane: Sampled(part) for lane, part in readings.items()}
        case Preempted():
            preempted = _by_lane(event.runs, lambda each: lane_of(each[0].job_id))
            return {lane: Preempted(part) for lane, part in preempted.items()}
        case Draining() | Launched() | LaunchRefused() | LaunchUncertain() | SecretMissing():
            runs = _by_lane(event.runs, lambda run: lane_of(run.job_id))
            return {lane: replace(event, runs=part) for lane, part in runs.items()}
        case Placed():
            placements: defaultdict[int, list[Placement]] = defaultdict(list)
            for placement in event.placements:
                for lane, part in split_placement(placement, lane_of, jobs).items():
                    placements[lane].append(part)
            return {lane: Placed(part) for lane, part in placements.items()}
        case ResmgrChanged():
            return dict.fromkeys(range(lanes), event)
        case _:
            return {lane_of(event.job_id): event}


Concerned = Callable[[JobId], bool]


def part_of(event: Event, takes: Concerned, holds: Concerned, jobs: Jobs) -> Event | None:
    """Return the part of an event that an instance takes; None where there is none.

    What others report, at any time, counts for jobs that it `takes`; what was asked for, and the ends of what
    was begun, for those that it `holds`. A placement without runs is kept: its claim is to be released.
    """
    match event:
        case Statuses():
            return _of(event, "statuses", [each for each in event.statuses if takes(each[0].job_id)])
        case PendingReasons():
            return _of(event, "deltas", [each for each in event.deltas if takes(each[0].job_id)])
        case Sampled():
            return _of(event, "readings", [each for each in event.readings if takes(each[0].job_id)])
        case Preempted():
            return _of(event, "runs", [each for each in event.runs if takes(each[0].job_id)])
        case Draining():
            return _of(event, "runs", [run for run in event.runs if takes(run.job_id)])
        case Launched() | LaunchRefused() | LaunchUncertain() | SecretMissing():
            return _of(event, "runs", [run for run in event.runs if holds(run.job_id)])
        case Placed():
            parts = [
                split_placement(each, lambda job_id: 0 if takes(job_id) else 1, jobs).get(0)
                for each in event.placements
            ]
            return _of(event, "placements", [part for part in parts if part is not None])
        case ResmgrChanged() | Compared():  # the core counts the answers to its comparisons
            return event
        case _:
            return event if holds(event.job_id) else None


def _of(event: E, items: str, kept: list[Any]) -> E | None:
    """Return an event with some of its items, None where it has none of those that it had."""
    had = getattr(event, items)
    if len(kept) == len(had) and all(map(is_, kept, had)):
        return event
    if not kept:
        return None
    cut: Any = event
    changed: E = replace(cut, **{items: type(had)(kept)})
    return changed


def split_placement(placement: Placement, lane_of: LaneOf, jobs: Jobs) -> Mapping[int, Placement]:
    """Return each lane's runs of one host, with their ports.

    A placement without runs goes to the first lane, which releases its claim.
    """
    if not placement.runs:
        return {0: placement}
    lanes = {lane_of(run.job_id) for run in placement.runs}
    if len(lanes) == 1:
        return {lanes.pop(): placement}
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    ports: defaultdict[int, list[int]] = defaultdict(list)
    for run, share in zip(placement.runs, _shares(placement, jobs), strict=True):
        lane = lane_of(run.job_id)
        runs[lane].append(run)
        ports[lane] += share
    return {
        lane: replace(placement, runs=tuple(part), ports=tuple(ports[lane])) for lane, part in runs.items()
    }


def _shares(placement: Placement, jobs: Jobs) -> Iterable[Sequence[int]]:
    """Return each run's ports out of the flat list.

    No run gets any where they cannot be told apart: then each lane's core finds that they are missing.
    """
    needs = [_need(run, jobs) for run in placement.runs]
    return [share or () for share in shares(placement.ports, needs)]


def _need(run: Run, jobs: Jobs) -> int | None:
    """Return how many dynamic ports the run has; None where that is unknown."""
    job = jobs(run.job_id)
    return None if job is None else ports_needed(run, job.task(run.instance), job.specs)


def _by_lane(items: Iterable[T], lane_of: Callable[[T], int]) -> Mapping[int, list[T]]:
    parts: defaultdict[int, list[T]] = defaultdict(list)
    for item in items:
        parts[lane_of(item)].append(item)
    return parts
