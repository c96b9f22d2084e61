"""Faults while services are created, updated in place, restarted, stopped and deleted at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from tests.churn import STEPS, ChurnedService
from tests.faults.fault import Fault, FaultContext, FaultWithin

SERVICES, INSTANCES = 3, 6
SECONDS, SECONDS_QUICK = 15.0, 5.0
"""Of the churn, at least; it lasts as long as the fault."""
PAUSE_SECONDS = 1.5
"""Longest time between two requests about a service."""


class InServices(FaultWithin):
    """Let services go through everything at once, strike meanwhile, and delete them all."""

    def strike(self, at: FaultContext) -> None:
        """Raise TimeoutError where a service is not gone after its deletion."""
        services = [
            ChurnedService(at.testbed.client, at.testbed.pool, INSTANCES, new_id=at.workload.new_id)
            for _ in range(SERVICES)
        ]
        churn = _Churn(at, services)
        churn.begin()
        try:
            at.wait(1.0, 4.0)
            self.fault.strike(at)
        finally:
            churn.end()
            at.workload.deleted += [job_id for each in services for job_id in each.ids]
            at.workload.answers += [wrong for each in services for wrong in each.wrong]
        for each in services:
            each.delete_all()


class _Churn:
    """One thread for each service, which makes the steps that were drawn for it."""

    def __init__(self, at: FaultContext, services: list[ChurnedService]) -> None:
        least = at.outage(SECONDS, SECONDS_QUICK)
        self._until = time.monotonic() + least
        self._over = threading.Event()
        draw = at.random
        self._threads = [
            threading.Thread(
                target=self._go_on,
                args=(
                    each,
                    [
                        (draw.choice(STEPS), draw.randrange(INSTANCES), draw.uniform(0, PAUSE_SECONDS))
                        for _ in range(1000)
                    ],
                ),
                name="churn",
                daemon=True,
            )
            for each in services
        ]

    def begin(self) -> None:
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """Go on until the churn has lasted long enough."""
        self._over.wait(max(self._until - time.monotonic(), 0))
        self._over.set()
        for each in self._threads:
            each.join()

    def _go_on(self, service: ChurnedService, steps: list[tuple[str, int, float]]) -> None:
        for step, number, pause in steps:
            if self._over.wait(pause):
                return
            service.do(step, number)


def in_services(faults: Mapping[str, Fault]) -> Mapping[str, Fault]:
    """Each of the faults while services go through everything, by its name."""
    return {f"{name}-in-services": InServices(fault) for name, fault in faults.items()}
