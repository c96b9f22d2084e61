"""Which job manager owns each shard of jobs, by what they claim in their calls (docs/shards.md)."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.model.ids import JobId
from peloton.model.shard import shard_of

NOBODY = ""
"""Names the owner where one job manager has all jobs."""


class Owners:
    """The owner of each shard, in the newest term that was claimed."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._terms: dict[int, int] = {}
        self.shared = False
        """Whether shards have several owners."""

    def of(self, job_id: JobId) -> str:
        """Return who owns a job; empty where one job manager owns all of them, or none is known."""
        return self._owners.get(shard_of(job_id), NOBODY) if self.shared else NOBODY

    def kept(self, terms: Mapping[int, int]) -> frozenset[int]:
        """Return those of some shards, given the terms in which they were claimed, without a newer term."""
        newest = self._terms
        return frozenset([shard for shard, term in terms.items() if term >= newest.get(shard, 0)])

    def claim(self, name: str, terms: Mapping[int, int]) -> frozenset[int]:
        """Take that `name` owns shards in these terms; return those that it has got since the last claim.

        A term that is older than one that was claimed changes nothing.
        """
        grown = frozenset(shard for shard, term in terms.items() if term > self._terms.get(shard, 0))
        if grown:
            self._owners.update(dict.fromkeys(grown, name))
            self._terms.update((shard, terms[shard]) for shard in grown)
            self.shared = len(set(self._owners.values())) > 1
        return grown
