"""The older endpoints and the metrics, against what a real master said of the same cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.mesos.client import Reply, Wire, render
from tests.contract.mesos.cluster import MASTER_PORT, Processes, RecordedCluster
from tests.contract.mesos.conversation import Conversation, once
from tests.contract.mesos.matching import Mismatch
from tests.contract.mesos.recording import PATIENCE_SECONDS, RECORDINGS, records
from tests.contract.mesos.replay import Player
from tests.contract.mesos.test_replay import OPERATOR_IGNORED, SCENARIOS

pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings: ../shared/mesos is absent")

OURS = frozenset({*OPERATOR_IGNORED, ".flags", ".capabilities", ".slaves.reregistered_time"})
"""Flags are of our own; an agent of ours can less. Weights are not kept."""
QUOTA = frozenset({*OURS, ".resources", ".offered"})
"""When quotas were recorded, other offers were outstanding."""
LEGACY = (
    *("/state", "/state-summary", "/master/state-summary", "/version", "/tasks", "/tasks?task_id=o-1"),
    *("/frameworks", "/master/frameworks?framework_id=nosuch", "/slaves", "/flags", "/nosuch"),
)


def recorded(path: str) -> dict[str, Any]:
    """The reply to a GET of a path."""
    asked = [record for record in records("12-operator") if record.get("path") == path]
    conn = next(record["conn"] for record in asked if record["kind"] == "request")
    return next(
        record for record in records("12-operator") if (record["conn"], record["kind"]) == (conn, "reply")
    )


class Operated:
    """The cluster of the recording ``12-operator``, after its first part: one task runs, one has ended."""

    def __init__(self, player: Player, cluster: RecordedCluster) -> None:
        self.talk: Conversation = player._talk
        self.port = cluster.ports[MASTER_PORT]

    async def call(self, kind: str, **body: Any) -> None:
        framework = self.talk.binding.translate(self._framework)
        value = {"type": kind, "framework_id": {"value": framework}, **body}
        reply = await once(self.port, "/api/v1/scheduler", value, self.talk.own_ids["subscribe"])
        assert reply.status == 202, reply.body

    @property
    def _framework(self) -> str:
        found = next(
            record
            for record in records("12-operator")
            if record.get("type") == "SUBSCRIBED" and record["conn"] == "subscribe"
        )
        return str(found["body"]["subscribed"]["framework_id"]["value"])

    async def get(self, path: str) -> Reply:
        wire = await Wire.open("127.0.0.1", self.port)
        wire.send("GET", render("GET", path, {"Accept": "application/json"}, b"", "127.0.0.1"))
        reply = await asyncio.wait_for(wire.reply(), PATIENCE_SECONDS)
        wire.close()
        return reply

    async def same(self, path: str, ignored: frozenset[str] = OURS) -> None:
        """Ask until the answer is as recorded. Raises Mismatch."""
        there = recorded(path)
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            reply = await self.get(path)
            assert (reply.status, reply.headers.get("Content-Type")) == (
                there["status"],
                there["headers"].get("Content-Type"),
            )
            binding = self.talk.binding.copy()
            binding._ignored = ignored
            try:
                if isinstance(there["body"], str):
                    assert reply.body.decode() == there["body"]
                else:
                    recorded_body = self.talk.localised(there["body"])
                    binding.match(sorted_agents(recorded_body), sorted_agents(json.loads(reply.body)))
            except Mismatch as mismatch:
                if asyncio.get_running_loop().time() > deadline:
                    raise Mismatch(f"{path}: {mismatch}") from None
                await asyncio.sleep(0.05)
            else:
                return


def sorted_agents(body: Any) -> Any:
    """List the agents by hostname: a master lists them in the order in which they registered with it."""
    if isinstance(body, dict) and isinstance(body.get("slaves"), list):
        return {**body, "slaves": sorted(body["slaves"], key=lambda agent: str(agent.get("hostname")))}
    return body


@pytest.fixture
async def operated(tmp_path: Path) -> AsyncIterator[Operated]:
    scenario = next(each for each in SCENARIOS if each.name == "12-operator")
    cluster = RecordedCluster(Processes(tmp_path), scenario.scale, scenario.master_flags)
    player = Player(scenario, cluster)
    try:
        await player.play()
        yield Operated(player, cluster)
    finally:
        player.close()
        await cluster.stop()


async def test_the_older_endpoints_answer_like_a_real_master(operated: Operated) -> None:
    await operated.call("SUPPRESS")
    outstanding = [
        offer["id"]
        for each in json.loads((await operated.get("/state")).body)["frameworks"]
        for offer in each["offers"]
    ]
    filters = {"refuse_seconds": 10_000}
    decline = {"offer_ids": [{"value": each} for each in outstanding], "filters": filters}
    await operated.call("DECLINE", decline=decline)
    for path in LEGACY:
        await operated.same(path)
    figures = json.loads((await operated.get("/metrics/snapshot")).body)
    named = next(
        record["body"]["get_metrics"]["metrics"]
        for record in records("12-operator")
        if isinstance(record.get("body"), dict) and "metrics" in record["body"].get("get_metrics", {})
    )
    there = {each["name"]: each["value"] for each in named}
    assert set(figures) <= set(there)
    gauges = [
        name for name in there if name.startswith(("master/tasks_", "master/slaves_", "master/frameworks_"))
    ]
    used = [
        f"master/{name}_{what}"
        for name in ("cpus", "mem", "disk", "gpus")
        for what in ("total", "used", "percent")
    ]
    counted = [
        "master/valid_status_updates",
        "master/messages_status_update",
        "master/messages_register_framework",
    ]
    chosen = {*gauges, *used, *counted, "master/elected", "master/operator_event_stream_subscribers"}
    assert {name: figures[name] for name in chosen if name in figures} == {
        name: there[name] for name in chosen if name in figures
    }
    assert len(chosen - set(figures)) <= 1, chosen - set(figures)


async def test_roles_and_quotas_are_reported_like_by_a_real_master(operated: Operated) -> None:
    updates = [
        record["body"]
        for record in records("12-operator")
        if record["kind"] == "request"
        and isinstance(record["body"], dict)
        and record["body"].get("type") == "UPDATE_QUOTA"
    ]
    for update in updates[1:4]:
        assert (await once(operated.port, "/api/v1", update)).status == 200
    await operated.same("/roles", QUOTA)
    await operated.same("/quota")
