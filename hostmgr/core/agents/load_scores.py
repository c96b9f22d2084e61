"""The load scores of hosts, 0 to 100: when they are read, and how long they count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import SupportsFloat

from hostmgr.core.state.table import HostTable
from peloton.model.backoff import exponential
from peloton.model.cluster import in_cluster, mesos_hostname

Scores = Mapping[str, float]
LONGEST_PAUSE_INTERVALS = 10
"""After failures, in intervals."""
HIGHEST = 100.0


class Loads:
    """The scores in the table of hosts. Those that were read last count until they are too old."""

    def __init__(self, table: HostTable, interval: float, keep: float, now: float, cluster: str) -> None:
        """Read every `interval` seconds; forget scores that are older than `keep` seconds.

        The source names hosts as Mesos does, or as Peloton does in `cluster`.
        """
        self._table = table
        self._interval = interval
        self._keep = keep
        self._cluster = cluster
        self._failures = 0
        self._read_at = now
        self.known = 0
        """Hosts with a known score."""

    def take(self, scores: Scores, now: float) -> float:
        """Take over what was read; return the seconds until the next read."""
        self._failures, self._read_at = 0, now
        self._set(scores)
        return self._interval

    def failed(self, now: float) -> float:
        """Note that a read failed; return the seconds until the next one."""
        self._failures += 1
        if now - self._read_at >= self._keep:
            self._set({})
        return exponential(self._failures, self._interval, self._interval * LONGEST_PAUSE_INTERVALS)

    def _set(self, scores: Scores) -> None:
        self._table.set_loads(
            {in_cluster(self._cluster, mesos_hostname(name)): score for name, score in scores.items()}
            if self._cluster
            else scores
        )
        self.known = len(scores)


def scores_of(pairs: Iterable[tuple[str, SupportsFloat | str]]) -> Scores:
    """Return the scores of hosts, from 0 to 100; of several of one host, the highest.

    Values that are no numbers are left out.
    """
    scores: dict[str, float] = {}
    for name, value in pairs:
        try:
            score = float(value)
        except (TypeError, ValueError):
            continue
        if score == score:  # a number
            scores[name] = max(scores.get(name, 0.0), min(score, HIGHEST))
    return scores
