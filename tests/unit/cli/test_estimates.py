"""How estimates of the start read, and when `job why` and `--dry-run` make them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.cli import estimate
from peloton.cli.session import Session
from peloton.model.estimate import Expected, StartEstimate, UnknownRuns
from peloton.present.estimates import COVERED, ERROR_FACTOR, estimate_lines, estimate_plain, rough
from peloton.private.plan import plan_pb2
from peloton.private.resmgr.explain import explain_pb2
from tests import live_scene

from .conftest import Run
from .fakes import FakeDaemons
from .test_why import JOB, explained, job

TWELVE = Expected(720.0, 300.0, 2400.0)
FOUND = StartEstimate(1, 20, TWELVE, TWELVE, 604_800.0)
NEVER = Expected(None, None, None)
ERROR = (
    f"estimates like this were off by a factor of {ERROR_FACTOR:.1f} in the median when replayed; "
    f"{COVERED:.0%} of the jobs started within the range"
)
UNKNOWN = (UnknownRuns("/a", 12), UnknownRuns("/b", 1))


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ("hosts are gone", ["no estimate of the start: hosts are gone"]),
        (FOUND, ["likely to start in 12 min (5 min to 40 min), by 20 runs of the simulator", ERROR]),
        (
            replace(FOUND, waiting=3, runs=1, all=Expected(7400.0, 7400.0, None)),
            [
                "of 3 instances the first is likely to start in 12 min (5 min to 40 min), "
                "the last in 2 h 5 min (2 h 5 min to more than 7 d), by 1 run of the simulator",
                ERROR,
            ],
        ),
        (
            replace(FOUND, waiting=3, all=Expected(None, 7400.0, None)),
            [
                "of 3 instances the first is likely to start in 12 min (5 min to 40 min), "
                "the last not within 7 d, by 20 runs of the simulator",
                ERROR,
            ],
        ),
        (
            replace(FOUND, unknown=UNKNOWN),
            [
                "likely to start in 12 min (5 min to 40 min), by 20 runs of the simulator",
                ERROR,
                "taken to run on: 12 running tasks of /a, 1 running task of /b "
                "have no limit and no runs before",
            ],
        ),
        (
            replace(FOUND, first=NEVER, all=NEVER, unknown=UNKNOWN[1:]),
            ["no estimate of the start: 1 running task of /b has no limit and no runs before"],
        ),
        (
            replace(FOUND, first=NEVER, all=NEVER, within=10_800.0),
            ["not likely to start within 3 h, by 20 runs of the simulator"],
        ),
        (
            replace(FOUND, first=Expected(None, 3600.0, None)),
            ["not likely to start within 7 d, at the earliest in 1 h, by 20 runs of the simulator"],
        ),
    ],
)
def test_texts(found: StartEstimate | str, lines: list[str]) -> None:
    assert estimate_lines(found) == lines


def test_times_are_as_exact_as_an_estimate_is() -> None:
    given = [0.2, 12.4, 95.0, 724.0, 7_400.0, 100_000.0, 300_000.0]
    assert [rough(each) for each in given] == [
        "1 s",
        "12 s",
        "1 min 40 s",
        "12 min",
        "2 h 5 min",
        "1 d 4 h",
        "3 d 12 h",
    ]


def test_plain_data_is_in_seconds() -> None:
    told = estimate_plain(replace(FOUND, unknown=UNKNOWN[:1]))
    assert told["first"] == {"seconds": 720.0, "low": 300.0, "high": 2400.0}
    assert told["unknown"] == [{"pool": "/a", "runningTasks": 12}]
    assert told["replayed"] == {"medianFactor": ERROR_FACTOR, "withinRange": COVERED}
    assert estimate_plain("x") == {"none": "x"}


def cluster(daemons: FakeDaemons) -> None:
    daemons.answers.update(
        ListLiveJobs=live_scene.live_jobs(JOB),
        QueryHosts=live_scene.hosts(),
        GetHostCache=live_scene.amounts(),
    )

    def query(request: Any) -> Any:
        return (
            live_scene.pools() if isinstance(request, respool_pb2.QueryRequest) else job_pb2.QueryResponse()
        )

    daemons.answers["Query"] = query
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        id=peloton_pb2.ResourcePoolID(value=live_scene.POOL)
    )


def waits(daemons: FakeDaemons, **of: Any) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job({"PENDING": 1}))
    group = explain_pb2.Group(count=1, instances=[0], first=explained(**of))
    daemons.answers["ExplainJob"] = explain_pb2.ExplainJobResponse(groups=[group])


def test_job_why_estimates_the_start(run: Run, daemons: FakeDaemons) -> None:
    cluster(daemons)
    waits(daemons)
    found = json.loads(run("-j", "job", "why", JOB).out)["start"]
    assert 0 < found["first"]["low"] < found["first"]["seconds"] < found["first"]["high"] < 400
    assert "likely to start in " in run("job", "why", JOB).out
    asked = len(daemons.requests("ListLiveJobs"))
    assert "likely" not in run("job", "why", JOB, "--no-estimate").out
    assert len(daemons.requests("ListLiveJobs")) == asked


def test_an_estimate_is_kept_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def estimated(session: Session, job_id: str, planned: None) -> str:
        made.append(f"estimate {len(made)}")
        return made[-1]

    monkeypatch.setattr(estimate, "_estimated", estimated)
    kept: dict[str, Any] = {}
    now = [0.0]
    found = []
    for now[0] in (5.0, 64.0, 66.0, 67.0):
        found.append(estimate.start_of(Session(), JOB, kept, lambda: now[0]))
    assert found == ["estimate 0", "estimate 0", "estimate 1", "estimate 1"]


def test_nothing_is_estimated_for_a_job_that_no_host_could_take(run: Run, daemons: FakeDaemons) -> None:
    cluster(daemons)
    waits(daemons, shortage={"kind": "cpu"})
    assert "start" not in json.loads(run("-j", "job", "why", JOB).out)


def test_why_there_is_no_estimate(run: Run, daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(daemons)
    waits(daemons)
    daemons.answers["ListLiveJobs"] = (grpc.StatusCode.PERMISSION_DENIED, "ann may not call ListLiveJobs")
    told = json.loads(run("-j", "job", "why", JOB).out)["start"]
    assert "ann may not call ListLiveJobs" in told["none"]
    monkeypatch.setattr(estimate, "extension", lambda group, name: None)
    assert "start" not in json.loads(run("-j", "job", "why", JOB).out), "a client alone has no simulator"


def test_a_dry_run_estimates_the_start_of_what_would_wait(
    run: Run, daemons: FakeDaemons, tmp_path: Path
) -> None:
    cluster(daemons)
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "{name: x, instanceCount: 1, defaultConfig: {resource: {cpuLimit: 4}, command: {value: 'a'}}}"
    )
    group = plan_pb2.PlannedInstances(instances="0", count=1)
    group.plan.waiting, group.plan.waiting_reason = 1, "cpu: too little"
    daemons.answers["PlanJob"] = plan_pb2.PlanJobResponse(instances=1, groups=[group])
    words = ["job", "create", "/a", str(spec), "--dry-run"]
    outcome = run("-j", *words)
    found = json.loads(outcome.out)
    assert found["groups"][0]["plan"]["waiting"] == 1 and found["start"]["waiting"] == 1
    assert found["start"]["first"]["seconds"] is not None
    assert "would wait" in run(*words).out and "likely to start" in run(*words).out
    group.plan.waiting, group.plan.placed = 0, 1
    daemons.answers["PlanJob"] = plan_pb2.PlanJobResponse(instances=1, groups=[group])
    assert "likely" not in run(*words).out
