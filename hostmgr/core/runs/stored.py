"""Which of the stored runs concern a Mesos cluster, and which of them have begun there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peloton.model.cluster import cluster_of
from peloton.model.ids import JobId, MesosTaskId, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

STARTED = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.KILLING})
"""A run that is LAUNCHED has not begun, or its begin is not known: reconciliation finds that it did not."""


def of_cluster(page: Mapping[int, TaskRuntime], cluster: str) -> Mapping[int, TaskRuntime]:
    """Return the runs on hosts of a cluster: Mesos does not know the others, and would call them lost."""
    return {instance: task for instance, task in page.items() if cluster_of(task.host) == cluster}


def started(
    job_id: JobId, page: Mapping[int, TaskRuntime], cluster: str
) -> Iterator[tuple[MesosTaskId, str]]:
    """Iterate over the runs that have begun in a cluster, each with its agent id."""
    for instance, runtime in of_cluster(page, cluster).items():
        if runtime.state in STARTED:
            yield mesos_task_id(job_id, instance, runtime.run), runtime.agent_id


def agent_of(runtime: TaskRuntime, run: int, cluster: str) -> str:
    """Return the agent of an instance's run; empty where it is on none of the cluster, or another run."""
    return runtime.agent_id if runtime.run == run and cluster_of(runtime.host) == cluster else ""
