"""What a cluster shows to programs: the JSON door as its documentation has it, metrics as dashboards ask."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, DaemonSettings, Instances
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2

from ..promql import check, queries
from .conftest import Harness, wait_for

ROOT = Path(__file__).resolve().parents[2]
DAEMONS = {"jobmgr", "resmgr", "hostmgr", "placement"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
DOOR = ROOT / "docs" / "json-door.md"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    cluster = Cluster(tmp_path_factory.mktemp("observed") / "cluster")
    settings = DaemonSettings(jobmgr={"shown_jobs": 10})
    cluster.up(ClusterSettings(ports="free", settings=settings, instances=Instances(web=1)))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


@pytest.fixture(scope="module")
def door(harness: Harness) -> str:
    """The address of the JSON door."""
    [address] = harness.cluster.web_addresses()
    return f"http://{address}"


def metrics(harness: Harness) -> dict[str, set[str]]:
    """The labels of each metric that some daemon shows; those of metrics without a sample are not known."""
    found: dict[str, set[str]] = {}
    for part in harness.cluster.status():
        if part.name.rstrip("0123456789") not in DAEMONS:
            continue
        with urllib.request.urlopen(f"http://{part.addresses['http']}/metrics", timeout=30) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for suffix in SUFFIXES.get(family.type, ("",)):
                    found.setdefault(family.name + suffix, set())
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_dashboards_and_alert_rules_ask_for_what_the_daemons_show(harness: Harness) -> None:
    job_id = harness.create(harness.config("sleep 600", 2))
    harness.running(job_id, 0)
    harness.running(job_id, 1)
    wait_for(lambda: bool(metrics(harness)["resmgr_pool_demand"]), 60)
    shown = metrics(harness)
    asked = [query for query in queries() if "archiver" not in query.text]
    for query in asked:
        check(query, shown, unsampled=True)
    assert shown["jobmgr_job_tasks"] == {"job_id", "name", "state"}
    assert shown["hostmgr_capacity"] == {"kind"}
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a page, each block with the output that is shown below it."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for (kind, content), (next_kind, output) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == "sh":
            yield content, output if next_kind in ("json", "text") else ""


def test_the_examples_of_the_json_door_run(door: str, tmp_path: Path) -> None:
    mark = "--- end of a block ---"
    told = list(blocks(DOOR.read_text()))
    script = "set -eu\n" + "".join(f"{commands}\necho; echo '{mark}'\n" for commands, _ in told)
    result = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PELOTON": door},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, (result.stdout, result.stderr)
    outputs = [each.strip() for each in result.stdout.split(mark)]
    for (commands, expected), output in zip(told, outputs, strict=False):
        pattern = re.escape(expected.strip()).replace("…", ".*?")
        assert not expected or re.fullmatch(pattern, output), (commands, output)
    assert sum(bool(expected) for _, expected in told) >= 4
    assert len(told) == len(outputs) - 1
    OpenAPIV31SpecValidator(json.loads((tmp_path / "openapi.json").read_text())).validate()
