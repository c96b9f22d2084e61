"""A minicluster on a real Cassandra and a real ZooKeeper, as a person uses it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from minicluster.mesos.common.process_identity import start_of
from minicluster.servers import cassandra, maven, zookeeper
from tests.conftest import lacking

SERVERS = {"zookeeper": "zk", "cassandra": "cql"}
POOL = """
name: DefaultResPool
resources: [{kind: cpu, limit: 100}, {kind: memory, limit: 10000}, {kind: disk, limit: 10000}, {kind: gpu}]
"""
JOB = """
name: smallest
instanceCount: 1
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 16, diskLimitMb: 8}
  command: {shell: true, value: "true"}
"""


def peloton(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "peloton.cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **environment}
    )


def components(folder: Path) -> dict[str, Any]:
    result = peloton("-j", "minicluster", "status", "--dir", str(folder))
    found = {each["name"]: each for each in json.loads(result.stdout)["components"]}
    all_run = all(each["state"] != "dead" for each in found.values())
    assert result.returncode == (0 if all_run else 1), result.stderr
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a cluster that is up."""
    try:
        maven.java()
        for artifacts in (zookeeper.ARTIFACTS, cassandra.ARTIFACTS):
            maven.jars(artifacts)
    except maven.Missing as missing:
        lacking(missing)
    path = tmp_path_factory.mktemp("servers") / "cluster"
    flags = ("--free-ports", "--storage", "cassandra", "--membership", "zookeeper")
    result = peloton("minicluster", "up", "--dir", str(path), *flags)
    try:
        assert result.returncode == 0, result.stderr
        told = result.stderr.splitlines()
        (made,) = (i for i, line in enumerate(told) if line.startswith("keyspace peloton has schema version"))
        assert told.index("cassandra answers") < made < told.index("jobmgr0 answers"), told
        yield path
    finally:
        pids = [each["pid"] for each in components(path).values() if each["pid"]]
        down = peloton("minicluster", "down", "--dir", str(path))
        left = [pid for pid in pids if start_of(pid) is not None]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert (down.returncode, left) == (0, []), down.stderr


def test_a_job_succeeds(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOL)
    (tmp_path / "job.yaml").write_text(JOB)
    found = components(folder)
    assert {name: list(found[name]["addresses"]) for name in SERVERS} == {
        name: [protocol] for name, protocol in SERVERS.items()
    }
    leaders = {"ZK_SERVERS": found["zookeeper"]["addresses"]["zk"]}
    pool = peloton("respool", "create", "/DefaultResPool", str(tmp_path / "pool.yaml"), **leaders)
    assert pool.returncode == 0, pool.stderr
    job = peloton("job", "create", "/DefaultResPool", str(tmp_path / "job.yaml"), "--follow", **leaders)
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines()[-1].startswith("SUCCEEDED  1/1 ended"), job.stdout


def test_a_cluster_with_a_dead_server_is_reported_and_restarted(folder: Path) -> None:
    def cluster(*arguments: str) -> subprocess.CompletedProcess[str]:
        return peloton("minicluster", *arguments, "--dir", str(folder))

    later = time.monotonic() + 3
    while time.monotonic() < later:  # it synchronizes its log once a second; a kill loses the rest
        components(folder)
    assert cluster("kill", "cassandra").returncode == 0
    assert components(folder)["cassandra"]["state"] == "dead"
    up = cluster("up")
    assert up.returncode == 1
    assert "half up, cassandra not running: `peloton minicluster start cassandra`" in up.stderr
    assert len(up.stderr.splitlines()) == 1
    start = cluster("start")
    assert start.returncode == 0, start.stderr
    found = components(folder)
    assert found["cassandra"]["state"] == "running"
    assert cluster("restart", "jobmgr0").returncode == 0
    leader, deadline = found["zookeeper"]["addresses"]["zk"], time.monotonic() + 60
    while "smallest" not in (jobs := peloton("job", "query", ZK_SERVERS=leader)).stdout:
        log = (folder / "log" / "jobmgr0.log").read_text()[-4000:]
        assert time.monotonic() < deadline, (jobs.stdout, jobs.stderr, log)


@pytest.mark.extended
def test_a_cluster_on_external_servers(folder: Path, tmp_path: Path) -> None:
    """It has a keyspace and a root of its own in those that the first one started."""
    addresses = components(folder)
    cql, zk = (
        addresses[name]["addresses"][kind] for name, kind in (("cassandra", "cql"), ("zookeeper", "zk"))
    )
    file, other = tmp_path / "cluster.yaml", tmp_path / "other"
    file.write_text(json.dumps({"agents": [], "cassandra": {"keyspace": "other"}}))
    flags = ["--free-ports", f"--storage=cassandra={cql}", f"--membership=zookeeper={zk}/other"]
    up = peloton("minicluster", "up", "--dir", str(other), "--config", str(file), *flags)
    try:
        assert up.returncode == 0, up.stderr
        assert "keyspace other has schema version" in up.stderr
        states = {name: each["state"] for name, each in components(other).items()}
        assert {name for name, state in states.items() if state == "given"} == {"zookeeper", "cassandra"}
        assert set(states.values()) == {"given", "running"}
        assert peloton("minicluster", "up", "--dir", str(other)).returncode == 0, "it is up already"
    finally:
        assert peloton("minicluster", "down", "--dir", str(other)).returncode == 0


def test_unreachable_external_servers_are_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        flag = f"--storage=cassandra=127.0.0.1:{taken.getsockname()[1]}"
        up = peloton("minicluster", "up", "--dir", str(tmp_path / "cluster"), "--free-ports", flag)
    peloton("minicluster", "down", "--dir", str(tmp_path / "cluster"))
    assert up.returncode == 1
    assert "Cassandra cannot be reached: 127.0.0.1" in up.stderr.splitlines()[-1]


@pytest.mark.parametrize("lacks", ["java", "mvn"])
def test_missing_java_or_maven_is_reported(tmp_path: Path, lacks: str) -> None:
    (tmp_path / "bin").mkdir()
    if lacks == "mvn":
        java = shutil.which("java")
        if java is None:
            lacking(maven.Missing("Java 17 is missing"))
        (tmp_path / "bin" / "java").symlink_to(java)
    environment: Mapping[str, str] = {
        "PATH": str(tmp_path / "bin"),
        "JAVA_HOME": "",
        "PELOTON_TEST_CACHE": str(tmp_path / "cache"),
    }
    flags = ("--dir", str(tmp_path / "cluster"), "--free-ports", "--storage", "cassandra")
    up = peloton("minicluster", "up", *flags, **environment)
    assert up.returncode == 1
    told = up.stderr.splitlines()[-1]
    what = {"java": "Java 17 is missing", "mvn": "Maven is missing"}[lacks]
    assert told.startswith(f"peloton: cassandra cannot be started along: {what}"), up.stderr
    assert told.endswith("--storage cassandra=HOST:PORT")
    assert not (tmp_path / "cluster").exists()
