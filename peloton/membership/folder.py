"""Reading the folder of local membership: who leads, and which members live.

The folder is read ten times a second by every daemon. Files therefore stay open, and folders are listed only
when they have changed. To look at a file again takes two system calls.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from peloton.membership.interface import Address, Member, Role

LONGEST_ADDRESS = 65536
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


class Folder:
    """The leaders and members that a folder names."""

    def __init__(self, root: Path) -> None:
        self._leaders = {role: _Leader(str(root / role.election / "leader")) for role in Role}
        self._members = {role: _Members(role, str(root / role.election / "members")) for role in Role}

    def leaders(self) -> dict[Role, Address]:
        """Return the leaders by role. Raises OSError."""
        return {role: found for role, leader in self._leaders.items() if (found := leader.read())}

    def members(self) -> dict[Role, dict[str, Member]]:
        """Return the living members by id, and remove the files of dead ones. Raises OSError."""
        return {role: members.read() for role, members in self._members.items()}

    def close(self) -> None:
        """Close all files."""
        for leader in self._leaders.values():
            leader.close()
        for members in self._members.values():
            members.close()


def registered(root: Path) -> tuple[dict[Role, Address], dict[Role, dict[str, Member]]]:
    """Return leaders and living members by role, as the folder has them now. Raises OSError."""
    folder = Folder(root)
    try:
        return folder.leaders(), folder.members()
    finally:
        folder.close()


class _OpenFile:
    """A file that a process locks while it lives."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def inode(self) -> int:
        return os.fstat(self._handle).st_ino

    def held(self) -> str | None:
        """Return the content while a living process holds the lock, else None."""
        if try_lock(self._handle, fcntl.LOCK_SH):
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            return None
        return os.pread(self._handle, LONGEST_ADDRESS, 0).decode(errors="replace")

    def close(self) -> None:
        os.close(self._handle)


class _Leader:
    """The file of one role's leader. Nobody removes it, but the folder may be made anew."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: _OpenFile | None = None
        self._inode = 0

    def read(self) -> Address | None:
        try:
            inode = os.stat(self._path).st_ino  # noqa: PTH116 - a Path costs more than the call
        except FileNotFoundError:
            return None
        if self._file is None or inode != self._inode:
            self.close()
            self._file = _OpenFile(self._path)
            self._inode = self._file.inode
        with suppress(ValueError):  # empty or half written: not yet leader
            if text := self._file.held():
                return _address(text)
        return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Members:
    """The folder of one role's members."""

    def __init__(self, role: Role, path: str) -> None:
        self._role = role
        self._path = path
        self._files: dict[str, _OpenFile] = {}
        self._listed: tuple[int, int] | None = None
        """Inode and time of change of the folder as it was listed; None: to be listed again."""

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
                found[name] = Member(self._role, name, _address(text))
        return found

    def _list(self) -> None:
        try:
            state = os.stat(self._path)  # noqa: PTH116
        except FileNotFoundError:
            self.close()
            return
        if (state.st_ino, state.st_mtime_ns) == self._listed:
            return
        self._listed = None
        with os.scandir(self._path) as entries:
            inodes = {entry.name: entry.inode() for entry in entries if not entry.name.startswith(".")}
        for name in [name for name, file in self._files.items() if inodes.get(name) != file.inode]:
            self._forget(name)
        for name in inodes.keys() - self._files.keys():
            with suppress(FileNotFoundError):
                self._files[name] = _OpenFile(f"{self._path}/{name}")
        if time.time_ns() - state.st_mtime_ns > SETTLED_NANOSECONDS:
            self._listed = (state.st_ino, state.st_mtime_ns)

    def _forget(self, name: str) -> None:
        self._files.pop(name).close()

    def close(self) -> None:
        for name in list(self._files):
            self._forget(name)
        self._listed = None


@lru_cache(1000)
def _address(text: str) -> Address:
    """Decode an address once: the same few are read ten times a second. Raises ValueError."""
    return Address.from_json(text)
