"""A cluster with one job, for the tests of its pages."""

from __future__ import annotations

from typing import Any

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.calls import web
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.explain import explain_pb2

from .fake import FakeCluster

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
POOL = "11111111-43fc-4a51-8cb4-d1e1b7e4b5a0"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
VERSION = "3-2-1"
HISTORY = ((2, 5, "RUNNING"), (2, 4, "PENDING"), (1, 3, "FAILED"), (1, 1, "RUNNING"))
"""Run, minute and state of the events of an instance."""


def job_id() -> v0_peloton.JobID:
    return v0_peloton.JobID(value=JOB)


def job_info(
    name: str = "mill", kind: Any = job_pb2.SERVICE, stats: dict[str, int] | None = None, **runtime: Any
) -> job_pb2.JobInfo:
    stats = {"RUNNING": 3, "PENDING": 2} if stats is None else stats
    config = job_pb2.JobConfig(
        name=name,
        type=kind,
        owningTeam=f"team {name}",
        description=name,
        labels=[v0_peloton.Label(key="k", value=name)],
        instanceCount=5,
        respoolID=v0_peloton.ResourcePoolID(value=POOL),
        sla=job_pb2.SlaConfig(priority=4, preemptible=True),
        changeLog=v0_peloton.ChangeLog(version=3, updatedAt=1_699_999_000 * 10**9, updatedBy=name),
    )
    config.defaultConfig.resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=2, memLimitMb=512))
    config.defaultConfig.command.value = f"echo {name}"
    runtime.setdefault("state", job_pb2.RUNNING)
    runtime.setdefault("goalState", job_pb2.RUNNING)
    return job_pb2.JobInfo(
        id=job_id(),
        config=config,
        runtime=job_pb2.RuntimeInfo(creationTime="2023-11-14T20:00:00Z", taskStats=stats, **runtime),
    )


def task_info(instance: int, state: str = "RUNNING", **runtime: Any) -> task_pb2.TaskInfo:
    runtime.setdefault("mesosTaskId", mesos_pb2.TaskID(value=f"{JOB}-{instance}-2"))
    runtime.setdefault("host", "host-1")
    runtime.setdefault("startTime", "2023-11-14T22:00:00Z")
    return task_pb2.TaskInfo(
        instanceId=instance,
        jobId=job_id(),
        config=task_pb2.TaskConfig(name="t"),
        runtime=task_pb2.RuntimeInfo(
            state=task_pb2.TaskState.Value(state), agentID=mesos_pb2.AgentID(value="a"), **runtime
        ),
    )


def workflow_info(**of: Any) -> stateless_pb2.WorkflowInfo:
    status = {
        "type": stateless_pb2.WORKFLOW_TYPE_UPDATE,
        "state": stateless_pb2.WORKFLOW_STATE_ROLLING_FORWARD,
        "num_instances_completed": 2,
        "num_instances_remaining": 3,
        "instances_current": [2],
        "version": peloton_pb2.EntityVersion(value=VERSION),
        "prev_version": peloton_pb2.EntityVersion(value="2-2-1"),
        "creation_time": "2023-11-14T22:05:00Z",
        **of,
    }
    return stateless_pb2.WorkflowInfo(
        status=stateless_pb2.WorkflowStatus(**status),
        update_spec=stateless_pb2.UpdateSpec(batch_size=1, rollback_on_failure=True),
        events=[
            stateless_pb2.WorkflowEvent(
                timestamp="2023-11-14T22:05:00Z", state=stateless_pb2.WORKFLOW_STATE_ROLLING_FORWARD
            )
        ],
    )


def summary(version: str = VERSION) -> pb.GetJobResponse:
    return pb.GetJobResponse(
        summary=stateless_pb2.JobSummary(
            status=stateless_pb2.JobStatus(version=peloton_pb2.EntityVersion(value=version))
        )
    )


def spec(version: str) -> stateless_pb2.JobSpec:
    of = stateless_pb2.JobSpec(name="mill", description=f"of {version.partition('-')[0]}", instance_count=5)
    of.revision.version = 7
    of.default_spec.containers.add(name="main").command.value = "sleep 9"
    return of


def get_job(request: pb.GetJobRequest) -> pb.GetJobResponse:
    if request.summary_only:
        return summary()
    return pb.GetJobResponse(job_info=stateless_pb2.JobInfo(spec=spec(request.version.value)))


