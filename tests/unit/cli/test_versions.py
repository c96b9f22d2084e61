"""Entity versions that are left out, and workflows that are followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.cli import progress

from .conftest import Run
from .fakes import FakeDaemons
from .stateless_answers import JOB, answers, got

assert answers  # the fixture


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.01)


@pytest.mark.parametrize(
    ("command", "called"),
    [
        (("start",), "StartJob"),
        (("stop",), "StopJob"),
        (("delete",), "DeleteJob"),
        (("restart",), "RestartJob"),
        (("workflow", "pause"), "PauseJobWorkflow"),
        (("workflow", "resume"), "ResumeJobWorkflow"),
        (("workflow", "abort"), "AbortJobWorkflow"),
    ],
)
def test_without_a_version_the_present_one_is_taken(
    run: Run, daemons: FakeDaemons, command: tuple[str, ...], called: str
) -> None:
    def sent(*version: str) -> str:
        daemons.asked.clear()
        assert run("job", "stateless", *command, JOB, *version).code == 0
        return str(daemons.requests(called)[0].version.value)

    assert sent() == "5-1-7"
    assert sent("3-1-2") == sent("--entity-version", "3-1-2") == "3-1-2"
    assert sent("3-1-2", "--entity-version", "3-1-2") == "3-1-2"
    refused = run("job", "stateless", *command, JOB, "3-1-2", "--entity-version", "3-1-3")
    assert refused.code == 2 and "3-1-2 and --entity-version 3-1-3 are two entity versions" in refused.err


def test_a_restart_without_a_version_replaces_no_update(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["GetJob"] = lambda request: got(request, "ROLLING_FORWARD")
    refused = run("job", "stateless", "restart", JOB)
    assert refused.code == 1 and "`restart` with its ENTITYVERSION replaces it" in refused.err
    assert not daemons.requests("RestartJob")
    assert run("job", "stateless", "restart", JOB, "5-1-7").code == 0


def workflow(kind: str, before: str, to: str) -> stateless_pb2.WorkflowInfo:
    found = stateless_pb2.WorkflowInfo()
    found.status.type = stateless_pb2.WorkflowType.Value(f"WORKFLOW_TYPE_{kind}")
    found.status.prev_version.value, found.status.version.value = before, to
    return found


@pytest.mark.parametrize(
    ("workflows", "target"),
    [
        ([("UPDATE", "4-0-0", "5-0-0"), ("UPDATE", "3-0-0", "4-0-0")], "4-0-0"),
        (
            [("RESTART", "4-0-0", "5-0-0"), ("UPDATE", "3-0-0", "4-0-0"), ("UPDATE", "0-0-0", "3-0-0")],
            "3-0-0",
        ),
        ([("RESTART", "4-0-0", "5-0-0"), ("UPDATE", "0-0-0", "4-0-0")], ""),
        ([("UPDATE", "0-0-0", "5-0-0")], ""),
        ([], ""),
    ],
)
def test_a_rollback_without_a_version_goes_to_the_spec_before_the_last_update(
    run: Run, daemons: FakeDaemons, workflows: list[tuple[str, str, str]], target: str
) -> None:
    found = [workflow(*each) for each in workflows]
    daemons.answers["ListJobWorkflows"] = pb.ListJobWorkflowsResponse(workflow_infos=found)
    outcome = run("job", "stateless", "rollback", JOB, "0")
    if not target:
        assert outcome.code == 1 and "there is no earlier spec to go back to" in outcome.err
        return
    assert f"is being updated to its spec of {target}" in outcome.out
    assert daemons.requests("ReplaceJob")[0].spec.name == f"spec of {target}"


def status(state: str, done: int, created: str = "2026-01-31T12:00:00Z", **pods: int) -> pb.GetJobResponse:
    answer = pb.GetJobResponse()
    found = answer.summary.status
    found.version.value = "5-1-7"
    found.workflow_status.state = stateless_pb2.WorkflowState.Value(f"WORKFLOW_STATE_{state}")
    found.workflow_status.num_instances_completed = done
    found.workflow_status.num_instances_remaining = 3 - done
    found.workflow_status.creation_time = created
    for name, count in pods.items():
        found.pod_stats[f"POD_STATE_{name}"] = count
    return answer


def one_after_the_other(*found: pb.GetJobResponse) -> Callable[[object], pb.GetJobResponse]:
    left = list(found)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


BEGUN = status("ROLLING_FORWARD", 1, RUNNING=2, PENDING=1)


@pytest.mark.parametrize(
    ("end", "code", "line", "said"),
    [
        (status("SUCCEEDED", 3, RUNNING=3), 0, "SUCCEEDED  3/3 done: RUNNING 3", ""),
        (status("ROLLED_BACK", 3, RUNNING=3), 4, "ROLLED_BACK  3/3 done", "so it was rolled back"),
        (status("ABORTED", 1, RUNNING=3), 4, "ABORTED  1/3 done", "it was aborted"),
        (status("ROLLING_FORWARD", 0, "2026-01-31T12:00:01Z"), 4, "REPLACED", "has replaced this one"),
    ],
)
def test_an_update_is_followed(
    run: Run, daemons: FakeDaemons, tmp_path: Path, end: pb.GetJobResponse, code: int, line: str, said: str
) -> None:
    spec = tmp_path / "web.yaml"
    spec.write_text("name: web\ninstance_count: 3\n")
    failed = task_pb2.RuntimeInfo(state=task_pb2.FAILED, message="exit code 3")
    records = [task_pb2.TaskInfo(instanceId=1, runtime=failed)]
    daemons.answers["Query"] = task_pb2.QueryResponse(
        records=records, pagination=query_pb2.Pagination(total=1)
    )
    # Read for the version, for the secrets, when it begins, and then again and again.
    daemons.answers["GetJob"] = one_after_the_other(
        status("SUCCEEDED", 3), status("SUCCEEDED", 3), BEGUN, BEGUN, BEGUN, end
    )
    outcome = run("job", "stateless", "replace", JOB, str(spec), "1", "/infra", "--follow")
    assert outcome.code == code
    assert "ROLLING_FORWARD  1/3 done: RUNNING 2, PENDING 1" in outcome.out
    assert outcome.out.splitlines()[-1].startswith(line)
    assert said in outcome.err
    assert ("instance 1 FAILED: exit code 3" in outcome.err) == (code != 0 and "REPLACED" not in line)


def test_an_update_that_does_not_proceed_says_how_an_instance_failed(
    run: Run, daemons: FakeDaemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(progress, "_PLAIN_INTERVAL", 0.0)
    spec = tmp_path / "web.yaml"
    spec.write_text("name: web\ninstance_count: 3\n")
    end = task_pb2.TerminationStatus(
        reason=task_pb2.TerminationStatus.TERMINATION_STATUS_REASON_FAILED, exit_code=3
    )
    failed = task_pb2.RuntimeInfo(state=task_pb2.FAILED, terminationStatus=end, message="throttled")

    def query(request: task_pb2.QueryRequest) -> task_pb2.QueryResponse:
        found = [task_pb2.TaskInfo(instanceId=1, runtime=failed)]
        return task_pb2.QueryResponse(records=found if task_pb2.FAILED in request.spec.taskStates else [])

    daemons.answers["Query"] = query
    begun = status("ROLLING_FORWARD", 1, RUNNING=2, FAILED=1)
    daemons.answers["GetJob"] = one_after_the_other(
        status("SUCCEEDED", 3), status("SUCCEEDED", 3), begun, begun, begun, status("SUCCEEDED", 3, RUNNING=3)
    )
    outcome = run("job", "stateless", "replace", JOB, str(spec), "1", "/infra", "--follow")
    assert outcome.out.splitlines()[1:] == [
        "ROLLING_FORWARD  1/3 done: FAILED 1, RUNNING 2",
        "ROLLING_FORWARD  1/3 done: FAILED 1, RUNNING 2; instance 1: failed, exit code 3",
        "SUCCEEDED  3/3 done: RUNNING 3",
    ]


def test_a_start_is_followed_until_all_run(run: Run, daemons: FakeDaemons) -> None:
    def info(state: str, **counts: int) -> job_pb2.GetResponse:
        runtime = job_pb2.RuntimeInfo(
            state=job_pb2.JobState.Value(state), goalState=job_pb2.RUNNING, taskStats=counts
        )
        config = job_pb2.JobConfig(instanceCount=2, type=job_pb2.SERVICE)
        found = job_pb2.JobInfo(id=v0.JobID(value=JOB), config=config, runtime=runtime)
        return job_pb2.GetResponse(jobInfo=found)

    states = [info("KILLED", KILLED=2), info("PENDING", PENDING=2), info("RUNNING", RUNNING=2)]
    daemons.answers["Get"] = lambda request: states.pop(0) if len(states) > 1 else states[0]
    # Read for the version, and, once all run, for what is under way: some are not healthy yet.
    begun = status("ROLLING_FORWARD", 1, RUNNING=3)
    daemons.answers["GetJob"] = one_after_the_other(begun, begun, begun, status("SUCCEEDED", 3, RUNNING=3))
    outcome = run("job", "stateless", "start", JOB, "--follow", "-j")
    assert outcome.code == 0
    assert json.loads(outcome.out)["runtime"]["state"] == "RUNNING"
    assert outcome.err.splitlines()[-3:] == [
        "RUNNING  0/2 ended: RUNNING 2",
        "ROLLING_FORWARD  1/3 done: RUNNING 3",
        "SUCCEEDED  3/3 done: RUNNING 3",
    ]
    assert daemons.requests("StartJob")[0].version == peloton_pb2.EntityVersion(value="5-1-7")
