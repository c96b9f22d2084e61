"""Comparison of gangs with empty hosts, over all hosts at once (docs/behaviour/placement.md).

A shortage is certain: the gang cannot be placed on the hosts. Without one the gang may still not fit, where
tasks of different needs compete for hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hostmgr.core.state.columns import Mask
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.core.state.labels import HOSTNAME
from hostmgr.core.state.mismatch import mismatch
from hostmgr.core.state.table import HostTable
from peloton.model.constraint import Label, contradiction
from peloton.model.fixed_ports import ports_of
from peloton.model.plural import plural
from peloton.model.resources import KINDS, MILLI
from peloton.model.shortage import PORTS, REVOCABLE_CPU, HostGains, Lack, Shortage, counted_hosts

MOST_LABELS = 10_000
"""Labels of changed hosts that are listed."""
_GPU = KINDS.index("gpu")


@dataclass(frozen=True, slots=True)
class Members:
    """Tasks of a gang with the same requirements."""

    want: HostFilter
    count: int
    own_labels: tuple[Label, ...] = ()
    """The labels of each that its own constraint counts, also those of its fixed ports."""


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
        found = (
            _of_one(table, members.want, mask)
            or _beside_fixed_ports(table, members, mask)
            or _of_all(table, members, shape.spread, mask)
        )
        if found is not None:
            return found
        alike.append(mask)
    if len(alike) == 1:
        return None
    return _together(table, shape, alike) or _all_apart(table, shape, alike)


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


def _beside_fixed_ports(table: HostTable, members: Members, mask: Mask) -> Shortage | None:
    """Return why no host has enough dynamic ports beside the fixed ones. Reduce `mask` to those that have."""
    needed, fixed = members.want.ports, ports_of(members.own_labels)
    if not needed or not fixed:
        return None
    ports, hosts = table.whole_ports() - table.offered_ports(fixed), int(np.count_nonzero(mask))
    largest = max(0, int(ports[mask].max()))
    mask &= ports >= needed
    if largest >= needed:
        return None
    detail = (
        f"needs {plural(needed, 'dynamic port')} beside its fixed {_numbered('port', fixed)} on one host; "
        f"the largest of {counted_hosts(hosts)} has {largest} beside {'it' if len(fixed) == 1 else 'them'}"
    )
    return Shortage(Lack.RESOURCE, PORTS, needed * MILLI, largest * MILLI, hosts, detail=detail)


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


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
    lacking = _room(members.count, int(most.sum()), len(most))
    if lacking is not None or not members.own_labels:
        return lacking
    beside = table.most_beside(members.want.constraint, members.own_labels)[mask]
    return _apart(members.count, np.minimum(most, beside), int(beside.max()), members.own_labels)


def _apart(
    needed: int, most: NDArray[np.int64], on_one_host: int, labels: Iterable[Label]
) -> Shortage | None:
    """Return why hosts would not take tasks that keep apart; `most`: how many each host takes."""
    lacking = _room(needed, int(most.sum()), len(most))
    if lacking is None:
        return None
    fixed = ports_of(labels)
    cause = f"its fixed {_numbered('port', fixed)}" if fixed and on_one_host == 1 else "its constraint"
    verb = "allow" if len(fixed) > 1 and on_one_host == 1 else "allows"
    detail = (
        f"needs room for {plural(needed, 'task')} at a time, of which {cause} {verb} "
        f"{on_one_host} on a host; "
        f"{counted_hosts(len(most))} have room for {lacking.largest // MILLI} when empty"
    )
    return replace(lacking, detail=detail)


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


def _all_apart(table: HostTable, shape: GangShape, alike: Sequence[Mask]) -> Shortage | None:
    """Return why tasks of different needs do not fit that keep apart by a label that all of these have.

    On each host, the task that is placed last finds all others there.
    """
    for label in dict.fromkeys(label for members in shape.members for label in members.own_labels):
        most, needed, hosts = np.zeros(len(alike[0]), dtype=np.int64), 0, np.zeros_like(alike[0])
        for members, mask in zip(shape.members, alike, strict=True):
            if label in members.own_labels:
                beside = table.most_beside(members.want.constraint, (label,))
                most, needed, hosts = np.maximum(most, beside * mask), needed + members.count, hosts | mask
        lacking = _apart(needed, np.minimum(most, needed)[hosts], int(most.max()), (label,))
        if lacking is not None:
            return lacking
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
