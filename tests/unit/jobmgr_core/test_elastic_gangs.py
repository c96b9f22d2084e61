"""How an elastic gang begins, grows and ends, one case at a time. The property tests draw the order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.instructions import Enqueue, Kill, Launch, Release, Settle
from jobmgr.core.task.gang import extra_reason, growth_interval, members_of, restart_of
from peloton.model.ids import JobId, Run
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.workload import JobWorkload
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_gangs import ends, row
from tests.unit.jobmgr_core.test_interrupted_leaders import Leader

S = TaskState
NEEDED, MOST = 2, 4
INTERVAL = 300


def made() -> JobSpec:
    plain = spec(MOST, minimumRunningInstances=NEEDED)
    return replace(plain, workload=JobWorkload(growth_interval=INTERVAL))


def leader(*rows: TaskRuntime) -> Leader:
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, 1)
    held = Leader(made(), runtime, dict(enumerate(rows)))
    for _ in range(2):  # what waits is compared with what resmgr holds
        held.run_cycle()
    return held


def waits(state: TaskState = S.INITIALIZED) -> TaskRuntime:
    return row(state, host="", agent_id="", start_time=0)


def placed(*instances: int, run: int = 1, host: str = "h") -> ev.Placed:
    runs = tuple(Run(JOB, instance, run) for instance in instances)
    return ev.Placed([ev.Placement(host, "a", f"offer of {host}", (), runs)])


def enqueued(cycle: Cycle) -> list[list[int]]:
    return [
        [instance for instance, _ in gang]
        for each in cycle.instructions
        if isinstance(each, Enqueue)
        for gang in each.gangs
    ]


def launched(cycle: Cycle) -> list[int]:
    return [run.instance for each in cycle.instructions if isinstance(each, Launch) for run in each.runs]


def killed(cycle: Cycle) -> list[int]:
    return [run.instance for each in cycle.instructions if isinstance(each, Kill) for run in each.runs]


def later(held: Leader, seconds: float, *events: ev.Event) -> Cycle:
    """Run a cycle so much later."""
    core = held.core
    now = core.active.actions.now
    wall = max(now.wall, row().start_time) + round(seconds * 1e9)
    cycle = core.run_cycle([*held._answers, *events], ev.Now(wall, now.monotonic + seconds))
    core.commit(cycle)
    held._answers = []
    return cycle


def begin() -> Leader:
    """A gang whose needed members are enqueued."""
    held = Leader(made(), JobRuntime(JobState.PENDING, JobState.SUCCEEDED, 1, 1), {})
    held.core.active.remove(JOB)
    held.core.active.create(JOB, made(), JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1))
    assert enqueued(held.run_cycle()) == [[0, 1]], "extras wait"
    held.run_cycle(ev.Enqueued(JOB, [(0, 1), (1, 1)]))
    return held


def test_extras_are_enqueued_once_the_needed_members_are_placed_and_all_start_together() -> None:
    held = begin()
    job = held.core.active.jobs[JOB].job
    assert extra_reason(job, 2) == "it joins its gang when instances 0-1 are placed and there is room"
    assert extra_reason(job, 1) == ""
    cycle = held.run_cycle(placed(0, 1))
    assert enqueued(cycle) == [[2], [3]]
    assert launched(cycle) == []
    later(held, 0.1, ev.Enqueued(JOB, [(2, 1), (3, 1)]))
    assert launched(later(held, 0.1, placed(2, host="g"))) == []
    cycle = later(held, 0.1, placed(3, host="f"))
    assert sorted(launched(cycle)) == [0, 1, 2, 3], "nobody is left to wait for"
    size = members_of(job)
    assert size is not None
    assert size.told() == "elastic gang: 4 members on hosts, of 2 to 4"


@pytest.mark.parametrize("changes", [False, True])
def test_runs_of_other_jobs_that_share_a_placement_start_with_the_gang(changes: bool) -> None:
    """Also where the other job has changed already in the cycle in which the gang starts."""
    held, other = begin(), JobId("00000000-0000-0000-0000-00000000000b")
    held.core.active.create(other, spec(1), JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1))
    held.run_cycle()
    late, early = ([ev.Enqueued(other, [(0, 1)])], []) if changes else ([], [ev.Enqueued(other, [(0, 1)])])
    held.run_cycle(*early)
    runs = (Run(JOB, 0, 1), Run(JOB, 1, 1), Run(other, 0, 1))
    held.run_cycle(ev.Placed([ev.Placement("h", "a", "offer of h", (), runs)]))
    later(held, 0.1, ev.Enqueued(JOB, [(2, 1), (3, 1)]))
    later(held, 0.1)
    cycle = later(held, 0.1, *late, placed(2, 3, host="g"))
    assert sorted(launched(cycle)) == [0, 0, 1, 2, 3]
    job = held.core.active.jobs[other].job
    assert job.tasks[0].host == "h"
    assert job.runtime.task_counts == {job.tasks[0].state: 1}


def test_a_gang_starts_without_extras_that_find_no_room_in_time() -> None:
    held = begin()
    held.run_cycle(placed(0, 1))
    held.run_cycle(ev.Enqueued(JOB, [(2, 1), (3, 1)]), placed(2, host="g"))
    assert launched(later(held, 0.1)) == []
    cycle = later(held, held.core.active.actions.limits.gather_seconds)
    assert sorted(launched(cycle)) == [0, 1, 2]
    assert held.task(3).state is S.PENDING, "it stays in the queue of its pool"


def test_a_gang_that_gathers_gives_its_hosts_back_where_its_job_is_stopped() -> None:
    held = begin()
    held.run_cycle(placed(0, 1))
    held.run_cycle(ev.StopRequested(JOB, None))
    cycle = held.run_cycle()
    assert launched(cycle) == [] and held.core.active.jobs[JOB].gathered == []
    assert not held.core.active.actions.deadlines.get((JOB, -2))


def test_an_extra_that_is_placed_early_waits_and_is_not_launched() -> None:
    held = leader(row(), row(), waits(S.PENDING), waits(S.PENDING))
    later(held, 1.0)
    cycle = later(held, 1.0, placed(3))
    assert launched(cycle) == [] and killed(cycle) == []
    assert [type(each) for each in cycle.instructions if isinstance(each, Release)] == [Release]
    (settle,) = [each for each in cycle.instructions if isinstance(each, Settle)]
    assert settle.runs == ((Run(JOB, 3, 1), S.LOST),), "resmgr does not hold it any more"
    assert (held.task(3).state, held.task(3).run, held.task(3).failure_count) == (S.INITIALIZED, 2, 0)
    assert enqueued(cycle) == []
    assert enqueued(later(held, INTERVAL)) == [[3]], "as demand of its pool, once the gang may grow"
    job = held.core.active.jobs[JOB].job
    assert extra_reason(job, 3) == "its gang runs without it, and may grow 5 min after its start"


def test_a_gang_grows_as_a_whole_when_an_extra_is_placed_after_the_interval() -> None:
    held = leader(row(), row(), row(), waits(S.PENDING))
    cycle = later(held, INTERVAL, placed(3))
    assert launched(cycle) == []
    assert killed(cycle) == [0, 1, 2]
    told = held.task(0)
    assert told.message == "its gang grows: there is room for instance 3"
    assert told.termination is not None
    assert told.termination.reason is TerminationReason.KILLED_FOR_RESTART
    found = restart_of(held.core.active.jobs[JOB].job)
    assert found is not None
    assert found.told() == (
        "gang restarts: waits for the end of instances 0-3; its gang grows: there is room for instance 3"
    )
    cycle = later(held, 1.0, ev.Withdrawn(JOB, [(3, 1)]), *(ends(i, S.KILLED) for i in range(3)))
    assert enqueued(cycle) == [[0, 1]]
    assert [held.task(i).run for i in range(MOST)] == [2, 2, 2, 2]
    assert not any(held.task(i).failure_count for i in range(MOST))


def grow(held: Leader, extras: tuple[int, ...]) -> None:
    """End a round of three for instance 3, and begin the next one with these extras."""
    before, extra = held.task(0).run, held.task(3).run
    later(held, 0.0, placed(3, run=extra))
    assert [held.task(i).state for i in range(3)] == [S.KILLING] * 3
    later(held, 1.0, ev.Withdrawn(JOB, [(3, extra)]), *(ends(i, S.KILLED, before) for i in range(3)))
    run = extra + 1
    assert {held.task(i).run for i in range(MOST)} == {run}
    later(held, 0.1, ev.Enqueued(JOB, [(0, run), (1, run)]))
    later(held, 0.1, placed(0, 1, run=run))
    later(held, 0.1, ev.Enqueued(JOB, [(2, run), (3, run)]))
    start = [later(held, 0.1, placed(*extras, run=run, host="g")), later(held, 2.0)]
    assert sorted(launched(start[0]) + launched(start[1])) == [0, 1, *extras]
    wall = held.core.active.actions.now.wall
    begun = [(Run(JOB, i, run), TaskStatus("", S.RUNNING, wall, uuid=b"1")) for i in (0, 1, *extras)]
    later(held, 0.1, ev.Launched([each for each, _ in begun]), ev.Statuses(begun))
    assert [held.task(i).state for i in (0, 1, *extras)] == [S.RUNNING] * (2 + len(extras))


def test_growth_in_vain_is_put_off_for_longer_and_longer() -> None:
    """Others took the room while the members ended: else this went on for ever, and nobody got on."""
    held = leader(row(), row(), row(), waits(S.PENDING))
    job = held.core.active.jobs[JOB].job
    later(held, INTERVAL)
    grow(held, (2,))
    for minutes in (10, 20):
        assert enqueued(later(held, 1.0, placed(3, run=held.task(3).run))) == [], "it is too early"
        told = f"its gang runs without it, and may grow {minutes} min after its start"
        assert extra_reason(job, 3) == told
        assert enqueued(later(held, 60 * minutes - 60)) == []
        assert enqueued(later(held, 60)) == [[3]]
        later(held, 0.1, ev.Enqueued(JOB, [(3, held.task(3).run)]))
        grow(held, (2,) if minutes == 10 else (2, 3))
    assert growth_interval(job) == INTERVAL, "it has grown"


@pytest.mark.parametrize(("interval", "longest"), [(1, 3600), (300, 3600), (3600, 3600), (7200, 7200)])
def test_growth_is_put_off_by_an_hour_at_most(interval: int, longest: int) -> None:
    plain = spec(MOST, minimumRunningInstances=NEEDED)
    elastic = replace(plain, workload=JobWorkload(growth_interval=interval))
    job = CachedJob(JOB, elastic, JobRuntime(JobState.RUNNING, JobState.RUNNING, 1, 1))
    assert growth_interval(job) == interval
    job.vain_growths = 1000
    assert growth_interval(job) == longest


def test_a_gang_whose_host_is_drained_goes_on_with_fewer() -> None:
    held = leader(row(), row(), row(), row())
    held.run_cycle(ev.Draining([Run(JOB, 3, 1)]))
    held.run_cycle(*(ends(i, S.KILLED) for i in range(MOST)))
    run = held.task(0).run
    held.run_cycle(ev.Enqueued(JOB, [(0, run), (1, run)]))
    cycle = held.run_cycle(placed(0, 1, run=run))
    assert enqueued(cycle) == [[2], [3]]
    held.run_cycle(ev.Enqueued(JOB, [(2, run), (3, run)]), placed(2, run=run, host="g"))
    assert sorted(launched(later(held, 2.0))) == [0, 1, 2]
    assert not any(held.task(i).failure_count for i in range(MOST))


def test_a_gang_does_not_grow_any_more_when_a_member_has_succeeded() -> None:
    held = leader(row(), row(S.SUCCEEDED), waits(S.PENDING), waits())
    cycle = later(held, INTERVAL, placed(2))
    assert killed(cycle) == [] and launched(cycle) == []


def test_extras_that_are_to_run_again_are_stopped_where_users_have_stopped_the_members_it_needs() -> None:
    """It cannot begin another round: it ends, in place of waiting for ever."""
    held = begin()
    held.run_cycle(ev.StopRequested(JOB, [0, 1]), ev.RestartRequested(JOB, [2]))
    last = held.run_cycle(ev.Withdrawn(JOB, ((0, 1), (1, 1)))).changes[JOB]
    assert [last.task(instance).state for instance in range(MOST)] == [S.KILLED] * MOST
    assert last.task(2).killed_for == last.task(3).killed_for == "its gang has ended without it"
    assert last.runtime is not None and last.runtime.state is JobState.KILLED


def test_a_job_succeeds_with_the_members_that_ran() -> None:
    held = leader(row(), row(S.SUCCEEDED), row(S.SUCCEEDED), waits(S.PENDING))
    job = held.core.active.jobs[JOB].job
    held.run_cycle(ends(0, S.SUCCEEDED))
    held.run_cycle(ev.Withdrawn(JOB, [(3, 1)]))
    assert job.runtime.state is JobState.SUCCEEDED
    assert job.tasks[3].state is S.KILLED
    assert job.tasks[3].killed_for == "its gang has ended without it"


def test_extras_that_run_on_are_waited_for() -> None:
    held = leader(row(), row(S.SUCCEEDED), row(), waits())
    job = held.core.active.jobs[JOB].job
    held.run_cycle(ends(0, S.SUCCEEDED))
    assert (job.runtime.state, held.task(3).state) == (JobState.RUNNING, S.INITIALIZED)
    held.run_cycle(ends(2, S.SUCCEEDED))
    held.run_cycle(ev.Withdrawn(JOB, [(3, 1)]))
    assert job.runtime.state is JobState.SUCCEEDED
    assert [task.state for task in job.tasks] == [S.SUCCEEDED] * 3 + [S.KILLED]
