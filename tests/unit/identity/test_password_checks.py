"""Passwords that wait to be hashed always find a thread that looks for them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from peloton.identity.password_checks import PasswordChecks
from peloton.identity.passwords import Kept

SECONDS = 60


class Quick:
    """A kept password that is compared at once."""

    def matches(self, password: str) -> bool:
        return password == "right"


class Slow:
    """A kept password whose comparison takes until the test goes on."""

    def __init__(self) -> None:
        self.going_on = threading.Event()

    def matches(self, password: str) -> bool:
        assert self.going_on.wait(SECONDS)
        return password == "right"


def against(kept: object) -> tuple[Kept, ...]:
    return (cast(Any, kept),)


async def test_a_guess_that_comes_as_a_worker_ends_is_not_left_waiting() -> None:
    """Both workers are busy; one ends, and the caller that it answered asks again at once."""
    checks, slow = PasswordChecks(), Slow()
    long = asyncio.create_task(checks.matches("ann", "right", against(slow)))
    try:
        async with asyncio.timeout(SECONDS / 4):
            for _ in range(20):
                assert await checks.matches("bob", "right", against(Quick()))
        assert not long.done()
    finally:
        slow.going_on.set()
    assert await long


async def test_a_caller_that_goes_and_a_hash_that_fails_end_no_worker() -> None:
    checks, slow = PasswordChecks(), [Slow(), Slow()]
    gone = [asyncio.create_task(checks.matches("ann", "right", against(each))) for each in slow]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    for each in slow:
        each.going_on.set()
    with pytest.raises(AttributeError):
        await checks.matches("bob", "right", against(object()))
    async with asyncio.timeout(SECONDS):
        assert not await checks.matches("bob", "wrong", against(Quick()))
