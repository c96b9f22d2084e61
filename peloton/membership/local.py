"""Membership for the daemons of one machine: a folder of files, locked while their processes live.

    <root>/<election name>/leader      locked by the leader while it leads; holds its address
    <root>/<election name>/term        number of the last term
    <root>/<election name>/members/ID  locked by the process; holds its address

The host managers of a named cluster have the same below <root>/hostmanager/clusters/<name>.

The kernel drops a lock when its process ends, however that happens: after a leader is killed,
another can lead at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from peloton.errors import Unavailable
from peloton.membership.folder import Folder, Registered, try_lock
from peloton.membership.folder_events import FolderEvents
from peloton.membership.interface import Address, Group, Leadership, Member, Role
from peloton.membership.lease import Standing
from peloton.membership.local_shards import LocalShards
from peloton.model.cluster import UNNAMED

POLL_SECONDS = 0.1
"""Time between two looks at a lock."""
log = logging.getLogger(__name__)


class LocalMembership:
    """Membership in a folder of one machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = Folder(root)
        self._registered = Registered({}, {})
        self._change = asyncio.Event()
        self._own: list[int] = []
        self._error = ""
        self._watch: asyncio.Task[None] | None = None
        self._events: FolderEvents | None = None

    async def start(self) -> None:
        """Begin to watch the folder."""
        try:
            for role in Role:
                (self._root / role.election / "members").mkdir(parents=True, exist_ok=True)
            self._read()
        except OSError as error:
            raise Unavailable(self._describe(error)) from None
        self._events = FolderEvents()
        self._events.watch(self._folder.folders())
        self._watch = asyncio.create_task(self._follow(self._events), name="membership")

    async def join(self, member: Member) -> None:
        """Register a member until its process ends or leaves."""
        folder = self._root / member.group.path / "members"
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{member.id}"
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
        _fill(handle, member.address.to_json())
        draft.rename(folder / member.id)
        self._own.append(handle)

    async def campaign(self, member: Member) -> Leadership:
        """Wait until elected."""
        folder = self._root / member.group.path
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "leader", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while not try_lock(handle, fcntl.LOCK_EX):  # noqa: ASYNC110 - file locks send no notification
                await asyncio.sleep(POLL_SECONDS)
            _fill(handle, "")
            term = _next_term(folder / "term")
            _fill(handle, member.address.to_json())
        except BaseException:
            os.close(handle)
            raise
        return _LocalLeadership(handle, term)

    def shards(self) -> LocalShards:
        """Return the registry of the job managers' shards."""
        return LocalShards(self._root / Role.JOBMGR.election / "shards")

    def leader(self, role: Role, cluster: str = UNNAMED) -> Address | None:
        """Return the leader of a role, in a cluster, as last seen."""
        return self._registered.leaders.get(Group(role, cluster))

    def members(self, role: Role, cluster: str = UNNAMED) -> Mapping[str, Member]:
        """Return the members of a role, in a cluster, by id, as last seen."""
        return self._registered.members.get(Group(role, cluster), {})

    def clusters(self) -> Sequence[str]:
        """Return the names of the clusters that have a name."""
        return sorted(group.cluster for group in self._registered.members if group.cluster)

    async def changed(self) -> None:
        """Wait for the next change of a leader or a member."""
        await self._change.wait()

    def trouble(self) -> str:
        """Return why the folder cannot be read, empty where it can."""
        return self._error

    async def close(self) -> None:
        """Leave the registry."""
        if self._watch is not None:
            self._watch.cancel()
        if self._events is not None:
            self._events.close()
        self._folder.close()
        for handle in self._own:
            os.close(handle)
        self._own.clear()

    async def _follow(self, events: FolderEvents) -> None:
        """Read the folder when it changes, and periodically; keep the last state while it cannot be read."""
        while True:
            await events.pause(often=bool(self._error))
            try:
                if self._read():
                    events.note_change()
                    events.watch(self._folder.folders())  # some may be new
                self._error = ""
            except OSError as error:
                if not self._error:
                    log.error("%s, trying again", self._describe(error))
                self._error = self._describe(error)

    def _describe(self, error: OSError) -> str:
        return f"membership folder {self._root}: {error.filename}: {error.strerror}"

    def _read(self) -> bool:
        """Read the folder; return whether it has changed. Raises OSError."""
        found = self._folder.read()
        if found == self._registered:
            return False
        self._registered = found
        self._change.set()
        self._change = asyncio.Event()
        return True


class _LocalLeadership:
    def __init__(self, handle: int, term: int) -> None:
        self._handle = handle
        self._term = term

    @property
    def term(self) -> int:
        return self._term

    def standing(self, now: float) -> Standing:
        """Return that the leader may act: the kernel drops the lock with the process, never before."""
        return Standing.HELD if self._handle >= 0 else Standing.OVER

    async def lost(self) -> None:
        """Never return: the lock lasts as long as the process."""
        await asyncio.Event().wait()

    async def resign(self) -> None:
        if self._handle >= 0:
            _fill(self._handle, "")
            os.close(self._handle)
            self._handle = -1


def _fill(handle: int, text: str) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, text.encode(), 0)


def _next_term(file: Path) -> int:
    term = int(file.read_text()) + 1 if file.exists() else 1
    draft = file.with_name(".term")
    with draft.open("w") as out:
        out.write(str(term))
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)
    return term
