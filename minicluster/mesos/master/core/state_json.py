"""The older JSON endpoints: ``/state`` and its parts.

Source: recording ``12-operator``. Resources are summed by name; times are seconds since the epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.quota import quota_pb2 as quota
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.resource_json import Json, attributes, flat
from minicluster.mesos.master.core.events import master_info
from minicluster.mesos.master.core.operator_views import AGENT_CAPABILITIES, both_forms, by_role, drain_info
from minicluster.mesos.master.core.state import Agent, Framework, Master, Offer, Task
from peloton.mesos.json import to_dict

Query = Mapping[str, str]
_STATES = tuple(
    f"TASK_{name}"
    for name in (
        *("STAGING", "STARTING", "RUNNING", "KILLING", "FINISHED"),
        *("KILLED", "FAILED", "LOST", "ERROR", "UNREACHABLE"),
    )
)
_TASKS_SHOWN = 100


# --- amounts ---------------------------------------------------------------------------------------


def _amounts(bundle: res.Bundle) -> Json:
    """Sum a bundle by name, a set by its size; without ranges, and without what is 0."""
    out: dict[str, float] = {}
    for kind, quantity in bundle.items():
        if isinstance(quantity, int):
            out[kind.name] = out.get(kind.name, 0.0) + quantity / 1000
        elif isinstance(quantity, frozenset):
            out[kind.name] = out.get(kind.name, 0.0) + len(quantity)
    return {name: out[name] for name in sorted(out) if out[name]}


def _sum(bundles: Iterable[res.Bundle]) -> res.Bundle:
    out: res.Bundle = {}
    for bundle in bundles:
        res.add(out, bundle)
    return out


def _used(tasks: Iterable[Task]) -> res.Bundle:
    return _sum(task.resources for task in tasks if not task.released)


def _offered(offers: Iterable[Offer]) -> res.Bundle:
    return _sum(offer.resources for offer in offers)


def _reserved(item: Agent) -> dict[str, res.Bundle]:
    """Return what an agent has reserved, by role; under ``*`` what is not."""
    out: dict[str, res.Bundle] = {"*": {}}
    for kind, quantity in item.total.items():
        out.setdefault(kind.role, {})[kind] = quantity
    return out


# --- tasks -----------------------------------------------------------------------------------------


def _status(status: mesos.TaskStatus) -> Json:
    out: Json = {"state": mesos.TaskState.Name(status.state), "timestamp": status.timestamp}
    if status.HasField("container_status"):
        container = to_dict(status.container_status)
        container.pop("executor_pid", None)
        out["container_status"] = container
    if status.HasField("healthy"):
        out["healthy"] = status.healthy
    return out


def task(item: Task) -> Json:
    """Return a task as all of these endpoints show it."""
    out: Json = {
        "id": item.id,
        "name": item.info.name,
        "framework_id": item.framework_id,
        "executor_id": item.executor_id if item.info.HasField("executor") else "",
        "slave_id": item.agent_id,
        "state": mesos.TaskState.Name(item.state),  # type: ignore[arg-type]
        "resources": flat(item.resources),
        "role": item.role,
        "statuses": [_status(each) for each in item.statuses],
    }
    if item.info.HasField("labels"):
        out["labels"] = [to_dict(each) for each in item.info.labels.labels]
    for name in ("discovery", "container"):
        if item.info.HasField(name):
            out[name] = to_dict(getattr(item.info, name))
    if item.info.command.HasField("user"):
        out["user"] = item.info.command.user
    return out


def _all_tasks(item: Framework) -> list[Task]:
    return [*item.tasks.values(), *item.unreachable.values(), *item.completed]


def _number(query: Query, name: str, default: int) -> int:
    """Read a number of the query. Raise ValueError with Mesos' message."""
    text = query.get(name)
    try:
        return default if text is None else int(text)
    except ValueError:
        raise ValueError(f"Failed to parse '{name}': Failed to convert '{text}' to number.\n") from None


def tasks(cluster: Master, query: Query) -> Json:
    """Answer ``/tasks``: by the time of the first status, the newest first. Raise ValueError."""
    limit, offset = _number(query, "limit", _TASKS_SHOWN), _number(query, "offset", 0)
    found = [
        each
        for item in (*cluster.frameworks.values(), *cluster.removed_frameworks.values())
        if query.get("framework_id", item.id) == item.id
        for each in _all_tasks(item)
        if query.get("task_id", each.id) == each.id
    ]
    found.sort(
        key=lambda each: each.statuses.first.timestamp if each.statuses else 0.0,
        reverse=query.get("order") != "asc",
    )
    return {"tasks": [task(each) for each in found[offset : offset + limit]]}


