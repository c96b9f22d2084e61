"""Hosts as rows: what the host manager says of each, filtered, sorted and cut into pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from peloton.clock import NANOSECONDS, parse_rfc3339
from peloton.errors import InvalidArgument
from peloton.model.cluster import cluster_of
from peloton.model.resources import KINDS
from peloton.model.states import HostState
from peloton.present.holds import held_text

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostInfo
    from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2 import GetHostCacheResponse

PAGE_SIZES = (50, 100, 500)
LOST = "LOST"
STATES = (
    *(state.name for state in HostState if state not in (HostState.INVALID, HostState.UNKNOWN)),
    LOST,
)
SORTS = ("host", "state", "pool", *KINDS)
MOST_PAGES = 1_000_000
Label = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of a kind is allocated, in the unit of the kind."""

    allocated: float = 0.0
    capacity: float = 0.0

    @property
    def share(self) -> float:
        """Return the allocated share from 0 to 1; 0 where there is no capacity."""
        return min(max(self.allocated / self.capacity, 0.0), 1.0) if self.capacity > 0 else 0.0

    @property
    def percent(self) -> int:
        """Return the allocated share in percent."""
        return round(100 * self.share)

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.allocated + other.allocated, self.capacity + other.capacity)


NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Loss:
    """Since when a host is lost, and what ran there."""

    since: float
    """Seconds since 1970."""
    reason: str
    tasks: tuple[str, ...]
    """Some of the runs, by their Mesos task ids."""
    task_count: int


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in lists and on the heat map."""

    name: str
    state: str
    goal: str
    ip: str = ""
    pool: str = ""
    desired_pool: str = ""
    claim: str = ""
    """What placement does with it: ready, placing, reserved or held; empty without an agent."""
    held: str = ""
    """For whom room of it is held, and until when; empty for nobody."""
    labels: tuple[Label, ...] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """By kind; empty without an agent."""
    loss: Loss | None = None
    """Set where its agent is gone."""
    cells: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Its cell on the map of each kind, once it is made: the row of a host that does not change is kept."""

    @property
    def cluster(self) -> str:
        """Return the Mesos cluster of the host; empty for the unnamed one."""
        return cluster_of(self.name)

    @property
    def up(self) -> bool:
        """Return whether the host is in service."""
        return self.state == HostState.UP.name

    @property
    def connected(self) -> bool:
        """Return whether an agent of the host is registered."""
        return bool(self.usage)

    @property
    def moving(self) -> bool:
        """Return whether the host is on its way to another host pool."""
        return self.desired_pool not in ("", self.pool)

    @property
    def url(self) -> str:
        """Return the address of the host's page."""
        return host_url(self.name)

    def used(self, kind: str) -> Usage:
        """Return what is allocated of a kind."""
        return self.usage.get(kind, NOTHING)


def host_url(name: str) -> str:
    """Return the address of a host's page."""
    return f"/hosts/{quote(name)}"


Made = Mapping[str, tuple[bytes, HostRow]]
"""Rows by the names of their hosts, each with what it was made of."""


def host_rows(
    infos: Iterable[HostInfo], summaries: Iterable[GetHostCacheResponse.Summary], before: Made | None = None
) -> Made:
    """Merge what operators see of hosts with their amounts. Hosts of several agents have the sums.

    The rows of hosts that are as they were `before` are kept: to make thousands takes long.
    """
    agents: dict[str, list[GetHostCacheResponse.Summary]] = defaultdict(list)
    for summary in summaries:
        agents[summary.hostname].append(summary)
    before, usages = before or {}, dict[bytes, Mapping[str, Usage]]()
    made = {}
    for info in infos:
        name = info.hostname
        own = agents.get(name, ())
        encoded = [each.SerializeToString() for each in own]
        seen = b"".join([info.SerializeToString(), *encoded])
        known = before.get(name)
        if known is not None and known[0] == seen:
            made[name] = known
            continue
        alike = b"".join([each.partition(name.encode())[2] for each in encoded])  # their names come first
        if (usage := usages.get(alike)) is None:
            usage = usages[alike] = _usage(own)
        made[name] = seen, _row(info, own, usage)
    return made


