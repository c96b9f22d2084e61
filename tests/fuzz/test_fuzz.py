"""Some thousands of inputs to every surface; `make fuzz` tries a million."""

from __future__ import annotations

import pytest

from tests.fuzz.surfaces import SHARES, run

COUNT, SEED = 20_000, 20_260
WHOLE = sum(SHARES.values())


@pytest.mark.parametrize("surface", SHARES)
def test_no_input_does_harm(surface: str) -> None:
    report = run(surface, SEED, 0, COUNT * SHARES[surface] // WHOLE)
    assert not report.findings, str(report)
    assert report.answers, "no input was tried"
