"""Open files that this process may have: connections and files of the database are descriptors."""

from __future__ import annotations

import logging
import resource

WANTED, FEW = 65_536, 4_096
"""As many are set at the start where the hard limit allows; fewer than the second are told."""
log = logging.getLogger(__name__)


def descriptor_limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the limit as far as it is useful and this process may; warn where it stays low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if trouble := few_descriptors():
        log.warning("%s", trouble)


def few_descriptors() -> str:
    """Return what is to be told of a low limit; empty where it is not low."""
    limit = descriptor_limit()
    if limit >= FEW:
        return ""
    return f"only {limit} files and connections may be open: raise the limit (ulimit -n) to {FEW} or more"
