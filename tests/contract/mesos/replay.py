"""Playing a recorded conversation to our own Mesos and comparing all that comes back."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mesos.v1.master import master_pb2 as master
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from peloton.minicluster.mesos import jsoncodec
from peloton.minicluster.mesos.cleanup import kill_tasks
from tests.contract.mesos.client import Reply, Stream, Wire, render
from tests.contract.mesos.cluster import MASTER_PORT, RecordedCluster, recorded_flags
from tests.contract.mesos.matching import Binding, Mismatch

RECORDINGS = Path(__file__).resolve().parents[4] / "shared" / "mesos"
PATIENCE_SECONDS = 30.0
_MAY_COME_MORE_OFTEN = frozenset({"OFFER", "RESCIND"})


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recording and how it is played.

    ``skip``: beginnings of notes whose part is left out (its offers are declined, for the next part's sake).
    ``until``: the note at which to stop. ``drop``: connections, and types of calls, left out. ``paths``: a
    regular expression; only requests to such paths are played. ``edits``: texts replaced in requests.
    ``scale``: what refuse_seconds, kill policies and max_completion_time are multiplied by.
    ``accept_scale``: the same for filters of ACCEPT; ``revive``: lift them when an offer is waited for.
    ``late``: masters that are started only when all others of the same moment are. ``held``: beginning of the
    note from which on agents stand still, until something is expected that takes one.
    ``pause``: seconds to wait after hanging up. ``pace``: how much of the recorded time to let pass before a
    request. ``ignored``: ends of paths in JSON that are not compared.
    """

    name: str
    skip: tuple[str, ...] = ()
    until: str | None = None
    scale: float = 0.1
    accept_scale: float = 0.2
    revive: bool = False
    pause: float = 0.0
    pace: float = 0.0
    paths: str = "/"
    late: tuple[str, ...] = ()
    held: str | None = None
    drop: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    ignored: frozenset[str] = frozenset({".agent_info.checkpoint", ".agents.capabilities"})
    master_flags: tuple[str, ...] = ("--allocation-interval", "0.1")
    agent_flags: tuple[str, ...] = ()


