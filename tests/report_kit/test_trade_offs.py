"""Trade-offs: which runs lie on the front, worked by hand, and what a page says of them."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
from measure_runs import score
from page_reading import write_report

from verism.report_kit.evidence import Evidence
from verism.report_kit.trade_offs import differing_setting, trade_offs
from verism.specs import Presentation
from verism.suites.catalogue import suite_class
from verism.suites.geography.report import AIMS as GEOGRAPHY
from verism.suites.quality.report import AIMS as QUALITY

NAN = math.nan


def quality(precision: float, coverage: float, fid: float):
    return [
        score("precision", precision, precision - 0.01, precision + 0.01),
        score("coverage", coverage, coverage - 0.02, coverage + 0.02),
        score("fid", fid, fid - 1, fid + 1, unit="distance", higher_is_better=False),
        score("precision", 0.999, group={"region": "North"}),
    ]


# precision 0.9, 0.7, 0.6, 0.4 and coverage 0.3, 0.6, 0.5, 0.8: the third is worse than the second in both; in FID (12,
# 14, 10, 20; lower is better) it is the best of all, so it is unbeaten in the three. The fourth has the best coverage.
RUNS = [quality(0.9, 0.3, 12), quality(0.7, 0.6, 14), quality(0.6, 0.5, 10), quality(0.4, 0.8, 20)]
NAMES = ["a", "b", "c", "d"]


def of_scores(scores, suite: str = "quality", judge: str = "fid-inception@6726825d preprocessing=fid") -> Evidence:
    """Evidence of scores alone, made from the features of a judge."""
    cls = suite_class(suite)
    presentation = Presentation(info=cls.info, metrics=cls.metrics, pairings=cls.pairings, layout=cls.layout)
    names = [chr(ord("a") + n) for n in range(len(scores))]
    return Evidence(
        runs=[SimpleNamespace(judge={"features": judge}.get)] * len(scores),
        names=names,
        presentations=[presentation] * len(scores),
        every=scores,
        scores=scores,
    )


def faint(svg) -> list[bool]:
    return ["faint" in css for css in re.findall(r'<g class="(r\d[^"]*)">', svg)]


def test_front_of_every_pair_and_of_all_three():
    (result,) = trade_offs(of_scores(RUNS), QUALITY, NAMES)
    assert [p.title for p in result.panels] == [
        "realism and diversity",
        "realism and distance",
        "diversity and distance",
    ]
    # Precision and FID: a (0.9, 12) and c (0.6, 10). Coverage and FID: b (0.6, 14), c (0.5, 10), d (0.8, 20); a
    # (0.3, 12) is worse than c in both.
    assert [faint(p.versions["revised"]) for p in result.panels] == [
        [False, False, True, False],
        [False, True, False, True],
        [True, False, False, False],
    ]
    assert all(p.versions["paper"] is None for p in result.panels)
    rows = result.rows["revised"]
    assert result.metrics["revised"] == ["precision", "coverage", "FID"]
    assert [row.unbeaten for row in rows] == [True, True, True, True]
    assert rows[0].cells == [("90.0", "[89.0, 91.0]"), ("30.0", "[28.0, 32.0]"), ("12.00", "[11.00, 13.00]")]


def test_distances_of_other_features_than_those_of_the_fid_have_another_name():
    (result,) = trade_offs(of_scores(RUNS, judge="builtin@0123456789ab"), QUALITY, NAMES)
    assert result.metrics["revised"] == ["precision", "coverage", "Fréchet distance (builtin features)"]


def test_a_run_beaten_in_all_is_told_so_and_equal_runs_are_not():
    worse = quality(0.5, 0.4, 30)  # the second has 0.7, 0.6, 14
    (result,) = trade_offs(of_scores([*RUNS, worse, RUNS[0]]), QUALITY, [*NAMES, "e", "f"])
    assert [row.unbeaten for row in result.rows["revised"]] == [True, True, True, True, False, True]
    assert faint(result.panels[0].versions["revised"]) == [False, False, True, False, True, False]


def test_undefined_values_are_in_no_panel_and_on_no_front():
    hole = [score("precision", 0.99), score("coverage", NAN, n_used=0), score("fid", 1.0, higher_is_better=False)]
    (result,) = trade_offs(of_scores([*RUNS[:2], hole]), QUALITY, NAMES[:3])
    assert len(faint(result.panels[0].versions["revised"])) == 2
    assert len(faint(result.panels[1].versions["revised"])) == 3
    last = result.rows["revised"][2]
    assert last.unbeaten is None
    assert last.cells[1] == ("–", "")
    assert [row.unbeaten for row in result.rows["revised"][:2]] == [True, True]


def test_there_is_nothing_to_trade_with_one_run_or_in_other_suites():
    assert trade_offs(of_scores(RUNS[:1]), QUALITY, ["a"]) == []
    assert trade_offs(of_scores(RUNS), GEOGRAPHY, NAMES) == []
    assert trade_offs(of_scores([[], []]), QUALITY, ["a", "b"]) == []


def test_families_of_prompts_are_not_mixed():
    def owner(family: str, shift: float):
        group = {"family": family}
        return [
            score("precision_mean", 0.5 + shift, group=group),
            score("coverage_mean", 0.5 - shift, group=group),
            score("consistency", 0.9, group={**group, "region": "North"}, unit="cosine"),
            score("consistency", 0.2 + shift, group=group, unit="cosine"),
        ]

    runs = [[*owner("object", 0.0), *owner("region", 0.1)], [*owner("object", 0.05), *owner("region", 0.0)]]
    result = trade_offs(of_scores(runs, "geography"), GEOGRAPHY, ["a", "b"])
    assert [one.title for one in result] == ["object", "object in region"]
    assert result[0].rows["revised"][1].cells == [("55.0", ""), ("45.0", ""), ("0.250", "")]
    assert [row.unbeaten for row in result[1].rows["revised"]] == [True, True]
    assert faint(result[0].panels[1].versions["revised"]) == [True, False]  # more precise and more consistent


@pytest.mark.parametrize(
    ("generators", "expected"),
    [
        pytest.param(
            ("diffusers:m@1 steps=50 guidance_scale=2", "diffusers:m@1 steps=50 guidance_scale=7.5"),
            ("guidance_scale", ["2", "7.5"]),
            id="one option",
        ),
        pytest.param(
            ("builtin:m@1?size=256", "builtin:m@1?size=256&top_p=0.9"), ("top_p", ["default", "0.9"]), id="one left out"
        ),
        pytest.param(("builtin:m", "scripted"), ("generator", ["builtin:m", "scripted"]), id="short names"),
        pytest.param(("x:m?a=1&b=1", "x:m?a=2&b=2"), ("generator", ["x:m?a=1&b=1", "x:m?a=2&b=2"]), id="two options"),
        pytest.param(("images:/a/long/path/to/pictures", "images:/b"), None, id="too long"),
        pytest.param(("same", "same"), None, id="nothing differs"),
    ],
)
def test_the_setting_in_which_runs_differ(measured_run, generators, expected):
    runs = [measured_run(f"run{i}", generator=name) for i, name in enumerate(generators)]
    assert differing_setting(runs) == expected


def test_the_page_has_the_trade_offs_of_a_sweep(measured_run, tmp_path):
    runs = [
        measured_run(f"run-{i}", scores, generator=f"diffusers:m steps=50 guidance={1 + i}")
        for i, scores in enumerate(RUNS)
    ]
    page = write_report(runs, tmp_path / "out").read_text(encoding="utf-8")
    section = page.partition('<section id="trade-offs">')[2].partition("</section>")[0]
    assert section.count('class="front"') == 3
    assert "labelled with its <bdi>guidance</bdi>" in section
    assert re.search(r'<text[^>]*class="name"[^>]*>1</text>', section)
    body = section.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in body.split("</tr>")[:-1]]
    assert rows[2] == [
        "run-2",
        "3",
        "60.0",
        "[59.0,",
        "61.0]",
        "50.0",
        "[48.0,",
        "52.0]",
        "10.00",
        "[9.00,",
        "11.00]",
        "no",
    ]
    alone = write_report(runs[:1], tmp_path / "alone").read_text(encoding="utf-8")
    assert "trade-offs" not in alone
