"""Steers tasks towards their goals: what to do about one task, and the moves that a run can make."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Now
from jobmgr.core.state.in_flight import Busy
from jobmgr.core.state.task_states import ENDED, Cause
from jobmgr.core.task.goal import RULES, Action, Aim, aim_of
from jobmgr.core.task.retry import EndCause, cause_of, delay, explained, runs_again, stored_cause
from jobmgr.core.task.status_rules import LONGEST_MESSAGE, end_state, run_told, termination
from jobmgr.core.task.usage import NANOSECONDS, added, used
from peloton.deadlines import Deadlines
from peloton.model.ids import JobId
from peloton.model.states import ON_HOST_TASK_STATES, HealthState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus, Termination

NO_PORTS: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, unless said otherwise."""

    stuck_after: float = 180 * 60.0
    """LAUNCHED or STARTING for longer: start over; KILLING for longer: shut the executor down."""
    news_after: float = 300.0
    """LAUNCHED without news for so long: Mesos is asked."""
    ask_after: float = 1.0
    """Before Mesos is asked about a launch whose outcome is not known: a call on its way may still arrive."""
    confirm_after: float = 60.0
    """STARTING and RUNNING tasks that a new leader has not heard of: Mesos is asked."""
    kill_again_after: float = 10.0
    """First pause before a kill is repeated; it doubles up to `kill_again_most`."""
    kill_again_most: float = 600.0
    refusals_at_once: int = 3
    """So many launches in a row may be refused before a task waits between its tries."""
    rows_per_turn: int = 2000
    """Tasks created, or looked at anew, in one turn."""


Key = tuple[JobId, int]


