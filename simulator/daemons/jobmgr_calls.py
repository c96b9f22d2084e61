"""What the core of jobmgr wants done: its instructions, carried out by calls to the other daemons.

Instructions of a kind that the real drivers carry out one after the other are so here, too.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.claims.holds import NOTHING, HoldRequest
from hostmgr.core.state.offers import Free
from jobmgr.core.launch_answers import MAX_CALL_FAILURES, LaunchAnswer, LaunchResult, outcome
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import (
    Compared,
    Enqueued,
    EnqueueRefused,
    Event,
    Launched,
    LaunchUncertain,
    RunOf,
    Withdrawn,
)
from jobmgr.core.state.instructions import (
    Compare,
    Enqueue,
    Instruction,
    Keep,
    Kill,
    Launch,
    Prune,
    Reconcile,
    Release,
    ReleaseHolds,
    RenewHolds,
    Retire,
    Settle,
    ShutDown,
    Withdraw,
)
from peloton.errors import (
    Conflict,
    Fenced,
    InvalidArgument,
    PelotonError,
    Refused,
    ResourceExhausted,
    Unavailable,
)
from peloton.model.ids import JobId, PoolId, Run, mesos_task_id, task_id
from peloton.model.task import Launch as Launchable
from peloton.model.task import TaskSpec
from resmgr.core.state.needs import NewTask
from simulator.daemons.translate import NeedsOfTasks
from simulator.world.kernel import Life
from simulator.world.network import Caller
from simulator.world.universe import Universe

TRANSIENT = (Unavailable, ResourceExhausted, Conflict, Fenced)
RETRY_SECONDS = 0.5
GANGS_PER_CALL = 1000

Done = Callable[[Any], None]


class Lane(Protocol):
    """The job manager whose instructions are carried out."""

    universe: Universe
    life: Life
    caller: Caller

    def post(self, event: Event, done: Done | None = None) -> None:
        """Hand over an event."""
        ...

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job."""
        ...

    def submit_write(self, write: Callable[[], Any], done: Done) -> None:
        """Have something written in this term."""
        ...


class Serial:
    """Items that are sent in batches, one after the other."""

    def __init__(self, send: Callable[[list[Any], Callable[[], None]], None], limit: int = 1000) -> None:
        """`send` gets a batch, and what to call when that is done."""
        self._send = send
        self._limit = limit
        self._items: deque[Any] = deque()
        self._busy = False

    def put(self, *items: Any) -> None:
        """Append items."""
        self._items.extend(items)
        self._next()

    def _next(self) -> None:
        if self._busy or not self._items:
            return
        self._busy = True
        batch = [self._items.popleft() for _ in range(min(self._limit, len(self._items)))]
        self._send(batch, self._done)

    def _done(self) -> None:
        self._busy = False
        self._next()


class _Repeated:
    """A call that is made until its answer is no failure which passes.

    It is no closure that refers to itself: that would be a cycle, which only the garbage collector frees.
    """

    __slots__ = ("_args", "_done", "_lane", "_method", "_role", "_transient")

    def __init__(
        self,
        lane: Lane,
        role: str,
        method: str,
        args: tuple[Any, ...],
        done: Done,
        transient: tuple[type[PelotonError], ...],
    ) -> None:
        self._lane = lane
        self._role, self._method, self._args = role, method, args
        self._done = done
        self._transient = transient

    def call(self) -> None:
        """Make the call."""
        lane = self._lane
        lane.universe.network.call(lane.caller, self._role, self._method, self._args, self._answered)

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, self._transient):
            self._lane.universe.kernel.after(RETRY_SECONDS, self._lane.life, self.call)
        else:
            self._done(answer)


