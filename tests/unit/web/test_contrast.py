"""Texts stand out from their ground, in light and in dark: at least 4.5:1, as WCAG 2.2 has it."""

from __future__ import annotations

import re
from itertools import product

import pytest

from peloton.web.templating import STATIC

LEAST = 4.5
TONES = ("good", "done", "bad", "busy", "wait", "off", "plain")
GROUNDS = ("panel", "ground")
CSS = (STATIC / "peloton.css").read_text()
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", CSS)
}
PAIRS = (
    *product(("text", "quiet", "link", "bad", "good"), GROUNDS),
    *((tone, f"{tone}-ground") for tone in TONES),
    *product(("text", "quiet"), (f"{tone}-ground" for tone in TONES)),
    ("text", "bar"),
    ("head-text", "head"),
    ("panel", "link"),  # a primary button
)
"""Texts and their grounds: panels, chips, notices, remedies, the header."""


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_of_known_colours() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", (0, 1), ids=("light", "dark"))
@pytest.mark.parametrize(("text", "ground"), PAIRS, ids=lambda name: name)
def test_texts_stand_out_from_their_ground(text: str, ground: str, theme: int) -> None:
    found = contrast(COLOURS[text][theme], COLOURS[ground][theme])
    assert found >= LEAST, f"--{text} on --{ground}: {found:.2f}:1"
