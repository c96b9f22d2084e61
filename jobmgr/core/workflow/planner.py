"""What a workflow does next: a pure function of the instances as they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobmgr.core.state.throttling import is_throttled
from jobmgr.core.workflow.stages import Aim, Stage, is_held, is_underway, stage_of
from peloton.model.amounts import duration
from peloton.model.availability import Availability, availability_of
from peloton.model.plural import plural
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.model.workflow import Workflow, WorkflowState, WorkflowType

SILENT_NANOSECONDS = 30 * 60 * 1_000_000_000
"""A workflow without progress for so long is reported."""
ROOM_NANOSECONDS = 60 * 1_000_000_000
"""Once all in flight has waited for so long to be placed, instances are removed beside it: they may have
the room for which it waits."""
_ORDER: Mapping[Availability, int] = {
    Availability.UNAVAILABLE: 0,
    Availability.DELETED: 0,
    Availability.KILLED: 1,
    Availability.INVALID: 2,
    Availability.AVAILABLE: 3,
}
"""Which instances are updated first: those that it costs least."""
_OPEN = (Stage.ADD, Stage.UPDATE, Stage.ADOPT, Stage.REMOVE, Stage.CURRENT, Stage.ENDING)
_SHOWN = 5
"""Instances that a reason names."""


class Instances:
    """The instances of a job by their stage, kept as their runtimes change."""

    def __init__(self, aim: Aim, tasks: Iterable[tuple[int, TaskRuntime]]) -> None:
        """`tasks` gives all instances, those without a row in UNKNOWN among them."""
        self.aim = aim
        self.by_stage: dict[Stage, set[int]] = {stage: set() for stage in Stage}
        self.by_cost: tuple[set[int], ...] = tuple(set() for _ in range(len(_ORDER)))
        """Those in UPDATE that are not underway, by the place of their availability in `_ORDER`."""
        self.underway: set[int] = set()
        """Those that are not taken up, and have their part of the batch already."""
        self._tasks: dict[int, TaskRuntime] = {}
        self._stages: dict[int, Stage] = {}
        for instance, task in tasks:
            self.take(instance, task)

    def take(self, instance: int, task: TaskRuntime) -> tuple[Stage | None, Stage]:
        """Take an instance as it is now. Returns its stage before and now."""
        before, after = self._stages.get(instance), stage_of(self.aim, instance, task)
        if before is not None:
            self._leave(instance, before, self._tasks[instance])
        self.by_stage[after].add(instance)
        if is_underway(self.aim, after, task):
            self.underway.add(instance)
        elif after is Stage.UPDATE:
            self.by_cost[_ORDER[availability_of(task)]].add(instance)
        self._stages[instance], self._tasks[instance] = after, task
        return before, after

    def _leave(self, instance: int, stage: Stage, task: TaskRuntime) -> None:
        self.by_stage[stage].discard(instance)
        self.underway.discard(instance)
        if stage is Stage.UPDATE:
            self.by_cost[_ORDER[availability_of(task)]].discard(instance)

    def task(self, instance: int) -> TaskRuntime:
        """Return an instance as it was taken last."""
        return self._tasks[instance]

    def items(self) -> Iterable[tuple[int, TaskRuntime]]:
        """Return all instances."""
        return self._tasks.items()

    @property
    def remaining(self) -> int:
        """Return how many instances are neither done nor failed."""
        return self.count(*_OPEN)

    @property
    def size(self) -> int:
        """Return how many instances the job has: by the target version, or as the hosts have it."""
        aim = self.aim
        return len(self._stages) - self.count(Stage.NONE) if aim.follows_hosts else aim.count

    def count(self, *stages: Stage) -> int:
        """Return how many instances are in one of these stages."""
        return sum(len(self.by_stage[stage]) for stage in stages)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done now. Lists are ordered: what comes first is done first."""

    adds: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    adopts: tuple[int, ...] = ()
    """They get the target version without a new run, whatever the batch size."""
    holds: tuple[int, ...] = ()
    """They are stopped until all others are, too: `stop_before_update`."""
    removes: tuple[int, ...] = ()
    done: int = 0
    failed: int = 0
    remaining: int = 0
    ends: bool = False
    """Whether nothing is left to be done."""
    too_many_failed: bool = False
    more: bool = False
    """Whether `limit` cut the plan: there is more to be done at once."""
    reason: str = ""
    """What the workflow waits for; empty where it has something to do."""
    due: int = 0
    """In how many nanoseconds instances are removed beside what waits for room; 0: none are."""

    @property
    def idle(self) -> bool:
        """Return whether no instance is changed."""
        return not (self.adds or self.updates or self.adopts or self.holds or self.removes)


