"""Lists and watches: collections as they were seen, for each user, and their changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams

from peloton.client.auth import Auth
from peloton.errors import PelotonError
from peloton.web.kube.core.kinds import POD, Kind
from peloton.web.kube.core.refusals import Refusal, refusal_of
from peloton.web.kube.core.selectors import Matches, fields_match, labels_match
from peloton.web.kube.core.tables import table
from peloton.web.kube.core.values import Object
from peloton.web.kube.core.versions import ADDED, BOOKMARK, Counter, Seen, events, expired, parse_version
from peloton.web.kube.paging import Asked, Few, few, page, too_many
from peloton.web.kube.reading import Reader

MOST_COLLECTIONS = 256
"""Collections that are known, over all users; the one that was not used for longest is dropped."""
MOST_OBJECTS = 200_000
"""Objects of all collections together, some of them as they were before."""
LONGEST_WATCH_SECONDS, USUAL_WATCH_SECONDS = 3600.0, 1800.0
BOOKMARK_SECONDS = 10.0
REST_SHARE = 4.0
"""A watch waits this many times as long as its last look took, so that large ones do not fill a core."""
INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a collection is asked for."""

    kind: Kind
    namespace: str
    label_selector: str
    field_selector: str
    matches: Matches

    @classmethod
    def of(cls, kind: Kind, namespace: str, name: str, query: QueryParams) -> Selection:
        """Read the selectors. Raises Refusal for bad ones."""
        label_selector, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        if name:
            fields = ",".join(filter(None, (fields, f"metadata.name={name}")))
        by_label, by_field = labels_match(label_selector), fields_match(fields, kind.plural)

        def matches(found: Mapping[str, Any]) -> bool:
            inside = not namespace or found["metadata"].get("namespace") == namespace
            return inside and by_label(found) and by_field(found)

        return cls(kind, namespace, label_selector, fields, matches)


class Collections:
    """All collections that were seen."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._counter = Counter(int(wall() * 1e6))
        self._seen: OrderedDict[tuple[Any, ...], Seen] = OrderedDict()

    @property
    def version(self) -> str:
        """Return the present version."""
        return str(self._counter.last)

    def seen(self, auth: Auth | None, kind: Kind, scope: str) -> Seen:
        """Return a collection of a user; events have one for each selector: not all of them are read."""
        key = (auth, kind, scope)
        if key not in self._seen:
            self._counter.next()  # what was dropped has expired, even where nothing has changed since
            self._seen[key] = Seen(self._counter)
            while len(self._seen) > MOST_COLLECTIONS:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        return self._seen[key]

    def check(self, auth: Auth | None, kind: Kind, version: int) -> None:
        """Raise Refusal for a version that has expired, and keep nothing."""
        known = self._seen.get((auth, kind, ""))
        if known is None:
            raise expired(version)
        known.since(version)

    async def read(self, reader: Reader, selection: Selection) -> tuple[Seen, list[Object]]:
        """Observe a collection; return it, and what of it is selected. Raises Refusal, PelotonError."""
        scope, found = await self._found(reader, selection)
        return self._observe(reader, selection, scope, found)

    def _observe(
        self, reader: Reader, selection: Selection, scope: str, found: list[Object]
    ) -> tuple[Seen, list[Object]]:
        namespace = selection.namespace
        # Only now: who may not read takes no place from those who may.
        seen = self.seen(reader.calls.auth, selection.kind, scope)

        def complete(each: Mapping[str, Any]) -> bool:
            return not namespace or each["metadata"].get("namespace") == namespace

        observed = seen.observe(found, complete)
        self._trim()
        return seen, [each for each in observed if selection.matches(each)]

    async def listed(
        self, reader: Reader, selection: Selection, asked: Asked | None
    ) -> tuple[str, list[Object], str]:
        """Return the version of a list, what of it is selected, and what continues it.

        Pages are of pods that are too many at a time; other lists are whole.
        """
        if selection.kind is POD and asked is not None:
            jobs = await few(reader, selection.namespace, selection.label_selector, selection.field_selector)
            if not isinstance(jobs, Few):
                found, token = await page(reader, jobs, asked, selection.matches)
                for each in found:
                    each["metadata"]["resourceVersion"] = self.version
                return self.version, found, token
            seen, selected = self._observe(reader, selection, jobs.scope, jobs.pods)
        else:
            seen, selected = await self.read(reader, selection)
        return str(seen.version), selected, ""

    async def _found(self, reader: Reader, selection: Selection) -> tuple[str, list[Object]]:
        """Read a collection, or the part of it that is known by itself. Raises Refusal, PelotonError."""
        kind, namespace, fields = selection.kind, selection.namespace, selection.field_selector
        if kind is POD:
            pods = await few(reader, namespace, selection.label_selector, fields)
            if not isinstance(pods, Few):
                raise too_many(pods)
            return pods.scope, pods.pods
        found = await reader.objects(kind, namespace, fields)
        return (f"{namespace}?{fields}" if kind.plural == "events" else ""), found

    def _trim(self) -> None:
        """Drop collections that were not used for longest, but not the last one."""
        held = sum(seen.size for seen in self._seen.values())
        while len(self._seen) > 1 and held > MOST_OBJECTS:
            held -= self._seen.popitem(last=False)[1].size

    def versioned(self, reader: Reader, kind: Kind, found: Object) -> Object:
        """Return one object with its version."""
        (observed,) = self.seen(reader.calls.auth, kind, "").observe([found])
        return observed


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch, as it is asked for."""

    version: int | None
    """From which version on; None: all that is there comes first."""
    bookmarks: bool
    initial_end: bool
    """Whether the end of what is there at first is told."""
    seconds: float

    @classmethod
    def of(cls, query: QueryParams) -> Watch:
        """Read the parameters. Raises Refusal."""
        text = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents") == "true"
        given = query.get("timeoutSeconds", "")
        seconds = (
            float(given) if given.isascii() and given.isdigit() and len(given) < 9 else USUAL_WATCH_SECONDS
        )
        version = None if initial or text in ("", "0") else parse_version(text)
        return cls(
            version, query.get("allowWatchBookmarks") == "true", initial, min(seconds, LONGEST_WATCH_SECONDS)
        )


