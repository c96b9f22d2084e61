"""What the demo of elastic sharing reads and draws."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from minicluster.demo.chart import HEADROOM, WIDTH, Chart, Line, Panel, svg
from minicluster.demo.elastic import Share, Story, shares_of

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


def test_a_team_wants_what_it_has_and_what_waits() -> None:
    shares = shares_of(METRICS)
    assert shares["team1"] == Share(demand=70, entitlement=60, allocation=50)
    assert shares["team2"] == Share(0, 0, 0)


def test_the_picture_is_xml_with_a_line_for_each_amount() -> None:
    story = Story(times=[0, 1], marks=[(0.5, "a < b & c")])
    for shares in story.shares.values():
        shares += [Share(20, 60, 20), Share(120, 100, 100)]
    root = ET.fromstring(svg(story.chart()))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {"demand", "entitlement", "allocation", "a < b & c"} <= set(texts)
    colours = [path.get("stroke") for path in root.iter(f"{SVG}path")]
    assert [colours.count(colour) for colour in ("#888888", "#1f77b4", "#2ca02c")] == [2, 2, 2]


def test_a_line_stays_inside_its_panel_and_the_largest_amount_is_the_highest() -> None:
    line = Line("load", [0, 7, 3], "red")
    root = ET.fromstring(svg(Chart("chart", "cpu", [0, 10, 20], [Panel("one", [line])])))
    (path,) = (each.get("d") for each in root.iter(f"{SVG}path") if each.get("stroke") == "red")
    assert path is not None
    steps = path.replace("M", " ").replace("H", " H").replace("V", " V").split()
    xs = [float(step[1:]) for step in steps if step[0] == "H"]
    ys = [float(step[1:]) for step in steps if step[0] == "V"]
    assert xs == sorted(xs)
    assert xs[-1] < WIDTH
    assert HEADROOM < ys[0] < ys[1]


def test_nothing_seen_is_a_picture_too() -> None:
    ET.fromstring(svg(Story().chart()))
