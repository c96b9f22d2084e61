"""The resource manager's state and every event that changes it. One object, one thread, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from peloton.errors import NotFound, Refused
from peloton.model.ids import JobId, Run, task_id
from peloton.model.states import TaskState, TaskType
from resmgr.core.admission import checks
from resmgr.core.leases import Holder
from resmgr.core.placements import Failure, Handover, Placement, Proposal, Rejection
from resmgr.core.policy import Policy
from resmgr.core.pools import Pool
from resmgr.core.sharing import Sharing
from resmgr.core.tasks import BEFORE_LAUNCH, IN_ENGINE, OBSERVED, STATES, Event, Gang, Needs, Task

AT_ONCE = 5000
"""Deadlines acted on in one turn at most."""
_S = TaskState


class NewTask(NamedTuple):
    """A run that asks for resources, or is found to have them."""

    job_id: JobId
    instance: int
    run: int
    needs: Needs
    desired_host: str = ""
    together: int = 1
    """The job's instances below this number are one gang; 1: none are."""


class Scheduler(Sharing):
    """Every method is one event: `now` is seconds on the monotonic clock."""

    def __init__(self, policy: Policy | None = None, stream_id: str = "") -> None:
        super().__init__(policy or Policy(), stream_id)

    # Coming in.

    def enqueue(self, pool: Pool, gang: Sequence[NewTask], now: float) -> list[Task]:
        """Queue a gang at a leaf; the tasks that were new. A run that is known, or older than the known one,
        is left as it is; a newer one takes the known one's place. Raises Refused where the members are
        of different task types, or are together more than a limit allows, having changed nothing."""
        if len(gang) == 1:
            return self._enqueue_one(pool, gang[0], now)
        current = self.registry.current
        unknown = [
            new for new in gang if (known := current(new.job_id, new.instance)) is None or known.run < new.run
        ]
        if not unknown:
            return []
        if len(unknown) > 1:
            unknown = list({(new.job_id, new.instance): new for new in unknown}.values())
        if len(unknown) > 1 and len({new.needs.type for new in unknown}) > 1:
            raise Refused("a gang's tasks must all be of one task type")
        too_large = checks.beyond_limit(pool, [new.needs.charge for new in unknown])
        if too_large:
            raise Refused(too_large)
        tasks = [self._new(pool, new, _S.PENDING, now) for new in unknown]
        if len(unknown) > 1 and unknown[0].together <= 1:
            first = min(new.instance for new in unknown)
            for task in tasks:
                task.job.gangs[task.instance] = first
        self.queue(Gang(pool, tuple(tasks)))
        return tasks

    def _enqueue_one(self, pool: Pool, new: NewTask, now: float) -> list[Task]:
        """As `enqueue` of a gang of one, in less time: of a million runs most stand alone."""
        if not self._newer(new):
            return []
        too_large = checks.beyond_limit(pool, (new.needs.charge,))
        if too_large:
            raise Refused(too_large)
        task = self._new(pool, new, _S.PENDING, now)
        self.queue(Gang(pool, (task,)))
        return [task]

    def restore(self, pool: Pool, new: NewTask, state: TaskState, host: str, now: float) -> None:
        """A run that is on a host already, with its allocation."""
        if not self._newer(new):
            return
        task = self._new(pool, new, state, now)
        task.enqueued = 0.0
        pool.charge(task.needs.charge)
        self.registry.put_on_host(task, host)
        if state is _S.PREEMPTING:
            self.deadlines.set(task, now + self.policy.preempting)

    def _newer(self, new: NewTask) -> bool:
        """Whether the run is newer than the one that is known of its instance."""
        known = self.registry.current(new.job_id, new.instance)
        return known is None or known.run < new.run

    def _new(self, pool: Pool, new: NewTask, state: TaskState, now: float) -> Task:
        job = self.registry.job(new.job_id)
        known = job.tasks.get(new.instance)
        if known is not None:
            self._supersede(known, now)
            job = self.registry.job(new.job_id)
        if new.instance < new.together > 1:
            job.gangs[new.instance] = 0
        elif job.gangs:
            job.gangs.pop(new.instance, None)
        task = Task(job, new.instance, new.run, new.needs, pool, state, now, new.desired_host)
        self.registry.add(task)
        return task

    def _supersede(self, old: Task, now: float) -> None:
        """Make room for a newer run. What may be on a host stays as an orphan until it ends; a run that
        jobmgr was given and may yet launch stays as long as a launch may take."""
        if old.state in BEFORE_LAUNCH and old.state is not _S.LAUNCHING:
            self.forget(old)
            return
        self.leave_gang(old)
        self.reasons.set(old, "")
        self.deadlines.cancel(old)
        if old.state is _S.LAUNCHING:
            self.deadlines.set(old, now + self.policy.launching)
        self.registry.orphan(old)

    # Placement.

    def dequeue(self, kind: TaskType, limit: int, holder: Holder | None, now: float) -> list[Gang]:
        """Up to `limit` gangs of that task type, leased to the holder until placed, failed or out of time."""
        ready, gangs = self.ready[kind], []
        for _ in range(min(limit, len(ready))):
            gang = ready.pop()
            for task in gang.tasks:
                self.step(task, Event.DEQUEUE, now)
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
            self.fail(gang, f"placed in part only: {len(gang.tasks)} tasks belong together", now)
        for failure in failures:
            self._no_place(failure, holder, now)
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
        self.step(task, Event.PLACE, now)
        self.deadlines.cancel(task.gang)
        self.leases.release(task)
        placement.tasks[task] = ports
        task.placement = placement
        self.registry.put_on_host(task, placement.host)
        self.reasons.set(task, "")

    def _no_place(self, failure: Failure, holder: Holder | None, now: float) -> None:
        gangs: dict[Gang, None] = {}
        for run in failure.runs:
            task = self.registry.find(run)
            if task is not None and task.gang and task.state in IN_ENGINE and task.holder is holder:
                gangs[task.gang] = None
        for gang in gangs:
            if failure.shortage is not None:
                gang.failure, gang.hosts = failure.reason, failure.hosts
                gang.tries += 1
                self.set_aside(gang, failure.shortage, now)
            else:
                self.fail(gang, failure.reason or "no host was found", now, failure.hosts)

    # Launch.

    def hand_over(self, limit: int, holder: Holder | None, now: float) -> list[Handover]:
        """Up to `limit` placements for jobmgr, leased to it until it settles each task."""
        given: list[Handover] = []
        while self.placed and len(given) < limit:
            placement, _ = self.placed.popitem(last=False)
            for task in placement.tasks:
                assert task.gang is not None
                self.step(task, Event.HAND_OVER, now)
                self.leases.take(holder, task)
                self.deadlines.set(task.gang, now + self.policy.launching)
            given.append(placement.handed())
            for task in placement.tasks:
                task.placement = None
        if holder is not None and given:
            holder.keep(given)
        return given

    def observe(self, run: Run, state: TaskState, now: float) -> bool:
        """What Mesos, or jobmgr, says of a run; whether the run is known and the state says anything."""
        task, event = self.registry.find(run), OBSERVED.get(state)
        if task is None or event is None:
            return False
        if event is Event.END:
            self.forget(task)
            return True
        if not STATES.allows(task.state, event):
            return False
        if task.state is _S.PENDING:
            task.pool.charge(task.needs.charge)
        if task.holder is not None:
            task.holder.launched(run)
        self.leave_gang(task)
        if STATES.next(task.state, event) is not task.state:
            self.step(task, event, now)
            if event is Event.RUNNING and task.enqueued:
                task.pool.to_running.add(now - task.enqueued)
        if task.deadline and (task.orphan or task.state is not _S.PREEMPTING):
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
        self.forget(task)

    # Time.

    def expire(self, now: float) -> int:
        """Act on the deadlines that have come, the earliest AT_ONCE of them; how many there were."""
        count = 0
        for subject in islice(self.deadlines.due(now), AT_ONCE):
            count += 1
            if isinstance(subject, Gang):
                self._gang_late(subject, now)
            elif subject.orphan:
                self.forget(subject)
            elif subject.state is _S.PREEMPTING:
                self.step(subject, Event.SPARE, now)
                self.reasons.set(subject, "")
        return count

    def _gang_late(self, gang: Gang, now: float) -> None:
        states = {task.state for task in gang.tasks}
        if _S.PLACING in states:
            self.fail(gang, "the placement engine did not answer in time", now)
        elif _S.RESERVED in states:
            self.give_reason(gang, "no host could be reserved in time")
            self.send_back(gang, now)
        elif _S.LAUNCHING in states:
            self.give_reason(gang, "the job manager did not launch it in time")
            self.retry(gang, now)
        elif _S.READY in states and gang.queue is None:
            self.ready[gang.type].add(gang)

    def lapse(self, now: float, present: Collection[str] | None = None) -> int:
        """Take back what is leased to holders that are silent or not `present` (None: not known); how many
        gangs that was."""
        gangs: dict[Gang, None] = {}
        for holder in self.leases.over(now, self.policy.silence, present):
            self.forsaken += holder.unused()
            gangs.update((task.gang, None) for task in holder.tasks if task.gang is not None)
        for gang in gangs:
            self.retry(gang, now)
        return len(gangs)


def _whole(gang: Gang, found: Mapping[Run, Task]) -> bool:
    """Whether every member is among the tasks that were found placeable."""
    return all(found.get(task.key) is task for task in gang.tasks)
