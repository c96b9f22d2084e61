"""What users created on a cluster is replayed from the audit log of its job manager."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from minicluster.settings import DaemonSettings, Simulated
from peloton.cli.__main__ import main

from .conftest import harness_of, wait_for

pytestmark = pytest.mark.extended
SECONDS = 120
JOB = """
name: {name}
type: BATCH
instanceCount: {instances}
sla: {{preemptible: true}}
defaultConfig:
  resource: {{cpuLimit: 1, memLimitMb: 64}}
  command: {{shell: true, value: "true"}}
"""
Cli = Callable[..., str]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    def called(*words: str) -> str:
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        assert code == 0, f"{words}: {err}"
        return out

    return called


def test_the_audit_log_of_a_job_manager_is_replayed_on_a_cluster_like_its_own(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    log = tmp_path / "audit.jsonl"
    simulated = Simulated(agents=3, resources="cpus:4;mem:8192;disk:60000", task_seconds=1)
    settings = DaemonSettings(jobmgr={"audit": str(log)})
    with harness_of(tmp_path_factory, simulated=simulated, settings=settings) as harness:
        for name, url in harness.cluster.urls().items():
            monkeypatch.setenv(name, url)
        created = [_create(cli, tmp_path, f"job-{number}", 1 + number % 3) for number in range(6)]
        wait_for(lambda: all("SUCCEEDED" in cli("job", "status", each) for each in created), SECONDS)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert [line["object"]["job"] for line in lines if line["method"].endswith("/Create")] == created
        replay = ("simulate", "--trace", str(log), "--assume", "30", "--csv", str(tmp_path / "csv"))
        saved = tmp_path / "cluster.yaml"
        live = cli(*replay, "--live-hosts", "--live-pools", "--save-cluster", str(saved))
    assert "/test" in live, "its pool is known by its path"
    rows = list(csv.DictReader((tmp_path / "csv" / "jobs.csv").open()))
    assert sorted(row["name"] for row in rows) == [f"job-{number}" for number in range(6)]
    assert {row["state"] for row in rows} == {"SUCCEEDED"} and {row["pool"] for row in rows} == {"/test"}
    assert cli(*replay, "--cluster", str(saved)) == live, "the same without the cluster"


def _create(cli: Cli, folder: Path, name: str, instances: int) -> str:
    spec = folder / f"{name}.yaml"
    spec.write_text(JOB.format(name=name, instances=instances))
    job_id = str(uuid4())
    cli("job", "create", "/test", str(spec), "-i", job_id)
    return job_id
