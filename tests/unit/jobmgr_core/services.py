"""Services for the core's tests: specs, and a core that is turned by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.limits import Limits
from jobmgr.core.task.returns import returns_to
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import PelotonError
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.volume import Volume, VolumeState
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    EntityVersion,
    Ranges,
    Workflow,
    WorkflowEvent,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from peloton.wire.job import job_spec
from tests.unit.jobmgr_core.specs import JOB, config, stored_job

SECOND = 1_000_000_000
S = TaskState


def service(instances: int = 3, version: int = 1, command: str = "serve", checked: bool = False) -> JobSpec:
    """A service whose instances run a command, with a health check if `checked`."""
    return job_spec(service_config(instances, command, checked), version)


def service_config(instances: int = 3, command: str = "serve", checked: bool = False) -> job_pb2.JobConfig:
    """As `service`, on the wire."""
    wire = config(instances)
    wire.type = job_pb2.SERVICE
    wire.defaultConfig.command.value = command
    if checked:
        wire.defaultConfig.healthCheck.enabled = True
        wire.defaultConfig.healthCheck.type = task_pb2.HealthCheckConfig.COMMAND
        wire.defaultConfig.healthCheck.commandCheck.command = "true"
    return wire


@dataclass
class Service:
    """A service in a core. resmgr, hostmgr and Mesos do what they are told to when `act` is called."""

    spec: JobSpec
    limits: Limits = field(default_factory=Limits)
    rows: dict[int, TaskRuntime] = field(default_factory=dict)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    history: list[WorkflowEvent] = field(default_factory=list)
    volumes: dict[str, Volume] = field(default_factory=dict)
    host: str = "host"
    """Where resmgr places everything."""
    todo: list[ins.Instruction] = field(default_factory=list)
    queued: dict[int, int] = field(default_factory=dict)
    """The run of each instance that resmgr holds."""
    alive: dict[tuple[int, int], TaskState] = field(default_factory=dict)
    """Runs in Mesos."""
    held: dict[int, str] = field(default_factory=dict)
    """The host that hostmgr holds for each instance."""
    twice: list[tuple[int, int]] = field(default_factory=list)
    on_cycle: list[Callable[[Cycle], object]] = field(default_factory=list)
    """Called with each cycle before what it decides is stored."""
    deleted: bool = False
    monotonic: float = 1000.0
    created: Workflow | None = None

    def __post_init__(self) -> None:
        self.ids = count(1)
        self.specs = {self.spec.version: self.spec}
        self.runtime = JobRuntime(
            JobState.INITIALIZED,
            JobState.RUNNING,
            1,
            self.wall,
            update_id=self.created.id if self.created else "",
            workflow_version=1 if self.created else 0,
        )
        if self.created is not None:
            self.workflows[self.created.id] = self.created
        self.core = Core(self.limits)
        self.core.create(JOB, self.spec, self.runtime, self.created)

    @property
    def wall(self) -> int:
        return 1_700_000_000 * SECOND + round(self.monotonic * SECOND)

    @property
    def workflow(self) -> Workflow | None:
        """The one that runs, or ran last, as stored."""
        return self.workflows.get(self.runtime.update_id)

    @property
    def tasks(self) -> dict[int, TaskRuntime]:
        """The instances that are there."""
        return {i: task for i, task in sorted(self.rows.items()) if task.state is not S.DELETED}

    def states(self) -> list[str]:
        return [task.state.name for task in self.tasks.values()]

    def versions(self) -> list[int]:
        return [task.config_version for task in self.tasks.values()]

    # What clients ask.

    def cycle(self, *events: ev.Event, crash: bool = False) -> list[Any]:
        """One cycle: what it decides is stored, then its instructions wait to be carried out."""
        cycle = self.core.run_cycle(list(events), ev.Now(self.wall, self.monotonic))
        for noted in self.on_cycle:
            noted(cycle)
        for change in cycle.changes.values():
            self.store(change)
        self.core.commit(cycle)
        if not crash:
            self.todo += cycle.instructions
        return cycle.replies

    def store(self, change: Change) -> None:
        """Store a change as a whole."""
        self.rows.update(change.tasks)
        self.workflows.update(change.workflows)
        self.history += change.workflow_events
        self.volumes.update(change.volumes)
        self.runtime = change.runtime or self.runtime

    def ask(self, event: ev.Event) -> Any:
        (reply,) = self.cycle(event)
        return reply

    def begin(
        self,
        type_: WorkflowType,
        spec: JobSpec | None = None,
        ranges: Ranges = (),
        expected: EntityVersion | None = None,
        **options: Any,
    ) -> Any:
        """Start a workflow; for an UPDATE to `spec`. Returns its id, or the error."""
        stored = replace(spec or self.specs[self.runtime.config_version], version=max(self.specs) + 1)
        self.specs[stored.version] = stored
        fresh = Workflow(
            f"workflow-{next(self.ids)}",
            JOB,
            type_,
            WorkflowState.INITIALIZED,
            WorkflowOptions(**options),
            0,
            0,
            ranges,
        )
        reply = self.ask(ev.WorkflowRequested(JOB, fresh, stored, self.runtime.config_version, expected))
        return reply if isinstance(reply, PelotonError) else fresh.id

    def update(self, spec: JobSpec, **options: Any) -> Any:
        return self.begin(WorkflowType.UPDATE, spec, **options)

    def steer(self, action: ev.WorkflowAction) -> Any:
        return self.ask(ev.WorkflowSteered(JOB, action))

    # What the others do.

    def act(self) -> None:
        """Carry out all instructions, and answer them."""
        todo, self.todo = self.todo, []
        for instruction in todo:
            self.carry_out(instruction)

    def carry_out(self, instruction: ins.Instruction) -> None:
        if isinstance(instruction, ins.Enqueue):
            queued = [run for gang in instruction.gangs for run in gang]
            self.queued.update({i: number for i, number in queued if self.queued.get(i, 0) < number})
            self.cycle(ev.Enqueued(JOB, queued))
        elif isinstance(instruction, ins.Withdraw):
            for instance, number in instruction.runs:
                if self.queued.get(instance) == number:
                    del self.queued[instance]
            self.cycle(ev.Withdrawn(JOB, instruction.runs))
        elif isinstance(instruction, ins.Compare):
            asked = [(i, number) for first, end, number in instruction.spans for i in range(first, end)]
            missing = [(i, number) for i, number in asked if self.queued.get(i, 0) < number]
            self.cycle(ev.Compared(JOB, missing))
        elif isinstance(instruction, ins.Launch):
            for run in instruction.runs:
                self.twice += [key for key in self.alive if key[0] == run.instance]
                self.alive[run.instance, run.run] = S.LAUNCHED
                self.held.pop(run.instance, None)
            self.cycle(ev.Launched(instruction.runs))
        elif isinstance(instruction, ins.ReleaseHolds):
            for each in instruction.instances:
                self.held.pop(int(each.rpartition("-")[2]), None)
        elif isinstance(instruction, ins.Kill):
            goal = self.runtime.goal  # as drivers do: not where the instance does not come back any more
            self.held.update(
                {
                    run.instance: host
                    for run, host in instruction.held
                    if self.rows[run.instance].state is not S.LAUNCHED
                    and returns_to(goal, self.rows[run.instance]) == host
                }
            )
            for run in instruction.runs:
                gone = self.alive.pop((run.instance, run.run), None) is None
                self.say(run.instance, run.run, S.LOST if gone else S.KILLED)
        elif isinstance(instruction, ins.Settle):
            for run, _ in instruction.runs:
                if self.queued.get(run.instance) == run.run:
                    del self.queued[run.instance]
        elif isinstance(instruction, ins.Reconcile):
            for run, _ in instruction.runs:
                self.say(run.instance, run.run, self.alive.get((run.instance, run.run), S.LOST))
        elif isinstance(instruction, ins.Retire):
            self.deleted = instruction.delete

    def place(self) -> None:
        """resmgr hands over all it holds, on one host."""
        runs = tuple(Run(JOB, instance, run) for instance, run in sorted(self.queued.items()))
        self.queued.clear()
        if runs:
            self.cycle(ev.Placed([ev.Placement(self.host, "agent", "offer", (), runs)]))

    def say(self, instance: int, run: int, state: TaskState, healthy: bool | None = None) -> None:
        """Mesos says so."""
        status = TaskStatus(
            mesos_task_id(JOB, instance, run), state, self.wall, "agent", healthy=healthy, uuid=b"agent"
        )
        self.cycle(ev.Statuses([(Run(JOB, instance, run), status)]))

    def run(self, *instances: int, healthy: bool | None = None) -> None:
        """Launched runs begin to run: of all instances, or of these."""
        for (instance, run), state in list(self.alive.items()):
            if state is S.LAUNCHED and (not instances or instance in instances):
                self.alive[instance, run] = S.RUNNING
                self.say(instance, run, S.RUNNING, healthy)

    def end(self, instance: int, state: TaskState = S.FAILED, healthy: bool | None = None) -> None:
        """The live run of an instance ends by itself."""
        ((_, run),) = [key for key in self.alive if key[0] == instance]
        del self.alive[instance, run]
        self.say(instance, run, state, healthy)

    def step(self) -> None:
        """Everything goes one step further, but for what waits for its time."""
        self.cycle()
        self.act()
        self.place()
        self.act()
        self.run()

    def settle(self, limit: int = 200) -> None:
        """Everything goes on until nothing is to be done but to wait for time to pass."""
        for _ in range(limit):
            before = (dict(self.rows), dict(self.workflows))
            self.step()
            if before == (self.rows, self.workflows) and not self.todo and not self.core.rollouts.pending:
                return
        raise AssertionError(f"not settled: {self.rows} {self.workflow}")

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.monotonic += seconds
        self.cycle()

    def fall(self) -> None:
        """The leader falls with all that was under way; the next one reads the store."""
        self.todo = []
        self.core = Core(self.limits)
        newest = self.specs[self.runtime.config_version]
        job = stored_job(self.runtime, self.rows, newest, *self.specs.values(), workflow=self.workflow)
        live = (each for each in self.volumes.values() if each.goal is not VolumeState.DELETED)
        job.volumes = {each.id: each for each in live}
        self.core.recover(job)


def running(instances: int = 3, checked: bool = False) -> Service:
    """A service whose instances run."""
    it = Service(service(instances, checked=checked))
    it.settle()
    it.run(healthy=True)
    return it


def state(it: Service) -> WorkflowState:
    """The state of the last workflow."""
    assert it.workflow is not None
    return it.workflow.state


def told(it: Service, instance: int = WHOLE_WORKFLOW) -> list[str]:
    """The events of the workflow, or of an instance, oldest first."""
    return [event.state.name for event in it.history if event.instance == instance]
