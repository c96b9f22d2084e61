"""The page about host pools, and what changes them: each change is shown before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.api.v0.host.svc import host_svc_pb2 as pb
from peloton.calls.web import (
    CHANGE_HOST_POOL,
    CREATE_HOST_POOL,
    DELETE_HOST_POOL,
    LIST_HOST_POOLS,
    MOVE_HOSTS,
)
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.cluster import UNNAMED
from peloton.model.host_pool import DEFAULT
from peloton.model.resources import KINDS
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.permissions import host_change, host_denials, host_refusals
from peloton.web.requests import calls, done, field, render
from peloton.web.views.hostpools.rows import HostPool, host_pools, move
from peloton.web.views.hosts.heatmap import LABELS
from peloton.web.views.hosts.reads import AllHosts, all_hosts, cheapest_first, runs_on
from peloton.web.views.hosts.rows import host_url

UNUSED = (
    "Host pools are not in use: tasks run on any host. The settings enable_host_pool of hostmgr and "
    "use_host_pools of placement confine them to the pools."
)
LONGEST_COUNT_DIGITS = 9
"""Digits of a number of hosts."""


async def _read(calls: Calls) -> tuple[tuple[HostPool, ...], AllHosts]:
    """Return the pools and all hosts. Raises Refused by older host managers, where host pools are off."""
    hosts = await all_hosts(calls)
    answer = await calls.read(LIST_HOST_POOLS, pb.ListHostPoolsRequest())
    return host_pools(answer.pools, hosts.rows), hosts


async def load(subject: Subject) -> Mapping[str, Any]:
    """Read the host pools. Raises PelotonError."""
    try:
        pools, hosts = await _read(subject.calls)
        answer = await subject.calls.read(LIST_HOST_POOLS, pb.ListHostPoolsRequest())
        off = UNUSED if answer.not_in_use else ""
    except Refused as error:
        pools, hosts, off = (), await all_hosts(subject.calls), str(error)
    moving = [row for row in hosts.rows if row.moving]
    denied = await host_refusals(subject.calls)
    return {
        "denied": denied,
        "denials": host_denials(denied, "create", "delete", "move"),
        "pools": pools,
        "off": off,
        "trouble": hosts.trouble,
        "moving": sorted(moving, key=lambda row: row.name),
        "resource_kinds": KINDS,
        "kind_labels": LABELS,
        "one_cluster": subject.cluster.clusters.names() == (UNNAMED,),
    }


async def create(request: Request) -> Response:
    """Add an empty pool."""
    name = field(request, "name").strip()
    await calls(request).call(CREATE_HOST_POOL, pb.CreateHostPoolRequest(name=name))
    return done(request, "/hostpools")


async def delete(request: Request) -> Response:
    """Show what the deletion of a pool would do; when posted, delete it."""
    if request.method == "POST":
        name = field(request, "name")
        await calls(request).call(DELETE_HOST_POOL, pb.DeleteHostPoolRequest(name=name))
        return done(request, "/hostpools")
    pools, _ = await _read(calls(request))
    pool = _pool(pools, request.query_params.get("name", ""))
    if pool.fixed:
        raise Refused(f"host pool {DEFAULT} cannot be deleted: it has the hosts that are in no other pool")
    return render(
        request,
        "hostpool_delete.html",
        {"pool": pool, "default": DEFAULT, **await host_change(calls(request), "delete")},
    )


async def change(request: Request) -> Response:
    """Show what a change of a host's pool would do; when posted, make it."""
    if request.method == "POST":
        name = field(request, "host")
        wire = pb.ChangeHostPoolRequest(
            hostname=name, sourcePool=field(request, "source"), destinationPool=field(request, "destination")
        )
        await calls(request).call(CHANGE_HOST_POOL, wire)
        return done(request, host_url(name))
    name = request.query_params.get("host", "")
    pools, hosts = await _read(calls(request))
    row = hosts.get(name)
    destination = _pool(pools, request.query_params.get("destination", ""))
    tasks = (await runs_on(calls(request), [name]))[name]
    variables = {
        "host": row,
        "destination": destination,
        "tasks": len(tasks),
        "same": destination.name == row.pool,
        **await host_change(calls(request), "change"),
    }
    return render(request, "hostpool_change.html", variables)


async def move_hosts(request: Request) -> Response:
    """Show which hosts would move between pools; when posted, begin to move them."""
    if request.method == "POST":
        wire = pb.MoveHostsRequest(
            sourcePool=field(request, "source"),
            srcPoolDesiredHosts=_count("source_wanted", field(request, "source_wanted")),
            destinationPool=field(request, "destination"),
            destPoolDesiredHosts=_count("destination_wanted", field(request, "destination_wanted")),
        )
        await calls(request).call(MOVE_HOSTS, wire)
        return done(request, "/hostpools")
    pools, hosts = await _read(calls(request))
    parameters = request.query_params
    planned = move(
        hosts.rows,
        pools,
        parameters.get("source", ""),
        parameters.get("destination", ""),
        _count("count", parameters.get("count", "")),
        await cheapest_first(calls(request)),
    )
    return render(
        request, "hostpool_move.html", {"move": planned, **await host_change(calls(request), "move")}
    )


def _pool(pools: tuple[HostPool, ...], name: str) -> HostPool:
    for pool in pools:
        if pool.name == name:
            return pool
    names = ", ".join(pool.name for pool in pools)
    raise NotFound(f"host pool {name or '(empty)'} does not exist; there are {names}")


def _count(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= LONGEST_COUNT_DIGITS):
        raise InvalidArgument(name, value, "a number of hosts")
    return int(value)


PAGES = (Page("/hostpools", "hostpools.html", load, ("pools", "moving"), "Host pools"),)
ROUTES = (
    Route("/hostpools/create", create, methods=["POST"]),
    Route("/hostpools/delete", delete, methods=["GET", "POST"]),
    Route("/hostpools/change", change, methods=["GET", "POST"]),
    Route("/hostpools/move", move_hosts, methods=["GET", "POST"]),
)
