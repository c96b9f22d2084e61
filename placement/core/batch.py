"""Batch jobs (behaviour 5.3): PACK fills a host before it takes the next; SPREAD puts one task on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peloton.model.states import PlacementStrategy, TaskType
from placement.core.fill import fill
from placement.core.model import Filling, Gang, Host
from placement.core.strategy import Family

_RESERVED, _REVOCABLE, _REST = range(3)


@dataclass(frozen=True, slots=True)
class Batch:
    """Gangs whose hosts are chosen alike make a family, whatever their amounts; each job that is to be
    spread is one of its own."""

    type: TaskType = TaskType.BATCH
    longest: float = 240.0

    def family(self, gang: Gang) -> Family:
        spread = gang.strategy is PlacementStrategy.SPREAD_JOB
        classes = frozenset(needs.host_class for needs, _ in gang.shape)
        rank = _rank(gang)
        return Family((rank, classes, gang.job_id if spread else ""), rank, spread)

    def fill(self, family: Family, hosts: Sequence[Host], gangs: Sequence[Gang]) -> Filling:
        return fill(hosts, gangs, family.spread)


def _rank(gang: Gang) -> int:
    """Tasks that ask for a reserved host go first, then revocable ones, then the rest."""
    if gang.wants_reservation:
        return _RESERVED
    return _REVOCABLE if any(needs.revocable for needs, _ in gang.shape) else _REST
