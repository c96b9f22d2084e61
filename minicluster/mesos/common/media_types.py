"""What the HTTP APIs of master and agent have in common: methods, and media types that a client accepts."""

from __future__ import annotations

from minicluster.mesos.common.http_messages import JSON, PROTOBUF, Request, Response, refuse


def method_error(request: Request, allowed: str = "POST") -> Response | None:
    """Return the 405 for any method but ``allowed``."""
    if request.method == allowed:
        return None
    sentence = f"405 Method Not Allowed. Expecting one of {{ '{allowed}' }}, but received '{request.method}'."
    return refuse(405, sentence, ("Allow", allowed))


def accepted(request: Request, *kinds: str, header: str = "accept") -> str | None:
    """Return the first of some media types that a header allows, as it does where it is absent."""
    given = request.headers.get(header)
    if given is None:
        return kinds[0]
    allowed = {part.split(";")[0].strip() for part in given.split(",")}
    return next((kind for kind in kinds if {kind, "*/*", "application/*"} & allowed), None)


def accepted_type(request: Request) -> str | None:
    """Return the answer's media type: JSON unless only protobuf is accepted; None where neither is."""
    return accepted(request, JSON, PROTOBUF)
