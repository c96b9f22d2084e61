"""Reading the folder of local membership: who leads, and which members live.

Every daemon reads the folder after each change and once a second, and ten times a second where changes are
not told. Files therefore stay open, and folders are listed only when they have changed. To look at a file
again takes two system calls.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from peloton.membership.interface import Address, Group, Member, Role
from peloton.model.cluster import is_cluster_name

LONGEST_ADDRESS_BYTES = 65536
"""Bytes read of a file."""
SETTLED_NANOSECONDS = 1_000_000_000
"""Age from which a folder's time of change is trusted. A change right after another may leave it as it is."""


def try_lock(handle: int, kind: int) -> bool:
    """Lock an open file if that needs no wait; return whether it is locked."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Registered(NamedTuple):
    """What a folder names: the leaders there are, and the members of each known group."""

    leaders: dict[Group, Address]
    members: dict[Group, dict[str, Member]]


class Folder:
    """The leaders and members that a folder names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._clusters = Listing(str(root / Role.HOSTMGR.clusters))
        self._leaders: dict[Group, _Leader] = {}
        self._members: dict[Group, _Members] = {}
        for role in Role:
            self._follow(Group(role))

    def read(self) -> Registered:
        """Return what is registered now, and remove the files of dead members. Raises OSError."""
        self._follow_clusters()
        return Registered(
            {group: found for group, leader in self._leaders.items() if (found := leader.read())},
            {group: members.read() for group, members in self._members.items()},
        )

    def folders(self) -> list[str]:
        """Return the folders in which files change, those of them that may not be there included."""
        groups = [str(self._root / group.path) for group in self._leaders]
        return [str(self._root / Role.HOSTMGR.clusters), *groups, *(f"{each}/members" for each in groups)]

    def _follow_clusters(self) -> None:
        """Begin to read the groups of new clusters, and leave those that are gone. Raises OSError."""
        inodes = self._clusters.changed()
        if inodes is None:
            return
        groups = {Group(Role.HOSTMGR, name) for name in inodes if is_cluster_name(name)}
        for group in groups - self._leaders.keys():
            self._follow(group)
        for group in [each for each in self._leaders if each.cluster and each not in groups]:
            self._leaders.pop(group).close()
            self._members.pop(group).close()

    def _follow(self, group: Group) -> None:
        folder = self._root / group.path
        self._leaders[group] = _Leader(str(folder / "leader"))
        self._members[group] = _Members(group, str(folder / "members"))

    def close(self) -> None:
        """Close all files."""
        for leader in self._leaders.values():
            leader.close()
        for members in self._members.values():
            members.close()


def registered(root: Path) -> Registered:
    """Return leaders and living members, as the folder has them now. Raises OSError."""
    folder = Folder(root)
    try:
        return folder.read()
    finally:
        folder.close()


class OpenFile:
    """A file that a process locks while it lives."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def inode(self) -> int:
        """Number of the file on its disk."""
        return os.fstat(self._handle).st_ino

    def held(self) -> str | None:
        """Return the content while a living process holds the lock, else None."""
        if try_lock(self._handle, fcntl.LOCK_SH):
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            return None
        return os.pread(self._handle, LONGEST_ADDRESS_BYTES, 0).decode(errors="replace")

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


class _Leader:
    """The file of one role's leader. Nobody removes it, but the folder may be made anew."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: OpenFile | None = None
        self._inode = 0

    def read(self) -> Address | None:
        try:
            inode = os.stat(self._path).st_ino  # noqa: PTH116 - a Path costs more than the call
        except FileNotFoundError:
            return None
        if self._file is None or inode != self._inode:
            self.close()
            self._file = OpenFile(self._path)
            self._inode = self._file.inode
        with suppress(ValueError):  # empty or half written: not yet leader
            if text := self._file.held():
                return _address(text)
        return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Listing:
    """A folder that is listed again only when it may have changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listed: tuple[int, int] | None = None
        """Inode and time of change of the folder as it was listed; None: to be listed again."""

    def changed(self) -> dict[str, int] | None:
        """Return inodes by name; None where they are as at the last call. Raises OSError."""
        try:
            state = os.stat(self._path)  # noqa: PTH116
        except FileNotFoundError:
            self._listed = None
            return {}
        if (state.st_ino, state.st_mtime_ns) == self._listed:
            return None
        self._listed = None
        with os.scandir(self._path) as entries:
            inodes = {entry.name: entry.inode() for entry in entries if not entry.name.startswith(".")}
        if time.time_ns() - state.st_mtime_ns > SETTLED_NANOSECONDS:
            self._listed = (state.st_ino, state.st_mtime_ns)
        return inodes

    def forget(self) -> None:
        """List again at the next call."""
        self._listed = None


class _Members:
    """The folder of one group's members."""

    def __init__(self, group: Group, path: str) -> None:
        self._group = group
        self._path = path
        self._listing = Listing(path)
        self._files: dict[str, OpenFile] = {}

    def read(self) -> dict[str, Member]:
        self._list()
        found: dict[str, Member] = {}
        for name, file in list(self._files.items()):
            text = file.held()
            if text is None:
                self._forget(name)
                with suppress(
                    FileNotFoundError, IsADirectoryError, PermissionError
                ):  # not made by our processes
                    os.unlink(f"{self._path}/{name}")  # noqa: PTH108
                continue
            with suppress(ValueError):
                found[name] = Member(self._group.role, name, _address(text), self._group.cluster)
        return found

    def _list(self) -> None:
        inodes = self._listing.changed()
        if inodes is None:
            return
        for name in [name for name, file in self._files.items() if inodes.get(name) != file.inode]:
            self._forget(name)
        for name in inodes.keys() - self._files.keys():
            with suppress(FileNotFoundError):
                self._files[name] = OpenFile(f"{self._path}/{name}")

    def _forget(self, name: str) -> None:
        self._files.pop(name).close()

    def close(self) -> None:
        for name in list(self._files):
            self._forget(name)
        self._listing.forget()


@lru_cache(1000)
def _address(text: str) -> Address:
    """Decode an address once: the same few are read again and again. Raises ValueError."""
    return Address.from_json(text)
