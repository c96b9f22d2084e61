"""docs/architecture.md shows the state machines as the code has them."""

from __future__ import annotations

import pytest

from tools.diagrams import MACHINES, PAGE, updated


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert page == updated(page), "run `make diagrams`"


def test_missing_move_is_detected() -> None:
    page = PAGE.read_text()
    line = MACHINES[0][1].diagram().splitlines()[1]
    without = page.replace(line + "\n", "", 1)
    assert without != page
    assert updated(without) == page


def test_a_page_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the line"):
        updated("# Architecture\n")
