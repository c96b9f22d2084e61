"""Durations as text: `20s`, `5m`, `1m30s`, `500ms`, `1.5h`, or a plain number of seconds.

Libraries such as pytimeparse2 take further forms (`1:30`, `2 weeks`, signs, digits of other scripts) that
Peloton refuses.
"""

from __future__ import annotations

import re

_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART})+", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration. Raises ValueError for text in another form."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration, such as 20s or 5m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
