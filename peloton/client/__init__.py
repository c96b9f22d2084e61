"""Python client of Peloton: blocking gRPC stubs for every service, on one object.

from peloton.client import PelotonClient

with PelotonClient("my-team", jm_url="localhost:5392") as client:
    client.job_svc.Get(job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id)))
"""

from __future__ import annotations

from peloton.client.client import PelotonClient
from peloton.client.discovery import Discovery, DiscoveryError, LocalDiscovery

__all__ = ["Discovery", "DiscoveryError", "LocalDiscovery", "PelotonClient"]
