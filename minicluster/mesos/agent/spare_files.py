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
        self._free: list[Path] | None = None
        self._made = 0

    def _known(self) -> list[Path]:
        if self._free is None:
            self._free = list(self._folder.iterdir())
            self._made = max((int(path.name) for path in self._free), default=0)
        return self._free

    def take(self, path: Path) -> None:
        """Have a file at ``path``; what is in it is to be overwritten."""
        if free := self._known():
            free.pop().rename(path)
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))

    def give(self, path: Path) -> None:
        """Move a file to the pool. It must not be written to any more."""
        free = self._known()
        if len(free) >= MOST:
            path.unlink(missing_ok=True)
            return
        self._made += 1
        spare = self._folder / str(self._made)
        with contextlib.suppress(FileNotFoundError):
            path.rename(spare)
            free.append(spare)
