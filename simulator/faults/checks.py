"""What must hold after each step, whatever fails, and at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Protocol

from jobmgr.core.state.change import Change
from peloton.model.ids import JobId, MesosTaskId, Run, mesos_task_id, parse_mesos_task_id
from peloton.model.resources import KINDS, Resources
from peloton.model.states import JobState, TaskState, TaskType
from placement.core.giving_up import Rules
from resmgr.core.scheduler import Scheduler
from simulator.daemons.placement import strategy_of
from simulator.daemons.resmgr import Resmgr
from simulator.faults.dependents import DependentChecks
from simulator.faults.elections import Elections
from simulator.faults.gangs import GangChecks
from simulator.faults.plan import Plan, PlannedJob
from simulator.faults.schedules import ScheduleChecks
from simulator.faults.services import ServiceChecks
from simulator.faults.stored import check_acknowledged, check_intent, check_write
from simulator.faults.violation import Violation
from simulator.world.agents import SimRun
from simulator.world.cluster import Cluster
from simulator.world.kernel import Kernel
from simulator.world.store import Store, StoredJob

MOST_IN_A_SECOND = 50_000
"""Events in a second, after which the daemons are taken to do the same for ever."""
EVERY = 20
"""Events between two comparisons of sums, which take long."""
PLACED_WITHIN_SECONDS = 30.0
"""What is admitted is placed within this time after room for it has become free."""
_DESIRED_HOST_SECONDS = Rules(strategy_of(TaskType.STATELESS)).desired_host_patience
"""For so long engines try only the desired host of an instance, each time that they take it."""


class Case(Protocol):
    """What is checked."""

    plan: Plan
    kernel: Kernel
    cluster: Cluster
    store: Store
    elections: Elections
    jobs: dict[JobId, PlannedJob]
    stops_asked: set[JobId]


class Checks:
    """The invariants of one run."""

    def __init__(self, world: Case) -> None:
        self._world = world
        self._steps = 0
        self._moment, self._at_once = 0.0, 0
        """The second that is simulated, and the events in it."""
        self._freed_at = 0.0
        """When a run ended last: since then nobody has got room."""
        self._before: dict[str, tuple[int, ...]] = {}
        """What each pool was charged with before the cycle of admission that is under way."""
        self.services = ServiceChecks(world.store, world.kernel)
        self.gangs = GangChecks(world.store, {job_id: each.job for job_id, each in world.jobs.items()})
        self.dependents = DependentChecks(world.store)
        jumps = any(fault.kind == "clock" and fault.target == "jobmgr" for fault in world.plan.faults)
        self._jumps = jumps
        self.schedules = ScheduleChecks(world.store, world.kernel, not jumps)
        self.acknowledged: set[JobId] = set()
        """Jobs whose creation was acknowledged."""
        self.stopped: set[JobId] = set()
        """Jobs whose stop was acknowledged."""
        self._succeeded: set[MesosTaskId] = set()
        """Runs that have ended well on their agents."""
        self._done: dict[tuple[JobId, int], MesosTaskId] = {}
        """Instances with a run whose success was acknowledged, and which was never reported as lost."""
        self._live: defaultdict[tuple[JobId, int], set[MesosTaskId]] = defaultdict(set)

    # What the cluster does.

    def on_launch(self, run: SimRun) -> None:
        """Check that no other run of the instance lives, but those that were given up."""
        job_id, instance, _ = parse_mesos_task_id(run.id)
        cluster = self._world.cluster
        times = (cluster.launched or {}).get(run.id, 0)
        check_intent(self._world.store, run)
        if times > 1:
            raise Violation(f"{run.id} is launched {times} times")
        done = self._done.get((job_id, instance))
        if done is not None and not self.gangs.runs_again(job_id):
            raise Violation(f"{run.id} is launched though {done} had succeeded, and that was acknowledged")
        live = self._live[job_id, instance]
        for other in sorted(live):
            held = cluster.runs.get(other)
            if held is not None and held.live and not held.lost and held.id != run.id:
                raise Violation(f"{run.id} is launched while {other} lives and was never reported as lost")
        self.gangs.on_launch(run, self._alive(job_id))
        live.add(run.id)

    def _alive(self, job_id: JobId) -> Iterator[SimRun]:
        """Iterate over the runs of a job that live and were never reported as lost."""
        for instance in range(self._world.jobs[job_id].job.instances if job_id in self._world.jobs else 0):
            for run in sorted(self._live[job_id, instance]):
                held = self._world.cluster.runs.get(run)
                if held is not None and held.live and not held.lost:
                    yield held

    def on_end(self, run: SimRun) -> None:
        """Note that a run has ended."""
        job_id, instance, _ = parse_mesos_task_id(run.id)
        self._live[job_id, instance].discard(run.id)
        self._freed_at = self._world.kernel.now
        if run.state is TaskState.SUCCEEDED:
            self._succeeded.add(run.id)

    def on_acknowledged(self, run: SimRun, state: TaskState) -> None:
        """Note an acknowledged success: it must never be lost. Check that what is acknowledged is stored."""
        check_acknowledged(self._world.store, run, state)
        job_id, instance, _ = parse_mesos_task_id(run.id)
        if state is TaskState.SUCCEEDED and not run.lost:
            self._done[job_id, instance] = run.id

    def on_write(self, job_id: JobId, job: StoredJob, change: Change) -> None:
        """Check what is stored next: nobody succeeds who has not, and nothing is undone."""
        check_write(job_id, job, change)
        self.services.on_write(job_id, job, change)
        self.dependents.on_write(job_id, job, change)
        self.schedules.on_write(job_id, job, change)
        for instance, task in change.tasks.items():
            if task.state is TaskState.SUCCEEDED:
                run = f"{job_id}-{instance}-{task.run}"
                if run not in self._succeeded:
                    raise Violation(f"{run} is stored as SUCCEEDED and has not ended so")

    # After each step.

    def step(self) -> None:
        """Check what is cheap after each event, and the sums after some."""
        self._steps += 1
        world = self._world
        self._check_time_passes(world.kernel.now)
        for job_id in self.acknowledged:
            if job_id not in world.store.jobs:
                raise Violation(f"job {job_id} was acknowledged and is not stored")
        self.services.step()
        if self._steps % EVERY:
            return
        for agent in world.cluster.agents.values():
            if not agent.used.fits(agent.spec.resources):
                raise Violation(f"{agent.id} is used with {agent.used} of {agent.spec.resources}")
        resmgr = world.elections.leaders.get("resmgr")
        if isinstance(resmgr, Resmgr) and not resmgr.life.ended:
            check_sums(resmgr.scheduler)

    def _check_time_passes(self, now: float) -> None:
        if now - self._moment >= 1.0:
            self._moment, self._at_once = now, 0
        self._at_once += 1
        if self._at_once > MOST_IN_A_SECOND:
            raise Violation(f"more than {MOST_IN_A_SECOND} events since {self._moment:.3f} s")

    def on_admission(self, scheduler: Scheduler, after: bool) -> None:
        """Check that no pool is admitted beyond its limit.

        A run that was lost and lives on is charged, whatever else was admitted meanwhile.
        """
        if not after:
            self._before = {pool.id: tuple(pool.used) for pool in scheduler.tree.leaves()}
            return
        self.gangs.on_admission(scheduler)
        for pool in scheduler.tree.leaves():
            for kind, used, before in zip(KINDS, pool.used, self._before[pool.id], strict=True):
                limit = pool.config.kind(kind).limit
                if used > before and used > limit:
                    raise Violation(f"{pool.path} is admitted {used} of {kind}, and its limit is {limit}")

    def unheld(self, *states: TaskState) -> list[tuple[Run, TaskState]]:
        """Return the runs that are stored in these states, and that resmgr does not hold."""
        resmgr = self._world.elections.leaders.get("resmgr")
        if not isinstance(resmgr, Resmgr) or resmgr.life.ended or not resmgr.recovered:
            return []
        found = []
        for job_id, job in self._world.store.active_jobs().items():
            for instance, task in job.tasks.items():
                known = resmgr.scheduler.registry.current(job_id, instance)
                if task.state in states and (known is None or known.run < task.run):
                    found.append((Run(job_id, instance, task.run), task.state))
        return found

    def settled(self, suspects: Collection[tuple[Run, TaskState]]) -> None:
        """Check that resmgr holds each of these runs now, or that they are stored in another state.

        It has to hold what waits and runs once nothing has failed for a while, before its audits of the
        store. Suspects are what it did not hold a moment ago: it may hear of the end of a run before jobmgr
        has stored it.
        """
        for run, state in self.unheld(*{state for _, state in suspects}):
            if (run, state) in suspects:
                raise Violation(f"{mesos_task_id(*run)} is {state.name}, and resmgr does not hold it")

    def stopping(self, job_id: JobId) -> None:
        """Check what has to hold when a service is about to be stopped.

        Where the clocks of job managers differ, waits of theirs last longer.
        """
        if not self._jumps:
            self.services.stopping(job_id, self._is_placeable)

    def _is_placeable(self, job_id: JobId, instance: int) -> bool:
        """Return whether an instance is admitted, and an agent has had room for it for a while.

        Room on another host than the desired one has to be there for longer.
        """
        world = self._world
        resmgr = world.elections.leaders.get("resmgr")
        since_freed = world.kernel.now - self._freed_at
        if not isinstance(resmgr, Resmgr) or since_freed < PLACED_WITHIN_SECONDS:
            return False
        held = resmgr.scheduler.registry.current(job_id, instance)
        if held is None or held.state is TaskState.PENDING:
            return False
        elsewhere = not held.desired_host or since_freed >= PLACED_WITHIN_SECONDS + _DESIRED_HOST_SECONDS
        return any(
            held.needs.resources.fits(agent.spec.resources - agent.used)
            for agent in world.cluster.agents.values()
            if elsewhere or agent.spec.hostname == held.desired_host
        )

    # At the end.

    def end(self) -> None:
        """Check that all that can end has ended, as it should."""
        world = self._world
        for job_id in sorted(self.acknowledged):
            stored = world.store.jobs[job_id]
            self._check_end(job_id, stored)
        self.services.end(self.acknowledged)
        self.gangs.end(self.acknowledged)
        self.schedules.end(self.acknowledged)
        alive = [run.id for run in world.cluster.runs.values() if run.live]
        if alive:
            raise Violation(f"still alive at the end: {', '.join(sorted(alive))}")
        resmgr = world.elections.leaders.get("resmgr")
        if isinstance(resmgr, Resmgr):
            for pool in resmgr.scheduler.tree.leaves():
                if any(pool.used):
                    raise Violation(f"nothing runs, and {pool.path} is charged with {Resources(*pool.used)}")

    def _check_end(self, job_id: JobId, stored: StoredJob) -> None:
        planned = self._world.jobs[job_id]
        state = stored.runtime.state
        if not state.terminal:
            counts = Counter(task.state.name for task in stored.tasks.values())
            raise Violation(f"job {job_id} ({planned.job.name}) is {state.name} at the end: {dict(counts)}")
        stopped = job_id in self.stopped
        asked = job_id in self._world.stops_asked
        if planned.job.service or (stopped and state is JobState.KILLED):
            return
        if self.dependents.in_vain(stored):
            if state is not JobState.KILLED:
                raise Violation(f"job {job_id} ({planned.job.name}) waits in vain, and is {state.name}")
            return
        expected = JobState.SUCCEEDED if planned.end is TaskState.SUCCEEDED else JobState.FAILED
        # Where a run is lost that would have failed, the next one may do well.
        allowed = {expected, JobState.SUCCEEDED, *((JobState.KILLED,) if asked else ())}
        if planned.job.max_failures == 0 or (asked and (planned.failing or planned.job.needed)):
            # A run that had started and is lost is not run again where no failure is allowed; nor is one that
            # fails, of a job that is stopped, nor one that was lost and waits for the others of its gang.
            allowed.add(JobState.FAILED)
        if state not in allowed:
            raise Violation(f"job {job_id} ({planned.job.name}) is {state.name}, not {expected.name}")
        if state is JobState.SUCCEEDED and len(stored.tasks) != planned.job.instances:
            raise Violation(f"job {job_id} has succeeded with {len(stored.tasks)} tasks")


def check_sums(scheduler: Scheduler) -> None:
    """Check that each pool is charged with what its tasks hold."""
    held: dict[str, list[int]] = {pool.id: [0, 0, 0, 0] for pool in scheduler.tree.leaves()}
    for task in (*scheduler.registry, *scheduler.registry.orphans.values()):
        if task.state is TaskState.PENDING:
            continue
        for kind, amount in enumerate(task.needs.resources.values()):
            held[task.pool.id][kind] += amount
    for pool in scheduler.tree.leaves():
        if list(pool.used) != held[pool.id]:
            raise Violation(f"{pool.path} is charged with {pool.used}, and its tasks hold {held[pool.id]}")
