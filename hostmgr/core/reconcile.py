"""What to ask Mesos about tasks, when, and what its answers mean (behaviour 6).

A master that was just elected does not know the tasks of agents that have not come back yet, and says
TASK_UNKNOWN of them. That is no verdict until the agent is known to be gone or the time in which agents may
come back is over: till then the task is asked for again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from peloton.model.ids import JobId, MesosTaskId, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

ASKED_STATES = frozenset({TaskState.LAUNCHED, TaskState.STARTING, TaskState.RUNNING, TaskState.KILLING})
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_MOST_GONE = 10_000


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds throughout."""

    interval: float = 1800.0
    """Between rounds, which are explicit and implicit in turn."""
    second_look: float = 60.0
    """A further explicit round after each subscription, for what was too young for the first."""
    launch_grace: float = 30.0
    """How long after its launch a LAUNCHED task is not asked for: its ACCEPT may be on the way."""
    reregister: float = 600.0
    """How long agents may take to come back to a new master."""


class Verdict(Enum):
    PASS_ON = "pass on"
    ASK_AGAIN = "ask again"


class Round(Enum):
    EXPLICIT = "explicit"
    IMPLICIT = "implicit"


@dataclass(frozen=True, slots=True)
class _Asked:
    agent_id: str
    pause: float


class Reconciler:
    """Monotonic seconds are handed in as `now`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._master_id = ""
        self._subscribed = False
        self._settled_at = 0.0
        self._rounds: list[tuple[float, Round]] = []
        self._again: dict[MesosTaskId, tuple[float, _Asked]] = {}
        self._doubted: set[MesosTaskId] = set()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._put_off: dict[MesosTaskId, float] = {}

    # What happened.

    def subscribed(
        self, master_id: str, now: float, unconfirmed: Iterable[tuple[MesosTaskId, str]] = ()
    ) -> None:
        """A subscription began: no updates come by themselves of what happened before.

        `unconfirmed` are the runs, with their agents, whose launch went out over the connection of before
        and may have been lost with it: they are asked for until Mesos says something of them.
        """
        policy = self._policy
        self._subscribed = True
        if master_id != self._master_id:
            self._master_id = master_id
            self._settled_at = now + policy.reregister
        explicit = [now, now + policy.second_look]
        if self._settled_at > now:
            explicit.append(self._settled_at + policy.second_look)
        self._rounds = [(at, Round.EXPLICIT) for at in explicit]
        self._rounds.append((explicit[-1] + policy.interval, Round.IMPLICIT))
        for run, agent_id in unconfirmed:
            self._again[run] = (now, _Asked(agent_id, _FIRST_PAUSE))

    def disconnected(self) -> None:
        self._subscribed = False
        self._rounds.clear()
        self._again.clear()
        self._doubted.clear()

    def agent_gone(self, agent_id: str) -> None:
        self._gone[agent_id] = None
        if len(self._gone) > _MOST_GONE:
            self._gone.popitem(last=False)

    def agent_seen(self, agent_id: str) -> None:
        self._gone.pop(agent_id, None)

    def put_off(self, runs: Iterable[MesosTaskId], now: float) -> None:
        """These could not be launched while Mesos was away, and will be tried again: Mesos does not have
        them, which does not mean that they are lost."""
        until = now + self._policy.second_look
        self._put_off.update(dict.fromkeys(runs, until))

    def doubt(self, run: MesosTaskId, agent_id: str, now: float) -> None:
        """Mesos did not have it when it was asked, and it was launched since: ask once more, and believe no
        answer before."""
        if run not in self._doubted:
            self._doubted.add(run)
            self._again[run] = (now + _FIRST_PAUSE, _Asked(agent_id, _FIRST_PAUSE))

    def overlooked(self, now: float) -> None:
        """A status that Mesos does not send again could not be taken: ask for all soon."""
        if not any(
            kind is Round.EXPLICIT and at <= now + self._policy.second_look for at, kind in self._rounds
        ):
            self._rounds.append((now + self._policy.second_look, Round.EXPLICIT))
            self._rounds.sort(key=lambda each: each[0])

    # What to do.

    def doubted(self, run: MesosTaskId) -> bool:
        """Whether answers about it may still be to what was asked before its launch."""
        return run in self._doubted

    @property
    def settled_at(self) -> float:
        """When a new master knows all agents that will come back."""
        return self._settled_at

    def settled(self, now: float) -> bool:
        """Whether the master is one that knows all agents that will come back."""
        return self._subscribed and now >= self._settled_at

    def judge(self, run: MesosTaskId, agent_id: str, unknown: bool, now: float) -> Verdict:
        """What to do with a status; `unknown` says that it is TASK_UNKNOWN. The agent is the run's as far as
        it is known."""
        if not unknown or agent_id in self._gone or now >= self._settled_at:
            self._again.pop(run, None)
            self._doubted.discard(run)
            return Verdict.PASS_ON
        held = self._again.get(run)
        pause = min(held[1].pause * 2, _LONGEST_PAUSE) if held else _FIRST_PAUSE
        self._again[run] = (now + pause, _Asked(agent_id, pause))
        return Verdict.ASK_AGAIN

    def ask_again(self, now: float) -> list[tuple[MesosTaskId, str]]:
        """Runs, with their agents, whose turn it is to be asked for once more."""
        due = [(run, asked) for run, (at, asked) in self._again.items() if at <= now]
        for run, asked in due:
            self._doubted.discard(run)
            pause = min(asked.pause * 2, _LONGEST_PAUSE)
            self._again[run] = (now + pause, _Asked(asked.agent_id, pause))
        return [(run, asked.agent_id) for run, asked in due]

    def next_round(self, now: float) -> Round | None:
        """The round whose time has come, once. The regular ones follow each other for ever."""
        if not self._rounds or self._rounds[0][0] > now:
            return None
        _, kind = self._rounds.pop(0)
        if not self._rounds:
            other = Round.EXPLICIT if kind is Round.IMPLICIT else Round.IMPLICIT
            self._rounds.append((now + self._policy.interval, other))
        return kind

    def to_ask(
        self, job_id: JobId, runtimes: Mapping[int, TaskRuntime], now: float, wall: int
    ) -> list[tuple[MesosTaskId, str]]:
        """Which runs of these instances to ask for, with their agents. `wall`: nanoseconds since 1970."""
        self._put_off = {run: until for run, until in self._put_off.items() if until > now}
        young = wall - round(self._policy.launch_grace * 1e9)
        found = [
            (mesos_task_id(job_id, instance, runtime.run), runtime.agent_id)
            for instance, runtime in runtimes.items()
            if runtime.state in ASKED_STATES
            and runtime.run
            and not (runtime.state is TaskState.LAUNCHED and runtime.updated_at > young)
        ]
        return [each for each in found if each[0] not in self._put_off]
