"""Schedules: policies case by case, and whole runs over a small world, a real store and several leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.schedule.decide import decide, deleted, next_expiry, started
from jobmgr.core.state import events as ev
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from jobmgr.services.common.crash_loops import explained
from peloton.api.scheduling import scheduling_pb2
from peloton.clock import ManualClock
from peloton.errors import NotFound, Refused
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.schedule import Overlap, Schedule, ScheduleState, paused, resumed, run_id
from peloton.model.states import JobState, TaskState
from peloton.wire.job import job_runtime_to, job_spec
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, config
from tests.unit.jobmgr_core.steps import begin_term, ended
from tests.unit.jobmgr_core.test_interrupted_leaders import Leader
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

MINUTELY = "* * * * *"
NOON = 1_795_780_800
"""27 November 2026, 12:00 UTC."""


def scheduled(
    overlap: Overlap = Overlap.SKIP, catch_up: int = 0, cron: str = MINUTELY, keep_runs: int = 0
) -> JobSpec:
    wire = config(1)
    wire.schedule.CopyFrom(
        scheduling_pb2.JobSchedule(
            cron=cron,
            overlap=scheduling_pb2.Overlap.ValueType(overlap),
            catch_up=catch_up,
            keep_runs=keep_runs,
        )
    )
    return job_spec(wire, 1)


SKIP, QUEUE, REPLACE = (Schedule(MINUTELY, "UTC", overlap) for overlap in Overlap)
BUSY = ScheduleState(seen=0, running=60)


def test_a_time_at_which_the_run_before_lives() -> None:
    assert decide(SKIP, BUSY, [120], True, 130)[:2] == (replace(BUSY, seen=120, skipped=120), 0)
    assert decide(QUEUE, BUSY, [120], True, 130)[:2] == (replace(BUSY, seen=120, queued=(120,)), 0)
    assert decide(REPLACE, BUSY, [120], True, 130)[:2] == (replace(BUSY, seen=120, queued=(120,)), 60)


def test_the_run_that_waits_begins_once_the_one_before_has_ended() -> None:
    waits = ScheduleState(seen=180, running=60, queued=(120, 180))
    state = decide(QUEUE, waits, [], False, 200).state
    assert (state.starting, state.queued, state.running) == (120, (180,), 0)
    after = started(state)
    assert (after.starting, after.running, after.last) == (0, 120, 120)
    assert decide(QUEUE, after, [], True, 210).state == after


def test_the_newest_time_replaces_what_lives_and_what_waits() -> None:
    waits = ScheduleState(seen=120, running=60, queued=(120,))
    state, stop, _ = decide(REPLACE, waits, [180], True, 190)
    assert (state.queued, state.skipped, stop) == ((180,), 120, 60)


@pytest.mark.parametrize(("catch_up", "queued"), [(0, ()), (1, (540,)), (3, (420, 480, 540))])
def test_missed_times_are_made_up_for_up_to_the_bound(catch_up: int, queued: tuple[int, ...]) -> None:
    schedule = replace(QUEUE, catch_up=catch_up)
    state = decide(schedule, BUSY, list(range(120, 600, 60)), True, 10_000).state
    assert (state.queued, state.seen) == (queued, 540)
    assert state.skipped == (540 if not catch_up else queued[0] - 60)


def test_a_time_that_a_change_of_leaders_delays_is_not_missed() -> None:
    assert decide(SKIP, ScheduleState(), [600], False, 660).state.starting == 600


def test_what_was_decided_is_begun_by_another_leader_whatever_is_due() -> None:
    intended = ScheduleState(seen=60, starting=60)
    assert decide(SKIP, intended, [120], False, 130).state == replace(intended, seen=120, skipped=120)
    assert decide(QUEUE, intended, [120], False, 130).state == replace(intended, seen=120, queued=(120,))


def test_nothing_begins_while_a_schedule_is_paused() -> None:
    waits = ScheduleState(seen=120, queued=(120,), paused=130)
    state = decide(QUEUE, waits, [180, 240], False, 250).state
    assert state == replace(waits, seen=240, skipped=240)
    replaced = replace(waits, running=60)
    assert decide(REPLACE, replaced, [], True, 250).stop == 0
    after = resumed(state, 290)
    assert (after.paused, after.seen, after.queued) == (0, 290, (120,))
    assert decide(QUEUE, after, [], False, 291).state.starting == 120
    assert resumed(after, 400) is after
    assert paused(waits, 200) is waits


def test_what_was_decided_before_a_pause_or_its_end_is_refused_afterwards() -> None:
    """Else times of the pause got runs: it was stored after they had been decided about."""
    state = ScheduleState(seen=60)
    runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1, schedule=state)
    leader = Leader(scheduled(Overlap.QUEUE), runtime, {})

    def ask(event: ev.Event) -> tuple[object, ScheduleState | None]:
        reply = leader.run_cycle(event).replies[0]
        return reply, leader.core.active.jobs[JOB].job.runtime.schedule

    decided = ev.ScheduleMoved(JOB, decide(QUEUE, state, [120], False, 130).state)
    pause = ask(ev.PauseAsked(JOB, True, 110))
    assert pause == (None, paused(state, 110))
    refused, held = ask(decided)
    assert isinstance(refused, Refused) and "was paused or resumed meanwhile" in str(refused)
    assert held == paused(state, 110)
    in_pause = ev.ScheduleMoved(JOB, replace(paused(state, 110), seen=120, skipped=120))
    assert ask(ev.PauseAsked(JOB, False, 130)) == (None, replace(state, seen=130))
    for late in (decided, in_pause):
        refused, held = ask(late)
        assert isinstance(refused, Refused) and held == replace(state, seen=130)
    begun = decide(QUEUE, replace(state, seen=130), [180], False, 190).state
    assert ask(ev.ScheduleMoved(JOB, begun)) == (None, begun)


def test_a_run_that_was_to_begin_before_the_pause_is_begun() -> None:
    intended = ScheduleState(seen=60, starting=60, paused=61)
    assert decide(SKIP, intended, [], False, 70) == (intended, 0, ())


def test_the_latest_runs_are_kept_beside_the_one_that_lives() -> None:
    schedule = replace(SKIP, keep_runs=2)
    state = ScheduleState(seen=300, running=300, kept=(60, 120, 180, 240, 300))
    assert decide(schedule, state, [], True, 310).delete == (60, 120)
    after = deleted(state, (60, 120))
    assert after.kept == (180, 240, 300)
    assert decide(schedule, after, [], True, 310).delete == ()
    assert decide(schedule, after, [], False, 310).delete == (180,)
    many = replace(state, kept=tuple(range(60, 6060, 60)))
    assert len(decide(schedule, many, [], True, 10_000).delete) == 20


def test_runs_are_kept_for_some_days() -> None:
    schedule, day = replace(SKIP, keep_days=2), 86_400
    state = ScheduleState(seen=day, running=day, kept=(60, day))
    assert next_expiry(schedule, state) == 60 + 2 * day
    assert decide(schedule, state, [], True, 59 + 2 * day).delete == ()
    assert decide(schedule, state, [], True, 60 + 2 * day).delete == (60,)
    assert decide(schedule, state, [], True, 9 * day).delete == (60,), "the run that lives stays"
    assert next_expiry(SKIP, state) is None
    assert next_expiry(schedule, replace(state, kept=(day,))) is None


class Minutes:
    """A clock of the time of day, and a world whose engine has it."""

    def __init__(self) -> None:
        self.clock = ManualClock(epoch=NOON * 10**9)

    def engine(self, store: Store) -> Engine:
        return Engine(store, self.clock)

    async def to(self, engine: Engine, second: int) -> None:
        """Go to that many seconds after noon, and let the schedules be looked at."""
        self.clock.now = float(second)
        engine.schedule_ends.wake()


def alive(engine: Engine, minute: int) -> bool:
    return engine.job(run_id(JOB, NOON + 60 * minute)) is not None


async def test_a_job_runs_by_its_schedule_and_has_no_instances_itself(store: Store) -> None:
    minutes, world = Minutes(), World(runs_on)
    async with Running(minutes.engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, scheduled())
        await minutes.to(engine, 61)
        await until(lambda: alive(engine, 1), "the first run is created")
        await until(lambda: len(world.launched) == 1, "and begins")
        job, run = engine.job(JOB), engine.job(run_id(JOB, NOON + 60))
        assert job is not None
        assert run is not None
        assert (job.runtime.state, job.counts) == (JobState.INITIALIZED, {})
        assert run.spec.name == "job-20261127T1201Z"
        assert run.spec.schedule is None
        assert ("peloton.schedule", JOB) in run.spec.labels
        told = explained(job, Limits())
        assert told.waits.startswith(
            "scheduled by * * * * * (UTC): next run at 2026-11-27T12:02:00Z, the run of 2026-11-27T12:01:00Z"
        )
        shown = job_runtime_to(told).schedule
        assert shown.next_times[:2] == ["2026-11-27T12:02:00Z", "2026-11-27T12:03:00Z"]
        assert shown.running_job_id == run_id(JOB, NOON + 60)
        await engine.stop(JOB, None)
        await ended(engine)
        assert (await engine.load(JOB)).counts == {TaskState.KILLED: 1}
        assert alive(engine, 1), "a run goes on when its schedule ends"


async def test_a_run_is_skipped_while_the_one_before_lives(store: Store) -> None:
    minutes, world = Minutes(), World(runs_on)
    async with Running(minutes.engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, scheduled())
        await minutes.to(engine, 61)
        await until(lambda: alive(engine, 1), "the first run is created")
        await minutes.to(engine, 121)
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: job.runtime.schedule_state.skipped == NOON + 120, "the second is skipped")
        world.status(f"{run_id(JOB, NOON + 60)}-0-1", 2, "")
        await until(lambda: not alive(engine, 1), "the first ends")
        await minutes.to(engine, 181)
        await until(lambda: alive(engine, 3), "the third run is created")
        assert not alive(engine, 2)


async def test_a_run_replaces_the_one_before(store: Store) -> None:
    minutes, world = Minutes(), World(runs_on)
    async with Running(minutes.engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, scheduled(Overlap.REPLACE))
        await minutes.to(engine, 61)
        await until(lambda: len(world.launched) == 1, "the first run begins")
        await minutes.to(engine, 121)
        await until(lambda: alive(engine, 2), "the second is created")
        assert not alive(engine, 1), "once the first has ended"
        stopped = await engine.load(run_id(JOB, NOON + 60))
        assert "whose next run replaces it" in stopped.runtime.goal_by


async def test_no_leader_runs_a_time_that_another_has_run(store: Store) -> None:
    minutes, world = Minutes(), World(runs_on)
    async with Running(minutes.engine(store), world) as running:
        await running.engine.create_job(JOB, scheduled(Overlap.QUEUE, catch_up=2))
        await minutes.to(running.engine, 61)
        await until(lambda: len(world.launched) == 1, "the first run begins")
    minutes.clock.now = 3600.0
    await begin_term(store)
    engine = minutes.engine(store)
    await engine.recovery.begin()
    async with Running(engine, world):
        await until(lambda: engine.job(JOB) is not None, "the job is read")
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: job.runtime.schedule_state.seen == NOON + 3600, "the missed times are decided")
        state = job.runtime.schedule_state
        assert state.running == NOON + 60
        assert len(state.queued) == 2 + 6, "two missed ones, and those of the last five minutes"
        assert len(world.launched) == 1


async def test_a_paused_schedule_runs_nothing_by_any_leader_until_it_is_resumed(store: Store) -> None:
    minutes, world = Minutes(), World(runs_on)
    async with Running(minutes.engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, scheduled(catch_up=5))
        await engine.pause_schedule(JOB, pause=True)
        await minutes.to(engine, 61)
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: job.runtime.schedule_state.skipped == NOON + 60, "the time is passed over")
        told = explained(job, Limits())
        assert "paused since 2026-11-27T12:00:00Z" in told.waits
        shown = job_runtime_to(told).schedule
        assert (list(shown.next_times), shown.paused_since) == ([], "2026-11-27T12:00:00Z")
    minutes.clock.now = 300.0
    await begin_term(store)
    engine = minutes.engine(store)
    await engine.recovery.begin()
    async with Running(engine, world):
        await until(lambda: engine.job(JOB) is not None, "the job is read")
        following = engine.job(JOB)
        assert following is not None
        await until(lambda: following.runtime.schedule_state.seen == NOON + 300, "the times are passed over")
        assert not world.launched
        await engine.pause_schedule(JOB, pause=False)
        await minutes.to(engine, 361)
        await until(lambda: alive(engine, 6), "it goes on")
        await until(
            lambda: following.runtime.schedule_state.kept == (NOON + 360,), "and makes up for nothing"
        )
        await engine.stop(JOB, None)
        await ended(engine)
        with pytest.raises(Refused):
            await engine.pause_schedule(JOB, pause=True)


async def test_old_runs_are_deleted_and_the_latest_stay(store: Store) -> None:
    minutes, world = Minutes(), World(runs_on)
    async with Running(minutes.engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, scheduled(keep_runs=1))
        for minute in (1, 2, 3):
            await minutes.to(engine, 60 * minute + 1)
            run = run_id(JOB, NOON + 60 * minute)
            await until(lambda run=run: f"{run}-0-1" in world.launched, "the run begins")  # type: ignore[misc]
            world.status(f"{run}-0-1", 2, "")
            await until(lambda minute=minute: not alive(engine, minute), "and ends")  # type: ignore[misc]
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: job.runtime.schedule_state.kept == (NOON + 180,), "the older ones are deleted")
        assert (await engine.summary(run_id(JOB, NOON + 180))).runtime.state is JobState.SUCCEEDED
        for minute in (1, 2):
            with pytest.raises(NotFound):
                await engine.summary(run_id(JOB, NOON + 60 * minute))
