"""Where an agent keeps what, below its work directory.

``meta/agent.json``
    The agent's id, resources and attributes; there as long as the agent may come back under that id.
``meta/pids/<container>.json``
    There before the task starts, removed by its supervisor after it ended: ``{"container": …,
    "supervisor": {"pid", "start"}, "task": {"pid", "start"}, "after": [argv…]}``. ``task.pid`` leads the
    task's process group and session. ``start`` is field 22 of /proc/PID/stat.
``meta/runs/<container>/``
    The checkpoint of a run: ``log`` (framework, task, then status updates and acknowledgements) and
    ``exit.json`` (written by the supervisor). Removed when the task's end has been acknowledged.
``meta/runs/<container>/claim-<attempt>``
    What the supervisor is told. A task begins by writing its process record over it and renaming it to its
    place in ``meta/pids``; where this file was taken away, it cannot begin. So a run for which it is there
    has never begun.
``meta/cgroup``
    The path of the cgroup that was made for the tasks, where one could be made.
``slaves/<agent>/frameworks/<framework>/executors/<task>/runs/<container>/``
    The sandbox, with a link ``latest`` beside it. Never removed by the agent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CLAIM = "claim-"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one absolute work directory.

    ``meta`` is all that is not a sandbox, ``pids`` the records of running tasks' processes, ``runs`` the
    checkpoints, ``slaves`` the root of all sandboxes. A path costs more than many a call that takes it.
    """

    work_dir: Path
    meta: Path = field(init=False)
    pids: Path = field(init=False)
    runs: Path = field(init=False)
    slaves: Path = field(init=False)

    def __post_init__(self) -> None:
        meta = self.work_dir / "meta"
        for name, path in (
            ("meta", meta),
            ("pids", meta / "pids"),
            ("runs", meta / "runs"),
            ("slaves", self.work_dir / "slaves"),
        ):
            object.__setattr__(self, name, path)

    @property
    def agent_file(self) -> Path:
        """The agent's identity."""
        return self.meta / "agent.json"

    @property
    def cgroup_file(self) -> Path:
        """The path of the cgroup that was made for the agent's tasks, if one was."""
        return self.meta / "cgroup"

    def pid_file(self, container_id: str) -> Path:
        """The process record of one run."""
        return self.pids / f"{container_id}.json"

    def run_meta(self, container_id: str) -> Path:
        """The checkpoint of one run."""
        return self.runs / container_id

    def log(self, container_id: str) -> Path:
        """What a run was to be, and what has been said of it."""
        return self.runs.joinpath(container_id, "log")

    def exit_file(self, container_id: str) -> Path:
        """How a run's task ended."""
        return self.runs.joinpath(container_id, "exit.json")

    def claim(self, container_id: str, attempt: int) -> Path:
        """What one attempt to start a run takes in order to begin."""
        return self.runs.joinpath(container_id, f"{_CLAIM}{attempt}")

    def claims(self, container_id: str) -> list[int]:
        """The attempts that may still begin, in order."""
        paths = self.run_meta(container_id).glob(f"{_CLAIM}*")
        return sorted(int(path.name.removeprefix(_CLAIM)) for path in paths)

    def executor(self, agent_id: str, framework_id: str, executor_id: str) -> Path:
        """The directory of all runs of one executor."""
        return self.slaves.joinpath(agent_id, "frameworks", framework_id, "executors", executor_id, "runs")

    def make(self) -> None:
        """Create the directories."""
        for path in (self.pids, self.runs, self.slaves):
            path.mkdir(parents=True, exist_ok=True)


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
