"""Random events against the scheduler; what must always hold is checked after each one."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from peloton.errors import NotFound, Refused
from peloton.model.ids import Run
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, ZERO, Resources, total
from peloton.model.states import TaskState, TaskType
from resmgr.core.placements import Failure, Proposal
from resmgr.core.policy import Policy
from resmgr.core.pools import Pool
from resmgr.core.scheduler import NewTask, Scheduler
from resmgr.core.tasks import BEFORE_LAUNCH, ON_HOST, Gang, Needs, Task

JOBS = ("j1", "j2")
LEAVES = ("a", "b", "c")
S = TaskState
NEEDS = [
    Needs(
        Resources(cpu, memory, 1, gpu),
        priority=priority,
        preemptible=preemptible,
        controller=controller,
        revocable=revocable,
        type=kind,
    )
    for cpu, memory, gpu, priority, preemptible, controller, revocable, kind in [
        (1, 3, 0, 0, True, False, False, TaskType.BATCH),
        (3, 1, 0, 5, True, False, False, TaskType.BATCH),
        (2, 2, 0, 0, False, False, False, TaskType.BATCH),
        (2, 2, 0, 1, False, True, False, TaskType.BATCH),
        (4, 1, 0, 0, True, False, True, TaskType.BATCH),
        (1, 1, 1, 0, True, False, False, TaskType.STATELESS),
        (0, 0, 0, 2, True, False, False, TaskType.BATCH),
        (50, 1, 0, 9, True, False, False, TaskType.BATCH),
    ]
]


def config(pool_id: str, parent: str, reservation: int, limit: int) -> PoolConfig:
    return PoolConfig(
        pool_id,
        pool_id,
        parent,
        {kind: KindConfig(reservation, limit) for kind in KINDS},
        controller_limit_percent=50,
    )


def bounded_amounts(pool: Pool) -> list[tuple[str, tuple[int, ...], tuple[int, ...] | None]]:
    """What admission may raise, with what it may raise it to."""
    return [
        ("entitlement", tuple(pool.used), pool.entitlement),
        ("slack entitlement", tuple(pool.slack), pool.slack_entitlement),
        ("reservation", tuple(pool.non_preemptible), pool.reservation),
        ("controller limit", tuple(pool.controller), pool.controller_limit),
    ]


def held_amounts(pool: Pool) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, held) for name, held, _ in bounded_amounts(pool)]


class SchedulerModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(
            Policy(turn=3, ready_limit=6, tries=2, placing=50, launching=100), "stream"
        )
        for pool in (config("a", "root", 6, 20), config("p", "root", 10, 16)):
            self.scheduler.tree.add(pool)
        for pool in (config("b", "p", 6, 12), config("c", "p", 4, 12)):
            self.scheduler.tree.add(pool)
        self.now = 1.0
        self.runs = {(job, instance): 0 for job in JOBS for instance in range(6)}
        self.alive: set[Run] = set()
        """What must be known: enqueued, and neither ended nor killed nor given up for a newer run."""
        self.gangs: dict[Run, frozenset[Run]] = {}
        """The gang that each run was enqueued with."""

    def holder(self, name: str) -> object:
        return self.scheduler.leases.hear(name, self.now)

    def known(self, *states: TaskState) -> list[Task]:
        return [task for task in self.scheduler.registry if task.state in states]

    def note_superseded(self, tasks: list[Task]) -> None:
        for task in tasks:
            if not task.orphan:
                self.alive.discard(task.key)

    # Events.

    @rule(
        pool=st.sampled_from(LEAVES),
        job=st.sampled_from(JOBS),
        instances=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
        needs=st.sampled_from(NEEDS),
        new_run=st.booleans(),
    )
    def enqueue(self, pool: str, job: str, instances: list[int], needs: Needs, new_run: bool) -> None:
        gang, replaced = [], []
        for instance in instances:
            if new_run or Run(job, instance, self.runs[job, instance]) not in self.alive:
                self.runs[job, instance] += 1
            run = self.runs[job, instance]
            held = self.scheduler.registry.current(job, instance)
            if held is not None and held.run < run:
                replaced.append(held)
            gang.append(NewTask(job, instance, run, needs))
        leaf = self.scheduler.tree.get(pool)
        try:
            made = self.scheduler.enqueue(leaf, gang, self.now)
        except Refused:
            fresh = [new for new in gang if Run(new.job_id, new.instance, new.run) not in self.alive]
            asked = needs.charge.entitled[0] * len(fresh)
            assert asked > min(each.limit[0] for each in leaf.lineage[:-1])
            return
        self.note_superseded(replaced)
        runs = frozenset(task.key for task in made)
        self.alive |= runs
        self.gangs.update(dict.fromkeys(runs, runs))

    @rule()
    def admit(self) -> None:
        before = {pool: held_amounts(pool) for pool in self.scheduler.tree}
        self.scheduler.admit(self.now)
        for pool in self.scheduler.tree:
            for (name, had), (_, has, bound) in zip(before[pool], bounded_amounts(pool), strict=True):
                for kind in range(4):
                    if has[kind] > had[kind]:
                        assert bound is None or has[kind] <= bound[kind], (pool.path, name, KINDS[kind])

    @rule(
        kind=st.sampled_from([TaskType.BATCH, TaskType.STATELESS]),
        limit=st.integers(1, 3),
        who=st.sampled_from("xy"),
    )
    def dequeue(self, kind: TaskType, limit: int, who: str) -> None:
        for gang in self.scheduler.dequeue(kind, limit, self.holder(f"placement/{who}"), self.now):
            assert all(task.state is S.PLACING for task in gang.tasks)

    @precondition(lambda self: self.known(S.PLACING))
    @rule(data=st.data(), hosts=st.integers(1, 3), whole=st.integers(0, 4), fail=st.integers(0, 3))
    def place(self, data: st.DataObject, hosts: int, whole: int, fail: int) -> None:
        task = data.draw(st.sampled_from(self.known(S.PLACING)))
        assert task.gang is not None
        members = [member.key for member in task.gang.tasks]
        if not whole:
            members = members[:1]
        if not fail:
            self.scheduler.propose(task.holder, [], [Failure(tuple(members), "no host")], self.now)
            return
        proposals = [
            Proposal(f"h{i}", "agent", "offer", task.needs.type, tuple(members[i::hosts]))
            for i in range(hosts)
        ]
        partial = len(members) < len(task.gang.tasks)
        rejections = self.scheduler.propose(task.holder, proposals, [], self.now)
        assert len(rejections) == (len(members) if partial else 0)

    @rule(limit=st.integers(1, 3))
    def hand_over(self, limit: int) -> None:
        self.scheduler.hand_over(limit, self.holder("jobmgr/x"), self.now)

    @precondition(lambda self: self.alive)
    @rule(
        data=st.data(),
        state=st.sampled_from([S.LAUNCHED, S.STARTING, S.RUNNING, S.KILLING, S.SUCCEEDED, S.FAILED, S.LOST]),
    )
    def observe(self, data: st.DataObject, state: TaskState) -> None:
        run = data.draw(st.sampled_from(sorted(self.alive)))
        self.scheduler.observe(run, state, self.now)
        if state.terminal:
            self.alive.discard(run)

    @rule(job=st.sampled_from(JOBS), instance=st.integers(0, 5))
    def kill(self, job: str, instance: int) -> None:
        held = self.scheduler.registry.current(job, instance)
        try:
            self.scheduler.kill(job, instance)
        except NotFound:
            assert held is None
        except Refused:
            assert held is not None
            assert held.state in ON_HOST
        else:
            assert held is not None
            self.alive.discard(held.key)

    @rule(job=st.sampled_from(JOBS), instance=st.integers(0, 5), state=st.sampled_from(sorted(ON_HOST)))
    def restore(self, job: str, instance: int, state: TaskState) -> None:
        held = self.scheduler.registry.current(job, instance)
        self.runs[job, instance] += 1
        run = Run(job, instance, self.runs[job, instance])
        new = NewTask(job, instance, run.run, NEEDS[0])
        self.scheduler.restore(self.scheduler.tree.get("c"), new, state, "h9", self.now)
        self.note_superseded([held] if held is not None else [])
        self.alive.add(run)

    @rule(seconds=st.sampled_from([0.5, 3, 60, 120]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        given_up = {
            task.key for task in self.scheduler.registry.orphans.values() if 0 < task.deadline <= self.now
        }
        self.scheduler.expire(self.now)
        self.alive -= given_up

    @rule(present=st.sets(st.sampled_from(["placement/x", "placement/y", "jobmgr/x"])))
    def lapse(self, present: set[str]) -> None:
        self.scheduler.lapse(self.now, present)

    @rule(amount=st.sampled_from([0, 10, 30]), slack=st.sampled_from([0, 9]))
    def capacity(self, amount: int, slack: int) -> None:
        self.scheduler.set_capacity(Resources(amount, amount, amount, amount), Resources(cpu=slack))

    @rule(limit=st.sampled_from([6, 12, 20]))
    def update_pool(self, limit: int) -> None:
        self.scheduler.tree.update(config("a", "root", 6, limit), force=True)
        self.scheduler.entitle()

    # What must hold.

    @invariant()
    def sums_equal_their_parts(self) -> None:
        tasks = [*self.scheduler.registry, *self.scheduler.registry.orphans.values()]
        for leaf in map(self.scheduler.tree.get, LEAVES):
            own = [task for task in tasks if task.pool is leaf]
            assert leaf.tasks == len(own)
            held = [task for task in own if task.state is not S.PENDING]
            queued = [task for task in own if task.state is S.PENDING]
            counted = leaf.allocation()
            assert counted["total"] == total(task.needs.resources for task in held)
            for name, chosen in (
                ("non-preemptible", [task for task in held if not task.needs.preemptible]),
                ("controller", [task for task in held if task.needs.controller]),
                ("slack", [task for task in held if task.needs.revocable]),
                ("non-slack", [task for task in held if not task.needs.revocable]),
                ("preemptible", [task for task in held if task.needs.preemptible]),
            ):
                assert counted[name] == total(task.needs.resources for task in chosen), name
            assert leaf.total_demand() == total(task.needs.resources for task in queued)
        for pool in self.scheduler.tree:
            for name, amount in pool.allocation().items() if pool.children else ():
                parts = total(child.allocation()[name] for child in pool.children.values())
                assert amount == parts, (pool.path, name)

    @invariant()
    def no_task_is_lost(self) -> None:
        held = {task.key for task in self.scheduler.registry} | set(self.scheduler.registry.orphans)
        assert held == self.alive

    @invariant()
    def every_task_is_in_the_one_place_that_its_state_says(self) -> None:
        places: Counter[Task] = Counter()
        queued = [queue for leaf in map(self.scheduler.tree.get, LEAVES) for queue in leaf.queues]
        for queue in (*queued, *self.scheduler.ready.values()):
            gangs = list(queue)
            assert len(queue) == len(gangs) == len(set(gangs))
            for gang in gangs:
                assert gang.queue is queue
                places.update(gang.tasks)
        assert all(count == 1 for count in places.values())
        for task in self.scheduler.registry:
            assert (task.gang is not None) == (task.state in BEFORE_LAUNCH), task
            assert (task.placement is not None) == (task.state is S.PLACED), task
            if task.placement is not None:
                assert task.placement in self.scheduler.placed
            if task.state is S.PENDING:
                assert places[task] == 1
                assert task.gang is not None
                assert task.gang.queue in task.pool.queues
            elif task.state is S.READY:
                assert task.gang is not None
                assert (places[task] == 1) != bool(task.gang.deadline), "queued, or waiting to be tried again"
            else:
                assert places[task] == 0
            if task.holder is not None:
                assert task.state in (S.PLACING, S.LAUNCHING)
                assert task in task.holder.tasks

    @invariant()
    def a_gang_is_whole(self) -> None:
        gangs: dict[Gang, None] = {
            task.gang: None for task in self.scheduler.registry if task.gang is not None
        }
        for gang in gangs:
            states = {task.state for task in gang.tasks}
            assert len(states) == 1 or states <= {S.PLACED, S.LAUNCHING}, states
            assert all(task.gang is gang for task in gang.tasks)
            together = set().union(*(self.gangs[task.key] for task in gang.tasks))
            left_behind = {
                task.key
                for run in together
                if (task := self.scheduler.registry.find(run)) is not None
                and not task.orphan
                and task.state in BEFORE_LAUNCH
            }
            assert {task.key for task in gang.tasks} == left_behind

    @invariant()
    def deadlines_are_where_they_belong(self) -> None:
        live = {task.gang for task in self.scheduler.registry if task.gang is not None and task.gang.deadline}
        tasks = [*self.scheduler.registry, *self.scheduler.registry.orphans.values()]
        assert len(self.scheduler.deadlines) == len(live) + sum(1 for task in tasks if task.deadline)
        for task in self.known(S.PLACING, S.LAUNCHING):
            assert task.gang is not None
            assert task.gang.deadline > 0

    @invariant()
    def hosts_know_their_tasks(self) -> None:
        tasks = [*self.scheduler.registry, *self.scheduler.registry.orphans.values()]
        for host in {task.host for task in tasks if task.host}:
            assert set(self.scheduler.registry.on_host(host)) == {task for task in tasks if task.host == host}

    def teardown(self) -> None:
        """Everything ends: nothing may be left over."""
        for run in list(self.alive):
            self.scheduler.observe(run, S.KILLED, self.now)
        scheduler = self.scheduler
        assert len(scheduler.registry) == len(scheduler.leases) == len(scheduler.deadlines) == 0
        assert not scheduler.placed
        for pool in scheduler.tree:
            assert pool.allocation()["total"] == pool.total_demand() == ZERO
            assert pool.waiting == pool.tasks == 0


SchedulerModel.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestSchedulerModel = SchedulerModel.TestCase
