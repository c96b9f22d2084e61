"""Hosts and pools of a simulation, from a YAML file.

Raises ConfigError with the field of what is wrong, InvalidArgument with the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from peloton.config.base import Settings
from peloton.config.loading import validated
from peloton.errors import InvalidArgument
from peloton.model.constraint import Label
from peloton.model.ids import ROOT_POOL
from peloton.model.pool import KindConfig, PoolConfig, ReservationType, child_path
from peloton.model.resources import KINDS, Resources, milli, total
from simulator.jobs import SimJob
from simulator.workloads.public import kueue_cluster, openb_hosts
from simulator.world.agents import HostSpec

MAX_HOSTS = 100_000
Amount = Annotated[float, Field(ge=0, le=1e9)]


class HostsSettings(Settings):
    """Hosts that are alike."""

    count: int = Field(1, ge=1, le=MAX_HOSTS)
    """How many there are."""
    cpu: Amount
    """Cores of each."""
    memory: Amount = 0.0
    """MB of each."""
    disk: Amount = 0.0
    """MB of each."""
    gpu: Amount = 0.0
    """GPUs of each."""
    labels: Mapping[str, str | tuple[str, ...]] = Field(default_factory=dict)
    """Attributes, which constraints see: a value, or several."""


class KindSettings(Settings):
    """What a pool has of a kind."""

    reservation: Amount = 0.0
    """Assured, and the most for jobs that are not preemptible."""
    limit: Amount | None = None
    """The most for all; all of the cluster unless given."""
    share: Amount = 1.0
    """Weight among siblings for what is left over."""
    static: bool = False
    """Whether others may not borrow what is reserved."""


class PoolSettings(Settings):
    """A pool."""

    path: str = Field(pattern=r"^/[^/]+(/[^/]+)*$")
    """Where it is in the tree; its parent is in the file, too."""
    id: str = ""
    """Its id in the cluster that it is like: audit logs and archives name pools by their ids."""
    resources: Mapping[str, KindSettings] = Field(default_factory=dict)
    """By kind: cpu, memory, disk, gpu."""


class ClusterSettings(Settings):
    """A cluster."""

    hosts: tuple[HostsSettings, ...] = Field(min_length=1)
    """Its hosts."""
    pools: tuple[PoolSettings, ...] = ()
    """Its pools. Without any, each pool that the trace names has an equal part reserved."""


def read_cluster(path: Path) -> ClusterSettings:
    """Return what a file describes: YAML of ours, Kueue's generator, or openb's list of hosts as a CSV.

    Raises InvalidArgument, ConfigError, OSError.
    """
    try:
        return validated(ClusterSettings, _given(path), str(path))
    except yaml.YAMLError as error:
        raise InvalidArgument(str(path), " ".join(str(error).split()), "YAML") from None


def _given(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".csv":
        return openb_hosts(path, text.splitlines())
    given = yaml.safe_load(text) or {}
    return kueue_cluster(path, given) if isinstance(given, list) else given


def hosts_of(settings: ClusterSettings) -> list[HostSpec]:
    """Return the hosts. Raises InvalidArgument for too many."""
    found = [
        HostSpec(
            f"host-{number}-{at}",
            Resources.of(kind.cpu, kind.memory, kind.disk, kind.gpu),
            tuple(_labels(kind.labels)),
        )
        for number, kind in enumerate(settings.hosts)
        for at in range(kind.count)
    ]
    if len(found) > MAX_HOSTS:
        raise InvalidArgument("hosts", len(found), f"at most {MAX_HOSTS} hosts")
    return found


def _labels(given: Mapping[str, str | tuple[str, ...]]) -> Iterator[Label]:
    for key, values in given.items():
        for value in (values,) if isinstance(values, str) else values:
            yield key, value


def pools_of(settings: ClusterSettings, hosts: Sequence[HostSpec], named: Iterable[str]) -> list[PoolConfig]:
    """Return the pools; equal ones for the paths that the trace names, where the file has none.

    Raises InvalidArgument for a path of the trace that is no leaf of the tree.
    """
    whole = total(host.resources for host in hosts)
    paths = sorted(set(named))
    if not settings.pools:
        return _equal_pools(paths, whole)
    pools = [_pool(each, whole) for each in sorted(settings.pools, key=lambda pool: pool.path)]
    known = {pool.id for pool in pools}
    parents = {pool.parent for pool in pools}
    for pool in pools:
        if pool.parent not in known | {ROOT_POOL}:
            raise InvalidArgument("pools", pool.id, f"a pool whose parent {pool.parent} is in the file")
    for path in paths:
        if path not in known or path in parents:
            raise InvalidArgument("pool of a job", path, f"a leaf among {', '.join(sorted(known))}")
    return pools


def by_paths(settings: ClusterSettings, jobs: Iterable[SimJob]) -> list[SimJob]:
    """Return jobs whose pools are named by their paths, where they are by the ids of pools: `/ID`."""
    paths = {f"/{pool.id}": pool.path for pool in settings.pools if pool.id}
    return [replace(job, pool=paths[job.pool]) if job.pool in paths else job for job in jobs]


def _pool(settings: PoolSettings, whole: Resources) -> PoolConfig:
    amounts = dict(zip(KINDS, whole.values(), strict=True))
    for kind in settings.resources:
        if kind not in KINDS:
            raise InvalidArgument(f"pools[{settings.path}].resources", kind, f"one of {', '.join(KINDS)}")
    parent, _, name = settings.path.rpartition("/")
    kinds = {}
    for kind in KINDS:
        given = settings.resources.get(kind, KindSettings())
        limit = amounts[kind] if given.limit is None else milli(given.limit)
        type_ = ReservationType.STATIC if given.static else ReservationType.ELASTIC
        kinds[kind] = KindConfig(milli(given.reservation), limit, given.share, type_)
    return PoolConfig(settings.path, name, parent or ROOT_POOL, kinds)


def _equal_pools(paths: Sequence[str], whole: Resources) -> list[PoolConfig]:
    amounts = dict(zip(KINDS, whole.values(), strict=True))
    kinds = {kind: KindConfig(amount // len(paths), amount) for kind, amount in amounts.items()}
    found: dict[str, PoolConfig] = {}
    for path in paths:
        parent = ""
        for name in path[1:].split("/"):
            full = child_path(parent or "/", name)
            if full not in found:
                found[full] = PoolConfig(full, name, parent or ROOT_POOL, kinds)
            parent = full
    return list(found.values())
