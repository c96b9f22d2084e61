"""The pages about pools: the tree, and a pool with its history, queues, jobs and preemptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from peloton.calls.web import CREATE_POOL
from peloton.errors import InvalidArgument, NotFound, PelotonError
from peloton.web.formats import KINDS as SHOWN
from peloton.web.pages import Page, Subject
from peloton.web.permissions import Denials, refusals
from peloton.web.views.jobs.names import names_in
from peloton.web.views.pools.forms import CREATE, EDIT, METHODS
from peloton.web.views.pools.reads import (
    GANGS,
    RUNNING_JOBS,
    PoolConfig,
    all_pools,
    config_of,
    lost_in,
    preemptions_of,
    queues_of,
    running_jobs,
)
from peloton.web.views.pools.rows import (
    ALL,
    DEEPEST,
    NAMES,
    PoolRow,
    PoolsQuery,
    chunks,
    selected,
    used_kinds,
)
from peloton.web.views.shared.histories import DAY, SPANS, pool_history, span_of

POLL_SECONDS = 1.5
MOST_OFFSET = 100_000
"""Most gangs of a queue that the resource manager passes over."""
T = TypeVar("T")


async def load_pools(subject: Subject) -> Mapping[str, Any]:
    """Read the tree of pools. Raises PelotonError."""
    query = PoolsQuery.of(subject.query)
    rows, denied = await asyncio.gather(
        all_pools(subject.calls), refusals(subject.calls, {CREATE: CREATE_POOL})
    )
    found, kinds = selected(rows, query), used_kinds(rows)
    pieces = {
        f"rows-{place}": ("pool_rows.html", chunk) for place, chunk in enumerate(chunks(found, kinds, query))
    }
    return {
        "denied": denied,
        "denials": pool_denials(denied),
        "query": query,
        "total": len(rows),
        "found": len(found),
        "deepest": min(max((row.depth for row in rows), default=1), DEEPEST),
        "used_kinds": kinds,
        "kind_labels": {kind: shown.title for kind, shown in SHOWN.items()},
        "all": ALL,
        "pieces": pieces,
    }


async def load_pool(subject: Subject) -> Mapping[str, Any]:
    """Read the page of a pool. Raises NotFound, PelotonError."""
    calls, span, page = subject.calls, span_of(subject.query, DAY), _page(subject.query.get("page", ""))
    rows = await all_pools(calls)
    by_id = {row.id: row for row in rows}
    row = by_id.get(subject.path["id"])
    if row is None:
        raise NotFound(f"no resource pool has the id {subject.path['id']!r}")
    queues, jobs, preempted, config, lost, (charts, history_trouble) = await asyncio.gather(
        _or_why(queues_of(calls, row.id, (page - 1) * GANGS), ()),
        _or_why(running_jobs(calls, row.path), ((), 0)),
        _or_why(preemptions_of(calls, row.id), ()),
        _or_why(config_of(calls, row.id), PoolConfig()),
        _or_why(lost_in(calls, row, rows), ""),
        pool_history(calls, span, row.id, row.path, subject.now),
    )
    denied = await refusals(calls, METHODS, row.path)
    children = tuple(each for each in rows if each.parent == row.id)
    kinds = used_kinds(rows)
    below = chunks(children, kinds, PoolsQuery(), NAMES) if children else ()
    texts = [
        *(gang.why for queue in queues[0] for gang in queue.gangs),
        *(each.reason for each in preempted[0]),
    ]
    return {
        "denied": denied,
        "denials": pool_denials(denied),
        "pool": row,
        "config": config[0],
        "lost": lost[0],
        "lost_trouble": lost[1],
        "above": _above(row, by_id),
        "children": len(children),
        "pieces": {f"rows-{place}": ("pool_rows.html", chunk) for place, chunk in enumerate(below)},
        "used_kinds": kinds,
        "kind_labels": {kind: shown.title for kind, shown in SHOWN.items()},
        "charts": charts,
        "history_trouble": history_trouble,
        "span": span,
        "spans": SPANS,
        "queues": queues[0],
        "queues_trouble": queues[1],
        "page_number": page,
        "gangs": GANGS,
        "longest": max((queue.length for queue in queues[0]), default=0),
        "jobs": jobs[0][0],
        "job_count": jobs[0][1],
        "most_jobs": RUNNING_JOBS,
        "jobs_trouble": jobs[1],
        "preemptions": preempted[0],
        "names": await names_in(calls, texts),
        "preemptions_trouble": preempted[1],
    }


def pool_denials(denied: Mapping[str, str]) -> Denials:
    """Return what a user may not do with a pool, in words."""
    names = {EDIT: "Change the pool", CREATE: "New pool"}
    return [(names[key], why) for key, why in denied.items()]


async def _or_why(work: Awaitable[T], otherwise: T) -> tuple[T, str]:
    """Return what a part of the page shows, or something else and why that is not known."""
    try:
        return await work, ""
    except PelotonError as error:
        return otherwise, str(error)


def _above(row: PoolRow, by_id: Mapping[str, PoolRow]) -> Sequence[PoolRow]:
    """Return the pools above one, from the root on."""
    found: list[PoolRow] = []
    parent = by_id.get(row.parent)
    while parent is not None:
        found.insert(0, parent)
        parent = by_id.get(parent.parent)
    return found


def _page(text: str) -> int:
    most = MOST_OFFSET // GANGS
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) < 7 and 1 <= int(text) <= most):
        raise InvalidArgument("page", text, f"a number from 1 to {most}")
    return int(text)


PAGES = (
    Page("/pools", "pools.html", load_pools, ("numbers",), "Pools", POLL_SECONDS),
    Page(
        "/pools/{id}",
        "pool.html",
        load_pool,
        ("amounts", "charts", "queues", "jobs", "preemptions"),
        "Pools",
        POLL_SECONDS,
    ),
)
