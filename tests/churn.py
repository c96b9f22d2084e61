"""A service that is created, updated, stopped and deleted in any order, by calls that may be refused."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import grpc

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pods_pb
from peloton.client import PelotonClient
from peloton.client.discovery import DiscoveryError

TRY_SECONDS = 5.0
GONE_SECONDS = 90.0
BROKEN = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED})
"""Answers that no request may get."""


class ChurnedService:
    """One service, whose id changes each time that it is created."""

    def __init__(
        self,
        client: PelotonClient,
        pool: str,
        instances: int,
        cpu: float = 0.05,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._jobs, self._pods = client.stateless_svc, client.pod_svc
        self._pool, self._instances, self._cpu = pool, instances, cpu
        self._new_id = new_id
        self._version = 0
        self._deleted = False
        """Whether the last step was a deletion: the next one creates another."""
        self.ids: list[str] = []
        """Of all that were created, the present one last."""
        self.wrong: list[str] = []
        """Answers that no request may get."""

    def do(self, step: str, number: int) -> None:
        """Make one call of STEPS; `number` picks an instance, or how many there shall be."""
        if step == "create" or not self.ids or self._deleted:
            self._deleted = False
            self._create()
            return
        self._deleted = step == "delete"
        call = getattr(self, f"_{step.replace(' ', '_')}")
        self._try(step, lambda: call(number % self._instances))

    def delete_all(self) -> None:
        """Return when all that were created are gone. Raise TimeoutError."""
        deadline = time.monotonic() + GONE_SECONDS
        for job_id in self.ids:
            while not self._is_gone(job_id):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"service {job_id} is not gone after {GONE_SECONDS:g} s")
                self._try("delete", lambda job_id=job_id: self._delete_job(job_id))  # type: ignore[misc]
                time.sleep(0.2)

    def _try(self, step: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except grpc.RpcError as error:
            if error.code() in BROKEN:
                self.wrong.append(f"{step} of {self.ids[-1]}: {error.code().name} {error.details()}")
        except DiscoveryError:
            return  # nobody leads at the moment

    def _is_gone(self, job_id: str) -> bool:
        try:
            self._jobs.GetJob(jobs_pb.GetJobRequest(job_id=_job(job_id)), timeout=TRY_SECONDS)
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.NOT_FOUND)
        except DiscoveryError:
            pass
        return False

    # Steps.

    def _create(self) -> None:
        if self.ids:
            self._try("delete", lambda: self._delete_job(self.ids[-1]))
        self.ids.append(self._new_id())
        request = jobs_pb.CreateJobRequest(job_id=_job(self.ids[-1]), spec=self._spec(self._instances))
        self._try("create", lambda: self._jobs.CreateJob(request, timeout=TRY_SECONDS))

    def _update(self, number: int) -> None:
        self._replace(self._instances, batch_size=1 + number)

    def _update_in_place(self, number: int) -> None:
        self._replace(self._instances, in_place=True, batch_size=number)

    def _shrink(self, number: int) -> None:
        self._replace(1 + number // 2, in_place=bool(number % 2))

    def _start_in_update(self, number: int) -> None:
        self._replace(self._instances, in_place=True, start_pods=True)

    def _replace(self, count: int, **options: Any) -> None:
        request = jobs_pb.ReplaceJobRequest(
            **self._present(), spec=self._spec(count), update_spec=stateless_pb2.UpdateSpec(**options)
        )
        self._jobs.ReplaceJob(request, timeout=TRY_SECONDS)

    def _restart(self, number: int) -> None:
        self._restart_all(batch_size=number)

    def _restart_in_place(self, number: int) -> None:
        self._restart_all(in_place=True, batch_size=number)

    def _restart_all(self, **options: Any) -> None:
        request = jobs_pb.RestartJobRequest(
            **self._present(), restart_spec=stateless_pb2.RestartSpec(**options)
        )
        self._jobs.RestartJob(request, timeout=TRY_SECONDS)

    def _abort(self, number: int) -> None:
        self._jobs.AbortJobWorkflow(jobs_pb.AbortJobWorkflowRequest(**self._present()), timeout=TRY_SECONDS)

    def _stop(self, number: int) -> None:
        self._jobs.StopJob(jobs_pb.StopJobRequest(**self._present()), timeout=TRY_SECONDS)

    def _start(self, number: int) -> None:
        self._jobs.StartJob(jobs_pb.StartJobRequest(**self._present()), timeout=TRY_SECONDS)

    def _stop_pod(self, number: int) -> None:
        self._pods.StopPod(pods_pb.StopPodRequest(pod_name=self._pod(number)), timeout=TRY_SECONDS)

    def _start_pod(self, number: int) -> None:
        self._pods.StartPod(pods_pb.StartPodRequest(pod_name=self._pod(number)), timeout=TRY_SECONDS)

    def _restart_pod(self, number: int) -> None:
        self._pods.RestartPod(pods_pb.RestartPodRequest(pod_name=self._pod(number)), timeout=TRY_SECONDS)

    def _delete(self, number: int) -> None:
        self._delete_job(self.ids[-1])

    def _delete_job(self, job_id: str) -> None:
        request = jobs_pb.DeleteJobRequest(**self._present(job_id), force=True)
        self._jobs.DeleteJob(request, timeout=TRY_SECONDS)

    # Parts of requests.

    def _present(self, job_id: str = "") -> dict[str, Any]:
        """Return the id of a job and its version now."""
        job = _job(job_id or self.ids[-1])
        found = self._jobs.GetJob(jobs_pb.GetJobRequest(job_id=job), timeout=TRY_SECONDS)
        return {"job_id": job, "version": found.job_info.status.version}

    def _pod(self, number: int) -> peloton_pb2.PodName:
        return peloton_pb2.PodName(value=f"{self.ids[-1]}-{number}")

    def _spec(self, count: int) -> stateless_pb2.JobSpec:
        """Return a spec of another config each time, which may ask for a little more than the one before."""
        self._version += 1
        spec = stateless_pb2.JobSpec(name="churn", owning_team="churn", instance_count=count)
        spec.respool_id.value = self._pool
        spec.sla.preemptible = True
        spec.default_spec.mesos_spec.shell = True
        spec.default_spec.kill_grace_period_seconds = 1
        container = spec.default_spec.containers.add(name="main")
        cpu = self._cpu * (1 + self._version % 3 / 2)
        container.resource.CopyFrom(pod_pb2.ResourceSpec(cpu_limit=cpu, mem_limit_mb=32, disk_limit_mb=8))
        container.entrypoint.value = f"sleep 100000 # {self._version}"
        return spec


STEPS = (
    "create", "update", "update in place", "update in place", "shrink", "start in update", "restart",
    "restart in place", "restart in place", "abort", "stop", "start", "stop pod", "start pod", "restart pod",
    "delete",
)  # fmt: skip


def _job(job_id: str) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=job_id)
