"""``/metrics/snapshot`` of an agent: the figures of Mesos that apply here, by its names."""

from __future__ import annotations

from collections import Counter

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.run import Run
from minicluster.mesos.agent.runs import Runs
from minicluster.mesos.common import resources as res

_LIVE = ("staging", "starting", "running", "killing")
_ENDS = ("finished", "failed", "killed")


def snapshot(runs: Runs, total: res.Bundle, registered: bool, uptime: float) -> dict[str, float]:
    """Return the figures by name. ``uptime``: in seconds."""
    live = [run for run in runs.live.values() if not run.ended]
    states = Counter(_state(run) for run in (*runs.live.values(), *runs.completed))
    out = {
        **{f"tasks_{name}": float(states[name]) for name in (*_LIVE, *_ENDS)},
        "executors_registering": float(states["staging"]),
        "executors_running": float(len(live) - states["staging"]),
        "frameworks_active": float(len({run.place.framework_id for run in live})),
        "registered": float(registered),
        "uptime_secs": uptime,
        **_amounts(live, total),
    }
    return {f"slave/{name}": out[name] for name in sorted(out)}


def _state(run: Run) -> str:
    if run.latest is None:
        return "staging"
    return mesos.TaskState.Name(run.latest.state).removeprefix("TASK_").lower()


def _amounts(live: list[Run], total: res.Bundle) -> dict[str, float]:
    """Return what is not revocable: what there is, and what tasks use."""
    used: res.Bundle = {}
    for run in live:
        res.add(used, res.from_messages(run.task.resources))
    sums = [_firm(bundle) for bundle in (total, used)]
    out: dict[str, float] = {}
    for name in ("cpus", "mem", "disk", "gpus"):
        have, taken = (each.get(name, 0) / 1000 for each in sums)
        out |= {
            f"{name}_total": have,
            f"{name}_used": taken,
            f"{name}_percent": taken / have if have else 0.0,
        }
    return out


def _firm(bundle: res.Bundle) -> dict[str, int]:
    return res.scalars({kind: quantity for kind, quantity in bundle.items() if not kind.revocable})
