"""The priority of a job that names a priority class.

The number is filled in when the job is created, and is stored with it: a class whose number changes later
changes no job. A service gets the new number by its next update.
"""

from __future__ import annotations

from typing import TypeVar

from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.errors import InvalidArgument
from peloton.model.job import Sla
from peloton.model.priority import PriorityClasses, highest_first

Given = TypeVar("Given", job_pb2.JobConfig, stateless_pb2.JobSpec)


def with_priority(
    given: Given, classes: PriorityClasses, old: Sla | None = None, keeps: bool = False
) -> Given:
    """Return a spec with the priority of the class that it names, itself where it names none.

    `old` is the SLA that the job has; the number there may be given back. `keeps`: with the same class the
    number stays. Raises InvalidArgument for an unknown class, and for another priority beside it.
    """
    name = _class_of(given)
    if not name:
        return given
    same = old is not None and old.priority_class == name
    known = classes.get(name)
    if old is not None and same and (keeps or known is None):
        priority = old.priority
    elif known is not None:
        priority = known.priority
    else:
        path = "sla.priorityClass" if isinstance(given, job_pb2.JobConfig) else "sla.priority_class"
        raise InvalidArgument(path, name, _known(classes))
    if given.sla.priority not in {0, priority, old.priority if old is not None and same else priority}:
        wanted = f"left out, or {priority}, which is the priority of the class {name}"
        raise InvalidArgument("sla.priority", given.sla.priority, wanted)
    result = type(given)()
    result.CopyFrom(given)
    result.sla.priority = priority
    return result


def _class_of(given: job_pb2.JobConfig | stateless_pb2.JobSpec) -> str:
    return given.sla.priorityClass if isinstance(given, job_pb2.JobConfig) else given.sla.priority_class


def _known(classes: PriorityClasses) -> str:
    if not classes:
        return (
            "left out: this cluster has no priority classes, which are the setting priority_classes of jobmgr"
        )
    names = ", ".join(f"{each.name} ({each.priority})" for each in highest_first(classes))
    return f"one of the priority classes of this cluster: {names}"
