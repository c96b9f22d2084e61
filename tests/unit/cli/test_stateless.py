"""`peloton job stateless`, against a fake JobService."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.cli.rows import TASK_HEADS
from peloton.private.hostmgr.feasibility import feasibility_pb2

from .conftest import Run
from .fakes import FakeDaemons, Stream

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
POOL = "0a5e1f3e-8bd0-4a1f-8d35-8f0c2a3d4e5f"
VERSION = peloton_pb2.EntityVersion(value="2-1-2")
STALE = (grpc.StatusCode.ABORTED, "unexpected entity version")
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "job not found")
SPEC = """
name: web
InstanceCount: 3
default_spec: {Containers: [{name: main, entrypoint: {value: sleep 600}}]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "web.yaml"
    file.write_text(SPEC)
    return str(file)


@pytest.fixture(autouse=True)
def answers(daemons: FakeDaemons) -> None:
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        id=v0_peloton.ResourcePoolID(value=POOL)
    )
    daemons.answers["CreateJob"] = pb.CreateJobResponse(job_id=job_id(), version=VERSION)
    daemons.answers["ReplaceJob"] = pb.ReplaceJobResponse(version=VERSION)
    daemons.answers["RestartJob"] = pb.RestartJobResponse(version=VERSION)
    daemons.answers["StartJob"] = pb.StartJobResponse(version=VERSION)
    daemons.answers["StopJob"] = pb.StopJobResponse(version=VERSION)
    daemons.answers["DeleteJob"] = pb.DeleteJobResponse()
    daemons.answers["PauseJobWorkflow"] = pb.PauseJobWorkflowResponse(version=VERSION)
    daemons.answers["ResumeJobWorkflow"] = pb.ResumeJobWorkflowResponse(version=VERSION)
    daemons.answers["AbortJobWorkflow"] = pb.AbortJobWorkflowResponse(version=VERSION)
    daemons.answers["RefreshJob"] = pb.RefreshJobResponse()
    daemons.answers["GetJob"] = lambda request: got(request, "SUCCEEDED")
    daemons.answers["CheckGangs"] = feasibility_pb2.CheckGangsResponse()


def job_id() -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=JOB)


def got(request: pb.GetJobRequest, workflow: str) -> pb.GetJobResponse:
    """The summary of a job whose last workflow is in this state; or its spec, named by its version."""
    status = stateless_pb2.JobStatus(version=peloton_pb2.EntityVersion(value="5-1-7"))
    status.workflow_status.type = stateless_pb2.WORKFLOW_TYPE_UPDATE
    status.workflow_status.state = stateless_pb2.WorkflowState.Value(f"WORKFLOW_STATE_{workflow}")
    status.workflow_status.num_instances_completed = 1
    status.workflow_status.num_instances_remaining = 2
    answer = pb.GetJobResponse()
    if request.summary_only:
        answer.summary.status.CopyFrom(status)
    else:
        answer.job_info.spec.name = f"spec of {request.version.value or 'now'}"
    return answer


def test_create_sends_the_spec_with_its_pool(run: Run, daemons: FakeDaemons, spec: str) -> None:
    flags = ("--maxInstanceRetries", "4", "--maxTolerableInstanceFailures", "5", "--start-paused")
    outcome = run("job", "stateless", "create", "/infra", spec, "2", *flags, "--opaque-data", "why")
    assert outcome == (0, f"Job {JOB} created, entity version 2-1-2\n", "")
    [request] = daemons.requests("CreateJob")
    assert (request.spec.name, request.spec.instance_count, request.spec.respool_id.value) == ("web", 3, POOL)
    assert request.spec.default_spec.containers[0].entrypoint.value == "sleep 600"
    assert request.create_spec == stateless_pb2.CreateSpec(
        batch_size=2, max_instance_retries=4, max_tolerable_instance_failures=5, start_paused=True
    )
    assert request.opaque_data.data == "why"


@pytest.mark.parametrize("command", ["create", "replace"])
def test_instances_that_no_host_could_take_are_warned_of(
    run: Run, daemons: FakeDaemons, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        "instance_count: 3\ndefault_spec: {containers: [{resource: {cpu_limit: 1}}]}\n"
        "instance_spec: {2: {containers: [{resource: {cpu_limit: 99}}]}}\n"
    )

    def checked(request: feasibility_pb2.CheckGangsRequest) -> feasibility_pb2.CheckGangsResponse:
        answer = feasibility_pb2.CheckGangsResponse()
        for gang in request.gangs:
            cpu = gang.members[0].filter.resourceConstraint.minimum.cpuLimit
            answer.verdicts.add(shortage=feasibility_pb2.Shortage(text="needs 99 cpu") if cpu > 9 else None)
        return answer

    daemons.answers["CheckGangs"] = checked
    arguments = ["/infra", str(file), "1"] if command == "create" else [JOB, str(file), "1", "/infra"]
    outcome = run("job", "stateless", command, *arguments)
    assert (outcome.code, outcome.err) == (
        0,
        "warning: instance 2 cannot be placed, not even on empty hosts: needs 99 cpu; "
        "waiting until the hosts change\n",
    )


