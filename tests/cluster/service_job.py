"""A v1alpha service on a minicluster, for the tests that drive one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2

from .conftest import Harness, messages, wait_for

SECONDS = 60.0


class ServiceJob:
    """A service of pods that run until they are stopped."""

    def __init__(
        self,
        harness: Harness,
        instances: int,
        adjust: Callable[[stateless_pb2.JobSpec], None] = lambda spec: None,
        secrets: Sequence[peloton_pb2.Secret] = (),
    ) -> None:
        """Create it, with a spec that `adjust` may change."""
        self.jobs, self.pods = harness.client.stateless_svc, harness.client.pod_svc
        self.id = peloton_pb2.JobID(value=str(uuid.uuid4()))
        self.spec = _spec(harness.pool, instances)
        adjust(self.spec)
        request = jobs_pb.CreateJobRequest(job_id=self.id, spec=self.spec, secrets=secrets)
        self.version = self.jobs.CreateJob(request, timeout=SECONDS).version

    def get(self) -> jobs_pb.GetJobResponse:
        answer: jobs_pb.GetJobResponse = self.jobs.GetJob(
            jobs_pb.GetJobRequest(job_id=self.id), timeout=SECONDS
        )
        return answer

    def list(self) -> list[pod_pb2.PodSummary]:
        request = jobs_pb.ListPodsRequest(job_id=self.id)
        answers = messages(lambda: self.jobs.ListPods(request, timeout=SECONDS))
        return [pod for answer in answers for pod in answer.pods]

    def await_states(self, *wanted: int) -> None:
        wait_for(lambda: [pod.status.state for pod in self.list()] == [*wanted], 90, lambda: str(self.list()))

    def name(self, instance: int) -> peloton_pb2.PodName:
        return peloton_pb2.PodName(value=f"{self.id.value}-{instance}")

    def run(self, instance: int) -> int:
        return int(self.list()[instance].status.pod_id.value.rpartition("-")[2])


def _spec(pool: str, instances: int) -> stateless_pb2.JobSpec:
    spec = stateless_pb2.JobSpec(name="web", owning_team="infra", instance_count=instances)
    spec.respool_id.value = pool
    spec.sla.preemptible = True
    spec.default_spec.mesos_spec.shell = True
    container = spec.default_spec.containers.add(name="main")
    container.resource.CopyFrom(pod_pb2.ResourceSpec(cpu_limit=0.1, mem_limit_mb=32, disk_limit_mb=8))
    container.entrypoint.value = 'echo "started as $PELOTON_INSTANCE_ID"; sleep 600'
    return spec
