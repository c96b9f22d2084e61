"""What the answers to the calls of a launch mean, of which some may have been lost."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from jobmgr.core.state.events import Launched, LaunchRefused, LaunchUncertain
from peloton.model.ids import Run

MAX_CALL_FAILURES = 10
"""Failures of hostmgr in a launch after which Mesos is asked for the outcome."""


class LaunchResult(Enum):
    """What hostmgr answers to a launch."""

    LAUNCHED = auto()
    CLAIM_OVER = auto()
    """Nothing was launched."""
    FAULTY = auto()
    """The tasks cannot be launched at all."""
    UNCERTAIN = auto()


class LaunchAnswer(NamedTuple):
    """The answer to a launch, with the reason where it is refused."""

    result: LaunchResult
    message: str = ""


def outcome(
    runs: Sequence[Run], answer: LaunchAnswer, uncertain: bool
) -> Launched | LaunchRefused | LaunchUncertain:
    """Return the outcome of the last try. An `uncertain` earlier one may have reached another leader."""
    result = answer.result
    if result is LaunchResult.LAUNCHED:
        return Launched(runs)
    if result is LaunchResult.FAULTY:
        return LaunchRefused(runs, answer.message, faulty=True)
    if result is LaunchResult.UNCERTAIN or uncertain:
        return LaunchUncertain(runs)
    return LaunchRefused(runs, answer.message, faulty=False)
