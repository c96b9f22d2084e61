"""The page of what the box in the header finds, and its lines alone, for the list below the box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from peloton.web.pages import Moved, Page, Subject
from peloton.web.requests import calls, parts
from peloton.web.views.finding.search import destination, found


async def load(subject: Subject) -> Mapping[str, Any]:
    """Find what a text names. Raises Moved where that is one thing without doubt."""
    text = subject.query.get("q", "").strip()
    kinds = await found(subject.calls, text)
    if url := destination(kinds):
        raise Moved(url)
    return {"text": text, "kinds": kinds}


async def suggest(request: Request) -> Response:
    """Answer with what a text finds, as a part of a page."""
    text = request.query_params.get("q", "").strip()
    kinds = await found(calls(request), text)
    html = parts(request).templates.page("search_lines.html", {"text": text, "kinds": kinds})
    return HTMLResponse(html, headers={"cache-control": "no-store"})


PAGES = (Page("/search", "search.html", load),)
ROUTES = (Route("/search/lines", suggest),)
