"""Schedules on a virtual clock: downtimes, runs that last, leaders that fall between two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmgr.core.schedule.decide import decide, deleted, started
from peloton import cron
from peloton.model.schedule import MAX_CATCH_UP, MAX_QUEUED, ON_TIME_SECONDS, Overlap, Schedule, ScheduleState

BEGIN = 1_774_656_000
"""28 March 2026: the clocks of Berlin change in the night that follows."""
MOST = MAX_CATCH_UP + 7


@dataclass
class World:
    """A store, the runs by their times, and a leader that may fall after each step."""

    schedule: Schedule
    falls: Callable[[], bool]
    now: int = BEGIN
    state: ScheduleState = field(default_factory=lambda: ScheduleState(seen=BEGIN))
    created: list[int] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """When the runs that live end, by their times."""
    lasts: int = 60
    gone: set[int] = field(default_factory=set)
    """The times whose runs are deleted."""

    def look(self) -> None:
        """Let a leader decide and act, as the driver does, unless it falls."""
        self.ends = {time: end for time, end in self.ends.items() if end > self.now}
        state = self.state
        due = cron.times_until(self.schedule.cron, self.schedule.time_zone, state.seen, self.now, MOST)
        decision = decide(self.schedule, state, due, state.running in self.ends, self.now)
        if self.falls():
            return
        self.state = decision.state
        if self.falls():
            return
        self.ends.pop(decision.stop, None)
        if self.falls():
            return
        if self.state.starting and not self._start():
            return
        for time in decision.delete:
            assert time in self.created and time not in self.ends, "a run is deleted that has not ended"
            self.gone.add(time)
            if self.falls():
                return
        self.state = deleted(self.state, decision.delete)

    def _start(self) -> bool:
        """Begin the run that is to begin; return False where the leader falls."""
        if self.state.starting not in self.created:  # the id follows from the time: it is there once
            assert not self.ends, "a run begins beside another one"
            self.created.append(self.state.starting)
            self.ends[self.state.starting] = self.now + self.lasts
        if self.falls():
            return False
        self.state = started(self.state)
        return True


steps = st.lists(
    st.tuples(
        st.sampled_from([20, 60, 61, 900, 7200, 50_000]),
        st.integers(1, 5000),
        st.lists(st.booleans(), max_size=4),
    ),
    min_size=1,
    max_size=10,
)
schedules = st.builds(
    Schedule,
    st.sampled_from(["*/17 * * * *", "30 2 * * *", "0 * * * *", "*/2 * * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from(Overlap),
    st.sampled_from([0, 1, 3, MAX_CATCH_UP]),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([0, 1]),
)


@settings(max_examples=60, deadline=None)
@example(
    Schedule("*/2 * * * *", "UTC", Overlap.QUEUE, 0, 1), [(900, 119, [])]
)  # it always has one that waits
@given(schedules, steps)
def test_no_time_runs_twice_and_no_run_beside_another(
    schedule: Schedule, drawn: list[tuple[int, int, list[bool]]]
) -> None:
    falls: list[bool] = []
    world = World(schedule, lambda: bool(falls) and falls.pop())
    for wait, lasts, falling in drawn:
        before, seen = len(world.created), world.state.seen
        world.now, world.lasts, falls[:] = world.now + wait, lasts, falling
        missed = _missed(world, seen)
        world.look()
        state = world.state
        assert len(set(world.created)) == len(world.created)
        assert len(world.ends) <= 1
        assert len(world.created) - before <= 1
        assert len(state.queued) <= (MAX_QUEUED if schedule.overlap is Overlap.QUEUE else 1)
        late = [time for time in state.queued if time in missed]
        assert len(late) <= schedule.catch_up
        assert set(state.kept) >= set(world.created) - world.gone - {state.starting}, "a run is forgotten"
        times = [*([state.starting] if state.starting else []), *state.queued]
        assert times == sorted(set(times))
        assert state.seen <= world.now
    _settle(world)
    world.now += 1_000_000
    for _ in range(len(world.created) + 1):
        if world.state.paused or world.state.starting:
            break
        world.state = replace(world.state, seen=world.now)  # no further run
        world.look()
    left = [time for time in world.created if time not in world.gone and time not in world.ends]
    assert len(left) <= schedule.keep_runs
    assert not (schedule.keep_days and left)
    for time in world.created:
        assert next(cron.times_after(schedule.cron, schedule.time_zone, time - 1)) == time


def _missed(world: World, seen: int) -> set[int]:
    due = cron.times_until(world.schedule.cron, world.schedule.time_zone, seen, world.now, MOST)
    return {time for time in due if time < world.now - ON_TIME_SECONDS}


def _settle(world: World) -> None:
    """Let a leader that does not fall look until all is done that was begun."""
    world.falls = lambda: False
    for _ in range(3 * MAX_QUEUED):
        if not (world.state.starting or world.state.queued):
            break
        world.now += (
            1 if world.state.starting else max(world.ends.values(), default=world.now) - world.now + 1
        )
        world.look()
        assert len(world.ends) <= 1
    assert not world.state.starting


@given(st.sampled_from(Overlap))
def test_a_leader_that_is_on_time_runs_each_time_whose_run_before_has_ended(overlap: Overlap) -> None:
    schedule = Schedule("*/10 * * * *", "UTC", overlap)
    world = World(schedule, lambda: False, lasts=300)
    for _ in range(24 * 60):
        world.now += 60
        world.look()
    assert len(world.created) == 24 * 6
    assert world.state.skipped == 0
