"""The processes of pods: started by the launcher of the agent, watched by its supervisors."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import secret_files
from minicluster.mesos.agent.cleanup import end_container, identity_of
from minicluster.mesos.agent.health_checks import HealthChecks
from minicluster.mesos.agent.launcher import Launcher, LaunchError, make_sandbox
from minicluster.mesos.agent.layout import Layout, read_json
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.supervisor_pool import Ended, Event, Failed, Gone, Started, Supervisors
from minicluster.mesos.agent.task_commands import Companions
from minicluster.mesos.common.process_identity import is_alive, signal_group
from minicluster.mesos.common.status_updates import Key

FRAMEWORK = "kubernetes"
"""What stands for the framework in paths of sandboxes."""
LOST = {"status": 137 << 8, "oom": False, "lost": True}
"""How a process has ended of which nothing is left."""


@dataclass(slots=True)
class Process:
    """The process of a pod, identified by the pod's uid."""

    uid: str
    task: mesos.TaskInfo
    place: RunLocation
    pidfd: int = -1
    stopped: bool = False
    running: bool = False
    companions: set[Callable[[], None]] = field(default_factory=set)
    """What ends the commands beside it, with which they end."""


def _join_streams(sandbox: Path) -> None:
    """Let both streams of a process be one file: a container of Kubernetes has one log, in their order."""
    (sandbox / "stderr").unlink()
    (sandbox / "stderr").hardlink_to(sandbox / "stdout")


class Listener:
    """What is told of processes."""

    def on_running(self, uid: str) -> None:
        """Take that a process has begun."""
        raise NotImplementedError

    def on_health(self, uid: str, healthy: bool, kill: bool) -> None:
        """Take the result of a probe; `kill`: it has failed too often."""
        raise NotImplementedError

    def on_end(self, uid: str, outcome: dict[str, Any]) -> None:
        """Take how a process has ended, as its supervisor wrote it down."""
        raise NotImplementedError

    def on_failure(self, uid: str, reason: str) -> None:
        """Take why a process was not started."""
        raise NotImplementedError


