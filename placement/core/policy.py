"""What differs between plans: how hosts are ranked, and whether tasks are bound to hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Scorer(Enum):
    """The order in which the hosts that pass all filters are used."""

    FIRST_FIT = "first fit"
    """In the order in which they are given."""
    BEST_FIT = "best fit"
    """The host with least free resources first, so that one is filled before the next. Tasks that request
    GPUs go where they make the fewest GPUs useless for the others."""
    EMPTIEST = "emptiest"
    """The host with most free disk, memory, CPU and GPU first, in that order; one task at a time."""


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

    @property
    def spreads(self) -> bool:
        """Whether gangs of jobs that are spread get one host for each task."""
        return self.desired is Desired.ANY


DEFAULT = Policy()
