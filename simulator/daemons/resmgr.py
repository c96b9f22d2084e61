"""The resource manager in the simulated world: interprets `resmgr.core.scheduler` for one term."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peloton.errors import Fenced, InvalidArgument, NotFound, PelotonError, Refused
from peloton.model.ids import JobId, Run, parse_mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import ON_HOST_TASK_STATES, TaskState, TaskType
from peloton.model.task import TaskRuntime, TaskStatus
from placement.core.model import Gang
from resmgr.core import restoring
from resmgr.core.auditing import Audit
from resmgr.core.placing.expiry import AT_ONCE
from resmgr.core.preemption.decide import Rules
from resmgr.core.preemption.policy import Victim
from resmgr.core.restoring import WAITING
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.classes import ClassCapacity, without_pools
from resmgr.core.state.entities import Holder
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import NewTask
from resmgr.core.state.placements import Handover, PlacementFailure, Proposal, ReservedGang
from simulator.daemons.hostmgr import Capacity
from simulator.daemons.translate import NeedsOfPlacement, NeedsOfTasks, resmgr_shape
from simulator.world.kernel import Life, Timer
from simulator.world.network import LATER, Caller, Reply
from simulator.world.store import StoredJob
from simulator.world.universe import Universe

ROLE = "resmgr"
LEASE_SECONDS = 1.0
SPARE_SECONDS = 2.0
FEASIBILITY_SECONDS = 1.0
GATHER_SECONDS = 0.05
POLL_SECONDS = 10.0
EVENTS = 1000
RETRY_SECONDS = 0.5
STRANGERS_SECONDS = 1.0
MOST_HANDED = 10_000
_MOMENT = 1e-6
"""Less than this is no time."""


@dataclass(slots=True)
class ResmgrOptions:
    """Settings of the resource manager that the simulation knows. Times are in seconds."""

    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    admission_interval: float = 0.1
    admission_pause: float = 0.005
    entitlement_interval: float = 60.0
    preemption_period: float = 60.0
    preemption_limit: int = 10_000
    capacity_first: float = 1.0
    capacity_interval: float = 10.0
    audit_interval: float = 3600.0


@dataclass(slots=True)
class _Poll:
    """A caller that waits until there is something for it."""

    ready: Callable[[], bool]
    answer: Callable[[], Any]
    reply: Reply
    holder: Holder | None
    timer: Timer | None = None


class Resmgr:
    """One term of the resource manager."""

    def __init__(
        self,
        universe: Universe,
        life: Life,
        term: int,
        options: ResmgrOptions,
        needs: NeedsOfTasks,
        placed: NeedsOfPlacement,
    ) -> None:
        self.life = life
        self.term = term
        self._universe = universe
        self._kernel = universe.kernel
        self._network = universe.network
        self._caller = Caller(life, term)
        self._options = options
        self._needs = needs
        self._placed = placed
        self.scheduler = Scheduler(
            options.limits, f"reasons-{term}-0", options.rules, options.preemption_limit
        )
        self._audit = Audit(self.scheduler)
        self.leader_id = f"{life.name}-{term}"
        self.restored = False
        """Whether the stored tasks on hosts are known: nothing is admitted before."""
        self.recovered = False
        """Whether the stored waiting tasks are queued again."""
        self.restores = True
        """Whether the stored runs on hosts are taken in; False is a bug to plant."""
        self.on_admission: Callable[[Scheduler, bool], None] | None = None
        """Called before each cycle of admission with False, after it with True."""
        self.victims: list[tuple[float, Victim]] = []
        """Gangs that were preempted, and when."""
        self.preempted: set[Run] = set()
        """Their runs."""
        self._polls: dict[str, list[_Poll]] = {}
        self._after_recovery: list[Callable[[], None]] = []
        self._turn: Timer | None = None
        self._turn_at = 0.0
        self._last_turn = -1.0
        self._stream = ""
        self._next = 0
        self._streams = 0
        self.looks_up = True
        """Whether runs that are not known here are looked up; False is a bug to plant."""
        self._sharing = self._preempting = self._looking_up = False
        self._sparing = self._leasing = self._comparing = False
        self._moved = False
        """Whether something has changed since a cycle was last set for the demand."""
        self._began = 0.0

    # The life of a term.

    def start(self) -> None:
        """Begin to lead: read the pools, then the tasks."""
        self._began = self._kernel.now
        self._recover()

    def _recover(self) -> None:
        store = self._universe.store

        def begun(answer: Any) -> None:
            if isinstance(answer, Fenced):
                return
            if isinstance(answer, PelotonError):
                self._kernel.after(RETRY_SECONDS, self.life, self._recover)
                return
            store.read(self.life, lambda: dict(store.pools), loaded)

        def loaded(pools: Mapping[str, Any]) -> None:
            self.scheduler.load_pools(pools.values())
            self._open_stream(self._restore)
            self._read_capacity()
            self._shorten_claims()
            if not self._universe.quiet:
                self._share_later()
                self._preempt_later()

        store.submit(self.life, ROLE, self.term, lambda: store.begin_term(ROLE, self.term), begun)

    def _share_later(self) -> None:
        """Share the capacity at the next turn of the interval, once something has changed."""
        if not self._sharing:
            self._sharing = True
            self._at_turn(self._options.entitlement_interval, self._share)

    def _preempt_later(self) -> None:
        """Check for preemption at the next turn of the period, while gangs wait."""
        if not self._preempting and self._options.limits.preemption:
            self._preempting = True
            self._at_turn(self._options.preemption_period, self._preempt)

    def _at_turn(self, period: float, work: Callable[[], None]) -> None:
        left = period - (self._kernel.now - self._began) % period
        # The sums of seconds are not exact: what is left of a turn that is just over may be nearly nothing.
        self._kernel.after(left if left > _MOMENT else left + period, self.life, work)

    def _restore(self) -> None:
        store = self._universe.store
        store.read(self.life, store.active_jobs, self._take_stored)

    def _take_stored(self, jobs: Any) -> None:
        now = self._kernel.now
        waiting: list[tuple[int, JobId, StoredJob]] = []
        for job_id, job in jobs.items():
            for instance, runtime in job.tasks.items():
                if runtime.state in ON_HOST_TASK_STATES:
                    self._take_in(job_id, job, instance, runtime)
            since = [task.updated_at for task in job.tasks.values() if task.state in WAITING]
            if since:
                waiting.append((min(since), job_id, job))
        self.restored = True
        for _, job_id, job in sorted(waiting, key=lambda each: each[0]):
            self._enqueue_stored(job_id, job, now)
        self.recovered = True
        if not self._universe.quiet:
            self._kernel.after(self._options.audit_interval, self.life, self._compare_with_store)
        ready, self._after_recovery = self._after_recovery, []
        for call in ready:
            call()
        self._pull()
        self.wake()

    def _take_in(self, job_id: JobId, job: StoredJob, instance: int, runtime: TaskRuntime) -> None:
        if not self.restores:
            return
        spec = job.specs[runtime.config_version]
        new = self._new_task(job_id, spec, instance, runtime)
        pool = self.scheduler.tree.get(spec.pool_id)
        restoring.take_in(self.scheduler, pool, new, runtime.state, runtime.host, self._kernel.now)

    def _new_task(self, job_id: JobId, spec: JobSpec, instance: int, runtime: TaskRuntime) -> NewTask:
        return self._needs.new_task(job_id, spec, instance, runtime)._replace(host="")

    def _enqueue_stored(self, job_id: JobId, job: StoredJob, now: float) -> None:
        waiting = {i: runtime for i, runtime in sorted(job.tasks.items()) if runtime.state in WAITING}
        self._enqueue_tasks(job_id, job, waiting, now)

    def _enqueue_tasks(
        self, job_id: JobId, job: StoredJob, tasks: Mapping[int, TaskRuntime], now: float
    ) -> None:
        gang: list[NewTask] = []
        gangs = [gang]
        for instance, runtime in tasks.items():
            spec = job.specs[runtime.config_version]
            new = self._new_task(job_id, spec, instance, runtime)
            if spec.in_gang(instance):
                gang.append(new)
            else:
                gangs.append([new])
        pool_id = max(job.specs.items())[1].pool_id
        pool = self.scheduler.tree.get(pool_id)
        for each in gangs:
            if each:
                try:
                    self.scheduler.enqueue(pool, each, now)
                except Refused:
                    continue

    def _compare_with_store(self) -> None:
        """Audit the tasks in memory, and repair what differs again."""
        store = self._universe.store
        self._audit.begin(self._kernel.now)

        def done(jobs: Mapping[JobId, StoredJob]) -> None:
            now = self._kernel.now
            for job_id, job in jobs.items():
                missing = self._audit.compare(job_id, job.tasks, now)
                for instance, runtime in missing.take_in.items():
                    self._take_in(job_id, job, instance, runtime)
                if missing.queue:
                    self._enqueue_tasks(job_id, job, missing.queue, now)
                self._audit.check_absent(job_id, job.tasks, now)
            self._audit.check_absent_jobs(jobs, now)
            self._audit.end()
            self._kernel.after(self._options.audit_interval, self.life, self._compare_with_store)
            self.wake()

        store.read(self.life, store.active_jobs, done)

    def _look_up_later(self) -> None:
        """Look up runs soon that are reported as on hosts and are not known here."""
        if self.scheduler.strangers and not self._looking_up and self.looks_up:
            self._looking_up = True
            self._kernel.after(STRANGERS_SECONDS, self.life, self._look_up)

    def _look_up(self) -> None:
        strangers = self.scheduler.strangers
        runs = strangers.ask(len(strangers))

        def done(jobs: Mapping[JobId, StoredJob]) -> None:
            self._looking_up = False
            for run in runs:
                job = jobs.get(run.job_id)
                runtime = job.tasks.get(run.instance) if job is not None else None
                if not strangers.answered(run) or job is None or runtime is None or runtime.run != run.run:
                    continue
                if runtime.state in ON_HOST_TASK_STATES:
                    self._take_in(run.job_id, job, run.instance, runtime)
            self._look_up_later()
            self.wake()

        self._universe.store.read(self.life, self._universe.store.active_jobs, done)

    def _when_recovered(self, reply: Reply, answer: Callable[[], Any]) -> Any:
        """Answer now, or once all stored tasks are known."""
        if self.recovered:
            return answer()
        self._after_recovery.append(lambda: reply(_answered(answer)))
        return LATER

    # The loop.

    def wake(self) -> None:
        """Have a cycle run soon where the scheduler has something to do; answer who waits."""
        self._share_later()
        if self.scheduler.changed:
            self._moved = True
            self._cycle_at(max(self._kernel.now, self._last_turn + self._options.admission_pause))
        self._answer_polls()

    def _cycle_at(self, when: float) -> None:
        if not self.restored:
            return
        if self._turn is not None:
            if self._turn_at <= when:
                return
            self._turn.cancel()
        self._turn_at = when
        self._turn = self._kernel.after(max(0.0, when - self._kernel.now), self.life, self._cycle)

    def _cycle(self) -> None:
        self._turn = None
        self._kernel.point(self.life, "before a cycle of admission")
        scheduler, now = self.scheduler, self._kernel.now
        self._last_turn = now
        late = scheduler.expire(now) >= AT_ONCE
        if self.on_admission is not None:
            self.on_admission(scheduler, False)
        more = scheduler.admit(now) or late
        if self.on_admission is not None:
            self.on_admission(scheduler, True)
        scheduler.reasons.flush(now)
        self._answer_polls()
        if more:
            # The rest follows at once; entitlement that is due because of demand has a time of its own.
            self._cycle_at(now + self._options.admission_pause)
        elif (due := scheduler.deadlines.next()) is not None:
            self._cycle_at(max(due, now + self._options.admission_pause))
        self._watch_demand()
        self._look_after()

    def _watch_demand(self) -> None:
        """Run the next cycle in time where queues wait for entitlement to follow demand."""
        if not self.scheduler.pending.active or self.scheduler.tree.capacity is None:
            return
        if not self._universe.quiet:
            self._cycle_at(self._kernel.now + self._options.admission_interval)
        elif self._moved:
            # Where nothing has changed since, a cycle decides what the one before it did.
            self._moved = False
            self._cycle_at(self._kernel.now + self._options.limits.sharing_interval)

    def _look_after(self) -> None:
        """Begin the periodic work that there is something for."""
        if self.scheduler.pending.active:
            self._preempt_later()
        if not self._leasing and len(self.scheduler.leases):
            self._leasing = True
            self._kernel.after(LEASE_SECONDS, self.life, self._expire_leases)
        if not self._comparing and self.scheduler.infeasible.shapes():
            self._comparing = True
            self._kernel.after(FEASIBILITY_SECONDS, self.life, self._compare)

    def _expire_leases(self) -> None:
        self._leasing = False
        for polls in self._polls.values():
            for poll in polls:
                if poll.holder is not None and poll.reply.wanted:
                    poll.holder.last_seen = self._kernel.now
        present = {*self._universe.present("placement"), *self._universe.present("jobmgr")}
        self.scheduler.expire_leases(self._kernel.now, present)
        self._release_abandoned()
        self.wake()
        self._look_after()

    def _release_abandoned(self) -> None:
        given = self.scheduler.take_abandoned()
        if given:
            self._call("hostmgr", "on_release", ([each.offer_id for each in given],), _ignore)

    def _share(self) -> None:
        self._sharing = False
        self.scheduler.entitle()
        # What follows from it alone changes nothing that entitlement depends on, unless gangs are admitted.
        self._sharing = self._universe.quiet
        self.wake()
        self._sharing = False
        if not self._universe.quiet:
            self._share_later()

    def _preempt(self) -> None:
        self._preempting = False
        if self.scheduler.pending.active or not self._universe.quiet:
            self._preempt_later()
        if not self.recovered:
            return
        victims: list[Victim] = []
        steps = self.scheduler.preemptor.steps(self._kernel.now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                victims = end.value
                break
        self.victims += ((self._kernel.now, each) for each in victims)
        self.preempted.update(run for each in victims for run in each.runs)
        if victims and not self._sparing:
            self._sparing = True
            self._kernel.after(SPARE_SECONDS, self.life, self._spare)
        self.wake()

    def _spare(self) -> None:
        self._sparing = False
        if self.scheduler.preemptor.spare(self._kernel.now):
            self.wake()
        if any(task.state is TaskState.PREEMPTING for task in self.scheduler.registry):
            self._sparing = True
            self._kernel.after(SPARE_SECONDS, self.life, self._spare)

    # Callers that wait.

    def _poll(
        self, name: str, holder: Holder | None, ready: Callable[[], bool], answer: Callable[[], Any],
        reply: Reply, wait: float,
    ) -> Any:  # fmt: skip
        if ready():
            return answer()
        poll = _Poll(ready, answer, reply, holder)
        self._polls.setdefault(name, []).append(poll)
        if wait < math.inf:
            poll.timer = self._kernel.after(wait, self.life, self._end_poll, name, poll)
        return LATER

    def _end_poll(self, name: str, poll: _Poll) -> None:
        polls = self._polls.get(name, [])
        if poll in polls:
            polls.remove(poll)
            poll.reply(_answered(poll.answer))

    def _answer_polls(self) -> None:
        for name, polls in self._polls.items():
            for poll in [each for each in polls if each.ready()]:
                polls.remove(poll)
                if poll.timer is not None:
                    poll.timer.cancel()
                if poll.reply.wanted:
                    poll.reply(_answered(poll.answer))
            self._polls[name] = polls

    def _touch(self, caller: Caller) -> Holder | None:
        return self.scheduler.leases.touch(caller.instance, self._kernel.now, caller.term)

    # jobmgr.

    def on_enqueue(
        self, caller: Caller, reply: Reply, pool_id: str, gangs: Sequence[Sequence[NewTask]]
    ) -> Mapping[int, str]:
        """Queue gangs; return why some are refused, by position."""
        self._touch(caller)
        try:
            pool = self.scheduler.tree.get(pool_id)
        except NotFound as missing:
            return dict.fromkeys(range(len(gangs)), str(missing))
        refused: dict[int, str] = {}
        now = self._kernel.now
        for at, gang in enumerate(gangs):
            try:
                self.scheduler.enqueue(pool, gang, now)
            except Refused as error:
                refused[at] = str(error)
        self.wake()
        return refused

    def on_withdraw(self, caller: Caller, reply: Reply, tasks: Sequence[tuple[JobId, int]]) -> Any:
        """Take tasks out; return why some stay."""
        self._touch(caller)

        def withdraw() -> Mapping[tuple[JobId, int], str]:
            kept: dict[tuple[JobId, int], str] = {}
            for job_id, instance in tasks:
                try:
                    self.scheduler.kill(job_id, instance)
                except (NotFound, InvalidArgument):
                    continue
                except Refused as refused:
                    kept[job_id, instance] = str(refused)
            self.wake()
            return kept

        return self._when_recovered(reply, withdraw)

    def on_missing(
        self, caller: Caller, reply: Reply, job_id: JobId, spans: Sequence[tuple[int, int, int]]
    ) -> Any:
        """Return those of the runs, given as (first, end, run), that are not held here."""

        def missing() -> list[tuple[int, int]]:
            job = self.scheduler.registry.jobs.get(job_id)
            tasks = job.tasks if job is not None else {}
            return [
                (instance, run)
                for first, end, run in spans
                for instance in range(first, end)
                if (task := tasks.get(instance)) is None or task.run < run
            ]

        return self._when_recovered(reply, missing)

    def on_placements(self, caller: Caller, reply: Reply, limit: int, wait: float) -> Any:
        """Hand placements to jobmgr, waiting for some."""
        holder = self._touch(caller)

        def take() -> list[Handover]:
            return self.scheduler.hand_over(limit, self._touch(caller), self._kernel.now)

        return self._poll(caller.instance, holder, lambda: bool(self.scheduler.placements), take, reply, wait)

    def on_settle(self, caller: Caller, reply: Reply, states: Sequence[tuple[Run, TaskState]]) -> Any:
        """Apply states that jobmgr reports."""
        self._touch(caller)

        def settle() -> None:
            for run, state in states:
                self.scheduler.observe(run, state, self._kernel.now)
            self._look_up_later()
            self.wake()

        return self._when_recovered(reply, settle)

    def on_preempted(self, caller: Caller, reply: Reply, limit: int, wait: float) -> Any:
        """Hand over runs to be ended, each with the reason, waiting for some."""
        holder, preemptor = self._touch(caller), self.scheduler.preemptor

        def take() -> list[tuple[Run, str]]:
            found = []
            for task in preemptor.take(limit):
                victim = preemptor.why(task.key)
                if victim is not None:
                    found.append((task.key, victim.reason))
            return found

        return self._poll(caller.instance, holder, lambda: len(preemptor) > 0, take, reply, wait)

    def on_keep(self, caller: Caller, reply: Reply, runs: Sequence[Run]) -> None:
        """Spare runs that stay because of their SLA."""
        self.scheduler.preemptor.keep(runs, self._kernel.now)
        self.wake()

    def on_reasons(self, caller: Caller, reply: Reply, stream: str, after: int, wait: float) -> Any:
        """Return (leader, stream, last, deltas): why runs wait, as far as it has changed."""
        reasons = self.scheduler.reasons
        if not reasons.holds(stream, after if stream else 0):
            self._streams += 1
            reasons.restart(
                f"reasons-{self.term}-{self._streams}", self.scheduler.registry.iterate_in_steps()
            )
            after = 0
        now_stream = reasons.stream_id
        at = after if stream == now_stream else 0

        def read() -> tuple[str, str, int, list[tuple[Run, TaskState, str]]]:
            if reasons.stream_id != now_stream or not reasons.holds(now_stream, at):
                return self.leader_id, now_stream, at, []
            found = [(each.run, each.state, str(each.reason)) for each in reasons.read(at, 1000)]
            return self.leader_id, now_stream, at + len(found), found

        if stream != now_stream:
            return read()
        return self._poll(caller.instance, None, lambda: reasons.more(at), read, reply, wait)

    # Placement engines.

    def on_take(self, caller: Caller, reply: Reply, kind: TaskType, limit: int, wait: float) -> Any:
        """Hand gangs to an engine, waiting for some."""
        holder = self._touch(caller)
        scheduler, placed = self.scheduler, self._placed

        def take() -> list[Gang]:
            gangs = scheduler.dequeue(kind, min(limit, MOST_HANDED), self._touch(caller), self._kernel.now)
            self._look_after()
            return [placed.gang(gang, scheduler) for gang in gangs]

        return self._poll(caller.instance, holder, lambda: bool(scheduler.ready[kind]), take, reply, wait)

    def on_propose(
        self, caller: Caller, reply: Reply, proposals: Sequence[Proposal]
    ) -> list[tuple[str, Run, str]]:
        """Take placements; return the runs that are rejected, with the claims."""
        holder = self._touch(caller)
        rejections = self.scheduler.propose(holder, proposals, [], self._kernel.now)
        self.wake()
        return [(each.proposal.offer_id, each.run, each.message) for each in rejections]

    def on_give_back(self, caller: Caller, reply: Reply, failures: Sequence[PlacementFailure]) -> None:
        """Take back gangs without a place; without gangs, note that the engine works."""
        holder = self._touch(caller)
        self.scheduler.propose(holder, (), failures, self._kernel.now)
        self.wake()
        self._watch_deadlines()
        self._look_after()

    def _watch_deadlines(self) -> None:
        due = self.scheduler.deadlines.next()
        if due is not None:
            self._cycle_at(max(due, self._kernel.now))

    def on_labels(self, caller: Caller, reply: Reply, hostnames: Sequence[str]) -> Any:
        """Return the labels of the tasks on hosts."""
        registry = self.scheduler.registry
        return {host: found for host in hostnames if (found := registry.labels_on_host(host))}

    def on_reserved(self, caller: Caller, reply: Reply, gangs: Sequence[ReservedGang]) -> list[int]:
        """Note why gangs wait that have hosts reserved; return the positions of those that are gone."""
        holder, now = self._touch(caller), self._kernel.now
        kept = [self.scheduler.reserve(holder, each, now) for each in gangs]
        self.wake()
        return [at for at, each in enumerate(kept) if not each]

    # hostmgr.

    def _call(
        self, role: str, method: str, args: tuple[Any, ...], done: Callable[[Any], None], wait: float = 0.0
    ) -> None:
        self._network.call(self._caller, role, method, args, done, 10.0 + wait)

    def _read_capacity(self) -> None:
        options = self._options

        def done(answer: Any) -> None:
            stable = isinstance(answer, Capacity) and not self._set_capacity(answer)
            pause = options.capacity_interval if stable else options.capacity_first
            if not stable or not self._universe.quiet:
                self._kernel.after(pause, self.life, self._read_capacity)

        self._call("hostmgr", "on_capacity", (), done)

    def _set_capacity(self, answer: Capacity) -> bool:
        """Take over what hosts have; return whether that is another amount than before."""
        tree = self.scheduler.tree
        classes = without_pools({of: ClassCapacity(*has) for of, has in answer.classes.items()})
        several = dict(classes) if len(classes) > 1 else {}
        known = tree.classes.capacities if tree.classes is not None else {}
        if (answer.total, several) == (tree.capacity, known):
            return False
        from peloton.model.resources import ZERO

        self.scheduler.set_capacity(answer.total, ZERO, several)
        self.wake()
        return True

    def _shorten_claims(self) -> None:
        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self._kernel.after(1.0, self.life, self._shorten_claims)

        if self.term > 1:
            self._call("hostmgr", "on_shorten_claims", (self._kernel.now - self._began,), done)

    def _compare(self) -> None:
        """Compare the gangs that fit on no host with the hosts there are now."""
        infeasible = self.scheduler.infeasible
        self._comparing = False
        shapes = infeasible.shapes()
        if not shapes:
            return

        def done(answer: Any) -> None:
            if not isinstance(answer, PelotonError):
                for shape, shortage in zip(shapes, answer[1], strict=True):
                    if not infeasible.gangs(shape):
                        continue
                    if shortage is None:
                        self.scheduler.bring_back(shape)
                    else:
                        self.scheduler.keep_aside(shape, shortage)
                self.wake()
            if not self._universe.quiet:
                self._look_after()

        self._call("hostmgr", "on_shortages", (list(map(resmgr_shape, shapes)),), done)

    # The stream of statuses.

    def _open_stream(self, then: Callable[[], None]) -> None:
        """Open the stream before the store is read, so that no event is missed."""

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self._kernel.after(RETRY_SECONDS, self.life, self._open_stream, then)
                return
            self._stream, self._next = answer
            then()

        self._call("hostmgr", "on_open_stream", ("resmgr",), done)

    def _pull(self) -> None:
        args = ("resmgr", self._stream, self._next, self._next, EVENTS, self._universe.patience(POLL_SECONDS))
        self._call("hostmgr", "on_statuses", args, self._pulled, POLL_SECONDS)

    def _pulled(self, answer: Any) -> None:
        if isinstance(answer, Refused):  # another stream, or its events are gone
            self._open_stream(self._resync)
            return
        if isinstance(answer, PelotonError):
            self._kernel.after(RETRY_SECONDS, self.life, self._pull)
            return
        events: Sequence[tuple[int, TaskStatus]] = answer
        now = self._kernel.now
        for _, status in events:
            self.scheduler.observe(parse_mesos_task_id(status.mesos_task_id), status.state, now)
        if events:
            self._next = events[-1][0] + 1
            self._look_up_later()
            self.wake()
        self._kernel.after(GATHER_SECONDS if events else 0.0, self.life, self._pull)

    def _resync(self) -> None:
        """Read the effects of missed events from the store."""
        before = restoring.held(self.scheduler)
        store = self._universe.store

        def done(jobs: Mapping[JobId, StoredJob]) -> None:
            now = self._kernel.now
            for job_id, job in jobs.items():
                for instance, runtime in job.tasks.items():
                    if runtime.state in ON_HOST_TASK_STATES:
                        self._take_in(job_id, job, instance, runtime)
                restoring.forget_ended(self.scheduler, job_id, job.tasks, now)
            restoring.forget_absent(
                self.scheduler, before, {job_id: set(job.tasks) for job_id, job in jobs.items()}, now
            )
            self.wake()
            self._pull()

        store.read(self.life, store.active_jobs, done)


def _answered(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except PelotonError as error:
        return error


def _ignore(answer: Any) -> None:
    """Take the answer of a call whose failure changes nothing: the claims expire."""
