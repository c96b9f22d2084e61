"""Versions of objects: what was seen of a collection, and the changes that follow from it.

A collection is observed when somebody lists or watches it. What differs from what was seen before is a change
with the next version. Versions are numbers that grow, and begin anew with the process at its time: one from
before, or one whose changes were dropped, has expired.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object

MOST_CHANGES = 20_000
"""Changes of a collection that are kept for watches that come back."""
ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"


class Change(NamedTuple):
    """A change of an object, with the object before it."""

    version: int
    kind: str
    found: Object
    before: Object | None


@dataclass(slots=True)
class Counter:
    """The last version that was given."""

    last: int

    def next(self) -> int:
        """Return a new version."""
        self.last += 1
        return self.last


class Seen:
    """A collection, as it was last seen."""

    def __init__(self, counter: Counter, most_changes: int = MOST_CHANGES) -> None:
        self._counter = counter
        self._objects: dict[str, Object] = {}
        self._changes: deque[Change] = deque(maxlen=most_changes)
        self._since = counter.last
        """The version from which on all changes are kept."""

    @property
    def size(self) -> int:
        """Return how many objects are held; changes hold the ones before them."""
        return len(self._objects) + 2 * len(self._changes)

    @property
    def version(self) -> int:
        """Return the present version."""
        return self._counter.last

    def observe(
        self, found: Iterable[Object], complete: Callable[[Object], bool] | None = None
    ) -> list[Object]:
        """Note objects as they are now, and return them with their versions.

        `complete` says of an object that was seen before whether it would be among them if it were still
        there; without it, none is missed.
        """
        present = {each["metadata"]["uid"]: each for each in found}
        if complete is not None:
            for uid in [uid for uid, each in self._objects.items() if uid not in present and complete(each)]:
                self._note(DELETED, self._objects.pop(uid))
        return [self._observed(uid, each) for uid, each in present.items()]

    def _observed(self, uid: str, found: Object) -> Object:
        before = self._objects.get(uid)
        if before is not None:
            found["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
            if found == before:
                return before
        self._objects[uid] = found
        self._note(ADDED if before is None else MODIFIED, found, before)
        return found

    def _note(self, kind: str, found: Object, before: Object | None = None) -> None:
        version = self._counter.next()
        if kind == DELETED:
            before, found = found, copy.deepcopy(found)
        found["metadata"]["resourceVersion"] = str(version)
        if len(self._changes) == self._changes.maxlen:
            self._since = self._changes[0].version
        self._changes.append(Change(version, kind, found, before))

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version. Raises Refusal for one that has expired."""
        if not self._since <= version <= self._counter.last:
            raise expired(version)
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]


def expired(version: object) -> Refusal:
    """Return the refusal of a version whose changes are not known any more."""
    return Refusal(410, f"too old resource version: {version}", "Expired")


def parse_version(text: str) -> int:
    """Return a version. Raises Refusal for a text that is none."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise Refusal(400, f"resourceVersion: Invalid value: {text!r}")
    return int(text)


def events(
    changes: Iterable[Change], matches: Callable[[Mapping[str, Any]], bool]
) -> Iterator[tuple[str, Object]]:
    """Yield changes as a watch with selectors tells them: what matches no more is gone for it."""
    for change in changes:
        now = change.kind != DELETED and matches(change.found)
        was = change.before is not None and matches(change.before)
        if now:
            yield (MODIFIED if was else ADDED), change.found
        elif was:
            yield DELETED, change.found