def _row(
    info: HostInfo, agents: Sequence[GetHostCacheResponse.Summary], usage: Mapping[str, Usage]
) -> HostRow:
    return HostRow(
        name=info.hostname,
        state=LOST if info.HasField("lost") else _STATE_NAMES.get(info.state, "UNKNOWN"),
        goal=_STATE_NAMES.get(info.goal_state, "UNKNOWN"),
        ip=info.ip,
        pool=info.current_pool,
        desired_pool=info.desired_pool,
        claim=agents[0].status if agents else "",
        held=held_text(info.held),
        labels=tuple((label.key, label.value) for label in info.labels),
        usage=usage,
        loss=_loss(info) if info.HasField("lost") else None,
    )


def _loss(info: HostInfo) -> Loss:
    lost = info.lost
    return Loss(parse_rfc3339(lost.since) / NANOSECONDS, lost.reason, tuple(lost.tasks), lost.task_count)


_STATE_NAMES: Mapping[int, str] = {int(state): state.name for state in HostState}


def _usage(agents: Iterable[GetHostCacheResponse.Summary]) -> dict[str, Usage]:
    usage: dict[str, Usage] = {}
    for agent in agents:
        allocated = {each.kind: each.capacity for each in agent.allocation}
        for each in agent.capacity:
            part = Usage(allocated.get(each.kind, 0.0), each.capacity)
            usage[each.kind] = usage[each.kind] + part if each.kind in usage else part
    return usage


@dataclass(frozen=True, slots=True)
class HostsQuery:
    """Which hosts are shown, and how: the parameters of the page's address."""

    text: str = ""
    """Part of the name."""
    state: str = ""
    pool: str = ""
    label: str = ""
    """`key` or `key=value`."""
    kind: str = KINDS[0]
    group: str = "pool"
    """`pool`, `state`, `cluster`, `none`, or `label:KEY`."""
    sort: str = "host"
    descending: bool = False
    page: int = 1
    size: int = PAGE_SIZES[0]

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> HostsQuery:
        """Read the parameters of an address. Raises InvalidArgument."""
        sort = parameters.get("sort", "") or "host"
        group = parameters.get("group", "") or "pool"
        _check_group(group)
        return cls(
            text=parameters.get("q", "").strip(),
            state=_one_of("state", parameters.get("state", ""), ("", *STATES)),
            pool=parameters.get("pool", "").strip(),
            label=parameters.get("label", "").strip(),
            kind=_one_of("kind", parameters.get("kind", "") or KINDS[0], KINDS),
            group=group,
            sort=_one_of("sort", sort.removeprefix("-"), SORTS),
            descending=sort.startswith("-"),
            page=_number("page", parameters.get("page", "") or "1", range(1, MOST_PAGES)),
            size=_number("size", parameters.get("size", "") or str(PAGE_SIZES[0]), PAGE_SIZES),
        )

    def url(self, **changes: Any) -> str:
        """Return the address of the page with some parameters changed; the first page unless it is given."""
        new = replace(self, **{"page": 1, **changes})
        default = HostsQuery()
        named = {
            "q": new.text,
            "state": new.state,
            "pool": new.pool,
            "label": new.label,
            "kind": "" if new.kind == default.kind else new.kind,
            "group": "" if new.group == default.group else new.group,
            "sort": "" if (new.sort, new.descending) == ("host", False) else new.order,
            "page": "" if new.page == 1 else str(new.page),
            "size": "" if new.size == default.size else str(new.size),
        }
        given = urlencode({name: value for name, value in named.items() if value})
        return f"/hosts?{given}" if given else "/hosts"

    @property
    def order(self) -> str:
        """Return the parameter `sort`."""
        return ("-" if self.descending else "") + self.sort

    def sorted_by(self, column: str) -> str:
        """Return the address of the same page in the order of a column; the other way round if it is."""
        first_down = column in KINDS
        descending = not self.descending if column == self.sort else first_down
        return self.url(sort=column, descending=descending)

    def aria_sort(self, column: str) -> str:
        """Return the value of a column head's attribute `aria-sort`."""
        if column != self.sort:
            return "none"
        return "descending" if self.descending else "ascending"

    @property
    def filters(self) -> bool:
        """Return whether some hosts may be left out."""
        return bool(self.text or self.state or self.pool or self.label)


