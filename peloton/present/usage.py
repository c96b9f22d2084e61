"""What a running task uses, in words."""

from __future__ import annotations

from peloton.model.amounts import part_of, rounded
from peloton.private.jobmgr.usage.usage_pb2 import InstanceUsage

BYTES_PER_MB = 1024 * 1024


def usage_text(usage: InstanceUsage) -> str:
    """Return `0.25 of 1 core on average, 120 of 256 MB memory, at most 140 MB at a time`."""
    cpu = part_of(usage.cpu_mean, usage.cpu_limit, "cpu")
    memory = part_of(usage.memory_bytes / BYTES_PER_MB, usage.memory_limit_bytes / BYTES_PER_MB, "memory")
    peak = usage.memory_peak_bytes / BYTES_PER_MB
    most = f", at most {rounded(peak, 'memory')} at a time" if peak else ""
    return f"{cpu} on average, {memory} memory{most}"
