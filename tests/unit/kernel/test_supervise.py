"""No background task ends unnoticed, however it ends."""

from __future__ import annotations

import asyncio

import pytest

from peloton.daemon.supervise import Supervisor
from peloton.errors import Fenced, Refused


async def returns() -> None:
    return


async def fails() -> None:
    raise KeyError("bug")


async def refused() -> None:
    raise Refused("wrong credentials")


async def fenced() -> None:
    raise Fenced("that term is over")


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
        (fenced, "w ended: that term is over"),
        (waits_for_what_another_cancelled, "w ended: what it waited for was cancelled"),
    ],
)
async def test_unexpected_end_is_reported(work: object, told: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where the one line says all, without the place in the program."""
    scope = Supervisor()
    scope.spawn("w", work())  # type: ignore[operator]
    assert await asyncio.wait_for(scope.failed(), 60) == told
    assert ("background task" in caplog.text) == ("Error(" in told)
    await scope.close()


async def test_closing_ends_tasks_without_a_failure() -> None:
    scope = Supervisor()
    scope.spawn("w", asyncio.Event().wait())
    failed = asyncio.create_task(scope.failed())
    await asyncio.sleep(0)
    await scope.close()
    assert not failed.done()
    failed.cancel()
