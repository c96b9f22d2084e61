"""What the web UI calls of the daemons, in the name of its users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import grpc

from peloton.api.v0.job.job_pb2_grpc import JobManagerStub
from peloton.api.v0.respool.respool_pb2_grpc import ResourceManagerStub
from peloton.api.v0.task.task_pb2_grpc import TaskManagerStub
from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2_grpc import JobServiceStub
from peloton.calls import operators
from peloton.calls.hostmgr import GET_HOSTS_BY_SCORES as _GET_HOSTS_BY_SCORES
from peloton.calls.resmgr import GET_MESOS_AGENT_INFO as _GET_MESOS_AGENT_INFO
from peloton.calls.rpc import Answer, Request, Rpc, rpc
from peloton.private.access import access_pb2
from peloton.private.access.access_pb2_grpc import AccessServiceStub
from peloton.private.jobmgr.exec.exec_pb2_grpc import ExecServiceStub
from peloton.private.jobmgr.forecast.forecast_pb2_grpc import ForecastServiceStub
from peloton.private.jobmgr.maintenance.maintenance_pb2_grpc import MaintenanceServiceStub
from peloton.private.jobmgr.scheduling.scheduling_pb2_grpc import SchedulingServiceStub
from peloton.private.jobmgr.secrets.secrets_pb2_grpc import SecretServiceStub
from peloton.private.jobmgr.sharing.sharing_pb2_grpc import SharingServiceStub
from peloton.private.jobmgr.usage.usage_pb2_grpc import UsageServiceStub
from peloton.private.plan.plan_pb2_grpc import PlanServiceStub
from peloton.private.resmgr.explain.explain_pb2_grpc import ExplainServiceStub
from peloton.private.resmgr.monitoring.monitoring_pb2_grpc import MonitoringServiceStub

Server = Literal["jobmgr", "resmgr", "hostmgr"]
"""The name of a role."""
SERVERS: tuple[Server, ...] = ("jobmgr", "resmgr", "hostmgr")
Stub = TypeVar("Stub")


@dataclass(frozen=True, slots=True)
class RoleRpc(Generic[Request, Answer]):
    """A method, and the role whose leader serves it."""

    role: Server
    rpc: Rpc[Request, Answer]

    @property
    def method(self) -> str:
        """Return the method as `service/method`, as authorization names it."""
        return self.rpc.path[1:]


def _jobmgr(
    stub: type[Stub], choose: Callable[[Stub], grpc.UnaryUnaryMultiCallable[Request, Answer]]
) -> RoleRpc[Request, Answer]:
    return RoleRpc("jobmgr", rpc(stub, choose))


def _resmgr(
    stub: type[Stub], choose: Callable[[Stub], grpc.UnaryUnaryMultiCallable[Request, Answer]]
) -> RoleRpc[Request, Answer]:
    return RoleRpc("resmgr", rpc(stub, choose))


# Of the job manager. Names end in _V1ALPHA where both APIs have the method.
GET_JOB = _jobmgr(JobManagerStub, lambda stub: stub.Get)
QUERY_JOBS = _jobmgr(JobManagerStub, lambda stub: stub.Query)
CREATE_JOB = _jobmgr(JobManagerStub, lambda stub: stub.Create)
UPDATE_JOB = _jobmgr(JobManagerStub, lambda stub: stub.Update)
START_JOB = _jobmgr(JobManagerStub, lambda stub: stub.Start)
STOP_JOB = _jobmgr(JobManagerStub, lambda stub: stub.Stop)
RESTART_JOB = _jobmgr(JobManagerStub, lambda stub: stub.Restart)
GET_TASK = _jobmgr(TaskManagerStub, lambda stub: stub.Get)
LIST_TASKS = _jobmgr(TaskManagerStub, lambda stub: stub.List)
QUERY_TASKS = _jobmgr(TaskManagerStub, lambda stub: stub.Query)
GET_POD_EVENTS = _jobmgr(TaskManagerStub, lambda stub: stub.GetPodEvents)
GET_USAGE = _jobmgr(UsageServiceStub, lambda stub: stub.GetUsage)
GET_JOB_ACCOUNT = _jobmgr(UsageServiceStub, lambda stub: stub.GetJobAccount)
LIST_ACCOUNTS = _jobmgr(UsageServiceStub, lambda stub: stub.ListAccounts)
LIST_USED = _jobmgr(UsageServiceStub, lambda stub: stub.ListUsed)
LIST_LIVE_JOBS = _jobmgr(ForecastServiceStub, lambda stub: stub.ListLiveJobs)
LIST_PRIORITY_CLASSES = _jobmgr(SchedulingServiceStub, lambda stub: stub.ListPriorityClasses)
LIST_SCHEDULES = _jobmgr(SchedulingServiceStub, lambda stub: stub.ListSchedules)
PAUSE_SCHEDULE = _jobmgr(SchedulingServiceStub, lambda stub: stub.PauseSchedule)
RESUME_SCHEDULE = _jobmgr(SchedulingServiceStub, lambda stub: stub.ResumeSchedule)
CREATE_SECRET = _jobmgr(SecretServiceStub, lambda stub: stub.CreateSecret)
REPLACE_SECRET = _jobmgr(SecretServiceStub, lambda stub: stub.ReplaceSecret)
DELETE_SECRET = _jobmgr(SecretServiceStub, lambda stub: stub.DeleteSecret)
LIST_SECRETS = _jobmgr(SecretServiceStub, lambda stub: stub.ListSecrets)
SUSPEND_JOB = _jobmgr(SchedulingServiceStub, lambda stub: stub.SuspendJob)
RESUME_JOB = _jobmgr(SchedulingServiceStub, lambda stub: stub.ResumeJob)
LIST_LOSSES = _jobmgr(UsageServiceStub, lambda stub: stub.ListLosses)
RESTART_TASKS = _jobmgr(TaskManagerStub, lambda stub: stub.Restart)
BROWSE_SANDBOX = _jobmgr(TaskManagerStub, lambda stub: stub.BrowseSandbox)
START_SESSION = _jobmgr(ExecServiceStub, lambda stub: stub.StartSession)
END_SESSION = _jobmgr(ExecServiceStub, lambda stub: stub.EndSession)
GET_JOB_V1ALPHA = _jobmgr(JobServiceStub, lambda stub: stub.GetJob)
CREATE_JOB_V1ALPHA = _jobmgr(JobServiceStub, lambda stub: stub.CreateJob)
PLAN_JOB = _jobmgr(PlanServiceStub, lambda stub: stub.PlanJob)
LIST_JOB_WORKFLOWS = _jobmgr(JobServiceStub, lambda stub: stub.ListJobWorkflows)
GET_REPLACE_JOB_DIFF = _jobmgr(JobServiceStub, lambda stub: stub.GetReplaceJobDiff)
REPLACE_JOB = _jobmgr(JobServiceStub, lambda stub: stub.ReplaceJob)
START_JOB_V1ALPHA = _jobmgr(JobServiceStub, lambda stub: stub.StartJob)
STOP_JOB_V1ALPHA = _jobmgr(JobServiceStub, lambda stub: stub.StopJob)
DELETE_JOB_V1ALPHA = _jobmgr(JobServiceStub, lambda stub: stub.DeleteJob)
RESTART_JOB_V1ALPHA = _jobmgr(JobServiceStub, lambda stub: stub.RestartJob)
PAUSE_JOB_WORKFLOW = _jobmgr(JobServiceStub, lambda stub: stub.PauseJobWorkflow)
RESUME_JOB_WORKFLOW = _jobmgr(JobServiceStub, lambda stub: stub.ResumeJobWorkflow)
ABORT_JOB_WORKFLOW = _jobmgr(JobServiceStub, lambda stub: stub.AbortJobWorkflow)
CHECK_HOSTS = _jobmgr(MaintenanceServiceStub, lambda stub: stub.CheckHosts)
GET_CALLER = _jobmgr(AccessServiceStub, lambda stub: stub.GetCaller)

# Of the resource manager.
QUERY_POOLS = _resmgr(ResourceManagerStub, lambda stub: stub.Query)
GET_POOL = _resmgr(ResourceManagerStub, lambda stub: stub.GetResourcePool)
EXPLAIN_JOB = _resmgr(ExplainServiceStub, lambda stub: stub.ExplainJob)
EXPLAIN_TASK = _resmgr(ExplainServiceStub, lambda stub: stub.ExplainTask)
GET_CLUSTER = _resmgr(MonitoringServiceStub, lambda stub: stub.GetCluster)
GET_CLUSTER_HISTORY = _resmgr(MonitoringServiceStub, lambda stub: stub.GetHistory)
LIST_POOLS = _resmgr(MonitoringServiceStub, lambda stub: stub.ListPools)
GET_QUEUES = _resmgr(MonitoringServiceStub, lambda stub: stub.GetQueues)
GET_PREEMPTIONS = _resmgr(MonitoringServiceStub, lambda stub: stub.GetPreemptions)
PLAN_POOL = _resmgr(MonitoringServiceStub, lambda stub: stub.PlanPool)
CREATE_POOL = _resmgr(ResourceManagerStub, lambda stub: stub.CreateResourcePool)
UPDATE_POOL = _resmgr(ResourceManagerStub, lambda stub: stub.UpdateResourcePool)
DELETE_POOL = _resmgr(ResourceManagerStub, lambda stub: stub.DeleteResourcePool)
GET_HOSTS_BY_SCORES = RoleRpc("resmgr", _GET_HOSTS_BY_SCORES)

# Of the host managers.
QUERY_HOSTS = RoleRpc("hostmgr", operators.QUERY_HOSTS)
START_MAINTENANCE = RoleRpc("hostmgr", operators.START_MAINTENANCE)
COMPLETE_MAINTENANCE = RoleRpc("hostmgr", operators.COMPLETE_MAINTENANCE)
LIST_HOST_POOLS = RoleRpc("hostmgr", operators.LIST_HOST_POOLS)
CREATE_HOST_POOL = RoleRpc("hostmgr", operators.CREATE_HOST_POOL)
DELETE_HOST_POOL = RoleRpc("hostmgr", operators.DELETE_HOST_POOL)
CHANGE_HOST_POOL = RoleRpc("hostmgr", operators.CHANGE_HOST_POOL)
MOVE_HOSTS = RoleRpc("hostmgr", operators.MOVE_HOSTS)
FORGET_HOSTS = RoleRpc("hostmgr", operators.FORGET_HOSTS)
GET_HOST_HISTORY = RoleRpc("hostmgr", operators.GET_HISTORY)
LIST_HOST_CHANGES = RoleRpc("hostmgr", operators.LIST_CHANGES)
LIST_USED_HOSTS = RoleRpc("hostmgr", operators.LIST_USED_HOSTS)
GET_HOST_CACHE = RoleRpc("hostmgr", operators.GET_HOST_CACHE)
GET_HOSTS_BY_QUERY = RoleRpc("hostmgr", operators.GET_HOSTS_BY_QUERY)
GET_MESOS_AGENT_INFO = RoleRpc("hostmgr", _GET_MESOS_AGENT_INFO)

LIST_OWNERS = RoleRpc("jobmgr", rpc(SharingServiceStub, lambda stub: stub.ListOwners))

# Of each of them.
LIST_PROBLEMS = tuple(RoleRpc(role, operators.LIST_PROBLEMS) for role in SERVERS)
_CHECK_METHODS = rpc(AccessServiceStub, lambda stub: stub.CheckMethods)
CHECK_METHODS: Mapping[Server, RoleRpc[access_pb2.CheckMethodsRequest, access_pb2.CheckMethodsResponse]] = {
    "jobmgr": RoleRpc("jobmgr", _CHECK_METHODS),
    "resmgr": RoleRpc("resmgr", _CHECK_METHODS),
    "hostmgr": RoleRpc("hostmgr", _CHECK_METHODS),
}
