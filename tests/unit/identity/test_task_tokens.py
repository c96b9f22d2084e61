"""Tokens of tasks: what signs them, what they show, and what nobody can make of them."""

from __future__ import annotations

import base64
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.clock import NANOSECONDS
from peloton.config.errors import ConfigError
from peloton.errors import Unauthenticated, Unavailable
from peloton.identity.principal import Kind, Principal
from peloton.identity.task_tokens import (
    TaskClaim,
    TaskDoor,
    TaskKeys,
    claim_of,
    is_task_token,
    read_task_keys,
)
from peloton.model.ids import Run
from tests.unit.identity.served import private

JOB = "a0000000-0000-4000-8000-00000000000a"
RUN = Run(JOB, 3, 2)
KEYS = TaskKeys([b"k" * 32])
CLAIM = TaskClaim(RUN, 1000)
TOKEN = KEYS.sign(CLAIM)
OTHERS = TaskKeys([b"o" * 32])


def test_a_token_says_its_run_and_its_end() -> None:
    assert is_task_token(TOKEN)
    assert KEYS.read(TOKEN) == claim_of(TOKEN) == CLAIM


def test_keys_can_be_changed() -> None:
    assert TaskKeys([b"n" * 32, *KEYS.keys]).read(TOKEN) == CLAIM
    assert TaskKeys([b"n" * 32, *KEYS.keys]).sign(CLAIM) != TOKEN
    with pytest.raises(Unauthenticated):
        TaskKeys([b"n" * 32]).read(TOKEN)


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(string.ascii_letters + string.digits + "._-"))
def test_no_letter_can_be_changed(at: int, letter: str) -> None:
    changed = TOKEN[:at] + letter + TOKEN[at + 1 :]
    if changed != TOKEN:
        with pytest.raises(Unauthenticated):
            KEYS.read(changed)


@given(st.text() | st.text(alphabet=TOKEN).map("peloton-task.".__add__))
def test_nothing_else_is_a_token(text: str) -> None:
    with pytest.raises(Unauthenticated):
        KEYS.read(text)


def test_what_is_signed_with_another_key_is_refused() -> None:
    with pytest.raises(Unauthenticated, match="none that this cluster gives"):
        KEYS.read(OTHERS.sign(CLAIM))


def test_neither_keys_nor_door_show_the_key() -> None:
    assert "k" * 32 not in repr(KEYS) and "k" * 32 not in repr(TaskDoor(KEYS, lambda: 0))


class Alive:
    def __init__(self, *runs: Run) -> None:
        self.runs = set(runs)

    async def __call__(self, run: Run) -> bool:
        return run in self.runs


async def test_a_token_counts_while_its_run_lives() -> None:
    alive = Alive(RUN)
    door = TaskDoor(KEYS, lambda: 999 * NANOSECONDS, alive)
    assert await door.check(TOKEN) == Principal(f"{JOB}-3-2", Kind.TASK)
    for other in (Run(JOB, 3, 1), Run(JOB, 3, 3), Run(JOB, 2, 2)):
        with pytest.raises(Unauthenticated, match="has ended"):
            await door.check(KEYS.sign(TaskClaim(other, 1000)))
    alive.runs.clear()
    for renewing in (False, True):
        with pytest.raises(Unauthenticated, match=f"the run {JOB}-3-2 has ended"):
            await door.check(TOKEN, renewing)


async def test_an_expired_token_can_only_be_renewed() -> None:
    door = TaskDoor(KEYS, lambda: 1000 * NANOSECONDS, Alive(RUN))
    with pytest.raises(Unauthenticated, match="has expired: renew it"):
        await door.check(TOKEN)
    assert (await door.check(TOKEN, renewing=True)).kind is Kind.TASK


async def test_a_job_manager_that_does_not_lead_says_so() -> None:
    with pytest.raises(Unavailable):
        await TaskDoor(KEYS, lambda: 0).check(TOKEN)


def test_the_file_has_a_key_on_each_line(tmp_path: Path) -> None:
    lines = [base64.b64encode(bytes([i] * 32)).decode() for i in (1, 2)]
    assert read_task_keys(private(tmp_path / "keys", "\n".join([*lines, ""]))).keys == [
        bytes([1] * 32),
        bytes([2] * 32),
    ]


@pytest.mark.parametrize("text", ["", "not base64!", base64.b64encode(b"short").decode()])
def test_a_wrong_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="should have a key on each line") as raised:
        read_task_keys(private(tmp_path / "keys", text))
    assert not text or text not in str(raised.value)


def test_a_file_that_others_read_is_refused(tmp_path: Path) -> None:
    file = private(tmp_path / "keys", base64.b64encode(b"k" * 32).decode())
    file.chmod(0o644)
    with pytest.raises(ConfigError):
        read_task_keys(file)
