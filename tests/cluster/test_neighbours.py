"""Daemons of the version before this one beside daemons of this one, while they are replaced one by one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.servers.maven import Missing
from peloton import __version__
from peloton.api.v0.job import job_pb2
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.deploying import Deployer, bare_cluster
from tests.cluster.test_deploy import Calls, runs_of, service
from tests.conftest import lacking
from tests.servers.previous import VERSION, previous_environment
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return previous_environment(tmp_path_factory.mktemp("previous"))
    except Missing as missing:
        lacking(missing)


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with bare_cluster(tmp_path_factory.mktemp("neighbours") / "cluster", zookeeper) as found:
        yield found


@pytest.mark.timeout(900)
def test_the_version_before_is_upgraded_while_it_serves(
    previous: Path, cluster: Cluster, tmp_path: Path
) -> None:
    deployer = Deployer(tmp_path, cluster)
    del deployer.tree["daemons"]["jobmgr"]["settings"][
        "hosts_address"
    ]  # the version before has no such setting
    deployer("apply", deployer.file(previous))
    harness = Harness(cluster)
    try:
        lasting = service(harness)
        wait_for(lambda: harness.runtime(lasting).taskStats.get("RUNNING") == 50, 120)
        before, seen = runs_of(harness, lasting), set[tuple[str, ...]]()
        file = deployer.file()
        process = deployer.begin("apply", file)
        with Calls(harness, lasting) as calls:
            while process.poll() is None:
                job = harness.create(harness.config("true", 5))
                assert harness.ended(job).state == job_pb2.SUCCEEDED
                seen.add(versions(deployer, file))
                time.sleep(0.1)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        assert not calls.failed and calls.made
        print(f"{calls.made} calls while versions were mixed as in {sorted(seen)}")
        assert any(len(set(each)) == 2 for each in seen), "both versions ran beside each other"
        assert set(versions(deployer, file)) == {__version__}
        assert runs_of(harness, lasting) == before
    finally:
        harness.client.close()
        deployer("destroy", deployer.file(), "--yes")


def versions(deployer: Deployer, file: Path) -> tuple[str, ...]:
    """The versions of all daemons, as they say themselves."""
    found = json.loads(deployer("status", file, "--json", code=None))
    said = tuple(sorted(each["version"] for each in found["daemons"] if each["version"]))
    assert set(said) <= {VERSION, __version__}, said
    return said
