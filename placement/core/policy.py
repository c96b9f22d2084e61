"""What differs between plans: how hosts are ranked, and whether tasks are bound to hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peloton.model.constraint import Label
from placement.core.model import Host, Needs


class Scorer(Enum):
    """The order in which the hosts that pass all filters are used."""

    FIRST_FIT = "first fit"
    """In the order in which they are given."""
    BEST_FIT = "best fit"
    """The host with least free resources first, so that one is filled before the next. Tasks that request
    GPUs go where they make the fewest GPUs useless for the others."""
    EMPTIEST = "emptiest"
    """The host with most free disk, memory, CPU and GPU first, in that order; one task at a time."""
    PLUGGED_IN = "plugged in"
    """By a score that an administrator has added; one task at a time."""


class TaskAmounts(NamedTuple):
    """What a task asks for that is to be placed, in thousandths."""

    cpu: int
    memory: int
    disk: int
    gpu: int
    revocable: bool
    """Whether it runs on slack cpu."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeHosts:
    """Hosts that take a task, one in each row, with what is free on them beside the tasks placed before.

    Amounts are in thousandths. For a revocable task, `cpu` is the slack.
    """

    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    disk: NDArray[np.int64]
    gpu: NDArray[np.int64]
    hosts: Sequence[Host]
    """All hosts of the plan."""
    rows: NDArray[np.intp]
    """The positions of these among them."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def hostnames(self) -> list[str]:
        """The names of the hosts."""
        return [self.hosts[row].hostname for row in self.rows.tolist()]

    @property
    def labels(self) -> list[tuple[Label, ...]]:
        """The attributes of the hosts."""
        return [self.hosts[row].labels for row in self.rows.tolist()]


HostScore = Callable[[FreeHosts, TaskAmounts], NDArray[np.float64]]
"""Returns a number for each host: the task goes to the host with the greatest, of equal ones to the first."""


class Desired(Enum):
    """Whether tasks go to their desired hosts only."""

    ANY = "any host"
    HOST = "desired host"
    VOLUME = "desired host with the volume"
    """Only while the task's volume is offered there: it is not while an earlier run ends."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How gangs are placed."""

    scorer: Scorer = Scorer.BEST_FIT
    desired: Desired = Desired.ANY
    largest_first: bool = True
    """Place the first gang, then the others by size, which packs better than their order."""
    scarce_gpu: bool = True
    """Hosts with GPUs take only tasks that request GPUs."""
    score: HostScore | None = None
    """With PLUGGED_IN: the score."""

    def fullest_first(self, needs: Needs) -> bool:
        """Return whether the fullest hosts are claimed for such a task, in place of any that take it.

        Where few hosts are claimed, it is the claim that chooses. Any order leaves some GPUs free on each
        host, and none for a task that needs all of a host.
        """
        return self.scorer is Scorer.BEST_FIT and needs.resources.gpu > 0

    @property
    def spreads(self) -> bool:
        """Whether gangs of jobs that are spread get one host for each task."""
        return self.desired is Desired.ANY


DEFAULT = Policy()
