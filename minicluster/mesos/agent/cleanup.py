"""EndCause what an agent left running: its tasks outlive it, as they do under Mesos.

Needs nothing but the agent's work directory. A process is ended only when its pid *and* start time are those
of the record (see ``agent.layout``), or when its environment names the container.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from minicluster.mesos.agent.layout import Layout, read_json
from minicluster.mesos.agent.memory_limits import remove_cgroup
from minicluster.mesos.agent.secret_files import drop
from minicluster.mesos.common.process_identity import Identity, is_alive, signal_group, with_variable

CONTAINER_VARIABLE = "MESOS_CONTAINER_ID"
"""Set in every task's environment; what a task started and detached still carries it."""
_PATIENCE_SECONDS = 5.0


def identity_of(record: Any, role: str) -> Identity | None:
    """Read ``supervisor`` or ``task`` out of a process record."""
    try:
        return Identity(int(record[role]["pid"]), str(record[role]["start"]))
    except (KeyError, TypeError, ValueError):
        return None


def _end(identities: list[Identity]) -> None:
    """Kill processes and wait until they are gone."""
    for identity in identities:
        if is_alive(identity):
            try:
                os.kill(identity.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while any(map(is_alive, identities)) and time.monotonic() < deadline:
        time.sleep(0.005)


def end_container(layout: Layout, container_id: str) -> bool:
    """Kill all processes of one container; return whether there were any. No more of it can begin."""
    for attempt in layout.claims(container_id):
        Path(layout.claim(container_id, attempt)).unlink(missing_ok=True)
    record = read_json(layout.pid_file(container_id))
    task, supervisor = identity_of(record, "task"), identity_of(record, "supervisor")
    found = any(identity is not None and is_alive(identity) for identity in (task, supervisor))
    for leader in (supervisor, task):  # the supervisor first: it would report the task's end
        if leader is not None:
            signal_group(leader, signal.SIGKILL)
    strays = with_variable(CONTAINER_VARIABLE, container_id)
    known = [identity for identity in (task, supervisor) if identity is not None]
    found = found or any(map(is_alive, strays))
    _end([*strays, *known])
    after = record.get("after") if isinstance(record, dict) else None
    if after:
        subprocess.run(after, check=False, capture_output=True, timeout=30)
    Path(layout.pid_file(container_id)).unlink(missing_ok=True)
    drop(layout, container_id)
    return found


def kill_tasks(work_dir: Path) -> int:
    """End all tasks that still run below an agent's work directory; return how many did.

    The agent itself must not run any more, or it will report the tasks as failed.
    """
    layout = Layout(work_dir.absolute())
    containers = {path.stem for path in layout.pids.glob("*.json")} if layout.pids.is_dir() else set()
    if layout.runs.is_dir():
        containers |= {path.stem for path in layout.runs.glob("*.log")}
    ended = sum(end_container(layout, container_id) for container_id in sorted(containers))
    remove_cgroup(layout)
    return ended
