"""Faults in the middle of an update of a service, and of a roll back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.faults.fault import Fault, FaultContext
from tests.faults.service import BACKWARD, BATCH, ENDS, FORWARD, WORKFLOW_SECONDS, Service
from tests.faults.testbed import until

INSTANCES, INSTANCES_QUICK = 20, 10


@dataclass(frozen=True, slots=True)
class InWorkflow:
    """Create a service, begin an update of it, and strike in the middle of it, or of its roll back."""

    fault: Fault
    rolls_back: bool = False
    """The new config is bad, and the fault strikes when the update has failed instances or is undone."""

    @property
    def needs(self) -> frozenset[str]:
        return self.fault.needs

    @property
    def long(self) -> bool:
        return self.fault.long

    def strike(self, at: FaultContext) -> None:
        """Raise TimeoutError where the workflow did not come to its middle."""
        instances = INSTANCES_QUICK if at.quick else INSTANCES
        job_id = at.workload.add_staying(instances)
        service = Service(at.testbed.client, at.workload.api.answered, job_id, at.workload.folder)
        service.create(at.testbed.pool, instances)
        service.update(fails=self.rolls_back)
        point = self._middle(at, service)
        over = f"service {service.job} in the middle of a workflow ({point})"
        until(lambda: self._reached(service, point), WORKFLOW_SECONDS, over, 0.05)
        self.fault.strike(at)
        at.workload.workflows.append(service.outcome())

    def _middle(self, at: FaultContext, service: Service) -> tuple[str, int]:
        """State of the workflow, and the number of instances that are done, or have failed."""
        if not self.rolls_back:
            return FORWARD, at.random.randint(1, service.instances - BATCH)
        return at.random.choice(((FORWARD, 1), (BACKWARD, 0)))

    def _reached(self, service: Service, point: tuple[str, int]) -> bool:
        """Raise TimeoutError where the workflow ended before. What is rolled back is past its failures."""
        wanted, least = point
        state, done, failed = service.progress()
        if state in ENDS:
            raise TimeoutError(f"the workflow of service {service.job} was {state} before {point}")
        if self.rolls_back:
            return state == BACKWARD or (state == wanted and failed >= least)
        return state == wanted and done >= least


def in_workflows(faults: Mapping[str, Fault]) -> Mapping[str, Fault]:
    """Each of the faults in an update and in a roll back, by its name."""
    return {
        f"{name}-in-{workflow}": InWorkflow(fault, rolls_back)
        for workflow, rolls_back in (("update", False), ("rollback", True))
        for name, fault in faults.items()
    }
