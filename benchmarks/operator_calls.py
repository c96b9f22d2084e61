"""GetThrottledPods and CheckHosts, which are about all jobs, while the job manager's loop is busy.

    python -m benchmarks.operator_calls --jobs 5600 --instances 10 --hosts 1000

Each job is a service of its own size; hostmgr's answers are made here, as messages. The loop has other work
of --busy milliseconds in each turn. Prints the seconds of each call, and the longest that one held it up.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

from jobmgr.clients.matching import MatchingClient
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.throttling import THROTTLED
from jobmgr.services.private.job_manager import JobManagerService
from jobmgr.services.private.maintenance import MaintenanceService
from peloton.calls.rpc import Rpc
from peloton.model.job import JobRuntime, JobSpec, Sla
from peloton.model.payload import ApiVersion, Payload
from peloton.model.resources import Resources
from peloton.model.states import JobState, JobType, TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.private.hostmgr.matching import matching_pb2
from peloton.private.jobmgr.maintenance import maintenance_pb2
from peloton.private.jobmgrsvc import jobmgrsvc_pb2


class Jobs:
    """What the calls need of an engine."""

    def __init__(self, jobs: dict[str, CachedJob]) -> None:
        self._jobs = jobs

    def active_jobs(self) -> list[str]:
        return list(self._jobs)

    def job(self, job_id: str) -> CachedJob | None:
        return self._jobs.get(job_id)

    async def find(self, job_id: str) -> CachedJob | None:
        return self._jobs.get(job_id)


class Matching:
    """Answers that all hosts that are not asked about match, as hostmgr would."""

    def __init__(self, hosts: list[str]) -> None:
        self._hosts = hosts

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        sent = type(request).FromString(request.SerializeToString())
        answer = matching_pb2.MatchHostsResponse()
        among = set(getattr(sent, "among", ())) or None
        for _ in sent.filters:
            named = self._hosts if among is None else [host for host in self._hosts if host in among]
            match = answer.matches.add(hostnames=named)
            if among is not None:
                match.elsewhere = True
        await asyncio.sleep(0)
        return type(answer).FromString(answer.SerializeToString())


def jobs_of(count: int, instances: int) -> dict[str, CachedJob]:
    """Make services, each with needs of its own; one instance in a thousand is throttled."""
    runs = TaskRuntime(TaskState.RUNNING, TaskState.RUNNING, 1, 1, 1, 1)
    waits = replace(runs, state=TaskState.FAILED, message=THROTTLED, throttled=True)
    runtime = JobRuntime(JobState.RUNNING, JobState.RUNNING, 1, 1)
    made = {}
    for number in range(count):
        job_id = str(UUID(int=number + 1, version=4))
        task = TaskSpec(resources=Resources.of(cpu=0.1 + number / 1000, memory=64))
        spec = JobSpec(
            1,
            f"service{number}",
            JobType.SERVICE,
            "pool",
            instances,
            Sla(),
            task,
            {},
            Payload(ApiVersion.V0, b""),
        )
        job = CachedJob(job_id, spec, runtime)
        job.fill({i: waits if (number * instances + i) % 1000 == 0 else runs for i in range(instances)})
        made[job_id] = job
    return made


async def measured(call: Any, busy: float) -> tuple[float, float]:
    """Return the seconds of a call, and the longest time between two turns of the loop beside it."""
    longest, done = 0.0, asyncio.Event()

    async def work() -> None:
        nonlocal longest
        while not done.is_set():
            end = time.perf_counter() + busy
            while time.perf_counter() < end:
                pass
            before = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - before)

    beside = asyncio.create_task(work())
    await asyncio.sleep(0)
    begun = time.perf_counter()
    await call
    taken = time.perf_counter() - begun
    done.set()
    await beside
    return taken, longest


async def main(options: argparse.Namespace) -> None:
    """Measure both calls."""
    engine: Any = Jobs(jobs_of(options.jobs, options.instances))
    hosts = [f"host{number}" for number in range(options.hosts)]
    service = JobManagerService(engine, None)  # type: ignore[arg-type]
    matching = MaintenanceService(engine, MatchingClient(Matching(hosts)))
    throttled = service.GetThrottledPods(jobmgrsvc_pb2.GetThrottledPodsRequest(), None)
    request = maintenance_pb2.CheckHostsRequest(hostnames=hosts[:2])
    for name, call in (("throttled_pods", throttled), ("check_hosts", matching.CheckHosts(request, None))):
        seconds, longest = await measured(call, options.busy / 1000)
        print(f"{name}_s_of_{options.jobs} {seconds:.2f}")
        print(f"{name}_longest_turn_ms {longest * 1000:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for option, default in (("--jobs", 5600), ("--instances", 10), ("--hosts", 1000), ("--busy", 2)):
        parser.add_argument(option, type=int, default=default)
    asyncio.run(main(parser.parse_args()))
