"""The methods of the interface, by their descriptors, and who may call private ones."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

API, API_V0, PRIVATE = "peloton.api.", "peloton.api.v0.", "peloton.private."
HEALTH = "grpc.health.v1.Health"
REFLECTION = "grpc.reflection."
ACCESS = "peloton.private.access.AccessService"
TASK_ACCESS, RENEW = "peloton.private.jobmgr.access.TaskAccessService", "GetToken"
EXEC = "peloton.private.jobmgr.exec.ExecService"
"""Who may call its StartSession, may run commands beside tasks."""
LOCKDOWN = "/peloton.api.v1alpha.admin.svc.AdminService/Lockdown"
"""Who may call it, administers the cluster."""

FOR_USERS: Mapping[str, frozenset[str]] = {
    "peloton.private.jobmgr.JobManagerService": frozenset(
        {"GetThrottledPods", "QueryJobCache", "GetInstanceAvailabilityInfoForJob"}
    ),
    TASK_ACCESS: frozenset({RENEW, "GetMembers", "GetSandboxFile"}),
    EXEC: frozenset({"StartSession", "EndSession"}),
    "peloton.private.jobmgr.maintenance.MaintenanceService": frozenset({"CheckHosts"}),
    "peloton.private.jobmgr.usage.UsageService": frozenset(
        {"GetUsage", "ListLosses", "ListAccounts", "GetJobAccount", "ListUsed"}
    ),
    "peloton.private.jobmgr.scheduling.SchedulingService": frozenset(
        {"ListPriorityClasses", "ListSchedules", "PauseSchedule", "ResumeSchedule", "SuspendJob", "ResumeJob"}
    ),
    "peloton.private.jobmgr.secrets.SecretService": frozenset(
        {"CreateSecret", "ReplaceSecret", "DeleteSecret", "ListSecrets"}
    ),
    "peloton.private.jobmgr.forecast.ForecastService": frozenset({"ListLiveJobs"}),
    "peloton.private.jobmgr.moving.MoveService": frozenset({"MoveJob"}),
    "peloton.private.jobmgr.sharing.SharingService": frozenset({"ListOwners"}),
    "peloton.private.plan.PlanService": frozenset({"PlanJob"}),
    "peloton.private.problems.ProblemService": frozenset({"ListProblems"}),
    "peloton.private.hostmgr.feasibility.FeasibilityService": frozenset({"CheckGangs"}),
    "peloton.private.resmgr.ResourceManagerService": frozenset(
        {"GetActiveTasks", "GetHostsByScores", "GetPendingTasks", "GetOrphanTasks"}
    ),
    "peloton.private.resmgr.explain.ExplainService": frozenset({"ExplainJob", "ExplainTask"}),
    "peloton.private.resmgr.monitoring.MonitoringService": frozenset(
        {"GetCluster", "ListPools", "GetQueues", "GetHistory", "GetPreemptions", "PlanPool"}
    ),
    "peloton.private.hostmgr.history.HostHistoryService": frozenset({"GetHistory", "ListChanges"}),
    "peloton.private.hostmgr.sampling.SamplingService": frozenset({"ListHosts"}),
    "peloton.private.hostmgr.registry.HostRegistryService": frozenset({"ForgetHosts", "ListClusters"}),
    "peloton.private.hostmgr.hostsvc.InternalHostService": frozenset(
        {
            "ClusterCapacity",
            "DisableKillTasks",
            "GetHostsByQuery",
            "GetMesosAgentInfo",
            "GetOutstandingOffers",
            "WatchEventStreamEvent",
            "WatchHostSummaryEvent",
        }
    ),
    "peloton.private.hostmgr.v1alpha.svc.HostManagerService": frozenset({"GetHostCache", "ClusterCapacity"}),
}
"""Methods of private services that clients call too, such as the command line. Roles grant them as they grant
public ones; all others are the daemons' only, whatever a role accepts."""
SCOPED: Mapping[str, frozenset[str] | None] = {
    "peloton.api.v0.job.JobManager": None,
    "peloton.api.v0.job.instances.InstanceService": None,
    "peloton.api.v0.task.TaskManager": None,
    "peloton.api.v0.update.svc.UpdateService": None,
    "peloton.api.v0.volume.svc.VolumeService": None,
    "peloton.api.v0.respool.ResourceManager": None,
    "peloton.api.v1alpha.job.stateless.svc.JobService": None,
    "peloton.api.v1alpha.pod.svc.PodService": None,
    "peloton.api.v1alpha.watch.svc.WatchService": None,
    "peloton.api.v1alpha.volume.svc.VolumeService": None,
    "peloton.api.v1alpha.respool.ResourcePoolService": None,
    "peloton.private.jobmgr.JobManagerService": frozenset({"GetInstanceAvailabilityInfoForJob"}),
    "peloton.private.plan.PlanService": None,
    TASK_ACCESS: frozenset({"GetMembers", "GetSandboxFile"}),
    EXEC: None,
    "peloton.private.jobmgr.usage.UsageService": None,
    "peloton.private.jobmgr.scheduling.SchedulingService": frozenset(
        {"ListSchedules", "PauseSchedule", "ResumeSchedule", "SuspendJob", "ResumeJob"}
    ),
    "peloton.private.jobmgr.secrets.SecretService": None,
    "peloton.private.jobmgr.moving.MoveService": None,
    "peloton.private.resmgr.explain.ExplainService": None,
}
"""Methods that are about jobs or pools, and check in which pools these are: roles that are bound to pools,
or to the caller's own jobs, grant nothing else. None: all of a service."""

