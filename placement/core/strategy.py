"""What tells placement for batch jobs from placement for services: a strategy each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from peloton.model.states import TaskType
from placement.core.model import Filling, Gang, Host


@dataclass(frozen=True, slots=True)
class Family:
    """Gangs that are placed together, over the same hosts. Equal keys join."""

    key: Hashable
    rank: int
    """Lower goes first."""
    spread: bool = False
    """No two of its tasks on one host."""


class Strategy(Protocol):
    """Decides for one task type. Pure."""

    @property
    def type(self) -> TaskType: ...

    @property
    def longest(self) -> float:
        """Seconds after which a gang goes back unplaced."""
        ...

    def family(self, gang: Gang) -> Family:
        """Where a gang belongs."""
        ...

    def fill(self, family: Family, hosts: Sequence[Host], gangs: Sequence[Gang]) -> Filling:
        """Lay the gangs, in their order, over the hosts that are claimed for them."""
        ...
