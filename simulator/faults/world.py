"""One case: all daemons, a rough time with faults, then a calm one until all has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import Any

from hostmgr.core.claims.lifecycle import ClaimLimits
from hostmgr.core.cluster_manager.reconciliation import ReconciliationLimits
from hostmgr.core.hosts.all_hosts import HostLimits
from hostmgr.core.term import TermLimits
from jobmgr.core.state.limits import Limits as JobmgrLimits
from peloton.errors import AlreadyExists, NotFound, PelotonError
from peloton.model.ids import JobId, MesosTaskId, parse_mesos_task_id
from peloton.model.states import TaskState, TaskType
from resmgr.core.preemption.decide import Rules
from resmgr.core.state.limits import Limits as ResmgrLimits
from simulator.daemons.hostmgr import Hostmgr, HostmgrOptions
from simulator.daemons.jobmgr import Jobmgr, JobmgrOptions
from simulator.daemons.placement import Placement
from simulator.daemons.resmgr import Resmgr
from simulator.daemons.resmgr_term import ResmgrOptions
from simulator.daemons.translate import NeedsOfPlacement, NeedsOfTasks
from simulator.faults.asks import SCHEDULE_SPEED
from simulator.faults.checks import Checks
from simulator.faults.clients import FAILING, Clients
from simulator.faults.elections import Elections, Startable
from simulator.faults.fault import LEADERS, ROUGH_SECONDS, Fault
from simulator.faults.plan import Plan, PlannedJob
from simulator.faults.violation import Violation
from simulator.faults.weather import StoreWeather, Weather
from simulator.jobs import job_id_of
from simulator.world.cluster import Cluster, Course
from simulator.world.kernel import Crash, Kernel, Life
from simulator.world.network import Caller, Network
from simulator.world.store import Store
from simulator.world.universe import Universe

CALM_SECONDS = 3600.0
"""For so long all may take to end once nothing fails any more."""
AUDIT_SECONDS = 400.0
SETTLING_SECONDS = 75.0
"""For so long after the last fault began, what is missing somewhere may still be on its way."""
STORING_SECONDS = 2.0
"""For so long jobmgr may take to hear and store what resmgr has heard of already, where nothing fails."""
KINDS = (TaskType.BATCH, TaskType.STATELESS)
HISTORY = 40
"""Events that a failure shows."""
_JOBMGR = JobmgrLimits(stuck_after=300.0, news_after=60.0, confirm_after=30.0)
_RESMGR = ResmgrOptions(
    ResmgrLimits(placing=120.0, launching=120.0, preempting=60.0, reserved=120.0),
    audit_interval=AUDIT_SECONDS,
)
_RESMGR_ASKED = replace(_RESMGR, rules=Rules(period=5.0, strikes=1), preemption_period=5.0)
"""Where reservations are exchanged, those who lose them are preempted soon."""
SLOW_STARTS = 0.2
"""Share of the runs that take up to 20 s to start."""


class _World(Elections):
    """The elections, and who is present."""

    def __init__(self, world: FaultWorld, random: Random) -> None:
        super().__init__(world.kernel, random, world.build)
        self._world = world

    def present(self, role: str) -> Collection[str]:
        """Return the names of the live processes of a role."""
        if role == "placement":
            return [each.life.name for each in self._world.engines.values() if not each.life.ended]
        leader = self.leaders.get(role)
        return [] if leader is None or leader.life.ended else [leader.life.name]


class FaultWorld:
    """All there is in one case."""

    def __init__(self, plan: Plan, mutate: Callable[[FaultWorld], None] | None = None) -> None:
        """`mutate` plants a bug."""
        self.plan = plan
        self.kernel = Kernel()
        random = Random(plan.seed ^ 0x5EED)
        self._random = random
        planned = {**dict(zip(plan.numbers, plan.jobs, strict=True)), **plan.asked_jobs}
        self.jobs: dict[JobId, PlannedJob] = {job_id_of(number): job for number, job in planned.items()}
        self.stops_asked: set[JobId] = set()
        self._needs, self._placed = NeedsOfTasks(), NeedsOfPlacement()
        self.on_build: Callable[[Any], None] = lambda daemon: None
        """Called with each daemon before it starts."""
        self.elections: Elections = _World(self, random)
        self.weather = Weather(self.kernel, random)
        self.store_weather = StoreWeather(self.kernel, random)
        self.network = Network(self.kernel, self.elections, self.weather)
        self.store = Store(self.kernel, self.store_weather)
        self.store.pools = {pool.id: pool for pool in plan.pools}
        self.cluster = Cluster(self.kernel, plan.hosts, self._behaviour)
        self.cluster.launched = {}
        self.universe = Universe(self.kernel, self.network, self.store, self.cluster, self.elections)
        self.universe.shorten = lambda seconds, share: seconds * (1 - share * random.random())
        self.engines: dict[TaskType, Placement] = {}
        self._engine_numbers = 0
        self._user = Caller(Life("client/user"), 0)
        self._fate = Life("fate/one")
        self._hostmgr = _hostmgr_options(plan.reconcile)
        self._armed: dict[str, tuple[int, str]] = {}
        """By role: at how many more points its process crashes, and the name of those that count."""
        self._restart: dict[str, float] = {}
        self.checks = Checks(self)
        self.history: deque[str] = deque(maxlen=HISTORY)
        self._clients = Clients(self)
        self._connect()
        if mutate is not None:
            mutate(self)

    def _connect(self) -> None:
        self.kernel.on_crash = self._on_crash
        self.kernel.at_point = self._at_point
        self.kernel.after_each = self.checks.step
        self.cluster.on_launch = self.checks.on_launch
        self.cluster.on_end = self.checks.on_end
        self.cluster.on_acknowledged = self.checks.on_acknowledged
        self.store.on_write = self.checks.on_write
        self.store.on_create = self.checks.schedules.on_create
        self.store.on_delete = self.checks.schedules.on_delete

    # Processes.

    def build(self, role: str, life: Life, term: int) -> Startable:
        """Return the leader of a role for a term."""
        server: Startable
        if role == "jobmgr":
            server = Jobmgr(self.universe, life, term, _jobmgr_options(self.plan), self._needs)
        elif role == "resmgr":
            options = _RESMGR_ASKED if self.plan.asks else _RESMGR
            resmgr = server = Resmgr(self.universe, life, term, options, self._needs, self._placed)
            resmgr.loop.on_admission = self.checks.on_admission
        else:
            server = Hostmgr(self.universe, life, term, self._hostmgr)
        self.on_build(server)
        return server

    def _start_engine(self, kind: TaskType) -> None:
        self._engine_numbers += 1
        life = Life(f"placement/{kind.name.lower()}-{self._engine_numbers}")
        engine = self.engines[kind] = Placement(self.universe, life, kind)
        self.on_build(engine)
        self.kernel.after(0.0, life, engine.start)

    def _at_point(self, life: Life, where: str) -> None:
        role = life.name.partition("/")[0]
        left, name = self._armed.get(role, (0, ""))
        if not left or name not in ("", where):
            return
        if left > 1:
            self._armed[role] = left - 1, name
            return
        del self._armed[role]
        self.note(f"{life.name} crashes {where}")
        raise Crash(life, where)

    def _on_crash(self, life: Life) -> None:
        role = life.name.partition("/")[0]
        if role == "placement":
            for kind, engine in self.engines.items():
                if engine.life is life:
                    self.kernel.after(self._restart.get(role, 1.0), self._fate, self._start_engine, kind)
        else:
            self.elections.ended(life)

    def note(self, what: str) -> None:
        """Remember what happens, for the report of a failure."""
        self.history.append(f"{self.kernel.now:9.3f} {what}")

    # Runs.

    def _behaviour(self, run: MesosTaskId) -> Course:
        job_id = run[:36]
        planned = self.jobs[self.checks.schedules.schedule_of.get(job_id, job_id)]
        number = int(run.rpartition("-")[2])
        random = Random(f"{self.plan.seed} {run}")
        starts, seconds = random.uniform(0.05, 1.0), planned.job.seconds * random.uniform(0.5, 1.5)
        if random.random() < SLOW_STARTS:
            starts = random.uniform(5.0, 20.0)
        if planned.job.service:
            if self._is_failing(run):
                return Course(starts, 0.5, TaskState.FAILED, "Command exited with status 1")
            return Course(starts, 1e9)
        failed = number <= planned.failing
        end = TaskState.FAILED if failed else TaskState.SUCCEEDED
        return Course(starts, seconds, end, "Command exited with status 1" if failed else "")

    def _is_failing(self, run: MesosTaskId) -> bool:
        """Return whether a run of a service has a config with which runs fail."""
        job_id, instance, _ = parse_mesos_task_id(run)
        job = self.store.jobs[job_id]
        version = job.tasks[instance].config_version
        return job.specs[version].default.fingerprint.startswith(FAILING)

    # Clients.

    def _create(self, job_id: JobId) -> None:
        planned = self.jobs[job_id]
        if any(each.job_id not in self.checks.acknowledged for each in planned.job.depends_on):
            self.kernel.after(1.0, self._user.life, self._create, job_id)
            return

        def done(answer: Any) -> None:
            if answer is None or isinstance(answer, AlreadyExists):
                self.checks.acknowledged.add(job_id)
                return
            self.kernel.after(1.0, self._user.life, self._create, job_id)

        spec = planned.job.spec(planned.job.pool[1:])
        self.network.call(self._user, "jobmgr", "on_create", (job_id, spec), done)

    def _stop(self, job_id: JobId) -> None:
        if self.jobs[job_id].job.service and job_id not in self.stops_asked:
            self.checks.stopping(job_id)
        self.stops_asked.add(job_id)

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                late = isinstance(answer, NotFound) and job_id in self.checks.acknowledged
                if late and job_id not in self.store.jobs:
                    raise Violation(f"job {job_id} was acknowledged and is not found")
                self.kernel.after(1.0, self._user.life, self._stop, job_id)
            else:
                self.checks.stopped.add(job_id)

        self.network.call(self._user, "jobmgr", "on_stop", (job_id,), done)

    # Faults.

    def _strike(self, fault: Fault) -> None:
        self.note(f"fault: {fault}")
        match fault.kind:
            case "crash":
                self._armed[fault.target] = fault.point, fault.where
                self._restart[fault.target] = fault.seconds
            case "freeze":
                self._freeze(fault)
            case "overlap":
                self.elections.overlap(fault.target, fault.seconds)
            case "partition":
                one, _, other = fault.target.partition(" ")
                self.weather.cut(one, other, fault.seconds)
            case "one-way":
                sender, _, receiver = fault.target.partition(" ")
                self.weather.silence(sender, receiver, fault.seconds)
            case "delay":
                self.weather.delay(fault.share, fault.seconds)
            case "loss":
                self.weather.lose(fault.share, fault.seconds)
            case "repetition":
                self.weather.repeat(fault.share, fault.seconds)
            case "store":
                self.store_weather.fail(fault.share, fault.seconds)
            case "clock":
                for life in self._lives(fault.target):
                    life.wall_offset += fault.seconds
            case _:
                self._strike_cluster(fault)

    def _strike_cluster(self, fault: Fault) -> None:
        if fault.kind == "master":
            self.cluster.elect()
            return
        agents = [agent for agent in self.cluster.agents.values() if agent.spec is self._host(fault)]
        for agent in agents:
            if fault.kind == "reboot":
                self.cluster.reboot(agent)
            else:
                self.cluster.part(agent)
                self.kernel.after(fault.seconds, self._fate, self.cluster.reunite, agent)

    def _host(self, fault: Fault) -> Any:
        return self.plan.hosts[int(fault.target)]

    def _freeze(self, fault: Fault) -> None:
        if fault.target in LEADERS:
            self.elections.freeze(fault.target, fault.seconds)
            return
        for life in self._lives(fault.target):
            life.frozen_until = self.kernel.now + fault.seconds

    def _lives(self, role: str) -> list[Life]:
        if role == "placement":
            return [engine.life for engine in self.engines.values()]
        leader = self.elections.leaders.get(role)
        return [] if leader is None else [leader.life]

    # The run.

    def run(self) -> None:
        """Run the case. Raises Violation where an invariant does not hold."""
        for role in ("hostmgr", "resmgr", "jobmgr"):
            self.elections.elect(role)
        for kind in KINDS:
            self._start_engine(kind)
        for job_id, planned in self.jobs.items():
            self.kernel.after(planned.job.submit, self._user.life, self._create, job_id)
            if planned.stop_at:
                self.kernel.after(planned.stop_at, self._user.life, self._stop, job_id)
        self._clients.start()
        for fault in (*self.plan.faults, *(ask.fault for ask in self.plan.asks if ask.fault is not None)):
            self.kernel.after(fault.at, self._fate, self._strike, fault)
        self.kernel.run(ROUGH_SECONDS)
        self._armed.clear()
        self.kernel.run(ROUGH_SECONDS + SETTLING_SECONDS)
        if suspects := self.checks.unheld(TaskState.PENDING, TaskState.RUNNING):
            self.kernel.run(ROUGH_SECONDS + SETTLING_SECONDS + STORING_SECONDS)
            self.checks.settled(suspects)
        self.kernel.run(ROUGH_SECONDS + CALM_SECONDS, self._over)
        self.checks.end()

    def _over(self) -> bool:
        """Return whether all jobs and updates have ended, and everybody knows.

        An update that the stop of its service ends is stored as ended in the cycle after the job.
        """
        if len(self.checks.acknowledged) < len(self.jobs):
            return False
        stored = self.store.jobs.values()
        if any(not job.runtime.state.terminal for job in stored):
            return False
        if any(not each.state.terminal for job in stored for each in job.workflows.values()):
            return False
        if any(run.live for run in self.cluster.runs.values()):
            return False
        resmgr = self.elections.leaders.get("resmgr")
        return isinstance(resmgr, Resmgr) and not any(
            any(pool.used) for pool in resmgr.scheduler.tree.leaves()
        )


def _jobmgr_options(plan: Plan) -> JobmgrOptions:
    return JobmgrOptions(_JOBMGR, drains=bool(plan.asks), schedule_speed=SCHEDULE_SPEED)


def _hostmgr_options(reconcile: float) -> HostmgrOptions:
    limits = ReconciliationLimits(
        interval=reconcile, reregister=30.0, repeat_after=20.0, launch_grace=min(10.0, reconcile / 3)
    )
    hosts = HostLimits(ClaimLimits(placing_seconds=60.0))
    return HostmgrOptions(TermLimits(hosts=hosts, reconcile=limits, claim_grace=10.0))
