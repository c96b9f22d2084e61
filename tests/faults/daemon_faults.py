"""Faults in the middle of a daemon job's growth: an agent comes back, and the job follows it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.faults.fault import Fault, FaultContext, FaultWithin
from tests.faults.history import DaemonJob
from tests.faults.testbed import until
from tests.faults.workload import ENDLESS, TRY

HOSTS = tuple(f"peloton-mesos-agent{number}" for number in range(3))
SECONDS = 90.0
"""Until a daemon job is on its hosts."""


class InDaemonGrowth(FaultWithin):
    """Create a daemon job, end an agent for good, start another in its place, and strike while it joins."""

    def strike(self, at: FaultContext) -> None:
        """Raise TimeoutError where the job did not come to its hosts before the fault."""
        job_id = _create(at)
        until(lambda: _runs_on(at, job_id, HOSTS), SECONDS, f"daemon job {job_id} on all hosts", 0.1)
        number, since = at.random.randrange(len(HOSTS)), time.time()
        agent, rest = f"mesos-agent{number}", [*HOSTS[:number], *HOSTS[number + 1 :]]
        at.testbed.lose_agent(agent)
        until(lambda: at.testbed.unreachable_since(since), 60, f"{agent} given up")
        until(lambda: _runs_on(at, job_id, rest), SECONDS, f"daemon job {job_id} without {agent}", 0.1)
        at.testbed.start(agent)
        if at.random.random() < 0.5:
            until(lambda: len(_instances(at, job_id)) == len(HOSTS), SECONDS, "an instance more", 0.02)
        self.fault.strike(at)
        with suppress(TimeoutError):  # what is wrong then is for the checker
            until(lambda: _runs_on(at, job_id, HOSTS), SECONDS, f"daemon job {job_id} on all hosts", 0.1)
        at.workload.daemons.append(DaemonJob(job_id, HOSTS, _instances(at, job_id)))


def in_daemon_growth(faults: Mapping[str, Fault]) -> Mapping[str, Fault]:
    """Each of the faults in a daemon job's growth, by its name."""
    return {f"{name}-in-daemon-growth": InDaemonGrowth(fault) for name, fault in faults.items()}


def _create(at: FaultContext) -> str:
    api = at.workload.api
    config = api.config(ENDLESS, 0)
    config.type = job_pb2.DAEMON
    config.sla.preemptible = False
    job_id = at.workload.new_id()
    api.create(config, job_id, instances=len(HOSTS))
    at.workload.staying.append(job_id)
    return job_id


def _runs_on(at: FaultContext, job_id: str, hosts: object) -> bool:
    found = sorted(_instances(at, job_id).values())
    return found == [(host, "RUNNING") for host in sorted(hosts)]  # type: ignore[call-overload]


def _instances(at: FaultContext, job_id: str) -> dict[int, tuple[str, str]]:
    """Return the host and the state of each instance."""
    request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
    tasks = at.workload.api.answered(lambda: at.testbed.client.task_svc.List(request, timeout=TRY))
    return {
        number: (task.runtime.host, task_pb2.TaskState.Name(task.runtime.state))
        for number, task in tasks.result.value.items()
    }
