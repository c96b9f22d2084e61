"""What archivers call of other daemons."""

from __future__ import annotations

from peloton.api.v0.job.job_pb2_grpc import JobManagerStub
from peloton.calls.rpc import rpc

DELETE_JOB = rpc(JobManagerStub, lambda stub: stub.Delete)
QUERY_JOBS = rpc(JobManagerStub, lambda stub: stub.Query)
