"""What a fake JobService answers to `peloton job stateless`."""

from __future__ import annotations

import grpc
import pytest

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.private.hostmgr.feasibility import feasibility_pb2

from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"


POOL = "0a5e1f3e-8bd0-4a1f-8d35-8f0c2a3d4e5f"


VERSION = peloton_pb2.EntityVersion(value="2-1-2")


STALE = (grpc.StatusCode.ABORTED, "others were faster", ("peloton-reason", "stale-version"))
STALE_BY_TEXT = (grpc.StatusCode.ABORTED, "unexpected entity version")
"""As a server says it that sends no reasons."""


NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "job not found")


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
