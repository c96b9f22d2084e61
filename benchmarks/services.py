"""Services through real daemon processes on simulated agents: creation, updates, idling, watching.

    python benchmarks/services.py [large] [idle] [watch] [--instances 10000] [--hosts 5000] [--services 1000]
                                  [--watchers 1000]

Prints one figure per line: seconds until all instances of a service run, instances per second of an update in
batches, CPU of jobmgr while many services idle, and the delay with which watchers of all pods see changes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from benchmarks.throughput import client_of, make_pool, tell, usage
from minicluster.cluster import Cluster
from minicluster.settings import Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch import watch_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2
from peloton.client import PelotonClient
from peloton.clock import NANOSECONDS
from peloton.errors import PelotonError

FOREVER = 1e6
"""Seconds that a simulated task runs: longer than the benchmark."""
POLL_SECONDS = 0.2
PER_SERVICE = 10
IDLE_SECONDS = 30.0
PARTS = ("large", "idle", "watch")
SERVICES_PER_SECOND = 20
"""Services that are created while they are watched."""
WATCH_SECONDS = 10.0
SETTLE_SECONDS = 5.0
DECODE_EACH = 50
"""One in this number of watchers decodes its messages."""
_ONE_CONNECTION = (("grpc.max_receive_message_length", -1),)
_WATCH = watch_svc_pb2.DESCRIPTOR.services_by_name["WatchService"]
ENDED = {
    stateless_pb2.WORKFLOW_STATE_SUCCEEDED,
    stateless_pb2.WORKFLOW_STATE_FAILED,
    stateless_pb2.WORKFLOW_STATE_ABORTED,
    stateless_pb2.WORKFLOW_STATE_ROLLED_BACK,
}


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all unless given")
    parser.add_argument("--instances", type=int, default=10_000, help="of the large service")
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--batch", type=int, default=500, help="instances of the update in flight at a time")
    parser.add_argument("--services", type=int, default=1_000, help=f"idle ones, of {PER_SERVICE} instances")
    parser.add_argument("--watchers", type=int, default=1_000, help="of all pods")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until a step is given up")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: no part; there are {', '.join(PARTS)}")
    options.parts = options.parts or PARTS
    return options


def measure(options: argparse.Namespace) -> int:
    simulated = Simulated(agents=options.hosts, task_seconds=FOREVER)
    settings = read_cluster(None, {"ports": "free"}).model_copy(update={"simulated": simulated})
    with (
        temporary_cluster(settings, tell, options.keep_logs) as cluster,
        client_of(cluster) as client,
    ):
        bench = Bench(client, cluster, make_pool(client), options.timeout)
        if "large" in options.parts:
            job_id = bench.measure_creation(options.instances)
            bench.measure_update(job_id, options.instances, options.batch)
            bench.delete(job_id)
        if "idle" in options.parts:
            bench.measure_idle(options.services)
        if "watch" in options.parts:
            asyncio.run(bench.measure_watchers(options.watchers))
    print(f"load average: {os.getloadavg()[0]:.1f}")
    return 0


class Bench:
    """The measurements, each on the same cluster."""

    def __init__(self, client: PelotonClient, cluster: Cluster, pool: str, timeout: float) -> None:
        self._jobs, self._pods = client.stateless_svc, client.pod_svc
        self._address = cluster.urls()["JOBMGR_URL"]
        self._cluster = cluster
        self._pool = pool
        self._timeout = timeout

    def measure_creation(self, instances: int) -> peloton_pb2.JobID:
        """Print the seconds until all instances of a new service run."""
        begun = time.monotonic()
        job_id = self._create(instances)
        self._await_running(job_id, instances)
        print(f"service of {instances} runs after s: {time.monotonic() - begun:.1f}")
        return job_id

    def measure_update(self, job_id: peloton_pb2.JobID, instances: int, batch: int) -> None:
        """Print how many instances an update in batches replaces in a second."""
        info = self._get(job_id).job_info
        request = jobs_pb.ReplaceJobRequest(job_id=job_id, version=info.status.version, spec=info.spec)
        request.spec.default_spec.containers[0].entrypoint.value = "changed"
        request.spec.default_spec.containers[0].ClearField("command")
        request.update_spec.batch_size = batch
        before, begun = usage(self._cluster)["jobmgr0"].cpu, time.monotonic()
        self._jobs.ReplaceJob(request, timeout=60)
        self._until(lambda: self._get(job_id).workflow_info.status.state in ENDED, "the update")
        seconds = time.monotonic() - begun
        status = self._get(job_id).workflow_info.status
        if status.state != stateless_pb2.WORKFLOW_STATE_SUCCEEDED:
            raise PelotonError(f"the update did not succeed: {status}")
        spent = usage(self._cluster)["jobmgr0"].cpu - before
        print(f"instances updated per second: {instances / seconds:.0f}")
        print(f"instances updated per second of jobmgr's CPU: {instances / spent:.0f}")

    def delete(self, job_id: peloton_pb2.JobID) -> None:
        """Delete a service, and wait until it is gone."""
        version = self._get(job_id).job_info.status.version
        request = jobs_pb.DeleteJobRequest(job_id=job_id, version=version, force=True)
        self._jobs.DeleteJob(request, timeout=60)
        self._until(lambda: self._is_gone(job_id), "the deletion")

    def measure_idle(self, services: int) -> None:
        """Print the share of a core that jobmgr uses for services in which nothing happens."""
        ids = [self._create(PER_SERVICE) for _ in range(services)]
        for job_id in ids:
            self._await_running(job_id, PER_SERVICE)
        before, begun = usage(self._cluster)["jobmgr0"].cpu, time.monotonic()
        time.sleep(IDLE_SECONDS)
        spent = usage(self._cluster)["jobmgr0"].cpu - before
        share = spent / (time.monotonic() - begun)
        print(f"jobmgr's CPU with {services} idle services of {PER_SERVICE}, percent: {100 * share:.1f}")

    async def measure_watchers(self, watchers: int) -> None:
        """Print the delay between a change of a pod and its arrival at watchers of all pods."""
        seen = Seen()
        async with grpc.aio.insecure_channel(self._address, options=_ONE_CONNECTION) as channel:
            watch: Any = channel.unary_stream(f"/{_WATCH.full_name}/Watch")
            request = watch_svc_pb2.WatchRequest(pod_filter=watch_pb2.PodFilter()).SerializeToString()
            streams = [
                asyncio.create_task(_read(watch(request), seen, decode=number % DECODE_EACH == 0))
                for number in range(watchers)
            ]
            await seen.wait(watchers, streams)
            before, begun = usage(self._cluster)["jobmgr0"].cpu, time.monotonic()
            await self._create_steadily(begun)
            seconds = time.monotonic() - begun
            spent = usage(self._cluster)["jobmgr0"].cpu - before
            await asyncio.sleep(SETTLE_SECONDS)
            broken = [each.exception() for each in streams if each.done()]
            # The server ends the streams: many that are cancelled here block the end of this process.
            await asyncio.to_thread(self._cluster.stop, ["jobmgr0"])
            await asyncio.wait(streams)
        if broken:
            raise PelotonError(f"{len(broken)} watches ended, the first by {broken[0]!r}"[:500])
        decoding = -(-watchers // DECODE_EACH)
        lags = sorted(seen.lags)
        print(f"services created per second: {SERVICES_PER_SECOND * WATCH_SECONDS / seconds:.0f}")
        print(f"changes of pods per second: {sum(seen.revisions.values()) / seconds:.0f}")
        print(f"pods in the messages to one watcher per second: {len(lags) / decoding / seconds:.0f}")
        print(f"messages to {watchers} watchers per second: {seen.messages / seconds:.0f}")
        print(f"delay of a change at a watcher p50 s: {lags[len(lags) // 2]:.2f}")
        print(f"delay of a change at a watcher p99 s: {lags[len(lags) * 99 // 100]:.2f}")
        print(f"jobmgr's CPU with {watchers} watchers, percent: {100 * spent / seconds:.0f}")

    async def _create_steadily(self, begun: float) -> None:
        """Create services, each at its time after `begun` even where the one before is not answered yet."""
        async with asyncio.TaskGroup() as creations:
            for at in range(round(SERVICES_PER_SECOND * WATCH_SECONDS)):
                await asyncio.sleep(max(0.0, begun + at / SERVICES_PER_SECOND - time.monotonic()))
                creations.create_task(asyncio.to_thread(self._create, PER_SERVICE))

    def _create(self, instances: int) -> peloton_pb2.JobID:
        job_id = peloton_pb2.JobID(value=str(uuid.uuid4()))
        spec = stateless_pb2.JobSpec(name="bench", owning_team="bench", instance_count=instances)
        spec.respool_id.value = self._pool
        spec.sla.preemptible = True
        spec.default_spec.mesos_spec.shell = True
        container = spec.default_spec.containers.add(name="main")
        container.resource.CopyFrom(pod_pb2.ResourceSpec(cpu_limit=0.5, mem_limit_mb=64, disk_limit_mb=8))
        container.entrypoint.value = "serve"
        self._jobs.CreateJob(jobs_pb.CreateJobRequest(job_id=job_id, spec=spec), timeout=60)
        return job_id

    def _get(self, job_id: peloton_pb2.JobID) -> jobs_pb.GetJobResponse:
        answer: jobs_pb.GetJobResponse = self._jobs.GetJob(jobs_pb.GetJobRequest(job_id=job_id), timeout=60)
        return answer

    def _await_running(self, job_id: peloton_pb2.JobID, instances: int) -> None:
        def run() -> bool:
            return bool(self._get(job_id).job_info.status.pod_stats["POD_STATE_RUNNING"] == instances)

        self._until(run, f"{instances} running instances")

    def _is_gone(self, job_id: peloton_pb2.JobID) -> bool:
        try:
            self._get(job_id)
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.NOT_FOUND)
        return False

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._timeout
        while not holds():
            if time.monotonic() > deadline:
                raise PelotonError(f"{what}: not seen within {self._timeout:g} s")
            time.sleep(POLL_SECONDS)


@dataclass(slots=True)
class Seen:
    """What watchers received."""

    begun: int = 0
    """Watchers that got their first message."""
    messages: int = 0
    lags: list[float] = field(default_factory=list)
    """Seconds between each change and its arrival, at the watchers that decode."""
    revisions: dict[str, int] = field(default_factory=dict)
    """The last revision of each pod; each change adds one, and a message may stand for several changes."""

    def decode(self, message: bytes) -> None:
        """Take the pods of a message that arrives now."""
        now = time.time_ns()
        for pod in watch_svc_pb2.WatchResponse.FromString(message).pods:
            revision = pod.status.revision
            self.lags.append((now - revision.updated_at) / NANOSECONDS)
            self.revisions[pod.pod_name.value] = revision.version

    async def wait(self, watchers: int, streams: Sequence[asyncio.Task[None]]) -> None:
        """Wait until all watches have begun, or one has ended."""
        while self.begun < watchers and not any(each.done() for each in streams):  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def _until_stopped(stream: grpc.aio.UnaryStreamCall[bytes, bytes]) -> AsyncIterator[bytes]:
    """Yield messages until the server stops. Raises grpc.RpcError where the watch ends otherwise."""
    try:
        async for message in stream:
            yield message
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise


async def _read(stream: grpc.aio.UnaryStreamCall[bytes, bytes], seen: Seen, decode: bool) -> None:
    """Read one watch to its end. Few watchers decode: the others are to cost the server, not this process."""
    first = True
    async for message in _until_stopped(stream):
        if first:
            first = False
            seen.begun += 1
            continue
        seen.messages += 1
        if decode:
            seen.decode(message)


if __name__ == "__main__":
    sys.exit(main())