def test_create_refuses_a_spec_with_a_typing_error(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("name: web\ndefaultspec: {containers: [{nmae: main}]}\n")
    outcome = run("job", "stateless", "create", "/infra", str(file), "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert (
        outcome.err == f"peloton: {file}:2: defaultspec.containers[0].nmae: unknown key; did you mean name?\n"
    )
    assert not daemons.asked


def test_a_spec_that_names_another_pool_is_refused(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("name: web\nrespool_id: {value: other}\n")
    outcome = run("job", "stateless", "create", "/infra", str(file), "1")
    assert outcome.code == 1
    assert "respool_id: 'other' is not the pool /infra: leave it out of the spec" in outcome.err
    assert not daemons.requests("CreateJob")


def test_replace_sends_the_version_and_the_flags(run: Run, daemons: FakeDaemons, spec: str) -> None:
    flags = ("--maxInstanceRetries=4", "--maxTolerableInstanceFailures=5", "--rollbackOnFailure")
    more = ("--start-paused", "--opaque-data=why", "--in-place", "--start-pods")
    outcome = run("job", "stateless", "replace", JOB, spec, "3", "/infra", "1-1-1", *flags, *more)
    assert outcome == (0, f"Job {JOB} is being updated, entity version 2-1-2\n", "")
    [request] = daemons.requests("ReplaceJob")
    assert (request.job_id.value, request.version.value, request.spec.name) == (JOB, "1-1-1", "web")
    assert request.update_spec == stateless_pb2.UpdateSpec(
        batch_size=3,
        rollback_on_failure=True,
        max_instance_retries=4,
        max_tolerable_instance_failures=5,
        start_paused=True,
        in_place=True,
        start_pods=True,
    )
    assert request.opaque_data.data == "why"
    assert not daemons.requests("GetJob"), "a version that is given is not looked up"


def test_an_edited_entrypoint_beside_the_old_command_is_warned_of(
    run: Run, daemons: FakeDaemons, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        "default_spec: {containers: [{command: {value: old}, entrypoint: {value: old}}]}\n"
        "instance_spec: {4: {containers: [{command: {value: old}, entrypoint: {value: new}}]}}\n"
    )
    outcome = run("job", "stateless", "replace", JOB, str(file), "1", "/infra")
    assert (outcome.code, outcome.err) == (
        0,
        f"warning: {file}: instance_spec[4].containers[0].entrypoint has no effect: it differs from command, "
        "which is used; leave out one\n",
    )


def test_replace_without_a_version_takes_the_present_one(run: Run, daemons: FakeDaemons, spec: str) -> None:
    assert run("job", "stateless", "replace", JOB, spec, "0", "/infra").code == 0
    assert daemons.requests("ReplaceJob")[0].version.value == "5-1-7"
    daemons.answers["ReplaceJob"] = STALE
    outcome = run("job", "stateless", "replace", JOB, spec, "0", "/infra")
    assert outcome.code == 1
    assert outcome.err == (
        f"peloton: job {JOB} was changed by others at the same time: look at it, then try again\n"
    )


@pytest.mark.parametrize("state", ["INITIALIZED", "ROLLING_FORWARD", "PAUSED", "ROLLING_BACKWARD"])
@pytest.mark.parametrize("command", ["replace", "rollback"])
def test_an_update_under_way_is_replaced_with_override_only(
    run: Run, daemons: FakeDaemons, spec: str, command: str, state: str
) -> None:
    daemons.answers["GetJob"] = lambda request: got(request, state)
    arguments = [spec, "1", "/infra"] if command == "replace" else ["1", "1-0-0"]
    outcome = run("job", "stateless", command, JOB, *arguments)
    assert outcome == (
        1,
        "",
        f"peloton: job {JOB}: an update is under way ({state}, 1 instances done, 2 to go): "
        "--override replaces it\n",
    )
    assert not daemons.requests("ReplaceJob")
    assert run("job", "stateless", command, JOB, *arguments, "-o").code == 0
    assert daemons.requests("ReplaceJob")[0].version.value == "5-1-7"


def test_rollback_replaces_with_the_spec_of_the_version(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "stateless", "rollback", JOB, "2", "3-1-4", "--in-place")
    assert outcome.out == f"Job {JOB} is being updated to its spec of 3-1-4, entity version 2-1-2\n"
    [request] = daemons.requests("ReplaceJob")
    assert (request.spec.name, request.version.value) == ("spec of 3-1-4", "5-1-7")
    assert (request.update_spec.batch_size, request.update_spec.in_place) == (2, True)


def test_replace_diff_prints_closed_ranges(run: Run, daemons: FakeDaemons, spec: str) -> None:
    def span(low: int, high: int) -> pod_pb2.InstanceIDRange:
        return pod_pb2.InstanceIDRange(**{"from": low, "to": high})

    daemons.answers["GetReplaceJobDiff"] = pb.GetReplaceJobDiffResponse(
        instances_added=[span(3, 3)], instances_updated=[span(0, 1), span(4, 9)]
    )
    outcome = run("job", "stateless", "replace-diff", JOB, spec, "/infra", "1-1-1")
    assert outcome.out == "added: 3\nremoved: none\nupdated: 0-1, 4-9\nunchanged: none\n"
    [request] = daemons.requests("GetReplaceJobDiff")
    assert (request.version.value, request.spec.respool_id.value) == ("1-1-1", POOL)


def test_restart_sends_its_ranges(run: Run, daemons: FakeDaemons) -> None:
    outcome = run(
        *("job", "stateless", "restart", JOB, "1-1-1", "-r", "0:2", "-r", "4"),
        *("--batch-size", "3", "--in-place", "--opaque-data", "why"),
    )
    assert outcome == (0, f"Job {JOB} is being restarted, entity version 2-1-2\n", "")
    [request] = daemons.requests("RestartJob")
    wanted = request.restart_spec
    assert [(getattr(each, "from"), each.to) for each in wanted.ranges] == [(0, 2), (4, 5)]
    assert (wanted.batch_size, wanted.in_place, request.opaque_data.data) == (3, True, "why")


@pytest.mark.parametrize(
    ("arguments", "method", "said"),
    [
        (("start",), "StartJob", f"Job {JOB} is being started, entity version 2-1-2"),
        (("stop",), "StopJob", f"Job {JOB} is being stopped, entity version 2-1-2"),
        (("delete",), "DeleteJob", f"Job {JOB} is being deleted"),
        (("workflow", "pause"), "PauseJobWorkflow", f"Workflow of job {JOB} paused, entity version 2-1-2"),
        (("workflow", "resume"), "ResumeJobWorkflow", f"Workflow of job {JOB} resumed, entity version 2-1-2"),
        (("workflow", "abort"), "AbortJobWorkflow", f"Workflow of job {JOB} aborted, entity version 2-1-2"),
    ],
)
def test_commands_of_a_version(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], method: str, said: str
) -> None:
    assert run("job", "stateless", *arguments, JOB, "1-1-1") == (0, f"{said}\n", "")
    assert daemons.requests(method)[0].version.value == "1-1-1"

    daemons.answers[method] = STALE
    outcome = run("job", "stateless", *arguments, JOB, "1-1-1")
    assert outcome == (
        1,
        "",
        f"peloton: job {JOB}: 1-1-1 is not its present entity version (unexpected entity version): "
        f"`peloton job stateless get {JOB} --summaryonly` shows it, as status.version\n",
    )

    daemons.answers[method] = NOT_FOUND
    outcome = run("job", "stateless", *arguments, JOB, "1-1-1")
    assert outcome == (1, "", f"peloton: job {JOB}: job not found (NOT_FOUND)\n")

    asked = len(daemons.asked)
    outcome = run("job", "stateless", *arguments, JOB, "1")
    assert (outcome.code, outcome.out, len(daemons.asked)) == (2, "", asked)
    assert (
        "'1' is not an entity version, such as 3-1-2: `peloton job stateless get JOB --summaryonly` shows "
        "the present one"
    ) in outcome.err


def test_delete_force(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "stateless", "delete", JOB, "1-1-1", "-f")
    assert outcome == (0, f"Job {JOB} is being deleted\n", "")
    assert daemons.requests("DeleteJob")[0].force


def test_opaque_data_of_a_pause(run: Run, daemons: FakeDaemons) -> None:
    run("job", "stateless", "workflow", "pause", JOB, "1-1-1", "--opaque-data", "why")
    assert daemons.requests("PauseJobWorkflow")[0].opaque_data.data == "why"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "/infra", "web.yaml", "one"), "'one' is not a whole number from 0 to 4294967295"),
        (("create", "/infra", "web.yaml", "4294967296"), "is not a whole number from 0 to 4294967295"),
        (("create", "/infra", "web.yaml"), "Missing argument 'BATCH-SIZE'"),
        (("stop", JOB), "It is a version such as 3-1-2: `peloton job stateless get JOB --summaryonly` shows"),
        (("restart", JOB, "1-1-1", "--batch-size", "-1"), "'-1' is not a whole number from 0 to"),
        (("restart", JOB, "1-1-1", "-r", "5:2"), "'5:2' is empty"),
        (("replace", JOB, "web.yaml", "1", "/infra", "-"), "'-' is not an entity version, such as 3-1-2"),
        (("replace", JOB, "web.yaml", "1", "/infra", "--maxInstanceRetries", "-1"), "whole number from 0"),
        (("list-updates", JOB, "--limit", "0"), "'0' is not a whole number from 1 to 4294967295"),
        (("workflow", "events", JOB, "x"), "'x' is not a whole number from 0 to 4294967295"),
        (("workflow", "puase", JOB, "1-1-1"), "Did you mean 'pause'?"),
        (("query", "-s", "RUNING"), "did you mean RUNNING?"),
        (("get", JOB, "--jobversion", "1-1-1", "--summaryonly"), "do not go together"),
    ],
)
def test_wrong_arguments_exit_with_2(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run("job", "stateless", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert not daemons.asked


def test_get_shows_the_spec_of_a_version(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "stateless", "get", JOB, "--jobversion", "3-1-4")
    assert outcome == (0, "job_info:\n  spec:\n    name: spec of 3-1-4\n", "")
    assert "    value: 5-1-7\n" in run("job", "stateless", "get", JOB, "--summaryonly").out
    status = json.loads(run("job", "stateless", "get", JOB, "--summaryonly", "-j").out)["summary"]["status"]
    assert status["version"] == {"value": "5-1-7"}


def test_a_name_for_a_job_is_answered_with_how_to_find_its_id(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["GetJob"] = NOT_FOUND
    assert run("job", "stateless", "get", "web").err == (
        "peloton: job web: job not found (NOT_FOUND): a job is given by its id, a UUID; "
        "`peloton job stateless query --name NAME` finds it\n"
    )


def summary(name: str, **pods: int) -> stateless_pb2.JobSummary:
    status = stateless_pb2.JobStatus(
        state=stateless_pb2.JOB_STATE_RUNNING,
        creation_time="2026-01-31T12:00:00.5Z",
        version=VERSION,
        pod_stats={f"POD_STATE_{state}": count for state, count in pods.items()},
    )
    return stateless_pb2.JobSummary(
        job_id=job_id(), name=name, owning_team="infra", instance_count=3, status=status
    )


def test_list_joins_the_messages_of_the_stream(run: Run, daemons: FakeDaemons) -> None:
    first = pb.ListJobsResponse(jobs=[summary("a", RUNNING=2, FAILED=1)])
    daemons.answers["ListJobs"] = Stream(first, pb.ListJobsResponse(jobs=[summary("b", RUNNING=3)]))
    heads, a, b = run("job", "stateless", "list").out.splitlines()
    assert heads.split()[-3:] == ["Killed", "Entity", "Version"]
    row = [JOB, "a", "infra", "RUNNING", "2026-01-31T12:00:00Z", "3", "2", "0", "1", "0", "2-1-2"]
    assert a.split() == row
    assert b.split()[1] == "b"
    jobs = json.loads(run("job", "stateless", "list", "-j").out)["jobs"]
    assert [job["name"] for job in jobs] == ["a", "b"]


def test_query_sends_all_of_its_flags(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["QueryJobs"] = pb.QueryJobsResponse(records=[summary("a")])
    outcome = run(
        *(
            "job",
            "stateless",
            "query",
            "-l",
            "a=b",
            "-r",
            "/infra",
            "-k",
            "x,y",
            "-s",
            "running,JOB_STATE_FAILED",
        ),
        *(
            "--owner",
            "infra",
            "--name",
            "w*",
            "-d",
            "2",
            "-n",
            "3",
            "-q",
            "9",
            "-o",
            "4",
            "-p",
            "name",
            "-a",
            "asc",
        ),
    )
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].split()[:2] == [JOB, "a"]
    spec = daemons.requests("QueryJobs")[0].spec
    assert [(label.key, label.value) for label in spec.labels] == [("a", "b")]
    assert (spec.respool.value, list(spec.keywords), spec.owner, spec.name) == (
        *("/infra", ["x", "y"]),
        *("infra", "w*"),
    )
    assert spec.job_states == [stateless_pb2.JOB_STATE_RUNNING, stateless_pb2.JOB_STATE_FAILED]
    page = spec.pagination
    assert (page.limit, page.max_limit, page.offset) == (3, 9, 4)
    assert [(by.property.value, by.order) for by in page.order_by] == [("name", 1)]
    span = spec.creation_time_range
    assert 2 * 86400 <= span.max.seconds - span.min.seconds <= 2 * 86400 + 2


def test_list_pods(run: Run, daemons: FakeDaemons) -> None:
    status = pod_pb2.PodStatus(
        state=pod_pb2.POD_STATE_FAILED,
        start_time="2026-01-31T12:00:00Z",
        completion_time="2026-01-31T12:01:05Z",
        host="h1",
        message="exit 1",
    )
    status.containers_status.add().healthy.state = pod_pb2.HEALTH_STATE_DISABLED
    pods = [
        pod_pb2.PodSummary(pod_name=peloton_pb2.PodName(value=f"{JOB}-{i}"), status=status) for i in (1, 2)
    ]
    daemons.answers["ListPods"] = Stream(*(pb.ListPodsResponse(pods=[pod]) for pod in pods))
    heads, first, second = run("job", "stateless", "list-pods", JOB, "-r", "1:3").out.splitlines()
    assert tuple(head.strip() for head in heads.split("  ") if head) == TASK_HEADS
    row = ["1", f"{JOB}-1", "FAILED", "DISABLED", "2026-01-31T12:00:00Z", "00:01:05", "h1", "exit", "1"]
    assert first.split() == row
    assert second.split()[0] == "2"
    [request] = daemons.requests("ListPods")
    assert (getattr(request.range, "from"), request.range.to) == (1, 3)
    daemons.answers["ListPods"] = Stream(NOT_FOUND)
    assert run("job", "stateless", "list-pods", JOB).err == f"peloton: job {JOB}: job not found (NOT_FOUND)\n"


def test_list_updates(run: Run, daemons: FakeDaemons) -> None:
    status = stateless_pb2.WorkflowStatus(
        type=stateless_pb2.WORKFLOW_TYPE_UPDATE,
        state=stateless_pb2.WORKFLOW_STATE_PAUSED,
        num_instances_completed=1,
        num_instances_remaining=2,
        version=VERSION,
        prev_version=peloton_pb2.EntityVersion(value="1-0-0"),
        creation_time="2026-01-31T12:00:00.5Z",
    )
    info = stateless_pb2.WorkflowInfo(status=status, opaque_data=peloton_pb2.OpaqueData(data="why"))
    daemons.answers["ListJobWorkflows"] = pb.ListJobWorkflowsResponse(
        workflow_infos=[info, stateless_pb2.WorkflowInfo()]
    )
    _, first, second = run("job", "stateless", "list-updates", JOB).out.splitlines()
    row = ["UPDATE", "PAUSED", "1", "2", "0", "1-0-0", "2-1-2", "2026-01-31T12:00:00Z", "why"]
    assert first.split() == row
    assert second.startswith("START or STOP  INVALID")
    assert daemons.requests("ListJobWorkflows")[0].updates_limit == 10
    run("job", "stateless", "list-updates", JOB, "--limit", "3")
    assert daemons.requests("ListJobWorkflows")[1].updates_limit == 3


def test_workflow_events(run: Run, daemons: FakeDaemons) -> None:
    event = stateless_pb2.WorkflowEvent(
        type=stateless_pb2.WORKFLOW_TYPE_RESTART,
        state=stateless_pb2.WORKFLOW_STATE_SUCCEEDED,
        timestamp="2026-01-31T12:00:00.5Z",
    )
    daemons.answers["GetWorkflowEvents"] = pb.GetWorkflowEventsResponse(events=[event])
    outcome = run("job", "stateless", "workflow", "events", JOB, "2", "-l", "4")
    assert outcome.out.splitlines()[1].split() == ["2026-01-31T12:00:00Z", "RESTART", "SUCCEEDED"]
    [request] = daemons.requests("GetWorkflowEvents")
    assert (request.instance_id, request.limit) == (2, 4)


def test_cache_and_refresh(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["GetJobCache"] = pb.GetJobCacheResponse(spec=stateless_pb2.JobSpec(name="web"))
    assert run("job", "stateless", "cache", JOB).out == "spec:\n  name: web\n"
    assert run("job", "stateless", "refresh", JOB).out == f"Job {JOB} refreshed\n"
    daemons.answers["GetJobCache"] = NOT_FOUND
    assert run("job", "stateless", "cache", JOB).code == 1
