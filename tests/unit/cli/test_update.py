"""`peloton update` and `peloton job rolling-*`, against fakes of the v0 services."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.update import update_pb2
from peloton.api.v0.update.svc import update_svc_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
UPDATE = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
POOL = "0a5e1f3e-8bd0-4a1f-8d35-8f0c2a3d4e5f"
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "update not found")


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "web.yaml"
    file.write_text("name: web\ntype: service\ninstance_count: 3\n")
    return str(file)


@pytest.fixture(autouse=True)
def answers(daemons: FakeDaemons) -> None:
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        id=peloton_pb2.ResourcePoolID(value=POOL)
    )
    daemons.answers["CreateUpdate"] = pb.CreateUpdateResponse(updateID=update_id())
    daemons.answers["ListUpdates"] = pb.ListUpdatesResponse(updateInfo=[info("SUCCEEDED")])
    daemons.answers["GetUpdate"] = pb.GetUpdateResponse(updateInfo=info("PAUSED"))
    for method in ("PauseUpdate", "ResumeUpdate", "AbortUpdate"):
        daemons.answers[method] = getattr(pb, f"{method}Response")()
    for method in ("Restart", "Start", "Stop"):
        daemons.answers[method] = getattr(job_pb2, f"{method}Response")(updateID=update_id())


def update_id() -> peloton_pb2.UpdateID:
    return peloton_pb2.UpdateID(value=UPDATE)


def info(state: str) -> update_pb2.UpdateInfo:
    return update_pb2.UpdateInfo(
        updateId=update_id(),
        status=update_pb2.UpdateStatus(
            state=update_pb2.State.Value(state), numTasksDone=1, numTasksRemaining=2
        ),
        configVersion=4,
        prevConfigVersion=3,
    )


def test_create_sends_the_config_and_the_flags(run: Run, daemons: FakeDaemons, spec: str) -> None:
    outcome = run(
        *("update", "create", JOB, spec, "2", "/infra", "--maxInstanceRetries=4", "--start-paused"),
        *("--maxTolerableInstanceFailures=5", "--rollbackOnFailure", "--in-place", "--start-pods"),
        "--opaque-data=why",
    )
    assert outcome == (0, f"Job {JOB} is being updated by update {UPDATE}\n", "")
    [request] = daemons.requests("CreateUpdate")
    assert (request.jobId.value, request.opaque_data.data) == (JOB, "why")
    assert (request.jobConfig.respoolID.value, request.jobConfig.instanceCount) == (POOL, 3)
    assert request.updateConfig == update_pb2.UpdateConfig(
        batchSize=2,
        startPaused=True,
        rollbackOnFailure=True,
        maxInstanceAttempts=4,
        maxFailureInstances=5,
        inPlace=True,
        startTasks=True,
    )


def test_an_update_under_way_is_replaced_with_override_only(
    run: Run, daemons: FakeDaemons, spec: str
) -> None:
    daemons.answers["ListUpdates"] = pb.ListUpdatesResponse(updateInfo=[info("ROLLING_FORWARD")])
    outcome = run("update", "create", JOB, spec, "2", "/infra")
    assert outcome == (
        *(1, ""),
        f"peloton: job {JOB}: update {UPDATE} is under way (ROLLING_FORWARD): --override replaces it\n",
    )
    assert not daemons.requests("CreateUpdate")
    assert run("update", "create", JOB, spec, "2", "/infra", "-o").code == 0


def test_a_typing_error_in_the_config_is_named(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("nmae: web\n")
    outcome = run("update", "create", JOB, str(file), "2", "/infra")
    assert outcome == (1, "", f"peloton: {file}:1: nmae: unknown key; did you mean name?\n")
    assert not daemons.asked


def test_list_get_and_cache(run: Run, daemons: FakeDaemons) -> None:
    _, row = run("update", "list", JOB, "--limit", "3").out.splitlines()
    assert row.split() == [UPDATE, "SUCCEEDED", "1", "2", "0", "3", "4"]
    assert daemons.requests("ListUpdates")[0].limit == 3
    assert "  state: PAUSED\n" in run("update", "get", UPDATE).out
    daemons.answers["GetUpdateCache"] = pb.GetUpdateCacheResponse(state=update_pb2.PAUSED)
    assert run("update", "cache", UPDATE).out == "state: PAUSED\n"


@pytest.mark.parametrize(
    ("command", "done"), [("pause", "paused"), ("resume", "resumed"), ("abort", "aborted")]
)
def test_control(run: Run, daemons: FakeDaemons, command: str, done: str) -> None:
    method = f"{command.title()}Update"
    assert run("update", command, UPDATE, "--opaque-data", "why").out == f"Update {UPDATE} {done}\n"
    [request] = daemons.requests(method)
    assert (request.updateId.value, request.opaque_data.data) == (UPDATE, "why")
    daemons.answers[method] = NOT_FOUND
    assert run("update", command, "x").err == "peloton: x: update not found (NOT_FOUND)\n"


@pytest.mark.parametrize("method", ["Restart", "Start", "Stop"])
def test_rolling(run: Run, daemons: FakeDaemons, method: str) -> None:
    command, done = f"rolling-{method.lower()}", {"Stop": "stopped"}.get(method, f"{method.lower()}ed")
    outcome = run("job", command, JOB, "2", "--resourceVersion", "7", "-r", "0:2", "-r", "4")
    assert outcome == (0, f"Job {JOB} is being {done} by update {UPDATE}\n", "")
    [request] = daemons.requests(method)
    assert (request.id.value, request.resourceVersion) == (JOB, 7)
    assert [(getattr(each, "from"), each.to) for each in request.ranges] == [(0, 2), (4, 5)]
    assert getattr(request, f"{method.lower()}Config").batchSize == 2
    daemons.answers[method] = (grpc.StatusCode.ABORTED, "resourceVersion 7 is stale: the job is at 9")
    outcome = run("job", command, JOB, "2", "--resourceVersion", "7")
    assert outcome == (1, "", "peloton: resourceVersion 7 is stale: the job is at 9 (ABORTED)\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("update", "craete"), "Did you mean 'create'?"),
        (("update", "list", JOB, "--limit", "1001"), "'1001' is not a whole number from 1 to 1000"),
        (("update", "create", JOB, "web.yaml", "all", "/infra"), "'all' is not a whole number from 0 to"),
        (("job", "rolling-stop", JOB), "Missing argument 'BATCH-SIZE'"),
        (("job", "rolling-stop", JOB, "1", "--resourceVersion", "1-1-1"), "'1-1-1' is not a whole number"),
        (("job", "rolling-restart", JOB, "1", "-r", "2:1"), "'2:1' is empty"),
    ],
)
def test_wrong_arguments_exit_with_2(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert not daemons.asked
