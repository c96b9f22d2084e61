"""Mesos without any daemon, and what `peloton deploy` does there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import yaml

from minicluster.cluster import Cluster
from minicluster.settings import Agent, ClusterSettings
from peloton.api.v0.job import job_pb2
from peloton.client.tls import Tls
from tests.cluster.conftest import Harness
from tests.servers.zookeeper import ZooKeeperServer

PELOTON = Path(sys.executable).with_name("peloton")
SECONDS = 240
PROGRAMS = ("hostmgr", "resmgr", "placement", "jobmgr")


def agents() -> tuple[Agent, ...]:
    """Three hosts with room that is reserved for daemons. Their ports are not among those of connections."""
    return tuple(
        Agent(
            hostname=f"agent{i}",
            resources=f"cpus:4;cpus(peloton-deploy):4;mem:4096;mem(peloton-deploy):4096;disk:20000;"
            f"ports:[{first}-{first + 399}];ports(peloton-deploy):[{first + 400}-{first + 499}]",
        )
        for i, first in enumerate((28000, 28500, 29000))
    )


@contextmanager
def bare_cluster(
    folder: Path, zookeeper: ZooKeeperServer, images: Literal["refuse", "docker"] = "refuse"
) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    cluster.up(
        ClusterSettings(
            ports="free",
            bare=True,
            agents=agents(),
            images=images,
            membership=f"zookeeper={zookeeper.address}/{uuid.uuid4().hex}",
            # Shorter than usual, and longer than a busy machine delays an agent by: its tasks are lost else.
            master_flags=("--agent-ping-timeout=8", "--max-agent-ping-timeouts=5"),
        )
    )
    try:
        yield cluster
    finally:
        cluster.down()


def run_a_job(harness: Harness) -> None:
    job = harness.create(harness.config("true", 10))
    assert harness.ended(job).state == job_pb2.SUCCEEDED


class Deployer:
    """Calls `peloton deploy` with an installation, whose daemons run from folders of programs."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._folder, self._cluster = folder, cluster
        (master,) = (part for part in cluster.components() if part.kind == "mesos-master")
        self.tree: dict[str, Any] = {
            "name": "test",
            "mesos": {"master": master.addresses["http"]},
            "zookeeper": {"servers": cluster.zookeeper_servers()},
            "version": {"environment": str(self.environment("first"))},
            "storage": {"kind": "sqlite", "path": str(folder / "peloton.db")},
            "daemons": {
                "hostmgr": {"mem": 256, "settings": {"launches": {"concurrent": 1000}}},
                "resmgr": {"mem": 256},
                "jobmgr": {"mem": 256, "settings": {"hosts_address": "127.0.0.1"}},
                "placement": {
                    "mem": 256,
                    "settings": {"task_type": ["batch", "stateless", "stateful", "daemon"]},
                },
            },
            "upgrade": {"canary": 2},
        }

    @contextmanager
    def deployed(self, file: Path, tls: Tls | None = None, seconds: float = SECONDS) -> Iterator[Harness]:
        """Apply an installation, and destroy it afterwards. `said` is what `apply` said."""
        self.said = self("apply", file, seconds=seconds)
        with ExitStack() as stack:
            stack.callback(self, "destroy", file, "--yes")
            harness = Harness(self._cluster, tls)
            stack.callback(harness.client.close)
            yield harness

    def new_store(self) -> None:
        """Let the next installation begin with nothing stored."""
        self.tree["storage"] = {"kind": "sqlite", "path": str(self._folder / f"{uuid.uuid4().hex}.db")}

    def environment(self, name: str) -> Path:
        """Return an environment of this version, by a path of its own."""
        place = self._folder / name
        if not place.is_symlink():
            place.symlink_to(Path(sys.prefix))
        return place

    def broken_environment(self) -> Path:
        """Return one whose daemons do not start."""
        programs = self._folder / "broken" / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        for name, code in (*((f"peloton-{each}", 3) for each in PROGRAMS), ("peloton-migrate", 0)):
            (programs / name).write_text(f"#!/bin/sh\necho this version does not start >&2\nexit {code}\n")
            (programs / name).chmod(0o755)
        return programs.parent

    def file(self, environment: Path | None = None, **version: Any) -> Path:
        """Write the installation, of the version that is given, the first environment or the tree's else."""
        tree = dict(self.tree)
        if environment is not None:
            version = {"environment": str(environment)}
        if version:
            tree["version"] = version
        path = self._folder / f"{uuid.uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump(tree))
        return path

    def begin(self, command: str, file: Path, *flags: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(PELOTON), "deploy", command, "-f", str(file), *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(
        self, command: str, file: Path, *flags: str, code: int | None = 0, seconds: float = SECONDS
    ) -> str:
        """Run a command to its end; return what it says. `code`: None for any."""
        process = self.begin(command, file, *flags)
        try:
            said, _ = process.communicate(timeout=seconds)
        finally:
            process.kill()
            process.wait()
        assert code in (None, process.returncode), said
        assert "Traceback" not in said and "defect" not in said, said
        return said

    def status(self, file: Path, code: int | None = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("status", file, "--json", code=code))
        return found

    def timed(self, command: str, file: Path, *flags: str) -> tuple[float, str]:
        began = time.monotonic()
        said = self(command, file, *flags)
        return time.monotonic() - began, said
