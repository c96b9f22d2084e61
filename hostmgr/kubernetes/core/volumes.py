"""Persistent volumes: PersistentVolumeClaims, each on the node for which it was made.

Peloton binds pods to nodes itself, so it also does what a scheduler does for a claim whose class waits for
its first consumer: it names the node (Kubernetes: "Volume Binding Mode"). From then on the task comes back to
this node, whatever storage the class has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hostmgr.kubernetes.core.quantities import MEGABYTE, quantity
from peloton.model.resources import MILLI

NODE = "peloton/node"
"""The annotation of a claim with the node that it is on."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation by which a scheduler tells a provisioner the node; a provisioner that fails removes it."""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim of Peloton."""

    name: str
    """The id of the volume."""
    uid: str
    node: str
    size: int
    """Thousandths of a MB."""
    deleting: bool = False


def claim_of(wire: Mapping[str, Any]) -> VolumeClaim:
    """Return a claim of the API. Raises ValueError for a size that is none."""
    metadata, spec = wire["metadata"], wire.get("spec") or {}
    wanted = (spec.get("resources") or {}).get("requests") or {}
    return VolumeClaim(
        metadata["name"],
        metadata.get("uid", ""),
        (metadata.get("annotations") or {}).get(NODE, ""),
        math.ceil(quantity(str(wanted.get("storage", "0"))) * MILLI / MEGABYTE),
        bool(metadata.get("deletionTimestamp")),
    )


class VolumeClaims:
    """The claims of a cluster by their nodes. Calls that change something return the nodes concerned."""

    def __init__(self) -> None:
        self._claims: dict[str, VolumeClaim] = {}
        self._on: dict[str, set[str]] = {}
        self._destroyed: set[str] = set()
        """Claims that we are about to delete."""

    def get(self, name: str) -> VolumeClaim | None:
        """Return a claim; None where there is none of this name."""
        return self._claims.get(name)

    def replace(self, claims: Iterable[VolumeClaim]) -> set[str]:
        """Take over all claims: others are gone."""
        listed = {each.name: each for each in claims}
        changed: set[str] = set()
        for name in [name for name in self._claims if name not in listed]:
            changed |= self.remove(name)
        for each in listed.values():
            changed |= self.put(each)
        return changed

    def put(self, claim: VolumeClaim) -> set[str]:
        """Take over a claim that is new or has changed."""
        before = self._claims.get(claim.name)
        if before == claim:
            return set()
        changed = set() if before is None else {before.node}
        if before is not None:
            self._on[before.node].discard(claim.name)
        self._claims[claim.name] = claim
        self._on.setdefault(claim.node, set()).add(claim.name)
        return changed | {claim.node}

    def remove(self, name: str) -> set[str]:
        """Forget a claim that is gone."""
        claim = self._claims.pop(name, None)
        self._destroyed.discard(name)
        if claim is None:
            return set()
        self._on[claim.node].discard(name)
        return {claim.node}

    def destroy(self, name: str) -> VolumeClaim | None:
        """Offer a claim no more, because it is about to be deleted; return it, None where it is gone."""
        claim = self._claims.get(name)
        if claim is not None:
            self._destroyed.add(name)
        return claim

    def keep(self, name: str) -> set[str]:
        """Take over that a claim was not deleted after all."""
        self._destroyed.discard(name)
        claim = self._claims.get(name)
        return set() if claim is None else {claim.node}

    def forget_calls(self) -> None:
        """Take over that calls which were not answered may have had no effect."""
        self._destroyed.clear()

    def on(self, node: str) -> frozenset[str]:
        """Return the names of the claims on a node."""
        return frozenset(self._on.get(node, ()))

    def size_on(self, node: str) -> int:
        """Return the disk that claims take of a node: thousandths of a MB."""
        return sum(self._claims[name].size for name in self._on.get(node, ()))

    def free_on(self, node: str, used: Collection[str]) -> tuple[tuple[str, int], ...]:
        """Return name and size of the claims that a task may be launched with: nobody has them."""
        claims = (self._claims[name] for name in sorted(self._on.get(node, ())))
        return tuple(
            (each.name, each.size)
            for each in claims
            if not each.deleting and each.name not in used and each.name not in self._destroyed
        )
