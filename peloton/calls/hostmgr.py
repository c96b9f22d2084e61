"""What host managers call of other daemons."""

from __future__ import annotations

from peloton.calls.rpc import rpc
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub

GET_HOSTS_BY_SCORES = rpc(ResourceManagerServiceStub, lambda stub: stub.GetHostsByScores)
