"""Random histories of a service: whatever is asked, fails or falls, its workflows keep their promises.

`PELOTON_EXAMPLES` sets how many histories are played.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import pytest

from jobmgr.core.job.availability import instance_availability
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.change import Change
from peloton.errors import Conflict, PelotonError
from peloton.model.availability import Availability
from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    Range,
    Workflow,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from tests.property.jobmgr.promises import Promises, check_cache, check_job_state, check_reason
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

EXAMPLES = int(os.environ.get("PELOTON_EXAMPLES", "100"))
FAILED_ONCE = (3758,)
"""3758: a job is started while the withdrawal of a run that it did not want is under way."""
CHUNK = 50
STEPS = 80
S, W, T, A = TaskState, WorkflowState, WorkflowType, ev.WorkflowAction
Kind = TypeVar("Kind", bound="Walk")
COMMANDS = ("good", "other", "bad")


class Watched(Service):
    """A service whose promises are checked after each cycle."""

    decided: Mapping[int, TaskRuntime] = MappingProxyType({})
    """What the last cycle decided: it may have asked for a part of it only because of another part."""
    tear: random.Random | None = None
    """Set: the next write is torn: it ends after the workflows, some of the rows, or all but the runtime."""

    def cycle(self, *events: ev.Event, crash: bool = False) -> list[Any]:
        """As its base."""
        self.decided = {}
        replies = super().cycle(*events, crash=crash)
        decided = {**self.rows, **self.decided}
        self.promises.touched = _touched(events)
        self.promises.check(self.rows, decided, self.workflows, self.history, self.runtime, self.specs)
        return replies

    def store(self, change: Change) -> None:
        """As its base, or a part of it. Events of rows that are not stored are left out, too."""
        self.decided = change.tasks
        if self.tear is None:
            super().store(change)
            return
        share = self.tear.choice((0.0, 0.5, 1.0))
        some = {i: task for i, task in change.tasks.items() if self.tear.random() < share}
        self.rows.update(some)
        self.workflows.update(change.workflows)
        self.history += [each for each in change.workflow_events if each.instance in (WHOLE_WORKFLOW, *some)]

    @cached_property
    def promises(self) -> Promises:
        """The checks."""
        return Promises()


def _touched(events: Sequence[ev.Event]) -> set[int]:
    """Return the instances that events take down, or may."""
    found: set[int] = set()
    for event in events:
        if isinstance(event, ev.RestartRequested | ev.StopRequested):
            found.update(event.instances or ())
        elif isinstance(event, ev.Preempted):
            found.update(run.instance for run, _ in event.runs)
        elif isinstance(event, ev.Statuses):
            found.update(run.instance for run, status in event.statuses)
    return found


class Walk:
    """One history. Runs of the command `bad` end by themselves; a checked service may turn unhealthy."""

    def __init__(self, seed: int) -> None:
        self.random = draw = random.Random(seed)
        self.checked = draw.random() < 0.3
        self.calm = draw.random() < 0.6
        """Whether most of what is begun comes to its end before the next request."""
        self.log: list[str] = []
        created = None
        if draw.random() < 0.3:
            options = WorkflowOptions(batch_size=draw.choice((0, 1, 2)))
            created = Workflow("create", JOB, T.UPDATE, W.INITIALIZED, options, 1, 0)
        self.bad = service(command="bad", checked=self.checked).default.fingerprint
        self.most = draw.choice((0, 1, 1, 2))
        """Instances that may be unavailable; 0: no limit."""
        self.it = Watched(self._spec(draw.randint(1, 6), "good"), created=created)

    def steps(self) -> list[tuple[float, Any]]:
        """Return what may happen, with how often it does."""
        return [
            (20, self.go_all_on) if self.calm else (6, self.go_on),
            (2, self.finish_a_run),
            (3, self.fail_bad_runs),
            (1, self.lose_a_run),
            (1, self.judge_health),
            (1, self.wait),
            (1, self.fall),
            (0.5, self.crash),
            (0.5, self.tear_a_write),
            (0.4, self.lose_a_host),
            (0.4, self.preempt),
            (0.8, self.update),
            (0.6, self.restart),
            (0.3, self.start_or_stop),
            (1, self.steer),
            (0.4, self.goal),
            (0.4, self.one_instance),
            (0.4, self.restart_within_the_sla),
        ]

    def play(self) -> None:
        steps = self.steps()
        weights, acts = [weight for weight, _ in steps], [act for _, act in steps]
        for _ in range(STEPS):
            act = self.random.choices(acts, weights)[0]
            self.log.append(act.__name__)
            act()
            self.check()
        self.come_to_an_end()

    # Steps.

    def go_on(self) -> None:
        it, draw = self.it, self.random
        kind = draw.randrange(4)
        if kind == 0:
            it.cycle()
        elif kind == 1 and it.todo:
            it.carry_out(it.todo.pop(draw.randrange(len(it.todo))))
        elif kind == 2:
            it.place()
        else:
            it.run(*draw.sample(range(8), 4))

    def go_all_on(self) -> None:
        """Whatever is under way goes one step further; most checks pass."""
        it = self.it
        it.step()
        for (instance, run), state in sorted(it.alive.items()):
            if self.checked and state is S.RUNNING and self.random.random() < 0.7:
                it.say(instance, run, S.RUNNING, healthy=True)

    def finish_a_run(self) -> None:
        if key := self._live():
            self.it.end(key[0], self.random.choice((S.FAILED, S.SUCCEEDED, S.KILLED)))

    def fail_bad_runs(self) -> None:
        """Runs of the bad config end, as they always do."""
        it = self.it
        for instance, run in sorted(it.alive):
            task = it.rows[instance]
            own = it.specs[task.config_version].default.fingerprint
            if task.run == run and own == self.bad and it.alive[instance, run] is S.RUNNING:
                it.end(instance)

    def lose_a_run(self) -> None:
        if key := self._live():
            self.it.end(key[0], S.LOST)

    def lose_a_host(self) -> None:
        """All runs on one of three hosts are lost at once."""
        lost = self.random.randrange(3)
        for instance, run in sorted(self.it.alive):
            if run == self.it.rows[instance].run and (instance + run) % 3 == lost:
                self.it.end(instance, S.LOST)

    def preempt(self) -> None:
        """A run makes room for another pool's."""
        if key := self._live():
            self.it.cycle(ev.Preempted([(Run(JOB, *key), "the pool is over its entitlement")]))

    def judge_health(self) -> None:
        key = self._live()
        if key and self.checked and self.it.alive[key] is S.RUNNING:
            healthy = self.random.random() < 0.7
            self.it.say(*key, S.RUNNING, healthy=healthy)
            if not healthy and self.random.random() < 0.5:
                self.it.end(key[0], S.KILLED, healthy=False)

    def wait(self) -> None:
        """Time passes. A launch does not take minutes: the driver's calls are over before that."""
        self.it.act()
        self.it.wait(self.random.choice((1, 31, 120, 4000)))

    def fall(self) -> None:
        """The leader falls. The next one is told of all runs, and kills those that were given up."""
        it = self.it
        it.fall()
        for instance, run in sorted(it.alive):
            if run != it.rows[instance].run:
                it.say(instance, run, S.STARTING)
        for kill in [each for each in it.todo if isinstance(each, ins.Kill)]:
            it.todo.remove(kill)
            it.carry_out(kill)

    def crash(self) -> None:
        """The leader falls between storing and acting."""
        self.it.cycle(crash=True)
        self.fall()

    def tear_a_write(self) -> None:
        """The leader falls in the middle of a write."""
        acts = (self.it.cycle, self.finish_a_run, self.update, self.steer, self.goal, self.one_instance)
        act = self.random.choice((*acts, self.it.place, self.restart, self.start_or_stop))
        self.log.append(act.__name__)
        self.it.tear = self.random
        act()
        self.it.tear = None
        self.fall()

    def update(self) -> None:
        draw = self.random
        spec = self._spec(draw.randint(1, 7), draw.choice(COMMANDS))
        attempts = draw.choice((0, 1, 2))
        self._begin(
            T.UPDATE,
            spec,
            batch_percentage=draw.choice((0, 0, 30)),
            rollback_on_failure=draw.random() < 0.5,
            max_instance_attempts=attempts,
            max_failure_instances=draw.choice((1, 1, 2, 0)) if attempts else 0,
            start_paused=draw.random() < 0.1,
            in_place=draw.random() < 0.2,
            start_tasks=draw.random() < 0.3,
            stop_before_update=draw.random() < 0.2,
        )

    def restart(self) -> None:
        first = self.random.randrange(5)
        ranges = self.random.choice(((), (Range(first, first + 2),)))
        self._begin(T.RESTART, None, ranges=ranges)

    def start_or_stop(self) -> None:
        first = self.random.randrange(5)
        ranges = self.random.choice(((), (Range(first, first + 2),)))
        self._begin(self.random.choice((T.START, T.STOP)), None, ranges=ranges)

    def steer(self) -> None:
        self.it.steer(self.random.choice(list(A)))

    def goal(self) -> None:
        self.it.ask(ev.JobGoalRequested(JOB, self.random.choice((JobState.RUNNING, JobState.KILLED))))

    def one_instance(self) -> None:
        kind = self.random.choice((ev.StopRequested, ev.StartRequested, ev.RestartRequested))
        self.it.ask(kind(JOB, [self.random.randrange(7)]))

    def restart_within_the_sla(self) -> None:
        """Restarts are granted exactly where no more instances are down than the SLA of the job allows."""
        it, there, most = self.it, sorted(self.it.tasks), self.most
        chosen = self.random.sample(there, min(len(there), self.random.randint(1, 3)))
        before = {i: instance_availability(it.runtime.goal, task) for i, task in it.tasks.items()}
        down = sum(found is Availability.UNAVAILABLE for found in before.values())
        down += sum(before[i] is Availability.KILLED for i in chosen)  # they are started, and not up yet
        added = sum(before[i] is Availability.AVAILABLE for i in chosen)
        reply = it.ask(ev.RestartRequested(JOB, chosen, check_sla=True))
        if isinstance(reply, Conflict):
            assert most and added and down + added > most
        elif not isinstance(reply, PelotonError):
            assert not most or not added or down + added <= most

    def _spec(self, instances: int, command: str) -> JobSpec:
        spec = service(instances, command=command, checked=self.checked)
        return replace(spec, sla=replace(spec.sla, maximum_unavailable_instances=self.most))

    def _begin(self, type_: WorkflowType, spec: Any, **options: Any) -> None:
        before = self.it.workflow
        reply = self.it.begin(type_, spec, batch_size=self.random.choice((0, 1, 1, 2, 3)), **options)
        if isinstance(reply, PelotonError):
            return
        if before is not None and not self.it.workflows[before.id].state.terminal:
            raise AssertionError(f"{before.id} was overtaken and goes on")

    def _live(self) -> tuple[int, int] | None:
        current = [key for key in self.it.alive if self.it.rows[key[0]].run == key[1]]
        return self.random.choice(sorted(current)) if current else None

    # Promises.

    def check(self) -> None:
        it = self.it
        assert not it.twice, "an instance ran twice"
        check_cache(it.core, it.rows, it.specs)
        if "tear_a_write" not in self.log or "go_all_on" in self.log[_last(self.log, "tear_a_write") :]:
            check_job_state(it.runtime, it.rows)
        running = it.workflow
        if running is not None and not running.state.terminal:
            assert it.runtime.config_version == running.target_version or JOB in it.core.rollouts.pending
            check_reason(it.core, running)

    def come_to_an_end(self) -> None:
        """With runs that go well every workflow ends, unless it says what it waits for."""
        it = self.it
        for _ in range(60):
            if it.runtime.goal is JobState.DELETED:
                return
            it.settle()
            for key, state in list(it.alive.items()):
                if state is S.RUNNING and self.checked:
                    it.say(*key, S.RUNNING, healthy=True)
            it.settle()
            workflow = it.workflow
            if workflow is None or workflow.state.terminal:
                break
            if workflow.state is W.PAUSED:
                it.steer(A.RESUME)
            it.wait(3700)
            self.check()
        workflow = it.workflow
        assert workflow is None or workflow.state.terminal, it.core.rollouts.status(workflow)
        if (
            workflow is not None
            and workflow.state in (W.SUCCEEDED, W.ROLLED_BACK)
            and workflow.type is T.UPDATE
        ):
            self._check_versions(workflow)

    def _check_versions(self, workflow: Workflow) -> None:
        """All instances have the version that the update leads to, and there are as many as it says."""
        it, target = self.it, workflow.target_version
        if workflow.state is W.SUCCEEDED:
            assert {task.desired_config_version for task in it.tasks.values()} <= {target}
            assert sorted(it.tasks) == list(range(it.specs[target].instance_count))
        else:
            forward = workflow.config_version
            assert all(task.desired_config_version != forward for task in it.tasks.values())


