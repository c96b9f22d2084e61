"""The client: `PelotonClient(name, zk_servers=…)`, with one attribute for each service."""

from peloton.client import PelotonClient

__all__ = ["PelotonClient"]
