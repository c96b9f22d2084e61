"""Why no host takes a task: how many hosts each rule refuses, and what would have to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from peloton.model.amounts import amount, amount_of
from peloton.model.fixed_ports import PORT
from peloton.model.plural import plural
from peloton.model.resources import KINDS, MILLI
from placement.core.filters import (
    CLAIM,
    CONSTRAINT,
    NO_PORTS,
    RESOURCES,
    SCARCE,
    SPREAD,
    STARTING,
    TASKS,
    Filters,
)
from placement.core.labels import about_tasks
from placement.core.model import Gang
from placement.core.reasons import describe_amounts
from placement.core.table import CPU, PORTS, SLACK, Want


@dataclass(frozen=True, slots=True)
class HostRefusals:
    """The hosts that refuse a task, by rule, and what would have to change."""

    counts: Mapping[str, int]
    """Hosts by the rule that refuses them first; those that take the task under `match`."""
    details: tuple[str, ...]
    """For each rule that refuses hosts, a text with numbers."""

    def __str__(self) -> str:
        return "; ".join(self.details)


def refusal(filters: Filters, want: Want, gang: Gang) -> HostRefusals:
    """Return why hosts refuse a task, in the state after the plan."""
    counts = filters.refusals(want)
    details = [_text(rule, count, filters, want, gang) for rule, count in counts.items() if rule != "match"]
    return HostRefusals(counts, tuple(details))


def _text(rule: str, count: int, filters: Filters, want: Want, gang: Gang) -> str:
    hosts = plural(count, "host")
    if rule == RESOURCES:
        return _resources(hosts, filters, want)
    tree = want.needs.host_class.tree
    texts = {
        CLAIM: f"{hosts} claimed for tasks with other constraints",
        SCARCE: f"{hosts} with GPUs: needs a host without, or to request GPUs",
        CONSTRAINT: f"{hosts} without the labels it requires: needs a host with {tree}",
        TASKS: tasks_text(hosts, want),
        SPREAD: f"{hosts} with a task of job {gang.job_id}, which is spread: needs another host",
        STARTING: f"{hosts} with as many tasks starting as allowed: waits until some have started",
        NO_PORTS: f"{hosts} with fewer free ports than it needs: {_ports(filters, want)}",
    }
    return texts[rule]


def _ports(filters: Filters, want: Want) -> str:
    needed = want.needs.ports + len(want.fixed)
    return f"needs {needed}, and has at most {int(filters.table.free[PORTS].max())}"


def tasks_text(hosts: str, want: Want) -> str:
    """Return the text for hosts that a constraint on tasks refuses."""
    tree = want.needs.host_class.tree
    ports = sorted(value for key, value in about_tasks(tree) if key == PORT)
    if ports and all(key == PORT for key, _ in about_tasks(tree)):
        return f"{hosts} where a task has the fixed port {' or '.join(ports)}: needs a host where it is free"
    return f"{hosts} with tasks that its constraint refuses: needs a host where {tree} holds"


def _resources(hosts: str, filters: Filters, want: Want) -> str:
    eligible = filters.without_resources(want)
    short = []
    for kind, needed in want.limits:
        if kind > SLACK:
            continue
        free = filters.table.free[kind][eligible]
        if not np.any(free >= needed):
            name = "revocable cpu" if kind == SLACK else KINDS[kind - CPU]
            most = max(0, int(free.max()))
            short.append(
                f"needs {amount_of(needed / MILLI, name)}, and the most free on one is "
                f"{amount(most / MILLI, name)}"
            )
    why = ", ".join(short) or f"needs {describe_amounts(want.needs)} free at a time on one"
    return f"{hosts} with too little free: {why}"
