"""The surfaces, and how many of all inputs each gets."""

from __future__ import annotations

from tests.fuzz import parsers
from tests.fuzz.engine import Report, run_plain

SHARES = {
    "YAML specs": 8,
    "RecordIO": 4,
    "Mesos events": 8,
    "Mesos streams": 4,
    "Mesos agents": 4,
    "ZooKeeper": 3,
    "agents' answers": 3,
}
"""Parts of all inputs."""


def run(surface: str, seed: int, first: int, count: int) -> Report:
    """Try inputs of a surface."""
    return run_plain(surface, parsers.SURFACES[surface], seed, first, count)
