"""Actions on a task: what its goal requires in its state, and how its runs begin and end."""

from __future__ import annotations

from dataclasses import replace

from jobmgr.core.state.change import Change
from jobmgr.core.state.in_flight import PendingOp
from jobmgr.core.state.measured import used
from jobmgr.core.state.task_states import ENDED, Cause
from jobmgr.core.state.throttling import THROTTLED, throttled_for
from jobmgr.core.task.authors import asked_within_sla, author_of_end, told_end, with_author
from jobmgr.core.task.deadlines import TaskDeadlines
from jobmgr.core.task.gang import ended_with_gang, gang_runs_again, is_bound, is_ending, note_end
from jobmgr.core.task.goal import ENDING_GOALS, RULES, Action, Goal, goal_of
from jobmgr.core.task.retry import (
    EndCause,
    counts_for_service,
    delay,
    end_cause,
    explain_end,
    runs_again,
    stored_cause,
)
from jobmgr.core.task.retry_rules import Ruling, ends_with, ruled_ends, ruling_on_end, runs_again_after
from jobmgr.core.task.saving import LOST, held_in_vain, lost_seconds
from jobmgr.core.task.status_rules import (
    MAX_MESSAGE_CHARACTERS,
    end_state,
    ended_run_message,
    moment,
    restart_reason,
    termination,
)
from jobmgr.core.task.survivors import WAITING, give_up, note_lost, take_back
from jobmgr.core.task.usage import held
from jobmgr.core.task.volumes import give_up_unstarted, home_for_next_run, note_ended, volume_host
from peloton.model.amounts import elapsed
from peloton.model.states import ON_HOST_TASK_STATES, HealthState, JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskSpec, TaskStatus, Termination
from peloton.model.usage import join

EVICTIONS = frozenset({TerminationReason.PREEMPTED_RESOURCES, TerminationReason.KILLED_HOST_MAINTENANCE})
"""Why Peloton ends a run although nobody asked for the end of the task."""
NO_PORTS: dict[str, int] = {}