class Watcher:
    """Tells the changes of a selection."""

    def __init__(
        self,
        collections: Collections,
        reader: Reader,
        selection: Selection,
        watch: Watch,
        poll_seconds: float,
    ) -> None:
        self._collections = collections
        self._reader = reader
        self._selection = selection
        self._watch = watch
        self._poll_seconds = poll_seconds

    async def lines(self, in_table: str, closing: Callable[[], bool]) -> AsyncGenerator[bytes]:
        """Yield the events, each on a line; the last tells why it ended, where it failed.

        `in_table`: what is in each row of a table; empty: objects are told as they are.
        """
        shown = Shown(self._selection.kind, in_table)
        try:
            async for line in self._told(shown, closing):
                yield line
        except Refusal as refusal:
            yield encoded("ERROR", refusal.status())
        except PelotonError as error:
            yield encoded("ERROR", refusal_of(error).status())

    async def _told(self, shown: Shown, closing: Callable[[], bool]) -> AsyncGenerator[bytes]:
        until = time.monotonic() + self._watch.seconds
        last = self._watch.version
        if last is not None:
            self._check(last)
        seen, found = await self._observe()
        if last is None:
            last = seen.version
            for each in found:
                yield encoded(ADDED, shown.of(each))
            if self._watch.initial_end:
                yield encoded(BOOKMARK, self._bookmark(last, {INITIAL_END: "true"}))
        marked, took = time.monotonic(), 0.0
        while True:
            changes, last = seen.since(last), seen.version
            for kind, each in events(changes, self._selection.matches):
                yield encoded(kind, shown.of(each))
            if self._watch.bookmarks and time.monotonic() - marked >= BOOKMARK_SECONDS:
                marked = time.monotonic()
                yield encoded(BOOKMARK, self._bookmark(last))
            if time.monotonic() >= until or closing():
                return
            await asyncio.sleep(min(pause(self._poll_seconds, took), max(0.0, until - time.monotonic())))
            begun = time.monotonic()
            seen = await self._read()
            took = time.monotonic() - begun

    def _check(self, version: int) -> None:
        """Raise Refusal at once for a version that has expired, before anything is read."""
        kind = self._selection.kind
        if kind.plural not in ("events", "pods"):  # of these, parts may be known by themselves
            self._collections.check(self._reader.calls.auth, kind, version)

    async def _read(self) -> Seen:
        """Observe the collection; those who watch the same share what is read."""
        selection, shared = self._selection, self._reader.calls.cluster.shared
        parts: tuple[str, ...] = ()
        if selection.kind.plural in ("events", "pods"):
            parts = (selection.field_selector, selection.label_selector)
        key = ("kube", self._reader.calls.auth, selection.kind, selection.namespace, parts)
        seen, _ = await shared.get(key, self._poll_seconds / 2, self._observe)
        return seen

    async def _observe(self) -> tuple[Seen, list[Object]]:
        return await self._collections.read(self._reader, self._selection)

    def _bookmark(self, version: int, annotations: Mapping[str, str] | None = None) -> Object:
        kind = self._selection.kind
        metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


def pause(poll_seconds: float, took: float) -> float:
    """Return the seconds between two looks, of which the last has taken `took`."""
    return max(poll_seconds, REST_SHARE * took)


class Shown:
    """How objects of a watch are told: as they are, or as tables of one row."""

    def __init__(self, kind: Kind, in_table: str) -> None:
        self._kind = kind
        self._in_table = in_table
        self._first = True

    def of(self, found: Object) -> Object:
        """Return an object as it is told; only the first table defines the columns."""
        if not self._in_table:
            return found
        metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
        shown = table(self._kind.plural, [found], time.time(), metadata, self._in_table, self._first)
        self._first = False
        return shown


def encoded(kind: str, found: Object) -> bytes:
    """Return an event on a line."""
    return (
        json.dumps({"type": kind, "object": found}, ensure_ascii=False, separators=(",", ":")).encode()
        + b"\n"
    )
