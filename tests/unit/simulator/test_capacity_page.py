"""The example of docs/simulator.md: its command runs, and says what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from simulator.cli import simulate
from tests.documented import blocks, commands
from tools.docs import ROOT

PAGE = ROOT / "docs" / "simulator.md"
EXAMPLES = ROOT / "examples" / "simulator"
MOST_BYTES = 60_000
SVG = "{http://www.w3.org/2000/svg}"
FIGURE = re.compile(r"^ *([A-Za-z].*?)  +([\d,.]+) +([\d,.]+) ", re.MULTILINE)


def figures(text: str) -> dict[str, tuple[float, float]]:
    """Return the values of both configurations by the name of the figure."""
    return {
        name: (float(first.replace(",", "")), float(other.replace(",", "")))
        for name, first, other in FIGURE.findall(text)
    }


def test_the_example_runs_and_its_charts_are_those_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    [block] = [each for each in blocks(PAGE) if each.said == "tests/unit/simulator/test_capacity_page.py"]
    [words] = commands(block.text)
    result = CliRunner().invoke(simulate, list(words[1:]))
    assert result.exit_code == 0, result.output
    shown = next(each.text for each in blocks(PAGE) if each.language == "text" and "mean wait" in each.text)
    found, told = figures(result.output), figures(shown)
    assert list(found) == list(told)
    # Another order of decisions moves the figures a little, a fault moves them much.
    assert found["mean wait, s"] == pytest.approx(told["mean wait, s"], rel=0.3)
    assert found["use of gpu, %"] == pytest.approx(told["use of gpu, %"], rel=0.1)
    assert "<svg" in (tmp_path / "result.html").read_text()
    for name in ("compared-waits", "waiting"):
        image = ROOT / "docs" / "images" / f"simulator-{name}.svg"
        assert f"images/{image.name}" in PAGE.read_text() and image.stat().st_size <= MOST_BYTES
        made, kept = (ElementTree.parse(path).getroot() for path in (tmp_path / f"plots/{name}.svg", image))
        assert [each.text for each in made.iter(f"{SVG}title")] == [
            each.text for each in kept.iter(f"{SVG}title")
        ]
        assert len(list(made.iter(f"{SVG}polyline"))) == len(list(kept.iter(f"{SVG}polyline"))) == 2


def test_the_jobs_are_those_of_the_generator() -> None:
    made = subprocess.run(
        [sys.executable, EXAMPLES / "generate.py"], capture_output=True, text=True, check=True, timeout=60
    )
    assert made.stdout == (EXAMPLES / "jobs.jsonl").read_text()
