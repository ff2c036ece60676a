"""The page of geography, and what suits any suite: its numbers are the runs', its text is only text."""

from __future__ import annotations

import json
import math
import re
import shutil

import pytest
from browsing import CHROMIUM
from earlier_runs import as_earlier_version
from fakes import ColourFeatures, ColourWords
from measure_runs import image, score, verdict, write_images
from page_reading import HOSTILE, Page, facets, in_browser, outcomes, plain, report, write_report

from verism.api import evaluate
from verism.errors import UsageError, VerismError
from verism.records import PROTOCOLS, Prompt
from verism.report_kit import words
from verism.report_kit.tables import json_report, terminal_table
from verism.store import Run
from verism.suites.catalogue import presentation_of

NAN = math.nan


def test_every_number_that_is_not_of_a_single_object_is_in_the_tables(geography_runs, tmp_path):
    page = report(geography_runs, tmp_path)
    results = page.section("results")
    for protocol in PROTOCOLS:
        written = " ".join(
            plain(table)
            for table in re.findall(rf"<table[^>]*>(?:(?!</table>).)*?{protocol} protocol.*?</table>", results, re.S)
        )
        shown = 0
        for run in geography_runs:
            for s in run.scores():
                if s.protocol == protocol and "object" not in s.group:
                    assert words.minus(f"{words.value(s)} {words.interval(s)}".strip()) in written, s
                    shown += 1
        assert shown > 30
    embedded = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page.source, re.S)
    assert json.loads(embedded[1])["scores"] == json_report(
        geography_runs, [presentation_of(run) for run in geography_runs]
    )


def test_numbers_of_single_objects_are_in_the_maps(geography_run, tmp_path):
    section = report([geography_run], tmp_path).section("objects")
    cells = [s for s in geography_run.scores() if {"object", "region"} <= set(s.group) and s.metric == "coverage"]
    assert len(cells) == 3 * 4
    for s in cells:
        assert f"{s.group['object']}, {s.group['region']}: {words.minus(words.cell(s))}</title>" in section
    assert plain(section).count("cosine; palest to darkest") == 3


def test_a_worst_group_is_named_and_shares_a_row_with_other_runs(geography_runs, tmp_path):
    page = report(geography_runs, tmp_path)
    rows = re.findall(r"<tr[^>]*><th[^>]*>coverage, worst region.*?</tr>", page.source, re.S)
    assert len(rows) == 3  # one per protocol
    assert all("South · " in row for row in rows)


def test_undefined_values_are_dashes(measured_run, tmp_path):
    scores = [
        score("fid", NAN, unit="distance", n_used=0, n_unusable=12, higher_is_better=False),
        score("precision", NAN, group={"region": "North"}, n_used=0, n_unusable=7),
        score("precision", 0.0, group={"region": "South"}),
        score("precision", NAN, group={"object": "dog", "region": "North"}),
        score("coverage", NAN, group={"object": "dog", "region": "North"}),
    ]
    run = measured_run("none", scores, suite="geography", images=[image("a", state="failed", note="out of memory")])
    page = report([run], tmp_path)
    results = plain(page.section("results"))
    assert "fid ↓ lower is better – 0 used · 12 unusable distance" in results
    assert "North – 0 used · 7 unusable %" in results
    assert "South 0.0 40 used %" in results
    assert "nan" not in page.source.lower().replace("provenance", "")
    assert page.section("groups").count('class="dot"') == 1
    assert 'class="dot"' in page.section("objects")  # of the key alone
    assert page.section("objects").count("<title>dog, North: –") == 2
    assert page.all("img") == []
    assert "1 failed" in plain(page.source)
    assert "out of memory" in page.section("gallery")


