"""Failures that pass, and the delays between tries."""

from __future__ import annotations

from peloton.backoff import Backoff
from peloton.errors import Conflict, Fenced, ResourceExhausted, Unavailable

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
"""Seconds."""
TRANSIENT = (Unavailable, ResourceExhausted, Conflict, Fenced)
"""Failures that say nothing about the request: it is sent again, until this instance leads no more."""


def backoff() -> Backoff:
    """Return the back-off of calls to the store and to the other daemons."""
    return Backoff(FIRST_DELAY, LONGEST_DELAY)
