"""Repeat recorded actions: start and end processes, send requests."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
from typing import Any

from mesos.v1.master import master_pb2 as master
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.agent.cleanup import kill_tasks
from peloton.mesos import json as mesos_json
from tests.contract.mesos.client import Wire, render
from tests.contract.mesos.cluster import MASTER_PORT, recorded_flags
from tests.contract.mesos.conversation import Conversation, is_operator, once
from tests.contract.mesos.matching import Mismatch
from tests.contract.mesos.recording import PATIENCE_SECONDS


class Actions:
    """Repeats the recorded actions."""

    def __init__(self, talk: Conversation) -> None:
        self._talk, self._cluster, self._scenario = talk, talk.cluster, talk.scenario
        self._executors_too = False
        self._starting: list[asyncio.Task[Any]] = []
        self._late: list[tuple[str, str]] = []
        self.holding = False
        """Whether agents are frozen."""

    # --- processes ---

    async def note(self, text: str) -> None:
        """Repeat the action of a note; most notes describe none."""
        if match := re.match(r"start ([\w-]+): (/.*)", text):
            if match[1] in self._scenario.late and match[1] not in self._cluster.processes.members:
                self._late.append((match[1], match[2]))
            else:
                await self._start(match[1], match[2])
            return
        while self._late:
            await self._start(*self._late.pop(0))
        if self._scenario.held is not None and text.startswith(self._scenario.held):
            await self.hold(True)
        if match := re.match(r"(SIG\w+) to (\S+)", text):
            await self._signal(match[2], signal.Signals[match[1]])
        elif text.startswith(("kill -9 of the agent", "the same")):
            self._executors_too = "of the executor" in text or text.startswith("the same")
        elif match := re.match(
            r"(?:[\d.]+ s after the kill of ZooKeeper: )?(\S+) process exit code (\d+)", text
        ):
            await self._exit(
                {"agent": "agent-1", "master": "master-1"}.get(match[1], match[1]), int(match[2])
            )
        elif match := re.match(r"new leader is port (\d+)", text):
            await self._led_by(int(match[1]))
        elif text == "ZooKeeper and the master are back":
            await self._led_by(MASTER_PORT, by_agents_too=True)

    async def _signal(self, name: str, number: signal.Signals) -> None:
        if number == signal.SIGUSR1:
            number = signal.SIGTERM  # ours unregisters on SIGTERM, a real one on SIGUSR1
        await asyncio.sleep(0.1)  # what was sent before, an acknowledgement say, has arrived by then
        if name == "zookeeper" and self._cluster.zookeeper is not None:
            await asyncio.to_thread(self._cluster.zookeeper.kill)
            return
        await self._cluster.processes.signal(name, number)
        if self._executors_too:
            work_dir = self._cluster.processes.root / name
            await asyncio.to_thread(kill_tasks, work_dir)

    async def hold(self, still: bool) -> None:
        """Freeze agents, or let them continue."""
        self.holding = still
        for name in self._cluster.processes.members:
            if name.startswith("agent"):
                await self._cluster.processes.signal(name, signal.SIGSTOP if still else signal.SIGCONT)

    async def _led_by(self, recorded: int, *, by_agents_too: bool = False) -> None:
        """Wait until the master at this port leads, and has recovered, its agents perhaps too."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                reply = await once(self._cluster.ports[recorded], "/api/v1", {"type": "GET_AGENTS"})
                if reply.status == 200:
                    recovered = json.loads(reply.body)["get_agents"]["recovered_agents"]
                    if not (recovered and by_agents_too):
                        return
                await asyncio.sleep(0.02)

    async def _exit(self, name: str, code: int) -> None:
        process = self._cluster.processes.members[name].process
        actual = await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
        if actual != code:
            raise Mismatch(f"{name} exited with {actual}, recorded {code}")

    async def _start(self, name: str, command: str) -> None:
        member = await self._cluster.start(name, command)
        recorded = int(recorded_flags(command).get("port", MASTER_PORT))
        if member is not None and recorded not in self._cluster.ports:
            ready = asyncio.ensure_future(member.wait_ready())
            self._starting.append(ready)
            ready.add_done_callback(lambda done: self._learn_port(recorded, done))

    def _learn_port(self, recorded: int, done: asyncio.Future[dict[str, Any]]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._cluster.ports[recorded] = done.result()["port"]

    # --- requests ---

    def _scaled(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            inside = key in ("grace_period", "max_completion_time")
            return {
                name: round(int(item) * self._scenario.scale)
                if inside and name == "nanoseconds"
                else self._scaled(item, name)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self._scaled(item) for item in value]
        if key == "refuse_seconds" and 0 < value < 1000:
            return value * self._scenario.scale
        return value

    def _with_scaled_filters(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("type") != "ACCEPT" or "filters" not in body.get("accept", {}):
            return body
        seconds = body["accept"]["filters"]["refuse_seconds"] / self._scenario.scale
        filters = {"refuse_seconds": seconds * self._scenario.accept_scale}
        return {**body, "accept": {**body["accept"], "filters": filters}}

    def _body(self, record: dict[str, Any], skipped: bool) -> bytes:
        body = record.get("decoded", record["body"])
        if isinstance(body, str):
            return self._text_body(body)
        if isinstance(body, dict) and set(body) == {"base64"}:
            return base64.b64decode(body["base64"])
        body = self._talk.binding.translate_all(self._scaled(self._talk.localised(body)))
        if isinstance(body, dict):
            body = self._with_scaled_filters(body)
        if skipped and isinstance(body, dict) and body.get("type") == "ACCEPT":
            body = {**body, "type": "DECLINE", "decline": {"offer_ids": body["accept"]["offer_ids"]}}
            body["decline"]["filters"] = {"refuse_seconds": 0}
            del body["accept"]
        text = json.dumps(body).encode()
        for old, new in self._scenario.edits:
            text = text.replace(old.encode(), new.format(root=self._cluster.processes.root).encode())
        if record["encoding"] != "protobuf":
            return text
        kind = master.Call if is_operator(record) else scheduler.Call
        return mesos_json.decode(text, kind).SerializePartialToString()

    def _text_body(self, body: str) -> bytes:
        if "8388608 times x" in body:
            call = {"type": "TEARDOWN", "framework_id": {"value": "x" * 8388608}}
            return json.dumps(call).encode()
        if body == "33554432 spaces":
            return b" " * 33554432
        return self._talk.binding.translate(body).encode()

    async def _wire(self, name: str, record: dict[str, Any]) -> Wire:
        if name not in self._talk.wires:
            host = record["headers"].get("Host", record["headers"].get("host", "127.0.0.1:5050"))
            port = self._cluster.ports[int(host.rsplit(":", 1)[1])]
            self._talk.wires[name] = await Wire.open("127.0.0.1", port)
        return self._talk.wires[name]

    async def request(self, record: dict[str, Any], skipped: bool) -> None:
        """Send a request with the ids of this run."""
        if self._starting:
            await asyncio.gather(*self._starting)
            self._starting.clear()
        body = self._body(record, skipped)
        if skipped and not _plays_when_skipped(body, record):
            self._talk.skipped_replies += 1
            return
        headers = dict(record["headers"])
        stream_id = headers.get("Mesos-Stream-Id")
        if stream_id in self._talk.stream_ids:
            headers["Mesos-Stream-Id"] = self._talk.stream_ids[stream_id]
        wire = await self._wire(record["conn"], record)
        host = headers.get("Host", "127.0.0.1")
        path = self._talk.binding.translate(self._talk.localised(record["path"]))
        data = render(record["method"], path, headers, body, host)
        wire.send(record["method"], data)
        self._talk.queries[record["conn"]] = data if b'"GET_' in body or record["method"] == "GET" else b""


def _plays_when_skipped(body: bytes, record: dict[str, Any]) -> bool:
    return b'"type": "DECLINE"' in body
