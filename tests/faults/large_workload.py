"""Jobs of thousands of tasks on simulated agents, whose tasks last as long as a label says."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.model.shard import shard_of
from tests.faults.workload import ENDLESS, FAILS, Workload

SECONDS_LABEL, EXIT_LABEL = "simulated.seconds", "simulated.exit"
ENDLESS_SECONDS = 100_000.0
LARGE_TASKS = 10_000
MIDDLE, MIDDLE_TASKS = 3, 500
"""Jobs, and the tasks of each."""
SMALL, SMALL_TASKS = 24, 5
STOPPED_TASKS = 300


class LargeWorkload(Workload):
    """A large job while the owners of shards change, and smaller ones before and beside it."""

    def _plan(self) -> None:
        draw = self.random.uniform
        for number in range(MIDDLE):
            self._job(self.seconds * number / MIDDLE, self._nap(), MIDDLE_TASKS, self._failures())
        for number in range(SMALL):
            self._job(self.seconds * number / SMALL, self._nap(), SMALL_TASKS, self._failures())
        self._job(draw(0, self.seconds / 2), FAILS, SMALL_TASKS, 0)
        self._job(0, ENDLESS, SMALL_TASKS, self._failures(), ends=False)
        for _ in range(2):
            whole = self._job(0, ENDLESS, STOPPED_TASKS, self._failures())
            self._at(draw(1, self.seconds), partial(self.api.stop, whole[0]))

    def before_owners_change(self, moving: Collection[int], staying: Collection[int]) -> None:
        """Begin a large job of the one or of the others: it is under way while the owners change."""
        shards = self.random.choice((moving, staying))
        job_id, config = self._new(self._nap(), LARGE_TASKS, self._failures())
        while shard_of(job_id) not in shards:
            job_id = self.new_id()
        self.ending.append(job_id)
        self._beside(partial(self.api.create, config, job_id))

    def _new(
        self, command: str, instances: int, max_failures: int, **sla: Any
    ) -> tuple[str, job_pb2.JobConfig]:
        job_id, config = super()._new(command, instances, max_failures, **sla)
        seconds = float(command.split()[1]) if command.startswith("sleep ") else 0.2
        labels = {SECONDS_LABEL: str(seconds), EXIT_LABEL: "1" if FAILS in command else "0"}
        config.defaultConfig.labels.extend(peloton_pb2.Label(key=k, value=v) for k, v in labels.items())
        return job_id, config
