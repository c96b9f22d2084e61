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
    """A gang to be preempted, whole; a single task is a gang of one."""

    runs: tuple[Run, ...]
    rows: tuple[int, ...]
    """The rows of the runs among the pool's candidates."""
    pool: str
    """Path of the victim's pool."""
    benefits: str
    """Path of the pool that gets what it frees; empty where no pool waits for it."""
    frees: Resources
    """Without revocable cpu."""
    frees_slack: Resources
    """The part that revocable tasks held, with the revocable cpu."""
    kinds: tuple[str, ...]
    """The kinds for which it was taken."""
    policy: str
    reason: str
    """For a human."""
    lead: Run | None = None
    """The first task of the gang of its own pool for which it was taken; None: for other pools."""
    hosts: str = ""
    """Words for the class of hosts that it is on; empty where there is one class."""

    @staticmethod
    def of(
        runs: tuple[Run, ...],
        rows: tuple[int, ...],
        frees: Sequence[int],
        sides: Sequence[int],
        pools: tuple[str, str],
        policy: str,
        reason: str,
        hosts: str = "",
    ) -> Victim:
        """Build a victim from amounts by side.

        `frees`: 8 amounts, non-slack then slack; `sides`: indices of those that are needed; `pools`: the
        victim's and the one that benefits.
        """
        assert runs and len(runs) == len(rows), f"rows {rows} are not those of {runs}"
        assert min(frees) >= 0, f"{runs[0]} would free {tuple(frees)}"
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
            hosts=hosts,
        )


class PreemptionPolicy(Protocol):
    """A rule by which tasks are taken. It applies only to pools that name it."""

    @property
    def name(self) -> str:
        """Return the name in settings and metrics."""
        ...

    def applies_to(self, pool: PoolView) -> bool:
        """Return whether tasks of the pool may have to be taken now."""
        ...

    def steps(self, view: View, now: float) -> Iterator[Victim | None]:
        """Iterate over victims within each pool's budget, pool by pool, cheapest first.

        None stands between two steps (`cooperative`). `now`: seconds on the monotonic clock.
        """
        ...
