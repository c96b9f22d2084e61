from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.errors import errors_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.job.instances import instances_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli import progress
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.jobmgr.scheduling import scheduling_pb2

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
POOL = "0a5e1f3e-8bd0-4a1f-8d35-8f0c2a3d4e5f"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text("name: hello\ninstance_count: 3\ndefaultconfig: {command: {value: 'true'}}\n")
    return str(file)


@pytest.fixture(autouse=True)
def pool(daemons: FakeDaemons) -> None:
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        id=peloton_pb2.ResourcePoolID(value=POOL)
    )
    daemons.answers["Create"] = job_pb2.CreateResponse(jobId=peloton_pb2.JobID(value=JOB))
    daemons.answers["CheckGangs"] = lambda request: checked(request, {})


def checked(
    request: feasibility_pb2.CheckGangsRequest, lacking: dict[float, str]
) -> feasibility_pb2.CheckGangsResponse:
    """Gangs whose tasks ask for so much CPU lack something."""
    answer = feasibility_pb2.CheckGangsResponse(hosts_version="v1")
    for gang in request.gangs:
        text = lacking.get(gang.members[0].filter.resourceConstraint.minimum.cpuLimit)
        answer.verdicts.add(shortage=feasibility_pb2.Shortage(text=text) if text else None)
    return answer


def job(state: str, **counts: int) -> job_pb2.GetResponse:
    runtime = job_pb2.RuntimeInfo(
        state=job_pb2.JobState.Value(state), taskStats=counts, creationTime="2026-01-31T12:00:00.5Z"
    )
    config = job_pb2.JobConfig(name="hello", instanceCount=3)
    info = job_pb2.JobInfo(id=peloton_pb2.JobID(value=JOB), config=config, runtime=runtime)
    return job_pb2.GetResponse(jobInfo=info)


def test_create_looks_the_pool_up_and_sends_the_spec(run: Run, daemons: FakeDaemons, spec: str) -> None:
    outcome = run("job", "create", "/DefaultResPool", spec, "-i", JOB)
    assert outcome == (0, f"Job {JOB} created\n", "")
    assert daemons.requests("LookupResourcePoolID")[0].path.value == "/DefaultResPool"
    request = daemons.requests("Create")[0]
    assert (request.id.value, request.config.respoolID.value, request.config.instanceCount) == (JOB, POOL, 3)
    [metadata] = [metadata for method, _, metadata in daemons.asked if method == "Create"]
    assert (metadata["rpc-service"], metadata["rpc-encoding"]) == ("peloton-jobmgr", "proto")


MIXED = """
name: mixed
instanceCount: 7
sla: {minimumRunningInstances: 2}
defaultConfig: {command: {value: 'true'}, resource: {cpuLimit: 1}, ports: [{name: web, envName: WEB}]}
instanceConfig:
  3: {resource: {cpuLimit: 5}}
  4: {resource: {cpuLimit: 5}}
  6: {resource: {cpuLimit: 6}, revocable: true}
"""


def test_create_warns_of_instances_that_no_host_could_take(
    run: Run, daemons: FakeDaemons, tmp_path: Path
) -> None:
    file = tmp_path / "mixed.yaml"
    file.write_text(MIXED)
    large = {5.0: "needs 5 cores on one host; waits for a larger one"}
    daemons.answers["CheckGangs"] = lambda request: checked(request, large)
    outcome = run("job", "create", "/p", str(file))
    assert (outcome.code, outcome.out) == (0, f"Job {JOB} created\n")
    assert outcome.err == (
        "warning: instances 3-4 cannot be placed, not even on empty hosts: needs 5 cores on one host; "
        "waits for a larger one\n"
    )
    [request] = daemons.requests("CheckGangs")
    asked = [
        [(each.filter.resourceConstraint.minimum.cpuLimit, each.count) for each in gang.members]
        for gang in request.gangs
    ]
    assert asked == [[(1, 1)], [(5, 1)], [(6, 1)], [(1, 2)]], "one of each, and the gang of two"
    assert request.gangs[0].members[0].filter.resourceConstraint.numPorts == 1
    assert request.gangs[2].members[0].filter.resourceConstraint.revocable
    outcome = run("-j", "job", "create", "/p", str(file))
    assert json.loads(outcome.out)["jobId"] == {"value": JOB} and outcome.err.startswith("warning: ")


