"""The exchange with placement engines: gangs out, placements and failures in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.model.ids import Run
from peloton.model.plural import plural
from peloton.model.states import TaskType
from resmgr.core.placing.owned import queue
from resmgr.core.placing.redelivery import take_back_gangs
from resmgr.core.state.entities import NO_CALLS, Calls, Gang, Holder, Placement, Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.placements import PlacementFailure, Proposal, Rejection, ReservedGang
from resmgr.core.state.task_states import IN_ENGINE, Event

_DEQUEUE, _PLACE = Event.DEQUEUE, Event.PLACE


class EngineExchange:
    """Hand gangs to engines and take their results."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._registry = lifecycle.registry
        self._placements = lifecycle.placements

    def note_call(self, kind: TaskType, holder: Holder | None, call: int, received: int, now: float) -> int:
        """Take back what an engine's last call got, unless it has arrived; return how many gangs.

        `call` numbers the calls of an engine, and `received` is the last one whose gangs have arrived. A call
        that comes late, or once more, says nothing new.
        """
        last = NO_CALLS if holder is None else holder.calls.get(kind, NO_CALLS)
        if holder is None or call <= last.newest:
            return 0
        holder.calls[kind] = Calls(call)
        if last.newest == received:
            return 0
        return take_back_gangs(self._lifecycle, last.handed, holder, now)

    def dequeue(
        self, kind: TaskType, limit: int, holder: Holder | None, now: float, call: int = 0
    ) -> list[Gang]:
        """Hand out up to `limit` gangs of that task type, leased until placed, failed or out of time.

        A call with a number gets gangs once, and none after a later one was made: nobody waits for them.
        """
        lifecycle = self._lifecycle
        lifecycle.leases.check(holder)
        if call and holder is not None:
            last = holder.calls.get(kind, NO_CALLS)
            if call < last.newest or last.handed:
                return []
        limits, ready, gangs = lifecycle.limits, lifecycle.ready[kind], []
        untried = now + limits.placing_timeout(0)
        for _ in range(min(limit, len(ready))):
            gang = ready.pop()
            for task in gang.tasks:
                lifecycle.step(task, _DEQUEUE, now)
                lifecycle.leases.take(holder, task)
            tries = gang.attempts.tries
            lifecycle.deadlines.set(gang, now + limits.placing_timeout(tries) if tries else untried)
            gangs.append(gang)
        if call and holder is not None and gangs:
            holder.calls[kind] = Calls(call, gangs)
        return gangs

    def propose(
        self,
        holder: Holder | None,
        proposals: Sequence[Proposal],
        failures: Sequence[PlacementFailure],
        now: float,
    ) -> list[Rejection]:
        """Take an engine's result and return what was rejected.

        A gang is taken completely or not at all: where a call places only a part of it, that part is rejected
        and the gang returns as after a failed try.
        """
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
            reason = f"placed in part only: {plural(len(gang.tasks), 'task')} belong together"
            self._lifecycle.fail(gang, reason, now)
        for failure in failures:
            self._fail(failure, holder, now)
        return rejections

    def reserve(self, holder: Holder | None, reserved: ReservedGang, now: float) -> bool:
        """Make a gang RESERVED, or note how far its reservation is; return False where it is gone.

        A gang of which tasks have ended is placed anew.
        """
        tasks = [task for run in reserved.runs if (task := self._registry.find(run)) is not None]
        gangs = {task.gang for task in tasks if task.holder is holder and task.state in IN_ENGINE}
        if len(gangs) != 1 or (gang := gangs.pop()) is None:
            return False
        if len(tasks) < len(reserved.runs) or set(tasks) != set(gang.tasks):
            self._lifecycle.retry(gang, now)
            return False
        self._lifecycle.reserve(gang, reserved.reason, reserved.start, now)
        return True

    def _placeable(self, run: Run, holder: Holder | None, found: dict[Run, Task]) -> str:
        """Return why a run cannot be placed, else add its task to `found`."""
        task = self._registry.find(run)
        if task is None or task.orphan:
            return "the run is not known"
        if task.state not in IN_ENGINE:
            return f"the task is {task.state.name}, not PLACING"
        if task.holder is not holder:
            return "the task is leased to another instance"
        if run in found:
            return "the run is placed twice"
        if len(self._placements) >= self._lifecycle.limits.placed_limit:
            return f"the queue of placements is full with {len(self._placements)}"
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
            known = task or self._registry.find(run)
            count = known.needs.ports if known is not None else 0
            ports, position = proposal.ports[position : position + count], position + count
            if task is None:
                continue
            if task.gang in broken:
                rejections.append(Rejection(proposal, run, "its gang is not placed whole"))
                continue
            self._place(task, placement, ports, now)
        if placement.tasks:
            queue(self._lifecycle, placement, now)
        return rejections

    def _place(self, task: Task, placement: Placement, ports: tuple[int, ...], now: float) -> None:
        assert task.gang is not None
        lifecycle = self._lifecycle
        lifecycle.step(task, _PLACE, now)
        lifecycle.deadlines.cancel(task.gang)
        lifecycle.leases.release(task)
        placement.tasks[task] = ports
        task.placement = placement
        self._registry.put_on_host(task, placement.host)
        lifecycle.reasons.set(task, "")

    def _fail(self, failure: PlacementFailure, holder: Holder | None, now: float) -> None:
        gangs: dict[Gang, None] = {}
        for run in failure.runs:
            task = self._registry.find(run)
            if task is not None and task.gang and task.state in IN_ENGINE and task.holder is holder:
                gangs[task.gang] = None
        for gang in gangs:
            if failure.shortage is not None:
                tries = gang.attempts.tries + 1
                gang.attempts = gang.attempts._replace(
                    tries=tries, failure=failure.reason, hosts=failure.hosts
                )
                self._lifecycle.set_aside(gang, failure.shortage, now)
            else:
                self._lifecycle.fail(gang, failure.reason or "no host was found", now, failure.hosts)


def _whole(gang: Gang, found: Mapping[Run, Task]) -> bool:
    """Return whether every member is among the placeable tasks, of which one is a member."""
    return len(gang.tasks) == 1 or all(found.get(task.key) is task for task in gang.tasks)
