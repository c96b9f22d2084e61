"""A random walk over the scheduler: each step is one event, after which everything is compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

from pytest import raises

from peloton.errors import Fenced, InvalidArgument, NotFound, Refused
from peloton.model.host_class import HostClass
from peloton.model.ids import ROOT_POOL, PoolId, Run
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import KINDS, ZERO, Resources
from peloton.model.shortage import Lack, Shortage
from peloton.model.states import TaskState, TaskType
from resmgr.core.preemption.decide import Rules
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.preemption.policy import Victim
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.classes import ClassCapacity
from resmgr.core.state.cooperative import Steps
from resmgr.core.state.entities import Holder, Task
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import Needs, NewTask
from resmgr.core.state.placements import PlacementFailure, Proposal, ReservedGang
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolBusy, PoolNotLeaf
from tests.unit.resmgr.world import whole

from .reference import BEFORE_LAUNCH, ON_HOST, Reference, Step

S = TaskState
JOBS = ("j1", "j2", "j3")
INSTANCES = 8
MOST_POOLS = 9
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
        (1, 1, 0, 1, True, True, False, TaskType.BATCH),
        (4, 1, 0, 0, True, False, True, TaskType.BATCH),
        (1, 1, 1, 0, True, False, False, TaskType.STATELESS),
        (0, 0, 0, 2, True, False, False, TaskType.BATCH),
        (50, 1, 0, 9, True, False, False, TaskType.BATCH),
    ]
]
STEPS_BACK: set[Step] = {(old, S.READY) for old in (S.PLACING, S.RESERVED, S.PLACED, S.LAUNCHING)}
STEPS_OUT: set[Step] = {(old, S.PENDING) for old in (S.READY, S.PLACING, S.RESERVED, S.PLACED, S.LAUNCHING)}
PREEMPTED: set[Step] = {(S.READY, S.PENDING), (S.PLACING, S.PENDING), (S.RUNNING, S.PREEMPTING)}
IN_ENGINE = (S.PLACING, S.RESERVED)
GIVEN_BACK: set[Step] = {(old, new) for old in IN_ENGINE for new in (S.READY, S.PENDING)}
OBSERVED = (S.LAUNCHED, S.STARTING, *[S.RUNNING] * 4, S.KILLING, S.SUCCEEDED, S.SUCCEEDED, S.FAILED, S.LOST)
FORWARD = (*BEFORE_LAUNCH, S.LAUNCHED, S.STARTING, S.RUNNING)
"""A status never takes a run back."""


class Walk:
    """One cluster's life. The same random numbers make the same one."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.named = Random(0)
        """Chooses the runs that kills name."""
        self.scheduler = Scheduler(self._limits(), "stream")
        rules = Rules(strikes=rng.randint(1, 3), per_minute=rng.choice((None, 2)))
        self.preemptor = Preemptor(
            self.scheduler.lifecycle, self.scheduler.sharing, rules, limit=rng.randint(1, 8)
        )
        self.reference = Reference(self.scheduler)
        self.now = 1.0
        self.runs = {(job, instance): 0 for job in JOBS for instance in range(INSTANCES)}
        self.story: deque[str] = deque(maxlen=10)
        self.term = 1
        """Of jobmgr's leader."""
        self.claimed: set[str] = set()
        """Offers of the placements that were taken."""
        self.given: set[str] = set()
        """Of those, what jobmgr got."""
        self._pools = 0
        self._several = rng.random() < 0.5
        """Whether there are several classes of hosts."""
        self._check: Steps[list[Victim]] | None = None
        self._preempted: list[Task] = []
        """By the check that goes on."""
        for pool_id, parent in (("a", ROOT_POOL), ("p", ROOT_POOL), ("b", "p"), ("c", "p")):
            self.scheduler.tree.insert(self._config(pool_id, parent))
        self._events: list[tuple[int, Callable[[], object]]] = [
            (14, self.enqueue),
            (14, self.admit),
            (12, self.dequeue),
            (14, self.place),
            (5, self.reserve),
            (10, self.hand_over),
            (24, self.observe),
            (3, self.kill),
            (1, self.restore),
            (6, self.wait),
            (2, self.expire_leases),
            (1, self.elect),
            (3, self.capacity),
            (3, self.change_hosts),
            (2, self.change_pool),
            (1, self.add_pool),
            (1, self.delete_pool),
            (5, self.preempt),
            (9, self.preempt_in_steps),
            (3, self.take_preempted),
        ]
        self._choices = [event for weight, event in self._events for _ in range(weight)]

    def run(self, steps: int) -> None:
        """Raises AssertionError, with the last events, at the first thing that is wrong."""
        for step in range(steps):
            event = self.rng.choice(self._choices)
            self.now += 0.001
            self.story.append(event.__name__)
            try:
                event()
                self.reference.check()
                self.check_claims()
            except Exception as error:
                raise AssertionError(f"step {step}: {', '.join(self.story)}: {error!r}") from error

    def finish(self) -> None:
        """Everything ends: nothing may be left over."""
        scheduler = self.scheduler
        for task in list(self.reference.records):
            scheduler.observe(task.key, S.KILLED, self.now)
            self.reference.removed(task)
        self.reference.check()
        assert len(scheduler.registry) == len(scheduler.leases) == len(scheduler.deadlines) == 0
        assert not scheduler.placements
        for pool in scheduler.tree:
            assert pool.allocation()["total"] == pool.total_demand() == ZERO
            assert len(scheduler.pending.of(pool)) == pool.tasks == 0

    def check_claims(self) -> None:
        """Each claimed host waits for jobmgr, was given to it, or is to be given back: none is forgotten."""
        waiting = {each.offer_id for each in self.scheduler.placements}
        abandoned = [each.offer_id for each in self.scheduler.placements.abandoned]
        assert len(set(abandoned)) == len(abandoned)
        assert not waiting & set(abandoned)
        assert waiting | set(abandoned) | self.given == self.claimed

    # Tasks.

    def enqueue(self) -> None:
        rng, scheduler = self.rng, self.scheduler
        leaf = rng.choice(list(scheduler.tree.leaves()))
        job, again, needs = rng.choice(JOBS), rng.random() < 0.2, rng.choice(NEEDS)
        mixed = rng.random() < 0.2
        gang, fresh, replaced = list[NewTask](), dict[Run, Needs](), list[Task]()
        for instance in rng.sample(range(INSTANCES), rng.choice((1, 1, 1, 2, 3, 4))):
            held = scheduler.registry.current(job, instance)
            run = self.runs[job, instance] + (held is None or again)
            gang.append(NewTask(job, instance, run, rng.choice(NEEDS) if mixed else needs))
            if held is None or held.run < run:
                fresh[Run(job, instance, run)] = gang[-1].needs
                replaced += [held] if held is not None else []
        wrong = self._refused(leaf, list(fresh.values()))
        try:
            made = scheduler.enqueue(leaf, gang, self.now)
        except Refused:
            assert wrong
            return
        assert not wrong
        assert {task.key for task in made} == set(fresh)
        for new in fresh:
            self.runs[new.job_id, new.instance] = new.run
        for old in replaced:
            self.reference.superseded(old)
        self.reference.added(made, leaf, fresh, S.PENDING)

    def _refused(self, leaf: Pool, needs: list[Needs]) -> bool:
        """Whether a gang of these is nonsense, or more than a limit."""
        requested = [0, 0, 0, 0]
        for each in needs:
            for kind, amount in enumerate(each.resources.values()):
                requested[kind] += 0 if each.revocable and not kind else amount
        bounds = [pair for pool in leaf.ancestors[:-1] for pair in zip(requested, pool.limit, strict=True)]
        over = any(amount > bound for amount, bound in bounds if amount)
        return over or len({each.type for each in needs}) > 1

    def admit(self) -> None:
        before = self.reference.bounds()
        more = self.scheduler.admit(self.now)
        self.reference.follow({(S.PENDING, S.READY)})
        self.reference.check_admitted(before)
        self.reference.check_entitlement()
        if not more and self.scheduler.tree.capacity is not None:
            self.reference.check_nothing_left()

    def dequeue(self) -> None:
        rng, kind, holder = self.rng, self._kind(), self._holder("placement")
        gangs = self.scheduler.dequeue(kind, rng.randint(1, 3), holder, self.now)
        changed = self.reference.follow({(S.READY, S.PLACING)})
        assert {task for gang in gangs for task in gang.tasks} == set(changed)
        if rng.random() < 0.1:
            self.scheduler.take_back_gangs(gangs, holder, self.now)
            self.reference.follow({(S.PLACING, S.READY)}, changed)

    def place(self) -> None:
        """A gang is placed, or half of it is, or none."""
        rng, found = self.rng, [*self.reference.in_state(S.PLACING), *self.reference.in_state(S.RESERVED)]
        if not found:
            return
        gang = rng.choice(found).gang
        assert gang is not None
        members, holder = list(gang.tasks), gang.tasks[0].holder
        half = rng.random() < 0.1
        runs = [task.key for task in (members[:1] if half else members)]
        if rng.random() < 0.3:
            shortage = rng.choice((None, None, Shortage(Lack.RESOURCE, "cpu", 5, rng.randint(0, 4), 3)))
            failure = PlacementFailure(tuple(runs), "no host", shortage=shortage)
            self.scheduler.propose(holder, [], [failure], self.now)
            self.reference.follow(GIVEN_BACK, members)
            assert all(task.state not in IN_ENGINE for task in members)
            assert shortage is None or members[0].gang is None or members[0].state is S.PENDING
            return
        hosts = rng.randint(1, 3)
        proposals = [
            Proposal(f"h{i}", "agent", f"offer-{self.now}-{i}", gang.type, tuple(runs[i::hosts]))
            for i in range(hosts)
        ]
        rejections = self.scheduler.propose(holder, proposals, [], self.now)
        if len(runs) < len(members):
            assert len(rejections) == len(runs)
            self.reference.follow(GIVEN_BACK, members)
        else:
            assert not rejections
            placed = self.reference.follow({(old, S.PLACED) for old in IN_ENGINE}, members)
            assert len(placed) == len(members)
            self.claimed |= {each.offer_id for each in proposals if each.runs}

    def reserve(self) -> None:
        """A gang waits for reserved hosts; its engine may know a former form of it, or hold it no more."""
        rng, found = self.rng, [*self.reference.in_state(S.PLACING), *self.reference.in_state(S.RESERVED)]
        if not found:
            return
        gang = rng.choice(found).gang
        assert gang is not None
        members, holder = list(gang.tasks), gang.tasks[0].holder
        runs = [task.key for task in members]
        case, start = rng.randint(0, 9), rng.choice((None, 5.0))
        if case == 0:
            other = self.scheduler.leases.touch("placement/other", self.now)
            assert not self.scheduler.reserve(other, ReservedGang(tuple(runs), "waits", start), self.now)
            self.reference.follow(())
        elif case == 1:
            former = (*runs, Run("gone", 0, 1))
            assert not self.scheduler.reserve(holder, ReservedGang(former, "waits", start), self.now)
            self.reference.follow({(old, S.READY) for old in IN_ENGINE}, members)
        else:
            assert self.scheduler.reserve(holder, ReservedGang(tuple(runs), "waits", start), self.now)
            self.reference.follow({(S.PLACING, S.RESERVED)}, members)
            assert {(task.state, task.reason) for task in members} == {(S.RESERVED, "waits")}

    def change_hosts(self) -> None:
        """Some of what was set aside may fit now, and some lacks something else."""
        for shape in self.scheduler.infeasible.shapes():
            if self.rng.random() < 0.5:
                self.scheduler.bring_back(shape)
            else:
                self.scheduler.keep_aside(shape, Shortage(Lack.RESOURCE, "cpu", 5, 2, 3))
        self.reference.follow(())

    def hand_over(self) -> None:
        holder = self._holder("jobmgr")
        given = self.scheduler.hand_over(self.rng.randint(1, 3), holder, self.now)
        changed = self.reference.follow({(S.PLACED, S.LAUNCHING)})
        assert sorted(run for each in given for run in each.runs) == sorted(task.key for task in changed)
        self.given |= {each.offer_id for each in given}
        if self.rng.random() < 0.1:
            self.scheduler.take_back_placements(given, holder, self.now)
            self.reference.follow({(S.LAUNCHING, S.PLACED)}, changed)

    def observe(self) -> None:
        records = self.reference.records
        if not records:
            return
        task, state = self._told_of(), self.rng.choice(OBSERVED)
        record = records[task]
        known = self.scheduler.observe(record.key, state, self.now)
        if state.terminal:
            assert known
            self.reference.ended(task)
            return
        allowed: set[Step]
        if state is S.KILLING:
            allowed = {(old, state) for old in (S.LAUNCHING, *ON_HOST)}
        else:
            allowed = {(old, state) for old in FORWARD[: FORWARD.index(state)]}
        changed = self.reference.follow(allowed, [task])
        assert changed or record.state in (*ON_HOST, *BEFORE_LAUNCH)

    def _told_of(self) -> Task:
        """Mostly one that was launched."""
        records = self.reference.records
        launched = [task for task, each in records.items() if each.state in (S.LAUNCHING, *ON_HOST)]
        return self.rng.choice(launched if launched and self.rng.random() < 0.95 else list(records))

    def kill(self) -> None:
        job, instance = self.rng.choice(list(self.runs))
        held = self.scheduler.registry.current(job, instance)
        run = self.named.choice((0, self.runs[job, instance], max(self.runs[job, instance] - 1, 0)))
        try:
            self.scheduler.kill(job, instance, run)
        except NotFound:
            assert held is None or 0 < run < held.run
        except Refused:
            assert held is not None
            assert held.state in ON_HOST
        else:
            assert held is not None and not 0 < run < held.run
            self.reference.ended(held)

    def restore(self) -> None:
        job, instance = self.rng.choice(list(self.runs))
        held = self.scheduler.registry.current(job, instance)
        self.runs[job, instance] += 1
        run, needs = Run(job, instance, self.runs[job, instance]), self.rng.choice(NEEDS)
        leaf = self.rng.choice(list(self.scheduler.tree.leaves()))
        state = self.rng.choice(sorted(ON_HOST))
        self.scheduler.restore(leaf, NewTask(job, instance, run.run, needs), state, "h9", self.now)
        if held is not None:
            self.reference.superseded(held)
        made = self.scheduler.registry.current(job, instance)
        assert made is not None
        self.reference.added([made], leaf, {run: needs}, state)

    def wait(self) -> None:
        self.now += self.rng.choice((0.5, 3.0, 60.0, 120.0))
        late = [task for task in self.reference.records if task.orphan and 0 < task.deadline <= self.now]
        self.scheduler.expire(self.now)
        for task in late:
            self.reference.removed(task)
        self.reference.follow(
            {*STEPS_BACK, *GIVEN_BACK, (S.PREEMPTING, S.RUNNING)},
        )

    def expire_leases(self) -> None:
        names = ("placement/x", "placement/y", "jobmgr/x")
        present = {name for name in names if self.rng.random() < 0.7}
        self.scheduler.expire_leases(self.now, present)
        self.reference.follow(STEPS_BACK)
        holders = {task.holder for task in self.reference.records if task.holder is not None}
        newest = max((holder.term for holder in holders), default=0)
        assert all(holder.term in (0, newest) for holder in holders)

    def elect(self) -> None:
        """jobmgr has another leader, or the same one again: calls of its former term are fenced."""
        self.term += 1
        leases = self.scheduler.leases
        leases.touch(f"jobmgr/{self.rng.choice('xy')}", self.now, self.term)
        with raises(Fenced):
            leases.touch(f"jobmgr/{self.rng.choice('xy')}", self.now, self.term - 1)

    # Preemption.

    def preempt(self) -> None:
        if self._check is not None:
            return
        victims = whole(self.preemptor.steps(self.now))
        changed = self._follow_check()
        assert sorted(run for victim in victims for run in victim.runs) == sorted(t.key for t in changed)
        self.reference.check_preempted(changed)
        self.reference.check_entitlement()

    def preempt_in_steps(self) -> None:
        """Some steps of a check, other events coming between; more than enough where it is near its end."""
        if self._check is None:
            self._check, self._preempted = self.preemptor.steps(self.now), []
        over: list[Victim] | None = None
        try:
            for _ in range(self.rng.choice((1, 5, 40, 200))):
                next(self._check)
        except StopIteration as end:
            self._check, over = None, end.value
        changed = self._follow_check()
        self.reference.check_preempted(changed)
        self._preempted += changed
        if over is not None:
            runs = sorted(run for victim in over for run in victim.runs)
            assert runs == sorted(task.key for task in self._preempted)

    def _follow_check(self) -> list[Task]:
        """Take in what a check changed; return what it preempted, without what it spared."""
        changed = self.reference.follow({*PREEMPTED, (S.PREEMPTING, S.RUNNING)})
        return [task for task in changed if task.state is not S.RUNNING]

    def take_preempted(self) -> None:
        waiting = len(self.preemptor)
        taken = self.preemptor.take(self.rng.randint(1, 3))
        assert len(set(taken)) == len(taken) <= waiting
        assert all(task.state is S.PREEMPTING for task in taken)
        if self.rng.random() < 0.1:
            self.preemptor.give_back(taken)
            assert len(self.preemptor) == waiting

    # The cluster and the tree.

    def capacity(self) -> None:
        amount, slack = self.rng.choice((0, 10, 20, 30, 60, 60)), self.rng.choice((0, 9))
        normal = Resources(amount, amount, amount, amount)
        self.scheduler.set_capacity(normal, Resources(cpu=slack), self._classes(amount, slack))
        self.reference.check_entitlement()

    def _classes(self, amount: int, slack: int) -> dict[HostClass, ClassCapacity]:
        """In some lives a part of the cluster has GPUs, and another part comes and goes."""
        if not self._several or self.rng.random() < 0.2:
            return {HostClass(): ClassCapacity(Resources(amount, amount, amount, amount), slack)}
        gpu, own = amount // 2, self.rng.choice((0, amount // 10))
        of = {
            HostClass(): (amount - gpu - own, 0, slack),
            HostClass(gpu=True): (gpu, amount, 0),
            HostClass(exclusive="own"): (own, 0, 0),
        }
        return {
            each: ClassCapacity(Resources(part, part, part, gpus), revocable)
            for each, (part, gpus, revocable) in of.items()
            if part or not each.exclusive
        }

    def change_pool(self) -> None:
        tree, rng = self.scheduler.tree, self.rng
        pool = rng.choice([pool for pool in tree if pool is not tree.root])
        config, force = self._config(pool.id, pool.config.parent), rng.random() < 0.7
        if rng.random() < 0.1:
            self._pools += 1
            config = replace(config, name=f"renamed{self._pools}")
        try:
            tree.check_update(config, force)
            tree.replace(config)
        except InvalidArgument:
            assert not force
        self._changed()

    def add_pool(self) -> None:
        tree = self.scheduler.tree
        if len(tree) >= MOST_POOLS:
            return
        parent = self.rng.choice(list(tree))
        self._pools += 1
        config = self._config(f"n{self._pools}", parent.id)
        busy = bool(self.reference.counts[parent.id])
        try:
            tree.check_new(replace(config, kinds={}))
        except InvalidArgument:
            assert busy
            return
        assert not busy
        tree.insert(config)
        self._changed()

    def delete_pool(self) -> None:
        tree = self.scheduler.tree
        pool = self.rng.choice([pool for pool in tree if pool is not tree.root])
        if len(list(tree.leaves())) == 1:
            return
        try:
            tree.delete(pool.id)
        except PoolNotLeaf:
            assert pool.children
        except PoolBusy:
            assert self.reference.counts[pool.id]
        else:
            assert not pool.children
            assert not self.reference.counts[pool.id]
        self._changed()

    def _changed(self) -> None:
        self.scheduler.entitle()
        self.reference.check_entitlement()

    # Random things.

    def _limits(self) -> Limits:
        rng = self.rng
        return Limits(
            preemption=rng.random() < 0.8,
            sharing_interval=rng.choice((0.0, 1.0)),
            cycle_limit=rng.randint(1, 6),
            ready_limit=rng.randint(1, 10),
            tries=rng.randint(1, 3),
            placing=50,
            launching=100,
            preempting=70,
        )

    def _config(self, pool_id: PoolId, parent: PoolId) -> PoolConfig:
        rng = self.rng
        kinds = {}
        for kind in KINDS:
            reservation = rng.choice((0, 4, 8))
            kinds[kind] = KindConfig(
                reservation,
                reservation + rng.choice((4, 12, 40)),
                rng.choice((0.0, 1.0, 1.0, 2.5)),
                rng.choice((ReservationType.ELASTIC, ReservationType.STATIC)),
            )
        controller, slack = rng.choice((None, 50.0)), rng.choice((None, 50.0, 100.0))
        return PoolConfig(
            pool_id, pool_id, parent, kinds, controller_limit_percent=controller, slack_limit_percent=slack
        )

    def _kind(self) -> TaskType:
        return self.rng.choice((TaskType.BATCH, TaskType.BATCH, TaskType.STATELESS))

    def _holder(self, role: str) -> Holder | None:
        name = self.rng.choice((f"{role}/x", f"{role}/y", ""))
        return self.scheduler.leases.touch(name, self.now, self.term if role == "jobmgr" else 0)
