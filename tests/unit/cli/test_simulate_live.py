"""`peloton simulate` with hosts and pools like those of the running cluster."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
import yaml

from peloton.api.v0.host.svc import host_svc_pb2
from peloton.model.live_state import LiveHost
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import Resources
from simulator.workloads.cluster import ClusterSettings, hosts_of, pools_of, read_cluster
from simulator.workloads.live import hosts_like, pools_like, write_cluster
from tests import live_scene

from .conftest import Run
from .fakes import FakeDaemons

JOBS = [{"name": str(n), "submit": n, "seconds": 60, "cpu": 2, "pool": "/a"} for n in range(4)]
TOGETHER = "--live-hosts", "--live-pools"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "jobs.jsonl"
    path.write_text("".join(json.dumps(job) + "\n" for job in JOBS))
    return str(path)


@pytest.fixture
def cluster(daemons: FakeDaemons) -> None:
    daemons.answers.update(
        QueryHosts=live_scene.hosts(), GetHostCache=live_scene.amounts(), Query=live_scene.pools()
    )


@pytest.mark.usefixtures("cluster")
def test_what_is_saved_gives_the_same_result_offline(
    run: Run, daemons: FakeDaemons, trace: str, tmp_path: Path
) -> None:
    saved = tmp_path / "new" / "cluster.yaml"
    live = run("simulate", "--trace", trace, *TOGETHER, "--save-cluster", str(saved))
    assert (live.code, live.err) == (0, "")
    kinds = {key: {"reservation": 100.0, "limit": 1000.0} for key in ("cpu", "memory", "disk", "gpu")}
    assert yaml.safe_load(saved.read_text()) == {
        "hosts": [{"cpu": 4.0}],
        "pools": [{"path": "/a", "id": live_scene.POOL, "resources": kinds}],
    }
    asked = len(daemons.requests("QueryHosts"))
    offline = run("simulate", "--trace", trace, "--cluster", str(saved))
    assert offline.out == live.out and "/a" in live.out
    assert len(daemons.requests("QueryHosts")) == asked == 1
    assert [each.name for each in saved.parent.iterdir()] == ["cluster.yaml"]


@pytest.mark.usefixtures("cluster")
def test_pools_of_logs_are_those_of_the_cluster_with_the_same_ids(run: Run, tmp_path: Path) -> None:
    path, saved = tmp_path / "named-by-ids.jsonl", tmp_path / "cluster.yaml"
    path.write_text("".join(json.dumps({**job, "pool": f"/{live_scene.POOL}"}) + "\n" for job in JOBS))
    live = run("simulate", "--trace", str(path), *TOGETHER, "--save-cluster", str(saved))
    assert (live.code, live.err) == (0, "") and "/a " in live.out and live_scene.POOL not in live.out
    assert run("simulate", "--trace", str(path), "--cluster", str(saved)).out == live.out


@pytest.mark.usefixtures("cluster")
def test_hosts_and_pools_may_come_from_different_places(run: Run, trace: str, tmp_path: Path) -> None:
    file, saved = tmp_path / "file.yaml", tmp_path / "saved.yaml"
    file.write_text("{hosts: [{count: 2, cpu: 16}], pools: [{path: /a, resources: {cpu: {reservation: 1}}}]}")
    given = "simulate", "--trace", trace, "--cluster", str(file), "--save-cluster", str(saved)
    assert run(*given, "--live-hosts").code == 0
    mixed = yaml.safe_load(saved.read_text())
    assert mixed["hosts"] == [{"cpu": 4.0}]
    assert mixed["pools"] == [{"path": "/a", "resources": {"cpu": {"reservation": 1.0}}}]
    assert run(*given, "--live-pools").code == 0
    mixed = yaml.safe_load(saved.read_text())
    assert mixed["hosts"] == [{"count": 2, "cpu": 16.0}]
    assert mixed["pools"][0]["resources"]["cpu"] == {"reservation": 100.0, "limit": 1000.0}


@pytest.mark.usefixtures("cluster")
def test_what_is_refused(run: Run, daemons: FakeDaemons, trace: str, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("hosts: [{cpu: 16}]")
    nothing = run("simulate", "--trace", trace, "--live-pools")
    assert (nothing.code, "no hosts: give --cluster FILE" in nothing.err) == (2, True)
    all_three = run("simulate", "--trace", trace, *TOGETHER, "--cluster", str(file))
    assert (all_three.code, "has nothing left to say" in all_three.err) == (2, True)
    daemons.answers["QueryHosts"] = host_svc_pb2.QueryHostsResponse()
    none_up = run("simulate", "--trace", trace, *TOGETHER, "--save-cluster", str(tmp_path / "saved"))
    assert (none_up.code, "hosts that are UP: 0 is not at least 1 host" in none_up.err) == (1, True), (
        none_up.err
    )
    daemons.answers["QueryHosts"] = (grpc.StatusCode.PERMISSION_DENIED, "ann may not call QueryHosts")
    refused = run("simulate", "--trace", trace, *TOGETHER)
    assert (refused.code, "ann may not call QueryHosts" in refused.err) == (1, True)
    assert not (tmp_path / "saved").exists(), "nothing is saved of what was not read"


@pytest.mark.usefixtures("cluster")
def test_a_job_of_a_pool_that_the_cluster_has_not(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps({**JOBS[0], "pool": "/z"}) + "\n")
    outcome = run("simulate", "--trace", str(path), *TOGETHER)
    assert (outcome.code, "pool of a job" in outcome.err) == (1, True)


def test_hosts_that_are_alike_are_written_together(tmp_path: Path) -> None:
    large, small = Resources.of(64.0, 256_000.0, 1000.0, 8.0), Resources.of(0.5, 100.0)
    racks = ("rack", "a"), ("rack", "b"), ("kind", "new")
    hosts = [
        LiveHost("h1", large, racks),
        LiveHost("h2", small),
        LiveHost("h3", large, racks[::-1]),
    ]
    settings = ClusterSettings(hosts=hosts_like(hosts))
    assert [each.count for each in settings.hosts] == [2, 1]
    write_cluster(tmp_path / "cluster.yaml", settings)
    assert read_cluster(tmp_path / "cluster.yaml") == settings
    found = hosts_of(settings)
    assert [each.resources for each in found] == [large, large, small]
    assert set(found[0].labels) == set(racks) and not found[2].labels


def test_pools_are_written_by_their_paths(tmp_path: Path) -> None:
    kinds = {"cpu": KindConfig(1500, 4000, 2.0, ReservationType.STATIC), "gpu": KindConfig(0, 8000)}
    pools = [PoolConfig("2", "leaf", "1", kinds), PoolConfig("1", "team", "root")]
    like = pools_like(pools)
    assert [each.path for each in like] == ["/team", "/team/leaf"]
    hosts = hosts_like([LiveHost("h", Resources.of(4.0))])
    settings = ClusterSettings(hosts=hosts, pools=like)
    write_cluster(tmp_path / "cluster.yaml", settings)
    assert read_cluster(tmp_path / "cluster.yaml") == settings
    found = {pool.id: pool for pool in pools_of(settings, hosts_of(settings), ["/team/leaf"])}
    assert found["/team/leaf"].kind("cpu") == kinds["cpu"]
    assert found["/team/leaf"].kind("gpu") == kinds["gpu"]
    assert found["/team/leaf"].kind("memory") == KindConfig(0, 0), (
        "what a cluster has not is not limited to all"
    )
