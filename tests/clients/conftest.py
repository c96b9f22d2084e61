"""One minicluster, found by ZooKeeper, for the clients of all languages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from minicluster.settings import ClusterSettings, Instances
from minicluster.temporary import temporary_cluster
from peloton.client import PelotonClient
from tests.clients.secured import secured_cluster
from tests.cluster.conftest import Harness
from tools.clients import CLIENTS

ROOT = Path(__file__).resolve().parents[2]
GO, JAVA = CLIENTS / "go", CLIENTS / "java"
MAVEN = ("mvn", "-q", "-B")
POOL = "/test"
SECONDS = 1200


@dataclass(frozen=True, slots=True)
class Shared:
    """The cluster, as a client in another process is told of it."""

    harness: Harness
    environment: Mapping[str, str]

    def run(self, *command: str, cwd: Path, **environment: str) -> str:
        """Run a program that must succeed; return its output."""
        return run(command, cwd, {**self.environment, **environment})

    def control(self, action: str, *roles: str) -> None:
        """Lose the leaders of roles, or restore them."""
        run([self.environment["PELOTON_TEST_CONTROL"], action, *roles], ROOT, self.environment)


def run(command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a program that must succeed; return what it wrote."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    settings = ClusterSettings(ports="free", membership="zookeeper", instances=Instances(jobmgr=2, resmgr=2))
    with temporary_cluster(settings) as cluster:
        harness = Harness(cluster)
        control = tmp_path_factory.mktemp("control") / "control"
        command = f'exec {sys.executable} -m tests.clients.control {cluster.directory} "$@"'
        control.write_text(f"#!/bin/sh\ncd {ROOT} && {command}\n")
        control.chmod(0o755)
        environment = {
            "ZK_SERVERS": cluster.zookeeper_servers(),
            "PELOTON_TEST_POOL": POOL,
            "PELOTON_TEST_CONTROL": str(control),
        }
        try:
            yield Shared(harness, environment)
        finally:
            harness.client.close()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of a cluster that asks who calls."""
    with secured_cluster(tmp_path_factory.mktemp("secured")) as environment:
        yield environment


@pytest.fixture(scope="session")
def go_tests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All tests of the Go client as one program, with the race detector."""
    program = str(tmp_path_factory.mktemp("go") / "tests")
    run(["go", "test", "-c", "-race", "-tags=cluster", "-o", program, "."], GO)
    return program


@pytest.fixture(scope="session")
def java_tests() -> None:
    """Run google-java-format, Error Prone and the Java client's own tests; leave what is compiled."""
    run([*MAVEN, "-Pcheck", "clean", "test"], JAVA)


def java_test(name: str) -> list[str]:
    """Return the command that runs compiled tests of the Java client."""
    return [*MAVEN, "surefire:test", f"-Dtest={name}"]


@pytest.fixture
def client(shared: Shared) -> Iterator[PelotonClient]:
    with PelotonClient("tests", zk_servers=shared.environment["ZK_SERVERS"]) as made:
        yield made