def _counts(found: Iterable[Task]) -> Json:
    counts = Counter(mesos.TaskState.Name(each.state) for each in found)  # type: ignore[arg-type]
    return {state: counts[state] for state in _STATES}


# --- frameworks ------------------------------------------------------------------------------------


def _framework_head(item: Framework) -> Json:
    return {
        "id": item.id,
        "name": item.info.name,
        "used_resources": flat(_used(item.tasks.values())),
        "offered_resources": flat(_offered(item.offers.values())),
        "capabilities": [
            mesos.FrameworkInfo.Capability.Type.Name(each.type) for each in item.info.capabilities
        ],
        "hostname": item.info.hostname,
        "webui_url": item.info.webui_url,
        "active": item.active,
        "connected": item.stream is not None,
        "recovered": item.recovered,
    }


def framework(item: Framework) -> Json:
    """Return a framework as ``/state`` and ``/frameworks`` show it."""
    held = _sum((_used(item.tasks.values()), _offered(item.offers.values())))
    out = {
        **_framework_head(item),
        "user": item.info.user,
        "failover_timeout": item.info.failover_timeout,
        "checkpoint": item.info.checkpoint,
        "registered_time": item.registered,
        "unregistered_time": item.unregistered or 0.0,
        "resources": flat(held),
        "roles": list(item.roles),
        "tasks": [task(each) for each in item.tasks.values()],
        "unreachable_tasks": [task(each) for each in item.unreachable.values()],
        "completed_tasks": [task(each) for each in item.completed],
        "offers": [_offer(each) for each in item.offers.values()],
        "executors": [],
        "offer_constraints": {},
    }
    if item.info.HasField("principal"):
        out["principal"] = item.info.principal
    if item.reregistered is not None:
        out["reregistered_time"] = item.reregistered
    return out


def _offer(item: Offer) -> Json:
    return {
        "id": item.id,
        "framework_id": item.framework_id,
        "allocation_info": {"role": item.role},
        "slave_id": item.agent_id,
        "resources": flat(item.resources),
    }


def frameworks(cluster: Master, query: Query) -> Json:
    """Answer ``/frameworks``, of one framework where the query names it."""
    wanted = query.get("framework_id")
    groups = {"frameworks": cluster.frameworks, "completed_frameworks": cluster.removed_frameworks}
    shown = {
        name: [framework(item) for item in group.values() if wanted in (None, item.id)]
        for name, group in groups.items()
    }
    return {**shown, "unregistered_frameworks": []}


# --- agents ----------------------------------------------------------------------------------------


def _agent(item: Agent) -> Json:
    parts = _reserved(item)
    out = {
        "id": item.id,
        "hostname": item.hostname,
        "port": item.info.port,
        "attributes": attributes(item.info.attributes),
        "pid": item.pid,
        "registered_time": item.registered,
        "resources": flat(item.total),
        "used_resources": flat(_used(item.tasks.values())),
        "offered_resources": flat(_offered(item.offers.values())),
        "reserved_resources": {role: flat(part) for role, part in parts.items() if role != "*"},
        "unreserved_resources": flat(parts["*"]),
        "active": item.offerable,
        "deactivated": item.deactivated,
        "version": item.version,
        "capabilities": [mesos.AgentInfo.Capability.Type.Name(each) for each in AGENT_CAPABILITIES],
    }
    if item.reregistered is not None:
        out["reregistered_time"] = item.reregistered
    drain = drain_info(item)
    if drain is not None:
        out["drain_info"] = to_dict(drain)
        out["estimated_drain_start_time_seconds"] = int(item.drain_started)
    return out


def _agent_in_full(item: Agent) -> Json:
    parts = _reserved(item)
    held = [(each.role, each.resources) for each in item.tasks.values() if not each.released]
    offered = [(each.role, each.resources) for each in item.offers.values()]
    return {
        **_agent(item),
        "reserved_resources_full": {
            role: _messages(both_forms(part)) for role, part in parts.items() if role != "*"
        },
        "unreserved_resources_full": _messages(both_forms(parts["*"])),
        "used_resources_full": _messages(by_role(held)),
        "offered_resources_full": _messages(by_role(offered)),
    }


def _messages(found: Iterable[mesos.Resource]) -> list[Json]:
    return [to_dict(each) for each in found]


