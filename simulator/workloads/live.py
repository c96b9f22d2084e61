"""The hosts and pools of a running cluster as the settings of a simulated one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from peloton.errors import InvalidArgument
from peloton.model.constraint import Label
from peloton.model.live_state import LiveHost
from peloton.model.pool import PoolConfig, ReservationType, pool_paths
from peloton.model.resources import KINDS, MILLI, Resources
from simulator.workloads.cluster import ClusterSettings, HostsSettings, KindSettings, PoolSettings

_HEAD = "# Hosts and pools of a cluster, for `peloton simulate --cluster`.\n"


def hosts_like(hosts: Iterable[LiveHost]) -> tuple[HostsSettings, ...]:
    """Return hosts like these, those that are alike together. Raises InvalidArgument for none."""
    alike = Counter((host.resources, tuple(sorted(host.labels))) for host in hosts)
    if not alike:
        raise InvalidArgument("hosts that are UP", 0, "at least 1 host")
    return tuple(_alike(count, resources, labels) for (resources, labels), count in alike.items())


def _alike(count: int, resources: Resources, labels: Sequence[Label]) -> HostsSettings:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in labels:
        values[key].append(value)
    return HostsSettings(
        count=count,
        **resources.units(),
        labels={key: each[0] if len(each) == 1 else tuple(each) for key, each in values.items()},
    )


def pools_like(pools: Sequence[PoolConfig]) -> tuple[PoolSettings, ...]:
    """Return pools like these, by their paths. Raises InvalidArgument for one without a path."""
    paths = pool_paths(pools)
    found = [PoolSettings(path=_known(paths, pool), id=pool.id, resources=_kinds(pool)) for pool in pools]
    return tuple(sorted(found, key=lambda pool: pool.path))


def _known(paths: Mapping[str, str], pool: PoolConfig) -> str:
    if not paths[pool.id]:
        raise InvalidArgument("pool", pool.id, f"a pool whose parent {pool.parent} is in the cluster, too")
    return paths[pool.id]


def _kinds(pool: PoolConfig) -> dict[str, KindSettings]:
    return {
        kind: KindSettings(
            reservation=each.reservation / MILLI,
            limit=each.limit / MILLI,
            share=each.share,
            static=each.type is ReservationType.STATIC,
        )
        for kind, each in ((kind, pool.kind(kind)) for kind in KINDS)
    }


def write_cluster(path: Path, settings: ClusterSettings) -> None:
    """Write a file that `read_cluster` reads. Raises OSError."""
    given = settings.model_dump(mode="json", exclude_defaults=True)
    text = _HEAD + yaml.safe_dump(given, sort_keys=False, default_flow_style=None, width=120)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
