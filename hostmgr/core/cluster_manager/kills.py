"""Kills of runs: which agents they go to, what is held for the next runs, and which are repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hostmgr.core.claims.holds import NOTHING, HoldRequest
from hostmgr.core.cluster_manager.instructions import Kill
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.runs.on_agents import Runs
from peloton.errors import Refused
from peloton.model.ids import MesosTaskId

CALLS_AT_ONCE = 1000
"""Calls that are queued before waiting for room."""
KILLS_DISABLED = "killing tasks is disabled; a restart of hostmgr enables it"


@dataclass(frozen=True, slots=True)
class Held:
    """How many holds were made, and how many not because too many hosts are held."""

    held: int
    refused: int


class Kills:
    """The kills of one term."""

    def __init__(self, hosts: Hosts, runs: Runs) -> None:
        self.disabled = False
        """Whether an operator has disabled kills."""
        self._hosts = hosts
        self._runs = runs

    def require_enabled(self) -> None:
        """Raise Refused while kills are disabled."""
        if self.disabled:
            raise Refused(KILLS_DISABLED)

    def plan(self, runs: Iterable[MesosTaskId], maintenance: bool = False) -> Kill:
        """Return the call that kills runs, known here or not."""
        return Kill(tuple((run, self._runs.agent(run)) for run in runs), maintenance)

    def sent(self, kill: Kill) -> None:
        """Remember the runs of a call that was sent: the connection may end before it arrives."""
        for run, _ in kill.runs:
            self._runs.kill_sent(run, kill.maintenance)

    def hold(self, runs: Mapping[MesosTaskId, HoldRequest], now: float) -> Held:
        """Hold room of a host for the next run of the instance of each run, which was killed."""
        made = 0
        for run, wanted in runs.items():
            lives = run if self._runs.agent(run) else ""
            made += self._hosts.hold(
                wanted.hostname, wanted.task_id, now, wanted.room, lives, wanted.freed if lives else NOTHING
            )
        return Held(made, len(runs) - made)

    def to_repeat(self) -> Iterator[Kill]:
        """Iterate over the kills to repeat, in parts of bounded size; forget those of runs that have ended.

        Other work may run between two of them.
        """
        due = self._runs.killed()
        for maintenance in (False, True):
            runs = [run for run, maintained in due if maintained is maintenance]
            for start in range(0, len(runs), CALLS_AT_ONCE):
                part = runs[start : start + CALLS_AT_ONCE]
                alive = tuple((run, agent) for run in part if (agent := self._runs.agent(run)))
                yield Kill(alive, maintenance)
