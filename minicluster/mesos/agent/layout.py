"""Where an agent keeps what, below its work directory.

``meta/agent.json``
    The agent's id, resources and attributes; there as long as the agent may come back under that id.
``meta/pids/<container>.json``
    There before the task starts, removed by its supervisor after it ended: ``{"container": …,
    "supervisor": {"pid", "start"}, "task": {"pid", "start"}, "after": [argv…]}``. ``task.pid`` leads the
    task's process group and session. ``start`` is field 22 of /proc/PID/stat.
``meta/runs/<container>/``
    The checkpoint of a run: ``log`` (framework, task, then status updates and acknowledgements), ``spec``
    (what the supervisor was told), ``exit.json`` (written by the supervisor). Removed when the task's end has
    been acknowledged.
``meta/runs/<container>/claim-<attempt>``
    A task begins by writing its process record here and renaming it to its place in ``meta/pids``; where
    this file was taken away, it cannot begin. So a run for which it is there has never begun.
``meta/cgroup``
    The path of the cgroup that was made for the tasks, where one could be made.
``slaves/<agent>/frameworks/<framework>/executors/<task>/runs/<container>/``
    The sandbox, with a link ``latest`` beside it. Never removed by the agent.
"""

from __future__ import annotations

import json
import marshal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CLAIM = "claim-"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one absolute work directory."""

    work_dir: Path

    @property
    def meta(self) -> Path:
        """All that is not a sandbox."""
        return self.work_dir / "meta"

    @property
    def agent_file(self) -> Path:
        """The agent's identity."""
        return self.meta / "agent.json"

    @property
    def pids(self) -> Path:
        """The records of running tasks' processes."""
        return self.meta / "pids"

    @property
    def runs(self) -> Path:
        """The checkpoints of runs."""
        return self.meta / "runs"

    @property
    def cgroup_file(self) -> Path:
        """The path of the cgroup that was made for the agent's tasks, if one was."""
        return self.meta / "cgroup"

    @property
    def slaves(self) -> Path:
        """The root of all sandboxes."""
        return self.work_dir / "slaves"

    def pid_file(self, container_id: str) -> Path:
        """The process record of one run."""
        return self.pids / f"{container_id}.json"

    def run_meta(self, container_id: str) -> Path:
        """The checkpoint of one run."""
        return self.runs / container_id

    def log(self, container_id: str) -> Path:
        """What a run was to be, and what has been said of it."""
        return self.run_meta(container_id) / "log"

    def claim(self, container_id: str, attempt: int) -> Path:
        """What one attempt to start a run takes in order to begin."""
        return self.run_meta(container_id) / f"{_CLAIM}{attempt}"

    def claims(self, container_id: str) -> list[int]:
        """The attempts that may still begin, in order."""
        paths = self.run_meta(container_id).glob(f"{_CLAIM}*")
        return sorted(int(path.name.removeprefix(_CLAIM)) for path in paths)

    def executor(self, agent_id: str, framework_id: str, executor_id: str) -> Path:
        """The directory of all runs of one executor."""
        return self.slaves / agent_id / "frameworks" / framework_id / "executors" / executor_id / "runs"

    def make(self) -> None:
        """Create the directories."""
        for path in (self.pids, self.runs, self.slaves):
            path.mkdir(parents=True, exist_ok=True)


def read_spec(run_meta: Path) -> dict[str, Any]:
    """Read what a run's supervisor was told; empty when it was not told yet."""
    try:
        value = marshal.loads((run_meta / "spec").read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file as a whole."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def read_json(path: Path) -> Any | None:
    """Read a JSON file; None when it is missing or was cut short."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
