"""Checks of a pool's config, alone and against its relatives (docs/behaviour/pools.md, Model).

Each refusal is an InvalidArgument with the field's path; kinds are numbered in the order given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from peloton.errors import InvalidArgument
from peloton.model.amounts import plain
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, MILLI


def check_alone(config: PoolConfig, force: bool = False) -> None:
    """Check name, amounts and percentages; with `force` a limit may be below its reservation."""
    if not config.name.strip():
        raise InvalidArgument("name", config.name, "a name")
    if "/" in config.name:
        raise InvalidArgument("name", config.name, "a name without /")
    for i, (name, kind) in enumerate(config.kinds.items()):
        _check_kind(f"resources[{i}]", name, kind, force)
    _check_percent("controllerLimit.maxPercent", config.controller_limit_percent)
    _check_percent("slackLimit.maxPercent", config.slack_limit_percent)


def check_against_tree(
    config: PoolConfig,
    parent: PoolConfig | None,
    parent_path: str,
    siblings: Sequence[PoolConfig],
    children: Iterable[PoolConfig],
    limit_bounded: bool = True,
) -> None:
    """Check limit and reservation against the parent's, the siblings' and the children's.

    `parent` is None where its amounts are not known: the root's, before the cluster's capacity is. Without
    `limit_bounded` the limit may exceed the parent's: the root's is the capacity of the moment, which bounds
    the entitlement anyway and moves with every host.
    """
    below = list(children)
    for i, (name, kind) in enumerate(config.kinds.items()):
        path = f"resources[{i}]"
        if parent is not None:
            if limit_bounded:
                _check_limit(path, kind, parent.kind(name), parent_path)
            _check_reservation(path, name, kind, parent.kind(name), parent_path, siblings)
    for name in KINDS:
        _check_children(name, config, below)


def _check_kind(path: str, name: str, kind: KindConfig, force: bool) -> None:
    if name not in KINDS:
        raise InvalidArgument(f"{path}.kind", name, f"one of {', '.join(KINDS)}")
    if kind.reservation < 0:
        raise InvalidArgument(f"{path}.reservation", kind.reservation / MILLI, "0 or more")
    if kind.limit < kind.reservation and not force:
        reservation = kind.reservation / MILLI
        raise InvalidArgument(
            f"{path}.limit", kind.limit / MILLI, f"at least the reservation of {name}, {plain(reservation)}"
        )
    if not 0 <= kind.share < float("inf"):
        raise InvalidArgument(f"{path}.share", kind.share, "a number, 0 or more")


def _check_percent(path: str, percent: float | None) -> None:
    if percent is not None and not 0 <= percent <= 100:
        raise InvalidArgument(path, percent, "a percentage from 0 to 100")


def _check_limit(path: str, kind: KindConfig, parent: KindConfig, parent_path: str) -> None:
    if kind.limit > parent.limit:
        raise InvalidArgument(
            f"{path}.limit",
            kind.limit / MILLI,
            f"at most the limit of {parent_path}, {plain(parent.limit / MILLI)}",
        )


def _check_reservation(
    path: str,
    name: str,
    kind: KindConfig,
    parent: KindConfig,
    parent_path: str,
    siblings: Sequence[PoolConfig],
) -> None:
    taken = sum(sibling.kind(name).reservation for sibling in siblings)
    if kind.reservation and kind.reservation + taken > parent.reservation:
        raise InvalidArgument(
            f"{path}.reservation",
            kind.reservation / MILLI,
            f"at most {plain(max(parent.reservation - taken, 0) / MILLI)}: {parent_path} reserves"
            f" {plain(parent.reservation / MILLI)} of {name},"
            f" and its other children take {plain(taken / MILLI)}",
        )


def _check_children(name: str, config: PoolConfig, children: Sequence[PoolConfig]) -> None:
    kind, position = config.kind(name), _position(name, config)
    highest = max((child.kind(name).limit for child in children), default=0)
    if highest > kind.limit:
        raise InvalidArgument(
            f"{position}.limit",
            kind.limit / MILLI,
            f"at least the limit of a child, {plain(highest / MILLI)} of {name}",
        )
    taken = sum(child.kind(name).reservation for child in children)
    if taken > kind.reservation:
        raise InvalidArgument(
            f"{position}.reservation",
            kind.reservation / MILLI,
            f"at least what its children reserve together, {plain(taken / MILLI)} of {name}",
        )


def _position(name: str, config: PoolConfig) -> str:
    names = list(config.kinds)
    return f"resources[{names.index(name)}]" if name in names else f"resources[{name}]"
