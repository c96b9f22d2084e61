"""The services of a client as attributes with the types of their stubs.

The stubs themselves are imported by `peloton.client.services` when a service is first called: all of them
would take long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peloton.api.v0.host.svc import host_svc_pb2_grpc as v0_host_svc_pb2_grpc
    from peloton.api.v0.job import job_pb2_grpc
    from peloton.api.v0.job.instances import instances_pb2_grpc
    from peloton.api.v0.respool import respool_pb2_grpc
    from peloton.api.v0.task import task_pb2_grpc
    from peloton.api.v0.update.svc import update_svc_pb2_grpc
    from peloton.api.v0.volume.svc import volume_svc_pb2_grpc as v0_volume_svc_pb2_grpc
    from peloton.api.v1alpha.admin.svc import admin_svc_pb2_grpc
    from peloton.api.v1alpha.host.svc import host_svc_pb2_grpc as v1alpha_host_svc_pb2_grpc
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
    from peloton.api.v1alpha.pod.svc import pod_svc_pb2_grpc
    from peloton.api.v1alpha.respool.svc import respool_svc_pb2_grpc
    from peloton.api.v1alpha.volume.svc import volume_svc_pb2_grpc as v1alpha_volume_svc_pb2_grpc
    from peloton.api.v1alpha.watch.svc import watch_svc_pb2_grpc
    from peloton.private.access import access_pb2_grpc
    from peloton.private.hostmgr.feasibility import feasibility_pb2_grpc
    from peloton.private.hostmgr.history import history_pb2_grpc
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2_grpc
    from peloton.private.hostmgr.registry import registry_pb2_grpc
    from peloton.private.hostmgr.sampling import sampling_pb2_grpc
    from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2_grpc
    from peloton.private.jobmgr.access import access_pb2_grpc as task_access_pb2_grpc
    from peloton.private.jobmgr.exec import exec_pb2_grpc
    from peloton.private.jobmgr.forecast import forecast_pb2_grpc
    from peloton.private.jobmgr.maintenance import maintenance_pb2_grpc
    from peloton.private.jobmgr.moving import moving_pb2_grpc
    from peloton.private.jobmgr.scheduling import scheduling_pb2_grpc
    from peloton.private.jobmgr.sharing import sharing_pb2_grpc
    from peloton.private.jobmgr.usage import usage_pb2_grpc
    from peloton.private.jobmgrsvc import jobmgrsvc_pb2_grpc
    from peloton.private.plan import plan_pb2_grpc
    from peloton.private.problems import problems_pb2_grpc
    from peloton.private.resmgr.explain import explain_pb2_grpc
    from peloton.private.resmgr.monitoring import monitoring_pb2_grpc
    from peloton.private.resmgrsvc import resmgrsvc_pb2_grpc


class Services:
    """Blocking stubs."""

    job_svc: job_pb2_grpc.JobManagerStub
    instance_svc: instances_pb2_grpc.InstanceServiceStub
    task_svc: task_pb2_grpc.TaskManagerStub
    update_svc: update_svc_pb2_grpc.UpdateServiceStub
    volume_svc: v0_volume_svc_pb2_grpc.VolumeServiceStub
    stateless_svc: stateless_svc_pb2_grpc.JobServiceStub
    pod_svc: pod_svc_pb2_grpc.PodServiceStub
    watch_svc: watch_svc_pb2_grpc.WatchServiceStub
    admin_svc: admin_svc_pb2_grpc.AdminServiceStub
    respool_svc: respool_pb2_grpc.ResourceManagerStub
    respool_v1alpha_svc: respool_svc_pb2_grpc.ResourcePoolServiceStub
    volume_v1alpha_svc: v1alpha_volume_svc_pb2_grpc.VolumeServiceStub
    host_svc: v0_host_svc_pb2_grpc.HostServiceStub
    host_v1alpha_svc: v1alpha_host_svc_pb2_grpc.HostServiceStub
    jobmgr_private_svc: jobmgrsvc_pb2_grpc.JobManagerServiceStub
    task_access_svc: task_access_pb2_grpc.TaskAccessServiceStub
    maintenance_svc: maintenance_pb2_grpc.MaintenanceServiceStub
    moving_svc: moving_pb2_grpc.MoveServiceStub
    scheduling_svc: scheduling_pb2_grpc.SchedulingServiceStub
    exec_svc: exec_pb2_grpc.ExecServiceStub
    forecast_svc: forecast_pb2_grpc.ForecastServiceStub
    sharing_svc: sharing_pb2_grpc.SharingServiceStub
    usage_svc: usage_pb2_grpc.UsageServiceStub
    resmgr_svc: resmgrsvc_pb2_grpc.ResourceManagerServiceStub
    explain_svc: explain_pb2_grpc.ExplainServiceStub
    monitoring_svc: monitoring_pb2_grpc.MonitoringServiceStub
    hostmgr_svc: hostsvc_pb2_grpc.InternalHostServiceStub
    hostmgr_v1alpha_svc: hostmgr_svc_pb2_grpc.HostManagerServiceStub
    host_history_svc: history_pb2_grpc.HostHistoryServiceStub
    host_registry_svc: registry_pb2_grpc.HostRegistryServiceStub
    sampling_svc: sampling_pb2_grpc.SamplingServiceStub
    feasibility_svc: feasibility_pb2_grpc.FeasibilityServiceStub
    jobmgr_access_svc: access_pb2_grpc.AccessServiceStub
    resmgr_access_svc: access_pb2_grpc.AccessServiceStub
    hostmgr_access_svc: access_pb2_grpc.AccessServiceStub
    jobmgr_problem_svc: problems_pb2_grpc.ProblemServiceStub
    resmgr_problem_svc: problems_pb2_grpc.ProblemServiceStub
    hostmgr_problem_svc: problems_pb2_grpc.ProblemServiceStub
    plan_svc: plan_pb2_grpc.PlanServiceStub


class AsyncServices:
    """Stubs whose calls are awaited, and whose streams are for `async for`."""

    job_svc: job_pb2_grpc.JobManagerAsyncStub
    instance_svc: instances_pb2_grpc.InstanceServiceAsyncStub
    task_svc: task_pb2_grpc.TaskManagerAsyncStub
    update_svc: update_svc_pb2_grpc.UpdateServiceAsyncStub
    volume_svc: v0_volume_svc_pb2_grpc.VolumeServiceAsyncStub
    stateless_svc: stateless_svc_pb2_grpc.JobServiceAsyncStub
    pod_svc: pod_svc_pb2_grpc.PodServiceAsyncStub
    watch_svc: watch_svc_pb2_grpc.WatchServiceAsyncStub
    admin_svc: admin_svc_pb2_grpc.AdminServiceAsyncStub
    respool_svc: respool_pb2_grpc.ResourceManagerAsyncStub
    respool_v1alpha_svc: respool_svc_pb2_grpc.ResourcePoolServiceAsyncStub
    volume_v1alpha_svc: v1alpha_volume_svc_pb2_grpc.VolumeServiceAsyncStub
    host_svc: v0_host_svc_pb2_grpc.HostServiceAsyncStub
    host_v1alpha_svc: v1alpha_host_svc_pb2_grpc.HostServiceAsyncStub
    jobmgr_private_svc: jobmgrsvc_pb2_grpc.JobManagerServiceAsyncStub
    task_access_svc: task_access_pb2_grpc.TaskAccessServiceAsyncStub
    maintenance_svc: maintenance_pb2_grpc.MaintenanceServiceAsyncStub
    moving_svc: moving_pb2_grpc.MoveServiceAsyncStub
    scheduling_svc: scheduling_pb2_grpc.SchedulingServiceAsyncStub
    exec_svc: exec_pb2_grpc.ExecServiceAsyncStub
    forecast_svc: forecast_pb2_grpc.ForecastServiceAsyncStub
    sharing_svc: sharing_pb2_grpc.SharingServiceAsyncStub
    usage_svc: usage_pb2_grpc.UsageServiceAsyncStub
    resmgr_svc: resmgrsvc_pb2_grpc.ResourceManagerServiceAsyncStub
    explain_svc: explain_pb2_grpc.ExplainServiceAsyncStub
    monitoring_svc: monitoring_pb2_grpc.MonitoringServiceAsyncStub
    hostmgr_svc: hostsvc_pb2_grpc.InternalHostServiceAsyncStub
    hostmgr_v1alpha_svc: hostmgr_svc_pb2_grpc.HostManagerServiceAsyncStub
    host_history_svc: history_pb2_grpc.HostHistoryServiceAsyncStub
    host_registry_svc: registry_pb2_grpc.HostRegistryServiceAsyncStub
    sampling_svc: sampling_pb2_grpc.SamplingServiceAsyncStub
    feasibility_svc: feasibility_pb2_grpc.FeasibilityServiceAsyncStub
    jobmgr_access_svc: access_pb2_grpc.AccessServiceAsyncStub
    resmgr_access_svc: access_pb2_grpc.AccessServiceAsyncStub
    hostmgr_access_svc: access_pb2_grpc.AccessServiceAsyncStub
    jobmgr_problem_svc: problems_pb2_grpc.ProblemServiceAsyncStub
    resmgr_problem_svc: problems_pb2_grpc.ProblemServiceAsyncStub
    hostmgr_problem_svc: problems_pb2_grpc.ProblemServiceAsyncStub
    plan_svc: plan_pb2_grpc.PlanServiceAsyncStub
