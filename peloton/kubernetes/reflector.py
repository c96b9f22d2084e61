"""List-then-watch of a collection as a pure core: events in, instructions out.

The protocol is that of Kubernetes ("Kubernetes API Concepts: Efficient detection of changes"): a list gives
the objects with a resource version, a watch from there gives each change. A bookmark moves the version on
without a change. A version that is too old, 410, means to list again; what the list lacks was removed
meanwhile. A watch that was cut goes on from the last version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]
EXPIRED = 410
MOST_FAILURES = 2
"""Failures in a row, without an answer in between, after which the reflector gives up."""
MOST_EXPIRED = 4
"""Versions in a row that were too old, without an event in between, after which it gives up."""


# Events.


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of the list was read."""

    items: Sequence[Object]
    version: str
    next_page: str = ""
    """Token of the next page; empty after the last one."""


@dataclass(frozen=True, slots=True)
class Received:
    """A watch has sent an event of the type ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


@dataclass(frozen=True, slots=True)
class Ended:
    """The server has ended the watch, as it does after some minutes."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A call failed; `status` is that of HTTP, 0 where there was no answer."""

    status: int
    reason: str


Event: TypeAlias = Listed | Received | Ended | Failed


# Instructions.


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Read a page of the list, the first one without a token. Answered by Listed or Failed."""

    page: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch from a version on. Answered by Received, any number of times, then Ended or Failed."""

    version: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Report that the server cannot be followed now."""

    reason: str


Instruction: TypeAlias = ReadPage | Watch | GiveUp


# Changes, for whoever follows the collection.


@dataclass(frozen=True, slots=True)
class Replaced:
    """These are all objects: what is not among them is gone."""

    objects: Sequence[Object]


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is new or different."""

    object: Object


@dataclass(frozen=True, slots=True)
class Removed:
    """An object is gone; this is its last form."""

    object: Object


Change: TypeAlias = Replaced | Changed | Removed


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from an event. Without an instruction the watch goes on."""

    change: Change | None = None
    instruction: Instruction | None = None


NOTHING = Step()


class Phase(Enum):
    """What the reflector waits for."""

    NEW = "new"
    LISTING = "listing"
    WATCHING = "watching"
    GIVEN_UP = "given up"


class UnexpectedEvent(Exception):
    """An event came that nobody waits for."""


class Reflector:
    """Follow one collection."""

    def __init__(self) -> None:
        self.phase = Phase.NEW
        self.version = ""
        """The last version that was seen; empty before the first list."""
        self._pages: list[Object] = []
        self._failures = 0
        self._expired = 0

    def start(self) -> Instruction:
        """Return the first instruction."""
        if self.phase is not Phase.NEW:
            raise UnexpectedEvent(f"started while {self.phase.value}")
        return self._list()

    def on(self, event: Event) -> Step:
        """Take an event. Raises UnexpectedEvent where it is not waited for."""
        if isinstance(event, Failed) and self.phase in (Phase.LISTING, Phase.WATCHING):
            return self._failed(event)
        if isinstance(event, Listed) and self.phase is Phase.LISTING:
            return self._listed(event)
        if isinstance(event, Received) and self.phase is Phase.WATCHING:
            return self._received(event)
        if isinstance(event, Ended) and self.phase is Phase.WATCHING:
            return Step(instruction=Watch(self.version))
        raise UnexpectedEvent(f"{type(event).__name__} while {self.phase.value}")

    def _list(self) -> Instruction:
        self.phase, self._pages = Phase.LISTING, []
        return ReadPage()

    def _listed(self, event: Listed) -> Step:
        self._failures = 0
        self._pages += event.items
        if event.next_page:
            return Step(instruction=ReadPage(event.next_page))
        objects, self._pages = self._pages, []
        self.phase, self.version = Phase.WATCHING, event.version
        return Step(Replaced(objects), Watch(event.version))

    def _received(self, event: Received) -> Step:
        self._failures = self._expired = 0
        version = (event.object.get("metadata") or {}).get("resourceVersion")
        if isinstance(version, str) and version:
            self.version = version
        if event.type in ("ADDED", "MODIFIED"):
            return Step(Changed(event.object))
        if event.type == "DELETED":
            return Step(Removed(event.object))
        return NOTHING  # a bookmark, or a type of a later Kubernetes, which the version is all of

    def _failed(self, event: Failed) -> Step:
        """List again where the version is too old; else try once more, and give up."""
        if event.status == EXPIRED:
            self._failures, self._expired = 0, self._expired + 1
        else:
            self._failures += 1
        if self._failures >= MOST_FAILURES or self._expired >= MOST_EXPIRED:
            self.phase = Phase.GIVEN_UP
            return Step(instruction=GiveUp(event.reason))
        if event.status == EXPIRED or self.phase is Phase.LISTING:
            return Step(instruction=self._list())
        return Step(instruction=Watch(self.version))
