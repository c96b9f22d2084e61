"""Deadlines of gangs (placing, launching, pausing before a retry) and of tasks.

Unlike `peloton.deadlines`, it keeps each time in its subject and not in a dict. Subjects with the same time,
as all that one call has taken, share an entry of the heap: nine bytes for each where they are many.
"""

from __future__ import annotations

import heapq

from resmgr.core.state.entities import Gang, Task

_COMPACT_FROM = 1024


class Deadlines:
    """Each subject has one deadline at most: its attribute `deadline`, 0 for none.

    Setting and cancelling is O(log n). Stale entries are dropped when they outnumber the others.
    """

    def __init__(self) -> None:
        self._times: list[float] = []
        """A heap of the keys of `_at`."""
        self._at: dict[float, list[Gang | Task]] = {}
        """Who has, or had, a deadline at a time, in the order in which it was set."""
        self._listed = 0
        """Entries of `_at`, stale ones among them."""
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def set(self, subject: Gang | Task, when: float) -> None:
        """Set or move a deadline, in seconds above 0 on the monotonic clock."""
        if not subject.deadline:
            self._live += 1
        subject.deadline = when
        listed = self._at.get(when)
        if listed is None:
            self._at[when] = [subject]
            heapq.heappush(self._times, when)
        else:
            listed.append(subject)
        self._listed += 1
        if self._listed > _COMPACT_FROM and self._listed > 2 * self._live:
            self._compact()

    def cancel(self, subject: Gang | Task) -> None:
        """Remove the subject's deadline, where it has one."""
        if subject.deadline:
            subject.deadline = 0.0
            self._live -= 1

    def next(self) -> float | None:
        """Return the earliest deadline."""
        while self._times:
            when = self._times[0]
            listed = self._at[when]
            while listed and listed[-1].deadline != when:
                listed.pop()
                self._listed -= 1
            if listed:
                return when
            del self._at[heapq.heappop(self._times)]
        return None

    def due(self, now: float, limit: int) -> list[Gang | Task]:
        """Remove and return at most `limit` subjects whose deadline has come, earliest first."""
        found: list[Gang | Task] = []
        while len(found) < limit and (when := self.next()) is not None and when <= now:
            self._take(when, limit, found)
        return found

    def _take(self, when: float, limit: int, found: list[Gang | Task]) -> None:
        """Move subjects with a deadline to `found`, until that has `limit`."""
        listed, self._at[when] = self._at[when], []
        self._listed -= len(listed)
        for number, subject in enumerate(listed):
            if len(found) == limit:
                self._at[when] = listed[number:]
                self._listed += len(listed) - number
                return
            if subject.deadline == when:
                self.cancel(subject)
                found.append(subject)

    def _compact(self) -> None:
        self._at = {
            when: live
            for when, listed in self._at.items()
            if (live := list(dict.fromkeys(each for each in listed if each.deadline == when)))
        }
        self._times = list(self._at)
        heapq.heapify(self._times)
        self._listed = sum(map(len, self._at.values()))
