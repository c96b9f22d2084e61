"""A small framework for tests: subscribes, launches on the first offer, acknowledges, collects updates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.contract.mesos.client import Reply, Stream, Wire, render

PATIENCE_SECONDS = 60.0
T = TypeVar("T")
CAPABILITIES = ("MULTI_ROLE", "PARTITION_AWARE", "TASK_KILLING_STATE")
INFO = {
    "user": "root",
    "name": "test",
    "roles": ["*"],
    "checkpoint": True,
    "failover_timeout": 1000.0,
    "capabilities": [{"type": name} for name in CAPABILITIES],
}
_TYPES = {"Content-Type": "application/json", "Accept": "application/json"}


@dataclass(slots=True)
class Framework:
    """One subscribed framework."""

    port: int
    stream: Stream
    calls: Wire
    stream_id: str
    id: str = ""
    updates: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    async def subscribe(cls, port: int, framework_id: str = "", **info: Any) -> Framework:
        """Subscribe, as a new framework unless it has an id; `info` is merged over INFO."""
        wire = await Wire.open("127.0.0.1", port)
        known = {"value": framework_id}
        call: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": {**INFO, **info}}}
        if framework_id:
            call |= {"framework_id": known, "subscribe": {"framework_info": {**INFO, **info, "id": known}}}
        body = json.dumps(call).encode()
        wire.send("POST", render("POST", "/api/v1/scheduler", _TYPES, body, "x"))
        reply = await wire.reply()
        assert reply.status == 200
        stream = Stream(wire, protobuf=False)
        stream.start()
        calls = await Wire.open("127.0.0.1", port)
        self = cls(port, stream, calls, reply.headers["Mesos-Stream-Id"])
        first = await self.event("SUBSCRIBED")
        self.id = first["subscribed"]["framework_id"]["value"]
        return self

    async def event(self, kind: str) -> dict[str, Any]:
        """Wait for the next event of a type; an offer is an event of its own, OFFER."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for number, event in enumerate(self.stream.waiting):
                    if event["type"] == kind:
                        return self.stream.waiting.pop(number)
                self.stream.changed.clear()
                await self.stream.changed.wait()

    async def call(self, kind: str, **body: Any) -> Reply:
        """Make a call."""
        value = {"type": kind, "framework_id": {"value": self.id}, **body}
        headers = {**_TYPES, "Mesos-Stream-Id": self.stream_id}
        data = render("POST", "/api/v1/scheduler", headers, json.dumps(value).encode(), "x")
        self.calls.send("POST", data)
        return await self.calls.reply()

    async def launch(self, task_id: str, shell: str, mem: float = 32, **more: Any) -> str:
        """Launch a task on the next offer; return the agent's id."""
        offer = (await self.event("OFFER"))["offer"]
        resources = [
            {"name": name, "type": "SCALAR", "scalar": {"value": value}}
            for name, value in (("cpus", 0.1), ("mem", mem))
        ]
        resources += more.pop("more_resources", [])
        extra = more.pop("command", {})
        task = {
            "name": task_id,
            "task_id": {"value": task_id},
            "agent_id": offer["agent_id"],
            "resources": resources,
            "command": {"value": shell, **extra},
            **more,
        }
        operation = {"type": "LAUNCH", "launch": {"task_infos": [task]}}
        filters = {"refuse_seconds": 0}
        body = {"offer_ids": [offer["id"]], "operations": [operation], "filters": filters}
        assert (await self.call("ACCEPT", accept=body)).status == 202
        return str(offer["agent_id"]["value"])

    async def update(self, acknowledge: bool = True) -> dict[str, Any]:
        """Wait for the next status update, and acknowledge it."""
        event = await self.event("UPDATE")
        status: dict[str, Any] = event["update"]["status"]
        if acknowledge and "uuid" in status:
            body = {name: status[name] for name in ("agent_id", "task_id", "uuid")}
            await self.call("ACKNOWLEDGE", acknowledge=body)
        return status

    async def until(self, *states: str) -> dict[str, Any]:
        """Take updates until one with one of these states."""
        while (status := await self.update())["state"] not in states:
            pass
        return status

    def close(self) -> None:
        """Hang up."""
        self.stream.stop()
        self.calls.close()


async def eventually(check: Callable[[], T]) -> T:
    """Wait until ``check`` returns something true, and return that."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (value := check()):  # noqa: ASYNC110 - other processes give no notice
            await asyncio.sleep(0.01)
    return value


async def get(port: int, path: str) -> Reply:
    """Make a GET request."""
    wire = await Wire.open("127.0.0.1", port)
    wire.send("GET", render("GET", path, {}, b"", "x"))
    reply = await wire.reply()
    wire.close()
    return reply
