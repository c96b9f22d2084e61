"""When tasks are looked at again: how long each may be without news, or may run."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Now
from jobmgr.core.state.limits import Limits
from jobmgr.core.task.usage import NANOSECONDS
from peloton.deadlines import Deadlines
from peloton.model.ids import JobId
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

SET_BACK_SECONDS = 60.0
"""A time that is stored and lies further ahead was stored before the clock was set back."""
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

    def set_now(self, now: Now) -> None:
        """Take the time of a cycle, which is not before that of the cycle before."""
        assert now.monotonic >= self.now.monotonic, f"the time goes back: {now} follows {self.now}"
        self.now = now
        if self._begun is None:
            self._begun = now.monotonic

    def seconds_since(self, moment: int) -> float:
        """Return the seconds since a moment that is stored, in nanoseconds since 1970.

        One that is much later than now was stored by an earlier leader, before the clock was set back: at
        least the time of this leader has passed. Times of one cycle are some nanoseconds after its now.
        """
        seconds = (self.now.wall - moment) / NANOSECONDS
        if seconds < -SET_BACK_SECONDS:
            return self.now.monotonic - (self._begun or 0.0)
        return max(seconds, 0.0)

    def set_deadline(self, change: Change, instance: int, seconds: float) -> None:
        """Evaluate the task again after `seconds`, in place of its present deadline."""
        self.deadlines.set((change.job_id, instance), self.now.monotonic + max(seconds, 0.0))

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
