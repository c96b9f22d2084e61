"""Pools as rows of a tree, each with its amounts and a bar for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from starlette.datastructures import QueryParams

from peloton.errors import InvalidArgument
from peloton.model.amounts import part_of, rounded
from peloton.model.resources import KINDS
from peloton.private.resmgr.monitoring import monitoring_pb2
from peloton.web.formats import KINDS as SHOWN

if TYPE_CHECKING:
    from peloton.private.resmgr.monitoring.monitoring_pb2 import Pool

WIDTH = 200.0
"""Of a bar, in its own unit."""
CHUNK = 20
"""Rows that are sent to browsers together when one of them changes."""
OPEN_ROWS = 100
"""Rows that browsers make at once; few fit into a window, and the others wait until they come near it."""
SPARE = 3
"""Empty chunks behind the last row: new pools appear there without a reload."""
ALL = "all"
TREE, PATHS, NAMES = "tree", "paths", "names"
"""How pools are named: indented by their depth, by their whole paths, by their names alone."""
DEEPEST = 9
AMOUNTS = ("reservation", "limit", "share", "entitlement", "allocation", "slack", "demand")


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar as drawn, `WIDTH` wide."""

    parts: tuple[tuple[str, str, str], ...]
    """Class, place and width of each part."""
    marks: tuple[tuple[str, str], ...]
    """Class and place of each mark."""
    label: str


@dataclass(frozen=True, slots=True)
class KindAmounts:
    """A pool's amounts of a kind, in its unit."""

    kind: str
    reservation: float
    limit: float
    share: float
    entitlement: float
    allocation: float
    slack: float
    """The part of the allocation that revocable tasks hold."""
    demand: float
    bar: Bar | None
    """None where there is nothing to draw."""

    @property
    def text(self) -> str:
        """Return how much is allocated of what the pool is entitled to."""
        return part_of(self.allocation, self.entitlement, self.kind)


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool in the tree."""

    id: str
    path: str
    parent: str
    """Id of the pool above; empty for the root."""
    leaf: bool
    tasks: int
    waiting: int
    kinds: tuple[KindAmounts, ...]
    short_seconds: float = field(default=0.0, compare=False)
    """For how long it has had less than its reservation, while a gang waits that would fit into it."""

    @property
    def depth(self) -> int:
        """Return how many pools are above it."""
        return 0 if self.path == "/" else self.path.count("/")

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2] or "/"

    @property
    def url(self) -> str:
        """Return the address of the pool's page."""
        return f"/pools/{self.id}"

    def of(self, kind: str) -> KindAmounts:
        """Return the amounts of a kind."""
        return self.kinds[KINDS.index(kind)]


def pool_rows(pools: Sequence[Pool]) -> tuple[PoolRow, ...]:
    """Return all pools as a tree: each directly behind the one above it or that one's other children."""
    root = next((pool for pool in pools if not pool.parent), None)
    capacity = tuple(getattr(root.limit, kind) for kind in KINDS) if root is not None else (0.0,) * len(KINDS)
    rows = (_row(pool.SerializeToString(deterministic=True), capacity) for pool in pools)
    return tuple(sorted(rows, key=lambda row: row.path.split("/") if row.path != "/" else []))


@lru_cache(maxsize=4096)
def _row(encoded: bytes, capacity: tuple[float, ...]) -> PoolRow:
    """Return the row of a pool. Most of a thousand pools are as they were, and need no new row."""
    pool = monitoring_pb2.Pool.FromString(encoded)
    amounts = (_amounts(kind, pool, whole) for kind, whole in zip(KINDS, capacity, strict=True))
    return PoolRow(
        pool.id,
        pool.path,
        pool.parent,
        pool.leaf,
        pool.tasks,
        pool.waiting,
        tuple(amounts),
        pool.short_seconds,
    )


def _amounts(kind: str, pool: Pool, capacity: float) -> KindAmounts:
    found = {name: float(getattr(getattr(pool, name), kind)) for name in AMOUNTS}
    return KindAmounts(kind, **found, bar=bar_of(kind, found, capacity))


