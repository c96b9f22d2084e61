"""Pods of one job as messages: their merged specs and their statuses."""

from __future__ import annotations

from jobmgr.services.common.job_info import parsed_spec
from jobmgr.services.common.view import JobView
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.task import TaskRuntime
from peloton.wire.v1alpha.duplicate_fields import filled_pod
from peloton.wire.v1alpha.merge import pod_spec
from peloton.wire.v1alpha.pod_status import pod_name, pod_status

_NO_CONTAINER = pod_pb2.ContainerSpec()


class Pods:
    """Describe the pods of a job, each by the version of the spec that it has."""

    def __init__(self, job: JobView) -> None:
        self._job = job
        self._specs: dict[int, stateless_pb2.JobSpec] = {}

    async def info(self, instance: int, runtime: TaskRuntime | None, status_only: bool) -> pod_pb2.PodInfo:
        """Describe a pod. One that has no row yet has no status."""
        spec = await self.spec(instance, runtime)
        info = pod_pb2.PodInfo()
        if not status_only:
            info.spec.CopyFrom(filled_pod(spec))
            info.spec.pod_name.CopyFrom(pod_name(self._job.job_id, instance))
        if runtime is not None:
            info.status.CopyFrom(self._status(instance, runtime, spec))
        return info

    async def summary(self, instance: int, runtime: TaskRuntime) -> pod_pb2.PodSummary:
        """Describe a pod without its spec."""
        spec = await self.spec(instance, runtime)
        return pod_pb2.PodSummary(
            pod_name=pod_name(self._job.job_id, instance), status=self._status(instance, runtime, spec)
        )

    async def status(self, instance: int, runtime: TaskRuntime) -> pod_pb2.PodStatus:
        """Return the status of a pod."""
        return self._status(instance, runtime, await self.spec(instance, runtime))

    async def spec(self, instance: int, runtime: TaskRuntime | None) -> pod_pb2.PodSpec:
        """Return the merged spec of a pod. It must not be changed."""
        version = self._job.spec.version if runtime is None else runtime.config_version
        spec = self._specs.get(version)
        if spec is None:
            spec = self._specs[version] = parsed_spec((await self._job.version(version)).payload)
        return pod_spec(spec, instance)

    def _status(self, instance: int, runtime: TaskRuntime, spec: pod_pb2.PodSpec) -> pod_pb2.PodStatus:
        container = spec.containers[0] if spec.containers else _NO_CONTAINER
        return pod_status(self._job.job_id, instance, runtime, container)
