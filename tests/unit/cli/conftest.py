from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from peloton.cli import estimate, feasibility, live_cluster, live_names, losses, mesos_clusters, told, used
from peloton.cli.__main__ import main
from peloton.cli.targets import NAMES
from peloton.client import member_health

from .fakes import FakeAgent, FakeDaemons, agent_serving, serving


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]
PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def nothing_said(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor the home directory of whoever runs the tests says where a cluster is."""
    for _, variable in NAMES.values():
        monkeypatch.delenv(variable, raising=False)
    for variable in ("ZK_ROOT", "TIMEOUT", "BASIC_AUTH_CONFIG", "PELOTON_MINICLUSTER_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer than a user would for what a command leaves out where no answer comes."""
    monkeypatch.setattr(live_names, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(feasibility, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(mesos_clusters, "ASK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(member_health, "HEALTH_SECONDS", PATIENCE_SECONDS)
    for module in (estimate, live_cluster, losses, told, used):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def daemons() -> FakeDaemons:
    return FakeDaemons()


@pytest.fixture
def address(daemons: FakeDaemons) -> Iterator[str]:
    with serving(daemons) as found:
        yield found


@pytest.fixture
def run(address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line against the fake; returns exit code, standard output and standard error."""
    for name in ("JOBMGR_URL", "RESMGR_URL", "HOSTMGR_URL"):
        monkeypatch.setenv(name, address)

    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(list(arguments))
        return Outcome(code, *capfd.readouterr())

    return call


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
def agent_address(agent: FakeAgent) -> Iterator[tuple[str, int]]:
    with agent_serving(agent) as found:
        yield found
