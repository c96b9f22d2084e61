"""Say on a terminal that a call takes long, and for how long already."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from peloton.model.amounts import elapsed

PATIENCE = 2.0
"""Seconds after which a line appears; it is removed at the end."""
_INTERVAL = 1.0
_told: ContextVar[bool] = ContextVar("told", default=False)
"""Whether a line about all of it is shown already, so that its parts need none."""
T = TypeVar("T")


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a line on standard error while the body takes longer than PATIENCE, if it is a terminal."""
    stream = sys.stderr
    if quiet or _told.get() or not stream.isatty():
        yield
        return
    done = threading.Event()
    begun = time.monotonic()

    def show() -> None:
        pause, shown = PATIENCE, False
        while not done.wait(pause):
            stream.write(f"\r\x1b[Kpeloton: waiting for {what}, {elapsed(time.monotonic() - begun)}")
            stream.flush()
            pause, shown = _INTERVAL, True
        if shown:
            stream.write("\r\x1b[K")
            stream.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def waiting_for_all(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show one line, as `waiting` does, for a body that makes several calls."""
    with waiting(what, quiet=quiet):
        token = _told.set(True)
        try:
            yield
        finally:
            _told.reset(token)


def one_by_one(items: Sequence[T], what: str, *, quiet: bool = False) -> Iterator[T]:
    """Yield items, and say which one is worked on where all together take longer than PATIENCE."""
    begun = time.monotonic()
    shown = False
    stream = sys.stderr
    for number, item in enumerate(items, 1):
        if not quiet and stream.isatty() and time.monotonic() - begun > PATIENCE:
            stream.write(f"\r\x1b[Kpeloton: {what}: {number} of {len(items)}")
            stream.flush()
            shown = True
        yield item
    if shown:
        stream.write("\r\x1b[K")
        stream.flush()
