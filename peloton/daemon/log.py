"""Logging: one line per record on stderr, `time level logger message`."""

from __future__ import annotations

import asyncio
import logging
import re
import sys

from peloton.clock import rfc3339

LEVELS = ("debug", "info", "warning", "error")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """Return a text with control characters escaped: what others say ends no line and steers no terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one line, with a traceback below, each line of it indented."""
        when = rfc3339(int(record.created * 1e9))[:23] + "Z"
        line = f"{when} {record.levelname[0]} {record.name} {printable(record.getMessage())}"
        if not record.exc_info:
            return line
        below = self.formatException(record.exc_info).split("\n")
        return "\n  ".join((line, *map(printable, below)))


def set_up(debug: bool = False) -> None:
    """Set up logging of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if debug else logging.INFO, force=True)
    for noisy in ("asyncio", "uvicorn", "urllib3", "grpc", "httpx2", "httpcore2"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class LevelSwitch:
    """Changes the log level for a time and then restores the level before the first change."""

    def __init__(self) -> None:
        self._usual: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, level: str, seconds: float) -> None:
        """Change the level for a number of seconds."""
        root = logging.getLogger()
        if self._timer is not None:
            self._timer.cancel()
        if self._usual is None:
            self._usual = root.level
        root.setLevel(level.upper())
        self._timer = asyncio.get_running_loop().call_later(seconds, self._restore)

    def _restore(self) -> None:
        if self._usual is not None:
            logging.getLogger().setLevel(self._usual)
        self._usual = self._timer = None
