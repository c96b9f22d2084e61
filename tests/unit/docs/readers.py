"""Reads the YAML and JSON of pages by the code that reads such files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from archiver.config import ArchiverSettings
from hostmgr.config import HostmgrSettings
from hostmgr.kubernetes.core.foreign import ForeignRules, foreign_of
from jobmgr.config import JobmgrSettings
from minicluster.settings import read_cluster
from peloton.client.clusters import zookeeper_of
from peloton.client.foreign import recognised
from peloton.config.loading import load
from peloton.config.settings import ProcessSettings
from peloton.identity.userfile import read_users
from peloton.plainjson import parse_json
from peloton.specs import check
from peloton.web.config import WebSettings
from placement.config import PlacementSettings
from resmgr.config import ResmgrSettings
from simulator.workloads.cluster import read_cluster as read_simulated
from simulator.workloads.jobs import read_jobs
from tests.documented import parse

DAEMONS: Mapping[str, type[ProcessSettings]] = {
    "jobmgr": JobmgrSettings,
    "resmgr": ResmgrSettings,
    "hostmgr": HostmgrSettings,
    "placement": PlacementSettings,
    "archiver": ArchiverSettings,
    "web": WebSettings,
}
JOB = """
name: whole
owningTeam: docs
instanceCount: 2
defaultConfig:
  resource: {cpuLimit: 1, memLimitMb: 64}
  ports: [{name: http, value: 0, envName: HTTP_PORT}]
  command: {shell: true, value: "true"}
"""
"""A job, which the parts that pages show are put into."""

ROLES = "\nroles: [{role: admin, accept: ['*']}]\n"
"""What a file of users has at least."""


def whole(file: Path) -> None:
    """Check the spec of a job, a service or a pool. Raise AssertionError."""
    found = check(file.read_text(), file.name)
    assert [str(each) for each in (*found.errors, *found.warnings)] == []


def part_of_job(file: Path) -> None:
    """Check what a page shows of the spec of a job."""
    file.write_text(yaml.safe_dump(_merged(yaml.safe_load(JOB), yaml.safe_load(file.read_text()))))
    whole(file)


def part_of_task(file: Path) -> None:
    """Check what a page shows of the config of a task."""
    part = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(_merged(yaml.safe_load(JOB), {"defaultConfig": part})))
    whole(file)


def foreign(file: Path) -> None:
    """Check that a file is recognised as that of another scheduler."""
    assert recognised(file.read_text(), file.name)


def users(file: Path) -> None:
    """Check a file of users."""
    with file.open("a") as end:
        end.write(ROLES)
    file.chmod(0o600)
    read_users(file)


def clusters(file: Path) -> None:
    """Check a file with clusters."""
    for each in parse_json(file.read_bytes())["clusters"]:
        assert zookeeper_of(each["clusterName"], (file,)) == each["zkURL"]


def mcp_servers(file: Path) -> None:
    """Check that the commands of MCP servers are commands."""
    for server in parse_json(file.read_bytes())["mcpServers"].values():
        assert server["command"] == "peloton"
        parse(tuple(server["args"]))


def trace(file: Path) -> None:
    """Check the line of a trace, which a page shows in several."""
    file = file.with_suffix(".jsonl")
    file.write_text(" ".join(file.with_suffix(".json").read_text().split()))
    assert read_jobs(file)


def pod(file: Path) -> None:
    """Check that a pod is one that Peloton queues."""
    wire = yaml.safe_load(file.read_text())
    wire["metadata"] |= {"namespace": "team-a", "uid": ""}
    found = foreign_of(wire, "peloton", ForeignRules(enabled=True))
    assert found is not None
    assert found.refusal == ""


def settings(names: str) -> Callable[[Path], None]:
    """Return what checks settings of the daemons that are named."""

    def read(file: Path) -> None:
        store = file.with_name("storage.yaml")
        store.write_text(f"storage: {{kind: sqlite, path: {store.with_suffix('.db')}}}")
        for name in names.split(", "):
            stored = "storage" in DAEMONS[name].model_fields
            load(DAEMONS[name], [store, file] if stored else [file])

    return read


def reader(kind: str) -> Callable[[Path], Any]:
    """Return what reads a kind of file."""
    if kind.startswith("settings of "):
        return settings(kind.removeprefix("settings of "))
    readers: Mapping[str, Callable[[Path], Any]] = {
        "": whole,
        "job that Mesos does not take": whole,
        "part of a job": part_of_job,
        "part of a task": part_of_task,
        "of another scheduler": foreign,
        "users": users,
        "clusters": clusters,
        "MCP servers": mcp_servers,
        "minicluster": read_cluster,
        "simulated cluster": read_simulated,
        "line of a trace": trace,
        "pod of Kubernetes": pod,
    }
    return readers[kind]


def _merged(tree: Any, part: Any) -> Any:
    if isinstance(tree, dict) and isinstance(part, dict):
        return {
            **tree,
            **{key: _merged(tree.get(key), value) for key, value in part.items()},
        }
    return part
