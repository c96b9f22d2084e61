"""How pages show values: kinds, states, times, and the filters of templates for amounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup, escape

from peloton.model import amounts
from peloton.model.plural import plural


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource as it is shown."""

    name: str
    title: str
    unit: str


KINDS: Mapping[str, Kind] = {
    "cpu": Kind("cpu", "CPU", "cores"),
    "memory": Kind("memory", "Memory", "MB"),
    "disk": Kind("disk", "Disk", "MB"),
    "gpu": Kind("gpu", "GPU", "GPUs"),
}


@dataclass(frozen=True, slots=True)
class StateLook:
    """How a state is shown: a word, a symbol for those who see no colours, the class of its colour."""

    word: str
    symbol: str
    tone: str
    """good, done, bad, busy, wait, off or plain."""


_TONES = {
    "good": "RUNNING HEALTHY UP LEADER OK",
    "done": "SUCCEEDED ROLLED_BACK COMPLETED",
    "bad": "FAILED LOST UNHEALTHY UNREACHABLE DEAD ABORTED",
    "busy": "LAUNCHING LAUNCHED STARTING PLACING PLACED RESERVED KILLING PREEMPTING INITIALIZED DRAINING "
    "ROLLING_FORWARD ROLLING_BACKWARD IN_FLIGHT",
    "wait": "PENDING READY WAITING PAUSED STANDBY INFEASIBLE",
    "off": "KILLED DELETED STOPPED DRAINED DOWN",
}
_SYMBOLS = {"good": "●", "done": "✔", "bad": "✖", "busy": "◐", "wait": "◌", "off": "■", "plain": "○"}
_TONE_OF = {state: tone for tone, states in _TONES.items() for state in states.split()}
_PREFIXES = ("POD_STATE_", "JOB_STATE_", "TASK_STATE_", "WORKFLOW_STATE_", "HOST_STATE_", "HEALTH_STATE_")


def state_of(state: str) -> StateLook:
    """Return how a state of a job, a task, a host, a workflow or a daemon is shown."""
    name = state.upper()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    tone = _TONE_OF.get(name, "plain")
    return StateLook(name.lower().replace("_", " ") or "unknown", _SYMBOLS[tone], tone)


def sentence(text: str) -> str:
    """Begin a text with a capital letter; the others stay as they are."""
    return text[:1].upper() + text[1:]


_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def ago(then: float, now: float) -> str:
    """Format a time relative to now by its largest unit: 5 min ago, in 3 s."""
    seconds = now - then
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size), (1, "s"))
    text = f"{round(abs(seconds) // size)} {unit}"
    if abs(seconds) < 1:
        return "now"
    return f"{text} ago" if seconds > 0 else f"in {text}"


def exact(then: float) -> str:
    """Format a time in UTC to the second."""
    return f"{datetime.fromtimestamp(then, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(then: float) -> str:
    """Format a time for machines."""
    return f"{datetime.fromtimestamp(then, UTC):%Y-%m-%dT%H:%M:%S}Z"


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of an RFC 3339 time; 0 for an empty text."""
    if not text:
        return 0.0
    return datetime.fromisoformat(text).timestamp()


def with_query(url: str, **changes: Any) -> str:
    """Return an address with parameters of its query replaced; None removes one."""
    path, _, query = url.partition("?")
    pairs = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if key not in changes]
    pairs += [(key, str(value)) for key, value in changes.items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def marked(text: str) -> Sequence[tuple[str, bool]]:
    """Return a text in parts, and whether each is a command or name that stands between backquotes."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no partner
        return [(text, False)]
    return [(part, bool(at % 2)) for at, part in enumerate(parts) if part]


_AFTER = re.compile(r"(?<=[/.])(?=[^/.])|(?<=[a-z0-9])(?=[A-Z])")
"""Where a path or a name may go on in the next line: behind its separators, and before its words."""


def breakable(text: str) -> Markup:
    """Return a path as HTML that narrow windows break between its parts, and not within them."""
    return Markup("<wbr>").join(escape(part) for part in _AFTER.split(text))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "breakable": breakable,
    "number": amounts.short,
    "amount": amounts.rounded,
    "part_of": amounts.part_of,
    "percent": amounts.percent,
    "size": amounts.byte_size,
    "plural": plural,
    "sentence": sentence,
    "duration": amounts.duration,
    "ago": ago,
    "exact": exact,
    "iso": iso,
    "seconds_of": seconds_of,
    "with_query": with_query,
    "marked": marked,
}
