"""Exit codes of `peloton`, for scripts: each says what kind of end it was."""

from __future__ import annotations

DONE = 0
REFUSED = 1
"""The cluster, or a check before any call, refused what was asked."""
USAGE = 2
UNREACHABLE = 3
"""A daemon, a Mesos agent or ZooKeeper could not be reached, or did not answer in time."""
JOB_FAILED = 4
"""The job that the command waited for did not succeed."""
INTERRUPTED = 130


def code_of(error: Exception) -> int:
    """Return the exit code for a failure."""
    from peloton.cli.failures import CallFailed
    from peloton.client.discovery import DiscoveryError
    from peloton.client.sandbox import AgentUnreachable

    if isinstance(error, CallFailed):
        return UNREACHABLE if error.transient else REFUSED
    return UNREACHABLE if isinstance(error, DiscoveryError | AgentUnreachable) else REFUSED