class TaskActions(TaskDeadlines):
    """Acts on single tasks of all jobs, with their deadlines."""

    def evaluate(self, change: Change, instance: int) -> None:
        """Begin what the rules require in the task's present state."""
        task = change.task(instance)
        goal = goal_of(change.goal, task)
        pending = change.in_flight.pending.get(instance)
        survives = instance in change.in_flight.survivors and task.state in WAITING
        if pending is PendingOp.BACKOFF and (goal is not Goal.RUN or survives):
            change.in_flight.finish(instance)
        elif pending is not None:
            return
        action = RULES[task.state, goal]
        if survives and goal is Goal.RUN:
            self._take_back(change, instance)
        elif action is Action.ENQUEUE:
            change.in_flight.mark_ready(instance)
        elif action is Action.WATCH:
            self.watch(change, instance, task)
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
            self._run_again(change, instance, task)
        elif action is Action.RETRY:
            self._retry(change, instance, task)

    def _take_back(self, change: Change, instance: int) -> None:
        """Take back the replacement of a lost run that lives; watch the run where that is done at once."""
        take_back(change, instance, self.now.wall)
        task = change.task(instance)
        if task.state is TaskState.RUNNING:
            self.watch(change, instance, task)

    def _retry(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Start the next run of a task whose run has ended, now or later, if its policy grants one."""
        if is_bound(change, instance):
            note_end(change, instance)
            return
        if not change.service:
            spec = change.task_spec(instance)
            if runs_again_after(stored_cause(task), task.failure_count, spec, task):
                self.next_run(change, instance, task)
            return
        seconds = throttled_for(task, self.age(task), self.limits.throttle_first, self.limits.throttle_most)
        if not seconds:
            self.next_run(change, instance, task)
            return
        if not task.throttled:
            home = change.next_host(task, volume_host(task))
            change.revise(instance, throttled=True, message=THROTTLED, desired_host=home)
        self.set_deadline(change, instance, seconds)

    def resume(self, change: Change, instance: int) -> None:
        """Evaluate a task after events may have been missed."""
        task, in_flight = change.task(instance), change.in_flight
        running = task.state in ON_HOST_TASK_STATES and goal_of(change.goal, task) is Goal.RUN
        if in_flight.recovered and running and instance not in in_flight.pending:
            in_flight.unconfirmed.add(instance)
        self.evaluate(change, instance)

    def _run_again(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Begin the next run of a task whose run has ended, or note that its gang is to run again."""
        if not is_bound(change, instance):
            self.next_run(change, instance, task)
            return
        note_end(change, instance)
        if task.desired_run <= task.run:
            change.revise(instance, desired_run=task.run + 1)

    def next_run(self, change: Change, instance: int, task: TaskRuntime, number: int = 0) -> None:
        """Begin the next run, with the version of the config that is desired.

        A run that was asked for keeps the host that it is to go to; a stateful one goes to its volume. Its
        number is the one that is given, else the one after the last.
        """
        number = number or change.in_flight.next_number(instance, task.run)
        assert number > task.run, f"{change.job_id}-{instance}: run {number} cannot follow run {task.run}"
        in_flight = change.in_flight
        spec = change.specs[task.desired_config_version].task(instance)
        home = home_for_next_run(change, instance, task, task.desired_config_version)
        free = task.desired_run > task.run and not (spec.stateful or task.volume_id)
        in_flight.finish(instance)
        in_flight.unconfirmed.discard(instance)
        give_up(change, instance)
        self.clear_deadline(change, instance)
        change.move(
            instance,
            Cause.NEXT_RUN,
            goal=change.running_goal,
            run=number,
            desired_run=number,
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
            throttled=False,
            killed_for="",
            previous_state=task.state,
            saved_at=0,
        )
        in_flight.mark_ready(instance)

    def not_started(self, change: Change, instance: int, message: str, reason: str) -> None:
        """End a run that did not start, and try the next one unless the task is to stop."""
        if goal_of(change.goal, change.task(instance)) in ENDING_GOALS:
            self.end_unlaunched(change, instance, message)
            return
        tries = change.in_flight.count_failure(instance)
        lost = change.move(
            instance, Cause.NOT_STARTED, message=message[:MAX_MESSAGE_CHARACTERS], reason=reason
        )
        self._run_again(change, instance, lost)
        if not is_bound(change, instance):
            self.pause_after_refusals(change, instance, tries)

    def pause_after_refusals(self, change: Change, instance: int, tries: int) -> None:
        """Let a run wait that follows many tries of which none started."""
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
        give_up(change, instance)
        restarted = goal is Goal.RESTART
        reason = restart_reason(change.task(instance)) if restarted else TerminationReason.KILLED_ON_REQUEST
        by = author_of_end(change, change.task(instance))
        with_gang = ended_with_gang(change.task(instance))
        killed_for = change.task(instance).killed_for if with_gang else by and with_author("stopped", by)
        note_end(change, instance)
        task = change.move(
            instance,
            Cause.CANCELLED,
            goal=TaskState.KILLED if goal is Goal.STOP else change.task(instance).goal,
            completion_time=self.now.wall,
            termination=Termination(reason, by=by),
            killed_for=killed_for,
            message=told_end(killed_for, message)[:MAX_MESSAGE_CHARACTERS],
            reason="",
            health=_health_at_end(change.task_spec(instance)),
        )
        if restarted:
            self._run_again(change, instance, task)
            return
        give_up_unstarted(change, instance)
        if goal is not Goal.STOP:
            # To be removed, or wanted again since it was withdrawn.
            self.evaluate(change, instance)

    def end(self, change: Change, instance: int, status: TaskStatus) -> None:
        """End the current run by a terminal status, and begin the next one where the policy allows it."""
        task = change.task(instance)
        running = goal_of(change.goal, task) is Goal.RUN
        cause = end_cause(task.state, status)
        counts = counts_for_service(cause, status.state) if change.service else cause.is_failure
        bound = running and is_bound(change, instance)
        follows = bound and cause is not EndCause.SUCCESS and is_ending(change)
        by_rules = running and not (change.service or follows)
        members = change.spec.bound_members if bound else 0
        ruling = ruling_on_end(change, instance, cause, status, members) if by_rules else None
        failures = task.failure_count + (running and not follows and (counts or ruling is not None))
        note_ended(change, task, cause, status)
        if ruling is not None:
            again = ruling.again
        elif bound:
            again = follows or gang_runs_again(change, instance, cause)
        else:
            spec = change.task_spec(instance)
            again = running and not change.service and runs_again(cause, failures - ruled_ends(task), spec)
        if ruling is not None:
            status = replace(status, message=ruling.told(status.message))
        elif running and not (change.service and counts):
            told = explain_end(cause, status.message, again or change.service)
            status = status if told == status.message else replace(status, message=told)
        if running and cause is EndCause.NOT_STARTED:
            change.in_flight.finish(instance)
            self.not_started(change, instance, status.message, status.reason)
            note_lost(change, instance, task, cause)
            return
        self._end(change, instance, task, status, failures, ruling)
        if again:
            self._run_again(change, instance, change.task(instance))
        else:
            give_up_unstarted(change, instance)
            self.evaluate(change, instance)
        if running:
            note_lost(change, instance, task, cause)

    def _end(
        self,
        change: Change,
        instance: int,
        task: TaskRuntime,
        status: TaskStatus,
        failures: int,
        ruling: Ruling | None = None,
    ) -> None:
        """Note how the run ended."""
        goal = goal_of(change.goal, task)
        state = end_state(task, status, goal is not Goal.RUN)
        completed = max(moment(status, task, self.now.wall), task.start_time)
        spec = change.task_spec(instance)
        span = task.start_time, completed
        usage = held(spec.resources, span)
        usage |= used(change.job.take_sample(instance, task.run), status, span)
        usage |= held_in_vain(task, spec.resources, state, completed)
        if lost := lost_seconds(change, instance, task, state, completed):
            usage[LOST] = lost
            change.lost_seconds += lost
        change.in_flight.finish(instance)
        self._clear(change, instance)
        change.add_usage(usage)
        note_end(change, instance)
        requested = task.termination if task.state is TaskState.KILLING else None
        evicted = requested is not None and (requested.reason in EVICTIONS or ended_with_gang(task))
        done = evicted and state is TaskState.SUCCEEDED
        stays = evicted and task.goal is TaskState.PREEMPTING
        asked = requested is not None and bool(requested.by) and state is TaskState.KILLED
        killed_for = task.killed_for if asked or (evicted and not done) else ""
        change.move(
            instance,
            ENDED[state],
            goal=TaskState.KILLED if goal is Goal.STOP and not stays else task.goal,
            desired_run=task.run if done else task.desired_run,
            completion_time=completed,
            agent_id=task.agent_id or status.agent_id,
            message=told_end(killed_for, status.message)[:MAX_MESSAGE_CHARACTERS],
            killed_for=killed_for,
            reason=status.reason,
            termination=termination(state, requested, status.message),
            failure_count=failures,
            rule_ends=ends_with(task, ruling),
            resource_usage=join(task.resource_usage, usage) if usage else task.resource_usage,
            health=_health_at_end(spec),
        )

    def kill(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Store KILLING, and kill the run for its removal, update or restart, or on request."""
        goal, by = goal_of(change.goal, task), author_of_end(change, task)
        restarts = goal is Goal.RESTART and (not change.updating or asked_within_sla(task))
        if task.termination is not None and ended_with_gang(task):
            stays = TaskState.KILLED if goal is Goal.STOP else task.goal
            self._kill(change, instance, stays, task.termination, task.killed_for, task.killed_for)
        elif goal is Goal.REMOVE and not change.service:
            self._kill_by(change, instance, task.goal, TerminationReason.KILLED_ON_REQUEST, "released", by)
        elif goal is Goal.REMOVE:
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
        killed_for = by and with_author(done, by)
        message = killed_for or f"to be {done}"
        self._kill(change, instance, goal, Termination(reason, by=by), message, killed_for)

    def evictable(self, change: Change, instance: int) -> bool:
        """Return whether a run is on a host, is not to end anyway, and has no pending operation."""
        task = change.task(instance)
        on_host = RULES.get((task.state, goal_of(change.goal, task))) is Action.WATCH
        return on_host and instance not in change.in_flight.pending

    def evict(self, change: Change, instance: int, reason: TerminationReason, message: str) -> None:
        """End a run that can be evicted; no failure is counted.

        The next run follows, unless the run is preempted and the task's spec says that it stays killed then,
        or its pod is somebody else's.
        """
        task = change.task(instance)
        preempted = reason is TerminationReason.PREEMPTED_RESOURCES
        spec = change.task_spec(instance)
        if spec.pod is not None or (preempted and spec.kill_on_preempt):
            self._kill(change, instance, TaskState.PREEMPTING, Termination(reason), message, message)
            return
        change.revise(
            instance, desired_run=task.run + 1, desired_host=change.next_host(task, volume_host(task))
        )
        self._kill(change, instance, task.goal, Termination(reason), message, message)

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
        self,
        change: Change,
        instance: int,
        goal: TaskState,
        termination: Termination,
        message: str,
        killed_for: str = "",
    ) -> None:
        task = change.move(
            instance,
            Cause.KILL,
            goal=goal,
            termination=termination,
            message=message,
            killed_for=killed_for,
            reason="",
        )
        change.in_flight.attempts.pop(instance, None)
        change.in_flight.unconfirmed.discard(instance)
        note_end(change, instance)
        self.kill_again(change, instance, task)

    def start_over(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Give up a run without a status, kill it in case it lives, and begin the next one."""
        change.kill(instance, task)
        silent = f"{task.state.name} without news for {elapsed(self.age(task))}"
        lost = change.move(instance, Cause.SILENT, message=silent, completion_time=self.now.wall)
        self._run_again(change, instance, lost)

    def _withdraw(self, change: Change, instance: int, task: TaskRuntime) -> None:
        in_flight = change.in_flight
        note_end(change, instance)
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
