"""What follows from the answers to a launch."""

from __future__ import annotations

import pytest

from jobmgr.core.launch_answers import LaunchAnswer, LaunchResult, outcome
from jobmgr.core.state.events import Launched, LaunchRefused, LaunchUncertain
from peloton.model.ids import Run

RUNS = (Run("11111111-1111-4111-8111-111111111111", 0, 1), Run("11111111-1111-4111-8111-111111111111", 1, 1))
R = LaunchResult


@pytest.mark.parametrize(
    ("result", "uncertain", "event"),
    [
        (R.LAUNCHED, False, Launched(RUNS)),
        (R.LAUNCHED, True, Launched(RUNS)),
        (R.CLAIM_OVER, False, LaunchRefused(RUNS, "why", faulty=False)),
        (R.CLAIM_OVER, True, LaunchUncertain(RUNS)),
        (R.FAULTY, False, LaunchRefused(RUNS, "why", faulty=True)),
        (R.FAULTY, True, LaunchRefused(RUNS, "why", faulty=True)),
        (R.UNCERTAIN, False, LaunchUncertain(RUNS)),
        (R.UNCERTAIN, True, LaunchUncertain(RUNS)),
    ],
)
def test_the_outcome_follows_from_the_last_answer_and_whether_an_earlier_one_was_lost(
    result: LaunchResult, uncertain: bool, event: object
) -> None:
    """A claim that is over may have been used by the call whose answer was lost: then nobody knows."""
    assert outcome(RUNS, LaunchAnswer(result, "why"), uncertain) == event


def test_each_result_has_an_outcome() -> None:
    assert all(outcome(RUNS, LaunchAnswer(each), False) is not None for each in LaunchResult)