def records(name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a recording."""
    with (RECORDINGS / name / "exchange.jsonl").open() as file:
        for line in file:
            yield json.loads(line)


def _parts(scenario: Scenario) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the records to play, each with whether its part is skipped."""
    skipping = False
    dropped: set[str] = set()
    for record in records(scenario.name):
        if record["kind"] == "note":
            text = record["text"]
            if scenario.until is not None and text.startswith(scenario.until):
                return
            acts = re.match(r"start [\w-]+: /|SIG", text) is not None or "exit code" in text
            if not acts:
                skipping = text.startswith(scenario.skip) if scenario.skip else False
        if record["kind"] == "request" and _is_dropped(scenario, record):
            dropped.add(record["conn"])
        if record["conn"] not in dropped:
            yield record, skipping


def _is_dropped(scenario: Scenario, record: dict[str, Any]) -> bool:
    body = record.get("decoded", record["body"])
    kind = body.get("type") if isinstance(body, dict) else None
    wanted = re.match(scenario.paths, record["path"]) is not None
    return not wanted or record["conn"] in scenario.drop or kind in scenario.drop


@dataclass(slots=True)
class Player:
    """One run of one scenario."""

    scenario: Scenario
    cluster: RecordedCluster
    binding: Binding = field(init=False)
    wires: dict[str, Wire] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    stream_ids: dict[str, str] = field(default_factory=dict)
    own_ids: dict[str, str] = field(default_factory=dict)
    pending: list[tuple[Stream, dict[str, Any]]] = field(default_factory=list)
    executors_too: bool = False
    queries: dict[str, bytes] = field(default_factory=dict)
    skipped_replies: int = 0
    starting: list[asyncio.Task[Any]] = field(default_factory=list)
    late: list[tuple[str, str]] = field(default_factory=list)
    holding: bool = False

    def __post_init__(self) -> None:
        self.binding = Binding(self.scenario.ignored)

    async def play(self) -> None:
        """Play everything; raises Mismatch, with the record that it was about."""
        before = 0.0
        for number, (record, skipped) in enumerate(_parts(self.scenario)):
            if record["kind"] == "request":
                await asyncio.sleep((record["t"] - before) * self.scenario.pace)
            before = record["t"]
            try:
                await self._one(record, skipped)
            except (Mismatch, TimeoutError, EOFError, AssertionError) as error:
                raise Mismatch(
                    f"{self.scenario.name}, line {number + 1}, t={record['t']}: {error!r}"
                ) from error
        self._nothing_else()

    def close(self) -> None:
        """Hang up everywhere."""
        for stream in self.streams.values():
            stream.stop()
        for wire in self.wires.values():
            wire.close()

    def _nothing_else(self) -> None:
        for name, stream in self.streams.items():
            left = [event for event in stream.waiting if event["type"] not in _MAY_COME_MORE_OFTEN]
            if left:
                raise Mismatch(f"{self.scenario.name}: {name} got what was not recorded: {left[:3]}")

    async def _one(self, record: dict[str, Any], skipped: bool) -> None:
        kind = record["kind"]
        if kind == "note":
            await self._note(record["text"])
            await self._nodes(record)
        elif kind == "request":
            await self._request(record, skipped)
        elif kind == "reply":
            await self._reply(record, skipped)
            while self.pending:
                await self._expect(*self.pending.pop())
        elif kind == "event" and not (skipped and record["type"] != "OFFERS"):
            await self._event(record)
        elif kind == "closed":
            await self._closed(record)

    # --- what was done ---

    async def _note(self, text: str) -> None:
        if match := re.match(r"start ([\w-]+): (/.*)", text):
            if match[1] in self.scenario.late and match[1] not in self.cluster.processes.members:
                self.late.append((match[1], match[2]))
            else:
                await self._start(match[1], match[2])
            return
        while self.late:
            await self._start(*self.late.pop(0))
        if self.scenario.held is not None and text.startswith(self.scenario.held):
            await self._hold(True)
        if match := re.match(r"(SIG\w+) to (\S+)", text):
            await self._signal(match[2], signal.Signals[match[1]])
        elif text.startswith(("kill -9 of the agent", "the same")):
            self.executors_too = "of the executor" in text or text.startswith("the same")
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
            number = signal.SIGTERM  # ours says goodbye on SIGTERM, a real one on SIGUSR1
        await asyncio.sleep(0.1)  # what was sent before, an acknowledgement say, has arrived by then
        if name == "zookeeper" and self.cluster.zookeeper is not None:
            await asyncio.to_thread(self.cluster.zookeeper.kill)
            return
        await self.cluster.processes.signal(name, number)
        if self.executors_too:
            work_dir = self.cluster.processes.root / name
            await asyncio.to_thread(kill_tasks, work_dir)

    async def _hold(self, still: bool) -> None:
        self.holding = still
        for name in self.cluster.processes.members:
            if name.startswith("agent"):
                await self.cluster.processes.signal(name, signal.SIGSTOP if still else signal.SIGCONT)

    async def _led_by(self, recorded: int, *, by_agents_too: bool = False) -> None:
        """Wait until the master at this port leads, and has recovered, its agents perhaps too."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                reply = await self._ask(self.cluster.ports[recorded], "GET_AGENTS")
                if reply.status == 200:
                    recovered = json.loads(reply.body)["get_agents"]["recovered_agents"]
                    if not (recovered and by_agents_too):
                        return
                await asyncio.sleep(0.02)

    async def _ask(self, port: int, kind: str) -> Reply:
        wire = await Wire.open("127.0.0.1", port)
        body = json.dumps({"type": kind}).encode()
        wire.send("POST", render("POST", "/api/v1", {"Content-Type": "application/json"}, body, "x"))
        reply = await wire.reply()
        wire.close()
        return reply

    async def _nodes(self, record: dict[str, Any]) -> None:
        """Compare what masters announce, in the order in which they are to lead."""
        recorded = [node["data"] for node in record.get("nodes", ()) if "/json.info_" in node["path"]]
        if recorded:
            ours = await asyncio.to_thread(self.cluster.announced)
            self.binding.match(self._localised(recorded), ours, "nodes")

    async def _exit(self, name: str, code: int) -> None:
        process = self.cluster.processes.members[name].process
        actual = await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
        if actual != code:
            raise Mismatch(f"{name} exited with {actual}, recorded {code}")

    async def _start(self, name: str, command: str) -> None:
        member = await self.cluster.start(name, command)
        recorded = int(recorded_flags(command).get("port", MASTER_PORT))
        if member is not None and recorded not in self.cluster.ports:
            ready = asyncio.ensure_future(member.wait_ready())
            self.starting.append(ready)
            ready.add_done_callback(lambda done: self._learn_port(recorded, done))

    def _learn_port(self, recorded: int, done: asyncio.Future[dict[str, Any]]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.cluster.ports[recorded] = done.result()["port"]

    # --- out ---

    def _localised(self, value: Any) -> Any:
        """Put our ports and paths into what was recorded."""
        if isinstance(value, dict):
            return {key: self._local_port(key, self._localised(item)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._localised(item) for item in value]
        if isinstance(value, str):
            value = re.sub(r"(?<=:)50\d\d\b", lambda match: str(self._port(int(match[0]))), value)
            return value.replace("/var/lib/mesos/", f"{self.cluster.processes.root}/")
        return value

    def _local_port(self, key: str, value: Any) -> Any:
        return self._port(value) if key == "port" else value

    def _port(self, recorded: int) -> int:
        return self.cluster.ports.get(recorded, recorded)

    def _scaled(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            inside = key in ("grace_period", "max_completion_time")
            return {
                name: round(int(item) * self.scenario.scale)
                if inside and name == "nanoseconds"
                else self._scaled(item, name)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self._scaled(item) for item in value]
        if key == "refuse_seconds" and 0 < value < 1000:
            return value * self.scenario.scale
        return value

    def _with_scaled_filters(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("type") != "ACCEPT" or "filters" not in body.get("accept", {}):
            return body
        seconds = body["accept"]["filters"]["refuse_seconds"] / self.scenario.scale
        filters = {"refuse_seconds": seconds * self.scenario.accept_scale}
        return {**body, "accept": {**body["accept"], "filters": filters}}

    def _body(self, record: dict[str, Any], skipped: bool) -> bytes:
        body = record.get("decoded", record["body"])
        if isinstance(body, str):
            return self._text_body(body)
        if isinstance(body, dict) and set(body) == {"base64"}:
            return base64.b64decode(body["base64"])
        body = self.binding.translate_all(self._scaled(self._localised(body)))
        if isinstance(body, dict):
            body = self._with_scaled_filters(body)
        if skipped and isinstance(body, dict) and body.get("type") == "ACCEPT":
            body = {**body, "type": "DECLINE", "decline": {"offer_ids": body["accept"]["offer_ids"]}}
            body["decline"]["filters"] = {"refuse_seconds": 0}
            del body["accept"]
        text = json.dumps(body).encode()
        for old, new in self.scenario.edits:
            text = text.replace(old.encode(), new.format(root=self.cluster.processes.root).encode())
        if record["encoding"] != "protobuf":
            return text
        kind = master.Call if _is_operator(record) else scheduler.Call
        return jsoncodec.decode(text, kind).SerializePartialToString()

    def _text_body(self, body: str) -> bytes:
        if "8388608 times x" in body:
            call = {"type": "TEARDOWN", "framework_id": {"value": "x" * 8388608}}
            return json.dumps(call).encode()
        if body == "33554432 spaces":
            return b" " * 33554432
        return self.binding.translate(body).encode()

    async def _wire(self, name: str, record: dict[str, Any]) -> Wire:
        if name not in self.wires:
            host = record["headers"].get("Host", record["headers"].get("host", "127.0.0.1:5050"))
            port = self.cluster.ports[int(host.rsplit(":", 1)[1])]
            self.wires[name] = await Wire.open("127.0.0.1", port)
        return self.wires[name]

    async def _request(self, record: dict[str, Any], skipped: bool) -> None:
        if self.starting:
            await asyncio.gather(*self.starting)
            self.starting.clear()
        body = self._body(record, skipped)
        if skipped and not _plays_when_skipped(body, record):
            self.skipped_replies += 1
            return
        headers = dict(record["headers"])
        stream_id = headers.get("Mesos-Stream-Id")
        if stream_id in self.stream_ids:
            headers["Mesos-Stream-Id"] = self.stream_ids[stream_id]
        wire = await self._wire(record["conn"], record)
        host = headers.get("Host", "127.0.0.1")
        path = self.binding.translate(self._localised(record["path"]))
        data = render(record["method"], path, headers, body, host)
        wire.send(record["method"], data)
        self.queries[record["conn"]] = data if b'"GET_' in body or record["method"] == "GET" else b""

    # --- in ---

    async def _reply(self, record: dict[str, Any], skipped: bool) -> None:
        if skipped and self.skipped_replies:
            self.skipped_replies -= 1
            return
        wire, query = self.wires[record["conn"]], self.queries.get(record["conn"])
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        first: Mismatch | None = None
        while True:
            reply = await asyncio.wait_for(wire.reply(), PATIENCE_SECONDS)
            try:
                self._compare(record, reply)
                return
            except Mismatch as mismatch:
                first = first or mismatch
                if not query or asyncio.get_running_loop().time() > deadline:
                    raise first from None
            await asyncio.sleep(0.05)
            wire.send(record["method"], query)

    def _compare(self, record: dict[str, Any], reply: Reply) -> None:
        theirs = (record["status"], record["reason"], sorted(record["headers"]))
        ours = (reply.status, reply.reason, sorted(reply.headers))
        if theirs != ours:
            raise Mismatch(f"{ours}, recorded {theirs}; {reply.body[:300]!r}")
        for name in ("Content-Type", "Allow", "WWW-Authenticate", "Content-Disposition"):
            if record["headers"].get(name) != reply.headers.get(name):
                raise Mismatch(f"{name}: {reply.headers.get(name)}, recorded {record['headers'].get(name)}")
        there, here = self._localised(record["headers"].get("Location")), reply.headers.get("Location")
        if there != here:
            raise Mismatch(f"Location: {here}, recorded {there}")
        if "Transfer-Encoding" in reply.headers:
            self._open(record, reply)
            if isinstance(record["body"], str):
                event = json.loads(record["body"].partition("\n")[2])
                self.pending.append((self.streams[record["conn"]], event))
        else:
            self._compare_body(record, reply)

    def _open(self, record: dict[str, Any], reply: Reply) -> None:
        protobuf = reply.headers["Content-Type"] == "application/x-protobuf"
        stream = Stream(self.wires[record["conn"]], protobuf, operator=_is_operator(record))
        self.streams[record["conn"]] = stream
        if "Mesos-Stream-Id" in reply.headers:
            self.stream_ids[record["headers"]["Mesos-Stream-Id"]] = reply.headers["Mesos-Stream-Id"]
            self.own_ids[record["conn"]] = reply.headers["Mesos-Stream-Id"]
            self.binding.bind(
                record["headers"]["Mesos-Stream-Id"], reply.headers["Mesos-Stream-Id"], "stream"
            )
        stream.start()

    def _compare_body(self, record: dict[str, Any], reply: Reply) -> None:
        if record["encoding"] == "protobuf":
            theirs = master.Response.FromString(base64.b64decode(record["body"]["base64"]))
            ours = master.Response.FromString(reply.body)
            self.binding.match(self._localised(jsoncodec.to_dict(theirs)), jsoncodec.to_dict(ours))
            return
        recorded = self._localised(record["body"])
        if isinstance(recorded, dict) and set(recorded) == {"base64"}:
            raw = base64.b64decode(recorded["base64"])
            if raw != reply.body:
                raise Mismatch(f"{reply.body[:200]!r}, recorded {raw[:200]!r}")
        elif "truncated_from" in record:
            if not reply.body.decode().startswith(recorded[:1000]):
                raise Mismatch(f"{reply.body[:200]!r}, recorded {recorded[:200]!r}")
        elif isinstance(recorded, str):
            self.binding.match(recorded, reply.body.decode())
        else:
            self.binding.match(recorded, json.loads(reply.body))

    async def _event(self, record: dict[str, Any]) -> None:
        stream = self.streams[record["conn"]]
        if record["type"] == "HEARTBEAT":
            return
        body = record["body"]
        if record["encoding"] == "protobuf":
            body = stream.decode(base64.b64decode(body["base64"]))
        body = self._localised(body)
        if self.holding and _takes_an_agent(body):
            await self._hold(False)
        if record["type"] != "OFFERS":
            self._permit_end(body)
            await self._expect(stream, body)
            return
        for offer in body["offers"]["offers"]:
            await self._expect(stream, {"type": "OFFER", "offer": offer})

    def _permit_end(self, body: dict[str, Any]) -> None:
        """Let tasks end that were changed to wait for it, so that they do not while others are slow."""
        if body.get("update", {}).get("status", {}).get("state") == "TASK_FINISHED":
            (self.cluster.processes.root / "finish").touch()

    async def _expect(self, stream: Stream, body: dict[str, Any]) -> None:
        """Wait for an event like this one; others that came meanwhile stay where they are."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    same = [event for event in stream.waiting if event["type"] == body["type"]]
                    try:
                        found = self.binding.find(_plain(body), [_plain(event) for event in same], "event")
                    except Mismatch as mismatch:
                        reason = str(mismatch)
                    else:
                        _remove(stream.waiting, found)
                        return
                    if stream.ended:
                        raise Mismatch(f"the stream ended ({stream.ended}); {reason}")
                    stream.changed.clear()
                    await self._gather_pieces(stream, body)
                    await stream.changed.wait()
        except TimeoutError as error:
            raise Mismatch(f"no such event came: {reason}") from error

    async def _gather_pieces(self, stream: Stream, body: dict[str, Any]) -> None:
        """Give back offers of only part of an agent: a task ended a tick later than it was recorded to."""
        if body["type"] != "OFFER":
            return
        hostname = body["offer"]["hostname"]
        pieces = [event for event in stream.waiting if event["type"] == "OFFER"]
        pieces = [event["offer"] for event in pieces if event["offer"]["hostname"] == hostname]
        name = next((name for name, other in self.streams.items() if other is stream), "")
        if name not in self.own_ids or not (pieces or self.scenario.revive):
            return
        stream.waiting = [event for event in stream.waiting if event.get("offer") not in pieces]
        call: dict[str, Any] = {"framework_id": self.binding.translate_all(body["offer"]["framework_id"])}
        if pieces:
            given_back = {"offer_ids": [offer["id"] for offer in pieces], "filters": {"refuse_seconds": 0}}
            call |= {"type": "DECLINE", "decline": given_back}
        else:
            call |= {"type": "REVIVE"}
        wire = await Wire.open("127.0.0.1", self.cluster.ports[MASTER_PORT])
        headers = {"Content-Type": "application/json", "Mesos-Stream-Id": self.own_ids[name]}
        data = render("POST", "/api/v1/scheduler", headers, json.dumps(call).encode(), "127.0.0.1")
        wire.send("POST", data)
        await asyncio.wait_for(wire.reply(), PATIENCE_SECONDS)
        wire.close()

    async def _closed(self, record: dict[str, Any]) -> None:
        stream = self.streams.get(record["conn"])
        how = record["how"]
        if stream is None:
            return
        if how.startswith("client closes"):
            stream.stop()
            await asyncio.sleep(self.scenario.pause)
            return
        expected = "eof" if "without a terminating chunk" in how else "chunk"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not stream.ended:
                stream.changed.clear()
                await stream.changed.wait()
        if stream.ended != expected:
            raise Mismatch(f"the stream ended with {stream.ended}, recorded: {how}")


def _takes_an_agent(body: dict[str, Any]) -> bool:
    reason = body.get("update", {}).get("status", {}).get("reason")
    return bool(body["type"] == "OFFERS") or reason == "REASON_AGENT_REREGISTERED"


def _is_operator(record: dict[str, Any]) -> bool:
    return "scheduler" not in record["path"]


def _plays_when_skipped(body: bytes, record: dict[str, Any]) -> bool:
    return b'"type": "DECLINE"' in body


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    """Numbers of 64 bits are text in what the recorder decoded from protobuf."""
    text = json.dumps(event)
    plain: dict[str, Any] = json.loads(re.sub(r'"(begin|end|nanoseconds)": "(\d+)"', r'"\1": \2', text))
    return plain


def _remove(waiting: list[dict[str, Any]], found: dict[str, Any]) -> None:
    for number, event in enumerate(waiting):
        if _plain(event) == found:
            del waiting[number]
            return
