"""The settings of a minicluster, and the processes that result from them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from minicluster.components import command, components, embedded_servers, external_servers
from minicluster.layout import Layout
from minicluster.mesos.agent import isolation
from minicluster.ports import FreePorts, default_ports, is_free
from minicluster.prerequisites import tell_isolation
from minicluster.settings import ClusterSettings, read_cluster
from peloton.config.errors import ConfigError
from peloton.config.loading import validated
from peloton.errors import Refused, Unavailable

ISSUE = """
agents:
  - hostname: peloton-mesos-agent0
    resources: "cpus:4;mem:2048;disk:20000;ports:[31000-32000]"
    attributes: "rack:r1;zone:z1"
    revocable: "cpus:4"
instances: {jobmgr: 1, resmgr: 2, hostmgr: 1, placement: [batch, batch]}
ports: default
settings: {resmgr: {debug: true}, hostmgr: {mesos: {encoding: json}}, jobmgr: {}, placement: {}}
"""


def parts(settings: ClusterSettings, folder: Path) -> dict[str, tuple[int, int]]:
    layout = Layout(folder)
    found = components(settings, layout, lambda name, kind, index: default_ports(kind, index))
    return {part.name: (part.http, part.grpc) for part in found}


def test_the_default_is_three_agents_and_one_of_each(tmp_path: Path) -> None:
    assert parts(ClusterSettings(), tmp_path) == {
        "mesos-master": (5050, 0),
        "mesos-agent0": (5051, 0),
        "mesos-agent1": (5052, 0),
        "mesos-agent2": (5053, 0),
        "hostmgr0": (5291, 5391),
        "resmgr0": (5290, 5394),
        "jobmgr0": (5292, 5392),
        "placement0": (5293, 5393),
    }
    resources = [agent.resources for agent in ClusterSettings().agents]
    assert resources[1] == "cpus:4;mem:2048;disk:20000;ports:[32000-32999]"


def test_the_whole_notation(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(ISSUE)
    settings = read_cluster(file)
    found = parts(settings, tmp_path)
    assert found["resmgr1"] == (5300, 5404)
    assert (found["placement0"], found["placement1"]) == ((5293, 5393), (5303, 5403))
    layout = Layout(tmp_path)
    by_name = {c.name: c for c in components(settings, layout, lambda n, k, i: default_ports(k, i))}
    agent = command(by_name["mesos-agent0"], layout)
    assert "--attributes=rack:r1;zone:z1" in agent
    assert "--revocable=cpus:4" in agent
    assert by_name["resmgr1"].settings["debug"] is True
    assert by_name["hostmgr0"].settings["mesos"] == {"master": "127.0.0.1:5050", "encoding": "json"}


def test_placement_engines_are_of_types_that_they_serve(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("instances: {placement: [service]}")
    known = "'batch', 'stateless', 'stateful' or 'daemon'"
    with pytest.raises(ConfigError, match=rf"instances\.placement.*'service': should be {known}"):
        read_cluster(file)


def test_another_mesos_replaces_master_and_agents(tmp_path: Path) -> None:
    settings = read_cluster(None, {"mesos": "10.0.0.1:5050"})
    found = components(settings, Layout(tmp_path), lambda n, k, i: default_ports(k, i))
    assert not [part for part in found if part.kind.startswith("mesos")]
    assert found[0].settings["mesos"]["master"] == "10.0.0.1:5050"


def test_several_masters_are_found_through_zookeeper(tmp_path: Path) -> None:
    settings = read_cluster(None, {"mesos_masters": 2, "membership": "zookeeper=a:1,b:2"})
    found = components(settings, Layout(tmp_path), lambda n, k, i: default_ports(k, i))
    by_name = {part.name: part for part in found}
    for name, port in (("mesos-master", 5050), ("mesos-master1", 5060)):
        assert by_name[name].http == port
        assert "--zk=zk://a:1,b:2/mesos" in by_name[name].flags
    assert "--master=zk://a:1,b:2/mesos" in by_name["mesos-agent0"].flags
    assert by_name["hostmgr0"].settings["mesos"]["master"] == "zk://a:1,b:2/mesos"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mesos_masters: 2", "several need `membership: zookeeper`"),
        ("{mesos_masters: 2, membership: zookeeper, mesos: 'h:1'}", "only own masters"),
        ("agent: []", "agent: unknown setting"),
        ("ports: some", "ports: 'some'"),
        ("instances: {jobmgr: 0}", "instances.jobmgr: 0"),
        ("instances: {placement: []}", "at least one placement engine"),
        ("instances: {placement: ['']}", "instances.placement.0.0: ''"),
        ("instances: {placement: [btch]}", "instances.placement.0.0: 'btch'"),
        ("instances: {placement: [[batch, batch]]}", "each task type once, not batch, batch"),
        ("instances: {placement: [[]]}", "at least one task type"),
        ("agents: [{hostname: a}, {hostname: a}]", "hostnames must differ: a, a"),
        ("agents: [{resources: x}]", "agents.0.hostname"),
        ("mesos: nonsense", "mesos: 'nonsense'"),
        ("storage: postgres", "storage: 'postgres': should be sqlite, cassandra or cassandra=HOST:PORT,…"),
        ("storage: cassandra=", "storage: 'cassandra=': give each cassandra server as HOST:PORT, not ''"),
        ("storage: sqlite=x", "storage: 'sqlite=x': should be sqlite, cassandra or"),
        ("membership: etcd", "membership: 'etcd': should be local, zookeeper or zookeeper=HOST:PORT,…"),
        ("membership: local/x", "membership: 'local/x': should be local"),
        ("membership: zookeeper=zk1", "give each zookeeper server as HOST:PORT, not 'zk1'"),
        ("storage: cassandra=here", "give each cassandra server as HOST:PORT, not 'here'"),
        ("storage: 'cassandra=a:1,b:2'", "all listen at the same port"),
        ("cassandra: {keyspace: k}", "`cassandra` counts with `storage: cassandra` only"),
        ("- 1", "not a mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_cluster(file)
    assert told in str(caught.value)
    assert str(file) in str(caught.value)


def test_concurrent_searches_for_ports_get_different_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other test has reserved any
    some = range(15_000, 15_100)
    one, other = FreePorts(some), FreePorts(some)
    taken = [each.take() for _ in range(15) for each in (one, other)]
    assert len(set(taken)) == len(taken)


def test_ports_of_a_cluster_that_is_still_there_are_not_handed_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    some, record = range(15_200, 15_210), tmp_path / "cluster.yaml"
    free = FreePorts(some, record)
    taken = {free.take() for _ in range(5)}
    record.touch()
    for file in tmp_path.glob("peloton-ports-*/[0-9]*"):
        os.utime(file, (0, 0))  # long ago
    others = FreePorts(some)
    assert {others.take() for _ in range(5)} == set(some) - taken
    with pytest.raises(Unavailable, match="no free port"):
        FreePorts(some).take()
    record.unlink()
    again = FreePorts(some)
    assert {again.take() for _ in range(5)} == taken


def test_free_ports_differ_and_are_free() -> None:
    free = FreePorts()
    taken = [free.take() for _ in range(50)]
    assert len(set(taken)) == 50
    assert all(is_free(port) for port in taken)


def test_daemons_use_the_embedded_zookeeper(tmp_path: Path) -> None:
    cluster = read_cluster(None, {"membership": "zookeeper", "ports": "free"})
    parts = components(cluster, Layout(tmp_path), lambda name, kind, index: default_ports(kind, index))
    assert parts[0].name == "zookeeper" and parts[0].addresses == {"zk": "127.0.0.1:2181"}
    daemons = [part for part in parts if part.grpc]
    assert {str(part.settings["membership"]) for part in daemons} == {
        str({"kind": "zookeeper", "servers": "127.0.0.1:2181"})
    }


def test_daemons_use_an_external_zookeeper(tmp_path: Path) -> None:
    cluster = read_cluster(None, {"membership": "zookeeper=zk1:2181,zk2:2181/below"})
    parts = components(cluster, Layout(tmp_path), lambda name, kind, index: default_ports(kind, index))
    assert "zookeeper" not in {part.kind for part in parts}
    assert parts[-1].settings["membership"] == {"kind": "zookeeper", "servers": "zk1:2181,zk2:2181/below"}


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^--membership: membership: 'etcd': should be local"):
        read_cluster(None, {"membership": "etcd"})


def test_daemons_store_in_the_embedded_cassandra(tmp_path: Path) -> None:
    cluster = read_cluster(None, {"storage": "cassandra", "membership": "zookeeper"})
    parts = components(cluster, Layout(tmp_path), lambda name, kind, index: default_ports(kind, index))
    (server,) = (part for part in parts if part.name == "cassandra")
    assert (server.addresses, server.storage_port) == ({"cql": "127.0.0.1:9042"}, 7000)
    stores = [part.settings["storage"] for part in parts if part.kind in ("jobmgr", "resmgr", "hostmgr")]
    assert stores == 3 * [
        {
            "kind": "cassandra",
            "contact_points": ["127.0.0.1"],
            "port": 9042,
            "replication": {"class": "NetworkTopologyStrategy", "replication_factor": 1},
        }
    ]
    assert all("storage" not in part.settings for part in parts if part.kind == "placement")
    assert list(embedded_servers(cluster)) == ["zookeeper", "cassandra"]
    assert external_servers(cluster) == {}


def test_daemons_store_in_an_external_cassandra(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("storage: 'cassandra=c1:9043,c2:9043'\ncassandra: {keyspace: mine, username: me}\n")
    cluster = read_cluster(file)
    parts = components(cluster, Layout(tmp_path), lambda name, kind, index: default_ports(kind, index))
    assert "cassandra" not in {part.kind for part in parts}
    (jobmgr,) = (part for part in parts if part.kind == "jobmgr")
    assert jobmgr.settings["storage"] == {
        "kind": "cassandra",
        "contact_points": ["c1", "c2"],
        "port": 9043,
        "keyspace": "mine",
        "username": "me",
        "replication": {"class": "NetworkTopologyStrategy", "replication_factor": 2},
    }
    assert embedded_servers(cluster) == {}
    assert external_servers(cluster) == {"cassandra": {"cql": "c1:9043,c2:9043"}}


def test_launch_costs_reach_real_and_simulated_agents(tmp_path: Path) -> None:
    given = {
        "launch_seconds": "0.3-3",
        "executor_starts_per_second": "4",
        "executor_registration_timeout": "30",
        "concurrent_launches": "8",
    }
    layout = Layout(tmp_path)
    flags = {
        part.name: part.flags
        for part in components(read_cluster(None, given), layout, lambda n, k, i: default_ports(k, i))
    }
    assert flags["mesos-agent2"][-5:] == (
        "--launch-seconds=0.3-3",
        "--launch-seed=2",
        "--executor-starts-per-second=4.0",
        "--executor-registration-timeout=30.0",
        "--concurrent-launches=8",
    )
    simulated = read_cluster(None, {**given, "simulated": {"agents": 2}})
    [master] = [
        part
        for part in components(simulated, layout, lambda n, k, i: default_ports(k, i))
        if part.kind == "mesos-master"
    ]
    assert "--simulated-launch-seconds=0.3-3" in master.flags
    assert "--simulated-concurrent-launches=8" in master.flags


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"concurrent": 1000}),
        ({"settings": {"hostmgr": {"launches": {"concurrent": 7}}}}, {"concurrent": 7}),
        ({"launch_seconds": "0.3-3"}, None),
        ({"executor_starts_per_second": "4"}, None),
        ({"concurrent_launches": "8"}, None),
        ({"mesos": "127.0.0.1:5050"}, None),
    ],
)
def test_fast_agents_get_more_concurrent_launches(
    tmp_path: Path, given: dict[str, Any], expected: dict[str, int] | None
) -> None:
    parts = components(read_cluster(None, given), Layout(tmp_path), lambda n, k, i: default_ports(k, i))
    [hostmgr] = [part for part in parts if part.kind == "hostmgr"]
    assert hostmgr.settings.get("launches") == expected


def test_malformed_launch_seconds_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--launch-seconds.*'3-0\.3' should be MIN-MAX"):
        read_cluster(None, {"launch_seconds": "3-0.3"})


def test_further_mesos_clusters_have_names_and_ports_of_their_own(tmp_path: Path) -> None:
    """A number makes default ones; their agents may have the hostnames of the first cluster's."""
    settings = read_cluster(None, {"clusters": "2"})
    found = parts(settings, tmp_path)
    assert len(set(found.values())) == len(found)
    of_second = {"mesos-master-cluster2", "hostmgr-cluster2", *(f"mesos-agent{i}-cluster2" for i in range(3))}
    assert of_second == {name for name in found if name.endswith("cluster2")}
    agents = [*settings.agents, *settings.clusters[0].agents]
    assert len({agent.resources for agent in agents}) == len(agents), "their tasks share one address"
    layout = Layout(tmp_path)
    ports = lambda name, kind, index: default_ports(kind, index)  # noqa: E731
    (hostmgr,) = (part for part in components(settings, layout, ports) if part.name == "hostmgr-cluster2")
    assert hostmgr.cluster == "cluster2"
    assert parts(read_cluster(None, {"clusters": "1"}), tmp_path) == parts(ClusterSettings(), tmp_path)
    for wrong in ("0", "many", [{"name": "a"}, {"name": "a"}], [{"name": "a/b"}]):
        with pytest.raises(ConfigError, match="clusters"):
            read_cluster(None, {"clusters": wrong})


