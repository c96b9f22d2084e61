"""`peloton minicluster` as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minicluster.cluster import Cluster
from minicluster.mesos.common.process_identity import start_of
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2

from .conftest import Harness, wait_for

COMPONENTS = [
    *("mesos-master", "mesos-agent0", "mesos-agent1", "mesos-agent2"),
    *("hostmgr0", "resmgr0", "jobmgr0", "placement0", "web0"),
]


def peloton(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "peloton.cli", "minicluster", *arguments]
    command += ["--dir", str(folder)] if folder else []
    # Clusters are registered in the home directory: not in that of the user who runs the tests.
    environment = {**os.environ, "HOME": str(folder.parent if folder else "/nonexistent")}
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a cluster that is up."""
    path = tmp_path_factory.mktemp("cli") / "cluster"
    result = peloton("up", "--free-ports", folder=path)
    try:
        assert result.returncode == 0, result.stderr
        assert "export JOBMGR_URL=127.0.0.1:" in result.stdout
        yield path
    finally:
        down = peloton("down", folder=path)
        assert down.returncode == 0, down.stderr


def status(folder: Path) -> dict[str, Any]:
    result = peloton("status", "-j", folder=folder)
    found = {each["name"]: each for each in json.loads(result.stdout)["components"]}
    assert result.returncode == any(each["state"] == "dead" for each in found.values()), result.stderr
    return found


def test_status_lists_every_component(folder: Path) -> None:
    found = status(folder)
    assert list(found) == COMPONENTS
    assert {each["state"] for each in found.values()} == {"running"}
    assert set(found["jobmgr0"]["addresses"]) == {"http", "grpc"}
    table = peloton("status", folder=folder).stdout
    parts, _, exports = table.partition("\n\n")
    assert [line.split()[0] for line in parts.splitlines()] == COMPONENTS
    assert f"export JOBMGR_URL={found['jobmgr0']['addresses']['grpc']}" in exports.splitlines()


def test_the_web_ui_is_started_and_its_address_printed(folder: Path) -> None:
    address = status(folder)["web0"]["addresses"]["http"]
    assert f"web UI: http://{address}/" in peloton("status", folder=folder).stdout.splitlines()

    def shows_the_figures() -> bool:
        with urllib.request.urlopen(f"http://{address}/", timeout=60) as answer:
            return "of 12 cores allocated" in answer.read().decode()

    wait_for(shows_the_figures, 60)  # the capacity is known after a while
    with urllib.request.urlopen(f"http://{address}/pools", timeout=60) as answer:
        assert "1 pool" in answer.read().decode()


def test_a_second_up_changes_nothing(folder: Path) -> None:
    before = status(folder)
    result = peloton("up", folder=folder)
    assert result.returncode == 0, result.stderr
    assert status(folder) == before


def test_a_second_up_with_other_settings_is_refused(folder: Path) -> None:
    before = status(folder)
    result = peloton("up", "--membership", "zookeeper=127.0.0.1:1", folder=folder)
    assert result.returncode == 1
    assert "runs with other settings: membership is local, not zookeeper=127.0.0.1:1" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert status(folder) == before


def test_kill_start_stop_restart(folder: Path) -> None:
    pid = status(folder)["placement0"]["pid"]
    assert peloton("kill", "placement0", folder=folder).returncode == 0
    found = status(folder)["placement0"]
    assert (found["state"], found["pid"]) == ("dead", None)
    half = peloton("up", folder=folder)
    assert half.returncode == 1
    assert "half up, placement0 not running" in half.stderr
    assert peloton("start", "placement0", folder=folder).returncode == 0
    started = status(folder)["placement0"]
    assert started["state"] == "running"
    assert started["pid"] != pid
    assert peloton("stop", "placement0", folder=folder).returncode == 0
    assert status(folder)["placement0"]["state"] == "stopped"
    assert peloton("restart", "placement0", folder=folder).returncode == 0
    assert status(folder)["placement0"]["state"] == "running"


