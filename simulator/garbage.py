"""When the garbage collector looks for cycles during a run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (500_000, 20, 100)
"""New objects, collections of young ones and of middle-aged ones (`gc.set_threshold`)."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Have cycles looked for less often: a run makes millions of objects, and few of them are in cycles."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
