"""Faults in the middle of the maintenance of a host."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from tests.faults.daemon_faults import HOSTS
from tests.faults.fault import Fault, FaultContext, FaultWithin
from tests.faults.testbed import until
from tests.faults.workload import TRY

SECONDS = 120.0
"""Until a host is in its next state."""


class InMaintenance(FaultWithin):
    """Start the maintenance of a host, strike while it drains or comes back, and bring it up again."""

    def strike(self, at: FaultContext) -> None:
        """Raise TimeoutError where the host does not go down, or does not come back."""
        number = at.random.randrange(len(HOSTS))
        host, agent, early = HOSTS[number], f"mesos-agent{number}", at.random.random() < 0.7
        api, service = at.workload.api, at.testbed.client.host_svc
        start = host_svc_pb2.StartMaintenanceRequest(hostname=host)
        api.answered(lambda: service.StartMaintenance(start, timeout=TRY))
        if early:
            at.wait(0.0, 1.0)
            self.fault.strike(at)
        until(lambda: _state(at, host) == host_pb2.HOST_STATE_DOWN, SECONDS, f"{host} down", 0.2)
        complete = host_svc_pb2.CompleteMaintenanceRequest(hostname=host)
        api.answered(lambda: service.CompleteMaintenance(complete, timeout=TRY))
        if not early:
            self.fault.strike(at)
        until(lambda: _state(at, host) != host_pb2.HOST_STATE_DOWN, SECONDS, f"{host} up again", 0.2)
        at.testbed.start(agent)
        until(lambda: _state(at, host) == host_pb2.HOST_STATE_UP, SECONDS, f"{host} registered", 0.2)


def in_maintenance(faults: Mapping[str, Fault]) -> Mapping[str, Fault]:
    """Each of the faults in the maintenance of a host, by its name."""
    return {f"{name}-in-maintenance": InMaintenance(fault) for name, fault in faults.items()}


def _state(at: FaultContext, host: str) -> int:
    request = host_svc_pb2.QueryHostsRequest()
    answer = at.workload.api.answered(lambda: at.testbed.client.host_svc.QueryHosts(request, timeout=TRY))
    return next((each.state for each in answer.host_infos if each.hostname == host), 0)