def batch_size(workflow: Workflow, count: int) -> int:
    """Return how many instances may be in flight at once, of a job of `count` instances."""
    options = workflow.options
    if options.batch_size:
        return options.batch_size
    if options.batch_percentage:
        return max(math.ceil(count * options.batch_percentage / 100), 1)
    return 2**31


def silence(workflow: Workflow, now: int) -> int:
    """Return the nanoseconds since a workflow has made progress."""
    return max(now - max(workflow.updated_at, workflow.created_at), 0)


def waits_for_throttled_only(instances: Instances, now: int) -> bool:
    """Return whether a workflow waits only for instances throttled after failures of the user's program.

    One that has just been run again counts: its next failure is a matter of time.
    """
    in_flight = instances.by_stage[Stage.CURRENT]
    if not in_flight or instances.count(Stage.ENDING):
        return False
    return all(_crashes(instances.task(i), now) for i in in_flight)


def _crashes(task: TaskRuntime, now: int) -> bool:
    trying = task.failure_count > 0 and now - task.updated_at < SILENT_NANOSECONDS
    return is_throttled(task) or trying


def plan(workflow: Workflow, instances: Instances, now: int, limit: int = 2**31) -> Plan:
    """Return what a workflow does next, to at most `limit` instances. `now`: nanoseconds since 1970."""
    done, failed = instances.count(Stage.DONE), instances.count(Stage.FAILED)
    remaining = instances.remaining
    most = workflow.options.max_failure_instances
    counts = Plan(done=done, failed=failed, remaining=remaining)
    if most and failed >= most:
        return _with(counts, too_many_failed=True, reason=_failures(instances, failed, most))
    if workflow.state is WorkflowState.PAUSED:
        return _with(counts, reason="paused: waits to be resumed")
    if workflow.aborting:
        ends = not instances.by_stage[Stage.CURRENT]
        return _with(counts, ends=ends, reason=_waiting(workflow, instances, now))
    if not remaining:
        return _with(counts, ends=True)
    return _round(workflow, instances, counts, now, limit)


def _round(workflow: Workflow, instances: Instances, counts: Plan, now: int, limit: int) -> Plan:
    adopts = _first(instances.by_stage[Stage.ADOPT], limit)
    left = limit - len(adopts)
    holds, waits = _holds(workflow, instances, left)
    if holds or waits:
        more = len(holds) == left
        reason = "" if holds else _waiting(workflow, instances, now)
        return _with(counts, adopts=adopts, holds=holds, more=more, reason=reason)
    turned, left = _turned(workflow, instances, left)
    adds = _first(instances.by_stage[Stage.ADD], left)
    updates = _by_cost(instances, left - len(adds))
    removes = _first(instances.by_stage[Stage.REMOVE] - instances.underway, left - len(adds) - len(updates))
    updates = _first(turned & instances.by_stage[Stage.UPDATE], limit) + updates
    removes = _first(turned & instances.by_stage[Stage.REMOVE], limit) + removes
    changed = len(adopts) + len(adds) + len(updates) + len(removes)
    due = 0
    if not changed:
        due = _until_room(workflow, instances, now)
        removes = _beside(workflow, instances, limit) if due < 0 else ()
        changed = len(removes)
    return _with(
        counts,
        adds=adds,
        updates=updates,
        adopts=adopts,
        removes=removes,
        more=changed >= limit,
        reason="" if changed else _waiting(workflow, instances, now),
        due=max(due, 0),
    )


def _until_room(workflow: Workflow, instances: Instances, now: int) -> int:
    """Return in how many nanoseconds instances are removed beside the batch, negative: now; 0: none are.

    They may have the room for which the whole batch waits, which would be for ever.
    """
    in_flight = [instances.task(i) for i in instances.by_stage[Stage.CURRENT]]
    if not in_flight or not _removable(instances):
        return 0
    if any(task.state is not TaskState.PENDING or task.desired_run > task.run for task in in_flight):
        return 0
    since = max(workflow.updated_at, workflow.created_at, *(task.updated_at for task in in_flight))
    return since + ROOM_NANOSECONDS - now or -1


