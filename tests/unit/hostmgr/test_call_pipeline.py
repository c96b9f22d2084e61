"""Calls written one behind the other, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from peloton.mesos.call_pipeline import ANSWER_SECONDS, CallPipeline
from peloton.mesos.detector import MasterAddress
from peloton.mesos.http import Requests

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


class Writer:
    """Takes all there is."""

    def write(self, data: bytes) -> None:
        """Taken."""

    def is_closing(self) -> bool:
        return False


async def test_a_long_queue_is_not_stalled_while_answers_come() -> None:
    """What is at its end waits for longer than any single call may."""
    now = 0.0
    reader, writer = asyncio.StreamReader(), Writer()
    taken: Any = writer
    requests = Requests(MasterAddress("m", 1), "/", {})
    pipe = CallPipeline(requests, reader, taken, lambda *refusal: None, lambda: now)
    running = asyncio.create_task(pipe.run())
    pipe.send(["KILL"] * 3, [b""] * 3)
    for answered in range(2):
        assert not pipe.stalled()
        now += ANSWER_SECONDS - 1
        reader.feed_data(ACCEPTED)
        while pipe.outstanding != 2 - answered:  # noqa: ASYNC110 - it takes them by itself
            await asyncio.sleep(0)
    assert not pipe.stalled()
    now += ANSWER_SECONDS + 1
    assert pipe.stalled()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_call_after_a_pause_has_all_its_time() -> None:
    now = 1000.0
    taken: Any = Writer()
    requests = Requests(MasterAddress("m", 1), "/", {})
    pipe = CallPipeline(requests, asyncio.StreamReader(), taken, lambda *refusal: None, lambda: now)
    assert not pipe.stalled()
    pipe.send(["KILL"], [b""])
    now += ANSWER_SECONDS - 1
    assert not pipe.stalled()
    now += 2
    assert pipe.stalled()
