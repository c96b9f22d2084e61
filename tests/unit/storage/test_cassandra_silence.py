"""A server that does not answer, while the driver's own clock, the time of day, is set back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from peloton.errors import Unavailable
from storage.cassandra import session
from storage.cassandra.session import Session
from storage.config import CassandraSettings


class Silent:
    """A connection whose requests are never answered, and never end by themselves."""

    def __init__(self) -> None:
        self.sent = 0
        self.session = self
        self.prepared: Any = {
            "read": SimpleNamespace(bind=lambda values: SimpleNamespace(), column_metadata=())
        }

    def execute_async(self, statement: Any, paging_state: Any) -> Any:
        self.sent += 1
        return SimpleNamespace(_final_exception=None, add_callbacks=lambda *args, **values: None)


async def test_a_request_without_an_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LATE", 0.0)
    connection: Any = Silent()
    settings = CassandraSettings(request_timeout=0.02, attempts=2)
    with pytest.raises(Unavailable, match=r"the store has not answered for 0\.02 s"):
        await Session(connection, settings).rows("read")
    assert connection.sent == 2
