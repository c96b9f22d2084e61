"""The runs of one agent: from a task to be launched to its acknowledged end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import secret_files, statuses
from minicluster.mesos.agent.checkpoint import Checkpoint, SavedRun
from minicluster.mesos.agent.cleanup import end_container, identity_of
from minicluster.mesos.agent.container_usage import Container, containers
from minicluster.mesos.agent.devices import DeviceError, Devices, wanted
from minicluster.mesos.agent.health_checks import HealthChecks
from minicluster.mesos.agent.launch_timer import LaunchTimer
from minicluster.mesos.agent.launcher import (
    Launcher,
    LaunchError,
    NoContainerizer,
    make_sandbox,
)
from minicluster.mesos.agent.layout import Layout, read_json
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.run import Run
from minicluster.mesos.agent.saved_work import SavedWork, saved_at
from minicluster.mesos.agent.statuses import EndCause, StatusDetails
from minicluster.mesos.agent.supervisor_pool import (
    Ended,
    Event,
    Failed,
    Started,
    Supervised,
    Supervisors,
)
from minicluster.mesos.agent.task_commands import Companions
from minicluster.mesos.common.agent_link import AgentTask, Update
from minicluster.mesos.common.launch_costs import LaunchCosts
from minicluster.mesos.common.process_identity import is_alive, signal_group
from minicluster.mesos.common.secrets import secret_volumes
from minicluster.mesos.common.status_updates import Key, UpdateStreams
from peloton.model.system_labels import SAVED_LABEL, TASK_LABEL, USED_LABEL

MAX_COMPLETED = 1000
MAX_ATTEMPTS = 5
"""How often a run is tried to be started whose supervisor dies before the task begins."""
_ENDED = frozenset({mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED})
_KILLING = mesos.FrameworkInfo.Capability.TASK_KILLING_STATE


class Runs:
    """All runs of one agent."""

    def __init__(
        self,
        layout: Layout,
        launcher: Launcher,
        ip: str,
        send: Callable[[Update], None],
        first_retry: float,
        costs: LaunchCosts,
        devices: Sequence[str] = (),
    ) -> None:
        """``devices``: the GPUs of the agent."""
        self._layout = layout
        self._launcher = launcher
        self._ip = ip
        self._send = send
        self._checkpoint = Checkpoint(layout)
        self._updates = UpdateStreams(first_retry)
        self._retry: asyncio.TimerHandle | None = None
        self._preparing: set[asyncio.Task[None]] = set()
        self._launching = LaunchTimer(costs, self._begin, self._fail_late)
        self._supervisors: Supervisors[Run] = Supervisors(
            layout.work_dir, self._on_event, launcher.isolation.encloses
        )
        self.companions = Companions(layout, launcher.isolation, launcher.in_docker)
        self._health = HealthChecks(self._on_health, self.companions)
        self._saved = SavedWork(self._on_saved)
        self._devices = Devices(devices)
        self.on_end: Callable[[str], None] = lambda container_id: None
        self.agent_id = ""
        self.live: dict[Key, Run] = {}
        self.completed: deque[Run] = deque(maxlen=MAX_COMPLETED)

    # --- statuses ---

    def _report(self, run: Run, details: StatusDetails) -> None:
        if run.unreported:
            return
        now = time.time()
        status = statuses.status(run.task, self.agent_id, now, uuid.uuid4().bytes, details, run.container)
        if run.running and (when := saved_at(run.task, run.place)) is not None:
            status.labels.labels.add(key=SAVED_LABEL, value=f"{min(when, now):.3f}")
        if details.used and any(label.key == TASK_LABEL for label in run.task.labels.labels):
            status.labels.labels.add(key=USED_LABEL, value=details.used)
        run.take(status)
        self._checkpoint.update(run.place.container_id, status)
        send = self._updates.add(run.key, status, time.monotonic())
        if send is not None:
            self._transmit(run.key, send)

    def _transmit(self, key: Key, status: mesos.TaskStatus) -> None:
        self._send(Update(key[0], status, self._updates.latest(key, status.state)))
        self._arm_retry()

    def _arm_retry(self) -> None:
        due = self._updates.next_due()
        if due is not None and self._retry is None:
            delay = max(due - time.monotonic(), 0.01)
            self._retry = asyncio.get_running_loop().call_later(delay, self._on_retry)

    def _on_retry(self) -> None:
        self._retry = None
        for key, status in self._updates.due(time.monotonic()):
            self._transmit(key, status)
        self._arm_retry()

    def acknowledge(self, key: Key, uid: bytes) -> None:
        """Take an acknowledgement; after that of the end, the run is forgotten."""
        expected, following = self._updates.acknowledge(key, uid, time.monotonic())
        run = self.live.get(key)
        if not expected or run is None:
            return
        if run.ended and not self._updates.has(key):
            self._forget(run)
            return
        self._checkpoint.acknowledged(run.place.container_id, uid)
        if following is not None:
            self._transmit(key, following)

    def resend(self, framework_id: str) -> None:
        """Send what a framework has not acknowledged again, now."""
        for key, status in self._updates.resend(framework_id):
            self._transmit(key, status)

    def _forget(self, run: Run) -> None:
        self._checkpoint.end(run.place.container_id, run.running)
        if self.live.pop(run.key, None) is not None:
            self.completed.append(run)

    def report(self) -> tuple[AgentTask, ...]:
        """Return all tasks for a re-registration."""
        return tuple(
            AgentTask(run.place.framework_id, run.task, tuple(run.statuses), self._updates.first(run.key))
            for run in self.live.values()
            if not run.unreported
        )

    def frameworks(self) -> tuple[mesos.FrameworkInfo, ...]:
        """Return the frameworks that have tasks here."""
        infos = {run.place.framework_id: run.framework for run in self.live.values() if not run.unreported}
        return tuple(infos.values())

    def running_in(self, container_id: str) -> Run | None:
        """Return the run in a container whose task is running."""
        runs = (run for run in self.live.values() if run.place.container_id == container_id)
        return next((run for run in runs if run.running and not run.ended), None)

    def containers(self) -> list[Container]:
        """Return the containers whose tasks run, and what they use."""
        running = [run for run in self.live.values() if run.running and not run.ended]
        records = ((run, read_json(self._layout.pid_file(run.place.container_id))) for run in running)
        tasks = ((run, identity_of(record, "task")) for run, record in records)
        with_pids = [(run, task.pid) for run, task in tasks if task is not None]
        return containers(with_pids, self._launcher.cgroups, self._launcher.in_docker, time.time())

    # --- launching ---

    def launch(self, framework: mesos.FrameworkInfo, task: mesos.TaskInfo) -> None:
        """Start a task, once its launch may begin."""
        container_id = str(uuid.uuid4())
        ids = (self.agent_id, framework.id.value)
        sandbox = make_sandbox(self._layout, *ids, task.task_id.value, container_id)
        run = Run(RunLocation(*ids, container_id, sandbox), framework, task)
        if task.kill_policy.HasField("grace_period"):
            run.grace = max(task.kill_policy.grace_period.nanoseconds / 1e9, 0.0)
        self.live[run.key] = run
        run.task = task = secret_files.keep(self._layout, container_id, task)
        self._checkpoint.begin(container_id, framework, task)
        self._launching.add(run.key)

    def _fail_late(self, key: Key) -> None:
        if (run := self.live.get(key)) is not None and not run.ended:
            self._end(run, statuses.registered_too_late(self._launching.costs.registration_timeout))

    def _begin(self, key: Key) -> None:
        run = self.live[key]
        if not self._has_devices(run):
            return
        if run.task.HasField("executor"):
            self._end(run, statuses.launch_failed("custom executors are not run by this agent"))
        elif run.task.command.uris or self._launcher.in_docker(run.task):
            job = asyncio.get_running_loop().create_task(self._fetch_and_start(run))
            self._preparing.add(job)
            job.add_done_callback(self._preparing.discard)
        else:
            self._start(run, lambda: self._launcher.prepare(run.task, run.place))

    def _has_devices(self, run: Run) -> bool:
        """Give a run its GPUs; return whether it has them: else it has failed, or begins when it has them.

        The master may take the GPUs of a framework that has left for free while its tasks still end.
        """
        try:
            count = 0 if run.place.devices else wanted(run.task)
        except DeviceError as error:
            self._end(run, statuses.launch_failed(str(error)))
            return False
        if not count:
            return True
        names = self._devices.take(run.key, count)
        if names is None:
            return False
        run.place = replace(run.place, devices=names)
        self._checkpoint.devices(run.place.container_id, names)
        return True

    async def _fetch_and_start(self, run: Run) -> None:
        try:
            spec = await asyncio.to_thread(self._launcher.prepare, run.task, run.place)
        except LaunchError as error:
            if not run.ended:
                self._end(run, _failure(error))
            return
        self._start(run, lambda: spec)

    def _start(self, run: Run, prepare: Callable[[], dict[str, Any]]) -> None:
        self._launching.drop(run.key)
        if run.ended:
            return
        if run.ending is not None:
            self._end(run, statuses.KILLED_DURING_LAUNCH)
            return
        try:
            order = self._launcher.order(run, prepare(), run.attempt)
        except (LaunchError, OSError) as error:
            self._end(run, _failure(error))
            return
        self._supervisors.start(order)

    def _on_event(self, run: Run, event: Event) -> None:
        """Take what becomes of an order; in doubt, what is on disk decides."""
        if isinstance(event, Supervised):
            self._on_supervised(run, event.pid)
        elif isinstance(event, Started):
            self._on_running(run)
        elif isinstance(event, Ended):
            self._on_exit(run, json.loads(event.outcome))
        else:
            self._reattach(run, event.reason if isinstance(event, Failed) else None)

    def _on_supervised(self, run: Run, pid: int) -> None:
        run.pid = pid
        run.container = statuses.container_status(run.place.container_id, self._ip, pid)
        if run.latest is None:
            self._report(run, StatusDetails(mesos.TASK_STARTING, ""))

    def _reattach(self, run: Run, failure: str | None = None) -> None:
        """Determine the state of a run whose supervisor is silent, and continue from there.

        ``failure``: why its task could not begin, if that is known. Without, it may begin yet.
        """
        attempt = self._checkpoint.take_back(run.place.container_id)
        if attempt is None:
            self._watch(run)
        elif failure is not None or attempt >= MAX_ATTEMPTS:
            reason = failure or f"in {attempt} attempts, its supervisor was gone before the task began"
            self._end(run, statuses.launch_failed(reason))
        else:
            run.attempt = attempt
            self._begin(run.key)

    def _watch(self, run: Run) -> None:
        """Wait for the end of a run that an earlier agent process started."""
        record = read_json(self._layout.pid_file(run.place.container_id))
        supervisor = identity_of(record, "supervisor")
        try:
            run.pidfd = os.pidfd_open(supervisor.pid) if supervisor is not None else -1
        except ProcessLookupError:
            run.pidfd = -1
        if supervisor is None or run.pidfd < 0 or not is_alive(supervisor):
            self._on_exit(run)
            return
        self._on_supervised(run, supervisor.pid)
        asyncio.get_running_loop().add_reader(run.pidfd, self._on_exit, run)
        self._on_running(run)

    def _on_running(self, run: Run) -> None:
        if run.running:
            return
        run.running = True
        self._report(run, StatusDetails(mesos.TASK_RUNNING, ""))
        if run.ending is not None:
            self._stop(run)
        else:
            self._observe(run)

    def _observe(self, run: Run) -> None:
        """Hold a running task to its time, and check its health."""
        self._health.start(run.key, run.task, run.place)
        self._saved.start(run.key, run.task, run.place)
        if run.task.HasField("max_completion_time"):
            began = [item.timestamp for item in run.statuses if item.state == mesos.TASK_RUNNING]
            longest = run.task.max_completion_time.nanoseconds / 1e9
            end = (began[0] if began else time.time()) + longest
            delay = min(max(end - time.time(), 0.0), longest)
            asyncio.get_running_loop().call_later(delay, self._terminate, run, EndCause(too_long=True))

    # --- ending ---

    def kill(self, key: Key, grace: float, draining: bool) -> None:
        """Kill a task; ``grace`` seconds below 0 means its own policy's. A second kill changes nothing."""
        run = self.live.get(key)
        if run is None or run.ended or run.ending is not None:
            return
        if grace >= 0:
            run.grace = min(grace, run.grace) if draining else grace
        self._announce_kill(run, EndCause(killed=not draining, draining=draining))

    def _announce_kill(self, run: Run, ending: EndCause) -> None:
        wants = any(item.type == _KILLING for item in run.framework.capabilities)
        if wants and run.pid and not ending.too_long:
            reason = mesos.TaskStatus.REASON_AGENT_DRAINING if ending.draining else None
            self._report(run, StatusDetails(mesos.TASK_KILLING, "", reason))
        self._terminate(run, ending)

    def _terminate(self, run: Run, ending: EndCause) -> None:
        if run.ended or run.ending is not None:
            return
        run.ending = ending
        if (
            self._launching.holds_back(run.key)
            or self._devices.withdraw(run.key)
            or self._supervisors.withdraw(run)
        ):
            self._end(run, statuses.KILLED_DURING_LAUNCH)
            return
        self._health.stop(run.key)
        self._saved.stop(run.key)
        self._stop(run)

    def _stop(self, run: Run) -> None:
        """Let the task end within its grace; one that has not begun is stopped when it has."""
        self._signal(run, run.stop_signal)
        asyncio.get_running_loop().call_later(run.grace, self._signal, run, signal.SIGKILL)

    def _signal(self, run: Run, number: signal.Signals) -> None:
        if not run.ended:
            record = read_json(self._layout.pid_file(run.place.container_id))
            task = identity_of(record, "task")
            if task is not None:
                signal_group(task, number)

    def shutdown(self, key: Key) -> None:
        """Kill a task without grace."""
        run = self.live.get(key)
        if run is not None and not run.ended:
            run.grace = 0.0
            self._terminate(run, replace(run.ending or EndCause(), killed=True))
            self._signal(run, signal.SIGKILL)

    def shutdown_framework(self, framework_id: str) -> None:
        """Kill all tasks of a framework, without updates."""
        self._updates.drop_framework(framework_id)
        for run in [run for run in self.live.values() if run.place.framework_id == framework_id]:
            run.unreported = True
            if run.ended:
                self._forget(run)
            else:
                self._terminate(run, EndCause(killed=True))

    def _on_exit(self, run: Run, ended: dict[str, Any] | None = None) -> None:
        loop = asyncio.get_running_loop()
        if run.pidfd >= 0:
            loop.remove_reader(run.pidfd)
            os.close(run.pidfd)
            run.pidfd = -1
        ended = ended or read_json(self._layout.exit_file(run.place.container_id))
        if ended is None:
            loop.run_in_executor(None, end_container, self._layout, run.place.container_id)
            self._end(run, statuses.executor_terminated())
            return
        self._on_running(run)
        reason = self._launcher.why_not_run(run.task, run.place, int(ended["status"]))
        if reason and run.ending is None:
            self._end(run, statuses.launch_failed(reason))
            return
        self._end(run, statuses.end_status(ended, run.ending or EndCause(), statuses.memory_mb(run.task)))

    def _end(self, run: Run, details: StatusDetails) -> None:
        run.ended = True
        self.on_end(run.place.container_id)
        self._launching.drop(run.key)
        self._health.stop(run.key)
        self._saved.stop(run.key)
        if secret_volumes(run.task) or self._launcher.in_docker(run.task):
            secret_files.drop(self._layout, run.place.container_id)
        self._report(run, details)
        if run.unreported:
            self._forget(run)
        self._devices.give_back(run.key)
        for key in self._devices.due():
            self._begin(key)

    # --- health ---

    def _on_health(self, key: Key, healthy: bool, kill: bool) -> None:
        run = self.live.get(key)
        if run is None or run.ended or run.ending is not None:
            return
        reason = mesos.TaskStatus.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED
        self._report(run, StatusDetails(mesos.TASK_RUNNING, "", reason, healthy=healthy))
        if kill:
            self._announce_kill(run, EndCause(unhealthy=True))

    def _on_saved(self, key: Key) -> None:
        """Report a run again, which has saved its work; what is known of its health stays."""
        run = self.live.get(key)
        if run is None or run.ended or run.ending is not None or not run.running:
            return
        healthy = run.latest.healthy if run.latest is not None and run.latest.HasField("healthy") else None
        self._report(run, StatusDetails(mesos.TASK_RUNNING, "", healthy=healthy))

    # --- after a restart, and at the end ---

    def recover(self) -> None:
        """Find the tasks of an earlier agent process again."""
        found = self._checkpoint.load()
        secret_files.drop_others(self._layout, {saved.container_id for saved in found})
        runs = [self._restore(saved) for saved in found]
        self.live.update((run.key, run) for run in runs)
        for run in runs:
            if not run.ended:
                self._resume(run)

    def _restore(self, saved: SavedRun) -> Run:
        ids = (self.agent_id, saved.framework.id.value)
        task_id = saved.task.task_id.value
        sandbox = self._layout.executor(*ids, task_id) / saved.container_id
        place = RunLocation(*ids, saved.container_id, sandbox, saved.devices)
        run = Run(place, saved.framework, saved.task)
        for status in saved.statuses:
            run.take(status)
            if status.HasField("container_status"):
                run.container = status.container_status
                run.pid = run.container.executor_pid
        if run.latest is not None:
            state = run.latest.state
            self._updates.restore(run.key, saved.pending, state)
            run.ended = state in _ENDED
            run.running = state in (mesos.TASK_RUNNING, mesos.TASK_KILLING)
            run.ending = EndCause(killed=True) if state == mesos.TASK_KILLING else None
        if not run.ended:
            self._devices.keep(run.key, saved.devices)
        return run

    def _resume(self, run: Run) -> None:
        if run.running and run.ending is None:
            self._observe(run)
        self._reattach(run)
        if run.ending is not None:
            self._stop(run)

    async def stop(self) -> None:
        """End all tasks and forget them; no update is sent any more."""
        for run in list(self.live.values()):
            run.unreported = True
            run.grace = min(run.grace, 1.0)
            if run.ended:
                self._forget(run)
            else:
                self._terminate(run, EndCause(killed=True))
        deadline = time.monotonic() + 5.0
        while self.live and time.monotonic() < deadline:  # noqa: ASYNC110 - they end one by one
            await asyncio.sleep(0.01)
        for run in list(self.live.values()):
            await asyncio.to_thread(end_container, self._layout, run.place.container_id)
        self._supervisors.stop()


def _failure(error: LaunchError | OSError) -> StatusDetails:
    text = str(error)
    return (
        statuses.executor_terminated(text)
        if isinstance(error, NoContainerizer)
        else statuses.launch_failed(text)
    )
