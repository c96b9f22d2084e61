"""What a minicluster's folder holds, and what is said where it does not."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from minicluster.cluster import Cluster, differences
from minicluster.components import components
from minicluster.layout import RECORD_FILE, Layout
from minicluster.ports import default_ports
from minicluster.processes import Process, launch, save
from minicluster.settings import ClusterSettings, Instances, read_cluster
from peloton.cli.__main__ import main
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local import LocalMembership


def record(folder: Path, **settings: Any) -> Path:
    """As of a cluster that was brought up there and stopped."""
    ports: dict[str, list[int]] = {}

    def port(name: str, kind: str, index: int) -> tuple[int, int]:
        ports[name] = list(default_ports(kind, index))
        return default_ports(kind, index)

    cluster = ClusterSettings(**settings)
    components(cluster, Layout(folder), port)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run").mkdir(exist_ok=True)
    (folder / RECORD_FILE).write_text(
        yaml.safe_dump({"cluster": cluster.model_dump(mode="json"), "ports": ports})
    )
    return folder


def minicluster(capfd: pytest.CaptureFixture[str], *arguments: str, folder: Path) -> tuple[int, str, str]:
    code = main(["minicluster", *arguments, "--dir", str(folder)])
    return code, *capfd.readouterr()


def test_status_prints_the_exports(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "my cluster")
    code, out, _ = minicluster(capfd, "status", folder=folder)
    assert code == 0
    assert out.partition("\n\n")[2].splitlines() == [
        f"export PELOTON_MINICLUSTER_DIR='{folder}'",
        "export JOBMGR_URL=127.0.0.1:5392",
        "export RESMGR_URL=127.0.0.1:5394",
        "export HOSTMGR_URL=127.0.0.1:5391",
    ]


LIGHT = """
import sys
from peloton.cli.__main__ import main
code = main(["minicluster", "status", "--dir", sys.argv[1]])
heavy = sorted({"pydantic", "minicluster.settings", "google.protobuf", "grpc"} & sys.modules.keys())
print(code, heavy, file=sys.stderr)
"""


@pytest.mark.parametrize("secure", [False, True])
def test_status_of_a_cluster_that_was_brought_up_imports_little(tmp_path: Path, secure: bool) -> None:
    """On a busy machine, to import all that brings a cluster up takes seconds."""
    cluster = Cluster(tmp_path / "cluster")
    cluster._make_folders()
    cluster._write_settings(ClusterSettings(secure=secure))
    light = subprocess.run(
        [sys.executable, "-c", LIGHT, str(cluster.directory)], capture_output=True, text=True, check=True
    )
    assert light.stderr == "0 []\n"
    cluster.layout.overview.unlink()
    whole = subprocess.run(
        [sys.executable, "-c", LIGHT, str(cluster.directory)], capture_output=True, text=True, check=True
    )
    assert whole.stdout == light.stdout


def test_an_overview_of_other_settings_does_not_count(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path / "cluster")
    cluster._make_folders()
    cluster._write_settings(ClusterSettings())
    assert "archiver0" not in minicluster(capfd, "status", folder=cluster.directory)[1]
    record(cluster.directory, instances=Instances(archiver=1))
    assert "archiver0" in minicluster(capfd, "status", folder=cluster.directory)[1]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """The folder of a cluster whose components are all one process."""
    folder = record(tmp_path / "cluster")
    process = launch([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log", {})
    for part in Cluster(folder).components():
        save(process, Layout(folder).run_of(part.name))
    yield folder
    process.signal(signal.SIGKILL)
    process.wait(60)


def test_other_settings_are_refused_before_downloads(
    running: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fetched: list[object] = []
    monkeypatch.setattr("minicluster.cluster.fetch", lambda *given: fetched.append(given))
    code, out, err = minicluster(capfd, "up", "--storage", "cassandra", folder=running)
    assert (code, out) == (1, "")
    assert "runs with other settings: storage is sqlite, not cassandra" in err
    assert fetched == []


def test_status_fails_where_a_component_is_dead(running: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert minicluster(capfd, "status", folder=running)[0] == 0
    save(Process(os.getpid(), "1"), Layout(running).run_of("placement0"))
    for flags in ((), ("-j",)):
        code, out, err = minicluster(capfd, "status", *flags, folder=running)
        assert code == 1
        again = f"peloton minicluster start placement0 --dir {running}"
        assert "dead" in out and err == f"peloton: dead: placement0 (`{again}`)\n"


def test_status_as_json_holds_the_exports(running: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = minicluster(capfd, "status", "-j", folder=running)
    shown = json.loads(out)
    assert code == 0
    assert shown["exports"] == Cluster(running).urls()
    assert [part["name"] for part in shown["components"]][-2:] == ["jobmgr0", "placement0"]


async def test_the_exports_name_who_leads(tmp_path: Path) -> None:
    folder = record(tmp_path, instances={"jobmgr": 2})
    membership = LocalMembership(folder / "membership")
    await membership.start()
    member = Member(Role.JOBMGR, "second", Address("here", "127.0.0.1", 5302, 5402))
    leadership = await membership.campaign(member)
    found = Cluster(folder).urls()
    await leadership.resign()
    await membership.close()
    assert (found["JOBMGR_URL"], found["RESMGR_URL"]) == ("127.0.0.1:5402", "127.0.0.1:5394")
    assert Cluster(folder).urls()["JOBMGR_URL"] == "127.0.0.1:5392"


@pytest.mark.parametrize("text", ["x\n", "", "[", "{cluster: {}, ports: {}}", "{cluster: {}, ports: [1]}"])
@pytest.mark.parametrize("command", ["status", "up", "down", "start", "stop"])
def test_a_broken_record_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, command: str
) -> None:
    (tmp_path / RECORD_FILE).write_text(text)
    code, out, err = minicluster(capfd, command, folder=tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(f"peloton: {tmp_path / RECORD_FILE} is no record of a minicluster: ")
    assert len(err.splitlines()) == 1


def test_a_missing_log_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path)
    assert minicluster(capfd, "logs", "jobmgr0", folder=folder) == (
        1,
        "",
        f"peloton: {folder}/log/jobmgr0.log: No such file or directory\n",
    )


def test_down_without_a_cluster_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some").write_text("thing")
    assert minicluster(capfd, "down", folder=tmp_path) == (0, "", f"no minicluster in {tmp_path}\n")


def test_only_explicit_settings_can_differ() -> None:
    held = ClusterSettings(ports="free", storage="cassandra", membership="zookeeper")
    for wanted, told in (
        ({}, ""),
        ({"storage": "cassandra", "ports": "free"}, ""),
        ({"storage": "sqlite"}, "storage is cassandra, not sqlite"),
        ({"mesos": "h:1", "ports": "default"}, "mesos is none, not h:1, ports is free, not default"),
        ({"instances": {"jobmgr": 2}}, "instances"),
    ):
        asked = read_cluster(None, wanted)
        assert differences(held, asked, asked.model_fields_set) == told


def test_status_obeys_the_output(running: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, listed, _ = minicluster(capfd, "status", "-o", "yaml", folder=running)
    _, as_json, _ = minicluster(capfd, "status", "-o", "json", folder=running)
    assert yaml.safe_load(listed) == json.loads(as_json)
    _, names, _ = minicluster(capfd, "status", "-o", "name", folder=running)
    assert names.split() == [each["name"] for each in json.loads(as_json)["components"]]
    _, table, _ = minicluster(capfd, "status", "-o", "csv", folder=running)
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["name"] for row in rows] == names.split() and "=127.0.0.1:" in rows[0]["addresses"]
