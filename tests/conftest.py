"""What all tests share: servers, each started once by the first test that needs it, and signals that work."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from minicluster.cluster import Cluster
from tests.servers.cassandra import CassandraServer, cassandra_server
from tests.servers.maven import Missing
from tests.servers.zookeeper import ZooKeeperServer, zookeeper_server

# Hypothesis limits the time by the clock on the wall, which on a busy machine says nothing about a test.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


def pytest_configure() -> None:
    """Processes that tests start and interrupt must hear it. A shell's background jobs ignore SIGINT, those
    of nohup SIGHUP, and a program keeps ignoring what it was started with."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


LONGEST_FIRST = ("tests/contract/storage", "tests/faults", "tests/cluster", "tests/integration")
"""Folders whose tests take longest in one worker: begun last they would leave the other workers idle.

The first two are minutes each, the modules of the third are up to one minute each."""
ON_CASSANDRA = ("tests/contract/storage", "tests/integration/cassandra")
ON_FIXED_PORTS = ("tests/cluster/test_deploy",)
"""Tests of what is deployed on agents whose ports for daemons are the same in each (`bare_cluster`)."""


class ModuleScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist does not export its types
    """Keep the tests of one module in one worker, those of one server, of which each worker starts its own,
    and those that listen on the same ports."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module.startswith(ON_FIXED_PORTS):
            return "fixed ports"
        return "cassandra" if module.startswith(ON_CASSANDRA) else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModuleScheduling:
    return ModuleScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    ranks = (at for at, folder in enumerate(LONGEST_FIRST) if item.location[0].startswith(folder))
    return next(ranks, len(LONGEST_FIRST))


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Undo what a program that a test runs in this process sets for good: later tests make files, too."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def cassandra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """A Cassandra server that asks for a password."""
    try:
        with cassandra_server(tmp_path_factory.mktemp("cassandra")) as server:
            yield server
    except Missing as missing:
        lacking(missing)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper server. A test that hurts it leaves it running."""
    try:
        with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as server:
            yield server
    except Missing as missing:
        lacking(missing)


@pytest.fixture(scope="module")
def bare(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Mesos without any daemon, to deploy on."""
    from tests.cluster.deploying import bare_cluster  # most tests do without it

    with bare_cluster(tmp_path_factory.mktemp("deploy") / "cluster", zookeeper) as found:
        yield found


def lacking(missing: Missing) -> NoReturn:
    """Skip the test, saying what is missing; in CI, where nothing may be, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be missing: {missing}")
    pytest.skip(str(missing))
