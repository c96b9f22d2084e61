"""Split events that name runs of several jobs into one event per lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import (
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
