"""Hosts that several clusters hold for gangs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from peloton.private.hostmgr.reservations import reservations_pb2 as pb


class Wishes:
    """What each cluster has for gangs that want all their hosts of one cluster.

    A gang that is held for goes to one cluster, and to the first that is ready.
    """

    def __init__(self, wishes: Sequence[pb.Wish]) -> None:
        self.waiting = list(wishes)
        """Those for which no cluster is ready yet, and which the next one is asked for."""
        self._found: dict[str, dict[str, pb.Progress]] = {wish.id: {} for wish in wishes}

    def note(self, cluster: str, progress: Iterable[pb.Progress]) -> None:
        """Take the answer of a cluster, for those that waited, in their order."""
        for wish, each in zip(self.waiting, progress, strict=True):
            self._found[wish.id][cluster] = each
        self.waiting = [wish for wish in self.waiting if not self._ready(wish.id)]

    @property
    def answered(self) -> bool:
        """Return whether some cluster has answered for each."""
        return all(self._found.values())

    def to_cancel(self, cluster: str) -> list[str]:
        """Return the ids of those for which another cluster than this one is ready."""
        return [wish for wish in self._found if (ready := self._ready(wish)) and cluster not in ready]

    def merged(self) -> pb.ReserveForGangsResponse:
        """Return for each the progress of the cluster that is nearest to its start."""
        return pb.ReserveForGangsResponse(
            progress=(min(each.values(), key=_distance) for each in self._found.values())
        )

    def _ready(self, wish: str) -> Mapping[str, pb.Progress]:
        return {cluster: each for cluster, each in self._found[wish].items() if each.claims}


def _distance(progress: pb.Progress) -> tuple[bool, float, int]:
    """Return how far from its start a gang is: a ready one first, then by its expected start."""
    start = progress.start_seconds if progress.HasField("start_seconds") else math.inf
    return not progress.claims, start, -progress.reserved
