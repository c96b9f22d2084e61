"""Quotas per role: kept and shown, not enforced by the allocator (recording ``12-operator``)."""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1.quota import quota_pb2 as quota
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.state import Master

Amounts = dict[str, int]


def _amounts(scalars: Iterable[tuple[str, float]]) -> Amounts:
    return {name: res.thousandths(value) for name, value in scalars}


def _text(amounts: Amounts, separator: str) -> str:
    return "; ".join(f"{name}{separator}{amounts[name] / 1000:g}" for name in sorted(amounts))


def _parts(config: quota.QuotaConfig) -> tuple[Amounts, Amounts]:
    guarantees = _amounts((name, item.value) for name, item in config.guarantees.items())
    limits = _amounts((name, item.value) for name, item in config.limits.items())
    return guarantees, limits


def _error(cluster: Master, configs: list[quota.QuotaConfig], force: bool) -> str | None:
    merged = {role: quota.QuotaConfig.FromString(item) for role, item in cluster.quotas.items()}
    for config in configs:
        guarantees, limits = _parts(config)
        if any(amount > limits.get(name, amount) for name, amount in guarantees.items()):
            return (
                f"Invalid QuotaConfig: 'QuotaConfig.guarantees' {{ {_text(guarantees, ': ')} }} is not "
                f"contained within the 'QuotaConfig.limits' {{ {_text(limits, ': ')} }}"
            )
        merged[config.role] = config
    return None if force else _capacity_error(cluster, merged.values())


def _capacity_error(cluster: Master, configs: Iterable[quota.QuotaConfig]) -> str | None:
    wanted: Amounts = {}
    capacity: Amounts = {}
    for config in configs:
        for name, amount in _parts(config)[0].items():
            wanted[name] = wanted.get(name, 0) + amount
    for agent in cluster.agents.values():
        for name, amount in res.scalars(agent.total).items():
            capacity[name] = capacity.get(name, 0) + amount
    if all(amount <= capacity.get(name, 0) for name, amount in wanted.items()):
        return None
    return (
        f"Invalid QuotaConfig: total quota guarantees '{_text(wanted, ':')}' exceed cluster capacity "
        f"'{_text(capacity, ':')}' (use 'force' flag to bypass this check)"
    )


def update(cluster: Master, configs: list[quota.QuotaConfig], force: bool) -> str | None:
    """Set quotas of roles; return why they are refused, or None. One without amounts stays listed."""
    error = _error(cluster, configs, force)
    if error is None:
        for config in configs:
            cluster.quotas[config.role] = config.SerializeToString()
        cluster.registry_changed = True
    return error


def status(cluster: Master) -> quota.QuotaStatus:
    """Return all quotas, in the old form and the new."""
    out = quota.QuotaStatus()
    for role in sorted(cluster.quotas):
        config = quota.QuotaConfig.FromString(cluster.quotas[role])
        guarantees = _parts(config)[0]
        info = out.infos.add(role=role)
        info.guarantee.extend(
            res.to_messages({res.plain(name): guarantees[name] for name in sorted(guarantees)})
        )
        out.configs.append(config)
    return out
