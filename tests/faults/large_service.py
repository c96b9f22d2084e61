"""Faults in the middle of an update of a service on simulated agents, beside jobs of thousands of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from tests.faults.fault import FaultContext, FaultWithin
from tests.faults.history import Pod
from tests.faults.large_workload import ENDLESS_SECONDS, SECONDS_LABEL
from tests.faults.service import BATCH, FORWARD, NEW, OLD, WORKFLOW_SECONDS, Service
from tests.faults.testbed import until
from tests.faults.workload import ENDLESS

INSTANCES = 32


class SimulatedService(Service):
    """A service whose commands do nothing: what an instance runs is known by the version of its config."""

    def _spec(self, label: str, command: str) -> stateless_pb2.JobSpec:
        spec = super()._spec(label, command)
        spec.default_spec.containers[0].ClearField("liveness_check")
        spec.default_spec.labels.extend(
            [
                peloton_pb2.Label(key=SECONDS_LABEL, value=str(ENDLESS_SECONDS)),
                peloton_pb2.Label(key="config", value=label),
            ]
        )
        assert command == ENDLESS, "simulated services do not fail"
        return spec

    def _pod(self, summary: pod_pb2.PodSummary) -> Pod:
        found = super()._pod(summary)
        return replace(found, label=OLD if found.version <= 1 else NEW)


@dataclass(frozen=True, slots=True)
class InLargeUpdate(FaultWithin):
    """Create a service, begin an update of it, and strike in the middle of it."""

    also: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", self.fault.needs | self.also)

    def strike(self, at: FaultContext) -> None:
        """Raise TimeoutError where the update did not come to its middle."""
        job_id = at.workload.add_staying(INSTANCES)
        service = SimulatedService(at.testbed.client, at.workload.api.answered, job_id, at.workload.folder)
        service.create(at.testbed.pool, INSTANCES)
        service.update(fails=False)
        least = at.random.randint(1, INSTANCES - 4 * BATCH)
        until(
            lambda: service.progress()[0] == FORWARD and service.progress()[1] >= least,
            WORKFLOW_SECONDS,
            f"service {job_id} with {least} instances updated",
            0.05,
        )
        self.fault.strike(at)
        at.workload.workflows.append(service.outcome())
