"""The README's table of what is served is what the daemons serve."""

from __future__ import annotations

from .conftest import Harness
from .served import README, block, split


def test_the_readme_says_what_is_served(harness: Harness) -> None:
    assert split(README.read_text())[1] == block(harness), "python -m tests.cluster.served"
