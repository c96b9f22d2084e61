"""``/metrics/snapshot`` and GET_METRICS: the figures of Mesos that apply here, by its names.

Source: recording ``12-operator``. What is counted is in ``Master.counts``; the rest is what there is now.
"""

from __future__ import annotations

from collections import Counter

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.state import Master

_LIVE = ("staging", "starting", "running", "killing", "unreachable")
_ENDS = ("finished", "failed", "killed", "lost", "error", "dropped", "gone", "gone_by_operator")
_RESOURCES = ("cpus", "mem", "disk", "gpus")
_COUNTED = (
    *(f"tasks_{state}" for state in _ENDS),
    "messages_register_framework",
    "messages_unregister_framework",
    "messages_launch_tasks",
    "messages_decline_offers",
    "messages_kill_task",
    "messages_reconcile_tasks",
    "messages_revive_offers",
    "messages_suppress_offers",
    "messages_status_update",
    "messages_status_update_acknowledgement",
    "valid_status_updates",
    "valid_status_update_acknowledgements",
    "slave_registrations",
    "slave_reregistrations",
    "slave_removals",
    "slave_removals/reason_unhealthy",
    "slave_removals/reason_unregistered",
)


def snapshot(cluster: Master, started: float, now: float, leads: bool) -> dict[str, float]:
    """Return the figures by name."""
    out = {f"master/{name}": float(cluster.counts[name]) for name in _COUNTED}
    out |= {f"master/{name}": float(value) for name, value in _gauges(cluster).items()}
    out |= {f"master/{name}": value for name, value in _amounts(cluster).items()}
    out["master/elected"] = float(leads)
    out["master/uptime_secs"] = now - started
    return dict(sorted(out.items()))


def _gauges(cluster: Master) -> dict[str, int]:
    agents, frameworks = cluster.agents.values(), cluster.frameworks.values()
    states = Counter(task.state for item in frameworks for task in item.tasks.values())
    states.update(task.state for item in frameworks for task in item.unreachable.values())
    connected = sum(item.stream is not None for item in frameworks)
    return {
        **{f"tasks_{name}": states[mesos.TaskState.Value(f"TASK_{name.upper()}")] for name in _LIVE},
        "frameworks_active": sum(item.active for item in frameworks),
        "frameworks_inactive": sum(not item.active for item in frameworks),
        "frameworks_connected": connected,
        "frameworks_disconnected": len(frameworks) - connected,
        "slaves_active": sum(item.offerable for item in agents),
        "slaves_inactive": sum(not item.offerable for item in agents),
        "slaves_connected": sum(item.connected for item in agents),
        "slaves_disconnected": sum(not item.connected for item in agents),
        "slaves_unreachable": len(cluster.unreachable),
        "outstanding_offers": len(cluster.offers),
        "operator_event_stream_subscribers": cluster.subscribers,
    }


def _amounts(cluster: Master) -> dict[str, float]:
    """Return what agents have and tasks use, in all and of what may be revoked."""
    totals: dict[str, int] = {}
    used: dict[str, int] = {}
    for agent in cluster.agents.values():
        _count(totals, agent.total)
        for task in agent.tasks.values():
            if not task.released:
                _count(used, task.resources)
    out: dict[str, float] = {}
    for name in (*_RESOURCES, *(f"{each}_revocable" for each in _RESOURCES)):
        out[f"{name}_total"] = total = totals.get(name, 0) / 1000
        out[f"{name}_used"] = taken = used.get(name, 0) / 1000
        out[f"{name}_percent"] = taken / total if total else 0.0
    return out


def _count(sums: dict[str, int], bundle: res.Bundle) -> None:
    for kind, quantity in bundle.items():
        if isinstance(quantity, int):
            name = f"{kind.name}_revocable" if kind.revocable else kind.name
            sums[name] = sums.get(name, 0) + quantity
