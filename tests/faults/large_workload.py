"""Jobs of thousands of tasks on simulated agents, whose tasks last as long as a label says."""

from __future__ import annotations

from functools import partial
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from tests.faults.workload import ENDLESS, FAILS, Workload

SECONDS_LABEL, EXIT_LABEL = "simulated.seconds", "simulated.exit"
ENDLESS_SECONDS = 100_000.0
LARGE, LARGE_TASKS = 6, 1000
"""Jobs, and the tasks of each."""
SMALL, SMALL_TASKS = 24, 5
STOPPED_TASKS = 300


class LargeWorkload(Workload):
    """Some large jobs, so that each owner has some, and small ones beside them."""

    def _plan(self) -> None:
        draw = self.random.uniform
        for number in range(LARGE):
            self._job(self.seconds * number / LARGE, self._nap(), LARGE_TASKS, self._failures())
        for number in range(SMALL):
            self._job(self.seconds * number / SMALL, self._nap(), SMALL_TASKS, self._failures())
        self._job(draw(0, self.seconds / 2), FAILS, SMALL_TASKS, 0)
        self._job(0, ENDLESS, SMALL_TASKS, self._failures(), ends=False)
        for _ in range(2):
            whole = self._job(0, ENDLESS, STOPPED_TASKS, self._failures())
            self._at(draw(1, self.seconds), partial(self.api.stop, whole[0]))

    def _new(
        self, command: str, instances: int, max_failures: int, **sla: Any
    ) -> tuple[str, job_pb2.JobConfig]:
        job_id, config = super()._new(command, instances, max_failures, **sla)
        seconds = float(command.split()[1]) if command.startswith("sleep ") else 0.2
        labels = {SECONDS_LABEL: str(seconds), EXIT_LABEL: "1" if FAILS in command else "0"}
        config.defaultConfig.labels.extend(peloton_pb2.Label(key=k, value=v) for k, v in labels.items())
        return job_id, config
