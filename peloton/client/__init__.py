"""Python client of Peloton: gRPC stubs for every service on one object, blocking or for asyncio.

from peloton.client import PelotonClient

with PelotonClient("my-team", jm_url="localhost:5392") as client:
    client.job_svc.Get(job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id)))
    client.jobs.wait(client.jobs.create("/my/pool", "job.yaml"))

async with AsyncPelotonClient("my-team", jm_url="localhost:5392") as client:
    await client.jobs.wait(await client.jobs.create("/my/pool", "job.yaml"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peloton.client.client import AsyncPelotonClient, PelotonClient
from peloton.client.discovery import Discovery, DiscoveryError, LocalDiscovery

if TYPE_CHECKING:
    from peloton.client.failures import CallError

__all__ = [
    "AsyncPelotonClient",
    "CallError",
    "Discovery",
    "DiscoveryError",
    "LocalDiscovery",
    "PelotonClient",
]


def __getattr__(name: str) -> Any:
    if name == "CallError":
        from peloton.client.failures import CallError  # imports gRPC, which is slow

        return CallError
    raise AttributeError(name)
