"""Pages as data: where each is, what it reads, which of its parts are kept current."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from starlette.convertors import Convertor
from starlette.datastructures import QueryParams
from starlette.routing import compile_path

from peloton.client.auth import Auth
from peloton.errors import InvalidArgument, NotFound
from peloton.web.cluster import Calls, Cluster
from peloton.web.templating import Templates

LONGEST_URL_CHARACTERS = 4000
"""Characters of the path and the query of a page that is watched."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page is asked for: by whom, with which parameters."""

    calls: Calls
    path: Mapping[str, Any]
    """Parameters in the page's path."""
    query: QueryParams
    now: float
    """Seconds since 1970."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the page is about."""
        return self.calls.cluster


Load = Callable[[Subject], Awaitable[Mapping[str, Any]]]
"""Reads what a page shows. Returns the variables of its template. Raises PelotonError."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `live` names the blocks of its template that are kept current.

    In the template such a block stands in an element which names it:
    `<div data-live="states">{% block states %}…{% endblock %}</div>`. There `now` is None when the block is
    rendered for all who watch it: show times by `ui.when`, which then writes exact times, that the browser
    shows relative to its clock. `csrf` is empty; the browser fills in its own.

    Where `load` returns `pieces` (a template and a hashable item by name), each is kept current too, and is
    rendered only when its item changes: for tables of a thousand rows. With
    `{% set made = piece(template, item) %}` the page's template shows one by
    `<tbody data-live="{{ name }}" data-seen="{{ made | digest }}">{{ made }}</tbody>`: a browser that has a
    piece already is not sent it again when it begins to watch.
    """

    path: str
    """As starlette writes it: `/pools/{id}`."""
    template: str
    load: Load
    live: tuple[str, ...] = ()
    nav: str = ""
    """The entry of the navigation that it belongs to."""
    poll_seconds: float | None = None
    """How often it is read for those who watch it, where not as often as the settings say."""


NAVIGATION = (
    ("Overview", "/"),
    ("Pools", "/pools"),
    ("Jobs", "/jobs"),
    ("Hosts", "/hosts"),
    ("Host pools", "/hostpools"),
)
_ELSEWHERE = {
    "maintenance": "Hosts",
    "submit": "Jobs",
    "groups": "Jobs",
    "schedules": "Jobs",
    "topology": "Hosts",
    "events": "Overview",
}
"""Entries of the navigation by the first part of paths that are not below the entry's own."""


def nav_of(path: str) -> str:
    """Return the entry of the navigation that a path belongs to, empty where it belongs to none."""
    first = path.strip("/").partition("/")[0]
    names = {address.strip("/"): name for name, address in NAVIGATION}
    return _ELSEWHERE.get(first) or names.get(first, "")


@dataclass(frozen=True, slots=True)
class Found:
    """The page at an address, with the parameters in its path."""

    page: Page
    path: Mapping[str, Any]
    query: tuple[tuple[str, str], ...]
    url: str
    """Path and query, encoded."""

    @classmethod
    def of(cls, page: Page, path: str, values: Mapping[str, Any], query: Iterable[tuple[str, str]]) -> Found:
        """Return a page at a decoded path, with the parameters that were found in it."""
        pairs, encoded = tuple(query), quote(path)
        return cls(page, values, pairs, f"{encoded}?{urlencode(pairs)}" if pairs else encoded)


class Moved(Exception):
    """What an address names has another address, which the browser is sent to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


@dataclass(slots=True)
class Reader:
    """Finds pages by their addresses, reads what they show, and renders them."""

    pages: Sequence[Page]
    templates: Templates
    cluster: Cluster
    clock: Callable[[], float] = time.time
    _compiled: list[tuple[Any, Mapping[str, Convertor[Any]], Page]] = field(init=False)

    def __post_init__(self) -> None:
        """Compile the paths."""
        self._compiled = []
        for page in self.pages:
            pattern, _, convertors = compile_path(page.path)
            self._compiled.append((pattern, convertors, page))

    @property
    def navigation(self) -> tuple[tuple[str, str], ...]:
        """The entries of the navigation whose pages there are: name and address."""
        paths = {page.path for page in self.pages}
        return tuple((name, path) for name, path in NAVIGATION if path in paths)

    def find(self, url: str) -> Found:
        """Return the page at a path with a query. Raises NotFound."""
        if len(url) > LONGEST_URL_CHARACTERS:
            raise InvalidArgument("page", url, f"at most {LONGEST_URL_CHARACTERS} characters long")
        encoded, _, query = url.partition("?")
        path = unquote(encoded)
        for pattern, convertors, page in self._compiled:
            if match := pattern.match(path):
                values = {key: convertors[key].convert(value) for key, value in match.groupdict().items()}
                pairs = tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=100))
                return Found.of(page, path, values, pairs)
        raise NotFound(f"there is no page {path!r}")

    async def load(self, found: Found, auth: Auth | None) -> dict[str, Any]:
        """Return the variables of the page's template. Raises PelotonError."""
        now = self.clock()
        calls = self.cluster.calls(auth)
        loaded = await found.page.load(Subject(calls, found.path, QueryParams(list(found.query)), now))
        return {
            **loaded,
            "now": now,
            "page": found.page,
            "nav": found.page.nav,
            "url": found.url,
            "navigation": self.navigation,
            "user": calls.user,
        }

    async def fragments(self, found: Found, auth: Auth | None) -> dict[str, str]:
        """Read the page, and return the HTML of each live block by name. Raises PelotonError."""
        variables = {**await self.load(found, auth), "now": None, "csrf": ""}
        result = {}
        for name in found.page.live:
            result[name] = self.templates.block(found.page.template, name, variables)
            await asyncio.sleep(0)  # a large page delays others by one block at most
        for name, (template, item) in variables.get("pieces", {}).items():
            result[name] = self.templates.piece(template, item)
        return result
