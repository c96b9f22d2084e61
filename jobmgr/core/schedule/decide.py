"""Which times of a schedule get a run, and when: decided from the state that is stored and from what lives.

A decision is stored before it is carried out: `starting` names the run to create. Its id follows from job and
time: a leader that does not know whether its predecessor has created it tries again, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from peloton.model.schedule import MAX_QUEUED, ON_TIME_SECONDS, Overlap, Schedule, ScheduleState


class Decision(NamedTuple):
    """What becomes of a schedule."""

    state: ScheduleState
    stop: int = 0
    """The time whose run is to be stopped; 0: none."""


def decide(schedule: Schedule, state: ScheduleState, due: Sequence[int], lives: bool, now: int) -> Decision:
    """Decide about the times that are due: those after `state.seen` and up to `now`, ascending.

    Of many, the latest are enough. `lives`: whether the run of `state.running` has not ended.
    """
    running = state.running if lives else 0
    wanted, skipped = _made_up_for(schedule, due, now)
    seen = due[-1] if due else state.seen
    if skipped and skipped[-1] > state.skipped:
        state = replace(state, skipped=skipped[-1])
    state = replace(state, seen=seen, running=running)
    state = _queued(schedule.overlap, state, wanted)
    stops = schedule.overlap is Overlap.REPLACE and bool(running) and bool(state.queued)
    if state.queued and not (state.running or state.starting):
        first, *rest = state.queued
        state = replace(state, starting=first, queued=tuple(rest))
    return Decision(state, running if stops else 0)


def started(state: ScheduleState) -> ScheduleState:
    """Return the state once the run that is starting is created."""
    return replace(state, starting=0, running=state.starting, last=max(state.last, state.starting))


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
