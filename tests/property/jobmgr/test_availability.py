"""The SLA of services: the pure decision, and random histories of restarts that are held to it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmgr.core.job.availability import disruption, instance_availability
from jobmgr.core.state import events as ev
from peloton.errors import Conflict
from peloton.model.availability import Availability
from peloton.model.ids import Run
from peloton.model.states import HealthState, JobState, TaskState
from peloton.model.task import TaskRuntime
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.test_availability import limited, task

S, A = TaskState, Availability
INSTANCES = 5
STATES = sorted({*S} - {S.READY, S.PLACING, S.PLACED, S.LAUNCHING, S.PREEMPTING, S.RESERVED})
"""Those that jobmgr stores."""
TASKS = st.builds(
    task,
    st.sampled_from([*STATES, *[S.RUNNING] * 6]),
    st.sampled_from((S.RUNNING, S.RUNNING, S.RUNNING, S.KILLED, S.DELETED)),
    health=st.sampled_from(HealthState),
    desired_run=st.sampled_from((1, 1, 1, 2)),
)
JOBS = st.lists(TASKS, min_size=1, max_size=12)
LIMITS = st.integers(0, 6)
CHOICES = st.sets(st.integers(0, 11))


def down(tasks: list[TaskRuntime]) -> set[int]:
    """The instances that shall run and do not serve."""
    return {
        i for i, each in enumerate(tasks) if instance_availability(JobState.RUNNING, each) is A.UNAVAILABLE
    }


def killed(tasks: list[TaskRuntime], chosen: set[int]) -> list[TaskRuntime]:
    """The tasks once those that are chosen are being killed; what kills a stopped one starts it."""
    return [_killed(each) if i in chosen else each for i, each in enumerate(tasks)]


def _killed(task: TaskRuntime) -> TaskRuntime:
    stopped = instance_availability(JobState.RUNNING, task) is A.KILLED
    return replace(task, state=S.KILLING, goal=S.RUNNING if stopped else task.goal)


@example([task(S.INITIALIZED, goal=S.KILLED), task(S.RUNNING)], 1, {0, 1})
@given(JOBS, LIMITS, CHOICES)
@settings(deadline=None)
def test_kills_are_allowed_if_the_sla_holds_after_them(
    tasks: list[TaskRuntime], most: int, chosen: set[int]
) -> None:
    present = {i for i in chosen if i < len(tasks) and tasks[i].state not in (S.UNKNOWN, S.DELETED)}
    kills = [tasks[i] for i in present]
    before, after = down(tasks), down(killed(tasks, present))
    allowed = disruption(limited(most), JobState.RUNNING, tasks, kills).allowed
    assert before <= after
    harmless = A.AVAILABLE not in {instance_availability(JobState.RUNNING, each) for each in kills}
    assert allowed is (not most or len(after) <= most or harmless)


@given(JOBS, LIMITS, CHOICES, CHOICES)
@settings(deadline=None)
def test_less_is_allowed_where_more_is(
    tasks: list[TaskRuntime], most: int, some: set[int], others: set[int]
) -> None:
    def allowed(limit: int, chosen: set[int]) -> bool:
        kills = [tasks[i] for i in chosen if i < len(tasks)]
        return disruption(limited(limit), JobState.RUNNING, tasks, kills).allowed

    if allowed(most, some | others):
        assert allowed(most, some) and allowed(most + 1 if most else 0, some | others)
    assert allowed(len(tasks), some)


KINDS = (
    *("checked", "drain", "restart", "stop", "start", "fail", "lose", "sick", "well"),
    *("step", "settle", "wait", "fall", "update", "roll", "abort", "on"),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*KINDS, "checked", "checked", "drain", "drain", "step", "on", "on"]),
        st.sets(st.integers(0, INSTANCES - 1), min_size=1, max_size=3),
    ),
    max_size=40,
)


@example([("on", {0}), ("stop", {0}), ("on", {0}), ("checked", {0})], 1)
@example([("stop", {0}), ("checked", {0})], 1)
@given(STEPS, st.integers(0, 4))
@settings(max_examples=120, deadline=None)
def test_checked_restarts_and_drained_hosts_keep_the_sla(
    steps: list[tuple[str, set[int]]], most: int
) -> None:
    it = Service(limited(most, INSTANCES, checked=True))
    it.settle()
    for kind, chosen in steps:
        _step(it, kind, chosen, most)
        assert not it.twice


def _step(it: Service, kind: str, chosen: set[int], most: int) -> None:
    instances = sorted(chosen)
    if kind == "checked":
        _checked(it, instances, most)
    elif kind == "drain":
        _drain(it, instances, most)
    elif kind in ("restart", "stop", "start"):
        request = {"restart": ev.RestartRequested, "stop": ev.StopRequested, "start": ev.StartRequested}
        it.ask(request[kind](JOB, instances))
    elif kind in ("fail", "lose", "sick", "well"):
        for instance, run in sorted(it.alive):
            if instance in chosen and it.rows[instance].run == run:
                _report(it, instance, run, kind)
    elif kind == "wait":
        it.wait(40)
    elif kind in ("update", "roll", "abort"):
        _workflow(it, kind, most)
    elif kind == "on":
        _serve(it)
    else:
        {"step": it.step, "settle": it.settle, "fall": it.fall}[kind]()


def _workflow(it: Service, kind: str, most: int) -> None:
    """An update by single instances, which a later one ends; or what an operator does about it."""
    if kind == "update":
        spec = limited(most, INSTANCES, command=f"number {len(it.specs)}", checked=True)
        it.update(spec, batch_size=1, stop_before_update=len(it.specs) % 3 == 0)
    else:
        it.steer(ev.WorkflowAction.ROLL_BACK if kind == "roll" else ev.WorkflowAction.ABORT)


def _serve(it: Service) -> None:
    """All that is under way goes on until all runs are healthy."""
    it.settle()
    for (instance, run), state in sorted(it.alive.items()):
        if state is S.RUNNING:
            it.say(instance, run, S.RUNNING, healthy=True)


def _report(it: Service, instance: int, run: int, kind: str) -> None:
    if kind in ("fail", "lose"):
        it.end(instance, S.FAILED if kind == "fail" else S.LOST)
    elif it.alive[instance, run] is S.RUNNING:
        it.say(instance, run, S.RUNNING, healthy=kind == "well")


def _checked(it: Service, instances: list[int], most: int) -> None:
    """A refusal changes nothing; what is granted leaves no more down than the SLA says, or than were."""
    it.cycle()
    rows, before = dict(it.rows), _down(it)
    classes = {i: instance_availability(it.runtime.goal, it.rows[i]) for i in instances}
    added = {i for i, found in classes.items() if found is A.AVAILABLE}
    started = {i for i, found in classes.items() if found is A.KILLED}
    reply = it.ask(ev.RestartRequested(JOB, instances, check_sla=True))
    if isinstance(reply, Conflict):
        assert most and added and len(before | started | added) > most
        assert it.rows == rows
    else:
        assert isinstance(reply, list)
        assert not most or not added or len(before | started | added) <= most
        if it.workflow is None or it.workflow.state.terminal:
            assert _down(it) == before | started | added


def _drain(it: Service, instances: list[int], most: int) -> None:
    """The hosts of some instances drain. As many are killed as the SLA allows; the others say why not."""
    it.cycle()
    before = _down(it)
    runs = [Run(JOB, i, run) for i, run in sorted(it.alive) if i in instances and it.rows[i].run == run]
    it.cycle(ev.Draining(runs))
    after = _down(it)
    assert before <= after and after - before <= {run.instance for run in runs}
    assert not most or after == before or len(after) <= most
    for instance in {run.instance for run in runs} - after:
        row = it.rows[instance]
        if row.state is S.RUNNING and row.goal is S.RUNNING and it.runtime.goal is JobState.RUNNING:
            assert most and len(before) <= len(after) >= most, "as many as allowed are killed"
            assert "the SLA would break" in row.message


def _down(it: Service) -> set[int]:
    return down([it.rows[i] for i in range(INSTANCES)])


def test_a_service_has_no_limit_unless_it_gives_one() -> None:
    assert not service().sla.maximum_unavailable_instances
