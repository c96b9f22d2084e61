"""`docker compose up` from a clone: a whole cluster, used from this machine, whose leaders are followed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import pytest
from kazoo.client import KazooClient

from minicluster.servers.maven import Missing, java
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.client import PelotonClient
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery
from peloton.membership.interface import Role
from tests.clients.check_docs import outputs_of
from tests.conftest import lacking
from tests.containers.conftest import Clone
from tests.servers.engine.running import ROOT

PROJECT = "peloton-tests"
ZOOKEEPER = "127.0.0.1:2181"
ROLES = ("jobmgr", "resmgr", "hostmgr")
POOL = "/DefaultResPool"
LONGEST_UP = 1200
IN_TIME = 30.0
"""Seconds until another leads: a leader's session lasts for 5 s, the rest is for a busy machine."""
GRACE = 30.0
"""Seconds: `stop_grace_period`, after which docker kills."""
PATIENCE = 180.0
LEADER = "/peloton/{}/leader"
README = (ROOT / "README.md").read_text()
SERVICE = """\
name: lasting
type: SERVICE
owningTeam: tests
instanceCount: 1
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 32}
  command: {shell: true, value: echo begun > begun; echo it runs; exec sleep 10000}
"""


@dataclass(frozen=True, slots=True)
class Composed:
    """A cluster that is up."""

    clone: Clone

    def compose(self, *arguments: str) -> str:
        done = self.clone.compose(*arguments)
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def up(self, *services: str) -> None:
        self.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", str(LONGEST_UP), *services)

    def container(self, service: str) -> str:
        return self.compose("ps", "--all", "--quiet", service).strip()

    def inspect(self, container: str, what: str) -> str:
        return self.clone.engine.must("inspect", "--format", what, container).strip()

    def leader(self, role: str) -> str:
        """The service that leads."""
        host = address(role).rpartition(":")[0]
        ip = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return next(
            each for each in (f"{role}0", f"{role}1") if self.inspect(self.container(each), ip) == host
        )

    def expired(self, session: int) -> bool:
        """Return whether ZooKeeper has ended a session, which was not closed by its owner."""
        return f"Expiring session {session:#x}" in self.compose("logs", "--no-log-prefix", "zookeeper")


def session_of_leader(role: str) -> int:
    client = KazooClient(ZOOKEEPER)
    client.start(timeout=60)
    try:
        stat = client.exists(LEADER.format(Role(role).election))
        assert stat is not None, f"nobody leads {role}"
        return int(stat.ephemeralOwner)
    finally:
        client.stop()
        client.close()


def address(role: str) -> str:
    with closing(ZooKeeperDiscovery(ZOOKEEPER)) as discovery:
        return discovery.address(role)


def next_leader(role: str, before: str) -> float:
    """Wait for another leader, which for jobmgr is one that answers; return how long it took, in seconds."""
    begun = time.monotonic()
    with closing(ZooKeeperDiscovery(ZOOKEEPER)) as discovery:
        while True:
            last: Exception | None = None
            try:
                if (found := discovery.address(role)) != before:
                    taken = time.monotonic() - begun
                    _answered(role, found)
                    return taken
            except (DiscoveryError, grpc.RpcError) as error:
                last = error  # nobody leads yet
            if time.monotonic() > begun + PATIENCE:
                raise AssertionError(f"no other {role} than {before} leads and answers") from last
            time.sleep(0.05)


def _answered(role: str, found: str) -> None:
    if role == "jobmgr":
        with grpc.insecure_channel(found) as channel:
            job_pb2_grpc.JobManagerStub(channel).GetActiveJobs(job_pb2.GetActiveJobsRequest(), timeout=10)


