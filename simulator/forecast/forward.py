"""One run of the simulator from the state of a cluster, until a job has started.

The daemons begin as after a change of all leaders at once: they read what is stored and go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hostmgr.core.cluster_manager.reconciliation import ReconciliationLimits
from hostmgr.core.term import TermLimits
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.limits import Limits
from peloton.model.ids import JobId, MesosTaskId, mesos_task_id, parse_mesos_task_id
from peloton.model.job import JobRuntime
from peloton.model.live_state import LiveJob, LiveState
from peloton.model.states import ON_HOST_TASK_STATES, JobState, JobType, TaskState
from peloton.model.task import TaskRuntime
from resmgr.core.scheduler import Scheduler
from simulator.daemons.hostmgr import HostmgrOptions
from simulator.daemons.jobmgr import JobmgrOptions
from simulator.forecast.durations import Draws
from simulator.garbage import rare_collections
from simulator.simulation import NEVER, Options, Simulation
from simulator.world.agents import HostSpec, SimAgent, SimRun
from simulator.world.cluster import Course
from simulator.world.kernel import NANOSECONDS
from simulator.world.store import StoredJob

EVENTS_AT_ONCE = 500
"""Events between two looks at the bound of the run."""
NEAR_SECONDS = 3_600.0
FAR_PERIOD_SECONDS = 600.0
"""Tasks to preempt are looked for with this period, at the least, once NEAR_SECONDS have passed: looking for
them is most of the work where jobs wait for days."""


def forward_options() -> Options:
    """Return the options of daemons that know the state of all runs when they begin."""
    return Options(
        jobmgr=JobmgrOptions(Limits(confirm_after=NEVER, news_after=NEVER), reasons=False),
        hostmgr=HostmgrOptions(TermLimits(reconcile=ReconciliationLimits(interval=NEVER))),
    )


class Forward(Simulation):
    """A cluster from a state on."""

    def __init__(self, state: LiveState, draws: Draws, job_id: JobId, options: Options | None = None) -> None:
        """Follow the instances of a job that are on no host."""
        hosts = [HostSpec(host.hostname, host.resources, host.labels) for host in state.hosts]
        super().__init__(hosts, state.pools, (), options or forward_options())
        self.kernel.epoch = state.now / NANOSECONDS
        self.starts: dict[int, float] = {}
        """When instances of the job have started that waited, in seconds from the state on."""
        self._target = job_id
        self._draws = draws
        self._hosts = {agent.spec.hostname: agent for agent in self.cluster.agents.values()}
        self._waiting = 0
        self.cluster.on_start = self._note_start
        self.resmgr.loop.on_admission = self._sort_queues
        for job in state.jobs:
            self._store(job)
            if job.job_id == job_id:
                self._waiting = len(job.waiting())

    def _behaviour(self, run: MesosTaskId) -> Course:
        job_id, instance, _ = parse_mesos_task_id(run)
        return Course(self.options.start_seconds, self._draws.seconds(job_id, instance))

    # What is there at the start.

    def _store(self, job: LiveJob) -> None:
        tasks = {instance: self._adopted(job, instance, task) for instance, task in job.tasks.items()}
        batch = job.spec.type is JobType.BATCH
        runtime = JobRuntime(
            state=JobState.PENDING if tasks else JobState.INITIALIZED,
            goal=JobState.SUCCEEDED if batch else JobState.RUNNING,
            config_version=job.spec.version,
            creation_time=job.created,
            updated_at=job.created,
        )
        self.store.jobs[job.job_id] = StoredJob({job.spec.version: job.spec}, runtime, tasks)
        self.store.active[job.job_id] = None

    def _adopted(self, job: LiveJob, instance: int, task: TaskRuntime) -> TaskRuntime:
        """Return a stored task; put its run on its host where it is on one."""
        if task.state not in ON_HOST_TASK_STATES:
            return task
        agent = self._hosts.get(task.host)
        if agent is None:  # its host takes no tasks any more: the run ends, and another one follows
            return replace(
                task,
                state=TaskState.PENDING,
                run=task.run + 1,
                desired_run=task.run + 1,
                host="",
                agent_id="",
            )
        self._put(job, instance, task, agent)
        return replace(task, agent_id=agent.id)

    def _put(self, job: LiveJob, instance: int, task: TaskRuntime, agent: SimAgent) -> None:
        began = task.start_time / NANOSECONDS if task.start_time else self.kernel.epoch
        elapsed = max(0.0, self.kernel.epoch - began)
        running = task.state is not TaskState.LAUNCHED and task.state is not TaskState.STARTING
        seconds = self._draws.seconds(job.job_id, instance, elapsed if running else 0.0)
        course = Course(
            0.0 if running else self.options.start_seconds,
            min(NEVER, max(0.0, seconds - elapsed) if running else seconds),
        )
        run = mesos_task_id(job.job_id, instance, task.run)
        self.cluster.adopt(run, agent, job.spec.task(instance).resources, course)

    def _sort_queues(self, scheduler: Scheduler, after: bool) -> None:
        """Have gangs wait, before the first cycle, in the queues in which those are that were tried already.

        Else each would be tried once before those ahead of it.
        """
        self.resmgr.loop.on_admission = None
        for queues in scheduler.pending.active.values():
            non_preemptible, controller, revocable, pending = queues.all
            for gang in list(pending):
                to = non_preemptible if not gang.preemptible else controller if gang.controller else revocable
                if to is not revocable or gang.revocable:
                    pending.remove(gang)
                    to.add(gang)

    # The run.

    def _look_rarely(self) -> None:
        options = self.options.resmgr
        options.preemption_period = max(options.preemption_period, FAR_PERIOD_SECONDS)

    def _note_end(self, job: CachedJob) -> None:
        """Nothing follows from the end of a job."""

    def _note_start(self, run: SimRun) -> None:
        job_id, instance, _ = parse_mesos_task_id(run.id)
        if job_id == self._target and instance not in self.starts:
            self.starts[instance] = self.kernel.now
            if len(self.starts) >= self._waiting:
                self.kernel.stop()

    def go(self, until: float, over: Callable[[], bool]) -> bool:
        """Run until all instances have started or a time is reached; return False where `over` ended it."""
        self.start()
        self.kernel.after(NEAR_SECONDS, self.resmgr.life, self._look_rarely)
        ended_early = False
        left = EVENTS_AT_ONCE

        def stop() -> bool:
            nonlocal ended_early, left
            left -= 1
            if left:
                return False
            left = EVENTS_AT_ONCE
            ended_early = over()
            return ended_early

        with rare_collections():
            self.kernel.run(until, stop)
        return not ended_early
