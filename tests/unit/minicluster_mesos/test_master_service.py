"""A master whose leadership may end at any moment."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minicluster.mesos.common.resource_notation import parse_resources
from minicluster.mesos.common.server_process import listen
from minicluster.mesos.master.core.simulated_agents import SimulationConfig
from minicluster.mesos.master.core.state import MasterConfig
from minicluster.mesos.master.history import History
from minicluster.mesos.master.service import MasterService
from tests.contract.mesos.framework import Framework, get


class Leading:
    """One master in this process, on a free port."""

    def __init__(self, simulation: SimulationConfig | None = None, history: Path | None = None) -> None:
        self.held = True
        self.port = 0
        self.saved: list[bytes] = []
        socket = listen("127.0.0.1", 0)
        self.port = socket.getsockname()[1]
        self.service = MasterService(
            MasterConfig("m", "127.0.0.1", self.port, "master"),
            {},
            simulation=simulation,
            history=History(history) if history is not None else None,
        )
        self._socket = socket

    async def start(self) -> None:
        self.service.start(b"", self.saved.append, lambda: self.held)
        await self.service.server.serve(self._socket)


@pytest.fixture
async def master() -> AsyncIterator[Leading]:
    made = Leading()
    await made.start()
    yield made
    await made.service.server.stop()


async def test_a_deposed_master_answers_and_sends_nothing(master: Leading) -> None:
    framework = await Framework.subscribe(master.port)
    asked: dict[str, Any] = {"tasks": [{"task_id": {"value": "t"}}]}
    assert (await framework.call("RECONCILE", reconcile=asked)).status == 202
    assert (await framework.update())["state"] == "TASK_UNKNOWN"
    master.held = False
    assert (await framework.call("RECONCILE", reconcile=asked)).status == 503
    for path in ("/state", "/master/state"):
        reply = await get(master.port, path)
        assert (reply.status, reply.body) == (503, b"No leader elected")
    assert (await get(master.port, "/health")).status == 200
    master.service.cluster.registry_changed = True
    await get(master.port, "/health")
    assert framework.stream.waiting == [] and master.saved == []
    framework.close()


async def test_the_history_has_what_becomes_of_tasks_on_simulated_agents(tmp_path: Path) -> None:
    made = Leading(
        SimulationConfig(1, parse_resources("cpus:1;mem:128"), task_seconds=0.0), tmp_path / "history"
    )
    await made.start()
    framework = await Framework.subscribe(made.port)
    agent = await framework.launch("t", "true")
    await framework.until("TASK_FINISHED")
    framework.close()
    await made.service.server.stop()
    events = [json.loads(line) for line in (tmp_path / "history").read_text().splitlines()]
    assert [(each["agent"], each["total"]) for each in events if each["kind"] == "agent"] == [
        (agent, {"cpus": 1.0, "mem": 128.0})
    ]
    assert [(each["run"], each["sent"]) for each in events if each["kind"] == "launch"] == [("t", True)]
    states = [each["state"] for each in events if each["kind"] == "update"]
    assert states[-1] == "TASK_FINISHED"
