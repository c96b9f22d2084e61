"""All gRPC services of the job manager that leads."""

from __future__ import annotations

from collections.abc import Callable

from jobmgr.clients.matching import AgentsClient, MatchingClient
from jobmgr.engine.engine import Engine
from jobmgr.engine.task_access import TaskAccess
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.account_reads import OpenHour
from jobmgr.services.common.agent_http import AgentHttp
from jobmgr.services.common.lockdown import guarded
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.common.scope import scoped
from jobmgr.services.common.spec_rules import PLAIN_SPECS, SpecRules
from jobmgr.services.common.volumes import Volumes
from jobmgr.services.private.exec import ExecService
from jobmgr.services.private.feasibility import FeasibilityService
from jobmgr.services.private.forecast import ForecastService
from jobmgr.services.private.job_manager import JobManagerService
from jobmgr.services.private.maintenance import MaintenanceService
from jobmgr.services.private.moving import MoveService
from jobmgr.services.private.plan import PlanService
from jobmgr.services.private.scheduling import SchedulingService
from jobmgr.services.private.secrets import SecretService
from jobmgr.services.private.sharing import SharingService
from jobmgr.services.private.task_access import TaskAccessService
from jobmgr.services.private.usage import UsageService
from jobmgr.services.v0.instances import InstanceService
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
from peloton.api.v0.job.instances.instances_pb2_grpc import add_InstanceServiceServicer_to_server
from peloton.api.v0.job.job_pb2_grpc import add_JobManagerServicer_to_server
from peloton.api.v0.task.task_pb2_grpc import add_TaskManagerServicer_to_server
from peloton.api.v0.update.svc.update_svc_pb2_grpc import add_UpdateServiceServicer_to_server
from peloton.api.v0.volume.svc import volume_svc_pb2_grpc
from peloton.api.v1alpha.admin.svc.admin_svc_pb2_grpc import add_AdminServiceServicer_to_server
from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2_grpc import add_JobServiceServicer_to_server
from peloton.api.v1alpha.pod.svc.pod_svc_pb2_grpc import add_PodServiceServicer_to_server
from peloton.api.v1alpha.volume.svc import volume_svc_pb2_grpc as v1alpha_volume_svc
from peloton.api.v1alpha.watch.svc.watch_svc_pb2_grpc import add_WatchServiceServicer_to_server
from peloton.calls.rpc import Caller, Hostmgrs
from peloton.clock import Clock
from peloton.config.agents import PLAIN, AgentAccess
from peloton.membership.shard_registry import Shards
from peloton.model.shard import SHARDS
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import add_FeasibilityServiceServicer_to_server
from peloton.private.jobmgr.access.access_pb2_grpc import add_TaskAccessServiceServicer_to_server
from peloton.private.jobmgr.exec.exec_pb2_grpc import add_ExecServiceServicer_to_server
from peloton.private.jobmgr.forecast.forecast_pb2_grpc import add_ForecastServiceServicer_to_server
from peloton.private.jobmgr.maintenance.maintenance_pb2_grpc import add_MaintenanceServiceServicer_to_server
from peloton.private.jobmgr.moving.moving_pb2_grpc import add_MoveServiceServicer_to_server
from peloton.private.jobmgr.scheduling.scheduling_pb2_grpc import add_SchedulingServiceServicer_to_server
from peloton.private.jobmgr.secrets.secrets_pb2_grpc import add_SecretServiceServicer_to_server
from peloton.private.jobmgr.sharing.sharing_pb2_grpc import add_SharingServiceServicer_to_server
from peloton.private.jobmgr.usage.usage_pb2_grpc import add_UsageServiceServicer_to_server
from peloton.private.jobmgrsvc.jobmgrsvc_pb2_grpc import add_JobManagerServiceServicer_to_server
from peloton.private.plan.plan_pb2_grpc import add_PlanServiceServicer_to_server
from peloton.rpc.server import Service, names_of, service
from peloton.sharding.table import ShardTable

OLDER_JOB_MANAGER = "peloton.api.job.JobManager"
OLDER_TASK_MANAGER = "peloton.api.task.TaskManager"
"""Names that published clients call (docs/behaviour/system.md, Ports and service names)."""
NAMES = (
    OLDER_JOB_MANAGER,
    OLDER_TASK_MANAGER,
    *names_of(
        add_JobManagerServicer_to_server,
        add_InstanceServiceServicer_to_server,
        add_TaskManagerServicer_to_server,
        add_UpdateServiceServicer_to_server,
        volume_svc_pb2_grpc.add_VolumeServiceServicer_to_server,
        v1alpha_volume_svc.add_VolumeServiceServicer_to_server,
        add_JobServiceServicer_to_server,
        add_PodServiceServicer_to_server,
        add_WatchServiceServicer_to_server,
        add_AdminServiceServicer_to_server,
        add_JobManagerServiceServicer_to_server,
        add_FeasibilityServiceServicer_to_server,
        add_MaintenanceServiceServicer_to_server,
        add_PlanServiceServicer_to_server,
        add_TaskAccessServiceServicer_to_server,
        add_ExecServiceServicer_to_server,
        add_UsageServiceServicer_to_server,
        add_SchedulingServiceServicer_to_server,
        add_SecretServiceServicer_to_server,
        add_SharingServiceServicer_to_server,
        add_ForecastServiceServicer_to_server,
        add_MoveServiceServicer_to_server,
    ),
)


