"""What tasks use, as columns of tables of pools, jobs and hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError
from peloton.model.amounts import short
from peloton.model.usage import BYTES_PER_MB
from peloton.present.losses import summed

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo
    from peloton.cli.pool_amounts import Cells
    from peloton.cli.session import Session
    from peloton.private.hostmgr.sampling.sampling_pb2 import HostUsage
    from peloton.private.jobmgr.usage.usage_pb2 import JobUsed

PATIENCE_SECONDS = 3.0
HEADS = ("Used Cores", "Used MB")
UNKNOWN = ("?", "?")
NOTHING = ("", "")


def read_used(session: Session) -> Mapping[str, JobUsed] | None:
    """Return what the runs of active jobs use, by jobs' ids; None where the job manager does not tell."""
    from peloton.private.jobmgr.usage import usage_pb2

    request = usage_pb2.ListUsedRequest()
    try:
        answer = session.call(RPCS.usage_svc.ListUsed, request, timeout=PATIENCE_SECONDS)
    except PelotonError:
        return None
    return {each.job_id: each for each in answer.jobs}


def read_used_hosts(session: Session) -> Mapping[str, HostUsage] | None:
    """Return what the tasks on hosts use, by hostnames; None where no host manager tells."""
    from peloton.private.hostmgr.sampling import sampling_pb2

    try:
        answers = session.call_clusters(RPCS.sampling_svc.ListHosts, sampling_pb2.ListHostsRequest())
    except PelotonError:
        return None
    return {each.hostname: each for answer in answers for each in answer.hosts}


def with_used_jobs(found: Listing, used: Mapping[str, JobUsed] | None) -> Listing:
    """Add what the runs of jobs use to a listing of jobs, whose first column has their ids."""
    ids = [str(row[0]) for row in found.rows]
    if used is None:
        return _with(found, [UNKNOWN for _ in ids])
    return _with(
        found,
        [_cells(used[each].cores, used[each].memory_bytes) if each in used else NOTHING for each in ids],
    )


def with_used_hosts(found: Listing, used: Mapping[str, HostUsage] | None) -> Listing:
    """Add what the tasks on hosts use to a listing of hosts, whose first column has their names."""
    names = [str(row[0]) for row in found.rows]
    if used is None:
        return _with(found, [UNKNOWN for _ in names])
    return _with(found, [_of_host(used[each]) if each in used else NOTHING for each in names])


def used_cells(pools: Sequence[ResourcePoolInfo], used: Mapping[str, JobUsed] | None) -> Cells:
    """Return what the runs in pools use, with the pools below, by path and kind: cores, and MB of memory."""
    if used is None:
        return lambda path, kind: "?" if kind in ("cpu", "memory") else ""
    paths = {pool.id.value: pool.path.value for pool in pools}
    cores, memory = dict[str, float](), dict[str, float]()
    for each in used.values():
        cores[each.pool_id] = cores.get(each.pool_id, 0.0) + each.cores
        memory[each.pool_id] = memory.get(each.pool_id, 0.0) + each.memory_bytes / BYTES_PER_MB
    by_kind = {"cpu": summed(cores, paths), "memory": summed(memory, paths)}
    measured = by_kind["memory"]

    def cell(path: str, kind: str) -> str:
        return short(by_kind[kind][path]) if kind in by_kind and measured[path] else ""

    return cell


def _with(found: Listing, cells: Sequence[tuple[str, str]]) -> Listing:
    rows = [(*row, *more) for row, more in zip(found.rows, cells, strict=True)]
    return listing((*found.heads, *HEADS), rows)


def _of_host(used: HostUsage) -> tuple[str, str]:
    cores, memory = _cells(used.cores, used.memory_bytes)
    return (cores if used.HasField("cores") else "", memory)


def _cells(cores: float, memory: float) -> tuple[str, str]:
    return short(cores), short(memory / BYTES_PER_MB)
