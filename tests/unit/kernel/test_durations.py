from __future__ import annotations

import pytest

from peloton.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20s", 20),
        ("5m", 300),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        (" 7 ", 7),
        ("1.5", 1.5),
        ("0s", 0),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1d", "1s1", "٣s", "٣", "1.2.3", ".", "nan", "inf", "1:30", "5 m", "1e3", "5s\n5"],
)
def test_invalid_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration, such as 20s or 5m"):
        parse_duration(text)
