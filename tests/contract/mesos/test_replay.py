"""The recorded conversations that the program depends on, played to our own master and agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.mesos.cluster import Processes, RecordedCluster
from tests.contract.mesos.replay import RECORDINGS, Player, Scenario

pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings: ../shared/mesos is absent")

OPERATOR_DROPPED = ("operator-events", "GET_FLAGS", "GET_WEIGHTS", "GET_OPERATIONS")
OPERATOR_IGNORED = frozenset(
    {".agent_info.checkpoint", ".agents.capabilities", ".build_date", ".build_time", ".build_user", ".weight"}
)
CREDENTIALS = {"peloton": "secret", "ops": "opssecret", "limited": "limited"}

SCENARIOS = (
    Scenario("01-subscribe"),
    Scenario("01-subscribe-protobuf"),
    Scenario("01-subscribe-small-reads"),
    Scenario("01-subscribe-refinement"),
    Scenario("02-launch", skip=("task over its disk", "task over its memory"), scale=0.5),
    Scenario("02-launch-protobuf"),
    Scenario("03-kill", until="two KILLs in a row", scale=0.5, pace=0.2),
    Scenario("04-offers", edits=(('"refuse_seconds": -5', '"refuse_seconds": 0.1'),)),
    Scenario("05-reconcile"),
    Scenario("06-invalid"),
    Scenario(
        "07-unacknowledged",
        edits=(("sleep 3", "sleep 0.1"),),
        agent_flags=("--status-update-retry-interval", "0.5"),
    ),
    Scenario(
        "08-framework-failover", pause=0.4, edits=(('"failover_timeout": 3.0', '"failover_timeout": 0.1'),)
    ),
    Scenario("08-disconnected-updates", edits=(("sleep 3", "sleep 0.5"),)),
    Scenario("09-master-failover-single", accept_scale=20),
    Scenario("10-agent-lost"),
    Scenario("10-agent-lost-not-partition-aware"),
    Scenario(
        "10-agent-restart",
        skip=("a task that ends while its agent is down",),
        until="framework without checkpoint",
        extra=frozenset({"RESCIND"}),
    ),
    Scenario("10-agent-gone"),
    Scenario("11-maintenance", until="legacy endpoints", extra=frozenset({"RESCIND"})),
    Scenario(
        "12-operator",
        drop=(*OPERATOR_DROPPED, "GET_METRICS"),
        accept_scale=1.0,
        until="quota: force",
        ignored=OPERATOR_IGNORED,
    ),
    Scenario(
        "12-operator-protobuf",
        drop=(*OPERATOR_DROPPED, "GET_FRAMEWORKS", "GET_STATE"),
        ignored=OPERATOR_IGNORED,
    ),
    Scenario(
        "13-agent-sandbox",
        paths="/api/v1/scheduler|/files/(?!debug)|/health|/redirect",
        skip=("browse, /slave(1)-less and with the jsonp",),
        until="virtual path of an ended task",
        ignored=frozenset({".size"}),  # a real executor writes into stderr itself
    ),
    Scenario(
        "16-auth",
        skip=("/metrics", "a task of a user", "limited principal"),
        until="framework without principal",
        drop=("subscribe-limited",),
        ignored=OPERATOR_IGNORED,
    ),
    Scenario("17-revocable", agent_flags=("--revocable", "cpus:2")),
    Scenario("19-pipelining", until="pipelined, every"),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_what_was_recorded_comes_back(scenario: Scenario, tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    master_flags = scenario.master_flags
    if scenario.name == "16-auth":
        path = tmp_path / "credentials.json"
        entries = [{"principal": name, "secret": secret} for name, secret in CREDENTIALS.items()]
        path.write_text(json.dumps({"credentials": entries}))
        master_flags += ("--credentials", str(path))
    cluster = RecordedCluster(processes, scenario.scale, master_flags, scenario.agent_flags)
    player = Player(scenario, cluster)
    try:
        await player.play()
    finally:
        player.close()
        await processes.stop()
