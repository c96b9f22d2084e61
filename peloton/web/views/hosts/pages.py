"""The pages about hosts, and the start and the end of maintenance."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.api.v0.host.svc import host_svc_pb2
from peloton.calls.web import (
    COMPLETE_MAINTENANCE,
    GET_HOST_HISTORY,
    GET_MESOS_AGENT_INFO,
    LIST_USED_HOSTS,
    START_MAINTENANCE,
)
from peloton.clock import NANOSECONDS, parse_rfc3339
from peloton.errors import InvalidArgument, NotFound, PelotonError, Unauthenticated
from peloton.model.plural import plural
from peloton.model.resources import KINDS
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.web.charts import Chart
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.permissions import host_change, host_denials, host_refusals
from peloton.web.requests import calls, done, fields, render
from peloton.web.views.hosts.details import MOST_TASKS, AgentView, agent_views
from peloton.web.views.hosts.heatmap import LABELS, LEGEND, HeatMap, heat_map
from peloton.web.views.hosts.reads import (
    all_hosts,
    lost_tasks,
    maintenance_preview,
    pool_names,
    task_counts,
    tasks_on,
)
from peloton.web.views.hosts.rows import (
    PAGE_SIZES,
    STATES,
    HostRow,
    HostsQuery,
    host_url,
    hosts_page,
    selected,
)
from peloton.web.views.shared.histories import DAY, DAYS, DAYS_AGE, MONTH, SPANS, WEEK
from peloton.web.views.shared.usage_charts import host_charts

POLL_SECONDS = 1.8
KEPT_SECONDS = 35 * 86_400
"""For how long changes of hosts are kept."""
COURSE_AGE = 5.0
"""How old a chart of the last day may be, in seconds."""
_SPANS = {each: SPANS[each] for each in (DAY, WEEK, MONTH)}
"""Of the charts of a host."""
MOST_AT_ONCE = 200
"""Hosts whose maintenance is started in one request."""


async def load_hosts(subject: Subject) -> Mapping[str, Any]:
    """Read the list of hosts and the heat map. Raises PelotonError."""
    query = HostsQuery.of(subject.query)
    hosts = await all_hosts(subject.calls)
    chosen = selected(hosts.rows, query)
    page = hosts_page(hosts.rows, chosen, query)
    counts = await task_counts(subject.calls, [row.name for row in page.rows])
    heat = heat_map(chosen, query.kind, query.group)
    denied = await host_refusals(subject.calls)
    lost = any(row.loss is not None for row in hosts.rows)
    return {
        "denied": denied,
        "denials": host_denials(denied, "start", "complete", *(["forget"] if lost else [])),
        "lost": lost,
        "query": query,
        "trouble": hosts.trouble,
        "hosts": replace(page, tasks=counts),
        "heat": heat,
        "heat_values": values(heat),
        "heat_shape": shape(heat),
        "legend": LEGEND,
        "choices": hosts.choices,
        "kind_labels": LABELS,
        "states": STATES,
        "sizes": PAGE_SIZES,
    }


def values(heat: HeatMap) -> str:
    """Return the values of all cells in order, short: browsers that watch get them instead of the map."""
    return " ".join(cell.value for group in heat.groups for cell in group.cells)


def shape(heat: HeatMap) -> str:
    """Return a digest of what the cells are: where it changes, browsers load the map again."""
    groups = ("\0".join((group.name, *[cell.url for cell in group.cells])) for group in heat.groups)
    return hashlib.blake2b("\0\0".join((heat.kind, *groups)).encode(), digest_size=9).hexdigest()


async def load_host(subject: Subject) -> Mapping[str, Any]:
    """Read the page of a host. Raises PelotonError."""
    name = subject.path["name"]
    hosts = await all_hosts(subject.calls)
    row = hosts.get(name)
    tasks, count = await tasks_on(subject.calls, name, MOST_TASKS)
    agents, agents_trouble = await _agents(subject.calls, name)
    history, history_trouble = await _history(subject.calls, name, subject.now)
    span = _span_of(subject.query)
    used, charts, used_trouble = await _used(subject.calls, row, span)
    denied = await host_refusals(subject.calls)
    offered = ("start" if row.up else "forget" if row.loss else "complete", "change")
    return {
        "denied": denied,
        "denials": host_denials(denied, *offered),
        "host": row,
        "trouble": hosts.trouble,
        "tasks": tasks,
        "task_count": count,
        "agents": agents,
        "agents_trouble": agents_trouble,
        "used": used,
        "usage_charts": charts,
        "used_trouble": used_trouble,
        "span": span,
        "spans": _SPANS,
        "history": history,
        "history_trouble": history_trouble,
        "kind_labels": LABELS,
        "resource_kinds": KINDS,
        "pools": await pool_names(subject.calls),
        "start_url": maintenance_url("start", [name]),
        "complete_url": maintenance_url("complete", [name]),
        "forget_url": maintenance_url("forget", [name]),
        "ran": await lost_tasks(subject.calls, row),
    }


async def _agents(calls: Calls, name: str) -> tuple[tuple[AgentView, ...], str]:
    """Return the agents of a host, or why they are not known."""
    try:
        request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=name)
        return agent_views(await calls.read(GET_MESOS_AGENT_INFO, request)), ""
    except NotFound:  # it has no agent, as the page says
        return (), ""
    except PelotonError as error:
        return (), str(error)


def _span_of(query: QueryParams) -> str:
    """Return the span of the charts that an address asks for. Raises InvalidArgument."""
    span = query.get("span") or DAY
    if span not in _SPANS:
        raise InvalidArgument("span", span, f"one of {', '.join(_SPANS)}")
    return span


async def _used(
    calls: Calls, row: HostRow, span: str
) -> tuple[sampling_pb2.HostUsage | None, tuple[Chart, ...], str]:
    """Return what the tasks on a host use now, and over time; and why it is not known, empty where it is."""
    days = DAYS.get(span, 0)
    request = sampling_pb2.ListHostsRequest(hostnames=[row.name], with_course=True, days=days)
    try:
        hosts = (await calls.read(LIST_USED_HOSTS, request, DAYS_AGE if days else COURSE_AGE)).hosts
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return None, (), f"what tasks use is not known: {error}"
    if not hosts:
        return None, (), ""
    held = None if days else (row.used("cpu").allocated, row.used("memory").allocated)
    return hosts[0], host_charts(hosts[0], held), ""


async def _history(calls: Calls, name: str, now: float) -> tuple[Mapping[str, Any], str]:
    """Return the changes of a host, the newest first, or why they are not known."""
    try:
        request = history_pb2.GetHistoryRequest(hostname=name)
        answer = await calls.read(GET_HOST_HISTORY, request)
    except PelotonError as error:
        return {"changes": (), "begin": 0.0, "since": 0.0, "by": ""}, str(error)
    kinds = {
        history_pb2.Change.KIND_STATE: "State",
        history_pb2.Change.KIND_GOAL: "Goal",
        history_pb2.Change.KIND_POOL: "Host pool",
        history_pb2.Change.KIND_PRESENCE: "Agent",
    }
    changes = [
        (_seconds(each.time), kinds.get(each.kind, "Change"), each.before, each.after)
        for each in reversed(answer.changes)
    ]
    return {
        "changes": changes,
        "begin": _seconds(answer.begin),
        "complete": now - _seconds(answer.begin) > KEPT_SECONDS,
        "since": _seconds(answer.in_state_since),
        "by": answer.begun_by,
    }, ""


def _seconds(time: str) -> float:
    return parse_rfc3339(time) / NANOSECONDS


def maintenance_url(action: str, names: Sequence[str]) -> str:
    """Return the address of the preview of maintenance."""
    return f"/maintenance/{action}?{urlencode([('host', name) for name in names])}"


async def start_maintenance(request: Request) -> Response:
    """Show what maintenance would do; when posted, start it."""
    if request.method == "POST":
        names = names_of(fields(request, "host"))
        await calls(request).call(START_MAINTENANCE, host_svc_pb2.StartMaintenanceRequest(hostnames=names))
        return done(request, _after(names, "DRAINING"))
    names = names_of(request.query_params.getlist("host"))
    seen = await maintenance_preview(calls(request), names)
    if not seen.hosts and len(seen.unknown) == len(names):
        raise NotFound("no host of these names is known: " + ", ".join(seen.unknown))
    return render(
        request,
        "maintenance_start.html",
        {
            "preview": seen,
            "names": names,
            "back": _after(names),
            **await host_change(calls(request), "start"),
        },
    )


async def complete_maintenance(request: Request) -> Response:
    """Show what the end of maintenance would do; when posted, end it."""
    if request.method == "POST":
        names = names_of(fields(request, "host"))
        await calls(request).call(
            COMPLETE_MAINTENANCE, host_svc_pb2.CompleteMaintenanceRequest(hostnames=names)
        )
        return done(request, _after(names))
    names = names_of(request.query_params.getlist("host"))
    rows, unknown = (await all_hosts(calls(request))).split(names)
    if not rows:
        raise NotFound("no host of these names is known: " + ", ".join(unknown))
    ready = [row for row in rows if row.state == "DOWN"]
    others = [row for row in rows if row.state != "DOWN"]
    variables = {"ready": ready, "others": others, "unknown": unknown, "back": _after(names)}
    variables |= await host_change(calls(request), "complete")
    return render(request, "maintenance_complete.html", variables)


def names_of(given: Sequence[str]) -> list[str]:
    """Return the names of hosts, each once. Raises InvalidArgument."""
    names = list(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not names:
        raise InvalidArgument("host", "", "the name of a host: choose at least one")
    if len(names) > MOST_AT_ONCE:
        raise InvalidArgument("host", plural(len(names), "host"), f"at most {MOST_AT_ONCE} at a time")
    return names


def _after(names: Sequence[str], state: str = "") -> str:
    """Return where to go after a change of hosts."""
    if len(names) == 1:
        return host_url(names[0])
    return f"/hosts?{urlencode({'state': state})}" if state else "/hosts"


PAGES = (
    Page("/hosts", "hosts.html", load_hosts, ("numbers", "values", "table"), "Hosts", POLL_SECONDS),
    Page(
        "/hosts/{name:path}",
        "host.html",
        load_host,
        ("state", "usage", "used", "tasks", "agents", "history"),
        "Hosts",
    ),
)
ROUTES = (
    Route("/maintenance/start", start_maintenance, methods=["GET", "POST"]),
    Route("/maintenance/complete", complete_maintenance, methods=["GET", "POST"]),
)