class Steering:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.deadlines: Deadlines[Key] = Deadlines()
        self.now = Now(0, 0.0)

    def evaluate(self, change: Change, instance: int) -> None:
        """Do what the rules say of the task as it is now."""
        task = change.task(instance)
        aim = aim_of(change.goal, task)
        busy = change.work.busy.get(instance)
        if busy is Busy.PAUSE and aim is not Aim.RUN:
            change.work.free(instance)
        elif busy is not None:
            return
        action = RULES[task.state, aim]
        if action is Action.ENQUEUE:
            change.work.offer(instance)
        elif action is Action.WATCH:
            self._watch(change, instance, task)
        elif action is Action.WITHDRAW:
            self._withdraw(change, instance, task)
        elif action is Action.KILL:
            self.kill(change, instance, task)
        elif action is Action.KILL_AGAIN:
            self.kill_again(change, instance, task)
        elif action is Action.NEXT_RUN or (
            action is Action.RETRY
            and runs_again(stored_cause(task), task.failure_count, change.task_spec(instance))
        ):
            self.next_run(change, instance, task)

    def resume(self, change: Change, instance: int) -> None:
        """Evaluate a task of which something may have been missed."""
        task, work = change.task(instance), change.work
        running = aim_of(change.goal, task) is Aim.RUN
        if work.recovered and task.state in ON_HOST_TASK_STATES and running and instance not in work.busy:
            work.unconfirmed.add(instance)
        self.evaluate(change, instance)

    def arm(self, change: Change, instance: int, seconds: float) -> None:
        self.deadlines.set((change.job_id, instance), self.now.monotonic + max(seconds, 0.0))

    def disarm(self, change: Change, instance: int) -> None:
        self.deadlines.cancel((change.job_id, instance))

    def age(self, task: TaskRuntime) -> float:
        """Seconds since the task's last step."""
        return max(self.now.wall - task.updated_at, 0) / NANOSECONDS

    def next_run(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Name the next run, which begins anew."""
        work = change.work
        work.free(instance)
        work.unconfirmed.discard(instance)
        self.disarm(change, instance)
        change.move(
            instance,
            Cause.NEXT_RUN,
            goal=TaskState.SUCCEEDED,
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
            health=HealthState.DISABLED,
            desired_host="",
            reason="",
            message=run_told(task.run, task.state, task.message),
        )
        work.offer(instance)

    def not_started(self, change: Change, instance: int, message: str, reason: str) -> None:
        """The run did not happen: the next one is tried, or none where the task shall end."""
        if aim_of(change.goal, change.task(instance)) is Aim.STOP:
            self.end_unlaunched(change, instance, message)
            return
        tries = change.work.failed(instance)
        lost = change.move(instance, Cause.NOT_STARTED, message=message[:LONGEST_MESSAGE], reason=reason)
        self.next_run(change, instance, lost)
        if tries > self.limits.refusals_at_once:
            change.work.occupy(instance, Busy.PAUSE)
            self.arm(change, instance, delay(tries - self.limits.refusals_at_once))

    def pause(self, change: Change, instance: int, reason: str) -> None:
        """resmgr would not take the run: it says why, and is tried again after a growing delay."""
        work = change.work
        tries = work.failed(instance)
        if change.task(instance).reason != reason:
            change.revise(instance, reason=reason)
        work.occupy(instance, Busy.PAUSE)
        self.arm(change, instance, delay(tries))
        self.evaluate(change, instance)

    def end_unlaunched(self, change: Change, instance: int, message: str) -> None:
        """A run that was not launched is over on request."""
        aim = aim_of(change.goal, change.task(instance))
        change.work.free(instance)
        self._forget(change, instance)
        renewed = aim is Aim.RENEW
        reason = TerminationReason.KILLED_FOR_RESTART if renewed else TerminationReason.KILLED_ON_REQUEST
        task = change.move(
            instance,
            Cause.CANCELLED,
            goal=change.task(instance).goal if renewed else TaskState.KILLED,
            completion_time=self.now.wall,
            termination=Termination(reason),
            message=message,
            reason="",
        )
        if renewed:
            self.next_run(change, instance, task)

    def end(self, change: Change, instance: int, status: TaskStatus) -> None:
        """The current run is over, as the status tells."""
        task = change.task(instance)
        running = aim_of(change.goal, task) is Aim.RUN
        cause = cause_of(task.state, status)
        failures = task.failure_count + (running and cause.counts)
        again = running and runs_again(cause, failures, change.task_spec(instance))
        if running:
            status = replace(status, message=explained(cause, status.message, again))
        if running and cause is EndCause.NOT_STARTED:
            change.work.free(instance)
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
        aim = aim_of(change.goal, task)
        state = end_state(task, status, aim is not Aim.RUN)
        completed = status.timestamp or self.now.wall
        usage = used(change.task_spec(instance).resources, (task.start_time, completed))
        change.work.free(instance)
        self._forget(change, instance)
        change.use(usage)
        asked = task.termination if task.state is TaskState.KILLING else None
        preempted = asked is not None and asked.reason is TerminationReason.PREEMPTED_RESOURCES
        done = preempted and state is TaskState.SUCCEEDED
        message = f"{task.message}; {status.message}" if preempted and not done else status.message
        change.move(
            instance,
            ENDED[state],
            goal=TaskState.KILLED if aim is Aim.STOP else task.goal,
            desired_run=task.run if done else task.desired_run,
            completion_time=completed,
            agent_id=task.agent_id or status.agent_id,
            message=message[:LONGEST_MESSAGE],
            reason=status.reason,
            termination=termination(state, asked, status.message),
            failure_count=failures,
            resource_usage=added(task.resource_usage, usage) if usage else task.resource_usage,
            health=task.health if status.healthy is None else HealthState.UNHEALTHY,
        )

    def kill(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Store KILLING, and kill."""
        if aim_of(change.goal, task) is Aim.RENEW:
            self._kill(change, instance, task.goal, TerminationReason.KILLED_FOR_RESTART, "to be restarted")
        else:
            self.kill_for(change, instance, TerminationReason.KILLED_ON_REQUEST, "to be stopped")

    def kill_for(self, change: Change, instance: int, reason: TerminationReason, message: str) -> None:
        """The task shall end, for this reason."""
        self._kill(change, instance, TaskState.KILLED, reason, message)

    def evict(self, change: Change, instance: int, message: str) -> None:
        """End a run on a host, so that others get what it has. Unless it is to stay killed, the next run
        follows, and this one does not count as failed. A run that shall end anyway, or of which an answer is
        awaited, is left as it is."""
        task = change.task(instance)
        on_host = RULES.get((task.state, aim_of(change.goal, task))) is Action.WATCH
        if not on_host or instance in change.work.busy:
            return
        if change.task_spec(instance).kill_on_preempt:
            self.kill_for(change, instance, TerminationReason.PREEMPTED_RESOURCES, message)
            return
        change.revise(instance, desired_run=task.run + 1)
        self._kill(change, instance, task.goal, TerminationReason.PREEMPTED_RESOURCES, message)

    def kill_again(self, change: Change, instance: int, task: TaskRuntime) -> None:
        change.kills.append((instance, task.run))
        limits = self.limits
        tries = change.work.failed(instance)
        self.arm(change, instance, delay(tries, limits.kill_again_after, limits.kill_again_most))

    def _kill(
        self, change: Change, instance: int, goal: TaskState, reason: TerminationReason, message: str
    ) -> None:
        task = change.move(
            instance,
            Cause.KILL,
            goal=goal,
            termination=Termination(reason),
            message=message,
            reason="",
        )
        change.work.attempts.pop(instance, None)
        change.work.unconfirmed.discard(instance)
        self.kill_again(change, instance, task)

    def start_over(self, change: Change, instance: int, task: TaskRuntime) -> None:
        """Give up a run of which nothing is heard; should it live, it is killed."""
        change.kills.append((instance, task.run))
        silent = f"{task.state.name} without news for {self.age(task):.0f} s"
        lost = change.move(instance, Cause.SILENT, message=silent, completion_time=self.now.wall)
        self.next_run(change, instance, lost)

    def _watch(self, change: Change, instance: int, task: TaskRuntime) -> None:
        work, limits = change.work, self.limits
        if task.state is TaskState.RUNNING:
            work.attempts.pop(instance, None)
            seconds = self.time_left(change, instance)
            if instance in work.unconfirmed:
                seconds = min(limits.confirm_after, seconds or limits.confirm_after)
        elif task.state is TaskState.LAUNCHED:
            seconds = limits.ask_after if instance in work.unconfirmed else limits.news_after
        else:
            stuck = limits.stuck_after - self.age(task)
            seconds = min(limits.confirm_after, stuck) if instance in work.unconfirmed else stuck
        if seconds is None:
            self.disarm(change, instance)
        else:
            self.arm(change, instance, seconds)

    def time_left(self, change: Change, instance: int) -> float | None:
        """Seconds that a RUNNING task may still run by its spec's maxRunningTime; None: for ever."""
        longest = change.spec_of(instance).sla.max_running_time
        if not longest:
            return None
        return longest - (self.now.wall - change.task(instance).start_time) / NANOSECONDS

    def _withdraw(self, change: Change, instance: int, task: TaskRuntime) -> None:
        work = change.work
        if task.state is TaskState.INITIALIZED and not work.recovered:
            self.end_unlaunched(change, instance, "stopped before it was enqueued")
            return
        work.occupy(instance, Busy.WITHDRAW)
        change.withdrawals.append((instance, task.run))

    def _forget(self, change: Change, instance: int) -> None:
        change.work.attempts.pop(instance, None)
        change.work.unconfirmed.discard(instance)
        change.work.escaped.discard(instance)
        self.disarm(change, instance)
