"""What a user may not do: shown instead of tried."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from peloton.calls.web import (
    CHANGE_HOST_POOL,
    CHECK_METHODS,
    COMPLETE_MAINTENANCE,
    CREATE_HOST_POOL,
    DELETE_HOST_POOL,
    FORGET_HOSTS,
    MOVE_HOSTS,
    START_MAINTENANCE,
    Server,
)
from peloton.errors import PelotonError
from peloton.private.access import access_pb2
from peloton.web.cluster import Calls

SECONDS = 30.0
"""How long an answer counts."""


class Method(Protocol):
    """A method that a user may call or not, of whatever types its messages are."""

    @property
    def role(self) -> Server:
        """The role that serves it."""

    @property
    def method(self) -> str:
        """The method as `service/method`."""


async def refusals(calls: Calls, methods: Mapping[str, Method], pool: str = "") -> Mapping[str, str]:
    """Return why the user may not call methods, by their keys.

    What may be called, and what nobody can be asked about now, is left out: the call itself will tell. `pool`
    is the path of the pool that the calls would be about.
    """
    by_role: dict[Server, dict[str, str]] = {}
    for key, called in methods.items():
        by_role.setdefault(called.role, {})[key] = called.method
    found = await asyncio.gather(*(_of_role(calls, role, some, pool) for role, some in by_role.items()))
    return {key: why for each in found for key, why in each.items()}


_OF_HOSTS: Mapping[str, tuple[str, Method]] = {
    "start": ("Start maintenance", START_MAINTENANCE),
    "complete": ("Complete maintenance", COMPLETE_MAINTENANCE),
    "create": ("Create a pool", CREATE_HOST_POOL),
    "delete": ("Delete a pool", DELETE_HOST_POOL),
    "change": ("Change the host pool", CHANGE_HOST_POOL),
    "move": ("Move hosts", MOVE_HOSTS),
    "forget": ("Forget lost hosts", FORGET_HOSTS),
}
Denials = Sequence[tuple[str, str]]
"""What a user may not do, in words, each with the reason."""


async def host_refusals(calls: Calls) -> Mapping[str, str]:
    """Return why the user may not do what changes hosts and host pools, by the keys of `_OF_HOSTS`."""
    return await refusals(calls, {key: method for key, (_, method) in _OF_HOSTS.items()})


def host_denials(denied: Mapping[str, str], *keys: str) -> Denials:
    """Return what of some actions a user may not do, for a page that offers these."""
    return [(_OF_HOSTS[key][0], denied[key]) for key in keys if key in denied]


async def _of_role(calls: Calls, role: Server, methods: Mapping[str, str], pool: str) -> Mapping[str, str]:
    request = access_pb2.CheckMethodsRequest(methods=list(methods.values()), pool=pool)
    try:
        answer = await calls.read(CHECK_METHODS[role], request, SECONDS)
    except PelotonError:
        return {}
    return {
        key: verdict.reason
        for key, verdict in zip(methods, answer.verdicts, strict=True)
        if not verdict.allowed
    }


async def host_change(calls: Calls, key: str) -> Mapping[str, Any]:
    """Return the variables of a page that confirms an action: why the user may not take it, if so."""
    denied = await host_refusals(calls)
    return {"denied": denied.get(key, ""), "denials": host_denials(denied, key)}
