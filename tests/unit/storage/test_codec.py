from __future__ import annotations

import json

from peloton.model.states import HealthState, TaskState
from peloton.model.task import PodEvent, TaskRuntime
from storage.codec import POD_EVENT, TASK_RUNTIME
from tests.contract.storage.samples import event, job_id, task_runtime


def test_an_array_is_the_object_again() -> None:
    task = task_runtime()
    assert TASK_RUNTIME.decode(TASK_RUNTIME.encode(task)) == task
    happened = event(job_id(1), instance=4)
    key = {"job_id": happened.job_id, "instance": 4, "run": happened.run, "timestamp": happened.timestamp}
    assert POD_EVENT.decode(POD_EVENT.encode(happened), **key) == happened


def test_what_an_older_program_left_out_gets_the_defaults() -> None:
    values = json.loads(TASK_RUNTIME.encode(task_runtime()))[:6]
    assert TASK_RUNTIME.from_values(values) == TaskRuntime(*(getattr(task_runtime(), name) for name in SIX))
    found = POD_EVENT.decode("[8,9,1,1]", job_id=job_id(1), instance=0, run=1, timestamp=7)
    assert found == PodEvent(job_id(1), 0, 1, TaskState.RUNNING, TaskState.SUCCEEDED, 7, 1, 1)
    assert found.health is HealthState.DISABLED


SIX = ("state", "goal", "run", "config_version", "desired_config_version", "desired_run")
