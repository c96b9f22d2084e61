"""The view that preemption decides on: frozen values of pools and of the tasks that hold allocation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peloton.model.ids import Run
from peloton.model.resources import KINDS
from peloton.model.states import TaskState
from resmgr.core.state.amounts import NOTHING, Charge, Vector

CROSS_POOL, SAME_POOL = "cross_pool", "same_pool"
"""Names of the policies in settings and metrics, in the order in which they decide."""
SIDES = (*KINDS, *(f"slack {kind}" for kind in KINDS))
"""Names of 8 amounts: non-slack, then slack."""
ORDER = (TaskState.READY, TaskState.PLACING, TaskState.RUNNING)
"""States from which a task may be taken, the cheapest first."""


class Candidate(NamedTuple):
    """A task with allocation, whatever its state. Times are seconds on the monotonic clock."""

    run: Run
    gang: int
    """The same for the tasks of one gang, and for no other task of the pool."""
    amount: Vector
    """Thousandths by kind; of a revocable task, the cpu is revocable cpu."""
    state: TaskState
    priority: int
    started: float
    """When it reached its state."""
    preemptible: bool
    revocable: bool = False
    extra: bool = False
    """Whether it is a member of an elastic gang beyond its minimum."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The tasks of one leaf, as columns of n rows. Of a gang, all members that hold allocation are there."""

    runs: Sequence[Run]
    gang: NDArray[np.int64]
    amount: NDArray[np.int64]
    """(n, 4), thousandths."""
    state: NDArray[np.int64]
    """Numbers of `TaskState`."""
    priority: NDArray[np.int64]
    started: NDArray[np.float64]
    eligible: NDArray[np.bool_]
    """Preemptible, and nothing protects it. A gang with a member that is not is not taken."""
    revocable: NDArray[np.bool_]
    extra: NDArray[np.bool_]
    saved: NDArray[np.float64] | None = None
    """When each has saved its work, at the latest its start. None: none of them tells."""

    @property
    def work_from(self) -> NDArray[np.float64]:
        """Return since when each has done work that is lost where it is taken."""
        return self.started if self.saved is None else self.saved

    @staticmethod
    def of(tasks: Iterable[Candidate]) -> Candidates:
        """Build columns from rows."""
        rows = list(tasks)
        runs, gangs, amounts, states, priorities, started, preemptible, revocable, extra = (
            zip(*rows, strict=True) if rows else ((),) * len(Candidate._fields)
        )
        return Candidates(
            runs=runs,
            gang=np.array(gangs, dtype=np.int64),
            amount=np.array(amounts, dtype=np.int64).reshape(len(rows), 4),
            state=np.array(states, dtype=np.int64),
            priority=np.array(priorities, dtype=np.int64),
            started=np.array(started, dtype=np.float64),
            eligible=np.array(preemptible, dtype=np.bool_),
            revocable=np.array(revocable, dtype=np.bool_),
            extra=np.array(extra, dtype=np.bool_),
        )

    def __len__(self) -> int:
        return len(self.runs)


NO_CANDIDATES = Candidates.of(())


class Waiting(NamedTuple):
    """A gang in a queue of the pool."""

    lead: Run
    """Its first task, which represents it in reasons."""
    priority: int
    charge: Charge


@dataclass(frozen=True, slots=True)
class PoolView:
    """A leaf, or its part in a class of hosts. Tasks that are PREEMPTING or KILLING do not count.

    Amounts are thousandths by kind.
    """

    path: str
    allocation: Vector = NOTHING
    """Of tasks that are not revocable."""
    entitlement: Vector = NOTHING
    """For tasks that are not revocable."""
    slack_allocation: Vector = NOTHING
    """Of revocable tasks; here and below, its cpu is revocable cpu."""
    slack_entitlement: Vector = NOTHING
    demand: Vector = NOTHING
    """Queued, of tasks that are not revocable."""
    slack_demand: Vector = NOTHING
    room: Vector = NOTHING
    """Entitlement - allocation, without revocable cpu; negative where the pool is over its entitlement."""
    slack_room: Vector = NOTHING
    """The same for slack."""
    firm_room: Vector | None = None
    """The same without slack. None: no part of the entitlement is for slack only."""
    fixed_room: Vector | None = None
    """For non-preemptible tasks: reservation - their allocation. None: they are not confined to it."""
    controller_room: Vector | None = None
    """For controllers. None: no limit."""
    queues: tuple[tuple[Waiting, ...], ...] = ()
    """The first gangs of each queue, in the order in which admission tries them."""
    candidates: Candidates = NO_CANDIDATES
    strikes: int = 0
    """Consecutive checks, including this one, that found it over its entitlement."""
    budget: int | None = None
    """Tasks that may be taken here now. None: no limit."""
    largest: int | None = None
    """The most that the budget can ever be. None: no limit."""
    policies: tuple[str, ...] = (CROSS_POOL, SAME_POOL)
    """Names of the policies that may take victims here."""
    hosts: str = ""
    """Words for the class of hosts that it is about; empty: all."""

    @property
    def key(self) -> str:
        """Return what no other view of a pool has."""
        return f"{self.path} on {self.hosts}" if self.hosts else self.path

    def excess(self) -> tuple[int, ...]:
        """Return by how much it is over its entitlement: 8 amounts, non-slack then slack."""
        held = (*self.allocation, *self.slack_allocation)
        may = (*self.entitlement, *self.slack_entitlement)
        return tuple(max(0, have - bound) for have, bound in zip(held, may, strict=True))

    def claim(self) -> list[int]:
        """Return the demand that it is entitled to: 8 amounts, non-slack then slack."""
        held = (*self.allocation, *self.slack_allocation)
        may = (*self.entitlement, *self.slack_entitlement)
        wanted = (*self.demand, *self.slack_demand)
        return [max(0, min(want, bound - have)) for have, bound, want in zip(held, may, wanted, strict=True)]


@dataclass(frozen=True, slots=True)
class View:
    """All leaves, or their parts."""

    pools: tuple[PoolView, ...] = field(default=())
