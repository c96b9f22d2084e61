"""The table of docs/rpcs.md is what the daemons serve."""

from __future__ import annotations

from .conftest import Harness
from .served import PAGE, block, split


def test_the_readme_says_what_is_served(harness: Harness) -> None:
    assert split(PAGE.read_text())[1] == block(harness), "python -m tests.cluster.served"