def no_shards() -> Shards:
    """Return that nobody owns any job."""
    return Shards(ShardTable.unowned(SHARDS), 0, {})


def services(
    engine: Engine,
    workflows: Workflows,
    clock: Clock,
    hostmgrs: Hostmgrs,
    resmgr: Caller,
    watches: Watches | None = None,
    rules: SpecRules = PLAIN_SPECS,
    agents: AgentAccess = PLAIN,
    access: TaskAccess | None = None,
    hosts_address: str = "",
    accounts: OpenHour | None = None,
    shards: Callable[[], Shards] = no_shards,
    shared: bool = False,
) -> tuple[Service, ...]:
    """Return the services of the leader. A lockdown of Read or Write refuses calls of all but AdminService.

    `hostmgrs` calls the host managers of all Mesos clusters, or of one. `rules` says what is taken of specs,
    `agents` how Mesos agents are called, `access` what tasks get to call Peloton with, `hosts_address`
    what they are told of all hosts in place of their names, `accounts` has the account of the open hour,
    `shards` returns who owns which jobs, and `shared` says whether these are several.
    """
    http = AgentHttp(access=agents)
    sandboxes = Sandboxes(lambda cluster: AgentsClient(hostmgrs.of(cluster)), http)
    usage = UsageService(engine, lambda cluster: AgentsClient(hostmgrs.of(cluster)), http, accounts, clock)
    watching = WatchService(engine, Watches(engine, workflows.status, clock) if watches is None else watches)
    maintenance = MaintenanceService(engine, MatchingClient(hostmgrs))
    served = (
        *_of_jobs(engine, workflows, clock, hostmgrs, resmgr, rules),
        *_of_tasks(engine, sandboxes, TaskAccessService(engine, access, sandboxes, hosts_address)),
        *_of_volumes(Volumes(engine)),
        service(add_WatchServiceServicer_to_server, watching),
        service(add_JobManagerServiceServicer_to_server, JobManagerService(engine, workflows)),
        service(add_UsageServiceServicer_to_server, usage),
        service(add_SchedulingServiceServicer_to_server, SchedulingService(engine, rules.classes)),
        service(add_SecretServiceServicer_to_server, SecretService(engine, clock, rules.secrets)),
        service(add_SharingServiceServicer_to_server, SharingService(engine, shards, shared)),
        service(add_ForecastServiceServicer_to_server, ForecastService(engine, clock)),
        service(add_FeasibilityServiceServicer_to_server, FeasibilityService(hostmgrs)),
        service(add_MaintenanceServiceServicer_to_server, maintenance),
    )
    admin = service(add_AdminServiceServicer_to_server, AdminService(engine.lockdown))
    return (*(guarded(scoped(each, engine), engine.lockdown) for each in served), admin)


def _of_jobs(
    engine: Engine,
    workflows: Workflows,
    clock: Clock,
    hostmgrs: Hostmgrs,
    resmgr: Caller,
    rules: SpecRules,
) -> tuple[Service, ...]:
    """Return the services that create and change jobs, and that plan it."""
    jobs = JobManager(engine, workflows, clock, rules=rules)
    updates = UpdateService(engine, workflows, clock, rules)
    stateless = JobService(engine, workflows, clock, rules=rules)
    moves = MoveService(engine, workflows, clock, MatchingClient(hostmgrs), updates.moved, stateless.moved)
    return (
        service(add_JobManagerServicer_to_server, jobs, [OLDER_JOB_MANAGER]),
        service(add_InstanceServiceServicer_to_server, InstanceService(engine)),
        service(add_UpdateServiceServicer_to_server, updates),
        service(add_JobServiceServicer_to_server, stateless),
        service(add_MoveServiceServicer_to_server, moves),
        service(add_PlanServiceServicer_to_server, PlanService(jobs.plan_spec, stateless.plan_spec, resmgr)),
    )


def _of_tasks(engine: Engine, sandboxes: Sandboxes, access: TaskAccessService) -> tuple[Service, ...]:
    """Return the services of tasks, of both versions, and those by which one calls and enters them."""
    return (
        service(add_TaskManagerServicer_to_server, TaskManager(engine, sandboxes), [OLDER_TASK_MANAGER]),
        service(add_PodServiceServicer_to_server, PodService(engine, sandboxes)),
        service(add_TaskAccessServiceServicer_to_server, access),
        service(add_ExecServiceServicer_to_server, ExecService(engine, sandboxes)),
    )


def _of_volumes(volumes: Volumes) -> tuple[Service, ...]:
    """Return the services of volumes, of both versions."""
    return (
        service(volume_svc_pb2_grpc.add_VolumeServiceServicer_to_server, VolumeService(volumes)),
        service(
            v1alpha_volume_svc.add_VolumeServiceServicer_to_server, v1alpha_volumes.VolumeService(volumes)
        ),
    )