def test_a_run_without_any_usable_image(tmp_path):
    real = write_images(tmp_path / "real", seed=1)
    mine = write_images(tmp_path / "mine", seed=2)
    for file in mine.parent.glob("*.png"):
        file.write_bytes(b"not an image")
    run = evaluate(
        "geography",
        images=mine,
        reference=real,
        judges={"features": ColourFeatures(), "clip": ColourWords()},
        out=tmp_path / "run",
    )
    page = report([run], tmp_path / "out")
    assert "24 failed" in plain(page.source)
    assert all(outcomes(a, "revised") == ["unusable"] for a in page.all("article"))
    assert page.all("img") == []
    assert not re.search(r"\bnan\b", page.source)
    assert "- (0" in terminal_table([run])


def hostile_run(measured_run, name: str = "evil <b>run") -> Run:
    facets = {"object": HOSTILE, "region": HOSTILE}
    prompt = Prompt(prompt_id="p", suite="quality", text=HOSTILE, facets=facets)
    scores = [
        score(HOSTILE, 0.5, group={"region": HOSTILE}),
        score(HOSTILE, 0.5, group={"region": "South"}),
        score("precision", 0.5, 0.4, 0.6, unit=HOSTILE),
        *(score(m, 0.5, group={"family": HOSTILE, **facets}) for m in ("precision", "coverage")),
    ]
    verdicts = [
        verdict("i", HOSTILE, 0.5, reason=HOSTILE),
        verdict("i", "inside", 0.0, detail=json.dumps({"nearest": HOSTILE, "distance": 0.5}), reason=HOSTILE),
    ]
    images = [image("i", note=HOSTILE, path=HOSTILE.replace("\u2028", "")), image(HOSTILE, state="refused")]
    options = {"generator": HOSTILE, "remarks": [HOSTILE] * 8}
    return measured_run(name, scores, suite="geography", images=images, verdicts=verdicts, prompts=[prompt], **options)


