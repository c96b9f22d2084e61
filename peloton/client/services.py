"""Services by the attribute of the client, with the role that serves each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Service:
    """A generated stub (`stub` in `<module>_pb2_grpc`) and the role that serves it."""

    role: str
    module: str
    stub: str

    def load(self) -> Any:
        """Import and return the stub's class; importing the stubs of all services would take long."""
        return getattr(import_module(f"peloton.{self.module}_pb2_grpc"), self.stub)


SERVICES: Mapping[str, Service] = {
    "job_svc": Service("jobmgr", "api.v0.job.job", "JobManagerStub"),
    "instance_svc": Service("jobmgr", "api.v0.job.instances.instances", "InstanceServiceStub"),
    "task_svc": Service("jobmgr", "api.v0.task.task", "TaskManagerStub"),
    "update_svc": Service("jobmgr", "api.v0.update.svc.update_svc", "UpdateServiceStub"),
    "volume_svc": Service("jobmgr", "api.v0.volume.svc.volume_svc", "VolumeServiceStub"),
    "stateless_svc": Service("jobmgr", "api.v1alpha.job.stateless.svc.stateless_svc", "JobServiceStub"),
    "pod_svc": Service("jobmgr", "api.v1alpha.pod.svc.pod_svc", "PodServiceStub"),
    "watch_svc": Service("jobmgr", "api.v1alpha.watch.svc.watch_svc", "WatchServiceStub"),
    "admin_svc": Service("jobmgr", "api.v1alpha.admin.svc.admin_svc", "AdminServiceStub"),
    "respool_svc": Service("resmgr", "api.v0.respool.respool", "ResourceManagerStub"),
    "respool_v1alpha_svc": Service(
        "resmgr", "api.v1alpha.respool.svc.respool_svc", "ResourcePoolServiceStub"
    ),
    "volume_v1alpha_svc": Service("jobmgr", "api.v1alpha.volume.svc.volume_svc", "VolumeServiceStub"),
    "host_svc": Service("hostmgr", "api.v0.host.svc.host_svc", "HostServiceStub"),
    "host_v1alpha_svc": Service("hostmgr", "api.v1alpha.host.svc.host_svc", "HostServiceStub"),
    "jobmgr_private_svc": Service("jobmgr", "private.jobmgrsvc.jobmgrsvc", "JobManagerServiceStub"),
    "task_access_svc": Service("jobmgr", "private.jobmgr.access.access", "TaskAccessServiceStub"),
    "exec_svc": Service("jobmgr", "private.jobmgr.exec.exec", "ExecServiceStub"),
    "usage_svc": Service("jobmgr", "private.jobmgr.usage.usage", "UsageServiceStub"),
    "moving_svc": Service("jobmgr", "private.jobmgr.moving.moving", "MoveServiceStub"),
    "scheduling_svc": Service("jobmgr", "private.jobmgr.scheduling.scheduling", "SchedulingServiceStub"),
    "forecast_svc": Service("jobmgr", "private.jobmgr.forecast.forecast", "ForecastServiceStub"),
    "sharing_svc": Service("jobmgr", "private.jobmgr.sharing.sharing", "SharingServiceStub"),
    "maintenance_svc": Service("jobmgr", "private.jobmgr.maintenance.maintenance", "MaintenanceServiceStub"),
    "resmgr_svc": Service("resmgr", "private.resmgrsvc.resmgrsvc", "ResourceManagerServiceStub"),
    "explain_svc": Service("resmgr", "private.resmgr.explain.explain", "ExplainServiceStub"),
    "monitoring_svc": Service("resmgr", "private.resmgr.monitoring.monitoring", "MonitoringServiceStub"),
    "hostmgr_svc": Service("hostmgr", "private.hostmgr.hostsvc.hostsvc", "InternalHostServiceStub"),
    "hostmgr_v1alpha_svc": Service(
        "hostmgr", "private.hostmgr.v1alpha.svc.hostmgr_svc", "HostManagerServiceStub"
    ),
    "host_history_svc": Service("hostmgr", "private.hostmgr.history.history", "HostHistoryServiceStub"),
    "host_registry_svc": Service("hostmgr", "private.hostmgr.registry.registry", "HostRegistryServiceStub"),
    "sampling_svc": Service("hostmgr", "private.hostmgr.sampling.sampling", "SamplingServiceStub"),
    "feasibility_svc": Service("jobmgr", "private.hostmgr.feasibility.feasibility", "FeasibilityServiceStub"),
    "jobmgr_access_svc": Service("jobmgr", "private.access.access", "AccessServiceStub"),
    "resmgr_access_svc": Service("resmgr", "private.access.access", "AccessServiceStub"),
    "hostmgr_access_svc": Service("hostmgr", "private.access.access", "AccessServiceStub"),
    "jobmgr_problem_svc": Service("jobmgr", "private.problems.problems", "ProblemServiceStub"),
    "resmgr_problem_svc": Service("resmgr", "private.problems.problems", "ProblemServiceStub"),
    "hostmgr_problem_svc": Service("hostmgr", "private.problems.problems", "ProblemServiceStub"),
    "plan_svc": Service("jobmgr", "private.plan.plan", "PlanServiceStub"),
}
