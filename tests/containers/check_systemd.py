"""`peloton deploy render --systemd`: systemd runs the units, as docs/operations.md says, to a first job."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.ports import FreePorts
from minicluster.servers.maven import Missing
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.deploying import PELOTON, Deployer, run_a_job
from tests.conftest import lacking
from tests.servers.systemd import Systemd, systemd

UNITS = ("hostmgr", "resmgr", "placement", "jobmgr")
PATIENCE = 120.0


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systemd]:
    folder = tmp_path_factory.mktemp("machine")
    for each in (folder, folder.parent):
        each.chmod(0o755)
    try:
        with systemd(folder) as found:
            yield found
    except Missing as missing:
        lacking(missing)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int]]:
    """Free ports of each unit, for HTTP and gRPC: those of the page may be taken here."""
    free = FreePorts(owner=tmp_path_factory.getbasetemp())
    return {name: (free.take(), free.take()) for name in UNITS}


@pytest.fixture(scope="module")
def rendered(
    bare: Cluster, tmp_path_factory: pytest.TempPathFactory, ports: dict[str, tuple[int, int]]
) -> Path:
    """What `render` writes."""
    folder = tmp_path_factory.mktemp("installation")
    made = Deployer(folder, bare)
    made.tree |= {"storage": {"kind": "sqlite", "path": "/var/lib/peloton/peloton.db"}}
    for name, (http, grpc) in ports.items():
        settings = made.tree["daemons"][name].setdefault("settings", {})
        settings |= {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc}
    target = folder / "rendered"
    file = made.file(Path(sys.prefix))
    argv = [str(PELOTON), "deploy", "render", "--systemd", "-f", str(file), "-d", str(target)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return target


def is_healthy(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def test_the_units_bring_a_cluster_up_that_restarts_what_dies(
    machine: Systemd, bare: Cluster, rendered: Path, ports: dict[str, tuple[int, int]]
) -> None:
    machine.run("useradd", "--system", "--no-create-home", "peloton")
    machine.run("sh", "-ec", f"cp {rendered}/systemd/* /etc/systemd/system")
    machine.run("sh", "-ec", "mkdir /etc/peloton; chown peloton: /etc/peloton; chmod 700 /etc/peloton")
    machine.run("sh", "-ec", f"install -o peloton -m 600 {rendered}/settings/* /etc/peloton")
    machine.run("install", "-d", "-o", "peloton", "/var/lib/peloton")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "peloton-migrate")
    units = [f"peloton-{name}" for name in UNITS]
    machine.run("systemctl", "enable", "--now", *units)
    wait_for(lambda: all(is_healthy(http) for http, _ in ports.values()), PATIENCE, machine.log.read_text)
    harness = Harness(bare)
    try:
        run_a_job(harness)
        show = ("systemctl", "show", "--value", "--property")
        found = machine.run(*show, "User,UMask,NoNewPrivileges", "peloton-jobmgr").split()
        assert sorted(found) == ["0077", "peloton", "yes"]
        before = machine.run(*show, "MainPID", "peloton-jobmgr")
        machine.run("systemctl", "kill", "--signal", "KILL", "peloton-jobmgr")
        wait_for(lambda: machine.run(*show, "MainPID", "peloton-jobmgr") not in (before, "0\n"), PATIENCE)
        wait_for(lambda: is_healthy(ports["jobmgr"][0]), PATIENCE, machine.log.read_text)
        run_a_job(harness)
    finally:
        harness.client.close()
    machine.run("systemctl", "stop", *units)
    for unit in units:
        assert sorted(machine.run(*show, "Result,ExecMainStatus", unit).split()) == ["0", "success"]
    assert "peloton.target.wants/peloton-jobmgr.service" in machine.run("find", "/etc/systemd/system")
