"""What a user may not do: shown instead of tried."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

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
    by_role: dict[str, dict[str, str]] = {}
    for key, (role, method) in methods.items():
        by_role.setdefault(role, {})[key] = method
    found = await asyncio.gather(*(_of_role(calls, role, some, pool) for role, some in by_role.items()))
    return {key: why for each in found for key, why in each.items()}


_HOSTS = "peloton.api.v0.host.svc.HostService"
_OF_HOSTS: Mapping[str, tuple[str, str]] = {
    "start": ("Start maintenance", "StartMaintenance"),
    "complete": ("Complete maintenance", "CompleteMaintenance"),
    "create": ("Create a pool", "CreateHostPool"),
    "delete": ("Delete a pool", "DeleteHostPool"),
    "change": ("Change the host pool", "ChangeHostPool"),
    "move": ("Move hosts", "MoveHosts"),
}
Denials = Sequence[tuple[str, str]]
"""What a user may not do, in words, each with the reason."""


async def host_refusals(calls: Calls) -> Mapping[str, str]:
    """Return why the user may not do what changes hosts and host pools, by the keys of `_OF_HOSTS`."""
    methods = {key: ("hostmgr", f"{_HOSTS}/{method}") for key, (_, method) in _OF_HOSTS.items()}
    return await refusals(calls, methods)


def host_denials(denied: Mapping[str, str], *keys: str) -> Denials:
    """Return what of some actions a user may not do, for a page that offers these."""
    return [(_OF_HOSTS[key][0], denied[key]) for key in keys if key in denied]


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


async def host_change(calls: Calls, key: str) -> Mapping[str, Any]:
    """Return the variables of a page that confirms an action: why the user may not take it, if so."""
    denied = await host_refusals(calls)
    return {"denied": denied.get(key, ""), "denials": host_denials(denied, key)}
