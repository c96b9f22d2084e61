"""End what an agent left running: its tasks outlive it, as they do under Mesos.

Needs nothing but the agent's work directory. A process is ended only when its pid *and* start time are those
of the record (see ``agent.layout``), or when its environment names the container.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from minicluster.mesos.agent.layout import Layout, read_json
from minicluster.mesos.agent.secret_files import drop
from minicluster.mesos.agent.task_limits import processes_in, remove_cgroups
from minicluster.mesos.common.process_identity import (
    Identity,
    children_of,
    environments,
    is_alive,
    signal_group,
    start_of,
    with_variable,
)

CONTAINER_VARIABLE = "MESOS_CONTAINER_ID"
"""Set in every task's environment; what a task started and detached still carries it."""
SANDBOX_VARIABLE = "MESOS_SANDBOX"
"""Set likewise: where the sandbox of the container is."""
_CONTAINER_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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


def _begun_by(supervisor: Identity) -> list[Identity]:
    """Keep a supervisor from starting anything, and return what it has started.

    What it is just starting is in no record yet, and has not got its environment.
    """
    signal_group(supervisor, signal.SIGSTOP)
    return _identified(children_of(supervisor.pid)) if is_alive(supervisor) else []


def _identified(pids: Iterable[int]) -> list[Identity]:
    return [Identity(pid, start) for pid in pids if (start := start_of(pid))]


def _end_groups(layout: Layout, container_id: str) -> None:
    """Kill what is in the cgroups of a container, until there is nothing."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        left = [
            Identity(pid, start) for pid in processes_in(layout, container_id) if (start := start_of(pid))
        ]
        if not left:
            return
        _end(left)


def end_container(layout: Layout, container_id: str) -> bool:
    """Kill all processes of one container; return whether there were any. No more of it can begin."""
    for attempt in layout.claims(container_id):
        Path(layout.claim(container_id, attempt)).unlink(missing_ok=True)
    record = read_json(layout.pid_file(container_id))
    task, supervisor = identity_of(record, "task"), identity_of(record, "supervisor")
    found = any(identity is not None and is_alive(identity) for identity in (task, supervisor))
    known = [identity for identity in (task, supervisor) if identity is not None]
    if supervisor is not None:  # first: it would report the task's end
        known += _begun_by(supervisor)
    for leader in (supervisor, task):
        if leader is not None:
            signal_group(leader, signal.SIGKILL)
    strays = with_variable(CONTAINER_VARIABLE, container_id)
    found = found or any(map(is_alive, strays))
    _end([*strays, *known])
    _end_groups(layout, container_id)
    after = record.get("after") if isinstance(record, dict) else None
    if after:
        subprocess.run(after, check=False, capture_output=True, timeout=30)
    Path(layout.pid_file(container_id)).unlink(missing_ok=True)
    drop(layout, container_id)
    return found


def end_unknown(layout: Layout, known: Collection[str]) -> int:
    """End all tasks below an agent's work directory whose containers are not `known`; return how many did.

    An agent that lost its checkpoints would never report them, and nobody else ends them.
    """
    recorded = {path.stem for path in layout.pids.glob("*.json")}
    unknown = (recorded | _containers_in(layout)) - set(known)
    return sum(end_container(layout, container_id) for container_id in sorted(unknown))


def _containers_in(layout: Layout) -> set[str]:
    """Return the containers of running processes whose sandboxes are below the work directory.

    Tasks can write what they like into their environment: what is no id of a container is none.
    """
    sandbox, container = f"{SANDBOX_VARIABLE}={layout.slaves}/".encode(), f"{CONTAINER_VARIABLE}=".encode()
    found = {
        variable.removeprefix(container).decode(errors="replace")
        for _, variables in environments()
        if any(each.startswith(sandbox) for each in variables)
        for variable in variables
        if variable.startswith(container)
    }
    return {each for each in found if _CONTAINER_ID.fullmatch(each)}


def kill_tasks(work_dir: Path) -> int:
    """End all tasks that still run below an agent's work directory; return how many did.

    The agent itself must not run any more, or it will report the tasks as failed.
    """
    layout = Layout(work_dir.absolute())
    containers = {path.stem for path in layout.pids.glob("*.json")} if layout.pids.is_dir() else set()
    if layout.runs.is_dir():
        containers |= {path.stem for path in layout.runs.glob("*.log")}
    ended = sum(end_container(layout, container_id) for container_id in sorted(containers))
    remove_cgroups(layout)
    return ended