class Processes:
    """The processes of one node."""

    def __init__(self, layout: Layout, launcher: Launcher, node: str, listener: Listener) -> None:
        self._layout = layout
        self._launcher = launcher
        self._node = node
        self._listener = listener
        self._live: dict[str, Process] = {}
        self._supervisors: Supervisors[Process] = Supervisors(
            layout.work_dir, self._on_event, launcher.isolation.encloses
        )
        self.companions = Companions(layout, launcher.isolation, launcher.in_docker)
        self._health = HealthChecks(self._on_health, self.companions)

    def start(self, uid: str, task: mesos.TaskInfo) -> None:
        """Start the process of a pod, or find it again, running or ended."""
        if self.known(uid):
            place = RunLocation(self._node, FRAMEWORK, uid, self._sandbox(task, uid))
            self._find(Process(uid, task, place))
            return
        sandbox = self._sandbox(task, uid)
        if not sandbox.is_dir():
            make_sandbox(self._layout, self._node, FRAMEWORK, task.task_id.value, uid)
            _join_streams(sandbox)
        task = secret_files.keep(self._layout, uid, task)
        process = Process(uid, task, RunLocation(self._node, FRAMEWORK, uid, sandbox))
        self._live[uid] = process
        Path(self._layout.claim(uid, 0)).touch(0o600)
        try:
            order = self._launcher.order(process, self._launcher.prepare(task, process.place), 0)
        except (LaunchError, OSError) as error:
            self._over(process)
            self._listener.on_failure(uid, str(error))
            return
        self._supervisors.start(order)

    def _sandbox(self, task: mesos.TaskInfo, uid: str) -> Path:
        return self._layout.executor(self._node, FRAMEWORK, task.task_id.value) / uid

    def running(self, uid: str) -> Process | None:
        """Return the process of a pod that runs."""
        process = self._live.get(uid)
        return process if process is not None and process.running else None

    def live(self, uid: str) -> bool:
        """Return whether a pod has a process, or is about to have one."""
        return uid in self._live

    def log_of(self, uid: str, name: str) -> Path:
        """Return the file with the log of a pod, which may not be there (yet)."""
        return self._layout.executor(self._node, FRAMEWORK, name) / uid / "stdout"

    def _find(self, process: Process) -> None:
        """Wait for the end of a process that an earlier kubelet started."""
        self._live[process.uid] = process
        supervisor = identity_of(read_json(self._layout.pid_file(process.uid)), "supervisor")
        if supervisor is not None and is_alive(supervisor):
            try:
                process.pidfd = os.pidfd_open(supervisor.pid)
            except ProcessLookupError:
                process.pidfd = -1
        if process.pidfd < 0:
            self._ended(process, None)
            return
        asyncio.get_running_loop().add_reader(process.pidfd, self._ended, process, None)
        self._on_running(process)

    def _on_event(self, process: Process, event: Event) -> None:
        if isinstance(event, Started):
            self._on_running(process)
        elif isinstance(event, Ended):
            self._ended(process, json.loads(event.outcome))
        elif isinstance(event, Failed):
            self._over(process)
            self._listener.on_failure(process.uid, event.reason)
        elif isinstance(event, Gone) and self._live.get(process.uid) is process:
            self._supervisor_died(process)

    def _supervisor_died(self, process: Process) -> None:
        """Find a process whose supervisor is gone; one that has not begun never will."""
        claim = Path(self._layout.claim(process.uid, 0))
        if claim.exists():
            claim.unlink()
            self._over(process)
            self._listener.on_failure(process.uid, "its supervisor was gone before it began")
        else:
            self._find(process)

    def _on_running(self, process: Process) -> None:
        process.running = True
        self._health.start((FRAMEWORK, process.uid), process.task, process.place)
        self._listener.on_running(process.uid)
        if process.stopped:
            self._signal(process.uid, signal.SIGTERM)

    def _on_health(self, key: Key, healthy: bool, kill: bool) -> None:
        self._listener.on_health(key[1], healthy, kill)

    def _ended(self, process: Process, outcome: dict[str, Any] | None) -> None:
        self._over(process)
        outcome = outcome or read_json(self._layout.exit_file(process.uid)) or LOST
        self._listener.on_end(process.uid, outcome)

    def _over(self, process: Process) -> None:
        process.running = False
        secret_files.drop(self._layout, process.uid)
        for end in list(process.companions):
            end()
        self._health.stop((FRAMEWORK, process.uid))
        if process.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(process.pidfd)
            os.close(process.pidfd)
            process.pidfd = -1
        self._live.pop(process.uid, None)

    def stop(self, uid: str, grace: float) -> None:
        """Ask a process to end, and kill it after `grace` seconds."""
        process = self._live.get(uid)
        if process is None:
            return
        process.stopped = True
        self._signal(uid, signal.SIGTERM if grace > 0 else signal.SIGKILL)
        if grace > 0:
            asyncio.get_running_loop().call_later(grace, self._signal, uid, signal.SIGKILL)

    def _signal(self, uid: str, number: signal.Signals) -> None:
        task = identity_of(read_json(self._layout.pid_file(uid)), "task")
        if uid in self._live and task is not None:
            signal_group(task, number)

    async def forget(self, uid: str) -> None:
        """End what is left of a pod that is gone, and remove its records; its sandbox stays."""
        process = self._live.get(uid)
        if process is not None:
            self._over(process)
        await asyncio.to_thread(self._end, uid)

    def _end(self, uid: str) -> None:
        end_container(self._layout, uid)
        Path(self._layout.exit_file(uid)).unlink(missing_ok=True)

    def known(self, uid: str) -> bool:
        """Return whether the process of a pod has begun, as the records say."""
        return any(os.path.exists(path) for path in (self._layout.pid_file(uid), self._layout.exit_file(uid)))  # noqa: PTH110

    def recorded(self) -> set[str]:
        """Return the uids of pods whose processes have begun, as the records say."""
        return {path.stem for path in self._layout.pids.glob("*.json")}

    def close(self) -> None:
        """Leave the processes to themselves: another kubelet finds them."""
        self._supervisors.stop()