def test_further_clusters_may_have_simulated_agents_of_their_own(tmp_path: Path) -> None:
    further = {"name": "east", "simulated": {"agents": 3, "resources": "gpus:8", "attributes": "zone:z"}}
    settings = read_cluster(None, {"simulated": {"agents": 2}, "clusters": [further]})
    found = components(settings, Layout(tmp_path), lambda name, kind, index: default_ports(kind, index))
    assert not [part for part in found if part.kind == "mesos-agent"]
    flags = {part.name: set(part.flags) for part in found if part.kind == "mesos-master"}
    assert "--simulated-agents=2" in flags["mesos-master"]
    given = {"--simulated-agents=3", "--simulated-resources=gpus:8", "--simulated-attributes=zone:z"}
    assert given <= flags["mesos-master-east"]
    with pytest.raises(ConfigError, match="clusters: simulated agents count only where"):
        read_cluster(None, {"clusters": [further]})


@pytest.mark.parametrize(
    ("given", "speaks"),
    [
        ({}, False),
        ({"secure": True}, True),
        ({"secure": True, "secure_master": False}, False),
        ({"secure": True, "simulated": {"agents": 1}}, False),
        ({"secure": True, "simulated": {"agents": 1}, "secure_master": True}, True),
        ({"secure": True, "mesos": "10.0.0.7:5050"}, False),
    ],
)
def test_the_own_master_of_a_secure_cluster_speaks_tls(given: dict[str, Any], speaks: bool) -> None:
    assert validated(ClusterSettings, given, "test").masters_speak_tls is speaks


