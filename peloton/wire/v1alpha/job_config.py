"""Translate job specs of the v1alpha API into job configs of the v0 API, and back."""

from __future__ import annotations

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.wire.v1alpha.constraint import v0_labels, v1alpha_labels
from peloton.wire.v1alpha.merge import merged
from peloton.wire.v1alpha.pod_spec import pod_spec_of
from peloton.wire.v1alpha.task_config import task_config


def job_config_of(spec: stateless_pb2.JobSpec) -> job_pb2.JobConfig:
    """Return a job spec as a config of the v0 API: a service. Its instanceConfig holds whole configs.

    Raises InvalidArgument, with the path of the field, for what this server does not run.
    """
    config = job_pb2.JobConfig(
        name=spec.name,
        type=job_pb2.SERVICE,
        owningTeam=spec.owning_team,
        ldapGroups=spec.ldap_groups,
        description=spec.description,
        labels=v0_labels(spec.labels),
        instanceCount=spec.instance_count,
        defaultConfig=task_config(spec.default_spec, "default_spec"),
        owner=spec.owner,
    )
    if spec.HasField("workload"):
        config.workload.CopyFrom(spec.workload)
    config.dependsOn.extend(spec.depends_on)
    if spec.HasField("schedule"):
        config.schedule.CopyFrom(spec.schedule)
    if spec.HasField("sla"):
        config.sla.CopyFrom(_v0_sla(spec.sla))
    if spec.HasField("respool_id"):
        config.respoolID.value = spec.respool_id.value
    if spec.HasField("revision"):
        revision = spec.revision
        config.changeLog.CopyFrom(
            v0_peloton.ChangeLog(
                version=revision.version,
                createdAt=revision.created_at,
                updatedAt=revision.updated_at,
                updatedBy=revision.updated_by,
            )
        )
    for instance, override in spec.instance_spec.items():
        whole = merged(spec.default_spec, override)
        config.instanceConfig[instance].CopyFrom(task_config(whole, f"instance_spec[{instance}]"))
    return config


def job_spec_of(config: job_pb2.JobConfig) -> stateless_pb2.JobSpec:
    """Return a config of the v0 API as a job spec. What a spec has no place for is left out.

    That is the type, the strategy of placement, overrides of `preemptible`, and what the SLA of a batch job
    has beyond that of a service.
    """
    sla = config.sla
    spec = stateless_pb2.JobSpec(
        name=config.name,
        owner=config.owner,
        owning_team=config.owningTeam,
        ldap_groups=config.ldapGroups,
        description=config.description,
        labels=v1alpha_labels(config.labels),
        instance_count=config.instanceCount,
        default_spec=pod_spec_of(config.defaultConfig),
        instance_spec={i: pod_spec_of(override) for i, override in config.instanceConfig.items()},
    )
    if config.HasField("workload"):
        spec.workload.CopyFrom(config.workload)
    spec.depends_on.extend(config.dependsOn)
    if config.HasField("schedule"):
        spec.schedule.CopyFrom(config.schedule)
    if config.HasField("sla"):
        spec.sla.CopyFrom(
            stateless_pb2.SlaSpec(
                priority=sla.priority,
                preemptible=sla.preemptible,
                revocable=sla.revocable,
                maximum_unavailable_instances=sla.maximumUnavailableInstances,
                priority_class=sla.priorityClass,
            )
        )
    if config.HasField("respoolID"):
        spec.respool_id.value = config.respoolID.value
    if config.HasField("changeLog"):
        log = config.changeLog
        spec.revision.CopyFrom(
            peloton_pb2.Revision(
                version=log.version,
                created_at=log.createdAt,
                updated_at=log.updatedAt,
                updated_by=log.updatedBy,
            )
        )
    return spec


def _v0_sla(sla: stateless_pb2.SlaSpec) -> job_pb2.SlaConfig:
    return job_pb2.SlaConfig(
        priority=sla.priority,
        preemptible=sla.preemptible,
        revocable=sla.revocable,
        maximumUnavailableInstances=sla.maximum_unavailable_instances,
        priorityClass=sla.priority_class,
    )
