"""Nodes as hosts: what they have, and whether tasks may be launched there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hostmgr.kubernetes.core.quantities import offered, quantity
from peloton.model.constraint import Label
from peloton.model.resources import Resources

TAINT = "taint:"
"""What begins the label of a host for a taint."""
MAINTENANCE = "peloton/maintenance"
"""The annotation of a node in maintenance by Peloton: `draining` or `down`."""
PORTS = "peloton/ports"
"""The annotation of a node whose tasks take other ports than the settings say: `31000-31999,…`."""
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
DRAINING, DOWN = "draining", "down"
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_MANAGED = frozenset(
    {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
)
"""Taints that follow from the node's own fields, which are read directly."""


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods from a node that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """Tolerates taints of a key; empty parts stand for any."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint is tolerated."""
        pairs = ((self.key, taint.key), (self.value, taint.value), (self.effect, taint.effect))
        return all(wanted in ("", given) for wanted, given in pairs)


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    uid: str
    total: Resources
    """Allocatable."""
    pods: int
    """Most pods at a time."""
    labels: tuple[Label, ...] = ()
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False
    maintenance: str = ""
    ip: str = ""
    ports: tuple[tuple[int, int], ...] | None = None
    """Ports for tasks, as ranges with both ends inside; None: as the settings say."""


def parse_toleration(text: str) -> Toleration:
    """Parse `KEY[=VALUE][:EFFECT]`, or `*` for all taints. Raises ValueError."""
    if text == "*":
        return Toleration()
    rest, colon, effect = text.partition(":")
    key, _, value = rest.partition("=")
    if not key or (colon and effect not in (*_REPELLING, "PreferNoSchedule")):
        raise ValueError(
            f"{text!r} is not KEY, KEY=VALUE or either with :NoSchedule, :NoExecute or :PreferNoSchedule; "
            "or * for all taints"
        )
    return Toleration(key, value, effect)


def node_of(wire: Mapping[str, Any]) -> Node:
    """Return a node of the API. Raises ValueError for an amount that is none."""
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    taints = tuple(
        Taint(each["key"], each.get("value") or "", each.get("effect") or "")
        for each in spec.get("taints") or ()
        if each["key"] not in _MANAGED
    )
    labels = tuple((key, value) for key, value in sorted((metadata.get("labels") or {}).items()))
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return Node(
        metadata["name"],
        metadata.get("uid", ""),
        offered(allocatable),
        math.floor(quantity(str(allocatable.get("pods", 0)))),
        (*labels, *((TAINT + each.key, each.value) for each in taints)),
        taints,
        conditions.get("Ready") == "True",
        bool(spec.get("unschedulable")),
        (metadata.get("annotations") or {}).get(MAINTENANCE, ""),
        _address(status.get("addresses") or ()),
        _ports((metadata.get("annotations") or {}).get(PORTS, "")),
    )


def _ports(text: str) -> tuple[tuple[int, int], ...] | None:
    """Return the ports of an annotation, `FIRST-LAST,…`; None where it is not that."""
    found = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    ranges = tuple((int(each[1]), int(each[2])) for each in found if each is not None)
    return ranges if len(ranges) == len(found) else None


def _address(addresses: Iterable[Mapping[str, str]]) -> str:
    known = {each.get("type"): each.get("address", "") for each in addresses}
    return known.get("InternalIP") or known.get("ExternalIP") or ""


def repels(node: Node, tolerations: Iterable[Toleration]) -> bool:
    """Return whether a taint keeps tasks with these tolerations from a node."""
    tolerations = tuple(tolerations)
    return any(
        taint.effect in _REPELLING and not any(each.tolerates(taint) for each in tolerations)
        for taint in node.taints
    )
