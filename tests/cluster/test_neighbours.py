"""Daemons of the version before this one beside daemons of this one, while they are replaced one by one."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.servers.maven import Missing
from peloton import __version__
from peloton.api.v0.job import job_pb2
from storage.codec import TASK_RUNTIME
from storage.sqlite.terms import read_writers
from tests.cluster.conftest import wait_for
from tests.cluster.deploying import Deployer, run_a_job
from tests.cluster.test_deploy import Calls, runs_of, service
from tests.conftest import lacking
from tests.servers.previous import VERSION, previous_environment

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return previous_environment(tmp_path_factory.mktemp("previous"))
    except Missing as missing:
        lacking(missing)


@pytest.mark.timeout(900)
def test_the_version_before_is_upgraded_while_it_serves(
    previous: Path, bare: Cluster, tmp_path: Path
) -> None:
    deployer = Deployer(tmp_path, bare)
    del deployer.tree["daemons"]["jobmgr"]["settings"][
        "hosts_address"
    ]  # the version before has no such setting
    with deployer.deployed(deployer.file(previous)) as harness:
        lasting = service(harness)
        wait_for(lambda: harness.runtime(lasting).taskStats.get("RUNNING") == 50, 120)
        before, seen = runs_of(harness, lasting), set[tuple[str, ...]]()
        store = Path(deployer.tree["storage"]["path"])
        assert releases(store) == {"0.1"}
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
        run_a_job(harness)  # the leader of jobmgr was replaced last
        assert releases(store) == {"0.1", "0.2"}, "rows of both versions"
        with closing(sqlite3.connect(store)) as db:
            assert set(read_writers(db).values()) == {__version__}
        assert runs_of(harness, lasting) == before


def releases(store: Path) -> set[str]:
    """The releases that wrote the runtimes of tasks."""
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute("SELECT runtime FROM tasks").fetchall()
    return {TASK_RUNTIME.release(len(json.loads(text))) for (text,) in rows}


def versions(deployer: Deployer, file: Path) -> tuple[str, ...]:
    """The versions of all daemons, as they say themselves."""
    found = json.loads(deployer("status", file, "--json", code=None))
    said = tuple(sorted(each["version"] for each in found["daemons"] if each["version"]))
    assert set(said) <= {VERSION, __version__}, said
    return said