FOR_TASKS: Mapping[str, frozenset[str]] = {
    "peloton.api.v0.job.JobManager": frozenset({"Get", "GetCache", "Update", "Stop"}),
    "peloton.api.v0.job.instances.InstanceService": frozenset({"ReleaseInstances"}),
    "peloton.api.v0.task.TaskManager": frozenset(
        {"Get", "GetCache", "List", "Query", "GetPodEvents", "BrowseSandbox", "Stop"}
    ),
    "peloton.api.v0.update.svc.UpdateService": frozenset(
        {"CreateUpdate", "GetUpdate", "GetUpdateCache", "ListUpdates", "PauseUpdate", "ResumeUpdate"}
        | {"AbortUpdate"}
    ),
    "peloton.api.v1alpha.job.stateless.svc.JobService": frozenset(
        {"GetJob", "GetJobCache", "GetReplaceJobDiff", "GetWorkflowEvents", "ListJobWorkflows", "ListPods"}
        | {"QueryPods", "PatchJob", "ReplaceJob", "StopJob", "PauseJobWorkflow", "ResumeJobWorkflow"}
        | {"AbortJobWorkflow"}
    ),
    "peloton.api.v1alpha.pod.svc.PodService": frozenset(
        {"GetPod", "GetPodCache", "GetPodEvents", "BrowsePodSandbox", "StopPod"}
    ),
    "peloton.api.v1alpha.watch.svc.WatchService": frozenset({"Watch", "Cancel"}),
    TASK_ACCESS: frozenset({RENEW, "GetMembers", "GetSandboxFile"}),
}
"""What a task may call about its own job by its token: get, watch, update, stop, read logs, renew."""


def split(path: str) -> tuple[str, str]:
    """Split a gRPC path, `/service/method`, into the service's canonical name and the method.

    Services of v0 are served by their older names too, without the `v0`: what a role says of the one counts
    for the other.
    """
    service, _, method = path.lstrip("/").partition("/")
    if service.startswith(API) and not service.startswith((API_V0, "peloton.api.v1alpha.")):
        service = API_V0 + service.removeprefix(API)
    return service, method


def for_daemons_only(service: str, method: str) -> bool:
    """Return whether only daemons may call a method."""
    return service.startswith(PRIVATE) and service != ACCESS and method not in FOR_USERS.get(service, ())


def scoped(service: str, method: str) -> bool:
    """Return whether a method checks in which pools the jobs are that it is about."""
    methods = SCOPED.get(service, frozenset())
    return methods is None or method in methods


@cache
def interface() -> Mapping[str, frozenset[str]]:
    """Return the methods of all services, by full name. Imports all generated messages."""
    return dict(_services())


def _services() -> Iterator[tuple[str, frozenset[str]]]:
    for root in ("peloton.api", "peloton.private"):
        for found in pkgutil.walk_packages(import_module(root).__path__, f"{root}."):
            if found.name.endswith("_pb2"):
                for service in import_module(found.name).DESCRIPTOR.services_by_name.values():
                    yield service.full_name, frozenset(service.methods_by_name)
