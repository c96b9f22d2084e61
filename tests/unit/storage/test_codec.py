from __future__ import annotations

import json

import pytest

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.payload import ApiVersion, Payload
from peloton.model.states import HealthState, TaskState
from peloton.model.task import PodEvent, TaskRuntime
from storage.codec import POD_EVENT, TASK_RUNTIME, decode_payload, encode_payload
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


def test_a_payload_without_a_tag_is_of_the_v0_api() -> None:
    """As all rows are that were stored before payloads had a tag."""
    stored = job_pb2.JobConfig(name="job", instanceCount=3).SerializeToString()
    payload = Payload(ApiVersion.V0, stored)
    assert decode_payload(stored) == payload
    assert encode_payload(payload) == stored
    assert decode_payload(b"") == Payload(ApiVersion.V0, b"")


@pytest.mark.parametrize("data", [b"", b"\x0a\x00\x00more", b"\x00"])
def test_a_payload_of_another_api_is_tagged_and_read_back(data: bytes) -> None:
    payload = Payload(ApiVersion.V1ALPHA, data)
    assert decode_payload(encode_payload(payload)) == payload


def test_a_payload_of_an_unknown_api_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="one of v0, v1alpha"):
        decode_payload(b"\x00v7\x00data")
