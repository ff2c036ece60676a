"""Figures are well-formed, put their marks where the numbers say, and escape every text."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from verism.records import Score
from verism.report_kit import plots
from verism.report_kit.gallery import image_boxes
from verism.suites.paintskills.report import count_heat_map

HOSTILE = "<script>alert(1)</script>\"'&"


def score(value: float, half: float = 0.1, **group: object) -> Score:
    return Score(
        suite="s",
        metric="accuracy",
        protocol="revised",
        value=value,
        ci_low=value - half,
        ci_high=value + half,
        n_used=40,
        n_unusable=3,
        group=group,
    )


def parts(svg: str, tag: str, css: str = "") -> list[ET.Element]:
    return [e for e in ET.fromstring(svg).iter(tag) if css in (e.get("class") or "")]


def test_interval_plot_puts_dots_on_a_common_axis():
    plot = plots.interval_plot(
        rows=["a", "b"],
        columns=["object", "mean"],
        cells=[[score(0.0, 0), score(0.5)], [score(1.0, 0), None]],
        reference={"object": 0.25},
        label="x",
    )
    panels = [panel for panel in ET.fromstring(plot) if "panel" in panel.get("class")]
    assert [panel.find("p").text for panel in panels] == ["object", "mean"]
    places = [[circle.get("cx") for circle in panel.iter("circle")] for panel in panels]
    assert places == [["0%", "100%"], ["50%"]]  # of the panel's width
    assert [line.get("x1") for line in parts(plot, "line", "ref")] == ["25%", "25%"]  # of both runs, in one panel
    assert [t.text for t in parts(plot, "text", "none")] == ["–"]
    names = [name.find("bdi").text for name in parts(plot, "span", "name")]
    assert [name for name in names if name] == ["a", "b"] * 2


def test_runs_beyond_the_eighth_differ_in_shape():
    names = [f"run {i}" for i in range(17)]
    plot = plots.interval_plot(
        rows=names, columns=["c"], cells=[[score(0.5)]] * 17, reference={"c": math.nan}, label="x"
    )
    assert len(parts(plot, "circle", "dot")) == 8
    assert len(parts(plot, "rect", "dot")) == 8
    assert len(parts(plot, "path", "dot")) == 1  # a diamond
    assert parts(plot, "line", "ref") == []


def test_bars_are_as_long_as_the_value_and_carry_their_counts():
    bars = plots.facet_bars(levels=["dog", "bus"], rows=["a"], cells=[[score(0.25)], [score(math.nan)]], label="x")
    (bar,) = parts(bars, "rect", "amount")
    assert (bar.get("x"), bar.get("width")) == ("0", "25%")
    assert [t.text for t in parts(bars, "b", "value")] == ["25.0", "–"]
    assert [t.text for t in parts(bars, "span", "count")] == ["n 40 + 3 unusable"] * 2


def test_heat_map_writes_shares_and_pools_far_counts():
    counted = [
        score(0.6, count=1, found=1),
        score(0.3, count=1, found=7),
        score(0.1, count=1, found=9),
        score(1.0, count=2, found=2),
    ]
    drawn = count_heat_map(counted, "x")
    # Two asked at most, so columns end at 2 + 4 = 6, which holds 7 and 9 as well: 30 % + 10 %.
    assert "6+" in [t.text for t in parts(drawn, "text", "tick")]
    cells = [
        (g.find("text").text, "diagonal" in g.get("class"))
        for g in parts(drawn, "g", "cell")
        if g.find("text").text != "·"
    ]
    assert cells == [("60", True), ("40", False), ("100", True)]


def test_boxes_stay_in_the_image_and_ignore_what_is_no_number():
    boxes = [(-5.0, 10.0, 300.0, 90.0, "dog 0.9", True), (math.nan, 0.0, 1.0, 1.0, "bad", False)]
    drawn = image_boxes(width=200, height=100, boxes=boxes)
    (box,) = parts(drawn, "rect", "outline")
    assert (box.get("x"), box.get("y"), box.get("width"), box.get("height")) == ("0", "10", "200", "80")
    assert image_boxes(width=200, height=100, boxes=[]) is None


def test_every_text_is_escaped():
    cells = [[score(0.5)]]
    for drawn in (
        plots.interval_plot(rows=[HOSTILE], columns=[HOSTILE], cells=cells, reference={}, label=HOSTILE),
        plots.facet_bars(levels=[HOSTILE], rows=[HOSTILE], cells=cells, label=HOSTILE),
        count_heat_map([score(1.0, count=1, found=1)], HOSTILE),
        image_boxes(width=9, height=9, boxes=[(0.0, 0.0, 5.0, 5.0, HOSTILE, True)]),
    ):
        assert "<script" not in drawn
        root = ET.fromstring(drawn)  # well-formed although the text is not
        if root.get("aria-label"):
            assert root.get("aria-label") == HOSTILE
