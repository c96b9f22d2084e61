"""Files at paths that somebody else may change at any time, such as those of a task's sandbox."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_real(path: Path) -> BinaryIO:
    """Open a regular file by its real path.

    Raises FileNotFoundError where something else is there by now: a link, on the way to it either, leads
    to what only this process may read; a pipe would have it wait.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    # Of what was opened, whatever the path leads to now.
    same = os.readlink(f"/proc/self/fd/{handle}") == str(path)  # noqa: PTH115
    if not same or not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(f"{path} is not that file any more")
    return os.fdopen(handle, "rb")
