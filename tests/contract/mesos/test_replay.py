"""The recorded conversations that the program depends on, played to our own master and agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.mesos.cluster import Processes, RecordedCluster
from tests.contract.mesos.replay import RECORDINGS, Player, Scenario

pytestmark = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="no recorded traffic: ../shared/mesos is absent"
)

SCENARIOS = (
    Scenario("01-subscribe"),
    Scenario("01-subscribe-protobuf"),
    Scenario("01-subscribe-small-reads"),
    Scenario("01-subscribe-refinement"),
    Scenario("02-launch", skip=("task over its disk", "task over its memory"), scale=0.5),
    Scenario("02-launch-protobuf"),
    Scenario("03-kill", scale=0.5, pace=0.2),
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
    Scenario("10-agent-restart", skip=("a task that ends while its agent is down",)),
    Scenario("10-agent-gone"),
    Scenario("11-maintenance", until="legacy endpoints"),
    Scenario("13-agent-sandbox", paths="/api/v1/scheduler|/files/(?!debug)|/health|/redirect"),
    Scenario("17-revocable", agent_flags=("--revocable", "cpus:2")),
    Scenario("19-pipelining", until="pipelined, every"),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_what_was_recorded_comes_back(scenario: Scenario, tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    cluster = RecordedCluster(processes, scenario.scale, scenario.master_flags, scenario.agent_flags)
    player = Player(scenario, cluster)
    try:
        await player.play()
    finally:
        player.close()
        await processes.stop()