def bar_of(kind: str, amounts: Mapping[str, float], capacity: float) -> Bar | None:
    """Return the bar of a pool: as long as its limit, but not longer than the cluster's capacity."""
    limit, held = amounts["limit"], amounts["allocation"]
    reach = min(limit, capacity) if capacity else limit
    whole = max(reach, amounts["reservation"], amounts["entitlement"], held)
    if whole <= 0:
        return None
    firm = max(held - amounts["slack"], 0.0)
    free = max(whole - held, 0.0)
    parts, place = [], 0.0
    for style, value in (
        ("allocation", firm), ("slack", held - firm), ("demand", min(amounts["demand"], free)),
    ):  # fmt: skip
        width = value / whole * WIDTH
        if width > 0:
            parts.append((style, f"{place:.1f}", f"{max(width, 0.8):.1f}"))
        place += width
    marks = tuple(
        (style, f"{min(max(amounts[style] / whole * WIDTH, 1.0), WIDTH - 1):.1f}")
        for style in ("reservation", "limit", "entitlement")
        if 0 < amounts[style] <= whole
    )
    return Bar(tuple(parts), marks, _label(kind, amounts))


def _label(kind: str, amounts: Mapping[str, float]) -> str:
    words = {"allocation": "allocated", "demand": "waiting", "entitlement": "entitlement"}
    words |= {"reservation": "reservation", "limit": "limit"}
    texts = (f"{word} {rounded(amounts[name], kind)}" for name, word in words.items())
    return f"{SHOWN[kind].title}: {', '.join(texts)}"


def used_kinds(rows: Iterable[PoolRow]) -> tuple[str, ...]:
    """Return the kinds of which any pool has something: clusters without GPUs need no column of them."""
    rows = list(rows)
    return tuple(kind for kind in KINDS if any(row.of(kind).bar is not None for row in rows)) or KINDS[:1]


@dataclass(frozen=True, slots=True)
class PoolsQuery:
    """Which pools are shown, and how: the parameters of the page's address."""

    text: str = ""
    """Part of the path."""
    kind: str = ALL
    """A kind for the amounts as numbers, or `all` for a bar of each."""
    levels: int = DEEPEST
    """How deep the tree is shown."""

    @classmethod
    def of(cls, query: QueryParams) -> PoolsQuery:
        """Read the parameters of an address. Raises InvalidArgument."""
        kind, levels = query.get("kind") or ALL, query.get("levels") or str(DEEPEST)
        if kind not in (ALL, *KINDS):
            raise InvalidArgument("kind", kind, f"one of {', '.join((ALL, *KINDS))}")
        if not (len(levels) == 1 and levels.isascii() and levels.isdigit() and levels != "0"):
            raise InvalidArgument("levels", levels, f"a number from 1 to {DEEPEST}")
        return cls(query.get("q", "").strip(), kind, int(levels))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of the table, as they are shown."""

    rows: tuple[PoolRow, ...]
    kinds: tuple[str, ...]
    numbers: str
    """The kind whose amounts are shown as numbers; empty where each kind has a bar."""
    look: str
    """TREE, PATHS or NAMES."""
    folded: bool = False
    """Whether browsers make the rows only when they come near the window."""


def selected(rows: Iterable[PoolRow], query: PoolsQuery) -> tuple[PoolRow, ...]:
    """Return the pools that a query asks for."""
    text = query.text.lower()
    return tuple(row for row in rows if text in row.path.lower() and (text or row.depth <= query.levels))


def chunks(
    rows: Sequence[PoolRow], kinds: tuple[str, ...], query: PoolsQuery, look: str = TREE
) -> tuple[Chunk, ...]:
    """Cut the table into parts that are kept current one by one."""
    numbers = "" if query.kind == ALL else query.kind
    count = -(-len(rows) // CHUNK) + SPARE
    looks = PATHS if query.text else look
    return tuple(
        Chunk(tuple(rows[first : first + CHUNK]), kinds, numbers, looks, OPEN_ROWS <= first < len(rows))
        for first in range(0, count * CHUNK, CHUNK)
    )
