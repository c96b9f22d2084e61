"""No background task ends unnoticed, however it ends."""

from __future__ import annotations

import asyncio

import pytest

from peloton.errors import Refused
from peloton.supervise import Supervisor


async def returns() -> None:
    return


async def fails() -> None:
    raise KeyError("bug")


async def refused() -> None:
    raise Refused("wrong credentials")


async def waits_for_what_another_cancelled() -> None:
    given_up = asyncio.get_running_loop().create_future()
    given_up.cancel()
    await given_up


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (returns, "w ended"),
        (fails, "w ended: KeyError('bug')"),
        (refused, "w ended: wrong credentials"),
        (waits_for_what_another_cancelled, "w ended: CancelledError()"),
    ],
)
async def test_an_end_is_told(work: object, told: str) -> None:
    scope = Supervisor()
    scope.spawn("w", work())  # type: ignore[operator]
    assert await asyncio.wait_for(scope.failed(), 5) == told
    await scope.close()


async def test_closing_ends_tasks_without_a_failure() -> None:
    scope = Supervisor()
    scope.spawn("w", asyncio.Event().wait())
    failed = asyncio.create_task(scope.failed())
    await asyncio.sleep(0)
    await scope.close()
    assert not failed.done()
    failed.cancel()
