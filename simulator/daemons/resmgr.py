"""The resource manager in the simulated world: interprets `resmgr.core.scheduler` for one term.

`resmgr_memory` knows the store and the stream of statuses, `resmgr_loop` lets time pass, `resmgr_hosts` reads
what hosts have, `resmgr_polls` has the callers that wait. Here are the calls of the other daemons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peloton.errors import InvalidArgument, NotFound, PelotonError, Refused
from peloton.model.ids import JobId, Run
from peloton.model.pool import PoolConfig
from peloton.model.states import TaskState, TaskType
from placement.core.model import Gang
from resmgr.core.state.entities import Holder
from resmgr.core.state.needs import NewTask
from resmgr.core.state.placements import Handover, PlacementFailure, Proposal, ReservedGang
from simulator.daemons.resmgr_hosts import Hosts
from simulator.daemons.resmgr_loop import Loop
from simulator.daemons.resmgr_memory import Memory
from simulator.daemons.resmgr_polls import Polls
from simulator.daemons.resmgr_term import ROLE, ResmgrOptions, Term
from simulator.daemons.translate import NeedsOfPlacement, NeedsOfTasks
from simulator.world.kernel import Life
from simulator.world.network import LATER, Caller, Reply
from simulator.world.universe import Universe

MOST_HANDED = 10_000


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
        self._kernel = universe.kernel
        self._placed = placed
        self._term = Term(universe, life, term, options)
        self.scheduler = self._term.scheduler
        self._polls = Polls(self._term)
        self.loop = Loop(self._term, self._polls)
        self.memory = Memory(self._term, self.loop, needs, self._begin)
        self._hosts = Hosts(self._term, self.loop)
        self.leader_id = f"{life.name}-{term}"
        self._streams = 0

    # The life of a term.

    def start(self) -> None:
        """Begin to lead: read the pools, then the tasks."""
        self._term.began = self._kernel.now
        self.memory.recover()

    def _begin(self) -> None:
        self._hosts.read()
        self._hosts.shorten_claims()
        if not self._term.universe.quiet:
            self.loop.share_later()
            self.loop.preempt_later()

    @property
    def recovered(self) -> bool:
        """Whether all stored tasks are known."""
        return self._term.recovered

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
        self.loop.wake()
        return refused

    def on_withdraw(self, caller: Caller, reply: Reply, runs: Sequence[Run]) -> Any:
        """Take runs out, but no newer ones; return why some stay."""
        self._touch(caller)

        def withdraw() -> Mapping[Run, str]:
            kept: dict[Run, str] = {}
            for run in runs:
                try:
                    self.scheduler.kill(*run)
                except (NotFound, InvalidArgument):
                    continue
                except Refused as refused:
                    kept[run] = str(refused)
            self.loop.wake()
            return kept

        return self.memory.when_recovered(reply, withdraw)

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

        return self.memory.when_recovered(reply, missing)

    def on_placements(self, caller: Caller, reply: Reply, limit: int, wait: float) -> Any:
        """Hand placements to jobmgr, waiting for some."""
        holder = self._touch(caller)

        def take() -> list[Handover]:
            return self.scheduler.hand_over(limit, self._touch(caller), self._kernel.now)

        return self._polls.wait(
            caller.instance, holder, lambda: bool(self.scheduler.placements), take, reply, wait
        )

    def on_settle(self, caller: Caller, reply: Reply, states: Sequence[tuple[Run, TaskState]]) -> Any:
        """Apply states that jobmgr reports."""
        self._touch(caller)

        def settle() -> None:
            for run, state in states:
                self.scheduler.observe(run, state, self._kernel.now)
            self.memory.look_up_later()
            self.loop.wake()

        return self.memory.when_recovered(reply, settle)

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

        return self._polls.wait(caller.instance, holder, lambda: len(preemptor) > 0, take, reply, wait)

    def on_keep(self, caller: Caller, reply: Reply, runs: Sequence[Run]) -> None:
        """Spare runs that stay because of their SLA."""
        self.scheduler.preemptor.keep(runs, self._kernel.now)
        self.loop.wake()

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
        return self._polls.wait(caller.instance, None, lambda: reasons.more(at), read, reply, wait)

    # Administrators.

    def on_change_pools(self, caller: Caller, reply: Reply, configs: Sequence[PoolConfig]) -> Any:
        """Change pools, unless they are of these versions or newer ones already."""
        return self.memory.when_recovered(reply, lambda: self._change_pools(reply, configs))

    def _change_pools(self, reply: Reply, configs: Sequence[PoolConfig]) -> Any:
        scheduler, store = self.scheduler, self._term.universe.store
        newer = [pool for pool in configs if pool.version > scheduler.tree.get(pool.id).config.version]
        if not newer:
            return None

        def stored(answer: Any) -> None:
            if not isinstance(answer, PelotonError):
                for pool in newer:
                    if pool.version > scheduler.tree.get(pool.id).config.version:
                        scheduler.tree.replace(pool)
                scheduler.entitle()
                self.loop.wake()
            reply(answer)

        store.submit(self.life, ROLE, self.term, lambda: store.change_pools(newer), stored)
        return LATER

    # Placement engines.

    def on_take(
        self, caller: Caller, reply: Reply, kind: TaskType, limit: int, wait: float, call: int, received: int
    ) -> Any:
        """Hand gangs to an engine, waiting for some."""
        holder = self._touch(caller)
        scheduler, placed = self.scheduler, self._placed
        scheduler.note_call(kind, holder, call, received, self._kernel.now)
        most = min(limit, MOST_HANDED)

        def take() -> list[Gang]:
            gangs = scheduler.dequeue(kind, most, self._touch(caller), self._kernel.now, call)
            self.loop.look_after()
            return [placed.gang(gang, scheduler) for gang in gangs]

        return self._polls.wait(
            caller.instance, holder, lambda: bool(scheduler.ready[kind]), take, reply, wait
        )

    def on_propose(
        self, caller: Caller, reply: Reply, proposals: Sequence[Proposal]
    ) -> list[tuple[str, Run, str]]:
        """Take placements; return the runs that are rejected, with the claims."""
        holder = self._touch(caller)
        rejections = self.scheduler.propose(holder, proposals, [], self._kernel.now)
        self.loop.wake()
        return [(each.proposal.offer_id, each.run, each.message) for each in rejections]

    def on_give_back(self, caller: Caller, reply: Reply, failures: Sequence[PlacementFailure]) -> None:
        """Take back gangs without a place; without gangs, note that the engine works."""
        holder = self._touch(caller)
        self.scheduler.propose(holder, (), failures, self._kernel.now)
        self.loop.wake()
        self.loop.watch_deadlines()
        self.loop.look_after()

    def on_labels(self, caller: Caller, reply: Reply, hostnames: Sequence[str]) -> Any:
        """Return the labels of the tasks on hosts."""
        registry = self.scheduler.registry
        return {host: found for host in hostnames if (found := registry.labels_on_host(host))}

    def on_reserved(self, caller: Caller, reply: Reply, gangs: Sequence[ReservedGang]) -> list[int]:
        """Note why gangs wait that have hosts reserved; return the positions of those that are gone."""
        holder, now = self._touch(caller), self._kernel.now
        kept = [self.scheduler.reserve(holder, each, now) for each in gangs]
        self.loop.wake()
        return [at for at, each in enumerate(kept) if not each]
