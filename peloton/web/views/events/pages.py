"""The feed of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from peloton.errors import InvalidArgument
from peloton.web.pages import Page, Subject
from peloton.web.views.events.feed import SOURCES, read_feed
from peloton.web.views.jobs.names import names_in

MINUTE = 60
LATEST = 4e9
"""Seconds since 1970 that an address may name: in the year 2096."""
POLL_SECONDS = 3.0


def kinds_of(query: QueryParams) -> tuple[str, ...]:
    """Return the kinds of events of an address; all where it names none. Raises InvalidArgument."""
    kinds = tuple(dict.fromkeys(kind for kind in query.getlist("kind") if kind))
    for kind in kinds:
        if kind not in SOURCES:
            raise InvalidArgument("kind", kind, f"one of {', '.join(SOURCES)}")
    return kinds or tuple(SOURCES)


def before_of(query: QueryParams, now: float) -> float:
    """Return before when the events are that an address asks for. Raises InvalidArgument."""
    text = query.get("before", "")
    if not text:
        # The requests of a minute are alike, and share answers; clocks of daemons may be ahead.
        return float(now // MINUTE * MINUTE + 2 * MINUTE)
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(text) < 30 and float(text) < LATEST):
        raise InvalidArgument("before", text, "seconds since 1970")
    return float(text)


async def load_events(subject: Subject) -> Mapping[str, Any]:
    """Return a page of the feed. Raises Unauthenticated."""
    kinds, before = kinds_of(subject.query), before_of(subject.query, subject.now)
    feed = await read_feed(subject.calls, kinds, before)
    chosen = [("kind", kind) for kind in kinds] if len(kinds) < len(SOURCES) else []
    newest = f"/events?{urlencode(chosen)}" if chosen else "/events"
    earlier = [*chosen, ("before", repr(feed.earlier))]
    return {
        "kinds": kinds,
        "all_kinds": tuple(SOURCES),
        "feed": feed,
        "names": await names_in(subject.calls, (event.what for event in feed.events)),
        "past": "before" in subject.query and bool(subject.query["before"]),
        "newest_url": newest,
        "earlier_url": f"/events?{urlencode(earlier)}" if feed.earlier else "",
    }


PAGES = (Page("/events", "events.html", load_events, ("events",), "Overview", POLL_SECONDS),)
