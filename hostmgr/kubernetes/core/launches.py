"""Runs that are being launched: what they take of their nodes until their pods are seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from peloton.model.foreign_pod import PodRef
from peloton.model.ids import MesosTaskId
from peloton.model.resources import Resources
from peloton.model.volume import VolumeMount


@dataclass(frozen=True, slots=True)
class Starting:
    """A run that is being launched."""

    node: str
    resources: Resources
    ports: frozenset[int] = frozenset()
    volume: VolumeMount | None = None
    pod: PodRef | None = None
    """The pod that is bound in place of a new one."""


class Launches:
    """The runs that are being launched, by their nodes too."""

    def __init__(self) -> None:
        self._held: dict[MesosTaskId, Starting] = {}
        self._on: dict[str, set[MesosTaskId]] = {}

    def __contains__(self, run: MesosTaskId) -> bool:
        return run in self._held

    def begin(self, run: MesosTaskId, starting: Starting) -> None:
        """Take over that a run is being launched."""
        self._held[run] = starting
        self._on.setdefault(starting.node, set()).add(run)

    def end(self, run: MesosTaskId) -> str | None:
        """Forget a launch, which has succeeded or failed; return its node, None where there was none."""
        starting = self._held.pop(run, None)
        if starting is None:
            return None
        self._on[starting.node].discard(run)
        return starting.node

    def clear(self) -> None:
        """Forget all launches."""
        self._held.clear()
        self._on.clear()

    def on(self, node: str) -> Iterator[Starting]:
        """Iterate over the launches on a node."""
        return (self._held[run] for run in self._on.get(node, ()))
