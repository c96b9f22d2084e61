"""Server-side apply: what a request asks for, and who says which fields then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from peloton.web.kube.core.managers import LONGEST_MANAGER, Managers, applied, merged, updated
from peloton.web.kube.core.manifests import stripped
from peloton.web.kube.core.objects import Held
from peloton.web.kube.core.refusals import REQUIRED, Cause, Refusal, invalid
from peloton.web.kube.core.values import Object
from peloton.web.kube.requests import Target


def given(request: Request, body: Any, wanted: Target) -> Object:
    """Return the object that is applied. Raises Refusal for a request that is none of this kind."""
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not an object")
    name = request.query_params.get("fieldManager", "")
    if not name:
        cause = Cause("fieldManager", "is required for apply patch", REQUIRED)
        raise invalid("PatchOptions.meta.k8s.io", "", [cause])
    if len(name) > LONGEST_MANAGER or not name.isprintable():
        cause = Cause("fieldManager", f"at most {LONGEST_MANAGER} printable characters")
        raise invalid("PatchOptions.meta.k8s.io", "", [cause])
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Refusal(400, "metadata: not an object")
    if metadata.get("managedFields"):
        raise Refusal(400, "metadata.managedFields must be nil")
    own = metadata.get("name")
    if own not in (None, "", wanted.name):
        text = f"the name of the object ({str(own)[:100]}) does not match the name on the URL ({wanted.name})"
        raise Refusal(400, text)
    return {**body, "metadata": {**metadata, "name": wanted.name}}


def first(request: Request, body: Object) -> Managers:
    """Return who has said an object that is not there yet."""
    return _over(request, {}, (), body, "")[1]


def over(request: Request, job: Held, shown: Object, body: Object) -> tuple[Object, Managers]:
    """Return a job's object with what is applied, and who says what then. Raises Refusal for a conflict."""
    whole, managers = _over(request, stripped(shown), job.managers, body, job.kind.api_version)
    version = body["metadata"].get("resourceVersion")
    if version:
        whole["metadata"]["resourceVersion"] = version
    return whole, managers


def _over(
    request: Request, live: Object, managers: Managers, body: Object, api_version: str
) -> tuple[Object, Managers]:
    query = request.query_params
    return applied(
        live,
        stripped(body),
        managers,
        query.get("fieldManager", ""),
        _now(),
        force=query.get("force") in ("true", "1"),
        api_version=api_version,
    )


def noted(request: Request, job: Held, current: Object, wanted: Object) -> Managers:
    """Return who says what after a change in another way; nobody of an object that was never applied so."""
    name = request.query_params.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
    return updated(
        stripped(current), stripped(wanted), job.managers, name[:LONGEST_MANAGER] or "unknown", _now()
    )


def laid_over(current: Object, body: Object) -> Object:
    """Return an object of whose fields no owners are kept with what is applied."""
    found: Object = merged(stripped(current), stripped(body))
    return found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