def _check_group(group: str) -> None:
    if group not in ("pool", "state", "cluster", "none") and not group.startswith("label:"):
        raise InvalidArgument("group", group, "pool, state, cluster, none or label:KEY")


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InvalidArgument(name, value, "one of " + ", ".join(filter(None, known)))
    return value


def _number(name: str, value: str, known: Sequence[int] | range) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value) in known):
        expected = (
            f"a number from {known.start} to {known.stop - 1}"
            if isinstance(known, range)
            else "one of " + ", ".join(map(str, known))
        )
        raise InvalidArgument(name, value, expected)
    return int(value)


def selected(rows: Iterable[HostRow], query: HostsQuery) -> list[HostRow]:
    """Return the hosts that the query asks for."""
    text = query.text.lower()
    key, equals, value = query.label.partition("=")

    def matches(row: HostRow) -> bool:
        return (
            text in row.name.lower()
            and query.state in ("", row.state)
            and query.pool in ("", row.pool, row.desired_pool)
            and (not key or any(name == key and (not equals or has == value) for name, has in row.labels))
        )

    return [row for row in rows if matches(row)] if query.filters else list(rows)


def ordered(rows: Iterable[HostRow], query: HostsQuery) -> list[HostRow]:
    """Return hosts in the order of the query; equal ones by name."""
    by_name = sorted(rows, key=lambda row: row.name)
    return (
        by_name if query.order == "host" else sorted(by_name, key=_key(query.sort), reverse=query.descending)
    )


def _key(sort: str) -> Callable[[HostRow], Any]:
    if sort in KINDS:
        return lambda row: (row.used(sort).share, row.used(sort).allocated)
    if sort == "state":
        return lambda row: STATES.index(row.state) if row.state in STATES else len(STATES)
    return lambda row: row.pool if sort == "pool" else row.name


@dataclass(frozen=True, slots=True)
class HostsPage:
    """One page of the table of hosts."""

    query: HostsQuery
    rows: tuple[HostRow, ...]
    tasks: Mapping[str, int]
    """Number of runs on each host of the page, as far as it is known."""
    found: int
    total: int
    page: int
    pages: int

    @property
    def first(self) -> int:
        """Return the number of the first row, from 1; 0 where there is none."""
        return (self.page - 1) * self.query.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """Return the number of the last row."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def hosts_page(rows: Sequence[HostRow], chosen: Sequence[HostRow], query: HostsQuery) -> HostsPage:
    """Cut a page out of the chosen hosts; a page behind the last one is the last one."""
    pages = max(1, -(-len(chosen) // query.size))
    page = min(query.page, pages)
    start = (page - 1) * query.size
    shown = tuple(ordered(chosen, query)[start : start + query.size])
    return HostsPage(query, shown, {}, len(chosen), len(rows), page, pages)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the forms of the page offer."""

    pools: tuple[str, ...]
    clusters: tuple[str, ...]
    keys: tuple[str, ...]
    """Keys of labels by which hosts may be grouped."""


MOST_GROUPS = 60


def choices(rows: Iterable[HostRow]) -> Choices:
    """Return the host pools, the clusters, and the label keys that do not set each host apart."""
    rows = list(rows)
    values: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for key, value in row.labels:
            values[key].add(value)
    most = min(MOST_GROUPS, max(1, len(rows) - 1))
    keys = (key for key, found in values.items() if len(found) <= most and key != "host_pool")
    return Choices(
        tuple(sorted({row.pool for row in rows if row.pool})),
        tuple(sorted({row.cluster for row in rows})),
        tuple(sorted(keys)),
    )