def slaves(cluster: Master, query: Query) -> Json:
    """Answer ``/slaves``, of one agent where the query names it."""
    wanted = query.get("slave_id")
    return {
        "slaves": [_agent_in_full(item) for item in cluster.agents.values() if wanted in (None, item.id)],
        "recovered_slaves": [to_dict(item) for item in cluster.recovered.values()],
    }


# --- the whole -------------------------------------------------------------------------------------


def state_summary(cluster: Master) -> Json:
    """Answer ``/state-summary``: agents and frameworks, with how many tasks they have in which state."""
    of_agent: dict[str, list[Task]] = {}
    for item in cluster.frameworks.values():
        for each in _all_tasks(item):
            of_agent.setdefault(each.agent_id, []).append(each)
    return {
        "hostname": cluster.config.hostname,
        "slaves": [
            {
                **_agent(item),
                **_counts(of_agent.get(item.id, ())),
                "framework_ids": sorted({each.framework_id for each in of_agent.get(item.id, ())}),
            }
            for item in cluster.agents.values()
        ],
        "frameworks": [
            {
                **_framework_head(item),
                **_counts(_all_tasks(item)),
                "slave_ids": sorted({each.agent_id for each in _all_tasks(item)}),
            }
            for item in cluster.frameworks.values()
        ],
    }


def state(cluster: Master, flags: Mapping[str, str], started: float) -> Json:
    """Answer ``/state``."""
    config, info = cluster.config, master_info(cluster.config)
    known = cluster.agents.values()
    return {
        "version": config.version,
        "start_time": started,
        "elected_time": started,
        "id": config.master_id,
        "pid": info.pid,
        "hostname": config.hostname,
        "capabilities": [mesos.MasterInfo.Capability.Type.Name(each.type) for each in info.capabilities],
        "leader": info.pid,
        "leader_info": {"id": info.id, "pid": info.pid, "port": info.port, "hostname": info.hostname},
        "activated_slaves": sum(item.offerable for item in known),
        "deactivated_slaves": sum(not item.offerable for item in known),
        "unreachable_slaves": len(cluster.unreachable),
        "flags": dict(flags),
        "slaves": [_agent(item) for item in known],
        "recovered_slaves": [to_dict(item) for item in cluster.recovered.values()],
        **frameworks(cluster, {}),
        "orphan_tasks": [],
    }


# --- roles -----------------------------------------------------------------------------------------


def roles(cluster: Master) -> Json:
    """Answer ``/roles``: those that have frameworks, quotas, or resources of their own."""
    used: dict[str, res.Bundle] = {}
    offered: dict[str, res.Bundle] = {}
    reserved: dict[str, res.Bundle] = {}
    members: dict[str, list[str]] = {}
    for item in cluster.frameworks.values():
        for role in item.roles:
            members.setdefault(role, []).append(item.id)
        for each in item.tasks.values():
            if not each.released:
                res.add(used.setdefault(each.role, {}), each.resources)
        for offer in item.offers.values():
            res.add(offered.setdefault(offer.role, {}), offer.resources)
    for agent in cluster.agents.values():
        for role, part in _reserved(agent).items():
            if role != "*":
                res.add(reserved.setdefault(role, {}), part)
    names = sorted({*members, *used, *offered, *reserved, *cluster.quotas})
    return {
        "roles": [
            {
                "name": role,
                "weight": 1.0,
                "quota": _quota(cluster, role, used.get(role, {}), reserved.get(role, {})),
                "resources": _amounts(_sum((used.get(role, {}), offered.get(role, {})))),
                "allocated": _amounts(used.get(role, {})),
                "offered": _amounts(offered.get(role, {})),
                "reserved": _amounts(reserved.get(role, {})),
                "frameworks": members.get(role, []),
            }
            for role in names
        ]
    }


def _quota(cluster: Master, role: str, used: res.Bundle, reserved: res.Bundle) -> Json:
    """Return a role's quota; what is reserved for it counts as consumed, whether it is used or not."""
    config = quota.QuotaConfig.FromString(cluster.quotas.get(role, b"")) if role in cluster.quotas else None
    others = {kind: quantity for kind, quantity in used.items() if not kind.reservations}
    return {
        "role": role,
        "guarantee": {name: item.value for name, item in config.guarantees.items()} if config else {},
        "limit": {name: item.value for name, item in config.limits.items()} if config else {},
        "consumed": _amounts(_sum((reserved, others))),
    }
