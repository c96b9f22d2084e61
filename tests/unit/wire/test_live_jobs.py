"""Active jobs over the wire: what scheduling depends on stays, what they run does not go out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from peloton.api.v0.host import host_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.model.job import JobSpec, Sla
from peloton.model.live_state import LiveHost, LiveJob, Ran
from peloton.model.payload import ApiVersion, Payload
from peloton.model.resources import Resources
from peloton.model.states import JobType, PlacementStrategy, TaskState
from peloton.model.task import PortSpec, TaskRuntime, TaskSpec
from peloton.model.workload import GangPolicy, JobWorkload
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.forecast import forecast_pb2
from peloton.wire.live_jobs import live_job_from, live_job_to
from peloton.wire.live_state import live_state_from

JOB = "a0000000-0000-4000-8000-00000000000a"
SECOND = 10**9
CONSTRAINT = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "a"), 1)
SPEC = JobSpec(
    version=7,
    name="train-7",
    type=JobType.BATCH,
    pool_id="p",
    instance_count=20,
    sla=Sla(priority=3, preemptible=True, minimum_running_instances=2, max_running_time=60),
    default=TaskSpec(Resources.of(1.5, 10.0), constraint=CONSTRAINT, labels=(("a", "b"),), max_failures=2),
    overrides={1: TaskSpec(Resources.of(3.0, 10.0), constraint=CONSTRAINT, preemptible=False)},
    payload=Payload(ApiVersion.V0, b"secret command"),
    owner="ann",
    placement_strategy=PlacementStrategy.SPREAD_JOB,
    workload=JobWorkload(gang_policy=GangPolicy.RESTART_MEMBER, growth_interval=30),
)


def task(state: TaskState, **changes: object) -> TaskRuntime:
    made = TaskRuntime(state, TaskState.SUCCEEDED, 2, 7, 7, 2, created_at=1, updated_at=5 * SECOND)
    return replace(made, **changes)  # type: ignore[arg-type]


def over_the_wire(tasks: dict[int, TaskRuntime], spec: JobSpec = SPEC) -> LiveJob:
    wire = live_job_to(JOB, spec, 5, tasks.items())
    data = wire.SerializeToString()
    assert b"secret" not in data
    return live_job_from(forecast_pb2.LiveJob.FromString(data))


def test_what_scheduling_depends_on_stays() -> None:
    found = over_the_wire({})
    held = found.spec
    assert (found.job_id, found.created, found.tasks) == (JOB, 5, {})
    assert held == replace(SPEC, version=1, payload=held.payload, overrides=held.overrides)
    assert held.task(1).resources == SPEC.task(1).resources and not held.preemptible(1)
    assert held.task(1).constraint == CONSTRAINT
    assert found.waiting() == list(range(20))


def test_ports_are_left_out() -> None:
    spec = replace(SPEC, default=replace(SPEC.default, ports=(PortSpec("http"),)))
    assert over_the_wire({}, spec).spec.default.ports == ()


def test_instances_by_their_states() -> None:
    running = task(TaskState.RUNNING, host="h1", agent_id="x", start_time=3 * SECOND)
    ended = task(TaskState.SUCCEEDED, start_time=1 * SECOND, completion_time=4 * SECOND)
    stopped = task(TaskState.KILLED, goal=TaskState.KILLED)
    again = task(TaskState.FAILED, goal=TaskState.RUNNING, host="h1")
    waits = task(TaskState.PENDING, host="h9")
    found = over_the_wire(
        {0: running, 1: ended, 2: ended, 3: stopped, 5: again, 6: waits, 7: replace(running, host="h2")}
    )
    assert found.tasks[0].host == "h1" and found.tasks[7].host == "h2"
    assert found.tasks[0].start_time == 3 * SECOND and found.tasks[0].run == 2
    assert found.tasks[6].host == "" and found.tasks[6].updated_at == 5 * SECOND
    assert found.tasks[5].state is TaskState.FAILED
    assert all(found.tasks[each].state.terminal for each in (1, 2, 3))
    assert found.seconds == (3.0, 3.0)
    assert found.waiting() == [4, 6, *range(8, 20)]


def test_the_state_of_a_cluster() -> None:
    jobs = forecast_pb2.ListLiveJobsResponse(now=9, jobs=[live_job_to(JOB, SPEC, 5, ())])
    pool = respool_pb2.ResourcePoolInfo()
    pool.id.value, pool.config.name, pool.config.parent.value = "p", "a", "root"
    root = respool_pb2.ResourcePoolInfo()
    root.id.value = "root"
    amounts = [hostmgr_pb2.Resource(kind="cpu", capacity=4.0), hostmgr_pb2.Resource(kind="gpu", capacity=1.0)]
    host = host_pb2.HostInfo(hostname="h1")
    summary = hostmgr_svc_pb2.GetHostCacheResponse.Summary
    job = job_pb2.JobSummary(name="j", owner="ann", type=job_pb2.BATCH)
    job.respoolID.value = "p"
    job.runtime.startTime, job.runtime.completionTime = "2026-01-31T12:00:00.5Z", "2026-01-31T12:01:00.5Z"
    never = job_pb2.JobSummary(name="n", type=job_pb2.BATCH)
    found = live_state_from(
        jobs,
        [root, pool],
        [host, host_pb2.HostInfo(hostname="without offers")],
        [summary(hostname="h1", capacity=amounts), summary(hostname="draining", capacity=amounts)],
        [job, never],
    )
    assert found.now == 9 and found.job(JOB) is not None and found.job("other") is None
    assert found.hosts == (LiveHost("h1", Resources.of(4.0, gpu=1.0)),)
    assert [each.id for each in found.pools] == ["p"]
    noon = datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC).timestamp()
    assert found.ended == (Ran("p", "ann", "j", 60.0, began=noon),)
