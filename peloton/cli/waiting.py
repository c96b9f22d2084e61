"""Say on a terminal that a call takes long, and for how long already."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds after which a line appears; it is removed at the end."""
_INTERVAL = 1.0


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a line on standard error while the body takes longer than PATIENCE, if it is a terminal."""
    stream = sys.stderr
    if quiet or not stream.isatty():
        yield
        return
    done = threading.Event()
    begun = time.monotonic()

    def show() -> None:
        pause, shown = PATIENCE, False
        while not done.wait(pause):
            stream.write(f"\r\x1b[Kpeloton: waiting for {what}, {time.monotonic() - begun:.0f} s")
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
