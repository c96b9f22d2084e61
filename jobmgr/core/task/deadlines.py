"""When tasks are looked at again: how long each may be without news, or may run."""

from __future__ import annotations

import math

from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Now
from jobmgr.core.state.limits import Limits
from jobmgr.core.task.usage import NANOSECONDS
from peloton.deadlines import Deadlines
from peloton.model.ids import JobId
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

SET_BACK_SECONDS = 60.0
"""A time that lies further ahead is of before the clock was set back."""
GATHERING = -2
"""Stands in a key for the end of the time in which an elastic gang gathers."""
Key = tuple[JobId, int]


class TaskDeadlines:
    """The time of a cycle, and one deadline for each task that has one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.deadlines: Deadlines[Key] = Deadlines()
        self.now = Now(0, 0.0)
        self._begun: float | None = None
        """When the first cycle was, by the monotonic clock."""
        self._steady = 0
        """The wall time of a clock that this leader has never seen set back."""

    def set_now(self, now: Now) -> None:
        """Take the time of a cycle, which is not before that of the cycle before."""
        assert now.monotonic >= self.now.monotonic, f"the time goes back: {now} follows {self.now}"
        passed = now.monotonic - self.now.monotonic
        self.now = now
        if self._begun is None:
            self._begun, self._steady = now.monotonic, now.wall
        else:
            self._steady = max(now.wall, self._steady + round(passed * NANOSECONDS))

    @property
    def stamp(self) -> int:
        """The time for changes that are made now, in nanoseconds since 1970.

        It goes on while the clock, which was set back, has not caught up: the times of an instance's changes
        only grow, and how long ago each was must be known.
        """
        ahead = self._steady - self.now.wall
        return self._steady if ahead > SET_BACK_SECONDS * NANOSECONDS else self.now.wall

    def seconds_since(self, moment: int) -> float:
        """Return the seconds since a moment that is stored, in nanoseconds since 1970.

        One that is much later than now is of before the clock was set back. If an earlier leader has
        stored it, at least the time of this leader has passed. Times of one cycle are some nanoseconds after
        its now.
        """
        for now in (self.now.wall, self._steady):
            seconds = (now - moment) / NANOSECONDS
            if seconds >= -SET_BACK_SECONDS:
                return max(seconds, 0.0)
        return self.now.monotonic - (self._begun or 0.0)

    def set_deadline(self, change: Change, instance: int, seconds: float) -> None:
        """Evaluate the task again after `seconds`, in place of its present deadline."""
        self.deadlines.set((change.job_id, instance), self.time_after(seconds))

    def time_after(self, seconds: float) -> float:
        """Return the monotonic time after `seconds`: later than now wherever something is left to wait for.

        Rounding may leave less than the clock can tell. As a deadline at this same time, that would be left
        again in the next cycle, and for as long as the time stands.
        """
        now = self.now.monotonic
        return max(now + seconds, math.nextafter(now, math.inf)) if seconds > 0 else now

    def clear_deadline(self, change: Change, instance: int) -> None:
        """Remove the task's deadline."""
        self.deadlines.cancel((change.job_id, instance))

    def age(self, task: TaskRuntime) -> float:
        """Return the seconds since the task's last step."""
        return self.seconds_since(task.updated_at)

    def watch(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Set the deadline by which a run on a host must have a status, or must have ended."""
        in_flight, limits = change.in_flight, self.limits
        if task.state is TaskState.RUNNING:
            in_flight.attempts.pop(instance, None)
            seconds = self.time_left(change, instance)
            if instance in in_flight.unconfirmed:
                seconds = min(limits.confirm_after, seconds or limits.confirm_after)
        elif task.state is TaskState.STARTING and change.service:
            seconds = limits.confirm_after if instance in in_flight.unconfirmed else None
        elif task.state is TaskState.LAUNCHED:
            seconds = limits.ask_after if instance in in_flight.unconfirmed else limits.news_after
        else:
            stuck = limits.stuck_after - self.age(task)
            seconds = min(limits.confirm_after, stuck) if instance in in_flight.unconfirmed else stuck
        if seconds is None:
            self.clear_deadline(change, instance)
        else:
            self.set_deadline(change, instance, seconds)

    def time_left(self, change: Change, instance: int) -> float | None:
        """Return the seconds that a RUNNING task has left of its maxRunningTime; None: no limit."""
        longest = change.spec_of(instance).sla.max_running_time
        if not longest:
            return None
        return longest - self.seconds_since(change.task(instance).start_time)