@pytest.mark.parametrize("given", [{}, {"secure": True, "mesos": "10.0.0.7:5050"}])
def test_a_master_that_cannot_be_secure_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="secure_master: counts for own masters with `secure: true` only"):
        validated(ClusterSettings, {**given, "secure_master": True}, "test")


@pytest.mark.parametrize(
    ("given", "ask", "isolated"),
    [
        ({}, False, "none"),
        ({"isolation": "auto"}, False, "auto"),
        ({"secure": True}, True, "auto"),
        ({"secure": True, "secure_agents": False, "isolation": "none"}, False, "none"),
        ({"secure": True, "simulated": {"agents": 1}}, False, "none"),
        ({"secure": True, "mesos": "10.0.0.7:5050"}, False, "none"),
    ],
)
def test_the_own_agents_of_a_secure_cluster_ask_and_isolate(
    given: dict[str, Any], ask: bool, isolated: str
) -> None:
    found = validated(ClusterSettings, given, "test")
    assert (found.agents_ask, found.tasks_isolated) == (ask, isolated)


@pytest.mark.parametrize("given", [{}, {"secure": True, "mesos": "10.0.0.7:5050"}])
def test_agents_that_cannot_be_secure_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="secure_agents: counts for own agents with `secure: true` only"):
        validated(ClusterSettings, {**given, "secure_agents": True}, "test")


def test_isolation_is_refused_where_the_agents_are_not_ours() -> None:
    with pytest.raises(ConfigError, match="isolation: counts for own agents only"):
        validated(ClusterSettings, {"mesos": "10.0.0.7:5050", "isolation": "require"}, "test")


@pytest.mark.parametrize(
    ("users", "reach"), [(range(1000), "they can see what others run"), (None, "keys and passwords")]
)
def test_up_says_where_tasks_cannot_be_isolated(
    users: range | None, reach: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = isolation.Isolation(users, (), "namespaces of their own: Operation not permitted")
    monkeypatch.setattr(isolation, "detect", lambda mode, hide: lacking)
    told: list[str] = []
    tell_isolation(tmp_path, ClusterSettings(secure=True), told.append)
    [line] = told
    assert line.startswith("WARNING: tasks cannot have namespaces of their own: Operation not permitted; ")
    assert reach in line
    with pytest.raises(Refused, match="isolation: require: tasks cannot have namespaces"):
        tell_isolation(tmp_path, ClusterSettings(secure=True, isolation="require"), told.append)