def _beside(workflow: Workflow, instances: Instances, limit: int) -> tuple[int, ...]:
    return _first(_removable(instances), min(batch_size(workflow, instances.size), limit))


def _removable(instances: Instances) -> set[int]:
    """Return the instances whose removal has not begun, those that a rollback finds in flight, too."""
    return {i for i in instances.by_stage[Stage.REMOVE] if instances.task(i).goal is not TaskState.DELETED}


def _turned(workflow: Workflow, instances: Instances, limit: int) -> tuple[set[int], int]:
    """Return the instances in flight that a rollback turns round now, and how many others may be taken up.

    Those that are adopted while they are not up are in flight from then on.
    """
    room = max(batch_size(workflow, instances.size) - instances.count(Stage.CURRENT), 0)
    underway = instances.underway
    turned = set(_first(underway - instances.by_stage[Stage.ADOPT], min(limit, room)))
    return turned, min(limit - len(turned), max(room - len(underway), 0))


def _holds(workflow: Workflow, instances: Instances, limit: int) -> tuple[tuple[int, ...], bool]:
    """Return which instances are to be stopped before any is updated, and whether stopped ones still live."""
    if not workflow.options.stop_before_update or workflow.rolling_back:
        return (), False
    if workflow.type is not WorkflowType.UPDATE:
        return (), False
    concerned = instances.by_stage[Stage.UPDATE]
    holds = [i for i in concerned if not is_held(instances.task(i))]
    waits = any(not instances.task(i).state.terminal for i in concerned)
    return _first(holds, limit), waits


def _by_cost(instances: Instances, limit: int) -> tuple[int, ...]:
    """Return instances to be updated, the unavailable ones first."""
    chosen: list[int] = []
    for some in instances.by_cost:
        if len(chosen) < limit:
            chosen += _first(some, limit - len(chosen))
    return tuple(chosen)


def _first(some: Iterable[int], limit: int) -> tuple[int, ...]:
    return tuple(sorted(some)[:limit]) if limit > 0 else ()


def _failures(instances: Instances, failed: int, most: int) -> str:
    named = _named(instances.by_stage[Stage.FAILED])
    return f"{plural(failed, 'instance')} failed ({named}), which is not below the limit of {most}"


def _waiting(workflow: Workflow, instances: Instances, now: int) -> str:
    """Say what keeps the workflow from going on."""
    parts = []
    current = instances.by_stage[Stage.CURRENT]
    if current:
        states = Counter(_shown_state(instances.task(i)) for i in current)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        parts.append(f"{len(current)} in flight ({_named(current)}): {told}")
    ending = instances.by_stage[Stage.ENDING]
    if ending:
        parts.append(f"{len(ending)} being stopped ({_named(ending)})")
    held = [i for i in instances.by_stage[Stage.UPDATE] if is_held(instances.task(i))]
    if held and not current:
        parts.append(f"{len(held)} to be stopped before the update ({_named(held)})")
    silent = silence(workflow, now)
    late = ""
    if waits_for_throttled_only(instances, now):
        late = "; they crash-loop: their program fails again and again"
    elif silent >= SILENT_NANOSECONDS:
        late = f"; no progress for {duration(silent // 60_000_000_000 * 60)}"
    return "waits for instances: " + "; ".join(parts) + late


def _shown_state(task: TaskRuntime) -> str:
    if task.state is TaskState.RUNNING:
        return f"RUNNING with health {task.health.name}"
    return task.state.name


def _named(some: Iterable[int]) -> str:
    ordered = sorted(some)
    named = ", ".join(map(str, ordered[:_SHOWN]))
    return named if len(ordered) <= _SHOWN else f"{named}, ..."


def _with(
    counts: Plan,
    *,
    adds: tuple[int, ...] = (),
    updates: tuple[int, ...] = (),
    adopts: tuple[int, ...] = (),
    holds: tuple[int, ...] = (),
    removes: tuple[int, ...] = (),
    ends: bool = False,
    too_many_failed: bool = False,
    more: bool = False,
    reason: str = "",
    due: int = 0,
) -> Plan:
    return Plan(
        adds,
        updates,
        adopts,
        holds,
        removes,
        counts.done,
        counts.failed,
        counts.remaining,
        ends,
        too_many_failed,
        more,
        reason,
        due,
    )