def explained() -> explain_pb2.ExplainJobResponse:
    check = explain_pb2.Check(
        check="entitlement",
        kind="cpu",
        held=90,
        gang=20,
        bound=100,
        pool="/a",
        text="cpu: 90 + 20 > 100 in /a",
    )
    first = explain_pb2.Explanation(
        state=task_pb2.PENDING,
        since="2023-11-14T22:00:00Z",
        cause=check.text,
        pool="/a",
        position=explain_pb2.Position(queue="pending", position=1, length=9),
        check=check,
        shares=[
            explain_pb2.Share(pool="/a", kind="cpu", allocation=90, entitlement=100, demand=20, limit=105)
        ],
    )
    return explain_pb2.ExplainJobResponse(groups=[explain_pb2.Group(count=2, instances=[3, 4], first=first)])


def pools() -> respool_pb2.QueryResponse:
    pool = respool_pb2.ResourcePoolInfo(
        id=v0_peloton.ResourcePoolID(value=POOL), path=respool_pb2.ResourcePoolPath(value="/a")
    )
    pool.usage.add(kind="cpu", allocation=90)
    pool.config.resources.add(kind="cpu", reservation=50, limit=105)
    return respool_pb2.QueryResponse(resourcePools=[pool])


def cluster(job: job_pb2.JobInfo | None = None) -> FakeCluster:
    """A cluster with a service of five instances, three of which run."""
    job = job or job_info()
    tasks = {instance: task_info(instance) for instance in range(5)}
    return FakeCluster(
        {
            web.GET_JOB: job_pb2.GetResponse(jobInfo=job),
            web.QUERY_JOBS: job_pb2.QueryResponse(
                results=[
                    job_pb2.JobSummary(
                        id=job.id,
                        name=job.config.name,
                        owningTeam=job.config.owningTeam,
                        instanceCount=5,
                        respoolID=job.config.respoolID,
                        runtime=job.runtime,
                    )
                ],
                pagination=query_pb2.Pagination(total=120),
            ),
            web.QUERY_POOLS: pools(),
            web.GET_JOB_V1ALPHA: get_job,
            web.GET_REPLACE_JOB_DIFF: pb.GetReplaceJobDiffResponse(
                instances_updated=[pod_pb2.InstanceIDRange(**{"from": 0, "to": 4})],
                changes=[
                    pb.InstanceChanges(
                        instances=[pod_pb2.InstanceIDRange(**{"from": 0, "to": 4})],
                        fields=[pb.FieldChange(text="labels: tier a → b")],
                    )
                ],
            ),
            web.LIST_JOB_WORKFLOWS: pb.ListJobWorkflowsResponse(workflow_infos=[workflow_info()]),
            web.LIST_TASKS: task_pb2.ListResponse(result=task_pb2.ListResponse.Result(value=tasks)),
            web.QUERY_TASKS: task_pb2.QueryResponse(
                records=[tasks[1]], pagination=query_pb2.Pagination(total=1)
            ),
            web.EXPLAIN_JOB: explained(),
            web.GET_TASK: task_pb2.GetResponse(
                result=tasks[1], results=[tasks[1], task_info(1, "FAILED", message="boom")]
            ),
            web.GET_USAGE: usage_pb2.GetUsageResponse(
                usages=[
                    usage_pb2.InstanceUsage(
                        cpu_mean=0.25,
                        cpu_limit=1,
                        memory_bytes=120 << 20,
                        memory_limit_bytes=256 << 20,
                        course_begin=1_699_999_000,
                        course=[usage_pb2.CoursePoint(until=1_699_999_030, held_cores=1, used_cores=0.25)],
                    )
                ]
            ),
            web.GET_JOB_ACCOUNT: usage_pb2.GetJobAccountResponse(
                memory_peak_mb=100,
                course_begin=1_699_999_000,
                course=[usage_pb2.CoursePoint(until=1_699_999_060, held_cores=6, used_cores=1.5)],
            ),
            web.LIST_USED: usage_pb2.ListUsedResponse(
                jobs=[
                    usage_pb2.JobUsed(
                        name=EVIL, pool_id=POOL, memory_asked_mb=4096, memory_peak_mb=600, runs=12
                    )
                ]
            ),
            web.GET_POD_EVENTS: task_pb2.GetPodEventsResponse(
                result=[
                    task_pb2.PodEvent(
                        taskId=mesos_pb2.TaskID(value=f"{JOB}-1-{run}"),
                        actualState=state,
                        goalState="RUNNING",
                        timestamp=f"2023-11-14T22:0{at}:00Z",
                        message=f"{state} of {run}",
                    )
                    for run, at, state in HISTORY
                ]
            ),
        }
    )