class CutOff(Walk):
    """A history in which agents become unreachable, and come back with their runs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.away: list[tuple[int, int]] = []
        """Runs that are LOST, and live."""
        self.back: set[tuple[int, int]] = set()
        """Runs that came back: each is kept, or killed."""
        self.kept = 0

    def steps(self) -> list[tuple[float, Any]]:
        return [*super().steps(), (3, self.cut_off), (4, self.reconnect), (5, self.blink)]

    def blink(self) -> None:
        """An agent comes back a moment after it became unreachable."""
        self.cut_off()
        for _ in range(self.random.randrange(4)):
            self.go_on()
            self.check()
        self.reconnect()

    def cut_off(self) -> None:
        """A run is lost, and lives where nobody can reach it."""
        if (key := self._live()) and self.it.alive[key] is S.RUNNING:
            self.away.append(key)
            self.it.end(key[0], S.LOST)

    def reconnect(self) -> None:
        """Agents come back with their runs, of which some are killed at once."""
        it, away, self.away = self.it, self.away, []
        for instance, run in away:
            waits = it.rows[instance].state in (S.INITIALIZED, S.PENDING)
            it.alive[instance, run] = S.RUNNING
            self.back.add((instance, run))
            it.say(instance, run, S.RUNNING)
            self._kill()
            assert waits or (instance, run) not in it.alive, "it was replaced, or is not wanted"

    def check(self) -> None:
        self._kill()
        super().check()
        for instance, run in list(self.back):
            task = self.it.rows[instance]
            kept = task.run == run and task.state is S.RUNNING
            self.kept += kept
            if kept or (instance, run) not in self.it.alive:
                self.back.discard((instance, run))

    def come_to_an_end(self) -> None:
        self.reconnect()
        super().come_to_an_end()
        self.check()
        assert not self.back, "neither kept nor killed"

    def _kill(self) -> None:
        """Kills of runs that were given up arrive before anything else is launched."""
        it = self.it
        for each in [each for each in it.todo if isinstance(each, ins.Kill)]:
            rows = [(it.rows[run.instance], run.run) for run in each.runs]
            if any(task.run != run or task.state.terminal for task, run in rows):
                it.todo.remove(each)
                it.carry_out(each)


@pytest.mark.parametrize("first", range(0, EXAMPLES, CHUNK))
def test_runs_that_come_back_are_kept_or_killed(first: int) -> None:
    kept = 0
    for seed in range(first, min(first + CHUNK, EXAMPLES)):
        kept += play(seed, CutOff).kept
    assert kept > CHUNK / 2


def _last(log: Sequence[str], name: str) -> int:
    return len(log) - 1 - log[::-1].index(name)


def test_the_histories_differ() -> None:
    logs = []
    for seed in range(2):
        walk = Walk(seed)
        walk.play()
        logs.append(walk.log)
    assert logs[0] != logs[1]
    again = Walk(0)
    again.play()
    assert again.log == logs[0]


@pytest.mark.parametrize("first", range(0, EXAMPLES, CHUNK))
def test_workflows_keep_their_promises(first: int) -> None:
    for seed in range(first, min(first + CHUNK, EXAMPLES)):
        play(seed, Walk)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_histories_that_failed_once(seed: int) -> None:
    play(seed, Walk)


def play(seed: int, kind: type[Kind]) -> Kind:
    walk = kind(seed)
    try:
        walk.play()
    except Exception as error:
        error.add_note(f"seed {seed}: {walk.log}")
        raise
    return walk
