from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, Refused
from peloton.model.payload import ApiVersion, Payload
from peloton.model.states import HealthState, TaskState, TerminationReason
from peloton.model.task import PodEvent, TaskRuntime, Termination
from storage.codec import (
    HOST,
    JOB_HOUR,
    JOB_RUNTIME,
    KNOWN_HOST,
    PERIOD,
    POD_EVENT,
    POOL,
    TASK_RUNTIME,
    VOLUME,
    WORKFLOW,
    Codec,
    decode_payload,
    encode_payload,
)
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


OLDER = 23
"""Fields that a runtime had before `throttled`."""
SIX = ("state", "goal", "run", "config_version", "desired_config_version", "desired_run")


@pytest.mark.parametrize(
    ("message", "throttled"), [("Task throttled due to failure", True), ("exited", False)]
)
def test_a_row_of_an_older_program_is_throttled_where_its_message_says_so(
    message: str, throttled: bool
) -> None:
    task = replace(task_runtime(), message=message)
    older = json.loads(TASK_RUNTIME.encode(task))[:OLDER]
    assert TASK_RUNTIME.decode(json.dumps(older)).throttled is throttled
    assert not TASK_RUNTIME.decode(TASK_RUNTIME.encode(task)).throttled, "the field counts where there is one"


@pytest.mark.parametrize(
    ("state", "message", "killed_for"),
    [
        (TaskState.KILLED, "stopped by ann; Command terminated", "stopped by ann"),
        (
            TaskState.KILLED,
            "preempted: /a was over; /b waits; Terminated",
            "preempted: /a was over; /b waits",
        ),
        (TaskState.KILLED, "maintenance of h1", "maintenance of h1"),
        (TaskState.KILLED, "Command terminated", ""),
        (
            TaskState.KILLING,
            "maintenance of h1, begun by ann; at noon",
            "maintenance of h1, begun by ann; at noon",
        ),
        (TaskState.KILLING, "to be stopped", ""),
        (TaskState.FAILED, "stopped by itself", ""),
    ],
)
def test_a_row_of_an_older_program_says_by_its_message_who_killed_it(
    state: TaskState, message: str, killed_for: str
) -> None:
    end = Termination(TerminationReason.KILLED_ON_REQUEST)
    task = replace(task_runtime(), state=state, message=message, termination=end)
    older = json.loads(TASK_RUNTIME.encode(task))[: OLDER + 1]
    assert TASK_RUNTIME.decode(json.dumps(older)).killed_for == killed_for
    assert not TASK_RUNTIME.decode(TASK_RUNTIME.encode(task)).killed_for, (
        "the field counts where there is one"
    )


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ("run 3 FAILED: Command exited with status 1", TaskState.FAILED),
        ("run 3 LOST", TaskState.LOST),
        ("run 2 FAILED: another", TaskState.UNKNOWN),
        ("run 3 RUNNING", TaskState.UNKNOWN),
        ("", TaskState.UNKNOWN),
    ],
)
def test_a_row_of_an_older_program_says_by_its_message_how_its_previous_run_ended(
    message: str, state: TaskState
) -> None:
    task = replace(task_runtime(), state=TaskState.PENDING, previous_run=3, message=message)
    older = json.loads(TASK_RUNTIME.encode(task))[: OLDER + 1]
    assert TASK_RUNTIME.decode(json.dumps(older)).previous_state is state


FIELDS: dict[str, dict[Codec[Any], int]] = {
    "0.1": {TASK_RUNTIME: 23, JOB_RUNTIME: 16, POD_EVENT: 12, POOL: 13, WORKFLOW: 25, VOLUME: 10, HOST: 9},
    "0.2": {TASK_RUNTIME: 28, JOB_RUNTIME: 20, KNOWN_HOST: 8, JOB_HOUR: 3, PERIOD: 2},
}
"""Numbers of fields, by the release that was the first to write as many: those of a release never change."""


@pytest.mark.parametrize("release", FIELDS)
def test_a_row_says_which_release_wrote_it(release: str) -> None:
    for codec, count in FIELDS[release].items():
        assert codec.release(count) == release, codec
        newer = next((later for later, found in FIELDS.items() if later > release and codec in found), "")
        assert codec.release(count + 1) == newer, "the next field is of the next release that has added any"


def test_a_row_of_the_next_release_is_read_without_what_it_has_added() -> None:
    task = task_runtime()
    values = [*json.loads(TASK_RUNTIME.encode(task)), "new", {"also": 1}]
    assert TASK_RUNTIME.release(len(values)) == ""
    assert TASK_RUNTIME.decode(json.dumps(values)) == task


@pytest.mark.parametrize(("more", "whose"), [([], "Peloton 0.2"), (["new"], "a newer Peloton")])
def test_a_row_with_a_state_of_a_newer_release_is_refused_with_what_to_do(
    more: list[str], whose: str
) -> None:
    values = [99, *json.loads(TASK_RUNTIME.encode(task_runtime()))[1:], *more]
    told = (
        f"a TaskRuntime in the store has a value .* KeyError: 99; it has the fields of {whose}: run a version"
    )
    with pytest.raises(Refused, match=told):
        TASK_RUNTIME.decode(json.dumps(values))


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
