"""The part of placement that differs by task type: which gangs belong together and how hosts are filled."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from peloton.model.states import TaskType
from placement.core.model import Filling, Gang, Host


@dataclass(frozen=True, slots=True)
class Family:
    """Gangs that are placed together on the same hosts; those with equal keys form one family."""

    key: Hashable
    rank: int
    """Families with a lower rank are served first."""
    spread: bool = False
    """Place at most one of its tasks on a host."""


class Strategy(Protocol):
    """Placement of one task type. Pure."""

    @property
    def type(self) -> TaskType:
        """The task type that is placed."""
        ...

    @property
    def longest(self) -> float:
        """Seconds after which a gang is given back unplaced."""
        ...

    def family(self, gang: Gang) -> Family:
        """Return the family that a gang belongs to."""
        ...

    def fill(self, family: Family, hosts: Sequence[Host], gangs: Sequence[Gang]) -> Filling:
        """Place the gangs, in their order, on the hosts that are claimed for them."""
        ...
