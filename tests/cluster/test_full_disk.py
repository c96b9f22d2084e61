"""A disk that is full, as the daemons see it: the files of one process may not grow."""

from __future__ import annotations

import resource
import urllib.error
import urllib.request
import uuid

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from tests.cluster.conftest import Harness, wait_for

PAGE = 4096


def test_health_says_that_nothing_can_be_written(harness: Harness) -> None:
    jobmgr = next(each for each in harness.cluster.status() if each.name == "jobmgr0")
    assert jobmgr.pid is not None

    def health() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{jobmgr.addresses['http']}/health", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def create() -> None:
        config = harness.config("true # " + 50_000 * "n")
        wanted = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=str(uuid.uuid4())), config=config)
        # By no client of ours: it calls again until the time is over, which may end a call without a reason.
        with grpc.insecure_channel(jobmgr.addresses["grpc"]) as channel:
            answer = job_pb2_grpc.JobManagerStub(channel).Create(wanted, timeout=60)
        assert not answer.HasField("error"), answer.error

    unlimited = resource.prlimit(jobmgr.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(jobmgr.pid, resource.RLIMIT_FSIZE, (PAGE, unlimited[1]))
    try:
        with pytest.raises(grpc.RpcError, match="disk"):
            create()
        code, text = health()
        assert (code, "the database cannot be written: " in text) == (503, True), text
    finally:
        resource.prlimit(jobmgr.pid, resource.RLIMIT_FSIZE, unlimited)
    wait_for(lambda: health()[0] == 200, 60, lambda: str(health()))
    create()
