"""Reconciliation: which states to request, when, and what answers mean (docs/behaviour/hosts.md).

A newly elected master does not know the tasks of agents that have not registered again, and answers
TASK_UNKNOWN for them. Such an answer counts only when the agent is known to be lost or the time to register
is over; until then the state is requested again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from peloton.model.backoff import exponential
from peloton.model.ids import JobId, MesosTaskId, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

RECONCILED_STATES = frozenset({TaskState.LAUNCHED, TaskState.STARTING, TaskState.RUNNING, TaskState.KILLING})
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_MAX_GONE = 10_000


@dataclass(frozen=True, slots=True)
class ReconciliationLimits:
    """When to reconcile. Times are in seconds."""

    interval: float = 1800.0
    """Time between two reconciliations, which are alternately explicit and implicit."""
    repeat_after: float = 60.0
    """Time after a subscription until its explicit reconciliation is repeated, for tasks too young for the
    first."""
    launch_grace: float = 30.0
    """Time after its launch for which a LAUNCHED task is left out: its ACCEPT may be under way."""
    reregister: float = 600.0
    """Time within which agents register with a new master again."""


class Verdict(Enum):
    """What to do with a status."""

    PASS_ON = "pass on"
    RETRY = "retry"


class ReconcileKind(Enum):
    """Whether a reconciliation names the runs."""

    EXPLICIT = "explicit"
    IMPLICIT = "implicit"


@dataclass(frozen=True, slots=True)
class _Retry:
    agent_id: str
    count: int = 1

    @property
    def pause(self) -> float:
        return exponential(self.count, _FIRST_PAUSE, _LONGEST_PAUSE)

    def next(self) -> _Retry:
        return _Retry(self.agent_id, self.count + 1)


class Reconciler:
    """Plan reconciliations and judge answers. `now` is seconds on the monotonic clock."""

    def __init__(self, limits: ReconciliationLimits) -> None:
        self._limits = limits
        self._master_id = ""
        self._subscribed = False
        self._settled_at = 0.0
        self._planned: list[tuple[float, ReconcileKind]] = []
        self._retries: dict[MesosTaskId, tuple[float, _Retry]] = {}
        self._distrusted: set[MesosTaskId] = set()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._postponed: dict[MesosTaskId, float] = {}

    # What happened.

    def subscribed(
        self, master_id: str, now: float, unconfirmed: Iterable[tuple[MesosTaskId, str]] = ()
    ) -> None:
        """Plan the reconciliations of a new subscription, which sends no updates of what happened before.

        `unconfirmed` are the runs, with their agents, whose launch was sent over the previous connection and
        may be lost with it: their states are requested until Mesos reports one.
        """
        limits = self._limits
        self._subscribed = True
        if master_id != self._master_id:
            self._master_id = master_id
            self._settled_at = now + limits.reregister
        explicit = [now, now + limits.repeat_after]
        if self._settled_at > now:
            explicit.append(self._settled_at + limits.repeat_after)
        self._planned = [(at, ReconcileKind.EXPLICIT) for at in explicit]
        self._planned.append((explicit[-1] + limits.interval, ReconcileKind.IMPLICIT))
        for run, agent_id in unconfirmed:
            self._retries[run] = (now, _Retry(agent_id))

    def disconnected(self) -> None:
        """Cancel what is planned."""
        self._subscribed = False
        self._planned.clear()
        self._retries.clear()
        self._distrusted.clear()

    def agent_gone(self, agent_id: str) -> None:
        """Note that an agent is lost: TASK_UNKNOWN for its tasks counts."""
        self._gone[agent_id] = None
        if len(self._gone) > _MAX_GONE:
            self._gone.popitem(last=False)

    def agent_seen(self, agent_id: str) -> None:
        """Note that an agent is registered."""
        self._gone.pop(agent_id, None)

    def gone(self) -> frozenset[str]:
        """Return the agents that were lost and have not registered since."""
        return frozenset(self._gone)

    def postpone(self, runs: Iterable[MesosTaskId], now: float) -> None:
        """Leave runs out of reconciliations for a while.

        Their launch failed without a connection and is repeated: Mesos does not know them, yet they are not
        lost.
        """
        until = now + self._limits.repeat_after
        self._postponed.update(dict.fromkeys(runs, until))

    def distrust(self, run: MesosTaskId, agent_id: str, now: float) -> None:
        """Ignore answers about a run until its state is requested again.

        Mesos did not know it when the state was requested, and it was launched since.
        """
        if run not in self._distrusted:
            self._distrusted.add(run)
            self._retries[run] = (now + _FIRST_PAUSE, _Retry(agent_id))

    def reconcile_soon(self, now: float) -> None:
        """Plan an explicit reconciliation soon: a status that Mesos does not repeat was missed."""
        at = now + self._limits.repeat_after
        if not any(kind is ReconcileKind.EXPLICIT and time <= at for time, kind in self._planned):
            self._planned.append((at, ReconcileKind.EXPLICIT))
            self._planned.sort(key=lambda each: each[0])

    # What to do.

    def distrusted(self, run: MesosTaskId) -> bool:
        """Return whether an answer about the run may be older than its launch."""
        return run in self._distrusted

    def settled(self, now: float) -> bool:
        """Return whether the master knows all agents that will register again."""
        return self._subscribed and now >= self._settled_at

    def judge(self, run: MesosTaskId, agent_id: str, unknown: bool, now: float) -> Verdict:
        """Decide what to do with a status.

        `unknown`: it is TASK_UNKNOWN. `agent_id` is the agent of the run, empty where it is not known.
        """
        if not unknown or agent_id in self._gone or now >= self._settled_at:
            self._retries.pop(run, None)
            self._distrusted.discard(run)
            return Verdict.PASS_ON
        held = self._retries.get(run)
        retry = _Retry(agent_id, held[1].count + 1 if held else 1)
        self._retries[run] = (now + retry.pause, retry)
        return Verdict.RETRY

    def due_retries(self, now: float) -> list[tuple[MesosTaskId, str]]:
        """Return runs whose states are to be requested again, with their agents."""
        due = [(run, retry) for run, (at, retry) in self._retries.items() if at <= now]
        for run, retry in due:
            self._distrusted.discard(run)
            following = retry.next()
            self._retries[run] = (now + following.pause, following)
        return [(run, retry.agent_id) for run, retry in due]

    def next_reconciliation(self, now: float) -> ReconcileKind | None:
        """Return the reconciliation that is due, and plan the next regular one."""
        if not self._planned or self._planned[0][0] > now:
            return None
        _, kind = self._planned.pop(0)
        if not self._planned:
            other = ReconcileKind.EXPLICIT if kind is ReconcileKind.IMPLICIT else ReconcileKind.IMPLICIT
            self._planned.append((now + self._limits.interval, other))
        return kind

    def to_reconcile(
        self, job_id: JobId, runtimes: Mapping[int, TaskRuntime], now: float, wall: int
    ) -> list[tuple[MesosTaskId, str]]:
        """Return the runs of these instances to reconcile, with their agents.

        `wall`: nanoseconds since 1970.
        """
        self._postponed = {run: until for run, until in self._postponed.items() if until > now}
        young = range(wall - round(self._limits.launch_grace * 1e9) + 1, wall + 1)
        found = [
            (mesos_task_id(job_id, instance, runtime.run), runtime.agent_id)
            for instance, runtime in runtimes.items()
            if runtime.state in RECONCILED_STATES
            and runtime.run
            and not (runtime.state is TaskState.LAUNCHED and runtime.updated_at in young)
        ]
        return [each for each in found if each[0] not in self._postponed]
