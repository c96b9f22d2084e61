"""Python client of Peloton: gRPC stubs for every service on one object, blocking or for asyncio.

from peloton.client import PelotonClient

with PelotonClient("my-team", jm_url="localhost:5392") as client:
    client.job_svc.Get(job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id)))
    client.jobs.wait(client.jobs.create("/my/pool", "job.yaml"))

async with AsyncPelotonClient("my-team", jm_url="localhost:5392") as client:
    await client.jobs.wait(await client.jobs.create("/my/pool", "job.yaml"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peloton.client.client import AsyncPelotonClient, PelotonClient
    from peloton.client.discovery import Discovery, DiscoveryError, LocalDiscovery
    from peloton.client.failures import CallError

__all__ = [
    "AsyncPelotonClient",
    "CallError",
    "Discovery",
    "DiscoveryError",
    "LocalDiscovery",
    "PelotonClient",
]
_MODULES = {
    "AsyncPelotonClient": "client",
    "CallError": "failures",
    "Discovery": "discovery",
    "DiscoveryError": "discovery",
    "LocalDiscovery": "discovery",
    "PelotonClient": "client",
}
"""Modules are imported when they are used: gRPC is slow to import, and not every command needs it."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"peloton.client.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
