"""A pool of files that are reused instead of deleted.

ext4 does not reuse a deleted file's inode for 5 s: creating a file after many were deleted skips all of them.
At hundreds of runs a second, each with a few files of its own, that costs more than the tasks do.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOST = 1000


class SpareFiles:
    """The spare files of one directory, for their owner's eyes only: secrets may be written to them."""

    def __init__(self, folder: Path) -> None:
        """``folder`` must be on one file system with where the files are used."""
        self._folder = folder
        self._free: list[str] | None = None
        self._made = 0

    def _known(self) -> list[str]:
        if self._free is None:
            names = os.listdir(self._folder)  # noqa: PTH208 - paths here are strings, see Layout
            self._free = [f"{self._folder}/{name}" for name in names]
            self._made = max(map(int, names), default=0)
        return self._free

    def take(self, path: str) -> None:
        """Have a file at ``path``; what is in it is to be overwritten."""
        if free := self._known():
            os.rename(free.pop(), path)  # noqa: PTH104
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))

    def give(self, path: str) -> None:
        """Move a file to the pool. It must not be written to any more."""
        free = self._known()
        if len(free) >= MOST:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108
            return
        self._made += 1
        spare = f"{self._folder}/{self._made}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, spare)  # noqa: PTH104
            free.append(spare)
