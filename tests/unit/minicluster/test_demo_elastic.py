"""The metrics that the demo of elastic sharing reads, and the picture that it draws."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from minicluster.demo.chart import Chart, Line, Panel, svg
from minicluster.demo.elastic import Samples, Share, shares_of

METRICS = """\
# HELP resmgr_pool_demand Asked for by queued gangs.
# TYPE resmgr_pool_demand gauge
resmgr_pool_demand{kind="cpu",pool="/team1"} 20.0
resmgr_pool_demand{kind="memory",pool="/team1"} 999.0
# TYPE resmgr_pool_entitlement gauge
resmgr_pool_entitlement{kind="cpu",pool="/team1"} 60.0
# TYPE resmgr_pool_allocation gauge
resmgr_pool_allocation{kind="cpu",pool="/team1"} 50.0
resmgr_pool_allocation{kind="cpu",pool="/team1/below"} 7.0
"""
SVG = "{http://www.w3.org/2000/svg}"


def test_demand_is_what_is_allocated_and_what_is_queued() -> None:
    shares = shares_of(METRICS)
    assert shares["team1"] == Share(demand=70, entitlement=60, allocation=50)
    assert shares["team2"] == Share(0, 0, 0)


def lines(picture: str) -> list[list[tuple[float, float]]]:
    """Return the points of each line that is drawn."""
    paths = [
        each for each in ET.fromstring(picture).iter(f"{SVG}path") if each.get("class", "").startswith("line")
    ]
    numbers = [[float(number) for number in re.findall(r"[\d.]+", path.get("d", ""))] for path in paths]
    return [list(zip(each[::2], each[1::2], strict=True)) for each in numbers]


def test_the_picture_names_its_lines_axes_and_marks() -> None:
    samples = Samples(times=[0, 1], marks=[(0.5, "a < b & c")])
    for shares in samples.shares.values():
        shares += [Share(20, 60, 20), Share(120, 100, 100)]
    picture = svg(samples.chart())
    texts = [each.text for each in ET.fromstring(picture).iter(f"{SVG}text")]
    for text in ("demand", "entitlement", "allocation", "seconds", "cpu", "a < b & c"):
        assert texts.count(text) == 2, text
    assert len(lines(picture)) == 2 * (3 + 1)
    for colour in ("#888888", "#1f77b4", "#2ca02c"):
        assert colour in picture


def test_a_value_holds_until_the_next_one_and_the_largest_is_the_highest() -> None:
    line = Line("load", [0, 7, 3], "red")
    (points,) = lines(svg(Chart("chart", "cpu", [0, 10, 20], [Panel("one", [line])])))
    assert all(one[0] == other[0] or one[1] == other[1] for one, other in pairwise(points)), points
    xs, ys = [x for x, _ in points], [y for _, y in points]
    assert xs == sorted(xs)
    zero, largest, last = ys[0], ys[2], ys[-1]
    assert largest < last < zero, "the axis points up"


def test_no_samples_make_a_picture() -> None:
    ET.fromstring(svg(Samples().chart()))
