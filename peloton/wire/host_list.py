"""Lists of all hosts, encoded: of thousands most are as they were, and many have the same amounts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.clock import rfc3339
from peloton.model.host import HostInfo
from peloton.model.known_host import KnownHost
from peloton.model.resources import KINDS, MILLI
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.wire.constraint import labels_to
from peloton.wire.fields import field, key

MAX_SHARED = 50_000
MAX_HOSTS = 100_000
Held = tuple[str, str, str]
"""For whom room of a host is held: job, instances, and the time until when."""
Amounts = tuple[int, ...]
"""Thousandths in the order of KINDS."""
_Summary = hostmgr_svc_pb2.GetHostCacheResponse.Summary
_HOSTS = key(host_svc_pb2.QueryHostsResponse.HOST_INFOS_FIELD_NUMBER)
_SUMMARIES = key(hostmgr_svc_pb2.GetHostCacheResponse.SUMMARIES_FIELD_NUMBER)
_ALLOCATION = key(_Summary.ALLOCATION_FIELD_NUMBER)
_CAPACITY = key(_Summary.CAPACITY_FIELD_NUMBER)


def hosts_to(hosts: Iterable[tuple[HostInfo, str, str, tuple[Held, ...]]]) -> bytes:
    """Encode the answer of v0 QueryHosts.

    Each host is given with its pool, the pool where it is to be, and for whom room of it is held.
    """
    return b"".join([field(_HOSTS, _host(*each)) for each in hosts])


@lru_cache(MAX_HOSTS)
def _host(host: HostInfo, current_pool: str, desired_pool: str, held: tuple[Held, ...]) -> bytes:
    return host_pb2.HostInfo(
        hostname=host.hostname,
        ip=host.ip,
        state=host_pb2.HostState.ValueType(host.state),
        goal_state=host_pb2.HostState.ValueType(host.goal),
        labels=labels_to(host.labels),
        current_pool=current_pool,
        desired_pool=desired_pool,
        held=[host_pb2.Held(job_id=job, instances=some, until=until) for job, some, until in held],
    ).SerializeToString()


def lost_hosts_to(hosts: Iterable[tuple[KnownHost, str]]) -> bytes:
    """Encode lost hosts for the same answer, each with its pool."""
    return b"".join([field(_HOSTS, _lost(*each)) for each in hosts])


@lru_cache(MAX_HOSTS)
def _lost(host: KnownHost, pool: str) -> bytes:
    return host_pb2.HostInfo(
        hostname=host.hostname,
        ip=host.ip,
        state=host_pb2.HOST_STATE_UNKNOWN,
        goal_state=host_pb2.HOST_STATE_UP,
        labels=labels_to(host.labels),
        current_pool=pool,
        desired_pool=pool,
        lost=host_pb2.LostHost(
            since=rfc3339(host.lost_since),
            reason=host.reason.text,
            tasks=host.tasks,
            task_count=host.task_count,
        ),
    ).SerializeToString()


def host_cache_to(hosts: Iterable[tuple[str, str, Amounts, Amounts]]) -> bytes:
    """Encode the answer of GetHostCache: of each host name, status, allocation and capacity."""
    return b"".join(
        [
            field(_SUMMARIES, _name(hostname, status) + _allocation(allocated) + _capacity(total))
            for hostname, status, allocated, total in hosts
        ]
    )


@lru_cache(MAX_HOSTS)
def _name(hostname: str, status: str) -> bytes:
    return _Summary(hostname=hostname, status=status).SerializeToString()


@lru_cache(MAX_SHARED)
def _allocation(amounts: Amounts) -> bytes:
    return _fields(_ALLOCATION, amounts)


@lru_cache(MAX_SHARED)
def _capacity(amounts: Amounts) -> bytes:
    return _fields(_CAPACITY, amounts)


def _fields(number: bytes, amounts: Amounts) -> bytes:
    return b"".join([field(number, _amount(kind, value)) for kind, value in zip(KINDS, amounts, strict=True)])


@lru_cache(MAX_SHARED)
def _amount(kind: str, value: int) -> bytes:
    return hostmgr_pb2.Resource(kind=kind, capacity=value / MILLI).SerializeToString()
