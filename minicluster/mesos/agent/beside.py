"""Commands that run beside a task, such as health checks: as the user of the task."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_BEGIN = """
import os, sys, warnings  # the last one for os: the user may not be able to read it later on
terminal, uid, gid, file, *argv = sys.argv[1:]
if terminal == "terminal":
    os.login_tty(0)
os.umask(0o022)
if uid:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
try:
    os.execvp(file, argv)
except OSError as error:
    sys.exit(f"Failed to execute '{file}': {error.strerror}")
"""
"""A process of its own takes the terminal and the user: a fork of this one could not do it safely beside
threads, and uvloop does not take users."""


def beside(
    file: str, argv: Sequence[str], user: tuple[int, int] | None, terminal: bool = False
) -> tuple[str, list[str]]:
    """Return what to execute, and its whole argv, so that a command runs as a user, or in a terminal."""
    if user is None and not terminal:
        return file, list(argv)
    uid, gid = ("", "") if user is None else map(str, user)
    taken = "terminal" if terminal else "none"
    return sys.executable, [sys.executable, "-I", "-S", "-c", _BEGIN, taken, uid, gid, file, *argv]
