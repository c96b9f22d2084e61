"""The list of services and methods."""

from __future__ import annotations

from typing import Any

from peloton.web.api.methods import Method, public_methods


def wants_html(accept: str) -> bool:
    """Return whether an Accept header prefers HTML to JSON; one that names neither does not."""
    best = {"text/html": 0.0, "application/json": 0.0}
    for item in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if kind in best:
            best[kind] = _quality(parameters)
    return best["text/html"] > best["application/json"]


def services() -> list[dict[str, Any]]:
    """Return services with their methods, in JSON."""
    return [
        {"name": name, "methods": [_described(method) for method in methods]}
        for name, methods in _by_service().items()
    ]


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


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
