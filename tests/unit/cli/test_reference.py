from __future__ import annotations

from pathlib import Path

from peloton.cli.reference import reference

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_the_page_is_as_the_commands_are() -> None:
    assert PAGE.read_text() == reference(), "python -m peloton.cli.reference > docs/cli.md"
