"""The state of a replay: its connections, and the ids of this run by the recorded ones."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.contract.mesos.client import Reply, Stream, Wire, render
from tests.contract.mesos.cluster import RecordedCluster
from tests.contract.mesos.matching import Binding
from tests.contract.mesos.recording import PATIENCE_SECONDS, Scenario


@dataclass(slots=True)
class Conversation:
    """``wires`` and ``streams`` by recorded connection. ``stream_ids``: ours by the recorded ones;
    ``own_ids``: ours by connection. ``queries``: the last request of a connection, where it may be repeated.
    ``skipped_replies``: how many are not to be expected.
    """

    scenario: Scenario
    cluster: RecordedCluster
    binding: Binding = field(init=False)
    wires: dict[str, Wire] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    stream_ids: dict[str, str] = field(default_factory=dict)
    own_ids: dict[str, str] = field(default_factory=dict)
    queries: dict[str, bytes] = field(default_factory=dict)
    skipped_replies: int = 0

    def __post_init__(self) -> None:
        self.binding = Binding(self.scenario.ignored)

    def close(self) -> None:
        """Hang up everywhere."""
        for stream in self.streams.values():
            stream.stop()
        for wire in self.wires.values():
            wire.close()

    def localised(self, value: Any) -> Any:
        """Put our ports and paths into what was recorded."""
        if isinstance(value, dict):
            return {
                self.localised(key): self._local_port(key, self.localised(item))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.localised(item) for item in value]
        if isinstance(value, str):
            value = re.sub(r"(?<=:)50\d\d\b", lambda match: str(self.port(int(match[0]))), value)
            return value.replace("/var/lib/mesos/", f"{self.cluster.processes.root}/")
        return value

    def _local_port(self, key: str, value: Any) -> Any:
        return self.port(value) if key == "port" else value

    def port(self, recorded: int) -> int:
        return self.cluster.ports.get(recorded, recorded)


def is_operator(record: dict[str, Any]) -> bool:
    """Whether it is of the operator API."""
    return "scheduler" not in record["path"]


async def once(port: int, path: str, call: dict[str, Any], stream_id: str = "") -> Reply:
    """Make a call that was not recorded."""
    wire = await Wire.open("127.0.0.1", port)
    headers = {"Content-Type": "application/json"}
    if stream_id:
        headers["Mesos-Stream-Id"] = stream_id
    wire.send("POST", render("POST", path, headers, json.dumps(call).encode(), "127.0.0.1"))
    reply = await asyncio.wait_for(wire.reply(), PATIENCE_SECONDS)
    wire.close()
    return reply
