"""What resource managers call of other daemons: host managers alone."""

from __future__ import annotations

from peloton.calls.rpc import rpc
from peloton.private.eventstream.eventstream_pb2_grpc import EventStreamServiceStub
from peloton.private.hostmgr.claims.claims_pb2_grpc import ClaimServiceStub
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import FeasibilityServiceStub
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub

CLUSTER_CAPACITY = rpc(InternalHostServiceStub, lambda stub: stub.ClusterCapacity)
GET_DRAINING_HOSTS = rpc(InternalHostServiceStub, lambda stub: stub.GetDrainingHosts)
GET_HOST_POOL_CAPACITY = rpc(InternalHostServiceStub, lambda stub: stub.GetHostPoolCapacity)
GET_MESOS_AGENT_INFO = rpc(InternalHostServiceStub, lambda stub: stub.GetMesosAgentInfo)
MARK_HOST_DRAINED = rpc(InternalHostServiceStub, lambda stub: stub.MarkHostDrained)
RELEASE_HOST_OFFERS = rpc(InternalHostServiceStub, lambda stub: stub.ReleaseHostOffers)
INIT_STREAM = rpc(EventStreamServiceStub, lambda stub: stub.InitStream)
WAIT_FOR_EVENTS = rpc(EventStreamServiceStub, lambda stub: stub.WaitForEvents)
CHECK_GANGS = rpc(FeasibilityServiceStub, lambda stub: stub.CheckGangs)
FIND_HOSTS = rpc(FeasibilityServiceStub, lambda stub: stub.FindHosts)
GET_HOST_GAINS = rpc(FeasibilityServiceStub, lambda stub: stub.GetHostGains)
SHORTEN_CLAIMS = rpc(ClaimServiceStub, lambda stub: stub.ShortenClaims)
