"""MoveService over the goal-state engine itself: whose constraint changes, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.destination import Destination
from peloton.model.foreign_pod import ForeignPod
from peloton.model.resources import Resources
from peloton.private.hostmgr.matching import matching_pb2
from peloton.private.jobmgr.moving import moving_pb2, moving_pb2_grpc
from peloton.wire.foreign_pods import job_config_of
from peloton.wire.job import job_spec
from peloton.wire.moves import moved_config
from peloton.wire.payload import job_config
from tests.unit.jobmgr_services.configs import job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_services import job_id as v1alpha_id
from tests.unit.jobmgr_services.test_with_engine import real, states
from tests.unit.wire.specs import job as service_spec

__all__ = ["real"]
INITIALIZED = task_pb2.INITIALIZED


def hosts(served: Served, *names: str) -> None:
    served.hostmgr.answers["MatchHosts"] = matching_pb2.MatchHostsResponse(
        hosts_version="1", matches=[matching_pb2.Matches(hostnames=names), matching_pb2.Matches()]
    )


async def move(served: Served, **to: Any) -> moving_pb2.MoveJobResponse:
    stub = moving_pb2_grpc.MoveServiceStub(served.channel)
    request = moving_pb2.MoveJobRequest(**to)
    request.job_id.value = JOB
    answer: moving_pb2.MoveJobResponse = await stub.MoveJob(request)
    return answer


async def config(served: Served) -> Any:
    return (await served.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo.config


def leaves(constraint: Any) -> Sequence[tuple[str, str, int]]:
    if constraint.type == task_pb2.Constraint.LABEL_CONSTRAINT:
        leaf = constraint.labelConstraint
        return [(f"{leaf.label.key}={leaf.label.value}", "<=>"[leaf.condition - 1], leaf.requirement)]
    return [each for part in constraint.andConstraint.constraints for each in leaves(part)]


EAST = [("cluster=east", "=", 1)]
LEAF = """
    type: LABEL_CONSTRAINT labelConstraint {
        kind: HOST condition: CONDITION_EQUAL requirement: 1 label { key: "disk" value: "ssd" }
    }
