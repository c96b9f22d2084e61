"""Actions on a task: what its goal requires in its state, and how its runs begin and end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Now
from jobmgr.core.state.in_flight import PendingOp
from jobmgr.core.state.task_states import ENDED, Cause
from jobmgr.core.task.authors import asked_within_sla, author_of_end, told_end, unlaunched, with_author
from jobmgr.core.task.goal import ENDING_GOALS, RULES, Action, Goal, goal_of
from jobmgr.core.task.retry import (
    THROTTLED,
    EndCause,
    counts_for_service,
    delay,
    end_cause,
    explain_end,
    runs_again,
    stored_cause,
    throttled_for,
)
from jobmgr.core.task.status_rules import (
    MAX_MESSAGE,
    end_state,
    ended_run_message,
    restart_reason,
    termination,
)
from jobmgr.core.task.usage import NANOSECONDS, added, used
from jobmgr.core.task.volumes import home_for_next_run, note_ended, volume_host
from peloton.deadlines import Deadlines
from peloton.model.ids import JobId
from peloton.model.states import ON_HOST_TASK_STATES, HealthState, JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskSpec, TaskStatus, Termination

EVICTIONS = frozenset({TerminationReason.PREEMPTED_RESOURCES, TerminationReason.KILLED_HOST_MAINTENANCE})
"""Why Peloton ends a run although nobody asked for the end of the task."""
NO_PORTS: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the engine, in seconds unless stated otherwise."""

    stuck_after: float = 180 * 60.0
    """A task that is LAUNCHED or STARTING for longer starts over; the executor of one that is KILLING for
    longer is shut down."""
    news_after: float = 300.0
    """Mesos is asked about a task that is LAUNCHED for longer without a status."""
    ask_after: float = 1.0
    """Delay before Mesos is asked about a launch whose outcome is unknown: the call may still arrive."""
    confirm_after: float = 60.0
    """Mesos is asked about STARTING and RUNNING tasks for which a new leader has no status by then."""
    kill_again_after: float = 10.0
    """First delay before a kill is repeated; it doubles up to `kill_again_most`."""
    kill_again_most: float = 600.0
    refusals_at_once: int = 3
    """Number of refused launches in a row before a task waits between its tries."""
    throttle_first: float = 30.0
    """Pause of a service's instance after its first failure; it doubles up to `throttle_most`."""
    throttle_most: float = 3600.0
    """Longest pause of a service's instance before its next run."""
    rows_per_turn: int = 2000
    """Number of tasks that one cycle creates or evaluates."""


Key = tuple[JobId, int]