@pytest.fixture(scope="module")
def cluster(clone: Clone, image: str) -> Iterator[Composed]:
    """Bring it up; afterwards nothing of it is left."""
    named = Clone(clone.engine, clone.folder, {**clone.environment, "COMPOSE_PROJECT_NAME": PROJECT})
    try:
        begun = time.monotonic()
        done = named.compose("up", "--detach", "--wait", "--wait-timeout", str(LONGEST_UP))
        told = named.compose("ps", "--all").stdout
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{told}"
        print(f"docker compose up: {time.monotonic() - begun:.0f} s")
        yield Composed(named)
    finally:
        named.compose("down", "--volumes")


@pytest.fixture(scope="module")
def pool(cluster: Composed) -> str:
    peloton("respool", "create", POOL, "examples/default_respool.yaml")
    return POOL


def peloton(*arguments: str) -> str:
    return _ran("peloton", *arguments)


def _ran(*command: str, cwd: object = ROOT, **environment: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=str(cwd),
        env={**os.environ, "PATH": path, "ZK_SERVERS": ZOOKEEPER, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


def test_everything_is_healthy_and_nobody_is_root(cluster: Composed) -> None:
    services = cluster.compose("config", "--services").split()
    for service in set(services) - {"migrate"}:
        assert cluster.inspect(cluster.container(service), "{{.State.Health.Status}}") == "healthy", service
    for service in ("jobmgr0", "web", "own-mesos-agent1"):
        look = (
            "exec",
            "--no-TTY",
            service,
            "sh",
            "-c",
            "id -u; touch /etc/new 2>/dev/null || echo read-only",
        )
        assert cluster.compose(*look).split() == ["10001", "read-only"]


def test_the_readmes_first_job_by_command_line(pool: str) -> None:
    begin = README.index("peloton job create /DefaultResPool")
    commands = README[begin : README.index("peloton minicluster status", begin)]
    shell = [line for line in commands.splitlines() if line.startswith(("peloton ", "JOB="))]
    # It runs in the folder that it is called from: one that the agents' containers have, too.
    shell = [line.replace("peloton run ", "cd /; peloton run ") for line in shell]
    said = _ran("bash", "-euxc", "\n".join(shell))
    assert "SUCCEEDED 10" in said
    assert re.search(r"Hello from instance 0", said)


def test_the_command_line_finds_the_leaders_and_the_tasks(pool: str, tmp_path: Path) -> None:
    """From this machine: by ZooKeeper, and by the addresses of the agents."""
    spec = tmp_path / "service.yaml"
    spec.write_text(SERVICE)
    peloton("job", "create", pool, str(spec), "--follow")
    job = _ran("peloton", "-z", "localhost:2181", "-o", "name", "job", "query", "--limit", "1").strip()
    assert peloton("task", "exec", job, "0", "cat", "begun").strip() == "begun"
    assert peloton("task", "logs", job, "0").strip() == "it runs"
    peloton("job", "stop", job)


def test_the_readmes_first_job_by_the_python_client(pool: str) -> None:
    begin = README.index("```python") + len("```python")
    code = README[begin : README.index("```", begin)]
    where = re.compile(r'jm_url="[^"]*", rm_url="[^"]*", hm_url="[^"]*"')
    assert where.search(code)
    job = _ran(sys.executable, "-c", where.sub(f'zk_servers="{ZOOKEEPER}"', code)).strip()
    with PelotonClient("tests", zk_servers=ZOOKEEPER) as client:
        assert client.jobs.wait(job, PATIENCE).state == job_pb2.SUCCEEDED
        assert b"".join(client.jobs.logs(job, 2)).decode() == f"hello from {job}-2\n"


@pytest.mark.parametrize("language", ["Go", "Java"])
def test_the_readmes_first_job_by_the_pages_programs(pool: str, tmp_path: Path, language: str) -> None:
    """The programs of docs/clients.md, with the spec of the README's job."""
    if language == "Java":
        try:
            java()
        except Missing as missing:
            lacking(missing)
    spec = (ROOT / "examples" / "helloworld_job.yaml").read_text()
    run = partial(_ran, cwd=tmp_path, PELOTON=str(ROOT), POOL=pool)
    outputs = outputs_of(language, tmp_path, spec, run)
    assert outputs
    for output in outputs:
        assert output[-12:-1] == ["SUCCEEDED", *(f"{number} SUCCEEDED" for number in range(10))], output
        assert output[-1].startswith("Hello from instance 1 of job ")


@pytest.mark.parametrize("role", ROLES)
def test_a_leader_that_is_terminated_hands_over_and_ends_in_order(cluster: Composed, role: str) -> None:
    leader, before, session = cluster.leader(role), address(role), session_of_leader(role)
    container = cluster.container(leader)
    cluster.clone.engine.must("kill", "--signal", "TERM", container)
    try:
        taken = next_leader(role, before)
        begun = time.monotonic()
        while cluster.inspect(container, "{{.State.Running}}") == "true":
            assert time.monotonic() < begun + GRACE
            time.sleep(0.1)
        print(
            f"{role}: another leads {taken:.1f} s after SIGTERM, ended {time.monotonic() - begun:.1f} s later"
        )
        assert taken < IN_TIME
        assert cluster.inspect(container, "{{.State.ExitCode}}") == "0"
    finally:
        cluster.up(leader)
    # By now the session would be over: it was closed instead.
    assert not cluster.expired(session)


@pytest.mark.parametrize("role", ROLES)
def test_another_leads_where_a_leader_is_killed(cluster: Composed, pool: str, role: str) -> None:
    leader, before, session = cluster.leader(role), address(role), session_of_leader(role)
    cluster.clone.engine.must("kill", cluster.container(leader))
    try:
        taken = next_leader(role, before)
        print(f"{role}: another leads {taken:.1f} s after docker kill")
        assert taken < IN_TIME
        assert cluster.expired(session)
        assert "SUCCEEDED" in peloton("job", "create", pool, "examples/helloworld_job.yaml", "--follow")
    finally:
        cluster.up(leader)


def test_wrong_settings_are_told_in_the_log_and_by_the_state(cluster: Composed) -> None:
    file = cluster.clone.folder / "deploy" / "jobmgr.yaml"
    right = file.read_text()
    follower = next(each for each in ("jobmgr0", "jobmgr1") if each != cluster.leader("jobmgr"))
    file.write_text(right.replace("http_port", "htpp_port"))
    try:
        cluster.compose("up", "--detach", "--no-build", "--no-deps", "--force-recreate", follower)
        told = "/etc/peloton/jobmgr.yaml: htpp_port: unknown setting; did you mean http_port?"
        deadline = time.monotonic() + PATIENCE
        while told not in cluster.compose("logs", "--no-log-prefix", follower):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert cluster.inspect(cluster.container(follower), "{{.State.Health.Status}}") != "healthy"
        while cluster.inspect(cluster.container(follower), "{{.RestartCount}}") == "0":
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        file.write_text(right)
    cluster.compose("up", "--detach", "--no-build", "--no-deps", "--force-recreate", "--wait", follower)


def test_a_missing_digest_is_told_before_anything_is_made(clone: Clone) -> None:
    done = clone.compose("config", "--quiet", environment={"PYTHON_DIGEST": ""})
    assert done.returncode != 0
    assert "`make images` writes the digests of images to .env" in done.stdout


def test_the_profile_of_mesos_is_valid(clone: Clone) -> None:
    services = clone.compose("config", "--services", environment={"COMPOSE_PROFILES": "mesos"}).stdout.split()
    assert {"mesos-master", "mesos-agent0", "mesos-agent1", "jobmgr0", "web"} <= set(services)
    assert not [each for each in services if each.startswith("own-")]


def test_down_leaves_nothing(cluster: Composed) -> None:
    cluster.compose("down", "--volumes")
    engine, label = cluster.clone.engine, f"label=com.docker.compose.project={PROJECT}"
    assert engine.must("ps", "--all", "--quiet", "--filter", label) == ""
    assert engine.must("volume", "ls", "--quiet", "--filter", label) == ""
    assert engine.must("network", "ls", "--quiet", "--filter", label) == ""
