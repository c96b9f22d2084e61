from __future__ import annotations

from pathlib import Path

from peloton.cli.reference import reference

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_page_matches_the_commands() -> None:
    assert PAGE.read_text() == reference(), "python -m peloton.cli.reference > docs/cli.md"