def test_text_of_runs_is_only_text(measured_run, tmp_path):
    runs = [hostile_run(measured_run), hostile_run(measured_run, "other<i>")]
    page = report(runs, tmp_path / "out")
    assert page.all("script") == [{"type": "application/json", "id": "numbers"}, {}]
    assert page.all("img") == []
    assert all(not name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert all(facets(article) == {"region": [HOSTILE], "object": [HOSTILE]} for article in page.all("article"))
    assert page.source.count("{{ 7*7 }}") > 20
    assert not {"b>run", "i"} & {tag for tag, _ in page.elements if tag != "i"}
    assert "\u2028" not in page.source.partition('id="numbers">')[2].partition("</script>")[0]


def test_page_points_nowhere_outside(geography_run, tmp_path):
    page = report([geography_run], tmp_path)
    for tag, attrs in page.elements:
        for name in ("src", "href", "action", "poster", "data"):
            value = attrs.get(name)
            assert value is None or value.startswith(("data:", "#")), (tag, name, value)
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    assert {str(a["href"])[1:] for a in page.all("a") if str(a["href"]).startswith("#")} <= ids
    assert not re.search(r"https?://", page.source)


def test_same_runs_same_bytes(geography_runs, tmp_path):
    first = write_report(geography_runs, tmp_path / "one")
    second = write_report([Run.open(run.path) for run in geography_runs], tmp_path / "two")
    assert first.read_bytes() == second.read_bytes()


def test_gallery_shows_as_many_as_asked(geography_runs, tmp_path):
    page = report(geography_runs, tmp_path / "six", gallery=6)
    assert [a["data-run"] for a in page.all("article")].count("0") == 3
    assert "6 of 48 images are part of this report" in plain(page.source)
    none = report(geography_runs, tmp_path / "none", gallery=0)
    assert none.all("article") == none.all("img") == []
    assert "made without images" in plain(none.section("gallery"))


def test_images_that_vanished_since_are_placeholders(tmp_path):
    real = write_images(tmp_path / "real", seed=1)
    mine = write_images(tmp_path / "mine", seed=2)
    run = evaluate(
        "geography", images=mine, reference=real, judges={"features": ColourFeatures()}, out=tmp_path / "run"
    )
    shutil.rmtree(real.parent)
    for file in [*mine.parent.glob("*.png"), *(tmp_path / "run" / "images").glob("*.png")]:
        file.unlink()
    page = report([run], tmp_path / "out")
    assert page.all("img") == []
    assert len(page.all("article")) == 24
    assert page.source.count("ok when the run was made, now missing") >= 2 * 24


def test_several_runs_have_columns_and_a_filter(geography_runs, tmp_path):
    page = report(geography_runs, tmp_path)
    heads = re.search(r'<table class="pinned dense">.*?</thead>', page.source, re.S)[0]
    assert plain(heads.partition("<thead>")[2]) == "metric fair bright unit"
    assert "object in region" in heads.partition("<thead>")[0]  # the one group of all rows
    assert [s.get("data-facet") for s in page.all("select")] == [None, "region", "object"]
    assert not {"run"} & {s["name"] for s in report(geography_runs[:1], tmp_path / "one").all("select")}


def test_alignment_by_kind_of_question_has_a_figure(measured_run, tmp_path):
    scores = [
        score("question_score", 0.8, 0.7, 0.9),
        *(score("question_accuracy", v, group={"category": c}) for c, v in (("color", 0.25), ("count", 0.75))),
        score("question_score", 0.9, protocol="released"),
        score("clipscore_x100", 25.0, unit="x100"),
    ]
    page = report([measured_run("a", scores, suite="alignment")], tmp_path)
    groups = plain(page.section("groups"))
    assert "questions right, by kind by category" in groups
    assert "25.0 (40)" in groups
    assert "Dashed" not in groups
    assert "see the p-value" not in groups
    assert "CLIPScore, ×100 ↑ higher is better 25.00 40 used 100 × cosine" in plain(page.section("results"))
    protocols = plain(page.section("protocols"))
    assert "questions right all 80.0 90.0 – +10.0 –" in protocols


def test_differences_between_protocols(measured_run, tmp_path):
    worst = {"family": "region"}
    scores = [
        *(score("fid", v, unit="distance", protocol=p) for p, v in (("revised", 12.0), ("released", 11.5))),
        *(score("gap_p", v, unit="p", protocol=p) for p, v in (("revised", 0.5), ("released", 0.2), ("paper", 0.5))),
        score("precision_worst", 0.5, group=worst | {"region": "North"}),
        score("precision_worst", 0.4, group=worst | {"region": "South"}, protocol="released"),
        score("precision_worst", 0.6, group=worst | {"region": "North"}, protocol="paper"),
    ]
    page = report([measured_run("a", scores, suite="geography")], tmp_path)
    body = page.section("protocols").partition("<tbody>")[2]
    rows = [[plain(cell) for cell in re.split(r"</t[hd]>", row)[:-1]] for row in body.split("</tr>")[:-1]]
    assert [row[1:] for row in rows] == [
        ["fid", "all", "12.00", "11.50", "–", "−0.500", "–"],
        ["gap p", "all", "0.500", "0.200", "0.500", "−0.300", "0.000"],
        # Another region is the worst: the difference of the two would say nothing of either.
        ["precision, worst region", "object in region", "50.0", "40.0", "60.0", "–", "+10.0"],
    ]


def test_remarks_are_shown_and_many_are_folded(measured_run, tmp_path):
    remarks = [f"remark <{n}>" for n in range(7)]
    page = report([measured_run("a", [score("fid", 1.0)], images=[image("a")], remarks=remarks)], tmp_path)
    remarks = page.source.partition('class="caution remarks"')[2].partition("<section")[0]
    assert page.source.index('<section id="results">') < page.source.index('class="caution remarks"')  # answers first
    head, _, folded = remarks.partition("<details>")
    assert head.count("<li>") == 5
    assert "2 more remarks" in folded
    assert "remark &lt;6&gt;" in folded


def test_runs_without_a_page_in_common_are_refused(measured_run, make_run, tmp_path):
    quality = measured_run("q", [score("fid", 1.0)])
    geography = measured_run("g", [score("precision", 1.0)], suite="geography")
    with pytest.raises(
        UsageError, match="runs of quality and geography have no page in common; report them one by one"
    ):
        write_report([quality, geography], tmp_path / "x")
    with pytest.raises(UsageError, match="runs of quality and paintskills have no page in common"):
        write_report([quality, make_run("p", skills=("object",), limit=1)], tmp_path / "x")
    quality = as_earlier_version(quality)
    (quality.path / "scores.parquet").unlink()
    with pytest.raises(VerismError, match="no scores yet"):
        write_report([quality], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_many_objects_and_regions_of_several_families(measured_run, tmp_path):
    regions = [f"Region with a long name {n}" for n in range(6)]
    scores = []
    for family in ("object", "region", "country"):
        for n, region in enumerate(regions):
            scores.append(score("precision", n / 10, group={"family": family, "region": region}))
            scores += [
                score(metric, (k + n) / 40, group={"family": family, "object": f"object {k}", "region": region})
                for metric in ("precision", "coverage")
                for k in range(27)
            ]
    page = report([measured_run("a", scores, suite="geography")], tmp_path)
    assert page.section("objects").count('class="fig heat map"') == 3 * 2
    assert page.section("objects").count("--shade:") == 3 * 2 * 27 * 6
    assert plain(page.section("results")).count("Region with a long name 5") == 3
    assert "object 26" not in page.section("results")
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in zip(headings, headings[1:]))  # no level is left out


def test_everything_can_be_reached_and_has_a_name(geography_runs, tmp_path):
    page = report(geography_runs, tmp_path, gallery=8)
    assert all(img["alt"] for img in page.all("img"))
    for attrs in page.all("svg"):
        if attrs.get("aria-hidden") != "true" and attrs.get("overflow") is None:  # a line's drawing, or a mark in it
            assert attrs["role"] == "group"
            assert attrs["aria-label"]
    for attrs in page.all("div"):
        assert attrs.get("role") != "group" or attrs["aria-label"]
        if attrs.get("role") == "region":
            assert attrs["tabindex"] == "0"
            assert attrs["aria-label"]
    labels = [i for i, (tag, attrs) in enumerate(page.elements) if tag in ("select", "input") and attrs.get("name")]
    assert all(page.elements[i - 1][0] == "label" for i in labels)
    assert all(button["aria-label"] for button in page.all("button") if button.get("class") == "picture")


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_filters_work_in_a_browser(geography_runs, tmp_path):
    file = write_report(geography_runs, tmp_path / "out", gallery=20)
    tiles = Page(file.read_text(encoding="utf-8")).all("article")
    wanted = sum(
        facets(t)["region"] == ["South"] and outcomes(t, "released") == ["wrong"] and t["data-run"] == "1"
        for t in tiles
    )
    assert 0 < wanted < 20
    # The page lets no script run but its own: its own is made longer here, and its hash left out of the policy.
    steps = """
    const choose = (name, value) => { document.querySelector(`[name=${name}]`).value = value; };
    document.querySelector('[name=protocol][value=released]').click();
    choose('run', '1'); document.querySelector('[data-facet=region]').value = 'South';
    document.querySelector('[name=outcome][value=wrong]').click();
    """
    dom, answer = in_browser(file, tmp_path, steps)
    assert re.search(rf'<output id="gallery-count"[^>]*>{wanted} of 20 images shown</output>', dom.source)
    assert sum("hidden" not in article for article in dom.all("article")) == wanted
    assert dom.all("html")[0]["data-protocol"] == "released"
    assert "CONSOLE" not in answer, [line for line in answer.splitlines() if "CONSOLE" in line]
