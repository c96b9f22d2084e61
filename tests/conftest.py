"""Servers that tests share: each started once, by the first test that needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.servers.cassandra import CassandraServer, cassandra_server
from tests.servers.maven import Missing
from tests.servers.zookeeper import ZooKeeperServer, zookeeper_server


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


def lacking(missing: Missing) -> NoReturn:
    """Skip the test, saying what is missing; in CI, where nothing may be, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be missing: {missing}")
    pytest.skip(str(missing))
