"""Two users of one MCP server, by HTTP, on a cluster that asks callers who they are."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings
from peloton.client.auth import BasicAuth, read_auth

from .conftest import Harness, wait_for

pytestmark = pytest.mark.extended
SPEC = """
name: sleeper
instanceCount: 1
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 32, diskLimitMb: 8}
  command: {shell: true, value: sleep 600}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("secure") / "cluster")
    found.up(ClusterSettings(ports="free", secure=True))
    try:
        yield found
    finally:
        found.down()


@pytest.fixture(scope="module")
def harness(cluster: Cluster) -> Iterator[Harness]:
    held = Harness(cluster)
    yield held
    held.client.close()


@contextmanager
def serving(cluster: Cluster) -> Iterator[str]:
    """Run the server as nobody in particular: it has the cluster's authorities, and no user's password."""
    own = cluster.overview().exports
    environment = {key: value for key, value in own.items() if key != "BASIC_AUTH_CONFIG"}
    process = subprocess.Popen(
        [sys.executable, "-m", "peloton.cli", "mcp", "--http", "--port", "0"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()


class User:
    """A user as the server sees it; None: one who does not say who it is."""

    def __init__(self, url: str, cluster: Cluster, name: str | None) -> None:
        self._url = url
        self._headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        }
        if name is not None:
            auth = read_auth(cluster.layout.credentials_of(name))
            assert isinstance(auth, BasicAuth)
            said = base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()
            self._headers["authorization"] = f"Basic {said}"

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return what a tool answers, or its refusal as a text."""
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        answer = httpx2.post(self._url, headers=self._headers, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        if result.get("isError"):
            return "".join(part["text"] for part in result["content"])
        return result["structuredContent"]


def test_each_acts_with_its_own_rights(cluster: Cluster, harness: Harness) -> None:
    with serving(cluster) as url:
        admin, viewer, nobody = (User(url, cluster, name) for name in ("admin", "viewer", None))
        assert [user.call("whoami")["name"] for user in (admin, viewer, admin)] == [
            "admin",
            "viewer",
            "admin",
        ]
        assert "say who you are, by the header Authorization" in nobody.call("whoami")
        plan = admin.call("plan_run", spec=SPEC, pool="/test")
        stolen = viewer.call("apply_plan", token=plan["token"])
        assert "no plan has this token" in stolen, stolen
        assert "was created" in admin.call("apply_plan", token=plan["token"])["text"]
        assert viewer.call("get_job", job="sleeper")["name"] == "sleeper"
        own = viewer.call("plan_job_action", job="sleeper", action="stop")
        refused = own if isinstance(own, str) else viewer.call("apply_plan", token=own["token"])
        assert isinstance(refused, str) and "viewer" in refused, refused
        assert viewer.call("get_job", job="sleeper")["state"] in ("INITIALIZED", "PENDING", "RUNNING")
        stop = admin.call("plan_job_action", job="sleeper", action="stop")
        admin.call("apply_plan", token=stop["token"])
        wait_for(lambda: viewer.call("get_job", job="sleeper")["state"] == "KILLED", 60)
