"""Simulated agents: they run nothing, but their tasks start, run for a given time and end.

They speak the same messages as real agents. One object stands for all of them; its clock is one heap.
A task's time is the label ``simulated.seconds`` or the default, its exit code the label
``simulated.exit`` or 0. A kill ends a task at once. Where launches have costs, each agent pays them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.agent_link import (
    Acknowledge,
    AgentMessage,
    ApplyResources,
    Kill,
    Launch,
    MasterMessage,
    OperationApplied,
    Register,
    ResendUpdates,
    ShutdownExecutor,
    ShutdownFramework,
    Update,
)
from minicluster.mesos.common.launch_costs import NO_COSTS, LaunchCosts, LaunchQueue, too_late
from minicluster.mesos.common.status_updates import Key, UpdateStreams

SECONDS_LABEL = "simulated.seconds"
EXIT_LABEL = "simulated.exit"
"""The host manager drops labels of users that begin with `peloton.`."""

VALUES_IN_TURN = "|"
"""Between the values of an attribute that agents have in turn."""

_STATUS = mesos.TaskStatus
_KILLING = mesos.FrameworkInfo.Capability.TASK_KILLING_STATE

Answer = tuple[str, AgentMessage]
"""Agent id and message."""


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """How many agents, what each has, how long tasks run (seconds), and the seed of their ids and spread.

    An attribute whose text has several values with `|` between has these on the agents in turn; an agent
    whose turn is an empty one does not have the attribute.
    """

    agents: int
    resources: res.Bundle
    attributes: tuple[mesos.Attribute, ...] = ()
    task_seconds: float = 1.0
    seed: int = 0
    costs: LaunchCosts = NO_COSTS


@dataclass(slots=True)
class _Run:
    agent_id: str
    seconds: float
    exit_code: int
    says_killing: bool
    started: bool = False
    ended: bool = False


def registrations(config: SimulationConfig, ip: str, port: int) -> list[Register]:
    """Return the registrations of the simulated agents; they are named ``simulated-00000`` and so on."""
    out = []
    resources = res.to_messages(config.resources)
    for number in range(config.agents):
        info = mesos.AgentInfo(hostname=f"simulated-{number:05d}", port=port)
        info.resources.extend(resources)
        info.attributes.extend(_attributes(config, number))
        out.append(Register(info, ip, "1.12.0"))
    return out


def _attributes(config: SimulationConfig, number: int) -> Iterator[mesos.Attribute]:
    """Yield the attributes of an agent."""
    for each in config.attributes:
        values = each.text.value.split(VALUES_IN_TURN)
        if len(values) == 1:
            yield each
        elif text := values[number % len(values)]:
            yield mesos.Attribute(name=each.name, type=each.type, text=mesos.Value.Text(value=text))


def _labels(task: mesos.TaskInfo) -> tuple[str | None, str | None]:
    seconds = exit_code = None
    for label in task.labels.labels:
        if label.key == SECONDS_LABEL:
            seconds = label.value
        elif label.key == EXIT_LABEL:
            exit_code = label.value
    return seconds, exit_code


def _number(text: str | None, default: float) -> float:
    try:
        return default if text is None else max(float(text), 0.0)
    except ValueError:
        return default


class Simulation:
    """All simulated agents of a master."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        self._random = random.Random(config.seed)
        self._updates = UpdateStreams()
        self._runs: dict[Key, _Run] = {}
        self._ends: list[tuple[float, Key]] = []
        self._launching: dict[str, LaunchQueue] = {}
        self._launches: list[tuple[float, str]] = []
        self._armed: dict[str, float] = {}

    def next_due(self) -> float | None:
        """When ``due`` should be called next."""
        ends = self._ends[0][0] if self._ends else None
        launches = self._launches[0][0] if self._launches else None
        resends = self._updates.next_due()
        return min((when for when in (ends, launches, resends) if when is not None), default=None)

    def due(self, now: float) -> list[Answer]:
        """Start and end the tasks for which it is time, and resend what was not acknowledged in time."""
        out: list[Answer] = []
        while self._launches and self._launches[0][0] <= now:
            when, agent_id = heapq.heappop(self._launches)
            if self._armed.get(agent_id) == when:
                del self._armed[agent_id]
                self._go_on_launching(agent_id, now, out)
        while self._ends and self._ends[0][0] <= now:
            _, key = heapq.heappop(self._ends)
            run = self._runs.get(key)
            if run is not None and not run.ended:
                run.ended = True
                state, text = _outcome(run.exit_code)
                self._say(key, run, state, now, out, text)
        for key, status in self._updates.due(now):
            out.append((status.agent_id.value, self._update(key, status)))
        return out

    def handle(self, agent_id: str, message: MasterMessage, now: float) -> list[Answer]:
        """Handle a message to one agent; return the agents' answers."""
        out: list[Answer] = []
        if isinstance(message, Acknowledge):
            self._acknowledge((message.framework_id, message.task_id), message.uuid, now, out)
        elif isinstance(message, Launch):
            self._launch(agent_id, message, now, out)
        elif isinstance(message, Kill):
            self._kill((message.framework_id, message.task_id), message.draining, now, out)
        elif isinstance(message, ShutdownExecutor):
            self._kill((message.framework_id, message.executor_id), False, now, out)
        elif isinstance(message, ResendUpdates):
            for key, status in self._updates.resend(message.framework_id):
                if status.agent_id.value == agent_id:
                    out.append((agent_id, self._update(key, status)))
        elif isinstance(message, ShutdownFramework):
            self._drop(message.framework_id)
        elif isinstance(message, ApplyResources) and message.operation_id:
            done = OperationApplied(message.framework_id, message.operation_id, self._new_uuid())
            out.append((agent_id, done))
        return out

    def _update(self, key: Key, status: mesos.TaskStatus) -> Update:
        return Update(key[0], status, self._updates.latest(key, status.state))

    def _new_uuid(self) -> bytes:
        return self._random.randbytes(16)

    def _say(
        self,
        key: Key,
        run: _Run,
        state: int,
        now: float,
        out: list[Answer],
        message: str = "",
        reason: int | None = None,
        by_agent: bool = False,
    ) -> None:
        status = mesos.TaskStatus(
            source=mesos.TaskStatus.SOURCE_EXECUTOR,
            state=state,  # type: ignore[arg-type]
            timestamp=now,
            uuid=self._new_uuid(),
        )
        status.task_id.value = status.executor_id.value = key[1]
        status.agent_id.value = run.agent_id
        if message:
            status.message = message
        if reason is not None:
            status.reason = reason  # type: ignore[assignment]
        if by_agent:
            status.source = mesos.TaskStatus.SOURCE_AGENT
        send = self._updates.add(key, status, now)
        if send is not None:
            out.append((run.agent_id, self._update(key, send)))

    def _launch(self, agent_id: str, message: Launch, now: float, out: list[Answer]) -> None:
        task = message.task
        key = (message.framework.id.value, task.task_id.value)
        seconds, exit_code = _labels(task)
        says_killing = any(item.type == _KILLING for item in message.framework.capabilities)
        run = self._runs[key] = _Run(
            agent_id,
            _number(seconds, self._config.task_seconds),
            int(_number(exit_code, 0)),
            says_killing,
        )
        if self._config.costs.none:
            self._start(key, run, now, out)
            return
        queue = self._launching.get(agent_id)
        if queue is None:
            seed = self._config.costs.seed + len(self._launching)
            queue = self._launching[agent_id] = LaunchQueue(replace(self._config.costs, seed=seed))
        queue.add(key, now)
        self._go_on_launching(agent_id, now, out)

    def _go_on_launching(self, agent_id: str, now: float, out: list[Answer]) -> None:
        queue = self._launching[agent_id]
        done, late = queue.due(now)
        for key in done:
            queue.drop(key)
            self._start(key, self._runs[key], now, out)
        for key in late:
            self._runs[key].ended = True
            state, reason, text = too_late(queue.costs.registration_timeout)
            self._say(key, self._runs[key], state, now, out, text, reason, by_agent=True)
        due = queue.next_due()
        if due is not None and self._armed.get(agent_id) != due:
            self._armed[agent_id] = due
            heapq.heappush(self._launches, (due, agent_id))

    def _start(self, key: Key, run: _Run, now: float, out: list[Answer]) -> None:
        run.started = True
        heapq.heappush(self._ends, (now + run.seconds, key))
        self._say(key, run, mesos.TASK_STARTING, now, out)
        self._say(key, run, mesos.TASK_RUNNING, now, out)

    def _acknowledge(self, key: Key, uid: bytes, now: float, out: list[Answer]) -> None:
        _, send = self._updates.acknowledge(key, uid, now)
        if send is not None:
            out.append((send.agent_id.value, self._update(key, send)))
        elif not self._updates.has(key):
            self._runs.pop(key, None)

    def _kill(self, key: Key, draining: bool, now: float, out: list[Answer]) -> None:
        run = self._runs.get(key)
        if run is None or run.ended:
            return
        if not run.started:
            self._launching[run.agent_id].drop(key)
            run.ended = True
            text, reason = "Killed before delivery to the executor", _STATUS.REASON_TASK_KILLED_DURING_LAUNCH
            self._say(key, run, mesos.TASK_KILLED, now, out, text, reason, by_agent=True)
            return
        draining_reason = _STATUS.REASON_AGENT_DRAINING if draining else None
        if run.says_killing:
            self._say(key, run, mesos.TASK_KILLING, now, out, reason=draining_reason)
        run.ended = True
        text = "Command terminated with signal Terminated"
        self._say(key, run, mesos.TASK_KILLED, now, out, text, draining_reason)

    def _drop(self, framework_id: str) -> None:
        self._updates.drop_framework(framework_id)
        for key in [key for key in self._runs if key[0] == framework_id]:
            run = self._runs.pop(key)
            if not run.started:
                self._launching[run.agent_id].drop(key)


def _outcome(exit_code: int) -> tuple[int, str]:
    state = mesos.TASK_FINISHED if exit_code == 0 else mesos.TASK_FAILED
    return state, f"Command exited with status {exit_code}"