def test_create_does_not_warn_where_hostmgr_does_not_answer(
    run: Run, daemons: FakeDaemons, spec: str
) -> None:
    daemons.answers["CheckGangs"] = (grpc.StatusCode.UNAVAILABLE, "the map of agents has not been read yet")
    assert run("job", "create", "/p", spec) == (0, f"Job {JOB} created\n", "")


def test_follow_shows_why_tasks_wait_while_nothing_changes(
    run: Run, daemons: FakeDaemons, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(progress, "_PLAIN_INTERVAL", 0.0)
    stuck = job("PENDING", PENDING=3)
    daemons.answers["Get"] = [stuck, stuck, job("SUCCEEDED", SUCCEEDED=3)]
    runtime = task_pb2.RuntimeInfo(state=task_pb2.PENDING, reason="needs 5 cores on one host")
    daemons.answers["Query"] = task_pb2.QueryResponse(records=[task_pb2.TaskInfo(runtime=runtime)])
    outcome = run("job", "create", "/p", spec, "--follow")
    assert outcome.out.splitlines()[1:] == [
        "PENDING  0/3 ended: PENDING 3",
        "PENDING  0/3 ended: PENDING 3; waits: needs 5 cores on one host",
        "SUCCEEDED  3/3 ended: SUCCEEDED 3",
    ]
    assert len(daemons.requests("Query")) == 1


def test_create_sends_a_secret_and_never_prints_it(
    run: Run, daemons: FakeDaemons, spec: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\x00hush")
    outcome = run("job", "create", "/p", spec, "--secret-path", "/etc/key", "--secret-data", f"@{secret}")
    assert outcome.code == 0 and "hush" not in outcome.out + outcome.err
    sent = daemons.requests("Create")[0].secrets
    assert [(one.path, one.value.data) for one in sent] == [("/etc/key", b"\x00hush")]


def test_secret_options_belong_together(run: Run, daemons: FakeDaemons, spec: str) -> None:
    outcome = run("job", "create", "/p", spec, "--secret-path", "/etc/key")
    assert outcome.code == 2 and "--secret-data" in outcome.err
    assert not daemons.asked


def test_a_job_whose_config_is_refused_has_no_id(run: Run, daemons: FakeDaemons, spec: str) -> None:
    refusal = job_pb2.InvalidJobConfig(
        id=peloton_pb2.JobID(value="made-and-dropped"),
        message="instanceCount: 0 is not a number from 1 to 10",
    )
    daemons.answers["Create"] = job_pb2.CreateResponse(
        error=job_pb2.CreateResponse.Error(invalidConfig=refusal)
    )
    said = f"peloton: {spec}:2: instanceCount: 0 is not a number from 1 to 10\n"
    assert run("job", "create", "/a", spec).err == said


def test_a_refused_field_is_told_with_its_line(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: x\ninstanceCount: 200000\ndefaultConfig: {command: {value: x}}\n")
    text = "instanceCount: 200000 is not a number from 1 to 100000"
    error = job_pb2.CreateResponse.Error(invalidConfig=job_pb2.InvalidJobConfig(message=text))
    daemons.answers["Create"] = job_pb2.CreateResponse(error=error)
    assert run("job", "create", "/a", str(file)) == (1, "", f"peloton: {file}:2: {text}\n")


def test_the_first_of_several_errors_is_told_with_their_number(
    run: Run, daemons: FakeDaemons, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: x\ninstanceCount: no\nsla: {priority: high}\n")
    said = run("job", "create", "/a", str(file)).err
    assert said.startswith(f"peloton: {file}:2: instanceCount: ")
    assert said.endswith("(and 1 more error: `peloton job validate` lists all)\n")
    assert not daemons.requests("Create")


def test_a_job_that_cannot_be_stopped_is_named_once(run: Run, daemons: FakeDaemons) -> None:
    missing = errors_pb2.JobNotFound(id=peloton_pb2.JobID(value=JOB), message="job not found")
    daemons.answers["Stop"] = task_pb2.StopResponse(error=task_pb2.StopResponse.Error(notFound=missing))
    assert run("job", "stop", JOB).err == f"peloton: job not found: {JOB}\n"


def test_refused_create_shows_the_servers_message(run: Run, daemons: FakeDaemons, spec: str) -> None:
    refusal = job_pb2.InvalidJobConfig(message="instanceCount: 0 is not between 1 and 100000")
    daemons.answers["Create"] = job_pb2.CreateResponse(
        error=job_pb2.CreateResponse.Error(invalidConfig=refusal)
    )
    outcome = run("job", "create", "/p", spec)
    assert outcome == (1, "", f"peloton: {spec}:2: instanceCount: 0 is not between 1 and 100000\n")


def test_refusal_that_names_the_pool_is_unchanged(run: Run, daemons: FakeDaemons, spec: str) -> None:
    missing = respool_pb2.ResourcePoolPathNotFound(message="no resource pool '/a/b': /a has no child 'b'")
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        error=respool_pb2.LookupResponse.Error(notFound=missing)
    )
    assert run("job", "create", "/a/b", spec) == (1, "", f"peloton: {missing.message}\n")


def test_refusal_names_the_job(run: Run, daemons: FakeDaemons) -> None:
    missing = errors_pb2.JobNotFound(id=peloton_pb2.JobID(value=JOB), message="job not found")
    daemons.answers["Get"] = job_pb2.GetResponse(error=job_pb2.GetResponse.Error(notFound=missing))
    assert run("job", "get", JOB) == (1, "", f"peloton: job not found: {JOB}\n")


def test_unknown_pool(run: Run, daemons: FakeDaemons, spec: str) -> None:
    missing = respool_pb2.ResourcePoolPathNotFound(message="no pool has this path")
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        error=respool_pb2.LookupResponse.Error(notFound=missing)
    )
    outcome = run("job", "create", "nowhere", spec)
    assert outcome.code == 1
    assert outcome.err.startswith(
        "peloton: resource pool 'nowhere': no pool has this path: a pool's path begins"
    )
    assert not daemons.requests("Create")


def test_bad_spec_names_file_line_path_and_value(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("defaultconfig:\n  resource:\n    cpulimit: -1\n")
    outcome = run("job", "create", "/p", str(file))
    expected = f"peloton: {file}:3: defaultconfig.resource.cpulimit: -1 is not a number of 0 or more\n"
    assert outcome == (1, "", expected)
    assert not daemons.asked


def test_follow_prints_a_line_per_change(
    run: Run, daemons: FakeDaemons, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    daemons.answers["Get"] = [
        job("PENDING", PENDING=3),
        job("RUNNING", PENDING=1, RUNNING=2),
        job("SUCCEEDED", SUCCEEDED=3),
    ]
    outcome = run("job", "create", "/p", spec, "--follow")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"Job {JOB} created",
        "PENDING  0/3 ended: PENDING 3",
        "RUNNING  0/3 ended: RUNNING 2, PENDING 1",
        "SUCCEEDED  3/3 ended: SUCCEEDED 3",
    ]


def test_follow_waits_for_a_restarting_job_manager(
    run: Run, daemons: FakeDaemons, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    away = (grpc.StatusCode.UNAVAILABLE, "not the leader: ask 10.0.0.1:5392")
    daemons.answers["Get"] = [job("RUNNING", RUNNING=3), away, job("SUCCEEDED", SUCCEEDED=3)]
    outcome = run("job", "create", "/p", spec, "--follow")
    assert outcome.code == 0 and "does not answer" in outcome.out


def test_follow_of_a_job_that_fails_says_which_instances_and_why(
    run: Run, daemons: FakeDaemons, spec: str
) -> None:
    daemons.answers["Get"] = job("FAILED", FAILED=1, SUCCEEDED=2)
    failed = task_pb2.TaskInfo(
        instanceId=2,
        runtime=task_pb2.RuntimeInfo(state=task_pb2.FAILED, message="Command exited with status 3"),
    )
    daemons.answers["Query"] = task_pb2.QueryResponse(records=[failed])
    outcome = run("job", "create", "/p", spec, "--follow")
    assert outcome.code == 4
    assert outcome.err.splitlines() == [
        f"Job {JOB} ended FAILED",
        "  instance 2 FAILED: Command exited with status 3",
    ]


def test_follow_with_json_prints_one_object_and_the_progress_elsewhere(
    run: Run, daemons: FakeDaemons, spec: str
) -> None:
    daemons.answers["Get"] = job("SUCCEEDED", SUCCEEDED=3)
    outcome = run("-j", "job", "create", "/p", spec, "--follow")
    assert outcome.code == 0
    assert json.loads(outcome.out)["runtime"]["state"] == "SUCCEEDED"
    assert "3/3 ended" in outcome.err


def test_get_is_yaml_and_json_on_request(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = job("RUNNING", RUNNING=2)
    shown = yaml.safe_load(run("job", "get", JOB).out)["jobInfo"]
    assert (shown["config"]["name"], shown["runtime"]["state"]) == ("hello", "RUNNING")
    for place in (("-j", "job", "get", JOB), ("job", "get", JOB, "--json")):
        assert json.loads(run(*place).out)["jobInfo"]["runtime"]["taskStats"] == {"RUNNING": 2}


def test_status_shows_the_runtime(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = job("RUNNING", RUNNING=2)
    assert yaml.safe_load(run("job", "status", JOB).out)["state"] == "RUNNING"


def test_unknown_job(run: Run, daemons: FakeDaemons) -> None:
    missing = errors_pb2.JobNotFound(id=peloton_pb2.JobID(value=JOB))
    daemons.answers["Get"] = job_pb2.GetResponse(error=job_pb2.GetResponse.Error(notFound=missing))
    assert run("job", "get", JOB) == (1, "", f"peloton: job not found: {JOB}\n")
    missing.message = f"job {JOB!r} not found"
    daemons.answers["Get"] = job_pb2.GetResponse(error=job_pb2.GetResponse.Error(notFound=missing))
    assert run("job", "get", JOB).err == f"peloton: job {JOB!r} not found\n"


def test_delete_of_a_running_job(run: Run, daemons: FakeDaemons) -> None:
    text = "Job is not in a terminal state: RUNNING"
    daemons.answers["Delete"] = (grpc.StatusCode.INTERNAL, text)
    assert run("job", "delete", JOB) == (1, "", f"peloton: {text} (INTERNAL)\n")
    daemons.answers["Delete"] = job_pb2.DeleteResponse()
    assert run("job", "delete", JOB).out == f"Job {JOB} deleted\n"


def test_stop_one_with_progress(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Stop"] = task_pb2.StopResponse(stoppedInstanceIds=[0, 1, 2])
    daemons.answers["Get"] = job("KILLED", KILLED=3)
    outcome = run("job", "stop", JOB, "--progress")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"Job {JOB} is being stopped: 3 instances",
        "KILLED  3/3 ended: KILLED 3",
    ]
    request = daemons.requests("Stop")[0]
    assert (request.jobId.value, len(request.ranges)) == (JOB, 0)


def test_stop_by_owner_and_labels(run: Run, daemons: FakeDaemons) -> None:
    found = [job_pb2.JobSummary(id=peloton_pb2.JobID(value=name)) for name in ("a", "b")]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=found)
    daemons.answers["Stop"] = task_pb2.StopResponse()
    outcome = run("job", "stop", "--owner", "me", "-l", "team=data", "--force", "-j")
    assert [one["jobId"] for one in json.loads(outcome.out)] == ["a", "b"]
    spec = daemons.requests("Query")[0].spec
    assert spec.owner == "me" and [(one.key, one.value) for one in spec.labels] == [("team", "data")]
    assert job_pb2.SUCCEEDED not in spec.jobStates and job_pb2.RUNNING in spec.jobStates


def test_stop_continues_after_a_refusal(run: Run, daemons: FakeDaemons) -> None:
    found = [job_pb2.JobSummary(id=peloton_pb2.JobID(value=name)) for name in ("a", "b")]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=found)
    missing = task_pb2.StopResponse.Error(notFound=errors_pb2.JobNotFound(message="job not found"))
    daemons.answers["Stop"] = [task_pb2.StopResponse(error=missing), task_pb2.StopResponse()]
    outcome = run("job", "stop", "--owner", "me", "-f")
    assert outcome == (1, "Job b has no instance left to stop\n", "peloton: job a: job not found\n")


def test_stop_confirms_before_stopping_found_jobs(
    run: Run, daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [job_pb2.JobSummary(id=peloton_pb2.JobID(value="a"))]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=found)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    outcome = run("job", "stop", "--owner", "me")
    assert (outcome.code, outcome.out) == (1, "")
    assert "ID  Name  Type   State    Instances\n" in outcome.err
    assert "Stop this job?" in outcome.err and not daemons.requests("Stop")


def test_stop_requires_exactly_one_selection(run: Run, daemons: FakeDaemons) -> None:
    assert run("job", "stop").code == 2
    assert run("job", "stop", JOB, "--owner", "me").code == 2
    assert not daemons.asked


def test_query_sends_its_flags_and_prints_a_table(run: Run, daemons: FakeDaemons) -> None:
    runtime = job("RUNNING", RUNNING=2, SUCCEEDED=1).jobInfo.runtime
    summary = job_pb2.JobSummary(
        id=peloton_pb2.JobID(value=JOB), name="hello", owner="me", instanceCount=3, runtime=runtime
    )
    daemons.answers["Query"] = job_pb2.QueryResponse(results=[summary])
    outcome = run(
        *("job", "query", "-s", "running,failed", "-k", "a,b", "--name", "he*", "-r", "/p", "-d", "2"),
        *("-n", "5", "-q", "50", "-o", "1", "-p", "name", "-a", "asc"),
    )
    assert outcome.out == (
        "ID                                    Name   Type   Owner  State    Created               "
        "Completed  Instances  Running  Succeeded  Failed  Killed\n"
        f"{JOB}  hello  BATCH  me     RUNNING  2026-01-31T12:00:00Z             3          2        1"
        "          0       0\n"
    )
    request = daemons.requests("Query")[0]
    spec, page = request.spec, request.spec.pagination
    assert list(spec.jobStates) == [job_pb2.RUNNING, job_pb2.FAILED] and request.summaryOnly
    assert (list(spec.keywords), spec.name, spec.respool.value) == (["a", "b"], "he*", "/p")
    assert (page.limit, page.maxLimit, page.offset) == (5, 50, 1)
    assert (page.orderBy[0].property.value, page.orderBy[0].order) == ("name", 1)
    span = spec.creationTimeRange
    assert span.max.seconds - span.min.seconds == 2 * 86400 + 1


@pytest.mark.parametrize(
    ("command", "method", "answer", "expected"),
    [
        ("refresh", "Refresh", job_pb2.RefreshResponse(), f"Job {JOB} refreshed\n"),
        (
            "cache",
            "GetCache",
            job_pb2.GetCacheResponse(runtime=job_pb2.RuntimeInfo(state=job_pb2.RUNNING)),
            "runtime:\n  state: RUNNING\n",
        ),
    ],
)
def test_one_object(
    run: Run, daemons: FakeDaemons, command: str, method: str, answer: Any, expected: str
) -> None:
    daemons.answers[method] = answer
    assert run("job", command, JOB) == (0, expected, "")
    assert daemons.requests(method)[0].id.value == JOB


def test_active_list(run: Run, daemons: FakeDaemons) -> None:
    ids = [peloton_pb2.JobID(value=name) for name in ("b", "a")]
    daemons.answers["GetActiveJobs"] = job_pb2.GetActiveJobsResponse(ids=ids)
    assert run("job", "active-list").out == "a\nb\n"


def test_priority_classes(run: Run, daemons: FakeDaemons) -> None:
    made = scheduling_pb2.PriorityClass(name="production", priority=100, description="for customers")
    answer = scheduling_pb2.ListPriorityClassesResponse(classes=[made])
    daemons.answers["ListPriorityClasses"] = answer
    printed = run("job", "priority-classes").out.splitlines()
    assert [line.split() for line in printed] == [
        ["CLASS", "PRIORITY", "DESCRIPTION"],
        ["production", "100", "for", "customers"],
    ]


def test_update(run: Run, daemons: FakeDaemons, spec: str) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse()
    daemons.answers["Update"] = job_pb2.UpdateResponse(message="added 2 instances")
    assert run("job", "update", JOB, spec).out == f"Job {JOB} updated: added 2 instances\n"
    request = daemons.requests("Update")[0]
    assert request.config.instanceCount == 3 and not request.config.HasField("respoolID")


def test_update_keeps_secrets_but_the_one_that_is_given(run: Run, daemons: FakeDaemons, spec: str) -> None:
    held = [peloton_pb2.Secret(id=peloton_pb2.SecretID(value=path), path=path) for path in ("/a", "/b")]
    daemons.answers["Get"] = job_pb2.GetResponse(secrets=held)
    daemons.answers["Update"] = job_pb2.UpdateResponse()
    assert run("job", "update", JOB, spec).code == 0
    assert list(daemons.requests("Update")[0].secrets) == held
    assert run("job", "update", JOB, spec, "--secret-path", "/a", "--secret-data", "new").code == 0
    given, kept = daemons.requests("Update")[1].secrets
    assert (given.id.value, given.path, given.value.data) == ("", "/a", b"new")
    assert kept == held[1]


def test_secrets_on_the_line_are_warned_of(
    run: Run, daemons: FakeDaemons, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("--secret-path", "/key", "--secret-data")
    outcome = run("job", "create", "/p", spec, *given, "hush")
    assert (
        outcome.code == 0 and "warning: --secret-data: others on this machine see the secret" in outcome.err
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from \xff input")))
    outcome = run("job", "create", "/p", spec, *given, "-")
    assert (outcome.code, outcome.err) == (0, "")
    sent = [request.secrets[0].value.data for request in daemons.requests("Create")]
    assert sent == [b"hush", b"from \xff input"]
    assert run("job", "create", "/p", "-", *given, "-").code == 2
    assert run("job", "create", "/p", spec, *given, "@/none").err.endswith(
        "/none cannot be read: No such file or directory\n"
    )
    assert run("job", "create", "/p", spec, "--follow", "--dry-run").code == 2


def test_release_names_ranges_or_a_number(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["ReleaseInstances"] = instances_pb2.ReleaseInstancesResponse(
        released_instances=[3, 5, 6], already_released_instances=[7], instance_count=4
    )
    outcome = run("job", "release", JOB, "3", "5:8", "--resourceVersion", "2")
    assert outcome == (0, f"Job {JOB}: released 3 instances (3:4, 5:7); it has 4 instances now\n", "")
    request = daemons.requests("ReleaseInstances")[0]
    assert [(getattr(each, "from"), each.to) for each in request.ranges] == [(3, 4), (5, 8)]
    assert (request.job_id.value, request.resource_version, request.instance_count) == (JOB, 2, 0)

    daemons.answers["ReleaseInstances"] = instances_pb2.ReleaseInstancesResponse(instance_count=1)
    outcome = run("job", "release", JOB, "--down-to", "1")
    assert outcome.out == f"Job {JOB}: nothing to release; it has 1 instance now\n"
    assert daemons.requests("ReleaseInstances")[1].instance_count == 1


def test_a_job_is_suspended_and_goes_on(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["SuspendJob"] = scheduling_pb2.SuspendJobResponse()
    daemons.answers["ResumeJob"] = scheduling_pb2.ResumeJobResponse()
    assert run("job", "suspend", JOB) == (0, f"Job {JOB} is suspended\n", "")
    assert run("job", "resume", JOB) == (0, f"Job {JOB} goes on\n", "")
    for method in ("SuspendJob", "ResumeJob"):
        assert [each.job_id.value for each in daemons.requests(method)] == [JOB]


@pytest.mark.parametrize("arguments", [(), ("3", "--down-to", "1"), ("5:5",), ("--down-to", "0")])
def test_release_needs_one_of_both(run: Run, daemons: FakeDaemons, arguments: tuple[str, ...]) -> None:
    assert run("job", "release", JOB, *arguments).code == 2
    assert not daemons.asked


def test_update_tells_the_numbers_of_what_it_adds(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    daemons.answers["Get"] = job("RUNNING", RUNNING=2)
    daemons.answers["Update"] = job_pb2.UpdateResponse(message="added 3 instances", addedInstances=[1, 2, 7])
    config = tmp_path / "job.yaml"
    config.write_text("name: a\ninstanceCount: 5\n")
    outcome = run("job", "update", JOB, str(config))
    assert outcome.out == f"Job {JOB} updated: added 3 instances (1:3, 7:8)\n"