"""
OVERRIDE = f"instanceConfig {{ key: 1 value {{ constraint {{ {LEAF} }} }} }}"


async def test_a_batch_job_goes_by_its_next_runs(real: Served) -> None:
    hosts(real, "h1", "east/h2")
    await real.create(OVERRIDE)
    await states(real, [INITIALIZED] * 3)
    answer = await move(real, cluster="east")
    assert (answer.changed, answer.begun_anew, answer.staying) == (True, 3, 0)
    now = await config(real)
    assert now.changeLog.version == 2
    assert leaves(now.defaultConfig.constraint) == EAST
    assert leaves(now.instanceConfig[1].constraint) == [("disk=ssd", "=", 1), *EAST]
    again = await move(real, cluster="east")
    assert not again.changed and (await config(real)).changeLog.version == 2
    assert (await move(real, unnamed=True)).changed
    assert leaves((await config(real)).defaultConfig.constraint) == [("cluster=east", "<", 1)]
    assert (await move(real, anywhere=True)).changed
    now = await config(real)
    assert not now.defaultConfig.HasField("constraint")
    assert leaves(now.instanceConfig[1].constraint) == [("disk=ssd", "=", 1)]


async def test_an_instance_that_was_kept_on_its_own_is_not_kept_by_the_rest_of_the_job(real: Served) -> None:
    hosts(real, "h1", "east/h2")
    await real.create(OVERRIDE.replace("disk", "cluster").replace("ssd", "east"))
    await states(real, [INITIALIZED] * 3)
    await move(real, anywhere=True)
    own = (await config(real)).instanceConfig[1]
    assert own.constraint.type == task_pb2.Constraint.AND_CONSTRAINT
    assert not own.constraint.andConstraint.constraints


async def test_a_service_goes_by_an_update(real: Served) -> None:
    hosts(real, "h1", "east/h2")
    created = await real.services.CreateJob(pb.CreateJobRequest(job_id=v1alpha_id(), spec=service_spec()))
    await states(real, [INITIALIZED] * 3)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "is under way"):
        await move(real, cluster="east")
    await real.services.AbortJobWorkflow(
        pb.AbortJobWorkflowRequest(job_id=v1alpha_id(), version=created.version)
    )
    answer = await move(real, cluster="east", start_paused=True)
    assert answer.changed and answer.batch_size == 1
    info = await real.services.GetJob(pb.GetJobRequest(job_id=v1alpha_id()))
    constraint = info.job_info.spec.default_spec.constraint
    assert constraint.type == pod_pb2.Constraint.CONSTRAINT_TYPE_LABEL
    assert constraint.label_constraint.label.value == "east"
    assert info.workflow_info.update_spec.start_paused
    assert info.workflow_info.update_spec.batch_size == 1
    assert answer.version == info.job_info.status.version
    assert not (await move(real, cluster="east")).changed


async def test_the_batch_stays_within_the_sla(real: Served) -> None:
    hosts(real, "east/h2")
    spec = service_spec("sla { maximum_unavailable_instances: 2 } instance_count: 30")
    created = await real.services.CreateJob(pb.CreateJobRequest(job_id=v1alpha_id(), spec=spec))
    await real.services.AbortJobWorkflow(
        pb.AbortJobWorkflowRequest(job_id=v1alpha_id(), version=created.version)
    )
    for size in (0, 3):
        with status(grpc.StatusCode.INVALID_ARGUMENT, "1 to 2, the SLA's maximumUnavailableInstances"):
            await move(real, cluster="east", batch_size=size)
    assert (await move(real, cluster="east")).batch_size == 2


async def test_what_cannot_be_moved_is_refused(real: Served) -> None:
    hosts(real, "h1", "west/h2")
    with status(grpc.StatusCode.NOT_FOUND):
        await move(real, cluster="west")
    await real.create()
    with status(grpc.StatusCode.INVALID_ARGUMENT, "a cluster with hosts: one without a name, west"):
        await move(real, cluster="eats")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "`cluster`, `unnamed` or `anywhere`"):
        await move(real)
    with status(grpc.StatusCode.INVALID_ARGUMENT, "`unnamed` is for the cluster without one"):
        await move(real, cluster="")
    hosts(real)
    with status(grpc.StatusCode.INVALID_ARGUMENT, "a cluster with hosts: none"):
        await move(real, unnamed=True)
    hosts(real, "west/h2")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "a cluster with hosts: west"):
        await move(real, unnamed=True)
    await real.tasks.Stop(task_pb2.StopRequest(jobId=job_id()))
    with status(grpc.StatusCode.FAILED_PRECONDITION, "is stopped, or is being stopped"):
        await move(real, cluster="west")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("type: DAEMON instanceCount: 0", "runs on each host that its constraint allows"),
        ('type: SERVICE defaultConfig { volume { containerPath: "data" sizeMB: 10 } }', "volumes"),
    ],
)
async def test_jobs_that_are_bound_to_hosts_are_refused(real: Served, text: str, told: str) -> None:
    hosts(real, "east/h2")
    spec = job(text)
    if "DAEMON" in text:
        spec.ClearField("instanceCount")
    answer = await real.jobs.Create(job_pb2.CreateRequest(id=job_id(), config=spec))
    assert not answer.HasField("error"), answer
    with status(grpc.StatusCode.FAILED_PRECONDITION, told):
        await move(real, cluster="east")


async def test_the_job_of_a_pod_stays_where_the_pod_is(real: Served) -> None:
    hosts(real, "east/h2")
    pod = ForeignPod("team", "web", JOB, resources=Resources.of(cpu=1, memory=64))
    await real.engine.create_job(JOB, job_spec(job_config_of([pod], "pool", "west", 0), 1))
    with status(grpc.StatusCode.FAILED_PRECONDITION, "stands for a pod that is on its cluster"):
        await move(real, cluster="east")


async def test_a_constraint_whose_or_names_clusters_is_left_to_its_author(real: Served) -> None:
    hosts(real, "east/h2")
    part = f"constraints {{ {LEAF.replace('disk', 'cluster')} }}"
    text = f"defaultConfig {{ constraint {{ type: OR_CONSTRAINT orConstraint {{ {part} {part} }} }} }}"
    assert not (await real.create(text)).HasField("error")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "defaultConfig.constraint"):
        await move(real, cluster="east")


async def test_what_is_under_way_already_goes_on_when_it_is_asked_again(real: Served) -> None:
    """A call that was cut off after its config was stored is repeated."""
    hosts(real, "east/h2")
    await real.create()
    await states(real, [INITIALIZED] * 3)
    engine = real.engine
    held = engine.job(JOB).spec
    wanted = Destination("east").constraint({"east"})
    config_ = moved_config(job_config(held.payload), wanted)
    await engine.update_job(JOB, job_spec(config_, 2))
    answer = await move(real, cluster="east")
    assert (answer.changed, answer.begun_anew) == (True, 3)
