"""The interface of preemption policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from peloton.model.ids import Run
from peloton.model.resources import Resources
from resmgr.core.preemption.view import SIDES, PoolView, View


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that has to give way, whole; a task of its own is a gang of one."""

    runs: tuple[Run, ...]
    rows: tuple[int, ...]
    """Theirs, of the pool's candidates."""
    pool: str
    """Path of the pool that it belongs to."""
    benefits: str
    """Path of the pool that gets what it frees; empty where nobody waits for it."""
    frees: Resources
    """Without revocable cpu."""
    frees_slack: Resources
    """What of it revocable tasks held, with the revocable cpu."""
    kinds: tuple[str, ...]
    """For which it was taken."""
    policy: str
    reason: str
    """For a human."""

    @staticmethod
    def of(
        runs: tuple[Run, ...],
        rows: tuple[int, ...],
        frees: Sequence[int],
        sides: Sequence[int],
        pools: tuple[str, str],
        policy: str,
        reason: str,
    ) -> Victim:
        """`frees`: 8 amounts, not slack then slack; `sides`: numbers of those that are needed; `pools`: the
        victim's and the one that benefits."""
        cpu, memory, disk, gpu, slack_cpu, slack_memory, slack_disk, slack_gpu = frees
        return Victim(
            runs,
            rows,
            *pools,
            frees=Resources(cpu, memory + slack_memory, disk + slack_disk, gpu + slack_gpu),
            frees_slack=Resources(slack_cpu, slack_memory, slack_disk, slack_gpu),
            kinds=tuple([SIDES[side] for side in sides]),
            policy=policy,
            reason=reason,
        )


class Policy(Protocol):
    """One rule by which tasks are taken. A policy leaves pools alone that do not name it."""

    @property
    def name(self) -> str: ...

    def concerns(self, pool: PoolView) -> bool:
        """Whether tasks of the pool may have to be taken now."""
        ...

    def steps(self, view: View, now: float) -> Iterator[Victim | None]:
        """Cheapest first, pool by pool, each pool's budget kept; None between two steps (`cooperative`).
        `now`: seconds on the monotonic clock."""
        ...
