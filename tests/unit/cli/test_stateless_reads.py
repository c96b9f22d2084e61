"""`peloton job stateless`, against a fake JobService: what changes nothing."""

from __future__ import annotations

import json

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.cli.rows import TASK_HEADS

from .conftest import Run
from .fakes import FakeDaemons, Stream
from .stateless_answers import JOB, NOT_FOUND, VERSION, answers, job_id

__all__ = ["answers"]


def test_get_shows_the_spec_of_a_version(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "stateless", "get", JOB, "--jobversion", "3-1-4")
    assert outcome == (0, "job_info:\n  spec:\n    name: spec of 3-1-4\n", "")
    assert "    value: 5-1-7\n" in run("job", "stateless", "get", JOB, "--summaryonly").out
    status = json.loads(run("job", "stateless", "get", JOB, "--summaryonly", "-j").out)["summary"]["status"]
    assert status["version"] == {"value": "5-1-7"}


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
