"""The list of services and methods, as JSON and as a page."""

from __future__ import annotations

from html import escape
from typing import Any

from peloton.web.api.methods import Method, public_methods

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Methods of the Peloton API</title></head>
<body>
<main>
<h1>Methods of the Peloton API</h1>
<p>Each is called by <code>POST</code> with a JSON object.
<a href="/api/openapi.json">OpenAPI document</a></p>
{services}
</main>
</body>
</html>
"""


def wants_html(accept: str) -> bool:
    """Return whether an Accept header prefers HTML to JSON; one that names neither does not."""
    best = {"text/html": 0.0, "application/json": 0.0}
    for item in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if kind in best:
            best[kind] = _quality(parameters)
    return best["text/html"] > best["application/json"]


def as_json() -> dict[str, Any]:
    """Return services with their methods."""
    return {
        "openapi": "/api/openapi.json",
        "services": [
            {"name": name, "methods": [_described(method) for method in methods]}
            for name, methods in _by_service().items()
        ],
    }


def as_html() -> str:
    """Return a page with services and their methods."""
    return _PAGE.format(services="\n".join(_section(*each) for each in _by_service().items()))


def url(method: Method) -> str:
    """Return the path at which the door takes a method."""
    return f"/api{method.path}"


def _by_service() -> dict[str, list[Method]]:
    found: dict[str, list[Method]] = {}
    for method in public_methods().values():
        found.setdefault(method.service, []).append(method)
    return found


def _described(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "path": url(method),
        "request": str(method.request.DESCRIPTOR.full_name),
        "response": str(method.response.DESCRIPTOR.full_name),
        "streams": method.streams,
    }


def _section(name: str, methods: list[Method]) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(method.name)}</td><td><code>{escape(url(method))}</code></td>"
        f"<td>{'stream' if method.streams else 'one'}</td></tr>"
        for method in methods
    )
    head = '<tr><th scope="col">Method</th><th scope="col">POST to</th><th scope="col">Answers</th></tr>'
    return (
        f"<table><caption>{escape(name)}</caption>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table>"
    )


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
