"""Random events against the scheduler: `PELOTON_STEPS=1000000 pytest tests/property/resmgr` walks further."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .walk import Walk

STEPS = int(os.environ.get("PELOTON_STEPS", "50000"))
SEED = int(os.environ.get("PELOTON_SEED", "1"))
LIFE = 1000
LONGEST = 300 + STEPS // 100
"""Seconds: a hundred steps each, far below what a slow machine does."""


@pytest.mark.timeout(LONGEST)
def test_what_must_hold_holds_after_every_step() -> None:
    for life in range(-(-STEPS // LIFE)):
        walk = Walk(Random(SEED + life))
        try:
            walk.run(min(LIFE, STEPS - life * LIFE))
            walk.finish()
        except AssertionError as error:
            raise AssertionError(f"PELOTON_SEED={SEED + life}: {error}") from error


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_a_short_walk_that_hypothesis_can_shrink(rng: Random) -> None:
    walk = Walk(rng)
    walk.run(40)
    walk.finish()
