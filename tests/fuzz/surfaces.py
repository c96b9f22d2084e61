"""The surfaces, and how many of all inputs each gets."""

from __future__ import annotations

import logging

from tests.fuzz import grpc_calls, parsers, web
from tests.fuzz.engine import Report, run_plain

SHARES = {
    grpc_calls.SURFACE: 30,
    "web pages": 2,
    "JSON door": 4,
    "daemons' HTTP": 3,
    "YAML specs": 5,
    "RecordIO": 10,
    "Mesos events": 6,
    "Mesos streams": 4,
    "Mesos agents": 3,
    "ZooKeeper": 8,
    "agents' answers": 5,
    "listings of containers": 3,
}
"""Parts of all inputs."""


def run(surface: str, seed: int, first: int, count: int) -> Report:
    """Try inputs of a surface."""
    if surface == grpc_calls.SURFACE:
        return grpc_calls.run(seed, first, count)
    return run_plain(surface, {**parsers.SURFACES, **web.SURFACES}[surface], seed, first, count)


def run_piece(piece: tuple[str, int, int, int]) -> Report:
    """Try inputs in a process of its own. What the program logs of refusals is no news there."""
    logging.getLogger().addHandler(logging.NullHandler())
    return run(*piece)
