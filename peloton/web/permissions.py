"""What a user may not do: shown instead of tried."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from peloton.errors import PelotonError
from peloton.private.access import access_pb2
from peloton.web.cluster import Calls

SECONDS = 30.0
"""How long an answer counts."""
Method = tuple[str, str]
"""The role that serves a method, and the method as `service/method`."""


async def refusals(calls: Calls, methods: Mapping[str, Method], pool: str = "") -> Mapping[str, str]:
    """Return why the user may not call methods, by their keys.

    What may be called, and what nobody can be asked about now, is left out: the call itself will tell. `pool`
    is the path of the pool that the calls would be about.
    """
    if not calls.user:
        return {}
    by_role: dict[str, dict[str, str]] = {}
    for key, (role, method) in methods.items():
        by_role.setdefault(role, {})[key] = method
    found = await asyncio.gather(*(_of_role(calls, role, some, pool) for role, some in by_role.items()))
    return {key: why for each in found for key, why in each.items()}


async def _of_role(calls: Calls, role: str, methods: Mapping[str, str], pool: str) -> Mapping[str, str]:
    request = access_pb2.CheckMethodsRequest(methods=list(methods.values()), pool=pool)
    try:
        answer = await calls.read(f"{role}_access_svc", "CheckMethods", request, SECONDS)
    except PelotonError:
        return {}
    return {
        key: verdict.reason
        for key, verdict in zip(methods, answer.verdicts, strict=True)
        if not verdict.allowed
    }