def test_logs(folder: Path) -> None:
    result = peloton("logs", "jobmgr0", folder=folder)
    assert "leading in term 1" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["logs", "jobmgr7"], "NAME: 'jobmgr7' is not one of mesos-master, mesos-agent0"),
        (["start", "nobody"], "NAME: 'nobody' is not one of"),
        (["start", "jobmgr0", "--hostname", "x"], "NAME: 'jobmgr0' is not one of mesos-agent0"),
        (["start", "mesos-agent0", "--hostname", "x"], "mesos-agent0 runs: stop it before"),
    ],
)
def test_wrong_names_are_reported(folder: Path, arguments: list[str], told: str) -> None:
    result = peloton(*arguments, folder=folder)
    assert result.returncode == 1
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_cluster_is_reported_in_one_line(tmp_path: Path) -> None:
    for command in ("status", "stop", "start"):
        result = peloton(command, folder=tmp_path / "none")
        assert result.returncode == 1
        assert "`peloton minicluster up` makes one" in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert peloton("down", folder=tmp_path / "none").returncode == 0


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 5050))
        taken.listen()
        result = peloton("up", folder=tmp_path / "cluster")
    assert peloton("down", folder=tmp_path / "cluster").returncode == 0
    assert result.returncode == 1
    assert "mesos-master: port 127.0.0.1:5050 is in use" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    result = peloton("up", "--free-ports", folder=tmp_path)
    assert result.returncode == 1
    assert "is not empty and no minicluster's" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = peloton("up", "--free-ports", folder=tmp_path / "file" / "cluster")
    assert result.returncode == 1
    assert "Not a directory" in result.stderr
    assert len(result.stderr.splitlines()) == 1


class TestAgents:
    """What becomes of an agent's tasks, and of the agent."""

    def test_a_stopped_agent_comes_back_as_a_new_one_and_its_tasks_are_lost(self, harness: Harness) -> None:
        config = harness.config("sleep 300")
        config.defaultConfig.restartPolicy.maxFailures = 0
        job_id = harness.create(config)
        runtime = harness.running(job_id)
        name = agent_of(harness, runtime.host)
        before = agent_id(harness, runtime.host)
        harness.cluster.stop([name])
        ended = harness.ended(job_id)
        assert ended.state == job_pb2.FAILED
        assert ended.taskStats["LOST"] == 1, ended
        harness.cluster.start([name], {"hostname": "renamed", "attributes": "rack:r9"})
        wait_for(lambda: "renamed" in hosts(harness), 60)
        assert agent_id(harness, "renamed") != before
        labels = {(label.key, label.value) for label in hosts(harness)["renamed"].labels}
        assert ("rack", "r9") in labels
        harness.cluster.stop([name])
        harness.cluster.start([name], {"hostname": runtime.host, "attributes": ""})
        wait_for(lambda: runtime.host in hosts(harness), 60)

    def test_tasks_survive_a_killed_agent(self, harness: Harness, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        config = harness.config(f'while [ ! -e "{gate}" ]; do sleep 0.1; done')
        config.defaultConfig.restartPolicy.maxFailures = 0
        job_id = harness.create(config)
        name = agent_of(harness, harness.running(job_id).host)
        harness.cluster.kill([name])
        harness.cluster.start([name])
        gate.touch()
        runtime = harness.ended(job_id)
        assert runtime.state == job_pb2.SUCCEEDED, runtime


def test_down_leaves_nothing_behind(tmp_path: Path) -> None:
    """Not even the tasks of an agent that was killed."""
    cluster = Cluster(tmp_path / "cluster")
    result = peloton("up", "--free-ports", folder=cluster.directory)
    assert result.returncode == 0, result.stderr
    harness = Harness(cluster)
    pids = tmp_path / "pids"
    pids.mkdir()
    job_id = harness.create(harness.config(f'touch "{pids}/$$"; sleep 600', 3))
    wait_for(lambda: len(list(pids.iterdir())) == 3, 60, lambda: str(harness.runtime(job_id)))
    harness.client.close()
    components = [each["pid"] for each in status(cluster.directory).values()]
    cluster.kill(["mesos-agent0", "mesos-agent1", "mesos-agent2"])
    assert peloton("down", folder=cluster.directory).returncode == 0
    assert not cluster.directory.exists()
    started = (*components, *(int(file.name) for file in pids.iterdir()))
    left = [pid for pid in started if start_of(pid) is not None]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def hosts(harness: Harness) -> dict[str, host_pb2.HostInfo]:
    answer = harness.client.host_svc.QueryHosts(host_svc_pb2.QueryHostsRequest(), timeout=30)
    return {host.hostname: host for host in answer.host_infos}


def agent_of(harness: Harness, hostname: str) -> str:
    """The component behind a host."""
    agents = [part for part in harness.cluster.components() if part.kind == "mesos-agent"]
    return next(part.name for part in agents if f"--hostname={hostname}" in part.flags)


def agent_id(harness: Harness, hostname: str) -> str:
    request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=hostname)
    (agent,) = harness.client.hostmgr_svc.GetMesosAgentInfo(request, timeout=30).agents
    return str(agent.agent_info.id.value)
