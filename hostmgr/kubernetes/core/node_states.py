"""The nodes that there are: which of them live, and which are lost with their runs."""

from __future__ import annotations

from collections.abc import Iterable

from hostmgr.kubernetes.core.nodes import DOWN, Node


class NodeStates:
    """Nodes, and since when they are not ready. `now` is seconds on the monotonic clock."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.lost: set[str] = set()
        """Nodes that were not ready for so long that their runs are lost."""
        self._not_ready: dict[str, float] = {}
        """Nodes that are not ready, and since when."""
        self._silent: set[str] = set()
        """Nodes whose leases are not renewed."""

    def put(self, node: Node, now: float) -> None:
        """Take over a node that is new or has changed."""
        self.nodes[node.name] = node
        self._settle(node.name, now)

    def remove(self, name: str) -> bool:
        """Forget a node that was deleted; return whether it was known."""
        self._not_ready.pop(name, None)
        self._silent.discard(name)
        self.lost.discard(name)
        return self.nodes.pop(name, None) is not None

    def silence(self, names: Iterable[str], now: float) -> set[str]:
        """Take over which nodes do not renew their leases; return those of which this has changed."""
        names = set(names) & set(self.nodes)
        changed, self._silent = names ^ self._silent, names
        for name in changed:
            self._settle(name, now)
        return changed

    def _settle(self, name: str, now: float) -> None:
        if self.ready(name):
            self._not_ready.pop(name, None)
            self.lost.discard(name)
        else:
            self._not_ready.setdefault(name, now)

    def ready(self, name: str) -> bool:
        """Return whether a node says that it is ready, and shows that it lives."""
        node = self.nodes.get(name)
        return node is not None and node.ready and name not in self._silent

    def gone(self, name: str) -> bool:
        """Return whether a node cannot end its pods itself."""
        return name in self.lost or name not in self.nodes

    def why_gone(self, name: str) -> str:
        """Return what is told of the runs of such a node."""
        return f"node {name} is gone" if name not in self.nodes else f"node {name} is not ready"

    def listed(self) -> tuple[list[Node], list[Node]]:
        """Return the nodes that are there, and those that are not ready and may come back."""
        present = [
            each for each in self.nodes.values() if each.maintenance != DOWN and each.name not in self.lost
        ]
        there = [each for each in present if self.ready(each.name)]
        return there, [each for each in present if not self.ready(each.name)]

    def lose(self, now: float, after: float) -> list[str]:
        """Return the nodes that are lost from now on: they were not ready for `after` seconds."""
        lost = [
            name for name, since in self._not_ready.items() if now - since >= after and name not in self.lost
        ]
        self.lost.update(lost)
        return lost
