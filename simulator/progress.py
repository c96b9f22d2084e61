"""How far elastic gangs are: the next round goes on where the one before it ended, as from a checkpoint.

The size of a round changes nothing about how long the work takes.
"""

from __future__ import annotations

from peloton.model.ids import JobId, MesosTaskId, parse_mesos_task_id


class Progress:
    """The work that is done of elastic gangs: the time for which their first members have run. In seconds."""

    def __init__(self) -> None:
        self._done: dict[JobId, float] = {}
        """By runs that have ended."""
        self._present: dict[JobId, tuple[MesosTaskId, float]] = {}
        """The run of the first member that has not ended, and when it begins."""

    def add(self, job_id: JobId) -> None:
        """Follow a gang from now on."""
        self._done.setdefault(job_id, 0.0)

    def remove(self, job_id: JobId) -> None:
        """Forget a gang, if it is followed."""
        self._done.pop(job_id, None)
        self._present.pop(job_id, None)

    def left(self, run: MesosTaskId, seconds: float, begins: float) -> float:
        """Return how long a run takes which begins at a time, of a job whose instances run for `seconds`."""
        job_id, instance, _ = parse_mesos_task_id(run)
        done = self._done.get(job_id)
        if done is None:
            return seconds
        if instance == 0:
            self._present[job_id] = run, begins
        since = self._present[job_id][1] if job_id in self._present else begins
        return max(0.0, seconds - done - max(0.0, begins - since))

    def note_end(self, run: MesosTaskId, now: float) -> None:
        """Note that a run has ended: what it has done need not be done again."""
        job_id = parse_mesos_task_id(run).job_id
        ended, since = self._present.get(job_id, ("", 0.0))
        if ended == run:
            del self._present[job_id]
            self._done[job_id] += max(0.0, now - since)
