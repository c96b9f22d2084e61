"""Events of the files in folders, by Linux' inotify(7)."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
from collections.abc import Iterable
from contextlib import suppress

from peloton.waking import until_tick

IN_MODIFY, IN_CLOSE_WRITE = 0x2, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_NONBLOCK, IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
CHANGES = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
"""Reading files is not among them: readers would wake each other."""
READ_BYTES = 65536
POLL_SECONDS = 0.1
"""Time between two looks at folders that tell no changes, and at those that have just changed."""
RESTING_SECONDS = 1.0
"""Time between two looks at folders that tell their changes and have had none for QUIET_SECONDS."""
QUIET_SECONDS = 0.5
GATHER_SECONDS = 0.01
"""A change is seldom alone, and locks are dropped right after the event."""
log = logging.getLogger(__name__)


class FolderEvents:
    """Wakes a task when something happens in one of the watched folders.

    A file that its process had open for writing tells its end, too: the kernel closes it. Its locks are
    dropped right after that event.
    """

    def __init__(self) -> None:
        """Begin with no folder. Where the system has no inotify, or no more of it, there are no events."""
        self._happened = asyncio.Event()
        self._changed = asyncio.get_running_loop().time()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = -1
        with suppress(AttributeError):  # another system than Linux
            self._handle = self._libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
            if self._handle < 0:
                log.info("no inotify, the folder is polled instead: %s", os.strerror(ctypes.get_errno()))
        if self.active:
            asyncio.get_running_loop().add_reader(self._handle, self._read)

    @property
    def active(self) -> bool:
        """Whether there are events."""
        return self._handle >= 0

    def watch(self, folders: Iterable[str]) -> None:
        """Watch these folders as well; those that are not there, and those that are watched, are left out."""
        if self.active:
            for folder in folders:
                self._libc.inotify_add_watch(self._handle, os.fsencode(folder), CHANGES)

    def note_change(self) -> None:
        """Note that the folders have changed: more may follow."""
        self._changed = asyncio.get_running_loop().time()

    async def pause(self, often: bool = False) -> None:
        """Sleep until the folders should be read again; `often`: as if they told nothing."""
        quiet = asyncio.get_running_loop().time() - self._changed > QUIET_SECONDS
        rests = self.active and quiet and not often
        with suppress(TimeoutError):
            async with asyncio.timeout(until_tick(RESTING_SECONDS) if rests else POLL_SECONDS):
                await self._happened.wait()
        if self._happened.is_set():
            self.note_change()
            await asyncio.sleep(GATHER_SECONDS)
            self._happened.clear()

    def _read(self) -> None:
        """Take all events: which ones is of no interest, since the folders are read anew."""
        with suppress(BlockingIOError):
            while os.read(self._handle, READ_BYTES):
                self._happened.set()

    def close(self) -> None:
        """Watch no more."""
        if self.active:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1
