"""Whether offers may be used and a task may be launched; every refusal in Mesos' own words.

Source: recordings ``06-invalid`` and ``17-revocable``.
"""

from __future__ import annotations

import re

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.state import Framework, Master, Offer

MAX_ID = 255
_BAD_CHARACTERS = re.compile(r"[/\\\x00-\x1f\x7f]")


def offers_error(cluster: Master, framework: Framework, offer_ids: list[str]) -> str | None:
    """Return why these offers cannot be accepted together; None when they can."""
    seen: set[str] = set()
    for offer_id in offer_ids:
        if offer_id in seen:
            return f"Duplicate offer {offer_id} in offer list"
        seen.add(offer_id)
    offers: list[Offer] = []
    for offer_id in offer_ids:
        offer = cluster.offers.get(offer_id)
        if offer is None:
            return f"Offer {offer_id} is no longer valid"
        if offer.framework_id != framework.id:
            return (
                f"Offer {offer_id} has invalid framework {offer.framework_id} "
                f"while framework {framework.id} is expected"
            )
        offers.append(offer)
    return _mixed(offers) if offers else "No offers specified"


def _mixed(offers: list[Offer]) -> str | None:
    first = offers[0]
    for offer in offers[1:]:
        if offer.role != first.role:
            return (
                f"Aggregated offers must be allocated to the same role. Offer {offer.id} uses role "
                f"{offer.role} but another is using role {first.role}"
            )
        if offer.agent_id != first.agent_id:
            return (
                f"Aggregated offers must belong to one single agent. Offer {offer.id} uses agent "
                f"{offer.agent_id} and agent {first.agent_id}"
            )
    return None


def id_error(value: str) -> str | None:
    """Return why an id that becomes part of paths is not allowed, in Mesos' words."""
    if not value:
        return "ID must not be empty"
    if len(value) > MAX_ID:
        return f"ID must not be greater than {MAX_ID} characters"
    if value in (".", ".."):
        return f"'{value}' is disallowed"
    if _BAD_CHARACTERS.search(value):
        return f"'{value}' contains invalid characters"
    return None


def _scalar_error(resource: mesos.Resource) -> str | None:
    value = resource.scalar.value
    if not resource.HasField("scalar") or resource.HasField("ranges") or resource.HasField("set"):
        return "Invalid scalar resource"
    if value != value or value in (float("inf"), float("-inf")):
        return "Invalid scalar resource: not a finite number"
    if value and res.thousandths(value) <= 0:
        return "Invalid scalar resource: value <= 0"
    return None


def _ranges_error(resource: mesos.Resource) -> str | None:
    if not resource.HasField("ranges") or resource.HasField("scalar") or resource.HasField("set"):
        return "Invalid ranges resource"
    for item in resource.ranges.range:
        if item.begin > item.end:
            return "Invalid ranges resource: begin > end"
    return None


def _resource_error(resource: mesos.Resource) -> str | None:
    if not resource.name:
        return "Empty resource name"
    if resource.type == mesos.Value.SCALAR:
        return _scalar_error(resource)
    if resource.type == mesos.Value.RANGES:
        return _ranges_error(resource)
    if resource.type == mesos.Value.SET:
        return None if resource.HasField("set") else "Invalid set resource"
    return "Unsupported resource type"


def _describe(resource: mesos.Resource) -> str:
    kind, role = res.kind_of(resource), resource.allocation_info.role
    try:
        amount = res.quantity_text(res.quantity_of(resource))
    except (ValueError, OverflowError):
        amount = str(resource.scalar.value)
    return f"{res.kind_text(kind, role)}:{amount}"


def _is_plain_scalar(resource: mesos.Resource) -> bool:
    return (
        resource.type == mesos.Value.SCALAR
        and 0.001 <= resource.scalar.value < 1e15
        and bool(resource.name)
        and not resource.HasField("ranges")
        and not resource.HasField("set")
    )


def resources_error(resources: list[mesos.Resource]) -> str | None:
    """Return what is wrong with a list of resources as such."""
    for resource in resources:
        if _is_plain_scalar(resource):
            continue  # by far the most are
        error = _resource_error(resource)
        if error is not None:
            return f"Resource '{_describe(resource)}' is invalid: {error}"
    return None


def _revocable_error(bundle: res.Bundle) -> str | None:
    revocable = {kind.name for kind in bundle if kind.revocable}
    for kind in bundle:
        if not kind.revocable and kind.name in revocable:
            return (
                "Task mixes revocable and non-revocable resources: Cannot use both revocable and "
                f"non-revocable '{kind.name}' at the same time"
            )
    return None


def task_error(framework: Framework, task: mesos.TaskInfo, agent_id: str) -> str | None:
    """Return what is wrong with a task, its size left aside."""
    task_id = task.task_id.value
    error = id_error(task_id)
    if error is not None:
        return error
    if task_id in framework.tasks:
        return f"Task has duplicate ID: {task_id}"
    if task.agent_id.value != agent_id:
        return f"Task uses invalid agent {task.agent_id.value} while agent {agent_id} is expected"
    if task.kill_policy.grace_period.nanoseconds < 0:
        return "Task's 'kill_policy.grace_period' must be non-negative"
    if task.HasField("max_completion_time") and task.max_completion_time.nanoseconds < 0:
        return "Task's `max_completion_time` must be non-negative"
    error = resources_error(list(task.resources))
    if error is not None:
        return error
    if task.HasField("command") == task.HasField("executor"):
        return "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
    return None


def roles_of(resources: list[mesos.Resource], default: str) -> set[str]:
    """Return the roles that resources are allocated to; ``default`` where none is set."""
    return {resource.allocation_info.role or default for resource in resources}


def size_error(wanted: res.Bundle, roles: set[str], available: res.Bundle, role: str) -> str | None:
    """Return why a task of this size does not fit into what is left of the offers."""
    if not wanted:
        return "Task uses no resources"
    error = _revocable_error(wanted)
    if error is not None:
        return error
    if roles <= {role} and res.contains(available, wanted):
        return None
    requested = res.text(wanted, next(iter(roles - {role}), role))
    return (
        f"Total resources {requested} required by task and its executor is more than available "
        f"{res.text(available, role)}"
    )
