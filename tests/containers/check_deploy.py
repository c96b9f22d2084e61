"""`peloton deploy` with an image: daemons as containers on our own agents, with Cassandra and a secret."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from tests.cluster.conftest import wait_for
from tests.cluster.deploying import Deployer, bare_cluster, run_a_job
from tests.cluster.test_deploy import INSTANCES, Calls, runs_of, service
from tests.containers.conftest import IMAGE
from tests.servers.cassandra import CassandraServer
from tests.servers.engine import Engine
from tests.servers.engine.running import ROOT
from tests.servers.store import settings_for
from tests.servers.zookeeper import ZooKeeperServer
from tools.images import images

SECOND = "peloton-tests:second"
USER = 10001
"""Of the image."""
SECRET = "cassandra-password"


@pytest.fixture(scope="module")
def cluster(
    engine: Engine, image: str, zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in engine.environment.items():
            patch.setenv(name, value)
        with bare_cluster(tmp_path_factory.mktemp("deploy") / "cluster", zookeeper, "docker") as found:
            yield found


@pytest.fixture(scope="module")
def deployer(
    cluster: Cluster, cassandra: CassandraServer, tmp_path_factory: pytest.TempPathFactory
) -> Deployer:
    folder = tmp_path_factory.mktemp("installation")
    made = Deployer(folder, cluster)
    storage = settings_for(cassandra, folder, "deployed").model_dump(mode="json", exclude_defaults=True)
    file = Path(storage["password_file"])
    os.chown(file, USER, USER)
    made.tree |= {
        "version": {"image": IMAGE},
        "storage": {**storage, "kind": "cassandra", "password_file": f"secret:{SECRET}"},
        "secrets": {SECRET: {"file": str(file)}},
    }
    for daemons in made.tree["daemons"].values():
        daemons["mem"] = 384
    return made


def containers(engine: Engine) -> dict[str, Mapping[str, object]]:
    """The containers of tasks that run, by name."""
    names = engine.must("ps", "--quiet", "--filter", "name=mesos-").split()
    found = json.loads(engine.must("inspect", *names)) if names else []
    return {each["Name"]: each for each in found}


def test_daemons_are_containers_which_are_replaced_while_they_serve(
    engine: Engine, deployer: Deployer
) -> None:
    began = time.monotonic()
    with deployer.deployed(deployer.file()) as harness:
        run_a_job(harness)
        print(f"from nothing to the end of a first job: {time.monotonic() - began:.1f} s")
        _are_locked_down(engine, IMAGE)
        lasting = service(harness)
        wait_for(lambda: harness.runtime(lasting).taskStats.get("RUNNING") == INSTANCES, 180)
        before = runs_of(harness, lasting)
        engine.must("tag", IMAGE, SECOND)
        with Calls(harness, lasting) as calls:
            seconds, _ = deployer.timed("apply", deployer.file(image=SECOND))
            print(f"upgrade: {seconds:.1f} s, {calls.made} calls, load {os.getloadavg()[0]:.0f}")
            _are_locked_down(engine, SECOND)
            _goes_back(deployer)
        assert calls.made and not calls.failed
        assert runs_of(harness, lasting) == before
    wait_for(lambda: not containers(engine), 60, lambda: str(containers(engine).keys()))


def _are_locked_down(engine: Engine, image: str) -> None:
    """Eight daemons run from the image, as its user, read-only, without privileges, within their memory."""
    found = containers(engine)
    assert len(found) == 8, list(found)
    for each in found.values():
        config, host = each["Config"], each["HostConfig"]
        assert isinstance(config, dict) and isinstance(host, dict)
        assert config["Image"] == image and config["User"] == f"{USER}:{USER}"
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and host["NetworkMode"] == "host"
        assert host["Memory"] == 384 << 20
        assert not [each for each in config["Env"] if "PELOTON_DEPLOY" in each and "password:" in each]


def _goes_back(deployer: Deployer) -> None:
    """An image without the programs does not start: the one before goes on."""
    before = {each["name"] for each in deployer.status(deployer.file())["daemons"]}
    said = deployer("apply", deployer.file(image=images(ROOT)["PYTHON_IMAGE"]), code=1)
    assert "went back to revision 2: the schema of the store was not brought up to date" in said
    assert "Command exited with status 127" in said
    assert {each["name"] for each in deployer.status(deployer.file())["daemons"]} == before
