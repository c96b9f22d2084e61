"""What placement engines call of other daemons."""

from __future__ import annotations

from peloton.calls.rpc import rpc
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import FeasibilityServiceStub
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub
from peloton.private.hostmgr.reservations.reservations_pb2_grpc import ReservationServiceStub
from peloton.private.resmgr.placing.placing_pb2_grpc import PlacingServiceStub
from peloton.private.resmgr.planning.planning_pb2_grpc import PlanningServiceStub
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub

# Of the resource manager.
DEQUEUE_GANGS = rpc(ResourceManagerServiceStub, lambda stub: stub.DequeueGangs)
SET_PLACEMENTS = rpc(ResourceManagerServiceStub, lambda stub: stub.SetPlacements)
GET_LABELS_ON_HOSTS = rpc(PlacingServiceStub, lambda stub: stub.GetLabelsOnHosts)
GIVE_BACK = rpc(PlacingServiceStub, lambda stub: stub.GiveBack)
REPORT_RESERVATIONS = rpc(PlacingServiceStub, lambda stub: stub.ReportReservations)
TAKE_PLAN = rpc(PlanningServiceStub, lambda stub: stub.TakePlan)
ANSWER_PLAN = rpc(PlanningServiceStub, lambda stub: stub.AnswerPlan)

# Of the host managers.
ACQUIRE_HOST_OFFERS = rpc(InternalHostServiceStub, lambda stub: stub.AcquireHostOffers)
RELEASE_HOST_OFFERS = rpc(InternalHostServiceStub, lambda stub: stub.ReleaseHostOffers)
CHECK_GANGS = rpc(FeasibilityServiceStub, lambda stub: stub.CheckGangs)
FIND_HOSTS = rpc(FeasibilityServiceStub, lambda stub: stub.FindHosts)
RESERVE_FOR_GANGS = rpc(ReservationServiceStub, lambda stub: stub.ReserveForGangs)
CANCEL_RESERVATIONS = rpc(ReservationServiceStub, lambda stub: stub.CancelReservations)
ACQUIRE_FOR_BACKFILL = rpc(ReservationServiceStub, lambda stub: stub.AcquireForBackfill)
