"""Compare replies and events with the recorded ones."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any

from mesos.v1.master import master_pb2 as master
from peloton.mesos import json as mesos_json
from tests.contract.mesos.client import Reply, Stream
from tests.contract.mesos.cluster import MASTER_PORT
from tests.contract.mesos.conversation import Conversation, is_operator, once
from tests.contract.mesos.matching import Mismatch
from tests.contract.mesos.recording import PATIENCE_SECONDS

_MAY_COME_MORE_OFTEN = frozenset({"OFFER", "RESCIND"})


class Expectations:
    """Waits for the recorded answers. Its methods raise Mismatch where something else comes."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._pending: list[tuple[Stream, dict[str, Any]]] = []

    async def reply(self, record: dict[str, Any], skipped: bool) -> None:
        """Wait for the reply to a request; a query is repeated until its reply is as recorded."""
        if skipped and self._talk.skipped_replies:
            self._talk.skipped_replies -= 1
            return
        wire, query = self._talk.wires[record["conn"]], self._talk.queries.get(record["conn"])
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        first: Mismatch | None = None
        while True:
            reply = await asyncio.wait_for(wire.reply(), PATIENCE_SECONDS)
            try:
                self._compare(record, reply)
                break
            except Mismatch as mismatch:
                first = first or mismatch
                if not query or asyncio.get_running_loop().time() > deadline:
                    raise first from None
            await asyncio.sleep(0.05)
            wire.send(record["method"], query)
        while self._pending:
            await self._expect(*self._pending.pop())

    def _compare(self, record: dict[str, Any], reply: Reply) -> None:
        theirs = (record["status"], record["reason"], sorted(record["headers"]))
        ours = (reply.status, reply.reason, sorted(reply.headers))
        if theirs != ours:
            raise Mismatch(f"{ours}, recorded {theirs}; {reply.body[:300]!r}")
        for name in ("Content-Type", "Allow", "WWW-Authenticate", "Content-Disposition"):
            if record["headers"].get(name) != reply.headers.get(name):
                raise Mismatch(f"{name}: {reply.headers.get(name)}, recorded {record['headers'].get(name)}")
        there, here = self._talk.localised(record["headers"].get("Location")), reply.headers.get("Location")
        if there != here:
            raise Mismatch(f"Location: {here}, recorded {there}")
        if "Transfer-Encoding" in reply.headers:
            self._open(record, reply)
            if isinstance(record["body"], str):
                event = json.loads(record["body"].partition("\n")[2])
                self._pending.append((self._talk.streams[record["conn"]], event))
        else:
            self._compare_body(record, reply)

    def _open(self, record: dict[str, Any], reply: Reply) -> None:
        protobuf = reply.headers["Content-Type"] == "application/x-protobuf"
        stream = Stream(self._talk.wires[record["conn"]], protobuf, operator=is_operator(record))
        self._talk.streams[record["conn"]] = stream
        if "Mesos-Stream-Id" in reply.headers:
            self._talk.stream_ids[record["headers"]["Mesos-Stream-Id"]] = reply.headers["Mesos-Stream-Id"]
            self._talk.own_ids[record["conn"]] = reply.headers["Mesos-Stream-Id"]
            self._talk.binding.bind(
                record["headers"]["Mesos-Stream-Id"], reply.headers["Mesos-Stream-Id"], "stream"
            )
        stream.start()

    def _compare_body(self, record: dict[str, Any], reply: Reply) -> None:
        if record["encoding"] == "protobuf":
            theirs = master.Response.FromString(base64.b64decode(record["body"]["base64"]))
            ours = master.Response.FromString(reply.body)
            self._talk.binding.match(
                self._talk.localised(mesos_json.to_dict(theirs)), mesos_json.to_dict(ours)
            )
            return
        recorded = self._talk.localised(record["body"])
        if isinstance(recorded, dict) and set(recorded) == {"base64"}:
            raw = base64.b64decode(recorded["base64"])
            if raw != reply.body:
                raise Mismatch(f"{reply.body[:200]!r}, recorded {raw[:200]!r}")
        elif "truncated_from" in record:
            if not reply.body.decode().startswith(recorded[:1000]):
                raise Mismatch(f"{reply.body[:200]!r}, recorded {recorded[:200]!r}")
        elif isinstance(recorded, str):
            self._talk.binding.match(recorded, reply.body.decode())
        else:
            self._talk.binding.match(recorded, json.loads(reply.body))

    def body_of(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the body of an event with the ids of this run."""
        body = record["body"]
        if record["encoding"] == "protobuf":
            body = self._talk.streams[record["conn"]].decode(base64.b64decode(body["base64"]))
        localised: dict[str, Any] = self._talk.localised(body)
        return localised

    async def event(self, record: dict[str, Any], body: dict[str, Any]) -> None:
        """Wait for an event; ``body`` is what it says."""
        stream = self._talk.streams[record["conn"]]
        if record.get("type") != "OFFERS":
            self._permit(body)
            await self._expect(stream, body)
            return
        for offer in body["offers"]["offers"]:
            await self._expect(stream, {"type": "OFFER", "offer": offer})

    def nothing_else(self) -> None:
        """Raise Mismatch where a stream has events left that were not recorded."""
        for name, stream in self._talk.streams.items():
            left = [event for event in stream.waiting if event["type"] not in _MAY_COME_MORE_OFTEN]
            if left:
                raise Mismatch(f"{self._talk.scenario.name}: {name} got what was not recorded: {left[:3]}")

    def _permit(self, body: dict[str, Any]) -> None:
        """Let tasks that were changed to wait for it end, fail their health check or write, as ``body`` says.

        Before, they would do so too early where others are slow.
        """
        if body["type"] == "DATA" and (text := base64.b64decode(body["data"]["data"])).startswith(b"tick"):
            (self._talk.cluster.processes.root / text.decode().strip().replace(" ", "-")).touch()
        status, root = body.get("update", {}).get("status", {}), self._talk.cluster.processes.root
        if status.get("state") == "TASK_FINISHED":
            (root / "finish").touch()
        if status.get("healthy") is False:
            (root / f"{status['task_id']['value']}.fail").touch()

    async def _expect(self, stream: Stream, body: dict[str, Any]) -> None:
        """Wait for an event like this one; others that came meanwhile stay where they are."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    same = [event for event in stream.waiting if event["type"] == body["type"]]
                    try:
                        came = [_plain(event) for event in same]
                        found = self._talk.binding.find(_plain(body), came, "event")
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
        name = next((name for name, other in self._talk.streams.items() if other is stream), "")
        if name not in self._talk.own_ids or not (pieces or self._talk.scenario.revive):
            return
        stream.waiting = [event for event in stream.waiting if event.get("offer") not in pieces]
        framework_id = self._talk.binding.translate_all(body["offer"]["framework_id"])
        call: dict[str, Any] = {"framework_id": framework_id, "type": "REVIVE"}
        if pieces:
            given_back = {"offer_ids": [offer["id"] for offer in pieces], "filters": {"refuse_seconds": 0}}
            call |= {"type": "DECLINE", "decline": given_back}
        master_port = self._talk.cluster.ports[MASTER_PORT]
        await once(master_port, "/api/v1/scheduler", call, self._talk.own_ids[name])

    async def closed(self, record: dict[str, Any]) -> None:
        """Hang up, or wait until a stream ends as it was recorded to."""
        stream = self._talk.streams.get(record["conn"])
        how = record["how"]
        if stream is None:
            return
        if how.startswith("client closes"):
            stream.stop()
            await asyncio.sleep(self._talk.scenario.pause)
            return
        expected = "eof" if "without a terminating chunk" in how else "chunk"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not stream.ended:
                stream.changed.clear()
                await stream.changed.wait()
        if stream.ended != expected:
            raise Mismatch(f"the stream ended with {stream.ended}, recorded: {how}")

    async def nodes(self, record: dict[str, Any]) -> None:
        """Compare what masters announce, in the order in which they are to lead."""
        recorded = [node["data"] for node in record.get("nodes", ()) if "/json.info_" in node["path"]]
        if recorded:
            ours = await asyncio.to_thread(self._talk.cluster.announced)
            self._talk.binding.match(self._talk.localised(recorded), ours, "nodes")


def takes_an_agent(body: dict[str, Any]) -> bool:
    """Return whether an event comes only when agents are not frozen."""
    reason = body.get("update", {}).get("status", {}).get("reason")
    return bool(body["type"] == "OFFERS") or reason == "REASON_AGENT_REREGISTERED"


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
