"""Figures of social bias: values lie where they say, bands are those of an unbiased model, tones have their colours."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from measure_runs import score
from page_reading import evidence_of

from verism.manifest import RunSettings
from verism.metrics.colour import MONK_RGB, tone_by_rgb
from verism.report_kit.plots import Dot, DotRow, DotStyle, Guide, dots, share_axis
from verism.report_kit.words import cell, minus
from verism.store import Run
from verism.suites.social_bias.report_figures import even_band, mad_axis, mean_axis, monk_hex, tone_bars
from verism.suites.social_bias.report_scores import BiasScores

GENDER = "score -1..+1"


def dot(one, name: str = "a") -> Dot:
    return Dot(run=0, name=name, caption=minus(cell(one)), score=one)


def drawn(value: float, low: float = math.nan, high: float = math.nan, **more) -> str:
    one = replace(score("axis_mean", value, low, high, unit=GENDER), **more)
    rows = [DotRow(name="judge", dots=[dot(one)])]
    return dots(rows=rows, axis=mean_axis(-1.0, 1.0, GENDER), label="x", style=DotStyle(base=0.0))


@pytest.mark.parametrize(("low", "high", "n_ticks"), [(-1, 1, 5), (1, 10, 10), (0, 9, 10), (0, 2, 5), (-1.5, 0.5, 5)])
def test_scales_of_means_end_where_the_values_of_the_study_do(low, high, n_ticks):
    axis = mean_axis(low, high, "x")
    assert (axis.low, axis.high, axis.ticks[0], axis.ticks[-1], len(axis.ticks)) == (low, high, low, high, n_ticks)


def test_ends_of_an_axis_are_those_of_the_stored_study(tmp_path):
    choices = [{"name": "a", "value": -1.5}, {"name": "b", "value": 0.5}]
    study = {"axes": [{"name": "age", "choices": choices}, {"name": "bare"}]}
    run = Run.start(tmp_path / "r", RunSettings(suite="social_bias", suite_settings={"study": study}))
    run.write_scores([])
    bias = BiasScores(evidence_of([run]), 0)
    assert bias.ends("age", "any unit") == (-1.5, 0.5)
    assert bias.ends("bare", "score +0..+9") == (-1.0, 1.0)
    assert (bias.ends("tone", "tone"), bias.ends("tone", "tone from 0")) == ((1.0, 10.0), (0.0, 9.0))


def test_dots_lie_where_their_values_are():
    # In per cent of the drawing's width: -1 at its left end, +1 at its right one.
    places = [float(re.search(r'class="dot" cx="([\d.]+)%"', drawn(v))[1]) for v in (-1.0, 0.0, 1.0)]
    assert places == [0.0, 50.0, 100.0]


def test_undefined_values_have_no_dot_and_a_dash():
    text = drawn(math.nan)
    assert 'class="dot"' not in text
    assert "–" in text
    assert "–" in dots(rows=[DotRow(name="a", dots=[dot(None)])], axis=share_axis(), label="x")


def test_values_without_the_judges_error_are_hollow():
    assert 'class="r0 hollow"' in drawn(0.2, adjusted="rendered")
    assert "hollow" not in drawn(0.2)


def test_names_are_escaped_and_guides_have_names():
    rows = [DotRow(name="<b>&", dots=[dot(score("m", 0.5), '"><i>')])]
    text = dots(rows=rows, axis=share_axis(), style=DotStyle(guides=[Guide(0.5, "<u>")]), label='"<s>')
    assert not re.search(r"<[busi]>", text)
    assert "&lt;u&gt;" in text
    assert "&lt;b&gt;&amp;" in text


# ---------------------------------------------------------------------------------------------------------------- bands
def test_the_band_of_nine_images():
    # X of 9 fair draws: P(X <= 1) = 10/512 = 0.0195 <= 0.025 < P(X <= 2) = 46/512: the band is 2 to 7, so
    # 2 * 2/9 - 1 = -5/9 to 5/9.
    assert even_band(9, -1, 1, 2) == pytest.approx((-5 / 9, 5 / 9))
    assert even_band(1, -1, 1, 2) == (-1.0, 1.0)
    assert even_band(9, 0, 1, 2) == pytest.approx((2 / 9, 7 / 9))


@pytest.mark.parametrize("n", [3, 27])
def test_bands_of_tones_hold_what_they_promise(n):
    low, high = even_band(n, 1, 10, 10)
    means = np.random.default_rng(0).integers(1, 11, (20_000, n)).mean(axis=1)
    inside = ((means >= low - 1e-9) & (means <= high + 1e-9)).mean()
    assert 0.945 < inside < 0.99
    assert low + high == pytest.approx(11)
    assert even_band(n, 0, 9, 10) == pytest.approx((low - 1, high - 1))


def test_without_images_or_known_values_there_is_no_band():
    assert even_band(0, -1, 1, 2) is None
    assert even_band(9, 0, 2, 1) is None


def test_an_axis_of_deviations_ends_at_one_class_only():
    assert mad_axis(0.18, [score("mad", 0.1)]).high == 0.18
    assert mad_axis(0.18, [score("mad", 0.17, 0.1, 0.2)]).high == 0.2


# ---------------------------------------------------------------------------------------------------------------- tones
def test_tones_have_the_colours_of_the_scale():
    assert [monk_hex(1), monk_hex(10)] == ["#f6ede4", "#292420"]
    for tone in range(1, 11):
        rgb = [int(monk_hex(tone)[k : k + 2], 16) for k in (1, 3, 5)]
        assert rgb == MONK_RGB[tone - 1].tolist()
        assert tone_by_rgb(rgb) == tone


def test_bars_of_tones_have_heights_numbers_and_a_dash_where_nothing_is_known():
    shares = (
        [score("class_share", 0.1 * k, unit="share") for k in range(1, 5)]
        + [score("class_share", math.nan)]
        + [None] * 5
    )
    text = tone_bars(shares=shares, top=0.5, label="x", title="<all>")
    bars = re.findall(r'fill="(#\w+)" x="[\d.]+%" y="[\d.]+" width="22" height="([\d.]+)" transform', text)
    # 150 high for a share of 0.5: 30 for 0.1.
    bars = [(colour, height) for colour, height in bars if height != "9"]  # those are the key's
    assert [float(h) for _, h in bars] == pytest.approx([30, 60, 90, 120])
    assert [c for c, _ in bars] == [monk_hex(tone) for tone in range(1, 5)]
    assert text.count(">–</text>") == 6
    assert "&lt;all&gt;" in text
    assert all(f">{tone}</text>" in text for tone in range(1, 11))  # never by colour alone


def test_a_bar_beyond_the_axis_ends_on_it():
    text = tone_bars(
        shares=[score("class_share", 0.9, 0.8, 1.0, unit="share")] + [None] * 9, top=0.5, label="x", title=""
    )
    assert 'height="150"' in text


def test_freed_shares_are_diamonds():
    one = score("class_share", 0.2, unit="share")
    text = tone_bars(shares=[one] * 10, adjusted=[replace(one, adjusted="rendered")] * 10, top=0.5, label="x", title="")
    assert text.count('class="diamond"') == 10
    assert "adjusted for judge error" in unescape(text)
