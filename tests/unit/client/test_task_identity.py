"""The token of the task in which a client runs: found, renewed, and never shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from peloton.client.environment import settings_from_environment
from peloton.client.sync_async import LocalError
from peloton.client.task_identity import RENEWAL_SECONDS, TaskToken, own_variables, task_auth
from peloton.errors import InvalidArgument
from peloton.private.jobmgr.access import access_pb2, access_pb2_grpc
from tests.waiting import wait_until


def token(expires: int, mark: str = "s") -> str:
    return f"peloton-task.a0000000-0000-4000-8000-00000000000a-0-1.{expires}.{mark}"


def file(folder: Path, text: str) -> Path:
    path = folder / "token"
    path.write_text(text)
    return path


def test_files_of_a_task_are_below_its_sandbox(tmp_path: Path) -> None:
    file(tmp_path, token(2**40))
    given = {
        "MESOS_SANDBOX": str(tmp_path),
        "JOBMGR_URL": "one:5392",
        "PELOTON_TOKEN_FILE": "token",
        "PELOTON_CA_FILE": "ca.pem",
        "PELOTON_KEY_FILE": "/abs/key",
    }
    assert own_variables(given) == {
        **given,
        "PELOTON_TOKEN_FILE": str(tmp_path / "token"),
        "PELOTON_CA_FILE": str(tmp_path / "ca.pem"),
    }
    found = settings_from_environment(given)
    assert found["auth"].metadata == (("authorization", f"Bearer {token(2**40)}"),)
    assert found["auth"].of_task and found["auth"].changes
    assert token(2**40) not in repr(found)
    assert not settings_from_environment({**given, "PELOTON_TOKEN": "abc"})["auth"].of_task
    assert settings_from_environment({k: v for k, v in given.items() if k != "JOBMGR_URL"})["auth"] is None


@pytest.mark.parametrize("text", ["", "x.y", "peloton-task.run.soon.sig", "\0", "a b\nc"])
def test_another_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArgument, match="PELOTON_TOKEN_FILE") as raised:
        TaskToken(file(tmp_path, text), lambda old: old)
    assert not text or text not in str(raised.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a readable file"):
        TaskToken(tmp_path / "none", lambda old: old)


class Renewals:
    """Answers with new tokens, each from another thread than the caller's where that must not wait."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.threads: list[int] = []

    def __call__(self, old: str) -> str:
        self.threads.append(threading.get_ident())
        answer = self.answers.pop(0)
        self.asked.append(old)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_token_is_renewed_behind_when_half_of_its_time_is_over(tmp_path: Path) -> None:
    now = [1000.0]
    renewals = Renewals(token(1200, "new"))
    found = TaskToken(file(tmp_path, token(1100)), renewals, lambda: now[0])
    assert found() == token(1100)
    now[0] = 1050.0
    assert found() == token(1100) and renewals.asked == []
    now[0] = 1051.0
    assert found() in (token(1100), token(1200, "new"))
    wait_until(lambda: found() == token(1200, "new"))
    assert renewals.asked == [token(1100)] and renewals.threads != [threading.get_ident()]


def test_an_expired_token_is_renewed_at_once(tmp_path: Path) -> None:
    renewals = Renewals(token(1200, "new"))
    found = TaskToken(file(tmp_path, token(999)), renewals, lambda: 1000.0)
    assert found() == token(1200, "new") and renewals.threads == [threading.get_ident()]


def test_a_renewal_that_fails_is_tried_again(tmp_path: Path) -> None:
    now = [1000.0]
    renewals = Renewals(LocalError(grpc.StatusCode.UNAVAILABLE, "away"), token(1200, "new"))
    found = TaskToken(file(tmp_path, token(999)), renewals, lambda: now[0])
    assert found() == token(999) and len(renewals.asked) == 1
    now[0] += RENEWAL_SECONDS + 1
    found()
    wait_until(lambda: found() == token(1200, "new"))


class JobManager(access_pb2_grpc.TaskAccessServiceServicer, health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Renews tokens, or holds calls back like a frozen one."""

    def __init__(self, frozen: bool) -> None:
        self.frozen = frozen
        self.release = threading.Event()
        self.seen: list[str] = []

    def GetToken(self, request: access_pb2.GetTokenRequest, context: Any) -> access_pb2.GetTokenResponse:
        if self.frozen:
            self.release.wait(60)
        self.seen += [value for key, value in context.invocation_metadata() if key == "authorization"]
        return access_pb2.GetTokenResponse(token=token(1200, "new"))

    def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:
        if self.frozen:
            self.release.wait(60)
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


@contextmanager
def served(*managers: JobManager) -> Iterator[str]:
    """Yield the addresses of job managers."""
    servers, addresses = [], []
    for each in managers:
        server = grpc.server(ThreadPoolExecutor(4))
        access_pb2_grpc.add_TaskAccessServiceServicer_to_server(each, server)
        health_pb2_grpc.add_HealthServicer_to_server(each, server)
        addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        servers.append(server)
    try:
        yield ",".join(addresses)
    finally:
        for each in managers:
            each.release.set()
        for server in servers:
            server.stop(None).wait()


def test_a_frozen_job_manager_does_not_hold_a_renewal_up(tmp_path: Path) -> None:
    """Which of the addresses leads is found as for all calls of the client."""
    frozen, leader = JobManager(True), JobManager(False)
    began = time.monotonic()
    with served(frozen, leader) as addresses:
        found = task_auth(str(file(tmp_path, token(1))), addresses, None)
        assert found.metadata == (("authorization", f"Bearer {token(1200, 'new')}"),)
    assert leader.seen == [f"Bearer {token(1)}"]
    assert time.monotonic() - began < RENEWAL_SECONDS  # the time after which a single call ends
