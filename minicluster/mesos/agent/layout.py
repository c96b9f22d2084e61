"""The files below an agent's work directory.

``meta/agent.json``
    The agent's id, resources and attributes; there as long as the agent may come back under that id.
``meta/resources.json``, ``volumes/roles/<role>/<persistence id>/``
    Dynamic reservations and persistent volumes, see ``volumes``. They stay when the agent gets another id.
``meta/runs/<container>.log``
    The checkpoint of a run: framework, task, then status updates and acknowledgements. Gone when the task's
    end has been acknowledged.
``meta/claims/<container>.<attempt>``
    The order of the supervisor. A task begins by writing its process record over it and renaming it to its
    place in ``meta/pids``; where this file was taken away, it cannot begin. So a run for which it is there
    has never begun.
``meta/pids/<container>.json``
    There while the task runs: ``{"container": …, "supervisor": {"pid", "start"}, "task": {"pid", "start"},
    "after": [argv…]}``. ``task.pid`` leads the task's process group and session. ``start`` is field 22 of
    /proc/PID/stat.
``meta/exits/<container>.json``
    How the task ended, which the supervisor has written over the record. Gone with the checkpoint.
``meta/secrets/<container>/<number>``
    The secret files of a run that has not ended, see ``secret_files``.
``meta/spare/<number>``
    Files to be used again, see ``spares``.
``meta/cgroup``
    The paths of the cgroups that were made for the tasks, a line each, where some could be made.
``slaves/<agent>/frameworks/<framework>/executors/<task>/runs/<container>/``
    The sandbox, with a link ``latest`` beside it. Never removed by the agent.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from minicluster.mesos.common.modes import PASSABLE
from peloton.config.private import FOLDER, make_folder

# FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and FS_TOPDIR_FL of linux/fs.h.
_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
_TOP_OF_HIERARCHY = 0x00020000


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one absolute work directory; ``slaves`` is the root of all sandboxes.

    They are made once: a path costs more than many a call that takes it.
    """

    work_dir: Path
    meta: Path = field(init=False)
    runs: Path = field(init=False)
    claim_dir: Path = field(init=False)
    pids: Path = field(init=False)
    exits: Path = field(init=False)
    spare: Path = field(init=False)
    secrets: Path = field(init=False)
    slaves: Path = field(init=False)
    volumes: Path = field(init=False)

    def __post_init__(self) -> None:
        meta = self.work_dir / "meta"
        for name, path in (
            ("meta", meta),
            ("runs", meta / "runs"),
            ("claim_dir", meta / "claims"),
            ("pids", meta / "pids"),
            ("exits", meta / "exits"),
            ("spare", meta / "spare"),
            ("secrets", meta / "secrets"),
            ("slaves", self.work_dir / "slaves"),
            ("volumes", self.work_dir / "volumes"),
        ):
            object.__setattr__(self, name, path)

    @property
    def agent_file(self) -> Path:
        """The agent's identity."""
        return self.meta / "agent.json"

    @property
    def resources_file(self) -> Path:
        """The agent's dynamic reservations and persistent volumes."""
        return self.meta / "resources.json"

    @property
    def cgroup_file(self) -> Path:
        """The paths of the cgroups that were made for the agent's tasks, if some were."""
        return self.meta / "cgroup"

    # The files of a run are strings: to make a Path costs more than some of the calls that use it.

    def pid_file(self, container_id: str) -> str:
        """Return the process record of a run."""
        return f"{self.pids}/{container_id}.json"

    def log(self, container_id: str) -> str:
        """Return the checkpoint of a run: its task, its updates and acknowledgements."""
        return f"{self.runs}/{container_id}.log"

    def exit_file(self, container_id: str) -> str:
        """Return the file that records how a run's task ended."""
        return f"{self.exits}/{container_id}.json"

    def secrets_of(self, container_id: str) -> Path:
        """Return the directory of the secret files of a run."""
        return self.secrets / container_id

    def claim(self, container_id: str, attempt: int) -> str:
        """Return the claim of one attempt to start a run."""
        return f"{self.claim_dir}/{container_id}.{attempt}"

    def claims(self, container_id: str) -> list[int]:
        """Return the attempts that may still begin, in order."""
        paths = self.claim_dir.iterdir() if self.claim_dir.is_dir() else ()
        return sorted(int(path.suffix[1:]) for path in paths if path.stem == container_id)

    def executor(self, agent_id: str, framework_id: str, executor_id: str) -> Path:
        """Return the directory of all runs of one executor."""
        return Path(f"{self.slaves}/{agent_id}/frameworks/{framework_id}/executors/{executor_id}/runs")

    def make(self) -> None:
        """Create the directories."""
        make_folder(self.work_dir, PASSABLE)
        _keep_apart(self.work_dir)
        if not self.meta.exists():
            # ext4 derives the area from the name, and all agents have a folder of this name.
            unique = Path(mkdtemp(dir=self.work_dir))
            unique.rename(self.meta)
        for path in (self.runs, self.claim_dir, self.pids, self.exits, self.spare):
            path.mkdir(exist_ok=True)
            path.chmod(FOLDER)
        for path in (self.meta, self.secrets, self.slaves):
            path.mkdir(exist_ok=True)
            path.chmod(PASSABLE)
        _keep_apart(self.slaves)


def _keep_apart(folder: Path) -> None:
    """Ask the file system to place each new subdirectory in an area of its own (``chattr +T``).

    ext4 does not reuse a deleted file's inode for some minutes: creating a file skips, one by one, all those
    that anybody deleted in the same block group. Where many are, that costs several times what a run does.
    A file system without this flag needs no such hint.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flags = array("i", [0])
        fcntl.ioctl(handle, _GET_FLAGS, flags)
        flags[0] |= _TOP_OF_HIERARCHY
        fcntl.ioctl(handle, _SET_FLAGS, flags)
    except OSError:
        return
    finally:
        os.close(handle)


def overwrite(path: str, data: bytes) -> None:
    """Write over a file that is there; one that is cut to nothing would be flushed to the disk."""
    fd = os.open(path, os.O_WRONLY)
    try:
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file as a whole."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def read_json(path: Path | str) -> Any | None:
    """Read a JSON file; None when it is missing or was cut short."""
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
