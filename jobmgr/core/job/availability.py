"""Availability of a service's instances, and whether its SLA allows kills (docs/behaviour/jobs.md, SLA)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import countOf

from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton.model.availability import Availability, availability_of
from peloton.model.job import JobSpec
from peloton.model.plural import plural
from peloton.model.states import JobState, JobType
from peloton.model.task import TaskRuntime

_WANTED = frozenset({Availability.AVAILABLE, Availability.UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Disruption:
    """The effect of killing some instances of a job."""

    limit: int
    """The most instances that may be unavailable; 0: no limit."""
    unavailable: int
    """Number of instances that are unavailable before the kills."""
    added: int
    """Number of available instances that would be killed."""

    @property
    def allowed(self) -> bool:
        """Whether the SLA holds. Killing what is unavailable already never breaks it."""
        return not self.limit or not self.added or self.unavailable + self.added <= self.limit

    def __str__(self) -> str:
        """Describe the effect for an error message."""
        are = plural(self.unavailable, "instance is", "instances are")
        return (
            f"{are} unavailable, {self.added} more would be, and maximumUnavailableInstances is {self.limit}"
        )


def instance_availability(goal: JobState, task: TaskRuntime | None) -> Availability:
    """Return the class of an instance of a job with this goal; None stands for an instance without a row.

    A job that is to end stops all its instances, whatever their own goals.
    """
    found = availability_of(task)
    return Availability.KILLED if goal in ENDING_JOB_GOALS and found in _WANTED else found


def disruption(
    spec: JobSpec, goal: JobState, tasks: Iterable[TaskRuntime], kills: Iterable[TaskRuntime]
) -> Disruption:
    """Return the effect of killing `kills`, which are some of `tasks`, all instances of a job.

    A stopped one among them is started by what kills it, and is unavailable until it is up.

    Only the class UNAVAILABLE counts: instances that are stopped or are being removed are not wanted, and
    those that a workflow is still to add have never been promised. Batch jobs have no limit.
    """
    limit = 0 if spec.type is JobType.BATCH else spec.sla.maximum_unavailable_instances
    if not limit or goal in ENDING_JOB_GOALS:
        return Disruption(limit, 0, 0)
    unavailable = countOf(map(availability_of, tasks), Availability.UNAVAILABLE)
    classes = [availability_of(task) for task in kills]
    unavailable += classes.count(Availability.KILLED)
    added = classes.count(Availability.AVAILABLE)
    return Disruption(limit, unavailable, added)
