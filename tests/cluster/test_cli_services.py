"""The commands for services on a whole cluster: the walk of docs/user-guide.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peloton.cli.__main__ import main

from .conftest import Harness, wait_for

SPEC = Path(__file__).resolve().parents[2] / "examples" / "web_service.yaml"
SECONDS = 60
Peloton = Callable[..., str]


@pytest.fixture
def peloton(harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Peloton:
    """Runs a command; returns its output, or its failure where it has none."""
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def run(*arguments: str) -> str:
        capfd.readouterr()
        code = main(list(arguments))
        out, err = capfd.readouterr()
        assert (code == 0) == (not err), (code, out, err)
        return out or err

    return run


class Service:
    """The job that the walk creates."""

    def __init__(self, peloton: Peloton, created: str) -> None:
        self.peloton, self.id = peloton, created.split()[1]

    def summary(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.peloton("job", "stateless", "get", self.id, "--summaryonly", "-j")
        )
        status: dict[str, Any] = answer["summary"]["status"]
        return status

    @property
    def version(self) -> str:
        return str(self.summary()["version"]["value"])

    def await_workflow(self, state: str, **pods: int) -> None:
        wanted = {f"POD_STATE_{name}": count for name, count in pods.items()}

        def reached() -> bool:
            status = self.summary()
            stats = {name: count for name, count in status["pod_stats"].items() if count}
            last = status.get("workflow_status", {}).get("state", "none").removeprefix("WORKFLOW_STATE_")
            return last == state and stats == wanted

        wait_for(reached, SECONDS, lambda: str(self.summary()))

    def await_output(self, instance: int, text: str) -> None:
        def output() -> str:
            return self.peloton("pod", "logs", f"{self.id}-{instance}")

        wait_for(lambda: output() == text, SECONDS, output)


def test_the_walk_of_the_user_guide(peloton: Peloton, tmp_path: Path) -> None:
    service = Service(peloton, peloton("job", "stateless", "create", "/test", str(SPEC), "2"))
    service.await_workflow("SUCCEEDED", RUNNING=3)
    rows = peloton("job", "stateless", "list-pods", service.id).splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [
        [str(i), f"{service.id}-{i}", "RUNNING"] for i in range(3)
    ]
    service.await_output(1, "version 1 of instance 1\n")

    second = tmp_path / "web2.yaml"
    second.write_text(SPEC.read_text().replace("version 1", "version 2"))
    first_version = service.version
    diff = peloton("job", "stateless", "replace-diff", service.id, str(second), "/test", first_version)
    assert diff == "added: none\nremoved: none\nupdated: 0-2\nunchanged: none\n"
    peloton("job", "stateless", "replace", service.id, str(second), "1", "/test", first_version)
    service.await_workflow("SUCCEEDED", RUNNING=3)
    service.await_output(2, "version 2 of instance 2\n")
    stale = peloton("job", "stateless", "stop", service.id, first_version)
    assert f"{first_version} is not its present entity version" in stale

    peloton("job", "stateless", "rollback", service.id, "0", first_version, "--start-paused")
    service.await_workflow("PAUSED", RUNNING=3)
    refused = peloton("job", "stateless", "replace", service.id, str(second), "0", "/test")
    assert "an update is under way (PAUSED, 0 instances done, 3 to go): --override replaces it" in refused
    peloton("job", "stateless", "workflow", "resume", service.id, service.version)
    service.await_workflow("SUCCEEDED", RUNNING=3)
    service.await_output(0, "version 1 of instance 0\n")
    states = peloton("job", "stateless", "list-updates", service.id).splitlines()[1:]
    assert [row.split()[:2] for row in states] == [["UPDATE", "SUCCEEDED"]] * 3

    peloton("job", "stateless", "restart", service.id, service.version, "-r", "1:2")
    service.await_workflow("SUCCEEDED", RUNNING=3)
    events = peloton("job", "stateless", "workflow", "events", service.id, "1").splitlines()
    assert events[1].split()[1:] == ["RESTART", "SUCCEEDED"]

    peloton("pod", "stop", f"{service.id}-2")
    service.await_workflow("SUCCEEDED", RUNNING=2, KILLED=1)
    assert peloton("pod", "query", service.id, "-s", "killed").splitlines()[1].split()[0] == "2"
    peloton("job", "stateless", "stop", service.id, service.version)
    service.await_workflow("SUCCEEDED", KILLED=3)
    wait_for(lambda: service.summary()["state"] == "JOB_STATE_KILLED", SECONDS)
    peloton("job", "stateless", "delete", service.id, service.version)
    wait_for(lambda: "(NOT_FOUND)" in peloton("job", "stateless", "get", service.id), SECONDS)


V0 = """
name: web0
type: SERVICE
owningTeam: infra
instanceCount: 2
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 32, diskLimitMb: 8}
  command: {shell: true, value: 'sleep 600'}
