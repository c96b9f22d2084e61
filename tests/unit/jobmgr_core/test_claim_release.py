"""Claims that nobody will launch are released, also where hostmgr cannot be asked for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jobmgr.core.state.instructions import Release
from jobmgr.drivers import launch
from jobmgr.drivers.launch import Launcher
from jobmgr.engine.outbox import Queue
from peloton.backoff import Backoff
from peloton.errors import Fenced, InvalidArgument, PelotonError, Unavailable
from tests.waiting import until

ONE, OTHER = Release("h1", "a1", "o1"), Release("h2", "a2", "o2")


class Hostmgr:
    def __init__(self, *errors: PelotonError) -> None:
        self.errors = list(errors)
        self.released: list[Release] = []

    async def release(self, claims: Sequence[Release]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.released += claims


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ((Unavailable("away"), Fenced("this instance has no session to own shards now")), [ONE, OTHER]),
        ((InvalidArgument("hostOffers", "", "claims"),), [OTHER]),
    ],
)
async def test_claims_are_released_until_hostmgr_answers(
    errors: Sequence[PelotonError], expected: Sequence[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would last for minutes. Those that hostmgr refuses are not tried again."""
    monkeypatch.setattr(launch, "backoff", lambda: Backoff(0.001))
    hostmgr, queue = Hostmgr(*errors), Queue[Release]()
    unused: Any = None
    launcher = Launcher(hostmgr, lambda job_id: None, unused, queue, unused, unused)  # type: ignore[arg-type]
    running = asyncio.create_task(launcher.release())
    queue.put([ONE])
    await until(lambda: not hostmgr.errors, "the calls have failed")
    queue.put([OTHER])
    await until(lambda: hostmgr.released == expected, "the claims are released")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
