"""What becomes of statuses: which are published, which do not count, and what the core learns from them."""

from __future__ import annotations

from collections.abc import Iterable

from hostmgr.core.claims.holds import Holds
from hostmgr.core.cluster_manager.events import (
    Acknowledgement,
    SecondLaunchRefused,
    StatusEvent,
    StatusUpdate,
)
from hostmgr.core.cluster_manager.instructions import HandleStatuses
from hostmgr.core.cluster_manager.reconciliation import Reconciler, Verdict
from hostmgr.core.runs.launches import Launches
from hostmgr.core.runs.on_agents import Runs
from peloton.model.ids import MesosTaskId
from peloton.model.states import TaskState


class StatusRules:
    """Judge statuses, and follow the runs."""

    def __init__(self, runs: Runs, launches: Launches, reconciler: Reconciler, holds: Holds) -> None:
        self._runs = runs
        self._launches = launches
        self._reconciler = reconciler
        self._holds = holds

    def judge(self, statuses: Iterable[StatusEvent], now: float) -> HandleStatuses:
        """Decide what becomes of statuses, in their order."""
        publish: list[StatusUpdate] = []
        second: list[MesosTaskId] = []
        skip: list[Acknowledgement] = []
        again = 0
        for event in statuses:
            if isinstance(event, StatusUpdate):
                if self._counts(event, now):
                    publish.append(event)
                else:
                    again += 1
            elif isinstance(event, SecondLaunchRefused):
                second.append(event.run)
            else:
                self._runs.confirm(event.acknowledgement.run)
                skip.append(event.acknowledgement)
        return HandleStatuses(tuple(publish), tuple(second), tuple(skip), again)

    def missed(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Note that the event stream was full. Only what is to be acknowledged is repeated by itself."""
        if not acknowledgement.uuid:
            self._reconciler.reconcile_soon(now)

    def _counts(self, update: StatusUpdate, now: float) -> bool:
        """Follow what a status says, and return True; or request it again."""
        status = update.status
        run, state = status.mesos_task_id, status.state
        agent_id = status.agent_id or self._runs.agent(run)
        if update.missing and (self._runs.is_unconfirmed(run) or self._reconciler.distrusted(run)):
            self._runs.confirm(run)
            self._reconciler.distrust(run, agent_id, now)
            return False
        if self._reconciler.judge(run, agent_id, update.unknown, now) is Verdict.RETRY:
            return False
        if not state.terminal and self._runs.has_ended_for_good(run):
            return True  # It is older than the end: jobmgr passes over it.
        if state is TaskState.LOST:
            self._runs.lose(run, agent_id)
        self._follow(run, agent_id, state)
        self._launches.observe(run, agent_id, state, status.reason, now)
        if update.missing:
            self._runs.give_up(run)
        return True

    def _follow(self, run: MesosTaskId, agent_id: str, state: TaskState) -> None:
        self._runs.confirm(run)
        if state.terminal:
            self._runs.remove(run, final=state is not TaskState.LOST)
            self._holds.ended(run)
        elif agent_id:
            self._runs.put(run, agent_id)
