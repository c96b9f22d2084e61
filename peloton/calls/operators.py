"""What programs of users call of the host managers of several clusters."""

from __future__ import annotations

from peloton.api.v0.host.svc.host_svc_pb2_grpc import HostServiceStub
from peloton.api.v1alpha.host.svc.host_svc_pb2_grpc import HostServiceStub as HostServiceStubV1Alpha
from peloton.calls.rpc import rpc
from peloton.private.hostmgr.history.history_pb2_grpc import HostHistoryServiceStub
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub
from peloton.private.hostmgr.registry.registry_pb2_grpc import HostRegistryServiceStub
from peloton.private.hostmgr.sampling.sampling_pb2_grpc import SamplingServiceStub
from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2_grpc import HostManagerServiceStub
from peloton.private.problems.problems_pb2_grpc import ProblemServiceStub

QUERY_HOSTS = rpc(HostServiceStub, lambda stub: stub.QueryHosts)
START_MAINTENANCE = rpc(HostServiceStub, lambda stub: stub.StartMaintenance)
COMPLETE_MAINTENANCE = rpc(HostServiceStub, lambda stub: stub.CompleteMaintenance)
LIST_HOST_POOLS = rpc(HostServiceStub, lambda stub: stub.ListHostPools)
CREATE_HOST_POOL = rpc(HostServiceStub, lambda stub: stub.CreateHostPool)
DELETE_HOST_POOL = rpc(HostServiceStub, lambda stub: stub.DeleteHostPool)
CHANGE_HOST_POOL = rpc(HostServiceStub, lambda stub: stub.ChangeHostPool)
MOVE_HOSTS = rpc(HostServiceStub, lambda stub: stub.MoveHosts)
QUERY_HOSTS_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.QueryHosts)
START_MAINTENANCE_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.StartMaintenance)
COMPLETE_MAINTENANCE_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.CompleteMaintenance)
LIST_HOST_POOLS_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.ListHostPools)
CREATE_HOST_POOL_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.CreateHostPool)
DELETE_HOST_POOL_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.DeleteHostPool)
CHANGE_HOST_POOL_V1ALPHA = rpc(HostServiceStubV1Alpha, lambda stub: stub.ChangeHostPool)
FORGET_HOSTS = rpc(HostRegistryServiceStub, lambda stub: stub.ForgetHosts)
LIST_USED_HOSTS = rpc(SamplingServiceStub, lambda stub: stub.ListHosts)
LIST_CHANGES = rpc(HostHistoryServiceStub, lambda stub: stub.ListChanges)
GET_HISTORY = rpc(HostHistoryServiceStub, lambda stub: stub.GetHistory)
LIST_PROBLEMS = rpc(ProblemServiceStub, lambda stub: stub.ListProblems)
GET_HOST_CACHE = rpc(HostManagerServiceStub, lambda stub: stub.GetHostCache)
GET_HOSTS = rpc(InternalHostServiceStub, lambda stub: stub.GetHosts)
GET_HOSTS_BY_QUERY = rpc(InternalHostServiceStub, lambda stub: stub.GetHostsByQuery)
RESERVE_HOSTS = rpc(InternalHostServiceStub, lambda stub: stub.ReserveHosts)
GET_COMPLETED_RESERVATIONS = rpc(InternalHostServiceStub, lambda stub: stub.GetCompletedReservations)
