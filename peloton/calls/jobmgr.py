"""What job managers call of other daemons."""

from __future__ import annotations

from peloton.calls.rpc import rpc
from peloton.private.eventstream.eventstream_pb2_grpc import EventStreamServiceStub
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import FeasibilityServiceStub
from peloton.private.hostmgr.foreign.foreign_pb2_grpc import ForeignPodServiceStub
from peloton.private.hostmgr.history.history_pb2_grpc import HostHistoryServiceStub
from peloton.private.hostmgr.holds.holds_pb2_grpc import HoldServiceStub
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub
from peloton.private.hostmgr.launching.launching_pb2_grpc import LaunchServiceStub
from peloton.private.hostmgr.matching.matching_pb2_grpc import MatchingServiceStub
from peloton.private.hostmgr.passing.passing_pb2_grpc import PassingServiceStub
from peloton.private.hostmgr.reconcile.reconcile_pb2_grpc import ReconcileServiceStub
from peloton.private.hostmgr.sampling.sampling_pb2_grpc import SamplingServiceStub
from peloton.private.jobmgr.sharing.sharing_pb2_grpc import SharingServiceStub
from peloton.private.problems.problems_pb2_grpc import ProblemServiceStub
from peloton.private.resmgr.holding.holding_pb2_grpc import HoldingServiceStub
from peloton.private.resmgr.planning.planning_pb2_grpc import PlanningServiceStub
from peloton.private.resmgr.preemption.preemption_pb2_grpc import PreemptionServiceStub
from peloton.private.resmgr.queueing.queueing_pb2_grpc import QueueServiceStub
from peloton.private.resmgr.waiting.waiting_pb2_grpc import WaitingServiceStub
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub

# Of the resource manager.
ENQUEUE_ALIKE = rpc(QueueServiceStub, lambda stub: stub.EnqueueGangs)
ENQUEUE_GANGS = rpc(ResourceManagerServiceStub, lambda stub: stub.EnqueueGangs)
GET_PLACEMENTS = rpc(ResourceManagerServiceStub, lambda stub: stub.GetPlacements)
GET_PREEMPTIBLE_TASKS = rpc(ResourceManagerServiceStub, lambda stub: stub.GetPreemptibleTasks)
WITHDRAW_TASKS = rpc(ResourceManagerServiceStub, lambda stub: stub.KillTasks)
UPDATE_TASKS_STATE = rpc(ResourceManagerServiceStub, lambda stub: stub.UpdateTasksState)
PLAN_GANGS = rpc(PlanningServiceStub, lambda stub: stub.PlanGangs)
WAIT_FOR_DELTAS = rpc(WaitingServiceStub, lambda stub: stub.WaitForDeltas)
FIND_MISSING = rpc(HoldingServiceStub, lambda stub: stub.FindMissing)
GET_REASONS = rpc(PreemptionServiceStub, lambda stub: stub.GetReasons)
KEEP_RUNS = rpc(PreemptionServiceStub, lambda stub: stub.KeepRuns)

# Of the host managers.
DESTROY_VOLUMES = rpc(InternalHostServiceStub, lambda stub: stub.DestroyVolumes)
GET_MESOS_AGENT_INFO = rpc(InternalHostServiceStub, lambda stub: stub.GetMesosAgentInfo)
GET_MESOS_MASTER = rpc(InternalHostServiceStub, lambda stub: stub.GetMesosMasterHostPort)
GET_TASKS_BY_HOST_STATE = rpc(InternalHostServiceStub, lambda stub: stub.GetTasksByHostState)
KILL_AND_RESERVE_TASKS = rpc(InternalHostServiceStub, lambda stub: stub.KillAndReserveTasks)
KILL_TASKS = rpc(InternalHostServiceStub, lambda stub: stub.KillTasks)
LAUNCH_ON_HOST = rpc(
    InternalHostServiceStub, lambda stub: stub.LaunchTasks
)  # where LAUNCH_TASKS is not known
RELEASE_HOST_OFFERS = rpc(InternalHostServiceStub, lambda stub: stub.ReleaseHostOffers)
RELEASE_HELD_HOSTS = rpc(InternalHostServiceStub, lambda stub: stub.ReleaseHostsHeldForTasks)
SHUTDOWN_EXECUTORS = rpc(InternalHostServiceStub, lambda stub: stub.ShutdownExecutors)
INIT_STREAM = rpc(EventStreamServiceStub, lambda stub: stub.InitStream)
WAIT_FOR_EVENTS = rpc(EventStreamServiceStub, lambda stub: stub.WaitForEvents)
CHECK_GANGS = rpc(FeasibilityServiceStub, lambda stub: stub.CheckGangs)
WAIT_FOR_PODS = rpc(ForeignPodServiceStub, lambda stub: stub.WaitForPods)
TELL_OWNERS = rpc(ForeignPodServiceStub, lambda stub: stub.TellOwners)
GET_MAINTENANCES = rpc(HostHistoryServiceStub, lambda stub: stub.GetMaintenances)
LIST_HOLDS = rpc(HoldServiceStub, lambda stub: stub.ListHolds)
RENEW_HOLDS = rpc(HoldServiceStub, lambda stub: stub.RenewHolds)
LAUNCH_TASKS = rpc(LaunchServiceStub, lambda stub: stub.LaunchTasks)
TRY_TASKS = rpc(LaunchServiceStub, lambda stub: stub.TryTasks)
PASS_EVENTS = rpc(PassingServiceStub, lambda stub: stub.PassEvents)
RECONCILE_TASKS = rpc(ReconcileServiceStub, lambda stub: stub.ReconcileTasks)
WAIT_FOR_READINGS = rpc(SamplingServiceStub, lambda stub: stub.WaitForReadings)
MATCH_HOSTS = rpc(MatchingServiceStub, lambda stub: stub.MatchHosts)

# Of other job managers.
START_RUN = rpc(SharingServiceStub, lambda stub: stub.StartRun)
STOP_RUN = rpc(SharingServiceStub, lambda stub: stub.StopRun)
FIND_JOBS = rpc(SharingServiceStub, lambda stub: stub.FindJobs)
GET_FOUND_JOBS = rpc(SharingServiceStub, lambda stub: stub.GetFoundJobs)
DELETE_RUN = rpc(SharingServiceStub, lambda stub: stub.DeleteRun)
FIND_LOSSES = rpc(SharingServiceStub, lambda stub: stub.FindLosses)
LIST_CRASH_LOOPING = rpc(SharingServiceStub, lambda stub: stub.ListCrashLooping)
GET_RUNTIMES = rpc(SharingServiceStub, lambda stub: stub.GetRuntimes)
LIST_PROBLEMS = rpc(ProblemServiceStub, lambda stub: stub.ListProblems)
