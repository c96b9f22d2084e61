"""Labels that the system adds to the tasks of services at launch (docs/behaviour/jobs.md)."""

from __future__ import annotations

from peloton.model.constraint import Label
from peloton.model.job import JobSpec

SYSTEM_PREFIX = "peloton."
"""Labels that a user gives under this prefix are dropped at launch."""
CLUSTER, JOB_NAME, JOB_OWNER, JOB_TYPE, RESOURCE_POOL = SYSTEM_KEYS = tuple(
    SYSTEM_PREFIX + name for name in ("cluster", "job_name", "job_owner", "job_type", "resource_pool")
)

JOB_ID_LABEL, INSTANCE_LABEL, TASK_LABEL = (
    SYSTEM_PREFIX + name for name in ("job_id", "instance_id", "task_id")
)
"""Labels that the host manager adds to each run. By TASK_LABEL our agents know the tasks of Peloton."""
STOP_SIGNAL_LABEL = SYSTEM_PREFIX + "stop_signal"
"""The label of a task's run that tells our agents by which signal it is to end."""
CHECKPOINT_LABEL = SYSTEM_PREFIX + "checkpoint_file"
"""The label of a task's run that tells our agents by which file it says when it has saved its work."""
MEMBERS_LABEL = SYSTEM_PREFIX + "members_file"
"""The label of a task's run that tells our agents to write the file with the members of its gang.

Its value, as that of the next one, names the variables that are to have the path, with commas between them.
"""
HOSTFILE_LABEL = SYSTEM_PREFIX + "hostfile"
"""The label of a task's run that tells our agents to write the file with the hosts of these members."""
LABELS_OF_RUNS = frozenset((*SYSTEM_KEYS, MEMBERS_LABEL, HOSTFILE_LABEL))
"""What the job manager adds to the labels of a run, and the host manager passes on to Mesos."""
SAVED_LABEL = SYSTEM_PREFIX + "saved_at"
"""The label of a status that says when the run has saved its work, in seconds since 1970."""
USED_LABEL = SYSTEM_PREFIX + "used"
"""The label of the end of a run by our agents, where the run has TASK_LABEL: `CPU MEMORY`.

These are seconds of CPU time, and the most bytes of memory.
"""


def system_labels(spec: JobSpec, cluster: str, pool_path: str) -> tuple[Label, ...]:
    """Return the labels of the tasks of a job; `cluster` is empty where the cluster has no name."""
    labels = (
        (CLUSTER, cluster),
        (JOB_NAME, spec.name),
        (JOB_OWNER, spec.owning_team),
        (JOB_TYPE, spec.type.name),
        (RESOURCE_POOL, pool_path),
    )
    return labels if cluster else labels[1:]
