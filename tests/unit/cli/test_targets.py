"""Which cluster a command reaches: by flags, the environment, a minicluster that runs here, the defaults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from minicluster import discovery
from minicluster.layout import Layout
from minicluster.processes import Process, launch, save
from peloton.api.v0.job import job_pb2
from peloton.cli.__main__ import main
from peloton.cli.targets import joined
from peloton.client import clusters
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery
from peloton.client.extensions import VARIABLE
from peloton.errors import InvalidArgument

from .fakes import FakeDaemons

CLOSED = "127.0.0.1:1"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str, float]]:
    """Servers, root and time-out of each ZooKeeper that is asked; the cluster `prod` is at zk1:2181."""
    found: list[tuple[str, str, float]] = []

    def address(self: ZooKeeperDiscovery, role: str, seconds: float | None = None) -> str:
        found.append((self.servers, self.root, self.timeout))
        raise DiscoveryError(f"no {role} there")

    monkeypatch.setattr(ZooKeeperDiscovery, "address_within", address)
    file = tmp_path / "clusters.json"
    file.write_text(json.dumps({"clusters": [{"clusterName": "prod", "zkURL": "zk1:2181"}]}))
    monkeypatch.setattr(clusters.zookeeper_of, "__defaults__", ((file,),))
    return found


def err(capfd: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    capfd.readouterr()
    assert main([*arguments, "job", "get", "x"]) == code
    out, said = capfd.readouterr()
    assert out == ""
    return said


@pytest.mark.parametrize("flags", [("-e", "prod"), ("-z", "zk1:2181")])
@pytest.mark.parametrize("variable", ["JOBMGR_URL", "CLUSTER_NAME", "ZK_SERVERS"])
def test_a_flag_for_a_cluster_beats_the_environment(
    asked: list[tuple[str, str, float]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    flags: tuple[str, str],
    variable: str,
) -> None:
    monkeypatch.setenv(variable, "other:5392")
    assert "no jobmgr there" in err(capfd, 3, *flags)
    assert {servers for servers, _, _ in asked} == {"zk1:2181"}


@pytest.mark.parametrize("variable", ["JOBMGR_URL", "CLUSTER_NAME", "ZK_SERVERS"])
def test_a_flag_for_an_address_beats_the_environment(
    asked: list[tuple[str, str, float]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    variable: str,
) -> None:
    monkeypatch.setenv(variable, "other:5392")
    assert f"cannot reach jobmgr at {CLOSED}" in err(capfd, 3, "-m", CLOSED)
    assert not asked


def test_addresses_of_flags_and_environment_go_together(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RESMGR_URL", CLOSED)
    assert main(["-m", "127.0.0.1:2", "resmgr", "tasks", "orphan"]) == 3
    assert f"cannot reach resmgr at {CLOSED}" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("-e", "prod", "-m", CLOSED), "-e/--clusterName and -m/--jobmgr"),
        (("-z", "zk:1", "-v", CLOSED, "-u", CLOSED), "-z/--zkservers and -v/--resmgr and -u/--hostmgr"),
        (("-e", "prod", "-z", "zk:1"), "-e/--clusterName and -z/--zkservers"),
    ],
)
def test_flags_that_name_two_clusters_are_refused(
    asked: list[tuple[str, str, float]], capfd: pytest.CaptureFixture[str], flags: tuple[str, ...], named: str
) -> None:
    said = err(capfd, 2, *flags)
    assert f"{named} do not go together" in said and "leave out one of them" in said
    assert not asked


def test_variables_that_name_two_clusters_are_refused(
    asked: list[tuple[str, str, float]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "prod")
    monkeypatch.setenv("JOBMGR_URL", CLOSED)
    assert "CLUSTER_NAME and JOBMGR_URL do not go together" in err(capfd, 2)
    assert not asked
    assert main(["job", "--help"]) == 0


@pytest.mark.parametrize("flag", ["-e", "-z", "-m", "-v", "-u"])
def test_flag_without_a_value_is_refused(capfd: pytest.CaptureFixture[str], flag: str) -> None:
    assert "is given without a value" in err(capfd, 2, flag, "")


def test_zookeeper_servers_in_every_form(
    asked: list[tuple[str, str, float]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    err(capfd, 3, "-z", "a:1", "-z", "b:2,c:3", "-t", "7s")
    monkeypatch.setenv("ZK_SERVERS", "a:1\nb:2")
    err(capfd, 3, "--zkroot", "/other")
    assert list(dict.fromkeys(asked)) == [("a:1,b:2,c:3", "/peloton", 7.0), ("a:1,b:2", "/other", 20.0)]


def test_cluster_entry_without_zookeeper_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "clusters.json"
    monkeypatch.setattr(clusters.zookeeper_of, "__defaults__", ((file,),))
    for entry, told in (
        ({"clusterName": "prod", "zkUrl": "a:1"}, "clusters[0].zkURL: None is not text such as"),
        ({"name": "prod", "zkURL": "a:1"}, "clusters[0].clusterName: None is not"),
        ({"clusterName": "prod", "zkURL": ["a:1"]}, "clusters[0].zkURL: ['a:1'] is not text such as"),
    ):
        file.write_text(json.dumps({"clusters": [entry]}))
        said = err(capfd, 1, "-e", "prod")
        assert str(file) in said and told in said


def test_mistyped_cluster_name_has_a_suggestion(
    asked: list[tuple[str, str, float]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert "; did you mean prod?" in err(capfd, 1, "-e", "prd")
    assert not asked


def test_servers_below_a_path() -> None:
    assert joined(["zk://a:1,b:2/p", "a:1/p"]) == "a:1,b:2/p"
    assert joined([]) == ""
    with pytest.raises(InvalidArgument, match="there are /p and /q"):
        joined(["a:1/p", "b:1/q"])


def test_the_time_out_counts_for_zookeeper_too(capfd: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert "did not answer within 0.3 s" in err(capfd, 3, "-z", CLOSED, "-t", "300ms")
    assert time.monotonic() - begun < 9


def test_basic_auth_by_the_environment(
    daemons: FakeDaemons, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons.answers["GetActiveJobs"] = job_pb2.GetActiveJobsResponse()
    file = tmp_path / "auth.yaml"
    file.write_text("username: ann\npassword: hush\n")
    monkeypatch.setenv("BASIC_AUTH_CONFIG", str(file))
    assert main(["-m", address, "job", "active-list"]) == 0
    assert daemons.asked[0][2]["username"] == "ann"


class TestMiniclusters:
    """Folders whose record and processes are as a cluster's."""

    @pytest.fixture
    def process(self, tmp_path: Path) -> Iterator[Process]:
        process = launch([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log", {})
        yield process
        process.signal(signal.SIGKILL)
        process.wait(60)

    def cluster(
        self, folder: Path, process: Process | None, ports: str = "free", zookeeper: str = ""
    ) -> Path:
        layout = Layout(folder.resolve())
        layout.run.mkdir(parents=True)
        layout.record.write_text(yaml.safe_dump({"cluster": {"ports": ports}, "zookeeper": zookeeper}))
        save(process or Process(os.getpid(), "1"), layout.run_of("jobmgr0"))
        discovery.register(layout.root)
        return layout.root

    def test_one_that_runs_is_found_and_told(
        self,
        asked: list[tuple[str, str, float]],
        tmp_path: Path,
        process: Process,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        folder = self.cluster(tmp_path / "one", process, zookeeper="127.0.0.1:7")
        said = err(capfd, 3)
        assert said.splitlines()[0] == f"peloton: using the minicluster in {folder}"
        assert asked[0][0] == "127.0.0.1:7"

    def test_leaders_are_looked_for_in_its_folder(
        self, tmp_path: Path, process: Process, capfd: pytest.CaptureFixture[str]
    ) -> None:
        folder = self.cluster(tmp_path / "one", process)
        assert f"{folder}/membership shows no leader of jobmgr" in err(capfd, 3, "-t", "100ms")

    def test_what_is_said_beats_it(
        self,
        tmp_path: Path,
        process: Process,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        self.cluster(tmp_path / "one", process)
        assert f"cannot reach jobmgr at {CLOSED}" in err(capfd, 3, "-m", CLOSED)
        monkeypatch.setenv("JOBMGR_URL", CLOSED)
        said = err(capfd, 3)
        assert f"cannot reach jobmgr at {CLOSED}" in said and "minicluster in" not in said

    def test_stale_folders_count_for_nothing(
        self,
        asked: list[tuple[str, str, float]],
        tmp_path: Path,
        process: Process,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        self.cluster(tmp_path / "dead", None)
        gone = self.cluster(tmp_path / "gone", process)
        Layout(gone).record.unlink()
        assert discovery.find() is None
        self.cluster(tmp_path / "alive", process, zookeeper="zk:1")
        assert "no jobmgr there" in err(capfd, 3)
        assert {servers for servers, _, _ in asked} == {"zk:1"}

    def test_which_of_several(
        self, tmp_path: Path, process: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, two = (self.cluster(tmp_path / name, process) for name in ("one", "two"))
        with pytest.raises(Exception, match=f"2 miniclusters run here, in {one}, {two}: say which"):
            discovery.find()
        monkeypatch.setenv(VARIABLE, str(two))
        found = discovery.find()
        assert found is not None and (found.directory, found.explicit) == (two, True)
        monkeypatch.delenv(VARIABLE)
        usual = self.cluster(discovery.default_directory(), process)
        found = discovery.find()
        assert found is not None and (found.directory, found.others) == (usual, [one, two])

    def test_the_usual_one_at_the_usual_ports_is_not_worth_a_line(
        self, asked: list[tuple[str, str, float]], process: Process, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.cluster(discovery.default_directory(), process, ports="default", zookeeper="zk:1")
        assert err(capfd, 3) == "peloton: no jobmgr there\n"

    def test_one_that_is_named_and_does_not_run_is_not_replaced_by_another(
        self,
        tmp_path: Path,
        process: Process,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        self.cluster(tmp_path / "one", process)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
        assert f"no minicluster runs in {tmp_path / 'none'}" in err(capfd, 1)

    def test_a_broken_record_is_one_line(
        self, tmp_path: Path, process: Process, capfd: pytest.CaptureFixture[str]
    ) -> None:
        folder = self.cluster(tmp_path / "one", process)
        Layout(folder).record.write_text("[")
        said = err(capfd, 1)
        assert "is no record of a minicluster" in said and said.count("\n") == 1

    def test_commands_for_another_folder_say_where_one_runs(
        self, tmp_path: Path, process: Process, capfd: pytest.CaptureFixture[str]
    ) -> None:
        folder = self.cluster(tmp_path / "one", process)
        assert main(["minicluster", "status"]) == 1
        assert capfd.readouterr().err.endswith(f"; one runs in {folder}: --dir {folder}\n")

    def test_what_is_forgotten_is_not_found(self, tmp_path: Path, process: Process) -> None:
        folder = self.cluster(tmp_path / "one", process)
        assert discovery.find() is not None
        discovery.unregister(folder)
        assert discovery.find() is None

    def test_finding_it_costs_no_heavy_import(self) -> None:
        code = "import sys, peloton.cli.targets, minicluster.discovery\nsys.exit('pydantic' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
