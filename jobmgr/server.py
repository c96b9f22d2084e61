"""All gRPC services of the job manager that leads."""

from __future__ import annotations

from collections.abc import Callable

from jobmgr.engine.engine import Engine
from jobmgr.services.common.agent_http import AgentHttp
from jobmgr.services.common.lockdown import guarded
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.common.scope import scoped
from jobmgr.services.common.volumes import Volumes
from jobmgr.services.private.feasibility import FeasibilityService
from jobmgr.services.private.job_manager import JobManagerService
from jobmgr.services.private.maintenance import MaintenanceService
from jobmgr.services.private.plan import PlanService
from jobmgr.services.v0.jobs import JobManager
from jobmgr.services.v0.tasks import TaskManager
from jobmgr.services.v0.updates import UpdateService
from jobmgr.services.v0.volumes import VolumeService
from jobmgr.services.v1alpha import volumes as v1alpha_volumes
from jobmgr.services.v1alpha.admin import AdminService
from jobmgr.services.v1alpha.jobs import JobService
from jobmgr.services.v1alpha.pods import PodService
from jobmgr.services.v1alpha.watch import WatchService
from jobmgr.services.v1alpha.watches import Watches
from peloton.api.v0.job.job_pb2_grpc import add_JobManagerServicer_to_server
from peloton.api.v0.task.task_pb2_grpc import add_TaskManagerServicer_to_server
from peloton.api.v0.update.svc.update_svc_pb2_grpc import add_UpdateServiceServicer_to_server
from peloton.api.v0.volume.svc import volume_svc_pb2_grpc
from peloton.api.v1alpha.admin.svc.admin_svc_pb2_grpc import add_AdminServiceServicer_to_server
from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2_grpc import add_JobServiceServicer_to_server
from peloton.api.v1alpha.pod.svc.pod_svc_pb2_grpc import add_PodServiceServicer_to_server
from peloton.api.v1alpha.volume.svc import volume_svc_pb2_grpc as v1alpha_volume_svc
from peloton.api.v1alpha.watch.svc.watch_svc_pb2_grpc import add_WatchServiceServicer_to_server
from peloton.clock import Clock
from peloton.config.agents import PLAIN, AgentAccess
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import add_FeasibilityServiceServicer_to_server
from peloton.private.jobmgr.maintenance.maintenance_pb2_grpc import add_MaintenanceServiceServicer_to_server
from peloton.private.jobmgrsvc.jobmgrsvc_pb2_grpc import add_JobManagerServiceServicer_to_server
from peloton.private.plan.plan_pb2_grpc import add_PlanServiceServicer_to_server
from peloton.rpc.client import Caller
from peloton.rpc.server import Service, service

OLDER_JOB_MANAGER = "peloton.api.job.JobManager"
OLDER_TASK_MANAGER = "peloton.api.task.TaskManager"
"""Names that published clients call (docs/behaviour/system.md, Ports and service names)."""
NAMES = (
    "peloton.api.v0.job.JobManager",
    OLDER_JOB_MANAGER,
    "peloton.api.v0.task.TaskManager",
    OLDER_TASK_MANAGER,
    "peloton.api.v0.update.svc.UpdateService",
    "peloton.api.v0.volume.svc.VolumeService",
    "peloton.api.v1alpha.volume.svc.VolumeService",
    "peloton.api.v1alpha.job.stateless.svc.JobService",
    "peloton.api.v1alpha.pod.svc.PodService",
    "peloton.api.v1alpha.watch.svc.WatchService",
    "peloton.api.v1alpha.admin.svc.AdminService",
    "peloton.private.jobmgr.JobManagerService",
    "peloton.private.hostmgr.feasibility.FeasibilityService",
    "peloton.private.jobmgr.maintenance.MaintenanceService",
    "peloton.private.plan.PlanService",
)


def services(
    engine: Engine,
    clock: Clock,
    hostmgr: Callable[[str], Caller],
    feasibility: Caller,
    matching: Caller,
    planning: Caller,
    watches: Watches | None = None,
    enable_secrets: bool = False,
    agents: AgentAccess = PLAIN,
) -> tuple[Service, ...]:
    """Return the services of the leader. A lockdown of Read or Write refuses calls of all but AdminService.

    `hostmgr` returns the caller of a Mesos cluster's InternalHostService; `feasibility` calls the
    FeasibilityService, `matching` the MatchingService of all; `planning` calls resmgr's
    PlanningService, `agents` says how Mesos agents are called.
    """
    jobs = JobManager(engine, clock, enable_secrets=enable_secrets)
    updates = UpdateService(engine, clock)
    stateless = JobService(engine, engine.workflows, clock, enable_secrets=enable_secrets)
    sandboxes = Sandboxes(hostmgr, AgentHttp(access=agents))
    tasks = TaskManager(engine, sandboxes)
    watching = WatchService(engine, Watches(engine, clock) if watches is None else watches)
    volumes = Volumes(engine)
    served = (
        service(add_JobManagerServicer_to_server, jobs, [OLDER_JOB_MANAGER]),
        service(add_TaskManagerServicer_to_server, tasks, [OLDER_TASK_MANAGER]),
        service(add_UpdateServiceServicer_to_server, updates),
        service(volume_svc_pb2_grpc.add_VolumeServiceServicer_to_server, VolumeService(volumes)),
        service(
            v1alpha_volume_svc.add_VolumeServiceServicer_to_server, v1alpha_volumes.VolumeService(volumes)
        ),
        service(add_JobServiceServicer_to_server, stateless),
        service(add_PodServiceServicer_to_server, PodService(engine, sandboxes)),
        service(add_WatchServiceServicer_to_server, watching),
        service(add_JobManagerServiceServicer_to_server, JobManagerService(engine, engine.workflows)),
        service(add_FeasibilityServiceServicer_to_server, FeasibilityService(feasibility)),
        service(add_MaintenanceServiceServicer_to_server, MaintenanceService(engine, matching)),
        service(
            add_PlanServiceServicer_to_server, PlanService(jobs.plan_spec, stateless.plan_spec, planning)
        ),
    )
    admin = service(add_AdminServiceServicer_to_server, AdminService(engine.lockdown))
    return (*(guarded(scoped(each, engine), engine.lockdown) for each in served), admin)
