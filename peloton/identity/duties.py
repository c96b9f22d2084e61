"""What each role of daemons calls of the others: with a certificate of it, a daemon may call nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.calls import archiver, hostmgr, jobmgr, placement, resmgr
from peloton.calls.rpc import methods_of

NEEDED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "jobmgr": methods_of(jobmgr),
    "resmgr": methods_of(resmgr),
    "placement": methods_of(placement),
    "hostmgr": methods_of(hostmgr),
    "archiver": methods_of(archiver),
}
"""Methods by role and service: those that its callers can name."""


def needs(role: str, service: str, method: str) -> bool:
    """Return whether a daemon of a role calls a method of another daemon."""
    return method in NEEDED[role].get(service, ())
