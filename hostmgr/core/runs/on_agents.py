"""Which runs are on which agents, as far as launches and statuses show."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from hostmgr.core.runs.run_info import RunInfo
from peloton.model.ids import MesosTaskId

MAX_GIVEN_UP = 100_000
MAX_ENDED = 10_000
"""Runs whose end is remembered: calls about them may come until jobmgr has learnt of it."""
MAX_KILLS = 100_000
"""Most kills that are remembered, to be repeated after a new connection."""
MAX_LOST = 20_000
"""Lost runs that are kept until they are taken."""


class Runs:
    """Runs that are not known to have ended, by id and by agent."""

    def __init__(self) -> None:
        self._agent: dict[MesosTaskId, str] = {}
        self._on: dict[str, set[MesosTaskId]] = {}
        self._unconfirmed: dict[MesosTaskId, None] = {}
        self._info: dict[MesosTaskId, RunInfo] = {}
        self._given_up: OrderedDict[MesosTaskId, None] = OrderedDict()
        self._ended: OrderedDict[MesosTaskId, bool] = OrderedDict()
        """Whether the end is final: a lost run may come back."""
        self._killed: OrderedDict[MesosTaskId, bool] = OrderedDict()
        """Runs to which a kill was sent, until they end; and whether it is for maintenance alone."""
        self._lost: deque[tuple[MesosTaskId, str]] = deque(maxlen=MAX_LOST)

    def __len__(self) -> int:
        return len(self._agent)

    def launched(self, run: MesosTaskId, agent_id: str) -> None:
        """Add a run that was launched and that Mesos has not reported yet."""
        assert run not in self._given_up, f"{run} was reported as lost before its launch"
        self.put(run, agent_id)
        self._unconfirmed[run] = None

    def confirm(self, run: MesosTaskId) -> None:
        """Note that Mesos has reported the run."""
        self._unconfirmed.pop(run, None)

    def is_unconfirmed(self, run: MesosTaskId) -> bool:
        """Return whether the run was launched and not reported yet."""
        return run in self._unconfirmed

    def give_up(self, run: MesosTaskId) -> None:
        """Refuse to launch the run from now on: the event stream says that Mesos does not have it."""
        self._given_up[run] = None
        if len(self._given_up) > MAX_GIVEN_UP:
            self._given_up.popitem(last=False)

    def given_up(self, run: MesosTaskId) -> bool:
        """Return whether the run may no longer be launched."""
        return run in self._given_up

    def unconfirmed(self) -> list[tuple[MesosTaskId, str]]:
        """Return launched runs that Mesos has not reported, with their agents."""
        return [(run, self._agent[run]) for run in self._unconfirmed]

    def kill_sent(self, run: MesosTaskId, maintenance: bool = False) -> None:
        """Note that a kill of a run was sent; the run may become known later only."""
        if self.has_ended(run):
            return
        self._killed[run] = maintenance and self._killed.get(run, True)
        if len(self._killed) > MAX_KILLS:
            self._killed.popitem(last=False)

    def killed(self) -> list[tuple[MesosTaskId, bool]]:
        """Return the live runs to which a kill was sent, in order; forget those that are not known.

        Each comes with whether all its kills were for maintenance.
        """
        for run in [run for run in self._killed if run not in self._agent]:
            del self._killed[run]
        return list(self._killed.items())

    def put(self, run: MesosTaskId, agent_id: str) -> None:
        """Note on which agent a run is."""
        before = self._agent.get(run)
        if before == agent_id:
            return
        if before is not None:
            self._leave(run, before)
        self._agent[run] = agent_id
        self._on.setdefault(agent_id, set()).add(run)

    def remove(self, run: MesosTaskId, final: bool = True) -> None:
        """Remove a run that ended. An end that is not `final` is a loss: the run may come back."""
        self._unconfirmed.pop(run, None)
        self._info.pop(run, None)
        self._killed.pop(run, None)
        agent_id = self._agent.pop(run, None)
        if agent_id is not None:
            self._leave(run, agent_id)
        self._ended[run] = final or self._ended.get(run, False)
        self._ended.move_to_end(run)
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def has_ended(self, run: MesosTaskId) -> bool:
        """Return whether a run has ended, as far as that is remembered."""
        return run in self._ended and run not in self._agent

    def has_ended_for_good(self, run: MesosTaskId) -> bool:
        """Return whether a run has ended and cannot come back, as far as that is remembered."""
        return self._ended.get(run, False) and run not in self._agent

    def confirmed(self) -> set[MesosTaskId]:
        """Return the runs that Mesos has reported, or that the store has."""
        return self._agent.keys() - self._unconfirmed.keys()

    def lose(self, run: MesosTaskId, agent_id: str) -> None:
        """Note that a run was reported as lost, before it is removed: its agent may be gone."""
        if run in self._agent:
            self._lost.append((run, agent_id))

    def take_lost(self) -> list[tuple[MesosTaskId, str]]:
        """Return the runs that were lost since the last call, each with its agent."""
        taken = list(self._lost)
        self._lost.clear()
        return taken

    def agent(self, run: MesosTaskId) -> str:
        """Return the agent of a run; empty where it is not known."""
        return self._agent.get(run, "")

    def on(self, agent_id: str) -> Iterable[MesosTaskId]:
        """Return the runs on an agent."""
        return tuple(self._on.get(agent_id, ()))

    def infos_on(self, agent_id: str) -> list[RunInfo]:
        """Return what the runs on an agent use and when they end, of those of which that was learnt."""
        infos = self._info
        return [infos[run] for run in self._on.get(agent_id, ()) if run in infos]

    def count(self, agent_id: str) -> int:
        """Return the number of runs on an agent."""
        return len(self._on.get(agent_id, ()))

    def learn(self, run: MesosTaskId, info: RunInfo) -> None:
        """Note what a run uses and when it ends, until it is removed."""
        if run in self._agent:
            self._info[run] = info

    def info(self, run: MesosTaskId) -> RunInfo | None:
        """Return what a run uses and when it ends, as far as that was learnt."""
        return self._info.get(run)

    def _leave(self, run: MesosTaskId, agent_id: str) -> None:
        held = self._on[agent_id]
        held.discard(run)
        if not held:
            del self._on[agent_id]