"""


def test_updates_and_rolling_commands_of_the_v0_api(peloton: Peloton, tmp_path: Path) -> None:
    first, second = tmp_path / "web.yaml", tmp_path / "web2.yaml"
    first.write_text(V0)
    second.write_text(V0.replace("sleep 600", "sleep 700").replace("Count: 2", "Count: 3"))
    service = Service(peloton, peloton("job", "create", "/test", str(first)))
    service.await_workflow("none", RUNNING=2)

    created = peloton("update", "create", service.id, str(second), "1", "/test", "--start-paused")
    update = created.split()[-1]
    service.await_workflow("PAUSED", RUNNING=2)
    refused = peloton("update", "create", service.id, str(second), "1", "/test")
    assert f"update {update} is under way (PAUSED): --override replaces it" in refused
    assert "state: PAUSED" in peloton("update", "get", update)
    assert "instancesAdded:\n- 2\n" in peloton("update", "cache", update)
    peloton("update", "resume", update)
    service.await_workflow("SUCCEEDED", RUNNING=3)
    assert peloton("update", "list", service.id).splitlines()[1].split()[:3] == [update, "SUCCEEDED", "3"]
    assert "is SUCCEEDED" in peloton("update", "abort", update)

    peloton("job", "rolling-restart", service.id, "2")
    service.await_workflow("SUCCEEDED", RUNNING=3)
    assert json.loads(peloton("pod", "get", f"{service.id}-2", "-j"))["current"]["status"]["pod_id"] == {
        "value": f"{service.id}-2-2"
    }
    peloton("job", "rolling-stop", service.id, "1", "-r", "0:2")
    service.await_workflow("SUCCEEDED", RUNNING=1, KILLED=2)
    peloton("job", "rolling-start", service.id, "1", "-r", "1:2")
    service.await_workflow("SUCCEEDED", RUNNING=2, KILLED=1)
    peloton("job", "stateless", "delete", service.id, service.version, "-f")


def test_the_walk_of_the_user_guide_with_a_daemon_job(
    harness: Harness, peloton: Peloton, tmp_path: Path
) -> None:
    spec = SPEC.with_name("daemon_job.yaml")
    job = Service(peloton, peloton("job", "create", "/test", str(spec)))

    def runs_on(count: int) -> bool:
        stats: dict[str, int] = job.summary()["pod_stats"]
        return stats == {"POD_STATE_RUNNING": count}

    wait_for(lambda: runs_on(3), SECONDS, lambda: str(job.summary()))
    assert len(peloton("task", "list", job.id).splitlines()) == 4, "a head, and a row for each host"
    harness.cluster.stop(["mesos-agent2"])
    wait_for(lambda: runs_on(2), SECONDS, lambda: str(job.summary()))
    harness.cluster.start(["mesos-agent2"])
    wait_for(lambda: runs_on(3), SECONDS, lambda: str(job.summary()))
    second = tmp_path / "daemon2.yaml"
    second.write_text(spec.read_text().replace("version 1", "version 2"))
    peloton("update", "create", job.id, str(second), "1", "/test")
    job.await_workflow("SUCCEEDED", RUNNING=3)
    job.await_output(0, "version 2 watches this host\n")
    assert "SUCCEEDED" in peloton("update", "list", job.id)
    peloton("job", "stateless", "restart", job.id, job.version)
    job.await_workflow("SUCCEEDED", RUNNING=3)
    peloton("job", "stateless", "stop", job.id, job.version)
    wait_for(lambda: job.summary()["state"] == "JOB_STATE_KILLED", SECONDS, lambda: str(job.summary()))
    peloton("job", "stateless", "start", job.id, job.version)
    wait_for(lambda: runs_on(3), SECONDS, lambda: str(job.summary()))
    peloton("job", "stateless", "delete", job.id, job.version, "-f")
    wait_for(lambda: "(NOT_FOUND)" in peloton("job", "stateless", "get", job.id), SECONDS)


def test_a_daemon_job_that_no_host_matches_is_warned_of(
    peloton: Peloton, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "nowhere.yaml"
    spec.write_text(
        SPEC.with_name("daemon_job.yaml").read_text()
        + "  constraint: {type: LABEL_CONSTRAINT, labelConstraint: {kind: HOST, condition: CONDITION_EQUAL, "
        "label: {key: rack, value: none}, requirement: 1}}\n"
    )
    peloton("respool", "dump")  # sets the environment
    assert main(["job", "create", "/test", str(spec)]) == 0
    out, err = capfd.readouterr()
    job = out.split()[1]
    assert err == (
        "warning: no host takes an instance now: no host has rack=none: 3 hosts without rack; "
        "waits for a host with rack=none; "
        "each host that does gets one as it comes\n"
    )
    rows = peloton("job", "stateless", "list-pods", job).splitlines()
    assert len(rows) == 1, "a head and no pods"
    why = peloton("job", "why", job)
    assert why.endswith("none created; no host matches its constraint, or the hosts are not known yet\n")
