"""The state that the scheduler must have after every event, from independent records.

The reference knows each run's needs, pool and gang from when it came in, follows states as they change, and
adds sums up by itself; then it compares. `expect` says what an event may change: anything else is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from peloton.model.ids import ROOT_POOL, PoolId, Run
from peloton.model.states import TaskState, TaskType
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.needs import Needs
from resmgr.core.state.pool import Pool, PoolPart

S = TaskState
BEFORE_LAUNCH = frozenset({S.PENDING, S.READY, S.PLACING, S.PLACED, S.LAUNCHING, S.RESERVED})
ON_HOST = frozenset({S.LAUNCHED, S.STARTING, S.RUNNING, S.KILLING, S.PREEMPTING})
SUMS = ("used", "slack", "non_preemptible", "controller", "demand", "slack_demand")
ALL_THE_WAY_UP = ("used", "slack")
Step = tuple[TaskState, TaskState]


@dataclass(slots=True)
class Record:
    """A run as it came in, and the state that it was last seen in."""

    key: Run
    pool: PoolId
    needs: Needs
    gang: int
    """Number of the gang it came with."""
    state: TaskState
    orphan: bool = False


class Reference:
    """Beside one scheduler; every event's effect is taken in by `follow`, then checked by `check`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.records: dict[Task, Record] = {}
        self.sums: dict[PoolId, dict[str, list[int]]] = {}
        self.counts: Counter[PoolId] = Counter()
        self._gangs = 0

    # What comes in and what happens to it.

    def added(
        self, tasks: Iterable[Task], pool: Pool, requested: Mapping[Run, Needs], state: TaskState
    ) -> None:
        """These runs are new, as one gang."""
        self._gangs += 1
        known = {record.key for record in self.records.values()}
        for task in tasks:
            needs = requested[task.key]
            assert task.key not in known
            assert (task.pool, task.needs, task.state) == (pool, needs, state)
            record = self.records[task] = Record(task.key, pool.id, needs, self._gangs, state)
            self.counts[pool.id] += 1
            self._add(record, 1)

    def superseded(self, task: Task) -> None:
        """A newer run was enqueued: a run that may be on a host is an orphan, any other one is forgotten."""
        record = self.records[task]
        if record.state in BEFORE_LAUNCH and record.state is not S.LAUNCHING:
            self.removed(task)
        else:
            record.orphan = True

    def ended(self, task: Task) -> None:
        """A run is gone: the one before it, where it is on a host yet, is the current one again."""
        record = self.records[task]
        self.removed(task)
        before = record.key._replace(run=record.key.run - 1)
        for other in self.records.values() if not record.orphan else ():
            if other.key == before and other.state in ON_HOST:
                other.orphan = False

    def removed(self, task: Task) -> None:
        record = self.records.pop(task)
        self.counts[record.pool] -= 1
        self._add(record, -1)

    def follow(self, allowed: Collection[Step], only: Collection[Task] | None = None) -> list[Task]:
        """Take in what changed: those steps, and where given, of those tasks only."""
        changed = []
        for task, record in self.records.items():
            if task.state is not record.state:
                assert (record.state, task.state) in allowed, f"{task!r} was {record.state.name}"
                assert only is None or task in only, f"{task!r} has nothing to do with it"
                changed.append(task)
                self._add(record, -1)
                record.state = task.state
                self._add(record, 1)
        return changed

    def _add(self, record: Record, sign: int) -> None:
        amount = record.needs.resources.values()
        revocable, held = record.needs.revocable, record.state is not S.PENDING
        if not held:
            self._count(record.pool, "slack_demand" if revocable else "demand", amount, sign)
            return
        self._count(record.pool, "used", (0, *amount[1:]) if revocable else amount, sign)
        if revocable:
            self._count(record.pool, "slack", amount, sign)
        if not record.needs.preemptible:
            self._count(record.pool, "non_preemptible", amount, sign)
        if record.needs.controller:
            self._count(record.pool, "controller", amount, sign)

    def _count(self, pool: PoolId, name: str, amount: tuple[int, ...], sign: int) -> None:
        while True:
            sums = self.sums.get(pool)
            if sums is None:
                sums = self.sums[pool] = {each: [0, 0, 0, 0] for each in SUMS}
            for kind in range(4):
                sums[name][kind] += sign * amount[kind]
            if pool == ROOT_POOL or name not in ALL_THE_WAY_UP:
                return
            pool = self.scheduler.tree.get(pool).config.parent

    # What must hold.

    def check(self) -> None:
        self._no_task_is_lost()
        self._sums_equal_their_parts()
        gangs = self._gangs_are_whole()
        self._each_is_in_one_queue(gangs)
        self._where_the_state_says()
        self._deadlines(gangs)

    def _no_task_is_lost(self) -> None:
        registry = self.scheduler.registry
        current = 0
        for task in registry:
            current += 1
            assert not self.records[task].orphan
        assert current == len(registry)
        states = Counter(task.state for task in registry)
        assert registry.states == [states[state] for state in TaskState]
        for run, task in registry.orphans.items():
            record = self.records[task]
            assert record.orphan
            assert record.key == run
        assert current + len(registry.orphans) == len(self.records)

    def _sums_equal_their_parts(self) -> None:
        aside = self._aside()
        for pool in self.scheduler.tree:
            sums = self.sums.get(pool.id)
            for name in SUMS:
                counted = getattr(pool, name)
                expected = list(sums[name]) if sums is not None else [0, 0, 0, 0]
                for kind, amount in enumerate(aside.get((pool.id, name), ())):
                    expected[kind] -= amount
                assert counted == expected, (pool.path, name, counted, expected)
            assert pool.tasks == self.counts[pool.id], pool.path
            for name in ("used", "slack", "demand", "slack_demand") if pool.classes is not None else ():
                parts = [getattr(part, name) for part in pool.parts.values()]
                assert [sum(part[kind] for part in parts) for kind in range(4)] == getattr(pool, name)

    def _aside(self) -> dict[tuple[PoolId, str], list[int]]:
        """The requests of tasks that are set aside, which are no demand of their pools."""
        found: dict[tuple[PoolId, str], list[int]] = {}
        for task, record in self.records.items():
            if task.gang is not None and task.gang.queue is self.scheduler.infeasible:
                assert record.state is S.PENDING, task
                name = "slack_demand" if record.needs.revocable else "demand"
                sums = found.setdefault((record.pool, name), [0, 0, 0, 0])
                for kind, amount in enumerate(record.needs.resources.values()):
                    sums[kind] += amount
        return found

    def _gangs_are_whole(self) -> dict[Gang, TaskState]:
        """All gangs, with the state of a member."""
        of_number: dict[int, Gang] = {}
        found: dict[Gang, TaskState] = {}
        members = 0
        for task, record in self.records.items():
            gang = task.gang
            if record.state not in BEFORE_LAUNCH or record.orphan:
                assert gang is None, task
                continue
            assert gang is not None, task
            assert of_number.setdefault(record.gang, gang) is gang, "its gang is torn apart"
            state = found.setdefault(gang, record.state)
            assert state is record.state or {state, record.state} == {S.PLACED, S.LAUNCHING}, gang.tasks
            members += 1
        assert sum(len(gang.tasks) for gang in found) == members
        return found

    def _each_is_in_one_queue(self, gangs: dict[Gang, TaskState]) -> None:
        scheduler, queued = self.scheduler, 0
        for leaf in self._subjects():
            assert not len(scheduler.pending.of(leaf)) or leaf in scheduler.pending.active, (
                f"{leaf.path} would never be tried"
            )
            for queue in self.scheduler.pending.of(leaf).all:
                if not queue:
                    continue
                before = None
                for gang in queue:
                    queued += 1
                    assert gang.queue is queue
                    assert gang.pool is leaf.whole
                    assert gang.pool.part(gang.charge) is leaf, "it waits among those of other hosts"
                    assert gangs[gang] is S.PENDING
                    assert before is None or gang.priority <= before, "a lower priority is before it"
                    before = gang.priority
        for kind, ready in scheduler.ready.items():
            for gang in ready:
                queued += 1
                assert gang.queue is ready
                assert gang.type is kind
                assert gangs[gang] is S.READY
                assert not gang.deadline, "it waits to be tried again, and is tried"
        infeasible = scheduler.infeasible
        for gang in infeasible:
            queued += 1
            assert gang.queue is infeasible
            assert gangs[gang] is S.PENDING
            assert gang in infeasible.gangs(gang.shape), "its shape is not what it was set aside for"
        assert queued == sum(gang.queue is not None for gang in gangs), "one is in two queues"
        for gang, state in gangs.items():
            if state is S.PENDING:
                assert gang.queue is not None, gang.tasks
            elif state is S.READY:
                assert (gang.queue is None) == bool(gang.deadline), gang.tasks

    def _where_the_state_says(self) -> None:
        scheduler, leased, on_hosts = self.scheduler, 0, 0
        for task, record in self.records.items():
            placement = task.placement
            assert (placement is not None) == (record.state is S.PLACED), task
            assert placement is None or (placement in scheduler.placements and task in placement.tasks)
            if task.holder is not None:
                leased += 1
                assert record.state in (S.PLACING, S.RESERVED, S.LAUNCHING), task
                assert task in task.holder.tasks
            if task.host:
                on_hosts += 1
                assert task in scheduler.registry.on_host(task.host)
                assert record.state not in (S.PENDING, S.READY, S.PLACING, S.RESERVED), task
        assert leased == len(scheduler.leases)
        assert on_hosts == sum(map(len, scheduler.registry._hosts.values()))
        assert sum(len(each.tasks) for each in scheduler.placements) == sum(
            record.state is S.PLACED for record in self.records.values()
        )

    def _deadlines(self, gangs: dict[Gang, TaskState]) -> None:
        live = sum(1 for gang in gangs if gang.deadline) + sum(1 for task in self.records if task.deadline)
        assert len(self.scheduler.deadlines) == live
        for gang, state in gangs.items():
            assert state not in (S.PLACING, S.RESERVED, S.LAUNCHING) or gang.deadline, gang.tasks
        for task, record in self.records.items():
            due = record.state is (S.LAUNCHING if record.orphan else S.PREEMPTING)
            assert bool(task.deadline) == due, task

    # Admission.

    def _subjects(self) -> list[Pool]:
        """All pools and their parts in the classes of hosts."""
        return [each for pool in self.scheduler.tree for each in (pool, *pool.parts.values())]

    def bounds(self) -> dict[tuple[PoolId, str, str], list[int]]:
        """What admission raises, as it is now."""
        names = ("used", "slack", "firm", "non_preemptible", "controller")
        return {
            (pool.id, pool.hosts, name): self._held(pool, name) for pool in self._subjects() for name in names
        }

    def _held(self, pool: Pool, name: str) -> list[int]:
        """`firm` is what is allocated and not revocable."""
        return _less(pool.used, pool.slack) if name == "firm" else list(getattr(pool, name))

    def check_admitted(self, before: dict[tuple[PoolId, str, str], list[int]]) -> None:
        """Nothing was raised over its bound."""
        preemption = self.scheduler.limits.preemption
        for pool in self._subjects():
            entitled = pool.classes is None  # where the parts are not
            limit = pool.limit if pool.parent is not None else None  # of the root, each class has its own
            for name, bound in (
                ("used", pool.entitlement if entitled else limit),
                ("slack", pool.slack_entitlement if entitled else None),
                ("firm", _less(pool.entitlement, pool.slack_entitlement) if entitled else None),
                ("non_preemptible", pool.reservation if preemption and pool.whole is pool else None),
                ("controller", pool.controller_limit if pool.whole is pool else None),
            ):
                had, has = before.get((pool.id, pool.hosts, name), [0] * 4), self._held(pool, name)
                for kind in range(4):
                    if bound is not None and has[kind] > had[kind]:
                        assert has[kind] <= bound[kind], (pool.path, name, kind, has, bound)

    def check_nothing_left(self) -> None:
        """After a finished cycle, no head of a queue could have been admitted."""
        leaves = [part for leaf in self.scheduler.tree.leaves() for part in leaf.divided()]
        for leaf in leaves:
            heads = [
                gang for queue in self.scheduler.pending.of(leaf).all if (gang := queue.head()) is not None
            ]
            for gang in heads:
                if self._full(gang.type):
                    continue
                assert not self._fits(leaf, gang), f"{gang.tasks} waits in {leaf.path} for nothing"
            blocking = self.scheduler.pending.of(leaf).pending.head()
            assert blocking is None or self._full(blocking.type) or not _has_own_queue(blocking), (
                f"{blocking.tasks} blocks those behind it"
            )

    def _full(self, kind: TaskType) -> bool:
        return len(self.scheduler.ready[kind]) >= self.scheduler.limits.ready_limit

    def _fits(self, leaf: Pool, gang: Gang) -> bool:
        requested = [task.needs for task in gang.tasks]
        firm = _total(needs for needs in requested if not needs.revocable)
        slack = _total(needs for needs in requested if needs.revocable)
        entitled = [firm[0], *(a + b for a, b in zip(firm[1:], slack[1:], strict=True))]
        if leaf.whole is not leaf and gang.charge.mixed:
            return False  # its parts are tried one by one: `refusal` is tested with them
        for pool in leaf.ancestors:
            if _over(pool.used, entitled, pool.entitlement) or _over(
                pool.slack, slack, pool.slack_entitlement
            ):
                return False
            if _over(self._held(pool, "firm"), firm, _less(pool.entitlement, pool.slack_entitlement)):
                return False
        whole = leaf.whole
        for pool in whole.ancestors[:-1] if whole is not leaf else ():
            if _over(pool.used, entitled, pool.limit):
                return False
        controller = _total(needs for needs in requested if needs.controller)
        if whole.controller_limit is not None and _over(whole.controller, controller, whole.controller_limit):
            return False
        fixed = _total(needs for needs in requested if not needs.preemptible)
        return not (
            self.scheduler.limits.preemption and _over(whole.non_preemptible, fixed, whole.reservation)
        )

    def check_entitlement(self) -> None:
        """Never above the limit, and the children's together never above the parent's."""
        tree = self.scheduler.tree
        if tree.capacity is None:
            return
        assert tree.root.entitlement == tree.capacity.values()
        for pool in tree:
            for kind in range(4):
                children = sum(
                    child.entitlement[kind] for child in pool.children.values() if not _left_out(child)
                )
                slack = sum(
                    child.slack_entitlement[kind] for child in pool.children.values() if not _left_out(child)
                )
                assert children <= pool.entitlement[kind], (pool.path, kind)
                assert slack <= pool.slack_entitlement[kind] or not pool.children, (pool.path, kind)
                assert pool.parent is None or pool.entitlement[kind] <= pool.limit[kind], (pool.path, kind)
        for part in self._subjects():
            if isinstance(part, PoolPart):
                below = [child.parts[part.host_class] for child in part.whole.children.values()]
                for kind in range(4):
                    counted = (child.entitlement[kind] for child in below if not child.unusable)
                    assert sum(counted) <= part.entitlement[kind]
        classes = tree.classes
        for of, root in tree.root.parts.items():
            assert classes is not None
            assert root.entitlement == classes.capacity(of).normal.values()

    def check_preempted(self, tasks: Collection[Task]) -> None:
        """Only eligible tasks were taken, and gangs completely."""
        gone = {S.PREEMPTING, S.KILLING, S.PENDING}
        numbers = {self.records[task].gang for task in tasks}
        assert all(self.records[task].needs.preemptible for task in tasks), tasks
        for task, record in self.records.items():
            if record.gang in numbers and not record.orphan:
                assert record.state in gone, f"{task!r} was left behind"

    def in_state(self, *states: TaskState) -> Iterator[Task]:
        return (task for task, record in self.records.items() if record.state in states and not record.orphan)


def _has_own_queue(gang: Gang) -> bool:
    """Whether it steps aside where it is refused."""
    needs = [task.needs for task in gang.tasks]
    return any(not each.preemptible or each.controller or each.revocable for each in needs)


def _total(needs: Iterable[Needs]) -> list[int]:
    sums = [0, 0, 0, 0]
    for each in needs:
        for kind, amount in enumerate(each.resources.values()):
            sums[kind] += amount
    return sums


def _less(whole: Iterable[int], slack: Iterable[int]) -> list[int]:
    """Without the slack, whose cpu is no part of the whole."""
    cpu, *others = (a - b for a, b in zip(whole, slack, strict=True))
    return [cpu + next(iter(slack)), *others]


def _over(held: list[int], requested: list[int], bound: Iterable[int]) -> bool:
    return any(a and h + a > b for h, a, b in zip(held, requested, bound, strict=True))


def _left_out(pool: Pool) -> bool:
    """Return whether others may have a part of what a pool is entitled to, whose demand cannot be used."""
    return any(part.unusable for part in pool.divided())
