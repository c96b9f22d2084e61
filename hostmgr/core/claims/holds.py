"""Room of hosts that is held for the next runs of instances (docs/behaviour/workflows.md, In place).

A hold keeps what the instance's next run asks for from others, and nothing else of the host. While the run
that is killed for it has not ended, it uses that room itself: only what the next run asks for beyond is held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from hostmgr.core.state.offers import Free
from peloton.model.ids import MesosTaskId, TaskId
from peloton.model.resources import ZERO, Resources

HELD_SECONDS = 180.0
NOTHING = Free(ZERO, 0, 0)


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """A host to hold for the next run of an instance; as in Hold."""

    task_id: TaskId
    hostname: str
    room: Free | None = None
    freed: Free = NOTHING


@dataclass(frozen=True, slots=True)
class Hold:
    """Room of a host that is held for one instance."""

    hostname: str
    task_id: TaskId
    until: float
    """Seconds on the monotonic clock."""
    room: Free | None = None
    """What the next run asks for. None: not known, the whole host is held."""
    run: MesosTaskId = ""
    """The run that is killed for it; empty once that has ended."""
    freed: Free = NOTHING
    """What this run uses as long as it has not ended."""
    since: float = 0.0
    """When it was made, in seconds on the monotonic clock; renewals change nothing about that."""

    @property
    def kept(self) -> Free:
        """Return what others may not take of what is free."""
        if self.room is None:
            return NOTHING
        return beside(self.room, self.freed) if self.run else self.room


class Holds:
    """All holds: at most one for each instance, any number for each host."""

    def __init__(
        self, seconds: float = HELD_SECONDS, changed: Callable[[str], None] = lambda hostname: None
    ) -> None:
        """Call `changed` with the name of a host whenever what is held of it changes."""
        self._seconds = seconds
        self._changed = changed
        self._of_task: dict[TaskId, Hold] = {}
        """In the order in which they end."""
        self._of_host: dict[str, set[TaskId]] = {}
        self._of_run: dict[MesosTaskId, TaskId] = {}
        self._kept: dict[str, Free] = {}
        """By host, the sum of what its holds keep."""
        self._whole: dict[str, int] = {}
        """By host, the number of holds that keep all of it."""

    def __len__(self) -> int:
        return len(self._of_task)

    def __iter__(self) -> Iterator[Hold]:
        """Iterate over the holds, those that end first at the beginning."""
        return iter(self._of_task.values())

    def made_before(self, since: float) -> list[Hold]:
        """Return the holds that were made before `since`, the oldest first."""
        return sorted((each for each in self if each.since < since), key=lambda each: each.since)

    @property
    def hosts(self) -> Collection[str]:
        """Return the names of the hosts of which something is held."""
        return self._of_host.keys()

    def of(self, task_id: TaskId) -> Hold | None:
        """Return what is held for an instance."""
        return self._of_task.get(task_id)

    def on(self, hostname: str) -> list[Hold]:
        """Return the holds on a host, in the order of the instances' ids."""
        return [self._of_task[each] for each in sorted(self._of_host.get(hostname, ()))]

    def add(
        self,
        hostname: str,
        task_id: TaskId,
        now: float,
        room: Free | None = None,
        run: MesosTaskId = "",
        freed: Free = NOTHING,
    ) -> None:
        """Hold room of a host for an instance from now on, in place of what was held for it before.

        `run` is the run that is killed for it, where that lives, and `freed` what it gives back.
        """
        self._put(Hold(hostname, task_id, now + self._seconds, room, run, freed, now))

    def renew(self, hostname: str, task_id: TaskId, now: float, room: Free | None) -> bool:
        """Let a hold last from now on, with another room; return whether there is one on this host."""
        hold = self._of_task.get(task_id)
        if hold is None or hold.hostname != hostname:
            return False
        self._put(replace(hold, until=now + self._seconds, room=room))
        return True

    def _put(self, hold: Hold) -> None:
        before = self._take(hold.task_id)
        last = next(reversed(self._of_task.values()), None)
        assert last is None or last.until <= hold.until, "time has gone back: holds end in their order"
        self._of_task[hold.task_id] = hold
        self._kept[hold.hostname] = _sum(self._kept.get(hold.hostname, NOTHING), hold.kept)
        self._of_host.setdefault(hold.hostname, set()).add(hold.task_id)
        if hold.run:
            self._of_run[hold.run] = hold.task_id
        if hold.room is None:
            self._whole[hold.hostname] = self._whole.get(hold.hostname, 0) + 1
        if before is not None and before.hostname != hold.hostname:
            self._changed(before.hostname)
        self._changed(hold.hostname)

    def ended(self, run: MesosTaskId) -> None:
        """Note that a run has ended: what it used is free, and held from now on."""
        task_id = self._of_run.pop(run, None)
        if task_id is not None:
            hold = self._of_task[task_id]
            now = self._of_task[task_id] = replace(hold, run="", freed=NOTHING)
            self._kept[hold.hostname] = _sum(beside(self._kept[hold.hostname], hold.kept), now.kept)
            self._changed(hold.hostname)

    def release(self, task_ids: Iterable[TaskId]) -> None:
        """End the holds for instances; nothing happens for those without one."""
        ended = [hold for each in task_ids if (hold := self._take(each)) is not None]
        for hostname in dict.fromkeys(hold.hostname for hold in ended):
            self._changed(hostname)

    def _take(self, task_id: TaskId) -> Hold | None:
        hold = self._of_task.pop(task_id, None)
        if hold is None:
            return None
        self._of_run.pop(hold.run, None)
        if hold.room is None:
            self._whole[hold.hostname] -= 1
            if not self._whole[hold.hostname]:
                del self._whole[hold.hostname]
        others = self._of_host[hold.hostname]
        others.remove(task_id)
        if others:
            self._kept[hold.hostname] = beside(self._kept[hold.hostname], hold.kept)
        else:
            del self._of_host[hold.hostname], self._kept[hold.hostname]
        return hold

    def expire(self, now: float) -> list[Hold]:
        """End and return the holds whose time is over."""
        over: list[Hold] = []
        for hold in self._of_task.values():
            if hold.until > now:
                break
            over.append(hold)
        self.release([hold.task_id for hold in over])
        return over

    def is_held(self, hostname: str) -> bool:
        """Return whether something of a host is held for any instance."""
        return hostname in self._of_host

    def kept(self, hostname: str, task_ids: Collection[TaskId] = ()) -> Free:
        """Return what is kept of a host's free room from all but these instances."""
        kept = self._kept.get(hostname, NOTHING)
        for hold in self._mine(task_ids):
            if hold.hostname == hostname:
                kept = beside(kept, hold.kept)
        return kept

    def own(self, task_ids: Collection[TaskId]) -> dict[str, Free]:
        """Return what is kept for these instances, by host."""
        found: dict[str, Free] = {}
        for hold in self._mine(task_ids):
            found[hold.hostname] = _sum(found.get(hold.hostname, NOTHING), hold.kept)
        return found

    def _mine(self, task_ids: Collection[TaskId]) -> Iterator[Hold]:
        return (self._of_task[each] for each in task_ids if each in self._of_task)

    def closed(self, task_ids: Collection[TaskId]) -> frozenset[str]:
        """Return the hosts that are held as a whole, and not for one of these instances."""
        return frozenset(name for name in self._whole if self._of_host[name].isdisjoint(task_ids))

    def is_closed(self, hostname: str) -> bool:
        """Return whether a host is held as a whole."""
        return hostname in self._whole


def _sum(one: Free, other: Free) -> Free:
    return Free(one.normal + other.normal, one.slack_cpu + other.slack_cpu, one.ports + other.ports)


def beside(whole: Free, part: Free) -> Free:
    """Return what a room has beyond another one, kind by kind; never less than nothing."""
    pairs = zip(whole.normal.values(), part.normal.values(), strict=True)
    return Free(
        Resources(*(max(0, one - other) for one, other in pairs)),
        max(0, whole.slack_cpu - part.slack_cpu),
        max(0, whole.ports - part.ports),
    )