class TaskActions:
    """Acts on single tasks of all jobs, with their deadlines."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.deadlines: Deadlines[Key] = Deadlines()
        self.now = Now(0, 0.0)

    def evaluate(self, change: Change, instance: int) -> None:
        """Begin what the rules require in the task's present state."""
        task = change.task(instance)
        goal = goal_of(change.goal, task)
        pending = change.in_flight.pending.get(instance)
        if pending is PendingOp.BACKOFF and goal is not Goal.RUN:
            change.in_flight.finish(instance)
        elif pending is not None:
            return
        action = RULES[task.state, goal]
        if action is Action.ENQUEUE:
            change.in_flight.mark_ready(instance)
        elif action is Action.WATCH:
            self._watch(change, instance, task)
        elif action is Action.WITHDRAW:
            self._withdraw(change, instance, task)
        elif action is Action.KILL:
            self.kill(change, instance, task)
        elif action is Action.KILL_AGAIN:
            self.kill_again(change, instance, task)
        elif action is Action.REMOVE:
            self._clear(change, instance)
            change.move(instance, Cause.REMOVED)
        elif action is Action.NEXT_RUN:
            self.next_run(change, instance, task)
        elif action is Action.RETRY:
            self._retry(change, instance, task)

    def _retry(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Start the next run of a task whose run has ended, now or later, if its policy grants one."""
        if not change.service:
            if runs_again(stored_cause(task), task.failure_count, change.task_spec(instance)):
                self.next_run(change, instance, task)
            return
        seconds = throttled_for(task, self.age(task), self.limits.throttle_first, self.limits.throttle_most)
        if not seconds:
            self.next_run(change, instance, task)
            return
        if task.message != THROTTLED:
            change.revise(instance, message=THROTTLED, desired_host=change.next_host(task, volume_host(task)))
        self.set_deadline(change, instance, seconds)

    def resume(self, change: Change, instance: int) -> None:
        """Evaluate a task after events may have been missed."""
        task, in_flight = change.task(instance), change.in_flight
        running = task.state in ON_HOST_TASK_STATES and goal_of(change.goal, task) is Goal.RUN
        if in_flight.recovered and running and instance not in in_flight.pending:
            in_flight.unconfirmed.add(instance)
        self.evaluate(change, instance)

    def set_deadline(self, change: Change, instance: int, seconds: float) -> None:
        """Evaluate the task again after so many seconds, in place of its present deadline."""
        self.deadlines.set((change.job_id, instance), self.now.monotonic + max(seconds, 0.0))

    def clear_deadline(self, change: Change, instance: int) -> None:
        """Remove the task's deadline."""
        self.deadlines.cancel((change.job_id, instance))

    def age(self, task: TaskRuntime) -> float:
        """Return the seconds since the task's last step."""
        return max(self.now.wall - task.updated_at, 0) / NANOSECONDS

    def next_run(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Begin the next run, with the version of the config that is desired.

        A run that was asked for keeps the host that it is to go to; a stateful one goes to its volume.
        """
        in_flight = change.in_flight
        spec = change.specs[task.desired_config_version].task(instance)
        home = home_for_next_run(change, instance, task, task.desired_config_version)
        free = task.desired_run > task.run and not (spec.stateful or task.volume_id)
        in_flight.finish(instance)
        in_flight.unconfirmed.discard(instance)
        self.clear_deadline(change, instance)
        change.move(
            instance,
            Cause.NEXT_RUN,
            goal=change.running_goal,
            run=task.run + 1,
            desired_run=task.run + 1,
            previous_run=task.run,
            config_version=task.desired_config_version,
            host="",
            agent_id="",
            ports=NO_PORTS,
            start_time=0,
            completion_time=0,
            termination=None,
            health=HealthState.UNKNOWN if spec.health_checked else HealthState.DISABLED,
            desired_host=change.next_host(task, task.desired_host if free else home.host),
            volume_id=home.volume_id,
            reason="",
            message=ended_run_message(task.run, task.state, task.message),
        )
        in_flight.mark_ready(instance)

    def not_started(self, change: Change, instance: int, message: str, reason: str) -> None:
        """End a run that did not start, and try the next one unless the task is to stop."""
        if goal_of(change.goal, change.task(instance)) in ENDING_GOALS:
            self.end_unlaunched(change, instance, message)
            return
        tries = change.in_flight.count_failure(instance)
        lost = change.move(instance, Cause.NOT_STARTED, message=message[:MAX_MESSAGE], reason=reason)
        self.next_run(change, instance, lost)
        if tries > self.limits.refusals_at_once:
            change.in_flight.begin(instance, PendingOp.BACKOFF)
            self.set_deadline(change, instance, delay(tries - self.limits.refusals_at_once))

    def back_off(self, change: Change, instance: int, reason: str) -> None:
        """Note why resmgr refuses a run, and try again after a growing delay."""
        in_flight = change.in_flight
        tries = in_flight.count_failure(instance)
        if change.task(instance).reason != reason:
            change.revise(instance, reason=reason)
        in_flight.begin(instance, PendingOp.BACKOFF)
        self.set_deadline(change, instance, delay(tries))
        self.evaluate(change, instance)

    def end_unlaunched(self, change: Change, instance: int, message: str) -> None:
        """End a run on request that was not launched."""
        goal = goal_of(change.goal, change.task(instance))
        change.in_flight.finish(instance)
        self._clear(change, instance)
        restarted = goal is Goal.RESTART
        reason = restart_reason(change.task(instance)) if restarted else TerminationReason.KILLED_ON_REQUEST
        by = author_of_end(change, change.task(instance))
        task = change.move(
            instance,
            Cause.CANCELLED,
            goal=TaskState.KILLED if goal is Goal.STOP else change.task(instance).goal,
            completion_time=self.now.wall,
            termination=Termination(reason, by=by),
            message=unlaunched(message, by)[:MAX_MESSAGE],
            reason="",
            health=_health_at_end(change.task_spec(instance)),
        )
        if restarted:
            self.next_run(change, instance, task)
        elif goal is not Goal.STOP:
            # To be removed, or wanted again since it was withdrawn.
            self.evaluate(change, instance)

    def end(self, change: Change, instance: int, status: TaskStatus) -> None:
        """End the current run by a terminal status, and begin the next one where the policy allows it."""
        task = change.task(instance)
        running = goal_of(change.goal, task) is Goal.RUN
        cause = end_cause(task.state, status)
        counts = counts_for_service(cause, status.state) if change.service else cause.is_failure
        failures = task.failure_count + (running and counts)
        note_ended(change, task, cause, status)
        again = running and not change.service and runs_again(cause, failures, change.task_spec(instance))
        if running and not (change.service and counts):
            status = replace(status, message=explain_end(cause, status.message, again or change.service))
        if running and cause is EndCause.NOT_STARTED:
            change.in_flight.finish(instance)
            self.not_started(change, instance, status.message, status.reason)
            return
        self._end(change, instance, task, status, failures)
        if again:
            self.next_run(change, instance, change.task(instance))
        else:
            self.evaluate(change, instance)

    def _end(
        self, change: Change, instance: int, task: TaskRuntime, status: TaskStatus, failures: int
    ) -> None:
        """Note how the run ended."""
        goal = goal_of(change.goal, task)
        state = end_state(task, status, goal is not Goal.RUN)
        completed = status.timestamp or self.now.wall
        spec = change.task_spec(instance)
        usage = used(spec.resources, (task.start_time, completed))
        change.in_flight.finish(instance)
        self._clear(change, instance)
        change.add_usage(usage)
        requested = task.termination if task.state is TaskState.KILLING else None
        evicted = requested is not None and requested.reason in EVICTIONS
        done = evicted and state is TaskState.SUCCEEDED
        stays = evicted and task.goal is TaskState.PREEMPTING
        asked = requested is not None and bool(requested.by) and state is TaskState.KILLED
        message = told_end(task, status) if asked or (evicted and not done) else status.message
        change.move(
            instance,
            ENDED[state],
            goal=TaskState.KILLED if goal is Goal.STOP and not stays else task.goal,
            desired_run=task.run if done else task.desired_run,
            completion_time=completed,
            agent_id=task.agent_id or status.agent_id,
            message=message[:MAX_MESSAGE],
            reason=status.reason,
            termination=termination(state, requested, status.message),
            failure_count=failures,
            resource_usage=added(task.resource_usage, usage) if usage else task.resource_usage,
            health=_health_at_end(spec),
        )

    def kill(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Store KILLING, and kill the run for its removal, update or restart, or on request."""
        goal, by = goal_of(change.goal, task), author_of_end(change, task)
        restarts = goal is Goal.RESTART and (not change.updating or asked_within_sla(task))
        if goal is Goal.REMOVE:
            self._kill_by(change, instance, task.goal, TerminationReason.KILLED_FOR_UPDATE, "removed", by)
        elif restarts:
            self._kill_by(change, instance, task.goal, restart_reason(task), "restarted", by)
        elif change.updating and task.desired_run > task.run:
            self._kill_by(change, instance, task.goal, TerminationReason.KILLED_FOR_UPDATE, "updated", by)
        else:
            reason = TerminationReason.KILLED_ON_REQUEST
            self._kill_by(change, instance, TaskState.KILLED, reason, "stopped", by)

    def kill_for(self, change: Change, instance: int, reason: TerminationReason, message: str) -> None:
        """Stop the task for a given reason."""
        self._kill(change, instance, TaskState.KILLED, Termination(reason), message)

    def _kill_by(
        self, change: Change, instance: int, goal: TaskState, reason: TerminationReason, done: str, by: str
    ) -> None:
        message = with_author(done, by) if by else f"to be {done}"
        self._kill(change, instance, goal, Termination(reason, by=by), message)

    def evictable(self, change: Change, instance: int) -> bool:
        """Return whether a run is on a host, is not to end anyway, and has no pending operation."""
        task = change.task(instance)
        on_host = RULES.get((task.state, goal_of(change.goal, task))) is Action.WATCH
        return on_host and instance not in change.in_flight.pending

    def evict(self, change: Change, instance: int, reason: TerminationReason, message: str) -> None:
        """End a run that can be evicted; no failure is counted.

        The next run follows, unless the run is preempted and the task's spec says that it stays killed then.
        """
        task = change.task(instance)
        preempted = reason is TerminationReason.PREEMPTED_RESOURCES
        if preempted and change.task_spec(instance).kill_on_preempt:
            self._kill(change, instance, TaskState.PREEMPTING, Termination(reason), message)
            return
        change.revise(
            instance, desired_run=task.run + 1, desired_host=change.next_host(task, volume_host(task))
        )
        self._kill(change, instance, task.goal, Termination(reason), message)

    def kill_again(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Kill the run, and set the deadline at which the kill is repeated.

        The first kill holds the host of a run whose next one is to be placed there again.
        """
        change.kill(instance, task)
        limits = self.limits
        tries = change.in_flight.count_failure(instance)
        if tries == 1 and _returns(change.goal, task):
            change.held.append(((instance, task.run), task.host))
        self.set_deadline(change, instance, delay(tries, limits.kill_again_after, limits.kill_again_most))

    def _kill(
        self, change: Change, instance: int, goal: TaskState, termination: Termination, message: str
    ) -> None:
        task = change.move(
            instance,
            Cause.KILL,
            goal=goal,
            termination=termination,
            message=message,
            reason="",
        )
        change.in_flight.attempts.pop(instance, None)
        change.in_flight.unconfirmed.discard(instance)
        self.kill_again(change, instance, task)

    def start_over(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Give up a run without a status, kill it in case it lives, and begin the next one."""
        change.kill(instance, task)
        silent = f"{task.state.name} without news for {self.age(task):.0f} s"
        lost = change.move(instance, Cause.SILENT, message=silent, completion_time=self.now.wall)
        self.next_run(change, instance, lost)

    def _watch(self, change: Change, instance: int, task: TaskRuntime) -> None:
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
        return longest - (self.now.wall - change.task(instance).start_time) / NANOSECONDS

    def _withdraw(self, change: Change, instance: int, task: TaskRuntime) -> None:
        in_flight = change.in_flight
        if task.state is TaskState.INITIALIZED and not in_flight.recovered:
            self.end_unlaunched(change, instance, "stopped before it was enqueued")
            return
        in_flight.begin(instance, PendingOp.WITHDRAW)
        change.withdrawals.append((instance, task.run))

    def _clear(self, change: Change, instance: int) -> None:
        """Drop what is kept of the run that ends."""
        change.in_flight.attempts.pop(instance, None)
        change.in_flight.unconfirmed.discard(instance)
        change.in_flight.missing.discard(instance)
        self.clear_deadline(change, instance)


def _returns(goal: JobState, task: TaskRuntime) -> bool:
    """Return whether the next run is to be placed on the host of this one."""
    return goal_of(goal, task) is Goal.RESTART and task.desired_host == task.host != ""


def _health_at_end(spec: TaskSpec) -> HealthState:
    """Return the health of an ended run: no check says anything about it."""
    return HealthState.INVALID if spec.health_checked else HealthState.DISABLED
