"""Watches that go on after a cut, and failures with code, field and value."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.client.failures import CallError, refusal
from peloton.client.layer import Jobs
from peloton.client.watching import WATCH_CANCELLED


class Failure(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str, *keys: str) -> None:
        self._code, self._details, self._keys = code, details, keys

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return [(key, "1") for key in self._keys]


class Stream:
    def __init__(self, items: list[Any]) -> None:
        self._items = iter(items)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = next(self._items)
        if isinstance(item, Exception):
            raise item
        return item

    def cancel(self) -> None:
        self._items = iter(())


def pod(name: str, version: int) -> pod_pb2.PodSummary:
    summary = pod_pb2.PodSummary(pod_name=peloton_pb2.PodName(value=name))
    summary.status.revision.version = version
    return summary


def test_a_watch_tells_what_happened_during_a_cut() -> None:
    lists = iter([[pod("a", 1), pod("b", 1)], [pod("a", 3), pod("c", 1)]])
    first = pb.WatchResponse(watch_id="w")
    streams = iter(
        [
            Stream(
                [
                    first,
                    pb.WatchResponse(pods=[pod("a", 0), pod("b", 2)]),  # one older than the list
                    Failure(grpc.StatusCode.UNAVAILABLE, "no longer leads"),
                ]
            ),
            Stream([first, Failure(grpc.StatusCode.CANCELLED, "watch w was ended", WATCH_CANCELLED)]),
        ]
    )
    client = SimpleNamespace(
        timeout=None,
        watch_svc=SimpleNamespace(Watch=lambda request: next(streams)),
        stateless_svc=SimpleNamespace(
            ListPods=lambda request: [stateless_svc_pb2.ListPodsResponse(pods=next(lists))]
        ),
    )
    seen = []
    with pytest.raises(CallError) as end:
        for event in Jobs(client).watch_pods("job"):
            version = event.subject.status.revision.version if event.subject else None
            seen.append((event.kind.value, event.name, version))
    assert end.value.code is grpc.StatusCode.CANCELLED
    assert seen == [
        ("changed", "a", 1),
        ("changed", "b", 1),
        ("synced", "", None),
        ("changed", "b", 2),
        ("changed", "a", 3),
        ("changed", "c", 1),
        ("gone", "b", None),
        ("synced", "", None),
    ]


def test_a_refusal_in_an_answer_has_code_field_and_value() -> None:
    answer = job_pb2.CreateResponse()
    answer.error.invalidConfig.message = "instanceCount: 0 is not a number from 1 to 100000"
    found = refusal(answer)
    assert found is not None
    assert (found.code, found.field, found.value) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "instanceCount",
        "0",
    )
    assert found.expected == "a number from 1 to 100000"
    assert refusal(job_pb2.CreateResponse(jobId=v0.JobID(value="1"))) is None
