"""Whether and how an agent keeps its tasks apart: users of their own, and namespaces.

An agent of root runs each task as a user of its own, unless the spec names another one than root. Where the
machine lets it make namespaces, a task sees its own processes only, and of the hidden folders only its
sandbox, volumes and secrets. An agent that is not root can only have namespaces.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import enclosure
from minicluster.mesos.agent.volumes import volumes_of

PROBE_SECONDS = 20.0
FEWEST_USERS = 1000


class Mode(StrEnum):
    """How much of it is wanted."""

    NONE = "none"
    """Tasks run as the agent's user, or the one that they name, among all processes and files."""
    AUTO = "auto"
    """What can be had here."""
    REQUIRE = "require"
    """The agent does not start where not all of it can be had."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """How the tasks of an agent are kept apart. ``users``: ids of users that are nobody's, where it is root.

    ``hidden``: folders that enclosed tasks do not see; without any they are not enclosed. ``lacks``: what
    cannot be had here and why, for people; empty where nothing is lacking.
    """

    users: range | None = None
    hidden: tuple[str, ...] = ()
    lacks: str = ""

    def user_of(self, task: mesos.TaskInfo, container_id: str) -> tuple[int, int] | None:
        """Return whom a task runs as, None for the agent's own user. Raise KeyError for an unknown name.

        Who has a volume is the same user as who had it before.
        """
        named = named_user(task.command)
        if self.users is None or (named is not None and named[0] != 0):
            return named
        kept = sorted(volume.disk.persistence.id for volume in volumes_of(task))
        digest = hashlib.sha256(f"{kept[0] if kept else container_id}".encode()).digest()
        uid = self.users[int.from_bytes(digest[:8], "big") % len(self.users)]
        return uid, uid

    @property
    def encloses(self) -> bool:
        """Whether tasks have namespaces."""
        return bool(self.hidden)

    def login_of(self, task: mesos.TaskInfo, user: tuple[int, int] | None) -> str | None:
        """Return the name of a task's user whose home is the sandbox, None where the agent's home is used.

        The home of the agent's user is closed to tasks of other users.
        """
        if self.users is None or user is None:
            return None
        return name_of(user[0]) if user[0] in self.users else task.command.user

    def enclosure(
        self, kept: Sequence[Path], user: tuple[int, int] | None, home: Path
    ) -> dict[str, Any] | None:
        """Return what a supervisor needs to enclose a task of a user that keeps some folders."""
        if not self.encloses:
            return None
        ids = None if self.users is not None else (os.geteuid(), os.getegid())
        names = names_of(user[0], home) if self.users and user and user[0] in self.users else {}
        folders = [str(path) for path in kept]
        return {"hidden": list(self.hidden), "kept": folders, "ids": ids, "names": names}

    def hides(self, path: str) -> bool:
        """Return whether a real path is in a hidden folder."""
        return any(path == folder or path.startswith(f"{folder}/") for folder in self.hidden)


NOTHING = Isolation()


def name_of(uid: int) -> str:
    """Return the name of a user that is nobody's."""
    return f"task-{uid}"


def names_of(uid: int, home: Path) -> dict[str, str]:
    """Return a line for each file that names users and groups: many programs do not start without a name."""
    name = name_of(uid)
    return {"/etc/passwd": f"{name}:x:{uid}:{uid}::{home}:/bin/sh", "/etc/group": f"{name}:x:{uid}:"}


def named_user(command: mesos.CommandInfo) -> tuple[int, int] | None:
    """Return the user that a command names, None for the agent's; only root can choose. Raise KeyError."""
    if os.geteuid() != 0 or not command.user or command.user == "root":
        return None
    entry = pwd.getpwnam(command.user)
    return entry.pw_uid, entry.pw_gid


def detect(mode: Mode, hide: Sequence[Path]) -> Isolation:
    """Find out what can be had here. ``hide``: folders that tasks are not to see."""
    if mode is Mode.NONE:
        return NOTHING
    root = os.geteuid() == 0
    users = unused_users(Path("/proc/self/uid_map").read_text()) if root else None
    folders = {closed_from(path.resolve()) if root else path.resolve() for path in hide}
    hidden = tuple(sorted(str(path) for path in folders if not folders.intersection(path.parents)))
    if root and users is None:
        return Isolation(lacks="users of their own: too few user ids can be used here")
    failure = probe(users, hidden)
    if failure:
        return Isolation(users, (), f"namespaces of their own: {failure}")
    return Isolation(users, hidden)


def unused_users(uid_map: str) -> range | None:
    """Return user ids that belong to nobody, of those that are mapped; None where there are few."""
    rows = [line.split() for line in uid_map.splitlines()]
    start, end = max(((int(row[0]), int(row[0]) + int(row[2])) for row in rows), key=lambda pair: pair[1])
    found = range(1 << 30, 1 << 31) if end >= 1 << 31 else range(max(start, 20_000), min(end, 60_000))
    return found if len(found) >= FEWEST_USERS else None


def closed_from(folder: Path) -> Path:
    """Return the highest folder on the way to one through which others may not pass, or the one itself."""
    for path in (*reversed(folder.parents), folder):
        if not path.stat().st_mode & stat.S_IXOTH:
            return path
    return folder


def probe(users: range | None, hidden: Sequence[str]) -> str:
    """Enclose a command that does nothing; return why that cannot be done, or nothing."""
    uid = "" if users is None else str(users[0])
    argv = [sys.executable, "-I", "-S", enclosure.__file__, "probe", uid, *hidden]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"they were not made in {PROBE_SECONDS:g} s"
    return (
        "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2] or f"code {done.returncode}"
    )
