"""The time of day of a process: without the jumps of the system's clock."""

from __future__ import annotations

import logging

import pytest

from peloton.clock import CATCH_UP, NANOSECONDS, SteadyWall, SystemClock

HOUR, DAY = 3600, 86400
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR, 30 * DAY, -30 * DAY])


class System:
    """The clocks of a machine, in seconds."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_700_000_000.0, 50.0
        self.steady = SteadyWall(
            lambda: round(self.wall * NANOSECONDS), lambda: round(self.monotonic * NANOSECONDS)
        )
        self.begun = self.steady.now()

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds

    @property
    def told(self) -> float:
        """The seconds since the begin, by the time of day."""
        return (self.steady.now() - self.begun) / NANOSECONDS


@JUMPS
def test_durations_are_right_over_a_jump(jump: int) -> None:
    system = System()
    system.pass_by(10)
    assert system.told == pytest.approx(10)
    system.wall += jump
    for seconds in range(11, 111):
        system.pass_by(1)
        assert system.told == pytest.approx(seconds, abs=seconds / CATCH_UP + 0.1)


@JUMPS
def test_a_jump_is_caught_up_with_and_told_once(jump: int, caplog: pytest.LogCaptureFixture) -> None:
    system = System()
    system.wall += jump
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            system.pass_by(abs(jump) * CATCH_UP / 100)
            system.steady.now()
    assert system.steady.now() == round(system.wall * NANOSECONDS)
    assert system.steady.behind == 0
    assert len(caplog.records) == 1
    assert f"jumped by {jump:.1f} s" in caplog.text


@JUMPS
def test_it_never_goes_back(jump: int) -> None:
    system = System()
    system.wall += jump
    last = system.steady.now()
    for _ in range(100):
        system.pass_by(0.01)
        now = system.steady.now()
        assert now > last
        last = now


def test_a_clock_that_is_slewed_is_followed() -> None:
    system = System()
    for _ in range(100):
        system.pass_by(1)
        system.wall += 0.0005
        assert system.steady.now() == round(system.wall * NANOSECONDS)


def test_all_clocks_of_a_process_tell_the_same() -> None:
    one, other = SystemClock(), SystemClock()
    before = one.wall()
    between = other.wall()
    assert before <= between <= one.wall()
