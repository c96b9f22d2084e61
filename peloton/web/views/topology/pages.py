"""Hosts as a tree by their labels, such as zone and rack, and what runs in a part of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from peloton.errors import InvalidArgument, PelotonError, Unauthenticated
from peloton.model.plural import plural
from peloton.model.resources import KINDS
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.views.hosts.details import run_of
from peloton.web.views.hosts.heatmap import LABELS
from peloton.web.views.hosts.reads import all_hosts, runs_on
from peloton.web.views.hosts.rows import NOTHING, HostRow, Usage
from peloton.web.views.jobs.names import job_names

USUAL = ("region", "datacenter", "zone", "row", "rack")
"""Keys of labels that name places, the larger places first: what is grouped by unless something is chosen."""
MOST_LEVELS = 3
MOST_PLACES = 500
"""Lines of the tree."""
MOST_HOSTS = 1000
"""Hosts of a part whose tasks are read."""
MOST_JOBS = 100
"""Jobs of a part that are shown."""
MISSING = "(none)"
POLL_SECONDS = 3.0
Where = tuple[tuple[str, str], ...]
"""Keys with their values, from the largest place on."""


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the tree, with its sums."""

    where: Where
    hosts: int
    up: int
    states: tuple[tuple[str, int], ...]
    """Numbers of the hosts that are not up."""
    usage: Mapping[str, Usage]
    url: str
    hosts_url: str
    """The list of its hosts, where one label finds them; else empty."""

    @property
    def depth(self) -> int:
        """How many places are around it."""
        return len(self.where) - 1

    @property
    def name(self) -> str:
        """The value of its own label."""
        return self.where[-1][1]

    @property
    def key(self) -> str:
        """The key of its own label."""
        return self.where[-1][0]

    def used(self, kind: str) -> Usage:
        """Return what is allocated of a kind."""
        return self.usage.get(kind, NOTHING)


@dataclass(frozen=True, slots=True)
class JobHere:
    """A job with tasks in a part of the tree."""

    job_id: str
    name: str
    tasks: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Running:
    """What runs in a part of the tree."""

    where: Where
    jobs: Sequence[JobHere] = ()
    tasks: int = 0
    job_count: int = 0
    others: int = 0
    """Tasks that are not Peloton's."""
    trouble: str = ""


def keys_of(query: QueryParams, known: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that the tree is made by. Raises InvalidArgument."""
    text = query.get("by", "")
    if not text:
        return tuple(key for key in USUAL if key in known)[-2:] or tuple(known[:1])
    keys = tuple(dict.fromkeys(key.strip() for key in text.split(",") if key.strip()))
    if not 0 < len(keys) <= MOST_LEVELS:
        raise InvalidArgument("by", text, f"1 to {MOST_LEVELS} keys of labels, with commas between them")
    return keys


def place_of(row: HostRow, keys: Sequence[str]) -> Where:
    """Return where a host is."""
    held = dict(row.labels)
    return tuple((key, held.get(key, MISSING)) for key in keys)


def places(rows: Iterable[HostRow], keys: Sequence[str]) -> list[Place]:
    """Return the tree, each place before those in it."""
    found: dict[Where, list[HostRow]] = {}
    for row in rows:
        where = place_of(row, keys)
        for depth in range(1, len(where) + 1):
            found.setdefault(where[:depth], []).append(row)
    return [_place(where, inside, keys) for where, inside in sorted(found.items())]


def _place(where: Where, rows: Sequence[HostRow], keys: Sequence[str]) -> Place:
    states = Counter(row.state for row in rows if not row.up)
    usage = {
        kind: Usage(sum(each.allocated for each in held), sum(each.capacity for each in held))
        for kind in KINDS
        if (held := [row.usage[kind] for row in rows if kind in row.usage])
    }
    pairs = [("by", ",".join(keys)), *(("at", f"{key}={value}") for key, value in where)]
    (key, value), alone = where[-1], len(where) == 1 and where[-1][1] != MISSING
    return Place(
        where,
        len(rows),
        sum(row.up for row in rows),
        tuple(sorted(states.items())),
        usage,
        f"/topology?{urlencode(pairs)}#running",
        f"/hosts?{urlencode({'label': f'{key}={value}'})}" if alone else "",
    )


def chosen(query: QueryParams, keys: Sequence[str]) -> Where:
    """Return the part of the tree that an address names, if it names one. Raises InvalidArgument."""
    found = []
    for key, text in zip(keys, query.getlist("at"), strict=False):
        name, equals, value = text.partition("=")
        if not equals or name != key:
            raise InvalidArgument("at", text, f"{key}=value: each key of the tree in its order")
        found.append((key, value))
    return tuple(found)


async def running(calls: Calls, where: Where, rows: Iterable[HostRow], keys: Sequence[str]) -> Running:
    """Return what runs in a part of the tree, the jobs with the most tasks first."""
    names = [row.name for row in rows if place_of(row, keys)[: len(where)] == where]
    if len(names) > MOST_HOSTS:
        told = f"{plural(len(names), 'host')} are more than the {MOST_HOSTS:,} whose tasks are read"
        return Running(where, trouble=f"{told}: choose a smaller place")
    try:
        on_hosts = await runs_on(calls, names)
    except Unauthenticated:
        raise
    except PelotonError as error:
        return Running(where, trouble=str(error))
    tasks: Counter[str] = Counter()
    hosts: Counter[str] = Counter()
    for ids in on_hosts.values():
        jobs = Counter(run_of(task_id).job_id for task_id in ids)
        tasks.update(jobs)
        hosts.update(jobs.keys())
    others = tasks.pop("", 0)
    most = sorted(tasks.items(), key=lambda each: (-each[1], each[0]))[:MOST_JOBS]
    known = await job_names(calls, (job_id for job_id, _ in most))
    shown = [JobHere(job_id, known.get(job_id) or job_id, count, hosts[job_id]) for job_id, count in most]
    return Running(where, shown, sum(tasks.values()), len(tasks), others)


def offered(known: Iterable[str]) -> Iterator[str]:
    """Yield what the form offers to make the tree by: pairs of usual keys, and each key."""
    held = list(known)
    usual = [key for key in USUAL if key in held]
    for at, key in enumerate(usual):
        yield from (f"{key},{inner}" for inner in usual[at + 1 :])
    yield from held


async def load_topology(subject: Subject) -> Mapping[str, Any]:
    """Return the tree of hosts, and what runs in the part that is chosen. Raises PelotonError."""
    hosts = await all_hosts(subject.calls)
    keys = keys_of(subject.query, hosts.choices.keys)
    # Thousands of hosts take some hundredths of a second: others are not to wait for it.
    made = await asyncio.to_thread(places, hosts.rows, keys) if keys else []
    where = chosen(subject.query, keys)
    return {
        "keys": keys,
        "by": ",".join(keys),
        "offered": list(dict.fromkeys(offered(hosts.choices.keys))),
        "places": made[:MOST_PLACES],
        "place_count": len(made),
        "hosts": len(hosts.rows),
        "trouble": hosts.trouble,
        "kind_labels": LABELS,
        "kinds_here": [kind for kind in KINDS if any(row.used(kind).capacity for row in hosts.rows)],
        "where": where,
        "running": await running(subject.calls, where, hosts.rows, keys) if where else None,
    }


PAGES = (Page("/topology", "topology.html", load_topology, ("places", "running"), "Hosts", POLL_SECONDS),)
