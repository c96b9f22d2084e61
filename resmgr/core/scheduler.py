"""The resource manager's state and every event that changes it. One object, one thread, no I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from peloton.errors import NotFound, Refused
from peloton.model.ids import JobId, Run, task_id
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TaskType
from resmgr.core import admission
from resmgr.core.deadlines import Deadlines
from resmgr.core.entitlement import entitle
from resmgr.core.leases import Holder, Leases
from resmgr.core.placements import Failure, Handover, Placement, Proposal, Rejection
from resmgr.core.pools import Pool, PoolTree
from resmgr.core.queues import ReadyQueue
from resmgr.core.registry import Registry
from resmgr.core.tasks import BEFORE_LAUNCH, IN_ENGINE, OBSERVED, STATES, Event, Gang, Needs, Task
from resmgr.core.waiting import Reasons

CAPACITY_UNKNOWN = "cluster capacity unknown: host manager has not answered"
_EXPLAINED_PER_TURN = 200
_S = TaskState


@dataclass(frozen=True, slots=True)
class Policy:
    """Numbers of behaviour 5.3, 7.3 and 7.4; times in seconds."""

    preemption: bool = True
    host_reservation: bool = False
    turn: int = 1000
    """Gangs admitted in one turn at most."""
    ready_limit: int = 100_000
    """Gangs per task type."""
    placed_limit: int = 1_000_000
    placing: float = 600.0
    """Doubled by each failed try."""
    launching: float = 1200.0
    reserved: float = 1800.0
    preempting: float = 600.0
    tries: int = 3
    """Failed placements after which a gang returns to its pool's queue."""
    cycles: int = 3
    """Such returns after which it asks for a reserved host."""
    retry_first: float = 1.0
    """Pause after the first failed try; doubled by each further one."""
    retry_longest: float = 30.0
    silence: float = 30.0
    """How long a lease outlives its holder's last call."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """A run that asks for resources, or is found to have them."""

    job_id: JobId
    instance: int
    run: int
    needs: Needs
    desired_host: str = ""


class Scheduler:
    def __init__(self, policy: Policy | None = None, stream_id: str = "") -> None:
        self.policy = policy or Policy()
        self.tree = PoolTree()
        self.registry = Registry()
        self.deadlines = Deadlines()
        self.leases = Leases()
        self.reasons = Reasons(stream_id)
        self.ready = {kind: ReadyQueue(f"ready {kind.name}") for kind in TaskType}
        self.placed: OrderedDict[Placement, None] = OrderedDict()
        self.changed = False
        """Whether admission may find something new to do."""
        self._waiting: OrderedDict[Pool, None] = OrderedDict()
        """Leaves with gangs in their queues, the one tried longest ago first."""

    # The tree and the cluster.

    def set_capacity(self, capacity: Resources, slack: Resources) -> None:
        first = self.tree.capacity is None
        self.tree.set_capacity(capacity, slack)
        self.entitle()
        if first:
            for pool in self._waiting:
                pool.unexplained.extend(gang for queue in pool.queues for gang in queue)

    def entitle(self) -> None:
        """To be called when the tree has changed."""
        if self.tree.capacity is not None:
            entitle(self.tree)
            self.changed = True

    def load_pools(self, configs: Iterable[PoolConfig]) -> None:
        """Raises NotFound where a parent is missing."""
        self.tree.load(configs)
        self.entitle()

    # Coming in.

    def enqueue(self, pool: Pool, gang: Sequence[NewTask], now: float) -> list[Task]:
        """Queue a gang at a leaf; the tasks that were new. A run that is known, or older than the known one,
        is left as it is; a newer one takes the known one's place. Raises Refused where the members are
        of different task types."""
        if len(gang) > 1 and len({new.needs.type for new in gang}) > 1:
            raise Refused("a gang's tasks must all be of one task type")
        tasks = [task for new in gang if (task := self._new(pool, new, _S.PENDING, now)) is not None]
        if tasks:
            self._queue(Gang(pool, tuple(tasks)))
        return tasks

    def restore(self, pool: Pool, new: NewTask, state: TaskState, host: str, now: float) -> None:
        """A run that is on a host already, with its allocation."""
        task = self._new(pool, new, state, now)
        if task is None:
            return
        pool.charge(task.needs.charge)
        self.registry.put_on_host(task, host)
        if state is _S.PREEMPTING:
            self.deadlines.set(task, now + self.policy.preempting)

    def _new(self, pool: Pool, new: NewTask, state: TaskState, now: float) -> Task | None:
        known = self.registry.current(new.job_id, new.instance)
        if known is not None:
            if known.run >= new.run:
                return None
            self._supersede(known, now)
        job = self.registry.job(new.job_id)
        task = Task(job, new.instance, new.run, new.needs, pool, state, now, new.desired_host)
        self.registry.add(task)
        return task

    def _supersede(self, old: Task, now: float) -> None:
        """Make room for a newer run. What may be on a host stays as an orphan until it ends; a run that
        jobmgr was given and may yet launch stays as long as a launch may take."""
        if old.state in BEFORE_LAUNCH and old.state is not _S.LAUNCHING:
            self._forget(old)
            return
        self._leave_gang(old)
        self.reasons.set(old, "")
        if old.state is _S.LAUNCHING:
            self.deadlines.set(old, now + self.policy.launching)
        self.registry.orphan(old)

    def _queue(self, gang: Gang) -> None:
        pool = gang.pool
        pool.pending.add(gang)
        pool.want(gang.charge)
        pool.unexplained.append(gang)
        self._waiting[pool] = None
        self.changed = True

    # Admission.

    def admit(self, now: float) -> bool:
        """One turn over all queues; whether it ended before all was tried, so that another is due now."""
        self.changed = False
        if self.tree.capacity is None:
            for pool in self._waiting:
                self._explain(pool, CAPACITY_UNKNOWN)
            return False
        budget = self.policy.turn
        for _ in range(len(self._waiting)):
            pool = next(iter(self._waiting))
            budget = self._admit_pool(pool, budget, now)
            if budget <= 0:
                return True
            self._waiting.move_to_end(pool)
            if not pool.waiting:
                del self._waiting[pool]
        return False

    def _admit_pool(self, pool: Pool, budget: int, now: float) -> int:
        for gang, refused in admission.turn(pool, self.policy.preemption):
            if refused is not None:
                self._give_reason(gang, str(refused))
                continue
            ready = self.ready[gang.type]
            if len(ready) >= self.policy.ready_limit:
                self._give_reason(gang, f"queue {ready.name} is full with {len(ready)} gangs")
                break
            self._admit(gang, ready, now)
            budget -= 1
            if budget <= 0:
                return 0
        self._explain(pool, None)
        return budget

    def _admit(self, gang: Gang, ready: ReadyQueue, now: float) -> None:
        pool = gang.pool
        assert gang.queue is not None
        gang.queue.remove(gang)
        pool.unwant(gang.charge)
        pool.charge(gang.charge)
        gang.tries = 0
        for task in gang.tasks:
            self._step(task, Event.ADMIT, now)
            if task.reason and not gang.cycles:
                self.reasons.set(task, "")
        ready.add(gang)

    def _explain(self, pool: Pool, reason: str | None) -> None:
        """Tell gangs that were queued here why they wait: behind others, unless `reason` says otherwise."""
        for _ in range(min(len(pool.unexplained), _EXPLAINED_PER_TURN)):
            gang = pool.unexplained.popleft()
            queue = gang.queue
            if queue is None or queue not in pool.queues:
                continue
            if reason is not None:
                self._give_reason(gang, reason)
            elif gang.tasks[0].reason in ("", CAPACITY_UNKNOWN):
                self._give_reason(gang, f"behind earlier gangs in queue {queue.name} of {pool.path}")

    def _give_reason(self, gang: Gang, reason: str) -> None:
        for task in gang.tasks:
            self.reasons.set(task, reason)

    # Placement.

    def dequeue(self, kind: TaskType, limit: int, holder: Holder | None, now: float) -> list[Gang]:
        """Up to `limit` gangs of that task type, leased to the holder until placed, failed or out of time."""
        ready, gangs = self.ready[kind], []
        for _ in range(min(limit, len(ready))):
            gang = ready.pop()
            for task in gang.tasks:
                self._step(task, Event.DEQUEUE, now)
                self.leases.take(holder, task)
            self.deadlines.set(gang, now + self.placing_timeout(gang))
            gangs.append(gang)
        return gangs

    def placing_timeout(self, gang: Gang) -> float:
        """Seconds that an engine has for the gang."""
        return self.policy.placing * 2.0 ** min(gang.tries, 10)

    def wants_reserved_host(self, gang: Gang) -> bool:
        """Whether it was sent back so often that a host should be kept free for it (behaviour 5.3)."""
        return self.policy.host_reservation and gang.cycles >= self.policy.cycles

    def propose(
        self, holder: Holder | None, proposals: Sequence[Proposal], failures: Sequence[Failure], now: float
    ) -> list[Rejection]:
        """An engine's result. A gang is taken whole or not at all: where a call places a part of it only,
        that part is rejected and the gang goes back as after a failed try."""
        rejections: list[Rejection] = []
        found: dict[Run, Task] = {}
        for proposal in proposals:
            for run in proposal.runs:
                wrong = self._placeable(run, holder, found)
                if wrong:
                    rejections.append(Rejection(proposal, run, wrong))
        broken = {task.gang: None for task in found.values() if task.gang and not _whole(task.gang, found)}
        for proposal in proposals:
            rejections += self._accept(proposal, found, broken, now)
        for gang in broken:
            self._failed_try(gang, f"placed in part only: {len(gang.tasks)} tasks belong together", now)
        for failure in failures:
            self._fail(failure, holder, now)
        return rejections

    def _placeable(self, run: Run, holder: Holder | None, found: dict[Run, Task]) -> str:
        task = self.registry.find(run)
        if task is None or task.orphan:
            return "the run is not known"
        if task.state not in IN_ENGINE:
            return f"the task is {task.state.name}, not PLACING"
        if task.holder is not holder:
            return "the task is leased to another instance"
        if run in found:
            return "the run is placed twice"
        if len(self.placed) >= self.policy.placed_limit:
            return f"the queue of placements is full with {len(self.placed)}"
        found[run] = task
        return ""

    def _accept(
        self, proposal: Proposal, found: dict[Run, Task], broken: Mapping[Gang, None], now: float
    ) -> list[Rejection]:
        rejections: list[Rejection] = []
        placement = Placement(proposal.host, proposal.agent_id, proposal.offer_id, proposal.type)
        position = 0
        for run in proposal.runs:
            task = found.pop(run, None)
            known = task or self.registry.find(run)
            count = known.needs.ports if known is not None else 0
            ports, position = proposal.ports[position : position + count], position + count
            if task is None:
                continue
            if task.gang in broken:
                rejections.append(Rejection(proposal, run, "its gang is not placed whole"))
                continue
            self._place(task, placement, ports, now)
        if placement.tasks:
            self.placed[placement] = None
        return rejections

    def _place(self, task: Task, placement: Placement, ports: tuple[int, ...], now: float) -> None:
        assert task.gang is not None
        self._step(task, Event.PLACE, now)
        self.deadlines.cancel(task.gang)
        self.leases.release(task)
        placement.tasks[task] = ports
        task.placement = placement
        self.registry.put_on_host(task, placement.host)
        self.reasons.set(task, "")

    def _fail(self, failure: Failure, holder: Holder | None, now: float) -> None:
        gangs: dict[Gang, None] = {}
        for run in failure.runs:
            task = self.registry.find(run)
            if task is not None and task.gang and task.state in IN_ENGINE and task.holder is holder:
                gangs[task.gang] = None
        for gang in gangs:
            self._failed_try(gang, failure.reason or "no host was found", now)

    def _failed_try(self, gang: Gang, reason: str, now: float) -> None:
        gang.tries += 1
        self._give_reason(gang, reason)
        if gang.tries >= self.policy.tries:
            gang.cycles += 1
            self._send_back(gang, now)
            return
        pause = min(self.policy.retry_first * 2.0 ** (gang.tries - 1), self.policy.retry_longest)
        self._recall(gang, Event.RETRY, now)
        self.deadlines.set(gang, now + pause)

    def _send_back(self, gang: Gang, now: float) -> None:
        """To the tail of its pool's queue; its allocation is free."""
        self._recall(gang, Event.RETURN, now)
        gang.pool.free(gang.charge)
        self._queue(gang)

    def _retry(self, gang: Gang, now: float) -> None:
        """To the tail of the ready queue; its allocation is kept."""
        self._recall(gang, Event.RETRY, now)
        self.ready[gang.type].add(gang)

    def _recall(self, gang: Gang, event: Event, now: float) -> None:
        """Take every member back from wherever it is."""
        self.deadlines.cancel(gang)
        if gang.queue is not None:
            gang.queue.remove(gang)
        for task in gang.tasks:
            self._step(task, event, now)
            self._unplace(task)
            self.registry.leave_host(task)

    # Launch.

    def hand_over(self, limit: int, holder: Holder | None, now: float) -> list[Handover]:
        """Up to `limit` placements for jobmgr, leased to it until it settles each task."""
        given: list[Handover] = []
        while self.placed and len(given) < limit:
            placement, _ = self.placed.popitem(last=False)
            for task in placement.tasks:
                assert task.gang is not None
                self._step(task, Event.HAND_OVER, now)
                self.leases.take(holder, task)
                self.deadlines.set(task.gang, now + self.policy.launching)
            given.append(
                Handover(
                    placement.host,
                    placement.agent_id,
                    placement.offer_id,
                    placement.type,
                    tuple(task.key for task in placement.tasks),
                    tuple(port for ports in placement.tasks.values() for port in ports),
                )
            )
            for task in placement.tasks:
                task.placement = None
        return given

    def observe(self, run: Run, state: TaskState, now: float) -> bool:
        """What Mesos, or jobmgr, says of a run; whether the run is known and the state says anything."""
        task, event = self.registry.find(run), OBSERVED.get(state)
        if task is None or event is None:
            return False
        if event is Event.END:
            self._forget(task)
            return True
        if not STATES.allows(task.state, event):
            return False
        if task.state is _S.PENDING:
            task.pool.charge(task.needs.charge)
        self._leave_gang(task)
        if STATES.next(task.state, event) is not task.state:
            self._step(task, event, now)
        if task.orphan:
            self.deadlines.cancel(task)
        self.reasons.set(task, "")
        return True

    def kill(self, job_id: JobId, instance: int) -> None:
        """Take a task out before it is launched. Raises NotFound, and Refused naming the state once it is."""
        task = self.registry.current(job_id, instance)
        if task is None:
            raise NotFound(f"no task {task_id(job_id, instance)} is known here")
        if task.state not in BEFORE_LAUNCH:
            raise Refused(f"task {task_id(job_id, instance)} is {task.state.name}: it is launched already")
        self._forget(task)

    # Time.

    def expire(self, now: float) -> int:
        """Act on the deadlines that have come; how many there were."""
        count = 0
        for subject in self.deadlines.due(now):
            count += 1
            if isinstance(subject, Gang):
                self._gang_late(subject, now)
            elif subject.orphan:
                self._forget(subject)
            elif subject.state is _S.PREEMPTING:
                self._step(subject, Event.SPARE, now)
        return count

    def _gang_late(self, gang: Gang, now: float) -> None:
        states = {task.state for task in gang.tasks}
        if _S.PLACING in states:
            self._failed_try(gang, "the placement engine did not answer in time", now)
        elif _S.RESERVED in states:
            self._give_reason(gang, "no host could be reserved in time")
            self._send_back(gang, now)
        elif _S.LAUNCHING in states:
            self._give_reason(gang, "the job manager did not launch it in time")
            self._retry(gang, now)
        elif gang.queue is None:
            self.ready[gang.type].add(gang)

    def lapse(self, now: float, present: Collection[str] | None = None) -> int:
        """Take back what is leased to holders that are silent or not `present` (None: not known); how many
        gangs that was."""
        gangs: dict[Gang, None] = {}
        for holder in self.leases.over(now, self.policy.silence, present):
            gangs.update((task.gang, None) for task in holder.tasks if task.gang is not None)
        for gang in gangs:
            self._retry(gang, now)
        return len(gangs)

    # Below all of these.

    def _step(self, task: Task, event: Event, now: float) -> None:
        following = STATES.table.get((task.state, event))
        task.state = STATES.next(task.state, event, repr(task)) if following is None else following
        task.since = now

    def _forget(self, task: Task) -> None:
        """A run that is over: out of everything, its allocation free."""
        queued = task.state is _S.PENDING
        self._leave_gang(task)
        if not queued:
            task.pool.free(task.needs.charge)
        self.deadlines.cancel(task)
        self.registry.remove(task)
        self.reasons.set(task, "")
        self.changed = True

    def _leave_gang(self, task: Task) -> None:
        """Out of its queue, its gang, its placement, its lease. What remains of the gang keeps its place."""
        self._unplace(task)
        gang = task.gang
        if gang is None:
            return
        if task.state is _S.PENDING:
            gang.pool.unwant(task.needs.charge)
        gang.leave(task)
        if not gang.tasks:
            self.deadlines.cancel(gang)
            if gang.queue is not None:
                gang.queue.remove(gang)

    def _unplace(self, task: Task) -> None:
        self.leases.release(task)
        placement = task.placement
        if placement is not None:
            task.placement = None
            del placement.tasks[task]
            if not placement.tasks:
                del self.placed[placement]


def _whole(gang: Gang, found: Mapping[Run, Task]) -> bool:
    """Whether every member is among the tasks that were found placeable."""
    return all(found.get(task.key) is task for task in gang.tasks)
