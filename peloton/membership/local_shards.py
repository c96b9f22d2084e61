"""The shards in a folder of one machine.

    <root>/jobmanager/shards/table                       its version, and the table as JSON
    <root>/jobmanager/shards/lock                        locked while the table is replaced
    <root>/jobmanager/shards/sessions/<member>-<number>  locked by a process during its session; its address
    …/<member>-<number>.leaving                          the session is about to end

The kernel drops a lock when its process ends: its session is over, and its shards may be given to others. A
process that is frozen keeps its session, and others wait for it, as they do for a leader.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from peloton.errors import Conflict, Fenced, Refused, Unavailable
from peloton.membership.folder import Listing, OpenFile, try_lock
from peloton.membership.folder_events import FolderEvents
from peloton.membership.interface import Address, Member
from peloton.membership.lease import Standing
from peloton.membership.shard_registry import OwnerSession, SessionInfo, Shards
from peloton.sharding.table import ShardTable

LOCK_SECONDS, LOCK_PAUSE = 5.0, 0.01
"""How long the table's lock is waited for, and how often it is tried: it is held for a moment only."""
LEAVING = ".leaving"
log = logging.getLogger(__name__)


class LocalShards:
    """The registry of shards, as described in `shard_registry.ShardRegistry`."""

    def __init__(self, root: Path) -> None:
        """Keep files below `root`."""
        self._root = root
        self._sessions = _Sessions(root / "sessions")
        self._numbers = itertools.count(1)
        self._seen: Shards | None = None
        self._stamp: tuple[int, int] | None = None
        """Inode and time of change of the table as it was read."""
        self._change = asyncio.Event()
        self._error = ""
        self._watch: asyncio.Task[None] | None = None
        self._events: FolderEvents | None = None

    async def start(self, count: int) -> None:
        """Begin to watch, unless that has begun; the first of all makes the table."""
        if self._watch is not None:
            return
        try:
            (self._root / "sessions").mkdir(parents=True, exist_ok=True)
            async with self._locked():
                if not self._path.exists():
                    self._write(ShardTable.unowned(count), 0)
            self._read()
        except OSError as error:
            raise Unavailable(self._describe(error)) from None
        if (found := len(self.seen().table.shards)) != count:
            raise Refused(
                f"{self._path} has {found} shards, not {count}: the number is fixed when the first job "
                "manager starts"
            )
        self._events = FolderEvents()
        self._events.watch([str(self._root), str(self._root / "sessions")])
        self._watch = asyncio.create_task(self._follow(self._events), name="shards")

    async def begin(self, member: Member) -> OwnerSession:
        """Begin a session. Those that the process ended earlier have left nothing."""
        name = f"{member.id}-{next(self._numbers)}"
        try:
            return _LocalSession(self._root / "sessions", name, member.address)
        except OSError as error:
            raise Unavailable(self._describe(error)) from None

    def seen(self) -> Shards:
        """Return the table and the sessions as last seen."""
        assert self._seen is not None, "start() has not returned"
        return self._seen

    async def changed(self) -> None:
        """Wait for the next change of either. Raises what made watching impossible."""
        self._require_watch()
        await self._change.wait()
        self._require_watch()

    async def replace(self, session: OwnerSession, table: ShardTable, version: int) -> None:
        """Replace the table of a version, while the lock is held."""
        async with self._locked():
            try:
                before, found = self._table()
                if found != version:
                    raise Conflict(f"the table of shards has version {found}, not {version}")
                if not self._sessions.lives(session.name):
                    raise Fenced(f"the session {session.name} is over")
                for name in before.dispossessed(table) - {session.name}:
                    if self._sessions.lives(name):
                        raise Conflict(f"session {name}, which is to lose shards, lives")
                self._write(table, version + 1)
                self._read()
            except OSError as error:
                raise Unavailable(self._describe(error)) from None

    async def close(self) -> None:
        """Stop to watch."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._events is not None:
            self._events.close()
        self._sessions.close()

    @property
    def _path(self) -> Path:
        return self._root / "table"

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the lock. Raises Unavailable where another process does not let it go."""
        handle = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                async with asyncio.timeout(LOCK_SECONDS):
                    while not try_lock(handle, fcntl.LOCK_EX):  # noqa: ASYNC110 - locks send no notification
                        await asyncio.sleep(LOCK_PAUSE)
            except TimeoutError:
                raise Unavailable(f"{self._root / 'lock'} is held by another process") from None
            yield
        finally:
            os.close(handle)

    def _table(self) -> tuple[ShardTable, int]:
        """Read the table. Raises OSError, and Refused where it is none."""
        version, _, text = self._path.read_text().partition("\n")
        try:
            return ShardTable.from_json(text), int(version)
        except ValueError as error:
            raise Refused(f"{self._path}: {error}") from None

    def _write(self, table: ShardTable, version: int) -> None:
        draft = self._root / ".table"
        with draft.open("w") as out:
            out.write(f"{version}\n{table.to_json()}")
            out.flush()
            os.fsync(out.fileno())
        draft.rename(self._path)

    async def _follow(self, events: FolderEvents) -> None:
        """Read after changes, and periodically; keep the last state while that fails."""
        while True:
            await events.pause(often=bool(self._error))
            try:
                if self._read():
                    events.note_change()
                self._error = ""
            except OSError as error:
                if not self._error:
                    log.error("%s, trying again", self._describe(error))
                self._error = self._describe(error)
            except Refused:
                self._change.set()
                raise

    def _read(self) -> bool:
        """Read the table and the sessions; return whether they have changed. Raises OSError."""
        state = self._path.stat()
        stamp, seen = (state.st_ino, state.st_mtime_ns), self._seen
        table, version = self._table() if seen is None or stamp != self._stamp else (seen.table, seen.version)
        self._stamp = stamp
        sessions = self._sessions.read()
        if seen is None or version > seen.version or sessions != seen.sessions:
            self._seen = Shards(table, version, sessions)
            self._change.set()
            self._change = asyncio.Event()
            return True
        return False

    def _require_watch(self) -> None:
        if self._watch is not None and self._watch.done() and not self._watch.cancelled():
            self._watch.result()

    def _describe(self, error: OSError) -> str:
        return f"folder of shards {self._root}: {error.filename}: {error.strerror}"


