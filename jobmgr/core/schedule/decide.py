"""Which times of a schedule get a run, and when: decided from the state that is stored and from what lives.

A decision is stored before it is carried out: `starting` names the run to create. Its id follows from job and
time: a leader that does not know whether its predecessor has created it tries again, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from peloton.model.schedule import (
    DAY_SECONDS,
    MAX_KEPT_RUNS,
    MAX_QUEUED,
    ON_TIME_SECONDS,
    Overlap,
    Schedule,
    ScheduleState,
)

MOST_DELETED = 20
"""Runs that a decision deletes."""


class Decision(NamedTuple):
    """What becomes of a schedule."""

    state: ScheduleState
    stop: int = 0
    """The time whose run is to be stopped; 0: none."""
    delete: tuple[int, ...] = ()
    """The times whose runs are to be deleted: they have ended, unless somebody has started them again."""


def decide(schedule: Schedule, state: ScheduleState, due: Sequence[int], lives: bool, now: int) -> Decision:
    """Decide about the times that are due: those after `state.seen` and up to `now`, ascending.

    Of many, the latest are enough. `lives`: whether the run of `state.running` has not ended. While it is
    paused, what has begun goes on, and nothing else begins.
    """
    running = state.running if lives else 0
    wanted, skipped = ([], due) if state.paused else _made_up_for(schedule, due, now)
    seen = due[-1] if due else state.seen
    if skipped and skipped[-1] > state.skipped:
        state = replace(state, skipped=skipped[-1])
    state = replace(state, seen=seen, running=running)
    state = _queued(schedule.overlap, state, wanted)
    begins = bool(state.queued) and not state.paused
    stops = schedule.overlap is Overlap.REPLACE and bool(running) and begins
    if begins and not (state.running or state.starting):
        first, *rest = state.queued
        state = replace(state, starting=first, queued=tuple(rest))
    return Decision(state, running if stops else 0, _too_many(schedule, state, now))


def started(state: ScheduleState) -> ScheduleState:
    """Return the state once the run that is starting is created."""
    time = state.starting
    kept = sorted({*state.kept, time})[-2 * MAX_KEPT_RUNS :]
    return replace(state, starting=0, running=time, last=max(state.last, time), kept=tuple(kept))


def deleted(state: ScheduleState, times: Collection[int]) -> ScheduleState:
    """Return the state once the runs of these times are deleted."""
    return replace(state, kept=tuple(time for time in state.kept if time not in times))


def next_expiry(schedule: Schedule, state: ScheduleState) -> int | None:
    """Return when the next ended run is too old to be kept; None: no run will be."""
    ended = _ended(state)
    return ended[0] + schedule.keep_days * DAY_SECONDS if ended and schedule.keep_days else None


def _ended(state: ScheduleState) -> list[int]:
    return [time for time in state.kept if time not in (state.running, state.starting)]


def _too_many(schedule: Schedule, state: ScheduleState, now: int) -> tuple[int, ...]:
    """Return the times of ended runs beyond what is kept, the oldest first."""
    ended = _ended(state)
    surplus = max(len(ended) - schedule.keep_runs, 0)
    oldest = now - schedule.keep_days * DAY_SECONDS if schedule.keep_days else 0
    old = (time for place, time in enumerate(ended) if place < surplus or time <= oldest)
    return tuple(islice(old, MOST_DELETED))


def _made_up_for(schedule: Schedule, due: Sequence[int], now: int) -> tuple[list[int], list[int]]:
    """Return the times that get a run, as far as downtime decides, and those that do not."""
    missed = [time for time in due if time < now - ON_TIME_SECONDS]
    kept = missed[-schedule.catch_up :] if schedule.catch_up else []
    return [*kept, *due[len(missed) :]], missed[: len(missed) - len(kept)]


def _queued(overlap: Overlap, state: ScheduleState, wanted: Sequence[int]) -> ScheduleState:
    """Take times into the queue, as far as the policy and its bound let them."""
    if not wanted:
        return state
    if overlap is Overlap.REPLACE:
        return _kept(state, [*state.queued, *wanted], 1, latest=True)
    if overlap is Overlap.QUEUE:
        return _kept(state, [*state.queued, *wanted], MAX_QUEUED)
    busy = bool(state.running or state.starting)
    return _kept(state, [*state.queued, *wanted], 0 if busy else 1)


def _kept(state: ScheduleState, times: list[int], most: int, latest: bool = False) -> ScheduleState:
    """Keep some times in the queue, the earliest or the latest, and skip the others."""
    cut = max(len(times) - most, 0)
    kept, skipped = (times[cut:], times[:cut]) if latest else (times[:most], times[most:])
    last = max([state.skipped, *skipped])
    return replace(state, queued=tuple(kept), skipped=last)
