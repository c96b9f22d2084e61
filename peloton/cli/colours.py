"""Colours of the output: on a terminal only, and never where NO_COLOR is set (https://no-color.org)."""

from __future__ import annotations

import os
from typing import IO

RESET = "\x1b[0m"
BOLD, FAINT, RED, GREEN, YELLOW = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"
PREFIXES = tuple(f"\x1b[{code}m" for code in (36, 33, 32, 35, 34, 96, 93, 92, 95, 94))
"""Colours to tell sources apart by."""
_BY_STATE = {
    GREEN: ("RUNNING", "SUCCEEDED", "UP", "HEALTHY", "AVAILABLE", "ANSWERS"),
    RED: ("FAILED", "LOST", "DOWN", "UNHEALTHY", "UNAVAILABLE", "UNREACHABLE", "INVALID"),
    YELLOW: (
        *("PENDING", "READY", "PLACING", "PLACED", "LAUNCHING", "LAUNCHED", "STARTING", "KILLING"),
        *(
            "PREEMPTING",
            "DRAINING",
            "DRAINED",
            "PAUSED",
            "INITIALIZED",
            "ROLLING_FORWARD",
            "ROLLING_BACKWARD",
        ),
    ),
    FAINT: ("KILLED", "DELETED", "ABORTED", "SUPERSEDED"),
}
_STYLES = {state: style for style, states in _BY_STATE.items() for state in states}


def has_colours(stream: IO[str]) -> bool:
    """Return whether to write colours to a stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def state_style(text: str) -> str:
    """Return the style of a state; empty for other text."""
    return _STYLES.get(text.strip(), "")


def styled(text: str, style: str) -> str:
    """Return a text in a style."""
    return f"{style}{text}{RESET}" if style else text
