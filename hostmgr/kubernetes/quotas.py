"""The ResourceQuotas of the namespace: what it may request at most."""

from __future__ import annotations

from collections.abc import Mapping

from hostmgr.kubernetes.core.quantities import limits_of
from peloton.errors import InvalidArgument, Unavailable
from peloton.kubernetes.client import ApiClient, ApiError

_NO_RIGHT = 403


async def read_quota(client: ApiClient, namespace: str) -> Mapping[str, int]:
    """Return the limits: thousandths by kind. Without the right to read them there are none.

    Quotas with a scope count for some pods only, and are left out. Raises Unavailable, and InvalidArgument
    for an amount that is none.
    """
    try:
        answer = await client.call("GET", f"/api/v1/namespaces/{namespace}/resourcequotas")
    except ApiError as error:
        if error.status == _NO_RIGHT:
            return {}
        raise Unavailable(f"ResourceQuotas of {namespace}: {error}") from None
    specs = [each.get("spec") or {} for each in answer.get("items") or ()]
    try:
        return limits_of(spec.get("hard") or {} for spec in specs if not _scoped(spec))
    except ValueError as error:
        raise InvalidArgument(f"resourcequotas of {namespace}", str(error), "amounts of Kubernetes") from None


def _scoped(spec: Mapping[str, object]) -> bool:
    return bool(spec.get("scopes") or spec.get("scopeSelector"))