class Instructions:
    """Carries out the instructions of one lane."""

    def __init__(self, lane: Lane, needs: NeedsOfTasks) -> None:
        self._lane = lane
        self._needs = needs
        self._kernel = lane.universe.kernel
        self._store = lane.universe.store
        self._enqueue = Serial(self._send_enqueue, 256)
        self._enqueue_again = Serial(self._send_enqueue, 256)
        self._withdraw = Serial(self._send_withdraw, 256)
        self._compare = Serial(self._send_compare, 1)
        self._settle = Serial(self._sender("resmgr", "on_settle"))
        self._kill = Serial(self._sender("hostmgr", "on_kill"))
        self._shut_down = Serial(self._sender("hostmgr", "on_shut_down"))
        self._reconcile = Serial(self._sender("hostmgr", "on_reconcile"))

    def carry_out(self, it: Instruction) -> None:
        """Carry out an instruction; its end comes back as an event."""
        self._kernel.point(self._lane.life, f"before {type(it).__name__}")
        match it:
            case Enqueue():
                (self._enqueue_again if it.again else self._enqueue).put(it)
            case Launch():
                self._launch(it)
            case Settle(runs):
                self._settle.put(*runs)
            case Retire(job_id, delete):
                self._retire(job_id, delete)
            case Withdraw():
                self._withdraw.put(it)
            case Compare():
                self._compare.put(it)
            case Release(_, _, offer_id):
                self._call("hostmgr", "on_release", ([offer_id],), _ignore)
            case _:
                self._carry_out_end(it)

    def _carry_out_end(self, it: Instruction) -> None:
        match it:
            case Kill(runs, held):
                hosts = dict(held)
                self._kill.put(*(mesos_task_id(*run) for run in runs if run not in hosts))
                if held:
                    self._kill_and_hold(held)
            case ShutDown(runs):
                self._shut_down.put(*((mesos_task_id(*run), agent) for run, agent in runs))
            case Reconcile(runs):
                self._reconcile.put(*((mesos_task_id(*run), agent) for run, agent in runs))
            case Keep(runs):
                self._call("resmgr", "on_keep", (runs,), _ignore)
            case ReleaseHolds(instances):
                self._call("hostmgr", "on_release_holds", (instances,), _ignore)
            case RenewHolds() | Prune():
                pass  # a hold is not renewed here: it ends by itself; old workflows are kept
            case _:
                raise AssertionError(f"{type(it).__name__} is not simulated")

    def _call(self, role: str, method: str, args: tuple[Any, ...], done: Done) -> None:
        lane = self._lane
        lane.universe.network.call(lane.caller, role, method, args, done)

    def _until_answered(
        self, role: str, method: str, args: tuple[Any, ...], done: Done,
        transient: tuple[type[PelotonError], ...] = TRANSIENT,
    ) -> None:  # fmt: skip
        """Call until there is an answer that is no failure which passes."""
        _Repeated(self._lane, role, method, args, done, transient).call()

    def _sender(self, role: str, method: str) -> Callable[[list[Any], Callable[[], None]], None]:
        """Return what sends batches whose answers say nothing: the core repeats what has no effect."""

        def send(batch: list[Any], done: Callable[[], None]) -> None:
            self._until_answered(role, method, (batch,), lambda _: done())

        return send

    # Enqueueing.

    def _send_enqueue(self, batch: list[Enqueue], done: Callable[[], None]) -> None:
        pools: dict[PoolId, list[tuple[JobId, tuple[RunOf, ...], list[NewTask]]]] = defaultdict(list)
        for item in batch:
            job = self._lane.job(item.job_id)
            if job is None:
                continue
            for gang in item.gangs:
                if tasks := self._waiting(job, gang):
                    pools[job.spec.pool_id].append((item.job_id, gang, tasks))
        left = len(pools)
        if not left:
            self._kernel.after(0.0, self._lane.life, done)
            return

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for pool, gangs in pools.items():
            self._send_gangs(pool, gangs, one_done)

    def _send_gangs(
        self,
        pool: PoolId,
        gangs: list[tuple[JobId, tuple[RunOf, ...], list[NewTask]]],
        done: Callable[[], None],
    ) -> None:
        def answered(answer: Any) -> None:
            refused: Mapping[int, str] = answer
            if isinstance(answer, PelotonError):
                refused = dict.fromkeys(range(len(gangs)), str(answer))
            taken: dict[JobId, list[RunOf]] = defaultdict(list)
            for at, (job_id, gang, _) in enumerate(gangs):
                if at in refused:
                    self._lane.post(EnqueueRefused(job_id, gang, refused[at]))
                else:
                    taken[job_id] += gang
            for job_id, runs in taken.items():
                self._lane.post(Enqueued(job_id, runs))
            done()

        self._until_answered("resmgr", "on_enqueue", (pool, [tasks for _, _, tasks in gangs]), answered)

    def _waiting(self, job: CachedJob, gang: Sequence[RunOf]) -> list[NewTask]:
        found = []
        for instance, run in gang:
            task = job.task(instance)
            if task is not None and task.run == run:
                found.append(self._needs.new_task(job.job_id, job.spec_of(instance), instance, task))
        return found

    def _send_withdraw(self, batch: list[Withdraw], done: Callable[[], None]) -> None:
        runs = [Run(item.job_id, *run) for item in batch for run in item.runs]

        def answered(answer: Any) -> None:
            for item in batch:
                self._lane.post(Withdrawn(item.job_id, item.runs))
            done()

        self._until_answered("resmgr", "on_withdraw", (runs,), answered, (PelotonError,))

    def _send_compare(self, batch: list[Compare], done: Callable[[], None]) -> None:
        (it,) = batch

        def answered(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                answer = [(i, span.run) for span in it.spans for i in range(span.first, span.end)]
            self._lane.post(Compared(it.job_id, answer))
            done()

        self._until_answered("resmgr", "on_missing", (it.job_id, it.spans), answered)

    # Launches.

    def _launch(self, it: Launch) -> None:
        launches = [made for run in it.runs if (made := self._launchable(run)) is not None]
        if not launches:
            self._call("hostmgr", "on_release", ([it.offer_id],), _ignore)
            self._lane.post(Launched(it.runs))
            return
        self._try_launch(it, launches, 0, False)

    def _try_launch(self, it: Launch, launches: list[Launchable], failures: int, uncertain: bool) -> None:
        def answered(answer: Any) -> None:
            told = _launch_answer(answer)
            if told is not None:
                self._lane.post(outcome(it.runs, told, uncertain))
                return
            failed = failures + (not isinstance(answer, TRANSIENT))
            if failed >= MAX_CALL_FAILURES:
                self._lane.post(LaunchUncertain(it.runs))
                return
            self._kernel.after(RETRY_SECONDS, self._lane.life, self._try_launch, it, launches, failed, True)

        args = (it.offer_id, it.hostname, it.agent_id, launches)
        self._call("hostmgr", "on_launch", args, answered)

    def _launchable(self, run: Run) -> Launchable | None:
        """Return what is launched; None for a run that is not current any more."""
        job = self._lane.job(run.job_id)
        task = job.task(run.instance) if job is not None else None
        if job is None or task is None or task.run != run.run:
            return None
        spec = job.spec_of(run.instance)
        own = spec.task(run.instance)
        dynamic = tuple(task.ports[port.name] for port in own.ports if port.value == 0)
        return Launchable(
            mesos_task_id(*run), own.resources, None, spec.revocable(run.instance), task.ports, dynamic
        )

    # Ends.

    def _kill_and_hold(self, held: Sequence[tuple[Run, str]]) -> None:
        runs = {}
        for run, host in held:
            job = self._lane.job(run.job_id)
            room = None if job is None else _room(job.spec.task(run.instance))
            freed = NOTHING if job is None else _room(job.task_spec(run.instance))
            runs[mesos_task_id(*run)] = HoldRequest(task_id(run.job_id, run.instance), host, room, freed)
        self._until_answered("hostmgr", "on_kill_and_hold", (runs,), _ignore)

    def _retire(self, job_id: JobId, delete: bool) -> None:
        def write() -> None:
            if delete:
                self._store.delete(job_id)
            else:
                self._store.retire([job_id])

        def done(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                self._kernel.after(RETRY_SECONDS, self._lane.life, self._retire, job_id, delete)

        self._lane.submit_write(write, done)


def _launch_answer(answer: Any) -> LaunchAnswer | None:
    """Return what hostmgr has answered to a launch; None where it has not, so that the call is made again."""
    if isinstance(answer, InvalidOffers | Refused):
        return LaunchAnswer(LaunchResult.CLAIM_OVER, str(answer))
    if isinstance(answer, InvalidArgument):
        return LaunchAnswer(LaunchResult.FAULTY, str(answer))
    return None if isinstance(answer, PelotonError) else LaunchAnswer(LaunchResult.LAUNCHED)


def _room(spec: TaskSpec) -> Free:
    return Free(spec.resources, 0, spec.dynamic_ports)


def _ignore(answer: Any) -> None:
    """Take an answer on which nothing depends."""
