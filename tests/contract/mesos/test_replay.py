"""Replay the recorded conversations that the program depends on to our own master and agents."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.mesos.cluster import Processes, RecordedCluster
from tests.contract.mesos.recording import RECORDINGS, Scenario
from tests.contract.mesos.replay import Player

pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings: ../shared/mesos is absent")

OPERATOR_DROPPED = ("GET_FLAGS", "GET_WEIGHTS", "GET_OPERATIONS")
AGENT_DROPPED = (
    *("GET_FLAGS", "GET_STATE", "GET_CONTAINERS", "GET_FRAMEWORKS", "GET_EXECUTORS", "GET_TASKS"),
    *("GET_OPERATIONS", "GET_AGENT", "GET_RESOURCE_PROVIDERS"),
    *("LAUNCH_NESTED_CONTAINER", "REMOVE_CONTAINER", "KILL_CONTAINER"),
)
"""Calls that our agents do not serve: 501."""
OPERATOR_IGNORED = frozenset(
    {
        ".agent_info.checkpoint",
        ".recovered_agents.checkpoint",
        ".agents.capabilities",
        ".build_date",
        ".build_time",
        ".build_user",
        ".weight",
    }
)
RESOURCES_IGNORED = frozenset({".agent_info.checkpoint", ".agents.capabilities", ".slaves[0].capabilities"})
HTTP_DETAILS = (
    *(f"call-{number}" for number in (*range(1, 19), 23, 24)),
    *("subscribe-close", "subscribe-shared"),
)
"""Connections recorded as bytes, or without their events: `test_http_details` plays them."""
Plays = dict[str, "Future[None]"]
CREDENTIALS = {"peloton": "secret", "ops": "opssecret", "limited": "limited"}


def _other_port(recorded: int, ours: int) -> tuple[tuple[str, str], ...]:
    """Have a task listen where no task of another test does; the offer still has the recorded one."""
    return (f'"port": {recorded}', f'"port": {ours}'), (f"http.server {recorded}", f"http.server {ours}")


def _until_failure(task: str) -> str:
    """Return the shell command that waits until the recorded failure of a task's health check is expected.

    A recorded delay is too short on a busy machine: a server may take longer than it to listen.
    """
    return f"until [ -e {{root}}/{task}.fail ]; do sleep 0.02; done"


SCENARIOS = (
    # The longest is first, so that the others are played meanwhile. A shorter time-out would lose agents
    # that are only slow, on a busy machine.
    Scenario("10-agent-lost", master_flags=("--allocation-interval", "0.1", "--agent-ping-timeout", "6")),
    Scenario("01-subscribe"),
    Scenario("01-subscribe-protobuf"),
    Scenario("01-subscribe-small-reads"),
    Scenario("01-subscribe-refinement"),
    Scenario("02-launch", skip=("task over its disk", "task over its memory"), scale=0.5),
    Scenario("02-launch-protobuf"),
    Scenario("03-kill", until="two KILLs in a row", scale=0.5, pace=0.2),
    Scenario("04-offers", edits=(('"refuse_seconds": -5', '"refuse_seconds": 0.1'),)),
    Scenario("05-reconcile"),
    # A task ends after its RUNNING was reported, which would have a newer state otherwise.
    Scenario("06-invalid", edits=(('"value": "true"', '"value": "sleep 1"'),)),
    Scenario("06-http-details", drop=(*HTTP_DETAILS, "GET_FLAGS")),
    Scenario(
        "07-unacknowledged",
        edits=(("sleep 3", "sleep 0.1"),),
        agent_flags=("--status-update-retry-interval", "0.5"),
    ),
    Scenario(
        "08-framework-failover", pause=0.4, edits=(('"failover_timeout": 3.0', '"failover_timeout": 0.1'),)
    ),
    Scenario("08-disconnected-updates", edits=(("sleep 3", "sleep 0.5"),)),
    Scenario("09-master-failover-single", accept_scale=20, held="SIGKILL to master"),
    Scenario(
        "09-master-failover-zk",
        skip=("one master of three alone",),  # ours needs no quorum to recover
        scale=0.4,
        accept_scale=5,
        late=("master-2",),  # it came third
        held="right after kill -9",
        paths="/(?!flags|metrics)",
        drop=("recovering-3",),
        ignored=OPERATOR_IGNORED,
        edits=(("sleep 12", "until [ -e {root}/finish ]; do sleep 0.05; done"),),
        master_flags=("--allocation-interval", "2"),
    ),
    Scenario("09-no-leader", scale=0.4, ignored=OPERATOR_IGNORED),
    Scenario("10-agent-lost-not-partition-aware"),
    Scenario(
        "10-agent-restart",
        skip=("a task that ends while its agent is down",),
        until="framework without checkpoint",
    ),
    Scenario("10-agent-gone"),
    Scenario("11-maintenance"),
    Scenario(
        "12-operator",
        drop=(*OPERATOR_DROPPED, "GET_METRICS"),
        accept_scale=30,
        revive=True,
        master_flags=("--allocation-interval", "3"),
        until="quota: force",
        ignored=OPERATOR_IGNORED,
        # Not before its RUNNING was reported, which would have a newer state otherwise.
        edits=(('"value": "true"', '"value": "until [ -e {root}/finish ]; do sleep 0.05; done"'),),
    ),
    Scenario(
        "12-operator-protobuf",
        accept_scale=30,
        revive=True,
        master_flags=("--allocation-interval", "3"),
        drop=(*OPERATOR_DROPPED, "GET_FRAMEWORKS", "GET_STATE"),
        ignored=OPERATOR_IGNORED,
    ),
    Scenario(
        "13-agent-sandbox",
        paths="/api/v1|/files/|/health|/redirect",
        skip=("browse, /slave(1)-less and with the jsonp",),
        until="virtual path of an ended task",  # ours has no folder for nested containers
        drop=("call-72", *AGENT_DROPPED),
        # A real executor writes into stderr itself.
        ignored=frozenset({".size", ".build_date", ".build_time", ".build_user"}),
        edits=(
            (
                "for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.5; done",
                "for i in 1 2 3 4 5 6; do until [ -e {root}/tick-$i ]; do sleep 0.02; done; "
                "echo tick $i; done",
            ),
        ),
    ),
    *(
        Scenario(
            name,
            accept_scale=30,  # what tasks leave is not offered before the states are read
            revive=True,
            master_flags=("--allocation-interval", "15"),
            ignored=RESOURCES_IGNORED,
        )
        for name in ("14-resources", "14-resources-refinement")
    ),
    Scenario(
        "15-health",
        scale=1.0,  # of the filters: what a task leaves is offered again while it runs
        until="check (not health)",
        edits=(
            # The second failure makes h-flap healthy again, however slow the machine is.
            (
                "test -e ok",
                "test -e ok || {{ echo >> failures; [ $(wc -l < failures) -ne 2 ] || mv flap ok; false; }}",
            ),
            (
                "touch ok; sleep 2; rm ok; sleep 1.3; touch ok",
                f"touch ok flap; {_until_failure('h-flap')}; rm ok",
            ),
            ("touch ok; sleep 2; rm ok", f"touch ok; {_until_failure('h-cmd')}; rm ok"),
            ("sleep 4; rm health", f"{_until_failure('h-http')}; rm health"),
            ("sleep 4; kill $P", f"{_until_failure('h-tcp')}; kill $P"),
            ("/usr/bin/python3", sys.executable),
            *_other_port(31005, 20305),
            *_other_port(31006, 20306),
            ('"grace_period_seconds": 2.0', '"grace_period_seconds": 60.0'),
            ('"timeout_seconds": 2.0', '"timeout_seconds": 20.0'),
        ),
    ),
    Scenario(
        "16-auth",
        skip=("a task of a user", "limited principal"),
        until="framework without principal",
        drop=("subscribe-limited",),
        ignored=OPERATOR_IGNORED,
    ),
    Scenario("17-revocable", agent_flags=("--revocable", "cpus:2")),
    Scenario("19-pipelining", until="pipelined, every"),
)


WORKERS = 3
"""How many conversations are played at once: most of their time is waiting."""


async def play(scenario: Scenario, root: Path) -> None:
    """Play one scenario to processes of its own."""
    processes = Processes(root)
    master_flags = scenario.master_flags
    if scenario.name == "16-auth":
        master_flags += ("--credentials", str(credentials_file(root)))
    cluster = RecordedCluster(processes, scenario.scale, master_flags, scenario.agent_flags)
    player = Player(scenario, cluster)
    try:
        await player.play()
    finally:
        player.close()
        await cluster.stop()


def credentials_file(root: Path) -> Path:
    path = root / "credentials.json"
    entries = [{"principal": name, "secret": secret} for name, secret in CREDENTIALS.items()]
    path.write_text(json.dumps({"credentials": entries}))
    return path


@pytest.fixture(scope="module")
def plays(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plays]:
    """All selected conversations, some of them under way at any time."""
    items = [item for item in request.session.items if item.path == request.path]
    chosen = {item.callspec.params["scenario"].name for item in items if hasattr(item, "callspec")}
    with ThreadPoolExecutor(WORKERS) as pool:
        yield {
            scenario.name: pool.submit(asyncio.run, play(scenario, tmp_path_factory.mktemp("replay")))
            for scenario in SCENARIOS
            if scenario.name in chosen
        }


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_recorded_conversation(scenario: Scenario, plays: Plays) -> None:
    plays[scenario.name].result()
