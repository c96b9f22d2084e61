"""Comparison of gangs with empty hosts, over all hosts at once (docs/behaviour/placement.md).

A shortage is certain: the gang cannot be placed on the hosts. Without one the gang may still not fit, where
tasks of different needs compete for hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostmgr.core.filter import HostFilter, Result
from hostmgr.core.labels import HOSTNAME
from hostmgr.core.mismatch import mismatch
from hostmgr.core.table import HostTable, Mask
from peloton.model.constraint import contradiction
from peloton.model.resources import KINDS, MILLI
from peloton.model.shortage import PORTS, REVOCABLE_CPU, HostGains, Lack, Shortage

MOST_LABELS = 10_000
"""Labels of changed hosts that are listed."""
_GPU = KINDS.index("gpu")


@dataclass(frozen=True, slots=True)
class Members:
    """Tasks of a gang with the same requirements."""

    want: HostFilter
    count: int


@dataclass(frozen=True, slots=True)
class GangShape:
    """What the tasks of a gang require of hosts."""

    members: tuple[Members, ...]
    spread: bool = False
    """Whether no two of its tasks may share a host."""


def shortage(table: HostTable, shape: GangShape) -> Shortage | None:
    """Return the first reason found why the gang does not fit on empty hosts; None where none is known."""
    alike = []
    for members in shape.members:
        mask = table.alive()
        found = _of_one(table, members.want, mask) or _of_all(table, members, shape.spread, mask)
        if found is not None:
            return found
        alike.append(mask)
    return _together(table, shape, alike) if len(alike) > 1 else None


def _of_one(table: HostTable, want: HostFilter, mask: Mask) -> Shortage | None:
    """Return why no host would take a single such task. Reduce `mask` to the hosts that would."""
    if not mask.any():
        return Shortage(Lack.HOSTS)
    if contradiction(want.constraint):
        return mismatch(table, want.constraint, mask)
    for reason, passed in table.lasting_filters(want):
        left = mask & passed
        if not left.any():
            return _first_shortage(table, want, mask, reason)
        mask &= passed
    return None


def _first_shortage(table: HostTable, want: HostFilter, mask: Mask, reason: Result) -> Shortage:
    hosts = int(np.count_nonzero(mask))
    if reason is Result.SCARCE_RESOURCES:
        return Shortage(Lack.PLAIN_HOST, hosts=hosts)
    if reason is Result.MISMATCH_CONSTRAINTS:
        return mismatch(table, want.constraint, mask)
    largest = table.whole(want.revocable)[mask].max(axis=0)
    kinds = [_GPU] if reason is Result.MISMATCH_GPU else range(len(KINDS))
    for kind in kinds:
        needed = want.minimum.values()[kind]
        if needed > largest[kind]:
            return Shortage(Lack.RESOURCE, _name(kind, want), needed, int(largest[kind]), hosts)
    ports = int(table.whole_ports()[mask].max())
    if want.ports > ports:
        return Shortage(Lack.RESOURCE, PORTS, want.ports * MILLI, ports * MILLI, hosts)
    return Shortage(Lack.COMBINATION, hosts=hosts)


def _name(kind: int, want: HostFilter) -> str:
    return REVOCABLE_CPU if want.revocable and not kind else KINDS[kind]


def _of_all(table: HostTable, members: Members, spread: bool, mask: Mask) -> Shortage | None:
    """Return why the hosts of `mask`, each of which takes one task, would not take all."""
    if members.count == 1:
        return None
    most = np.full(int(np.count_nonzero(mask)), 1 if spread else members.count, dtype=np.int64)
    whole = table.whole(members.want.revocable)[mask]
    for kind, needed in enumerate(members.want.minimum.values()):
        if needed > 0:
            most = np.minimum(most, whole[:, kind] // needed)
    if members.want.ports:
        most = np.minimum(most, table.whole_ports()[mask] // members.want.ports)
    return _room(members.count, int(most.sum()), len(most))


def _together(table: HostTable, shape: GangShape, alike: Sequence[Mask]) -> Shortage | None:
    """Return why tasks of different needs do not fit together, each of which fits alone."""
    mask = np.logical_or.reduce(alike)
    hosts = int(np.count_nonzero(mask))
    if shape.spread:
        return _room(sum(members.count for members in shape.members), hosts, hosts)
    for revocable in (False, True):
        whole = table.whole(revocable)[mask].sum(axis=0)
        for kind, name in enumerate(KINDS):
            needed = sum(
                members.count * members.want.minimum.values()[kind]
                for members in shape.members
                if kind or members.want.revocable is revocable
            )
            if needed > whole[kind]:
                kind_name = REVOCABLE_CPU if revocable and not kind else name
                return Shortage(Lack.CAPACITY, kind_name, needed, int(whole[kind]), hosts)
    return None


def _room(needed: int, available: int, hosts: int) -> Shortage | None:
    return Shortage(Lack.ROOM, "", needed * MILLI, available * MILLI, hosts) if available < needed else None


def gains(table: HostTable, since: int) -> HostGains:
    """Return what the hosts offer that were added or changed after a version of the table."""
    changed, relabelled = table.changed_since(since)
    hosts = int(np.count_nonzero(changed))
    if not hosts:
        return HostGains()
    whole = table.whole(revocable=False)[changed]
    return HostGains(
        hosts=hosts,
        largest=tuple(int(amount) for amount in whole.max(axis=0)),
        revocable_cpu=int(table.whole(revocable=True)[changed, 0].max()),
        ports=int(table.whole_ports()[changed].max()) * MILLI,
        plain=bool((whole[:, _GPU] == 0).any()),
        relabelled=int(np.count_nonzero(relabelled)),
        labels=_labels(table, relabelled),
    )


def _labels(table: HostTable, mask: Mask) -> frozenset[str] | None:
    """Return the labels of the hosts of the mask, None where there are more than MOST_LABELS."""
    rows = np.flatnonzero(mask)
    if len(rows) > MOST_LABELS:
        return None
    found = {f"{HOSTNAME}={table.hostnames[row]}" for row in rows}
    for number in table.classes(mask):
        found.update(f"{key}={value}" for key, value in table.labels_of_class(number))
    return frozenset(found) if len(found) <= MOST_LABELS else None
