"""Resource pools as tables and as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from peloton.cli.listing import Listing, listing
from peloton.cli.text import columns
from peloton.model.amounts import amount, part_of, plain
from peloton.present.losses import loss_text

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo

HEADS = (
    *("Pool", "CPU", "CPU Reserved", "CPU Limit", "Memory", "Memory Reserved", "Memory Limit"),
    *("GPU", "GPU Limit"),
)
WIDE = ("Disk", "Disk Reserved", "Disk Limit", "Work Lost", "Policy", "Team", "ID")


class Line(NamedTuple):
    """A pool in a tree."""

    name: str
    holds: Sequence[str]
    """What it holds, by kind."""
    below: str
    """What stands before lines between it and its first child."""


def pool_table(pools: Iterable[ResourcePoolInfo], lost: Mapping[str, float] | None) -> Listing:
    """Return a table of pools in the order given; memory and disk are in MB.

    `lost` has the seconds of work that their jobs have lost, by path; None where that is not known.
    """
    return listing((*HEADS, *WIDE), [_row(pool, lost) for pool in pools], wide=len(WIDE))


def _row(pool: ResourcePoolInfo, lost: Mapping[str, float] | None) -> tuple[str, ...]:
    from peloton.api.v0.respool import respool_pb2

    config = pool.config
    used = held(pool)
    reserved = {each.kind: each.reservation for each in config.resources}
    limits = {each.kind: each.limit for each in config.resources}
    return (
        pool.path.value,
        *_amounts("cpu", used, reserved, limits),
        *_amounts("memory", used, reserved, limits),
        *_amounts("gpu", used, limits),
        *_amounts("disk", used, reserved, limits),
        loss_text(None if lost is None else lost.get(pool.path.value, 0.0)),
        respool_pb2.SchedulingPolicy.Name(config.policy),
        config.owningTeam,
        pool.id.value,
    )


def held(pool: ResourcePoolInfo) -> Mapping[str, float]:
    """Return what the tasks of a pool hold of each kind, those on slack too."""
    return {each.kind: each.allocation + each.slack for each in pool.usage}


def _amounts(kind: str, *amounts: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(plain(each.get(kind, 0)) for each in amounts)


def pool_tree(pools: Sequence[ResourcePoolInfo], terminal: int = 0) -> str:
    """Return pools below their parents, each with what it holds of its limit.

    What is wider than a terminal of so many columns (0: any) has a line for each kind.
    """
    below: dict[str, list[ResourcePoolInfo]] = {}
    ids = {pool.id.value for pool in pools}
    for pool in sorted(pools, key=lambda each: each.path.value):
        parent = pool.parent.value
        below.setdefault(parent if parent in ids and parent != pool.id.value else "", []).append(pool)
    lines = (line for root in below.get("", ()) for line in _branch(root, below, "", ""))
    return "\n".join(_broken(line, terminal) for line in lines)


def _broken(line: Line, terminal: int) -> str:
    whole = f"{line.name}  {', '.join(line.holds)}"
    if not terminal or columns(whole) <= terminal:
        return whole
    return "\n".join([line.name, *(f"{line.below}  {each}" for each in line.holds)])


def _branch(
    pool: ResourcePoolInfo, below: Mapping[str, Sequence[ResourcePoolInfo]], first: str, rest: str
) -> Iterator[Line]:
    name = pool.path.value.rpartition("/")[2] if first else pool.path.value
    children = below.get(pool.id.value, ())
    yield Line(f"{first}{name}", _holds(pool), rest + ("│ " if children else "  "))
    for at, child in enumerate(children):
        last = at == len(children) - 1
        yield from _branch(
            child, below, rest + ("└── " if last else "├── "), rest + ("    " if last else "│   ")
        )


def _holds(pool: ResourcePoolInfo) -> list[str]:
    used = held(pool)
    return [
        f"{each.kind} {part_of(used.get(each.kind, 0), each.limit, each.kind)}"
        + (f" (reserved {amount(each.reservation, each.kind)})" if each.reservation else "")
        for each in pool.config.resources
        if each.limit or used.get(each.kind)
    ]
