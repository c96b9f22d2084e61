"""Compare recorded and received JSON, modulo ids, times and process ids."""

from __future__ import annotations

import json
import re
from typing import Any

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(rf"{_UUID}(?:-(?:S\d+|O\d+|\d{{4}}))?")
_TIMES = frozenset(
    {
        *("timestamp", "registered_time", "reregistered_time", "unregistered_time", "unreachable_time"),
        *("executor_pid", "start_time", "elected_time", "estimated_drain_start_time", "mtime"),
    }
)
_OPAQUE = frozenset({"uuid", "status_update_uuid"})
_UNORDERED = frozenset(
    {
        *("resources", "total_resources", "allocated_resources", "offered_resources"),
        *(
            "agents",
            "recovered_agents",
            "draining_machines",
            "tasks",
            "completed_tasks",
            "frameworks",
            "offers",
        ),
    }
)


class Mismatch(AssertionError):
    """A reply or an event differs from the recorded one."""


class Binding:
    """A one-to-one map of recorded ids to those of this run."""

    def __init__(self, ignored: frozenset[str] = frozenset()) -> None:
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self._ignored = ignored

    def copy(self) -> Binding:
        """Return a binding to try a match with."""
        other = Binding(self._ignored)
        other._there, other._back = dict(self._there), dict(self._back)
        return other

    def adopt(self, other: Binding) -> None:
        """Take over the ids of another binding."""
        self._there, self._back = other._there, other._back

    def bind(self, recorded: str, actual: str, where: str) -> None:
        """Note that two ids are the same.

        Raises Mismatch when either is known under another name.
        """
        if self._there.setdefault(recorded, actual) != actual or (
            self._back.setdefault(actual, recorded) != recorded
        ):
            raise Mismatch(f"{where}: {recorded} is {self._there.get(recorded)}, not {actual}")

    def translate(self, text: str) -> str:
        """Put this run's ids into a recorded text."""
        exact = self._there.get(text)
        if exact is not None:
            return exact
        return _ID.sub(lambda match: self._there.get(match[0], match[0]), text)

    def translate_all(self, value: Any) -> Any:
        """Put this run's ids into a recorded JSON value."""
        if isinstance(value, str):
            return self.translate(value)
        if isinstance(value, list):
            return [self.translate_all(item) for item in value]
        if isinstance(value, dict):
            return {key: self.translate_all(item) for key, item in value.items()}
        return value

    # --- matching ---

    def match(self, recorded: Any, actual: Any, where: str = "") -> None:
        """Compare two JSON values, learning ids on the way.

        Raises Mismatch.
        """
        key = where.rsplit(".", 1)[-1]
        if key in _TIMES:
            return
        if isinstance(recorded, dict) and isinstance(actual, dict):
            self._match_dict(recorded, actual, where)
        elif isinstance(recorded, list) and isinstance(actual, list):
            self._match_list(recorded, actual, where, key in _UNORDERED)
        elif isinstance(recorded, str) and isinstance(actual, str):
            self._match_text(recorded, actual, where)
        elif isinstance(recorded, (int, float)) and isinstance(actual, (int, float)):
            if abs(recorded - actual) > 1e-6 * max(1, abs(recorded)):
                raise Mismatch(f"{where}: {actual}, recorded {recorded}")
        elif recorded != actual:
            raise Mismatch(f"{where}: {actual!r}, recorded {recorded!r}")

    def _match_dict(self, recorded: dict[str, Any], actual: dict[str, Any], where: str) -> None:
        recorded = {self.translate(key): item for key, item in recorded.items()}
        there = {key for key in recorded if not self._ignores(where, key)}
        here = {key for key in actual if not self._ignores(where, key)}
        if there != here:
            raise Mismatch(f"{where}: lacks {sorted(there - here)}, has {sorted(here - there)} too")
        for key in recorded:
            if key in there:
                self.match(recorded[key], actual[key], f"{where}.{key}")

    def _ignores(self, where: str, key: str) -> bool:
        return f"{where}.{key}".replace("[]", "").endswith(tuple(self._ignored))

    def _match_list(self, recorded: list[Any], actual: list[Any], where: str, unordered: bool) -> None:
        if len(recorded) != len(actual):
            raise Mismatch(f"{where}: {len(actual)} items, recorded {len(recorded)}: {_short(actual)}")
        if not unordered:
            for number, (one, other) in enumerate(zip(recorded, actual, strict=True)):
                self.match(one, other, f"{where}[{number}]")
            return
        left = list(actual)
        for one in recorded:
            left.remove(self.find(one, left, f"{where}[]"))

    def find(self, recorded: Any, candidates: list[Any], where: str) -> Any:
        """Return the first candidate that matches, and learn its ids.

        Raises Mismatch.
        """
        reasons = []
        for candidate in candidates:
            attempt = self.copy()
            try:
                attempt.match(recorded, candidate, where)
            except Mismatch as mismatch:
                reasons.append(str(mismatch))
                continue
            self.adopt(attempt)
            return candidate
        raise Mismatch(f"{where}: nothing matches {_short(recorded)}: {'; '.join(reasons[:5])}")

    def _match_text(self, recorded: str, actual: str, where: str) -> None:
        if where.removesuffix(".value").rsplit(".", 1)[-1] in _OPAQUE:
            self.bind(recorded, actual, where)
            return
        recorded, actual = _in_order(recorded), _in_order(actual)
        there, here = _ID.findall(recorded), _ID.findall(actual)
        if len(there) != len(here) or _ID.sub("*", recorded) != _ID.sub("*", actual):
            raise Mismatch(f"{where}: {actual!r}, recorded {recorded!r}")
        for one, other in zip(there, here, strict=True):
            self.bind(one, other, where)


def _in_order(text: str) -> str:
    """Put the resources that a message lists in alphabetical order; in offers their order varies."""
    head, sep, tail = text.partition("is more than available ")
    if sep:
        return head + sep + "; ".join(sorted(tail.split("; ")))
    head, sep, tail = text.partition(" does not contain ")
    return "; ".join(sorted(head.split("; "))) + sep + tail if sep else text


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 400 else text[:400] + "…"
