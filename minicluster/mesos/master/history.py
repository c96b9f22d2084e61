"""A log of what this master saw of tasks and agents, for checks of a run afterwards.

Each line is a JSON object with ``at`` (seconds since the epoch, by this master) and ``kind``:

=========  ==========================================================================================
kind       further keys
=========  ==========================================================================================
master     ``pid``: a master began
agent      ``agent``, ``host``, ``total`` (amounts by resource name): registered, or came back
cut        ``agent``: its link broke
failure    ``agent``: the FAILURE event of the agent was sent to the framework
launch     ``run``, ``agent``, ``resources``, ``ports``, ``sent`` (false: the agent was not to be reached)
kill       ``run``, ``agent``
ack        ``run``, ``agent``, ``uuid``: the framework has taken an update
update     ``run``, ``agent``, ``state``, ``latest``, ``uuid``, ``when``: an agent's update, or its repetition
sent       ``run``, ``agent``, ``state``, ``uuid``, ``reason``: an UPDATE event to the framework
=========  ==========================================================================================

A line is written before the message that it records has left the master.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import agent_link


class History:
    """Append to the log, whose file outlives this master."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raise OSError where it cannot be written."""
        self._file = path.open("a", encoding="utf-8")

    def began(self, now: float) -> None:
        """Record that this master leads."""
        self._write(now, "master", pid=os.getpid())

    def registered(self, now: float, agent: mesos.AgentInfo) -> None:
        """Record a registration or re-registration."""
        self._write(now, "agent", agent=agent.id.value, host=agent.hostname, total=_amounts(agent.resources))

    def cut(self, now: float, agent_id: str) -> None:
        """Record that the link to an agent broke."""
        self._write(now, "cut", agent=agent_id)

    def updated(self, now: float, agent_id: str, message: agent_link.Update) -> None:
        """Record an agent's status update."""
        status = message.status
        self._write(
            now,
            "update",
            run=status.task_id.value,
            agent=agent_id,
            state=_state(status.state),
            latest=_state(message.latest_state),
            uuid=status.uuid.hex(),
            when=status.timestamp,
        )

    def to_agents(self, now: float, batch: Iterable[tuple[str, agent_link.MasterMessage, bool]]) -> None:
        """Record launches, kills and acknowledgements.

        ``batch``: agent id, message, and whether the agent can be reached.
        """
        for agent_id, message, sent in batch:
            if isinstance(message, agent_link.Launch):
                resources = message.task.resources
                self._write(
                    now,
                    "launch",
                    run=message.task.task_id.value,
                    agent=agent_id,
                    resources=_amounts(resources),
                    ports=_ports(resources),
                    sent=sent,
                )
            elif isinstance(message, agent_link.Kill):
                self._write(now, "kill", run=message.task_id, agent=agent_id)
            elif isinstance(message, agent_link.Acknowledge):
                self._write(now, "ack", run=message.task_id, agent=agent_id, uuid=message.uuid.hex())

    def to_framework(self, now: float, event: scheduler.Event) -> None:
        """Record an UPDATE or FAILURE event."""
        if event.type == scheduler.Event.UPDATE:
            status = event.update.status
            self._write(
                now,
                "sent",
                run=status.task_id.value,
                agent=status.agent_id.value,
                state=_state(status.state),
                uuid=status.uuid.hex(),
                reason=mesos.TaskStatus.Reason.Name(status.reason),
            )
        elif event.type == scheduler.Event.FAILURE:
            self._write(now, "failure", agent=event.failure.agent_id.value)

    def flush(self) -> None:
        """Hand all lines to the operating system."""
        self._file.flush()

    def _write(self, now: float, kind: str, **rest: Any) -> None:
        self._file.write(json.dumps({"at": now, "kind": kind, **rest}) + "\n")


def _state(number: int) -> str:
    return mesos.TaskState.Name(number)  # type: ignore[arg-type]


def _amounts(resources: Iterable[mesos.Resource]) -> dict[str, float]:
    """Return scalars by name; revocable resources have names of their own."""
    found: dict[str, float] = {}
    for resource in resources:
        if resource.type == mesos.Value.SCALAR:
            name = resource.name + ("-revocable" if resource.HasField("revocable") else "")
            found[name] = found.get(name, 0.0) + resource.scalar.value
    return found


def _ports(resources: Iterable[mesos.Resource]) -> list[int]:
    return [
        port
        for resource in resources
        if resource.name == "ports"
        for part in resource.ranges.range
        for port in range(part.begin, part.end + 1)
    ]
