"""Figures of measures: a mark lies where its value says, and what is undefined is not drawn as zero."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from measure_runs import score

from verism.report_kit.maps import DARKEST, LEFT, PALEST, SIDE, TOP, Placed, Point, group_map, scatter, trade_off
from verism.report_kit.plots import axis_of, group_dots

NAN = math.nan
HOSTILE = "</title><script>alert(1)</script>\"'&"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def circles(svg: str) -> list[tuple[float, float]]:
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in parsed(svg).iter("circle")]


def share(place: str) -> float:
    """A place in a drawing that fits any width, from 0 to 1."""
    assert place.endswith("%")
    return float(place[:-1]) / 100


def places(figure: str, tag: str, css: str, name: str = "x1") -> list[float]:
    found = [e for e in parsed(figure).iter(tag) if e.attrib.get("class") == css]
    return [share(e.attrib[name]) for e in found]


def captions(figure: str) -> list[str]:
    return ["".join(e.itertext()) for e in parsed(figure).iter("span") if e.attrib["class"] == "caption"]


def marks(figure: str) -> dict[str, float]:
    """By its words, the place of every mark of an axis."""
    return {t.text or "": share(t.attrib["x"]) for t in parsed(figure).iter("text") if t.attrib["class"] == "tick"}


def texts(svg: str) -> dict[str, tuple[float, float]]:
    """Where every text stands; without those inside a title."""
    results = [t for t in parsed(svg).iter("text") if "x" in t.attrib]
    return {t.text or "": (float(t.attrib["x"]), float(t.attrib["y"])) for t in results}


def strokes(svg: str, css: str) -> list[tuple[float, float, float, float]]:
    paths = [p.attrib["d"] for p in parsed(svg).iter("path") if p.attrib["class"] == css]
    return [tuple(float(n) for n in re.findall(r"-?[\d.]+", d)) for d in paths]  # type: ignore[misc]


# ---------------------------------------------------------------------------------------------------------------- axes
def test_shares_reach_from_nothing_to_all():
    axis = axis_of([score("precision", 0.9, 0.8, 0.95)])
    assert (axis.low, axis.high) == (0.0, 1.0)
    assert [axis.written(t) for t in axis.ticks] == ["0", "25", "50", "75", "100"]


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        # From 0.21 to 0.29: 0.08 / 5 = 0.016, so steps of 0.02; the ends are the multiples around.
        pytest.param((0.25, 0.21, 0.29), ["0.20", "0.22", "0.24", "0.26", "0.28", "0.30"], id="far from zero"),
        # From 0 (as 3 < 0.6 * 12) to 12: 2.4, so steps of 2.5.
        pytest.param((5.0, 3.0, 12.0), ["0.0", "2.5", "5.0", "7.5", "10.0", "12.5"], id="near zero"),
        # From -0.3 to 0.2: 0.1.
        pytest.param((0.0, -0.3, 0.2), ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2"], id="on both sides"),
        # A single value: 10 % of it on both sides, 18 to 22, 0.8, so steps of 1.
        pytest.param((20.0, NAN, NAN), ["18", "19", "20", "21", "22"], id="one value"),
        pytest.param((0.0, NAN, NAN), ["-1.0", "-0.5", "0.0", "0.5", "1.0"], id="only zero"),
    ],
)
def test_ends_of_axes_are_round_and_hold_all(values, marks):
    axis = axis_of([score("kid", *values, unit="cosine"), None, score("kid", NAN, unit="cosine")])
    assert [axis.written(t) for t in axis.ticks] == marks
    assert axis.at(axis.low) == 0.0
    assert axis.at(axis.high) == 1.0
    assert 0 <= axis.at(values[0]) <= 1


def test_axes_of_trade_offs_do_not_leave_what_a_share_can_be():
    axis = axis_of([score("precision", 0.97, 0.93, 1.0), score("precision", 0.95, 0.91, 0.99)], whole=False)
    assert [axis.written(t) for t in axis.ticks] == ["90", "92", "94", "96", "98", "100"]
    alone = axis_of([score("precision", 1.0)], whole=False)  # 10 % of it on both sides would be up to 110 %
    assert [alone.written(t) for t in alone.ticks] == ["90", "95", "100"]
    assert axis_of([], whole=False).high == 1.0
    assert axis_of([score("precision", NAN)], whole=False).high == 1.0


# --------------------------------------------------------------------------------------------------------------- dots
def test_dots_and_whiskers_lie_at_their_values():
    svg = group_dots(
        levels=["North", "South"],
        rows=["a"],
        cells=[[score("precision", 0.5, 0.25, 0.75)], [score("precision", 1.0)]],
        baselines=[[score("expected", 0.75)], [None]],
        unit="%",
        label="x",
    )
    ends = marks(svg)
    assert (ends["0"], ends["50"], ends["100"]) == (0.0, 0.5, 1.0)
    assert places(svg, "circle", "dot", "cx") == [0.5, 1.0]
    assert places(svg, "line", "whisker") == [0.25]
    assert places(svg, "line", "whisker", "x2") == [0.75]
    assert places(svg, "line", "ref") == places(svg, "line", "ref", "x2") == [0.75]
    assert captions(svg)[:2] == ["50.0 [25.0, 75.0] (40)", "100.0 (40)"]
    assert "%" in ends


def test_dots_of_what_is_undefined_are_dashes():
    svg = group_dots(
        levels=["North", "South"],
        rows=["a", "b"],
        cells=[[score("fid", NAN, n_used=0, n_unusable=4, unit="distance"), None], [None, None]],
        baselines=[[score("expected", NAN), None], [None, None]],
        label="x",
    )
    assert "circle" not in svg
    assert places(svg, "line", "ref") == []
    words = captions(svg)
    assert words.count("–") == 3
    assert "– (0 used, 4 unusable)" in words


def test_marks_of_many_runs_differ_in_colour_or_shape():
    rows = [f"run {i}" for i in range(20)]
    cells = [[score("precision", i / 20) for i in range(20)]]
    drawn = list(parsed(group_dots(levels=["North"], rows=rows, cells=cells, label="x")).iter("g"))
    looks = {(g.attrib["class"], next(c.tag + c.attrib.get("width", "") for c in g)) for g in drawn}
    assert len(drawn) == len(looks) == 20


# ---------------------------------------------------------------------------------------------------------------- maps
def shades(svg: str) -> list[float]:
    return [float(r.attrib["style"].removeprefix("--shade:")) for r in parsed(svg).iter("rect")]


def test_shades_of_maps_go_by_their_scale():
    cells = {
        ("dog", "North"): score("consistency", 0.20, unit="cosine"),
        ("dog", "South"): score("consistency", 0.25, unit="cosine"),
        ("cup", "North"): score("consistency", 0.30, unit="cosine"),
        ("cup", "South"): score("consistency", NAN, unit="cosine", n_used=0, n_unusable=2),
    }
    rows, columns = ["dog", "cup", "hat"], ["North", "South"]
    svg = group_map(rows=rows, columns=columns, cells=cells, scale=(0.2, 0.3), unit="cosine", label="x")
    assert shades(svg) == pytest.approx([PALEST, (PALEST + DARKEST) / 2, DARKEST], abs=1e-3)
    assert "cosine; palest to darkest: 0.200 to 0.300" in texts(svg)
    words = [t.text for t in parsed(svg).iter("text")]
    assert words.count("–") == 3  # one is undefined, two were never measured
    assert "cup, South: – (0 used, 2 unusable)" in [t.text for t in parsed(svg).iter("title")]


def test_shades_of_shares_go_from_nothing_to_all_and_of_one_value_are_even():
    cells = {("dog", "North"): score("precision", 0.0), ("dog", "South"): score("precision", 1.0)}
    svg = group_map(rows=["dog"], columns=["North", "South"], cells=cells, label="x")
    assert shades(svg) == pytest.approx([PALEST, DARKEST])
    assert "%; palest to darkest: 0 to 100" in texts(svg)
    one = {("dog", "North"): score("consistency", 0.3, unit="cosine")}
    svg = group_map(rows=["dog"], columns=["North"], cells=one, scale=(0.3, 0.3), label="x")
    assert shades(svg) == pytest.approx([(PALEST + DARKEST) / 2])


def test_numbers_of_maps_can_be_read_on_the_darkest_shade():
    # Contrast of ink with the darkest cell by WCAG 2, at least 4.5, with the colours of the style sheet.
    def luminance(rgb):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for ink, page, heat in (
        ((0x1D, 0x21, 0x25), (0xFC, 0xFC, 0xFB), (31, 95, 153)),
        ((0xE6, 0xE8, 0xEA), (0x15, 0x18, 0x1B), (96, 165, 225)),
    ):
        cell = [DARKEST * h + (1 - DARKEST) * p for h, p in zip(heat, page, strict=True)]
        high, low = sorted((luminance(ink), luminance(cell)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5


# -------------------------------------------------------------------------------------------------------------- planes
def test_marks_of_a_scatter_plot_lie_at_their_values():
    points = [
        Point(x=0.25, y=1.0, kind=0, tooltip="here"),
        Point(x=NAN, y=0.5, kind=0, tooltip="nowhere"),
        Point(x=0.5, y=NAN, kind=0, tooltip="nowhere"),
    ]
    svg = scatter(points=points, kinds=["North"], x_name="precision", y_name="coverage", label="x")
    assert circles(svg)[0] == pytest.approx((LEFT + SIDE * 0.25, TOP), abs=0.06)
    assert len(circles(svg)) == 2  # the other is the key's
    assert "nowhere" not in svg
    assert texts(svg)["North"][1] > TOP + SIDE


def placed(run: int, x: float, y: float, *, on_front: bool = True, **more) -> Placed:
    a, b = score("precision", x, x - 0.05, x + 0.05), score("coverage", y, y - 0.1, y + 0.1)
    return Placed(**{"run": run, "name": f"run {run}", "tooltip": "", "x": a, "y": b, "on_front": on_front} | more)


def test_the_front_is_joined_in_order_and_others_are_faint():
    # Axes: x from 0.15 to 0.85 in steps of 0.2, so from 0 to 1; y from 0.2 to 0.9, so from 0.2 to 1.
    runs = [placed(0, 0.8, 0.3), placed(1, 0.2, 0.8), placed(2, 0.2, 0.3, on_front=False), placed(3, 0.5, 0.5)]
    svg = trade_off(placed=runs, x_name="precision", y_name="coverage", label="x")
    at = [(LEFT + SIDE * x, TOP + SIDE * (1 - (y - 0.2) / 0.8)) for x, y in ((0.2, 0.8), (0.5, 0.5), (0.8, 0.3))]
    (front,) = strokes(svg, "front")
    assert front == pytest.approx([n for point in at for n in point], abs=0.06)
    assert [g.attrib["class"] for g in parsed(svg).iter("g")] == ["r0", "r1", "r2 faint", "r3"]
    whiskers = strokes(svg, "whisker")
    assert len(whiskers) == 8
    assert whiskers[0] == pytest.approx((LEFT + SIDE * 0.75, at[2][1], LEFT + SIDE * 0.85, at[2][1]), abs=0.06)
    assert {"run 0", "run 1", "run 2", "run 3"} <= set(texts(svg))


def test_names_of_marks_that_lie_together_do_not_cover_each_other():
    runs = [placed(i, 0.5 + 0.001 * i, 0.5) for i in range(4)]
    svg = trade_off(placed=runs, x_name="precision", y_name="coverage", label="x")
    written = [t for t in parsed(svg).iter("text") if (t.text or "").startswith("run")]
    boxes = []  # of texts of five characters of 12 pixels: 33.6 wide, and as high as capitals are
    for t in written:
        width = {"start": 0.0, "end": 1.0, "middle": 0.5}[t.attrib.get("text-anchor", "start")] * 33.6
        boxes.append((float(t.attrib["x"]) - width, float(t.attrib["y"])))
    for k, (x, y) in enumerate(boxes):
        assert all(abs(x - a) >= 33 or abs(y - b) >= 9 for a, b in boxes[:k])


def test_a_front_of_one_has_no_line_and_no_interval_no_whisker():
    one = placed(0, 0.5, 0.5)
    bare = replace(one, x=replace(one.x, ci_low=NAN, ci_high=NAN), y=replace(one.y, ci_low=NAN, ci_high=NAN))
    svg = trade_off(placed=[bare, replace(bare, run=1, on_front=False)], x_name="x", y_name="y", label="x")
    assert strokes(svg, "front") == []
    assert strokes(svg, "whisker") == []
    assert len(circles(svg)) == 2


@pytest.mark.parametrize("kind", ["dots", "map", "scatter", "trade-off"])
def test_text_of_figures_is_only_text(kind):
    one = score("precision", 0.5, 0.4, 0.6)
    svg = {
        "dots": lambda: group_dots(levels=[HOSTILE], rows=[HOSTILE], cells=[[one]], baselines=[[one]], label=HOSTILE),
        "map": lambda: group_map(rows=[HOSTILE], columns=[HOSTILE], cells={(HOSTILE, HOSTILE): one}, label=HOSTILE),
        "scatter": lambda: scatter(
            points=[Point(x=0.5, y=0.5, kind=0, tooltip=HOSTILE)],
            kinds=[HOSTILE], x_name=HOSTILE, y_name=HOSTILE, label=HOSTILE,
        ),
        "trade-off": lambda: trade_off(
            placed=[placed(0, 0.5, 0.5, name=HOSTILE, tooltip=HOSTILE)], x_name=HOSTILE, y_name=HOSTILE, label=HOSTILE
        ),
    }[kind]()  # fmt: skip
    root = parsed(svg)  # it would not parse, or have a script, if anything were left unescaped
    tags = {"svg", "g", "path", "line", "text", "title", "circle", "rect", "div", "p", "span", "bdi"}
    assert {e.tag for e in root.iter()} <= tags
    assert root.attrib["aria-label"] == HOSTILE
