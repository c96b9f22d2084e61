"""What the client tells of kazoo's thread, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from peloton.membership.client import Client


@pytest.fixture
def client() -> Iterator[Any]:
    made: Any = Client("127.0.0.1:1", 10.0)
    yield made
    made._stopped.set()
    made._connection.stop(10)
    made.handler.stop()


def test_a_thread_that_has_not_begun_has_not_ended(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine seconds pass from the start of a thread until it runs."""
    monkeypatch.setattr(client._connection, "start", lambda: None)
    client.start_async()
    assert client.given_up() == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_an_unexpected_error_ended_is_told(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(retry: object) -> None:
        raise RuntimeError("not as expected")

    monkeypatch.setattr(client._connection, "_connect_loop", fail)
    assert client.given_up() == ""
    client.start_async()
    client._connection._connection_routine.join(10)
    assert "kazoo's thread ended" in client.given_up()
