"""A simulated cluster around the core. Tests draw what is answered when, and what comes twice or late.

The store is a dict that `commit` fills. A leader can crash between two cycles, and between storing a cycle
and carrying out its instructions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.limits import Limits
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from tests.property.jobmgr import invariants
from tests.unit.jobmgr_core.specs import JOB, stored_job

S = TaskState
SECOND = 1_000_000_000
LIMITS = Limits(rows_per_cycle=3)
BUCKET = 2
"""Instances whose rows are written together or not at all."""


@dataclass
class Simulation:
    spec: JobSpec
    outcomes: dict[tuple[int, int], TaskState]
    """How a run ends; SUCCEEDED where nothing is said."""
    limits: Limits = LIMITS
    rows: dict[int, TaskRuntime] = field(default_factory=dict)
    inbox: list[ev.Event] = field(default_factory=list)
    todo: list[ins.Instruction] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)
    """The run of each instance that resmgr knows and has not handed over."""
    alive: dict[tuple[int, int], list[TaskState]] = field(default_factory=dict)
    """Runs in Mesos, with the states that they are still to reach."""
    sent: list[tuple[Run, TaskStatus]] = field(default_factory=list)
    """All statuses there were: any may come again."""
    launched: list[tuple[int, int]] = field(default_factory=list)
    replies: list[tuple[ev.Event, object]] = field(default_factory=list)
    twice: list[tuple[int, int]] = field(default_factory=list)
    retired: bool = False
    monotonic: float = 100.0

    def __post_init__(self) -> None:
        self.runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, self.wall)
        self.specs = {1: self.spec}
        self.core = Core(self.limits)
        self.core.active.create(JOB, self.spec, self.runtime)

    @property
    def stored(self) -> JobSpec:
        """The job's config, as the store knows it."""
        return self.specs[self.runtime.config_version]

    @property
    def tasks(self) -> dict[int, TaskRuntime]:
        """The rows that are the job's: an update that was torn may have left others."""
        return {i: task for i, task in self.mine.items() if task.state is not S.DELETED}

    @property
    def mine(self) -> dict[int, TaskRuntime]:
        """The rows of the job, those of released instances among them."""
        return {i: task for i, task in self.rows.items() if i < self.stored.instance_count}

    @property
    def wall(self) -> int:
        return 1_700_000_000 * SECOND + round(self.monotonic * SECOND)

    # The shell.

    def run_cycle(self, crash: bool = False) -> None:
        """Run a cycle. With `crash` the leader crashes after storing, before it acts."""
        events, self.inbox = self.inbox, []
        cycle = self.core.run_cycle(events, ev.Now(self.wall, self.monotonic))
        self.replies += zip(events, cycle.replies, strict=True)
        for change in cycle.changes.values():
            self.rows.update(change.tasks)
            self.runtime = change.runtime or self.runtime
        self.core.commit(cycle)
        self.check(cycle.changes)
        if not crash:
            self.todo += cycle.instructions

    def tear(self, at: int) -> None:
        """Crash while a cycle is stored: some of the job's rows are written, its runtime is not."""
        events, self.inbox = self.inbox, []
        cycle = self.core.run_cycle(events, ev.Now(self.wall, self.monotonic))
        for change in cycle.changes.values():
            self.rows.update((i, task) for i, task in change.tasks.items() if at >> (i // BUCKET) & 1)
        self.inbox = events
        self.fail_over()

    def fail_over(self) -> None:
        """Let the next leader read the store. It gets the statuses that this one had not stored."""
        self.inbox = [event for event in self.inbox if isinstance(event, ev.Statuses)]
        self.todo = []
        self.core = Core(self.limits)
        if not self.retired:
            self.core.active.recover(stored_job(self.runtime, self.rows, self.stored, *self.specs.values()))

    def check(self, changes: object) -> None:
        """What the leader holds is what is stored, and the counts are those of the rows. What a torn update
        has left is written again before it counts."""
        invariants.check(self.core.active)
        in_flight = self.core.active.jobs.get(JOB)
        if in_flight is None:
            return
        created = dict(in_flight.job.created())
        assert created == {i: self.rows.get(i) for i in created}
        removed = {i for i, task in self.mine.items() if task.state is S.DELETED}
        assert set(created) | removed >= {i for i in self.rows if i < self.spec.instance_count}
        assert set(in_flight.job.free) >= removed and removed.isdisjoint(created)
        released = sum(task.goal is S.DELETED for task in in_flight.job.tasks)
        assert in_flight.job.runtime.released == released
        assert in_flight.job.counts == Counter(task.state for task in created.values())
        assert in_flight.job.runtime.config_counts == Counter(
            task.config_version for task in created.values()
        )
        assert set(in_flight.job.specs) == in_flight.job.versions()

    def grow(self, more: int, max_failures: int | None = None) -> None:
        """Add instances, with a retry policy of their own where one is given: the config is stored first."""
        version = max(self.specs) + 1
        count, default = self.stored.instance_count + more, self.stored.default
        if max_failures is not None:
            default = replace(default, max_failures=max_failures)
        self.specs[version] = replace(self.stored, version=version, instance_count=count, default=default)
        self.inbox.append(ev.JobUpdated(JOB, self.specs[version], self.runtime.config_version))

    # The others.

    def act(self, at: int) -> None:
        """Carry out one instruction and answer it."""
        instruction = self.todo.pop(at % len(self.todo))
        if isinstance(instruction, ins.Enqueue):
            for gang in instruction.gangs:
                for instance, run in gang:
                    if self.known.get(instance, 0) < run:
                        self.known[instance] = run
            runs = [run for gang in instruction.gangs for run in gang]
            self.inbox.append(ev.Enqueued(instruction.job_id, runs))
        elif isinstance(instruction, ins.Compare):
            spans = instruction.spans
            runs = [(instance, run) for first, end, run in spans for instance in range(first, end)]
            missing = [(instance, run) for instance, run in runs if self.known.get(instance, 0) < run]
            self.inbox.append(ev.Compared(instruction.job_id, missing))
        elif isinstance(instruction, ins.Withdraw):
            for instance, _ in instruction.runs:
                self.known.pop(instance, None)
            self.inbox.append(ev.Withdrawn(instruction.job_id, instruction.runs))
        elif isinstance(instruction, ins.Launch):
            self._launch(instruction)
        elif isinstance(instruction, ins.Kill):
            for killed in instruction.runs:
                self._kill(killed)
        elif isinstance(instruction, ins.Reconcile):
            for requested, _ in instruction.runs:
                self._say(requested, self._state(requested))
        elif isinstance(instruction, ins.Retire):
            self.retired = True

    def place(self, ports: tuple[int, ...] = ()) -> None:
        """resmgr hands over all that it holds, on one host."""
        runs = tuple(Run(JOB, instance, run) for instance, run in self.known.items())
        if runs:
            self.known.clear()
            self.inbox.append(ev.Placed([ev.Placement("host", "agent", "offer", ports, runs)]))

    def refuse_launch(self, at: int) -> bool:
        """Refuse a launch: its claim is over."""
        launches = [each for each in self.todo if isinstance(each, ins.Launch)]
        if not launches:
            return False
        launch = launches[at % len(launches)]
        self.todo.remove(launch)
        self.inbox.append(ev.LaunchRefused(launch.runs, "invalid offers", faulty=False))
        return True

    def refuse_enqueue(self, at: int) -> bool:
        """resmgr refuses the gangs of an instruction, and does not hold them."""
        enqueues = [each for each in self.todo if isinstance(each, ins.Enqueue)]
        if not enqueues:
            return False
        enqueue = enqueues[at % len(enqueues)]
        runs = [run for gang in enqueue.gangs for run in gang]
        if any(self.known.get(instance) == run for instance, run in runs):
            return False
        self.todo.remove(enqueue)
        for gang in enqueue.gangs:
            self.inbox.append(ev.EnqueueRefused(enqueue.job_id, gang, "the pool is full"))
        return True

    def lose_answer(self, at: int, happened: bool) -> bool:
        """Make the outcome of a launch unknown."""
        launches = [each for each in self.todo if isinstance(each, ins.Launch)]
        if not launches:
            return False
        launch = launches[at % len(launches)]
        self.todo.remove(launch)
        if happened:
            self._launch(launch)
            self.inbox.pop()
        self.inbox.append(ev.LaunchUncertain(launch.runs))
        return True

    def progress(self, at: int, by_master: bool = False) -> None:
        """One run in Mesos goes a step further. With `by_master` the agent may report it later."""
        keys = list(self.alive)
        instance, run = keys[at % len(keys)]
        state = self.alive[instance, run].pop(0)
        if state.terminal:
            del self.alive[instance, run]
        gone = Run(JOB, instance, run)
        if by_master:
            self.sent.append((gone, self._status(gone, state, b"agent")))
            self.monotonic += 1
        self._say(gone, state, b"" if by_master else b"agent")

    def repeat(self, at: int) -> None:
        """An old status comes again."""
        self.inbox.append(ev.Statuses([self.sent[at % len(self.sent)]]))

    def restart_resmgr(self) -> None:
        """resmgr restarts and holds nothing; jobmgr notices it."""
        self.known.clear()
        self.inbox.append(ev.ResmgrChanged())

    def settle(self, limit: int = 3000) -> None:
        """Run until the job has ended."""
        for _ in range(limit):
            if self.retired and not self.alive and not self.todo and not self.inbox:
                return
            self.advance()
        raise AssertionError(f"not over: {self.runtime.state.name} {self.rows} {self.todo} {self.known}")

    def advance(self) -> None:
        """Let the next thing happen, or the time until the next deadline pass."""
        if self.todo:
            self.act(0)
        elif self.alive:
            self.progress(0)
        else:
            self.place()
        if not self.todo and not self.inbox and not self.alive:
            due = self.core.idle_until()
            self.monotonic = max(self.monotonic, due or self.monotonic)
        self.run_cycle()

    def _launch(self, launch: ins.Launch) -> None:
        for run in launch.runs:
            key = (run.instance, run.run)
            if any(instance == run.instance for instance, _ in self.alive):
                self.twice.append(key)
            assert self.rows[run.instance].state is not S.INITIALIZED, "launched before it was stored"
            self.launched.append(key)
            self.alive[key] = [S.STARTING, S.RUNNING, self.outcomes.get(key, S.SUCCEEDED)]
        self.inbox.append(ev.Launched(launch.runs))

    def _kill(self, run: Run) -> None:
        alive = self.alive.pop((run.instance, run.run), None)
        self._say(run, S.LOST if alive is None else S.KILLED)

    def _state(self, run: Run) -> TaskState:
        rest = self.alive.get((run.instance, run.run))
        if rest is None:
            return S.LOST
        return {3: S.LAUNCHED, 2: S.STARTING, 1: S.RUNNING}[len(rest)]

    def _say(self, run: Run, state: TaskState, uuid: bytes = b"") -> None:
        status = self._status(run, state, uuid)
        self.sent.append((run, status))
        self.inbox.append(ev.Statuses([(run, status)]))

    def _status(self, run: Run, state: TaskState, uuid: bytes) -> TaskStatus:
        message = f"the agent says {state.name}" if uuid else "the master says so"
        return TaskStatus(mesos_task_id(*run), state, self.wall, agent_id="agent", message=message, uuid=uuid)
