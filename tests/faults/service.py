"""A v1alpha service on a testbed, and one workflow of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.client import PelotonClient
from tests.faults.history import Pod, Workflow
from tests.faults.testbed import until
from tests.faults.workload import ENDLESS, FAILS, TRY, Answered

BATCH, TOLERATED = 4, 2
RUNNING_SECONDS, WORKFLOW_SECONDS = 60.0, 120.0
CALL_SECONDS = 30.0
"""Of a call that is made once."""
FORWARD, BACKWARD = "ROLLING_FORWARD", "ROLLING_BACKWARD"
SUCCEEDED, ROLLED_BACK = "SUCCEEDED", "ROLLED_BACK"
ENDS = {SUCCEEDED, ROLLED_BACK, "FAILED", "ABORTED"}
"""Of a workflow."""
OLD, NEW = "old", "new"
"""Labels of the configs before and after an update."""


class Service:
    """One service. `answered` repeats a call until it is answered; raises TimeoutError."""

    def __init__(self, client: PelotonClient, answered: Answered, job_id: str, folder: Path) -> None:
        """`folder`: for the labels that its commands leave there."""
        self._jobs = client.stateless_svc
        self._answered = answered
        self._folder = folder
        self.job = job_id
        self._began = 0.0
        self._wanted = (SUCCEEDED, NEW)

    def create(self, pool: str, instances: int) -> None:
        """Return when all instances run."""
        self.pool, self.instances = pool, instances
        request = jobs_pb.CreateJobRequest(job_id=self._id, spec=self._spec(OLD, ENDLESS))
        _once(self._jobs.CreateJob, request)
        until(self.runs, RUNNING_SECONDS, f"all instances of service {self.job}")

    def update(self, *, fails: bool) -> None:
        """Begin an update, to a config whose instances fail and which is rolled back, or to a good one."""
        spec = self._spec(NEW, FAILS if fails else ENDLESS)
        terms = stateless_pb2.UpdateSpec(
            batch_size=BATCH,
            rollback_on_failure=True,
            max_instance_retries=1,
            max_tolerable_instance_failures=TOLERATED,
        )
        version = self._get().job_info.status.version
        request = jobs_pb.ReplaceJobRequest(job_id=self._id, spec=spec, version=version, update_spec=terms)
        self._wanted = (ROLLED_BACK, OLD) if fails else (SUCCEEDED, NEW)
        self._began = time.time()
        _once(self._jobs.ReplaceJob, request)

    def progress(self) -> tuple[str, int, int]:
        """Return the workflow's state, and the instances that are done and that failed."""
        status = self._get().workflow_info.status
        state = stateless_pb2.WorkflowState.Name(status.state).removeprefix("WORKFLOW_STATE_")
        return state, status.num_instances_completed, status.num_instances_failed

    def runs(self) -> bool:
        """Return whether all instances do."""
        stats = self._get().job_info.status.pod_stats
        return bool(stats["POD_STATE_RUNNING"] == self.instances)

    def outcome(self) -> Workflow:
        """Wait for the end of the update, and until all instances run what it led to, for so long as that
        may take: what is wrong then is for the checker. Raise TimeoutError where nobody answers."""
        with suppress(TimeoutError):
            until(lambda: self.progress()[0] in ENDS, WORKFLOW_SECONDS, "the end of the workflow")
            until(self._rests, RUNNING_SECONDS, "all instances as they should be")
        state, _, _ = self.progress()
        pods, version = self._pods(), _config(self._get().job_info.status.version)
        most_down = BATCH + (TOLERATED if self._wanted[0] == ROLLED_BACK else 0)
        spans = (self._began, time.time())
        return Workflow(self.job, self.instances, most_down, *spans, *self._wanted, state, version, pods)

    def _rests(self) -> bool:
        found = [(pod.state, pod.label) for pod in self._pods().values()]
        return found == [("RUNNING", self._wanted[1])] * self.instances

    def _pods(self) -> dict[int, Pod]:
        request = jobs_pb.ListPodsRequest(job_id=self._id)
        answers = self._answered(lambda: list(self._jobs.ListPods(request, timeout=TRY)))
        summaries = [pod for answer in answers for pod in answer.pods]
        return {_number(pod): self._pod(pod) for pod in summaries}

    def _pod(self, summary: pod_pb2.PodSummary) -> Pod:
        state = pod_pb2.PodState.Name(summary.status.state).removeprefix("POD_STATE_")
        return Pod(state, _config(summary.status.version), self._label(_number(summary)))

    def _label(self, number: int) -> str:
        file = self._folder / f"{self.job}-{number}"
        return file.read_text().strip() if file.exists() else ""

    @property
    def _id(self) -> peloton_pb2.JobID:
        return peloton_pb2.JobID(value=self.job)

    def _get(self) -> Any:
        request = jobs_pb.GetJobRequest(job_id=self._id)
        return self._answered(lambda: self._jobs.GetJob(request, timeout=TRY))

    def _spec(self, label: str, command: str) -> stateless_pb2.JobSpec:
        """With a health check: what exits at once has not been up."""
        spec = stateless_pb2.JobSpec(name="faults", owning_team="faults", instance_count=self.instances)
        spec.respool_id.value = self.pool
        spec.sla.preemptible = True
        spec.default_spec.mesos_spec.shell = True
        container = spec.default_spec.containers.add(name="main")
        container.resource.CopyFrom(pod_pb2.ResourceSpec(cpu_limit=0.05, mem_limit_mb=32, disk_limit_mb=8))
        container.entrypoint.value = (
            f'echo {label} > "{self._folder}/{self.job}-$PELOTON_INSTANCE_ID"; {command}'
        )
        liveness = container.liveness_check
        liveness.enabled, liveness.type = True, pod_pb2.HealthCheckSpec.HEALTH_CHECK_TYPE_COMMAND
        liveness.command_check.command = "true"
        return spec


def _once(method: Callable[..., Any], request: Any) -> None:
    """Call what must not be repeated, while no fault is under way. Raise TimeoutError where it fails."""
    try:
        method(request, timeout=CALL_SECONDS)
    except grpc.RpcError as error:
        raise TimeoutError(f"{type(request).__name__} without a fault: {error}") from error


def _number(summary: pod_pb2.PodSummary) -> int:
    return int(summary.pod_name.value.rpartition("-")[2])


def _config(version: peloton_pb2.EntityVersion) -> int:
    """Return the version of the config, the first number of an entity version; 0 where there is none."""
    return int(version.value.partition("-")[0] or 0)
