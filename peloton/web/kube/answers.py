"""Answers that several routes of this API give."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import JSONResponse, Response

from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object

MOST_WARNINGS, LONGEST_WARNING_CHARACTERS = 10, 500


def refused(refusal: Refusal) -> Response:
    """Answer with a Status object."""
    headers = {"WWW-Authenticate": 'Basic realm="peloton"'} if refusal.code == 401 else {}
    return JSONResponse(refusal.status(), refusal.code, headers)


def changed(found: Object, warnings: Iterable[str] = (), code: int = 200) -> Response:
    """Answer with an object that was changed, or made, and with warnings."""
    return JSONResponse(found, code, _warned(warnings))


def _warned(warnings: Iterable[str]) -> dict[str, str]:
    """Return the header by which clients are warned."""
    # Some texts have what a client gave in them: no line of a header ends there.
    plain = (" ".join(text.split())[:LONGEST_WARNING_CHARACTERS] for text in [*warnings][:MOST_WARNINGS])
    kept = ("".join(filter(str.isprintable, text)) for text in plain)
    texts = (text.replace("\\", "\\\\").replace('"', '\\"') for text in kept)
    value = ", ".join(f'299 - "{text}"' for text in texts)
    return {"Warning": value.encode("latin-1", "replace").decode("latin-1")} if value else {}