class _Sessions:
    """The files of sessions, of which only those that are locked count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listing = Listing(str(folder))
        self._files: dict[str, OpenFile] = {}
        self._leaving: Collection[str] = ()

    def read(self) -> dict[str, SessionInfo]:
        """Return the living sessions, and remove the files of others. Raises OSError."""
        self._list()
        found = {}
        for name, file in list(self._files.items()):
            text = file.held()
            if text is None:
                self._forget(name)
                for each in (name, name + LEAVING):
                    (self._folder / each).unlink(missing_ok=True)
                continue
            with suppress(ValueError):  # not written yet
                found[name] = SessionInfo(Address.from_json(text), name + LEAVING in self._leaving)
        return found

    def lives(self, name: str) -> bool:
        """Return whether a session lives now. Raises OSError."""
        try:
            file = OpenFile(str(self._folder / name))
        except FileNotFoundError:
            return False
        try:
            return file.held() is not None
        finally:
            file.close()

    def close(self) -> None:
        """Close all files."""
        for name in list(self._files):
            self._forget(name)
        self._listing.forget()

    def _list(self) -> None:
        inodes = self._listing.changed()
        if inodes is None:
            return
        self._leaving = {name for name in inodes if name.endswith(LEAVING)}
        for name in [name for name, file in self._files.items() if inodes.get(name) != file.inode]:
            self._forget(name)
        for name in inodes.keys() - self._files.keys() - self._leaving:
            with suppress(FileNotFoundError):
                self._files[name] = OpenFile(str(self._folder / name))

    def _forget(self, name: str) -> None:
        self._files.pop(name).close()


class _LocalSession:
    """A locked file. It gets its name when it is locked: nobody sees it before."""

    def __init__(self, folder: Path, name: str, address: Address) -> None:
        self._path = folder / name
        draft = folder / f".{name}"
        self._handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        os.pwrite(self._handle, address.to_json().encode(), 0)
        draft.rename(self._path)

    @property
    def name(self) -> str:
        return self._path.name

    def standing(self, now: float) -> Standing:
        """Return that its owner may act: the kernel drops the lock with the process, never before."""
        return Standing.HELD if self._handle >= 0 else Standing.OVER

    async def lost(self) -> None:
        """Never return: the lock lasts as long as the process."""
        await asyncio.Event().wait()

    async def announce_end(self) -> None:
        self._path.with_name(self.name + LEAVING).touch()

    async def end(self) -> None:
        if self._handle < 0:
            return
        handle, self._handle = self._handle, -1
        for path in (self._path, self._path.with_name(self.name + LEAVING)):
            path.unlink(missing_ok=True)
        os.close(handle)
