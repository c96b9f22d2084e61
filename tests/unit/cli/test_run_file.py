"""`peloton plan FILE` and `peloton run FILE`."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.update.svc import update_svc_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.cli import progress
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.plan import plan_pb2

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
POOL = "0a5e1f3e-8bd0-4a1f-8d35-8f0c2a3d4e5f"
BATCH = "name: sum\ninstanceCount: 2\ndefaultConfig: {command: {value: 'true'}, resource: {cpuLimit: 500m}}\n"
V0_SERVICE = "type: SERVICE\n" + BATCH
SERVICE = """\
name: sum
instanceCount: 5
defaultSpec:
  containers:
  - {name: main, resource: {cpuLimit: 1}, command: {value: 'true', shell: true}}
"""


@pytest.fixture(autouse=True)
def cluster(daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    answers = daemons.answers
    answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(id=peloton_pb2.ResourcePoolID(value=POOL))
    answers["Query"] = job_pb2.QueryResponse()
    answers["PlanJob"] = plan_pb2.PlanJobResponse(instances=2)
    answers["CheckGangs"] = feasibility_pb2.CheckGangsResponse()
    answers["Create"] = job_pb2.CreateResponse(jobId=peloton_pb2.JobID(value=JOB), warnings=["odd"])
    answers["CreateJob"] = pb.CreateJobResponse(job_id=v1alpha.JobID(value=JOB))
    answers["ReplaceJob"] = pb.ReplaceJobResponse()
    answers["CreateUpdate"] = update_svc_pb2.CreateUpdateResponse()
    status = stateless_pb2.JobStatus(version=v1alpha.EntityVersion(value="5-1-7"))
    status.workflow_status.state = stateless_pb2.WORKFLOW_STATE_SUCCEEDED
    answers["GetJob"] = pb.GetJobResponse(summary=stateless_pb2.JobSummary(status=status))
    answers["Get"] = info("SUCCEEDED", SUCCEEDED=2)


def info(state: str, **counts: int) -> job_pb2.GetResponse:
    value = job_pb2.JobState.Value(state)
    runtime = job_pb2.RuntimeInfo(state=value, goalState=job_pb2.RUNNING, taskStats=counts)
    config = job_pb2.JobConfig(name="sum", instanceCount=2, type=job_pb2.SERVICE)
    found = job_pb2.JobInfo(id=peloton_pb2.JobID(value=JOB), runtime=runtime, config=config)
    return job_pb2.GetResponse(jobInfo=found)


def runs_already(daemons: FakeDaemons, **changes: object) -> None:
    found = job_pb2.JobSummary(
        id=peloton_pb2.JobID(value=JOB),
        name="sum",
        type=job_pb2.SERVICE,
        respoolID=peloton_pb2.ResourcePoolID(value=POOL),
    )
    found.runtime.state = job_pb2.RUNNING
    found.MergeFrom(job_pb2.JobSummary(**changes))  # type: ignore[arg-type]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=[found])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "spec.yaml"


def called(daemons: FakeDaemons) -> set[str]:
    changing = {"Create", "CreateJob", "ReplaceJob", "CreateUpdate"}
    return {name for name, _, _ in daemons.asked} & changing


def test_a_batch_job_is_created_and_followed_to_its_end(run: Run, daemons: FakeDaemons, file: Path) -> None:
    file.write_text(BATCH)
    outcome = run("run", str(file), "--pool", "/a")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [f"Job {JOB} created", "SUCCEEDED  2/2 ended: SUCCEEDED 2"]
    assert outcome.err == "warning: odd\n"
    config = daemons.requests("Create")[0].config
    assert (config.respoolID.value, config.defaultConfig.resource.cpuLimit) == (POOL, 0.5)
    assert daemons.requests("LookupResourcePoolID")[0].path.value == "/a"


def test_a_batch_job_that_fails_and_one_that_is_not_followed(
    run: Run, daemons: FakeDaemons, file: Path
) -> None:
    file.write_text(BATCH)
    daemons.answers["Get"] = info("FAILED", FAILED=2)
    assert run("run", str(file)).code == 4
    assert run("run", "-d", str(file)).out == f"Job {JOB} created\n"
    assert run("run", str(file), "-d", "-o", "name").out == f"{JOB}\n"
    assert json.loads(run("run", str(file), "-d", "-o", "json").out) == {"jobId": JOB}


@pytest.mark.parametrize(("text", "by"), [(SERVICE, "CreateJob"), (V0_SERVICE, "Create")])
def test_a_service_is_created_and_followed_until_it_runs(
    run: Run, daemons: FakeDaemons, file: Path, text: str, by: str
) -> None:
    file.write_text(text)
    daemons.answers["Get"] = [info("PENDING", PENDING=2), info("RUNNING", RUNNING=2)]
    outcome = run("run", str(file))
    assert (outcome.code, called(daemons)) == (0, {by})
    assert outcome.out.splitlines()[-1] == "RUNNING  0/2 ended: RUNNING 2"


@pytest.mark.parametrize(
    ("text", "by", "size"), [(SERVICE, "ReplaceJob", 2), (V0_SERVICE, "CreateUpdate", 1)]
)
def test_a_service_that_runs_is_updated(
    run: Run, daemons: FakeDaemons, file: Path, text: str, by: str, size: int
) -> None:
    file.write_text(text)
    runs_already(daemons)
    outcome = run("run", str(file))
    assert (outcome.code, called(daemons)) == (0, {by})
    assert outcome.out.startswith(f"Job {JOB} is being updated\n")
    assert _batch(daemons.requests(by)[0]) == size  # a quarter, rounded up
    run("run", str(file), "--batchSize", "0")
    assert _batch(daemons.requests(by)[1]) == 0


def _batch(request: object) -> int:
    if isinstance(request, pb.ReplaceJobRequest):
        return request.update_spec.batch_size
    assert isinstance(request, update_svc_pb2.CreateUpdateRequest)
    return request.updateConfig.batchSize


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "sums"},
        {"respoolID": {"value": "another"}},
        {"runtime": job_pb2.RuntimeInfo(state=job_pb2.KILLED)},
    ],
)
def test_another_service_is_left_alone(
    run: Run, daemons: FakeDaemons, file: Path, changes: dict[str, object]
) -> None:
    file.write_text(SERVICE)
    runs_already(daemons, **changes)
    daemons.answers["Get"] = info("RUNNING", RUNNING=2)
    assert run("run", str(file)).code == 0
    assert called(daemons) == {"CreateJob"}


def test_several_services_of_the_name_are_told_with_their_ids(
    run: Run, daemons: FakeDaemons, file: Path
) -> None:
    file.write_text(SERVICE)
    runs_already(daemons)
    daemons.answers["Query"].results.append(daemons.answers["Query"].results[0])
    refused = run("run", str(file))
    assert refused.code == 1 and f"several services have the name 'sum' in this pool ({JOB}" in refused.err
    assert not called(daemons)


def test_a_plan_does_nothing(run: Run, daemons: FakeDaemons, file: Path) -> None:
    file.write_text(SERVICE)
    assert run("plan", str(file)).out.startswith("Nothing is created. As things are now:")
    runs_already(daemons)
    daemons.answers["GetReplaceJobDiff"] = pb.GetReplaceJobDiffResponse()
    assert run("plan", str(file)).out.startswith(
        f"Updates the service sum ({JOB}), which runs:\n  added: none"
    )
    file.write_text(V0_SERVICE)
    shown = run("plan", str(file)).out
    assert "+    cpuLimit: 0.5" in shown and "respoolID" not in shown
    assert not called(daemons)


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        (BATCH, ("--cpus", "3"), 2, "--cpus does not go with a FILE: the spec says it"),
        (BATCH, ("x",), 2, "spec.yaml is a spec: x behind it has no meaning"),
        ("name: x\ninstanceCount: no\nsla: 3\n", (), 1, "spec.yaml:3: sla: 3 is not a mapping"),
        ("resources: [{kind: cpu}]\n", (), 1, "which `peloton respool create` takes"),
        (
            "respoolID: {value: other}\n" + BATCH,
            ("--pool", "/a"),
            1,
            "names another pool than /a: leave one out",
        ),
    ],
)
def test_what_is_refused(
    run: Run, daemons: FakeDaemons, file: Path, text: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    file.write_text(text)
    outcome = run("run", str(file), *arguments)
    assert outcome.code == code and said in outcome.err
    assert not called(daemons)


def test_what_the_cluster_refuses_of_a_field_is_told_with_its_line(
    run: Run, daemons: FakeDaemons, file: Path
) -> None:
    text = "depends_on[0].job: 'x' is not the name of a job"
    file.write_text("dependsOn:\n- {job: x}\n" + BATCH)
    refused = job_pb2.CreateResponse()
    refused.error.invalidConfig.message = text
    daemons.answers["Create"] = refused
    daemons.answers["PlanJob"] = (grpc.StatusCode.INVALID_ARGUMENT, text)
    for words in (("run", "-y"), ("plan",)):
        outcome = run(*words, str(file))
        assert outcome.code == 1 and f"peloton: {file}:2: {text}" in outcome.err, outcome
    refused.error.invalidConfig.message = "elsewhere: no field of the file"
    assert run("run", "-y", str(file)).err == "peloton: elsewhere: no field of the file\n"


def test_flags_of_files_do_not_go_with_programs(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("run", "-y", "--", "python", "train.yaml")
    assert outcome.code == 2 and "go with a FILE, not with a COMMAND" in outcome.err
    assert not daemons.asked


def test_a_terminal_is_asked_after_the_plan(
    run: Run, daemons: FakeDaemons, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(BATCH)
    asked: list[str] = []

    def confirm(text: str, **flags: object) -> None:
        asked.append(text)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", confirm)
    outcome = run("run", str(file))
    assert asked == ["Go on?"] and "As things are now:" in outcome.err and outcome.code == 0
    assert run("run", str(file), "--yes").code == 0
    assert len(asked) == 1
