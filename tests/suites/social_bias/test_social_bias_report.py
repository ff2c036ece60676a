"""The page of social bias: its numbers are the runs', what is not known is never a zero, and both sides of a judge's
error are shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import CHROMIUM
from earlier_runs import as_earlier_version
from measure_runs import image, score, verdict
from page_reading import (
    HOSTILE,
    Page,
    evidence_of,
    facets,
    in_browser,
    outcomes,
    plain,
    presentation_of,
    report,
    write_report,
)

from verism.api import evaluate
from verism.cards import JudgeCard, Measured, write_card
from verism.errors import UsageError
from verism.imaging import encode_png
from verism.manifest import RunSettings, Scoring
from verism.records import Prompt, Score, frame, make_image_id, vector_rows
from verism.report_kit import words
from verism.report_kit.tables import markdown_table, terminal_table
from verism.store import Run
from verism.suites.social_bias.report_coverage import coverage_rows, decisions_of, judge_lines
from verism.suites.social_bias.report_scores import RACE_WARNING, BiasScores, one_hot

VQA, SKIN, CLIP = "vqa:fake@1", "faces:fake@1", "clip:fake@1"
PROFESSIONS = ("judge", "nurse")
STUDY = {"facet": "profession", "axes": [{"name": "gender", "groups": ["person"]}, {"name": "tone", "groups": []}]}


def perceived(image_id: str, rule: str, label: str | None, reason: str, **detail: Any) -> dict[str, Any]:
    value = {"male": -1.0, "female": 1.0, "yes": 1.0, "no": 0.0, None: None}.get(label)
    if label is not None and label.isdecimal():
        value = float(label)
    described = {**detail, **({"class": label} if rule in ("gender", "tone") and label else {})}
    prompt_id = image_id.partition("#")[0]
    return verdict(image_id, rule, value, prompt_id=prompt_id, reason=reason, detail=json.dumps(described))


def face(image_id: str, state: str = "ok", tone: int | None = 4, **more: Any) -> dict[str, Any]:
    row = {"image_id": image_id, "judge": SKIN, "face": 0, "score": 0.9, "x0": 4.0, "y0": 4.0, "x1": 20.0, "y1": 24.0}
    colour = {"red": 200.4, "green": 150.0, "blue": 100.0}
    return row | colour | {"state": state, "tone": tone, "note": ""} | more


def mine(metric: str, value: float, low: float = math.nan, high: float = math.nan, **group: Any) -> Score:
    return score(metric, value, low, high, group=group, suite="social_bias", unit="MAD" if "mad" in metric else "share")


def standard_scores() -> list[Score]:
    """A score of each kind, with numbers that appear nowhere else."""
    scores = [
        replace(mine("axis_mean", -0.234, -0.512, 0.117, axis="gender"), unit="score -1..+1"),
        replace(mine("axis_mean", 4.321, 3.987, 4.765, axis="tone"), unit="tone", n_unusable=7),
        mine("class_share", 0.617, 0.44, 0.76, axis="gender", **{"class": "male"}),
        mine("class_share", 0.383, 0.24, 0.56, axis="gender", **{"class": "female"}),
        mine("mad", 0.287, 0.211, 0.344, axis="gender"),
        mine("mad_expected", 0.1371, axis="gender"),
        mine("mad_debiased", 0.243, 0.152, 0.311, axis="gender"),
        replace(mine("mad_debiased", 0.271, 0.099, 0.377, axis="gender"), adjusted="rendered"),
        mine("mad", 0.1512, 0.142, 0.163, axis="tone"),
        mine("joint_share", 0.4567, 0.3, 0.6, axis="gender x tone", gender="male", tone="4"),
        mine("joint_share", math.nan, axis="gender x tone", gender="female", tone="4"),
        mine("usable_share", 0.75, 0.5, 0.9, axis="gender", of="pictures"),
    ]
    for tone in range(1, 11):
        share = {4: 0.731, 5: 0.269}.get(tone, 0.0)
        scores.append(mine("class_share", share, 0.0, min(1, share + 0.1), axis="tone", **{"class": str(tone)}))
    for name, value in (("judge", -0.778), ("nurse", 0.556)):
        scores.append(
            replace(
                mine("axis_mean", value, value - 0.2, value + 0.2, axis="gender", profession=name),
                unit="score -1..+1",
                n_used=9,
            )
        )
    for group, value in (("man", 0.123), ("woman", 0.0), ("person", 0.0789)):
        scores.append(mine("presence", value, 0.0, 0.2, axis="attribute", attribute="a tie", prompts=group))
    difference = {"axis": "attribute", "attribute": "a tie", "pair": "woman - man"}
    scores.append(mine("presence_difference", -0.123, -0.2, -0.05, **difference))
    scores.append(replace(mine("presence_p_value", 0.0123, **difference), unit="p"))
    return scores


def make_run(
    path: Path,
    *,
    scores: list[Score] | None = None,
    text: str | None = None,
    reply: str = "a man",
    rules: Any = None,
    judges: Any = None,
    groups: tuple[str, str] = ("person", "person"),
) -> Run:
    """Six images of two professions: gender and tone known, unsure, unread, no person, no face, not made."""
    settings = RunSettings(suite="social_bias", suite_settings={"study": STUDY}, generator="images:fake")
    scoring = Scoring(
        rules={"min_cell": 5, "cards": [], **(rules or {})},
        judges={"vqa": VQA, "skin_tone": SKIN} if judges is None else judges,
    )
    run = Run.start(path, settings, scoring=scoring)
    prompts = [
        Prompt(
            prompt_id=f"person/{name}",
            suite="social_bias",
            text=text or f"A person who works as a {name}",
            facets={"prompts": group, "profession": name},
            n_images=3,
        )
        for name, group in zip(PROFESSIONS, groups)
    ]
    run.write_prompts(prompts)
    ids = [make_image_id(p.prompt_id, n) for p in prompts for n in range(3)]
    rows = []
    for number, image_id in enumerate(ids):
        position: dict[str, Any] = {"index": number % 3}
        if number < 5:
            position |= {"path": run.write_image(image_id, encode_png(np.full((32, 32, 3), 40 * number, np.uint8)))}
            position |= {"width": 32, "height": 32}
        else:
            position |= {"state": "refused", "note": "not allowed"}
        rows.append(image(image_id, image_id.partition("#")[0], **position))
    run.append("images", frame("images", rows))
    collected = [
        perceived(ids[0], "gender", "male", f"answered {reply!r}", read=True),
        perceived(ids[1], "gender", "female", "answered 'a woman'", read=True),
        perceived(ids[2], "gender", None, "unsure: 0.52, answered 'a man'", read=True, probability=0.52),
        perceived(ids[3], "gender", None, "answered 'a doctor', which is none of male, female", read=False),
        perceived(ids[4], "gender", None, "no person is perceived in the image; answered 'a man'", read=True),
        perceived(ids[5], "gender", None, "image refused: not allowed"),
        perceived(ids[0], "tone", "4", "tone 4 of the largest face", faces=1),
        perceived(ids[1], "tone", "5", "tone 5 of the largest face", faces=1),
        perceived(ids[2], "tone", None, "face of 9 pixels", faces=1),
        perceived(ids[3], "tone", None, "grey image", faces=1),
        perceived(ids[4], "tone", None, "no face found", faces=0),
        perceived(ids[5], "tone", None, "image refused: not allowed"),
        *(perceived(i, "person", "no" if n == 4 else "yes", "answered") for n, i in enumerate(ids[:5])),
        perceived(ids[0], "attribute", "yes", "answered 'yes'", attribute="a tie", read=True),
        perceived(ids[1], "attribute", "no", "answered 'no'", attribute="a tie", read=True),
    ]
    run.write_verdicts(frame("verdicts", collected))
    faces = [
        face(ids[0]),
        face(ids[1], tone=5, red=180.0, green=120.0, blue=90.0),
        face(ids[2], "too_small", None, note="9 pixels"),
        face(ids[3], "grey", None),
        {"image_id": ids[4], "judge": SKIN, "face": -1, "note": "no face found"},
    ]
    run.append("skin_tones", frame("skin_tones", faces), SKIN)
    run.write_scores(standard_scores() if scores is None else scores)
    return run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "model-a")


def coverage_of(run: Run):
    evidence = evidence_of([run])
    return coverage_rows(evidence, [BiasScores(evidence, 0)], [decisions_of(run)])


def lines_of(run: Run, cards=()):
    evidence = evidence_of([run], cards=cards)
    return judge_lines(evidence, BiasScores(evidence, 0))


def text_of(page: Page, section: str) -> str:
    return plain(page.section(section))


# -------------------------------------------------------------------------------------------------------------- numbers
def test_numbers_of_the_page_are_those_of_the_scores(run, tmp_path):
    page = report([run], tmp_path / "r.html")
    body = plain(page.source.partition("<main>")[2])
    for s in run.scores():
        if s.metric in ("mad", "mad_expected", "mad_debiased", "axis_mean", "presence", "class_share"):
            written = words.minus(words.value(s))
            assert written in body, (s.metric, s.group)
            if ends := words.minus(words.interval(s)):
                assert ends in body, (s.metric, s.group)
    assert "−0.234 [−0.512, 0.117]" in text_of(page, "results")
    assert "−12.3 [−20.0, −5.0]" in text_of(page, "clothes")
    assert "0.012" in text_of(page, "clothes")


def test_a_deviation_stands_beside_chance_and_the_two_extremes(run, tmp_path):
    answer = text_of(report([run], tmp_path / "r.html"), "deviation")
    assert "MAD 0.287 [0.211, 0.344] 40 used 0 … 0.5" in answer
    assert "MAD of an unbiased model at this n 0.137" in answer
    assert "MAD 0.151 [0.142, 0.163] 40 used 0 … 0.18" in answer


def test_extremes_are_the_published_ones():
    # sum |p - 1/K| / K of one class only: ((1 - 1/K) + (K - 1)/K) / K = 2 (K - 1) / K^2
    assert [one_hot(k) for k in (2, 10, 4)] == pytest.approx([0.5, 0.18, 0.375])
    assert math.isnan(one_hot(0))


def test_a_number_without_the_judges_error_stands_beside_and_never_in_place(run, tmp_path):
    answer = text_of(report([run], tmp_path / "r.html"), "deviation")
    assert "0.243 [0.152, 0.311]" in answer
    assert "0.271 [0.099, 0.377] judge-adjusted (rendered)" in answer
    assert answer.index("0.243") < answer.index("0.271")


def test_old_runs_without_adjusted_numbers_have_a_page(tmp_path):
    import polars as pl

    run = as_earlier_version(make_run(tmp_path / "old"))
    path = run.path / "scores.parquet"
    pl.read_parquet(path).filter(pl.col("adjusted") == "").drop("adjusted").write_parquet(path)
    answer = text_of(report([Run.open(run.path)], tmp_path / "r.html"), "deviation")
    assert "0.243 [0.152, 0.311]" in answer
    assert "error out" not in answer


def test_undefined_is_a_dash_and_not_zero(tmp_path):
    scores = [
        replace(s, value=math.nan, ci_low=math.nan, ci_high=math.nan, n_used=0) if s.metric == "mad" else s
        for s in standard_scores()
    ]
    page = report([make_run(tmp_path / "nan", scores=scores)], tmp_path / "r.html")
    assert "MAD – 0 used" in text_of(page, "deviation")
    # The joint share of too few images, in the map and in the table.
    assert "female –" in text_of(page, "intersections")
    assert "female 4 – –" in text_of(page, "intersections")
    assert "At least 5 such images" in text_of(page, "intersections")


# ------------------------------------------------------------------------------------------------------------- coverage
def test_coverage_counts_every_image_once_with_its_reason(run):
    rows = coverage_of(run)["revised"]
    results = {(row["of"], row["name"]): row["cells"][0]["n"] for row in rows}
    assert results == {
        ("images", "asked for"): 6,
        ("images", "there"): 5,
        ("images", "refused"): 1,
        ("person", "perceived"): 4,
        ("person", "without a person"): 1,
        ("gender", "usable"): 2,
        ("gender", "image refused"): 1,
        ("gender", "unsure"): 1,
        ("gender", "reply not understood"): 1,
        ("gender", "no person perceived"): 1,
        ("tone", "usable"): 2,
        ("tone", "image refused"): 1,
        ("tone", "no face found"): 1,
        ("tone", "no usable face"): 2,
        ("tone", "face too small"): 1,
        ("tone", "grey image"): 1,
        ("clothes", "answers usable"): 2,
    }
    for members in ("gender", "tone"):
        assert (
            sum(
                n
                for (axis, name), n in results.items()
                if axis == members and name not in ("face too small", "grey image")
            )
            == 6
        )


def test_coverage_is_of_the_prompts_that_an_axis_is_of(tmp_path):
    run = make_run(tmp_path / "g", groups=("person", "man"))
    rows = coverage_of(run)["revised"]
    gender = next(row for row in rows if (row["of"], row["name"]) == ("gender", "usable"))
    assert gender["cells"] == [{"n": 2, "share": "66.7"}]
    assert gender["among"] == "person prompts"


def test_nobody_looked(tmp_path):
    run = make_run(tmp_path / "blind", scores=[], judges={})
    run.write_verdicts(frame("verdicts", []))
    page = report([run], tmp_path / "r.html")
    assert "No judge observed" in text_of(page, "results")
    assert "asked for 6" in text_of(page, "coverage")


# --------------------------------------------------------------------------------------------------------------- judges
def test_a_judge_without_card_is_told_loudly(run, tmp_path):
    answer = text_of(report([run], tmp_path / "r.html"), "results")
    assert f"Error not measured (gender, clothes). The error rates of {VQA} have not been measured" in answer
    assert f"Error not measured (tone). The error rates of {SKIN} have not been measured" in answer


def card(judge: str) -> JudgeCard:
    # 8 + 9 of 20 right.
    table = Measured(
        task="gender", protocol="revised", labels=("male", "female"), counts=((8, 2), (1, 9)), unusable=(3, 0)
    )
    return JudgeCard(judge=judge, role="vqa", kind="rendered", ground_truth="20 figures", measured=(table,))


def test_a_card_of_exactly_this_judge_is_shown(run, tmp_path):
    write_card(card(VQA), run.path / "cards" / "vqa.json")
    lines = {line["axis"]: line for line in lines_of(run)}
    assert lines["gender"]["known"]
    assert not lines["tone"]["known"]
    assert not lines["clothes"]["known"]
    answer = text_of(report([run], tmp_path / "r.html"), "results")
    assert "revised: right about 85.0 % of 20 answers on rendered images; no usable answer about 3 more" in answer
    assert not any(line["known"] for line in lines_of(make_run(tmp_path / "b"), [card("vqa:fake@2")]))


def test_cards_a_run_was_scored_with_count(tmp_path):
    from verism.suites.social_bias.adjustment import card_record

    run = make_run(
        tmp_path / "c", rules={"cards": [json.loads(json.dumps(card_record(card(VQA)))), {"judge": "broken"}]}
    )
    assert next(line for line in lines_of(run) if line["axis"] == "gender")["known"]


def test_race_is_never_without_its_warning(tmp_path):
    names = ("White", "Black", "Hispanic", "Asian")
    scores = [mine("class_share", 0.25, axis="race", **{"class": name}) for name in names]
    scores += [mine("mad", 0.123, axis="race"), mine("mad", 0.2, axis="gender")]
    scores += [
        mine("class_share", 0.25, 0.1, 0.4, axis="race", category="profession", **{"class": name}) for name in names
    ]
    scores += [
        mine("class_share", 0.25, axis="race", category="profession", word="judge", **{"class": name}) for name in names
    ]
    scores = [replace(s, suite="social_bias_v1") for s in scores]
    settings = RunSettings(suite="social_bias_v1", generator="g")
    run = Run.start(tmp_path / "v1", settings, scoring=Scoring(judges={"clip": CLIP}))
    run.write_prompts(
        [Prompt(prompt_id="p", suite="social_bias_v1", text="x", facets={"category": "profession", "word": "judge"})]
    )
    run.append("images", frame("images", [image("p#0", path=None)]))
    run.write_verdicts(frame("verdicts", [verdict("p#0", "race", 0.0, detail=json.dumps({"class": "White"}))]))
    run.write_scores(scores)
    page = report([run], tmp_path / "r.html")
    assert RACE_WARNING in text_of(page, "results")
    for section in ("deviation", "distributions", "descriptors"):
        assert RACE_WARNING in text_of(page, section), section
    assert "hardly agrees with people" in text_of(page, "deviation")
    assert 'title="Race as classified by CLIP' in page.section("gallery")
    assert "race (by CLIP: hardly agrees with people)" in terminal_table([run], [presentation_of(run)])


# -------------------------------------------------------------------------------------------------------------- gallery
def test_images_have_replies_colours_boxes_and_reasons(run, tmp_path):
    page = report([run], tmp_path / "r.html")
    answer = text_of(page, "gallery")
    assert "gender: male answered 'a man'" in answer
    assert "gender: unsure unsure: 0.52, answered 'a man'" in answer
    assert "gender: reply not understood answered 'a doctor', which is none of male, female" in answer
    assert "tone: no face found no face found" in answer
    assert "not used: face too small (9 pixels)" in answer
    assert "image refused" in answer
    assert "not allowed" in answer
    # Measured 200.4, 150, 100 beside swatch 4 of the scale.
    assert "measured #c89664 → Monk 4" in answer
    assert "background:#c89664" in page.section("gallery")
    assert "background:#eadaba" in page.section("gallery")
    boxes = [attrs for attrs in page.all("rect") if attrs.get("class", "").startswith("outline")]
    assert [(b["x"], b["y"], b["width"], b["height"]) for b in boxes] == [("4", "4", "16", "20")] * 4
    assert sorted(b["class"] for b in boxes) == ["outline other"] * 2 + ["outline wanted"] * 2


def test_images_can_be_filtered_by_class_profession_and_state(run, tmp_path):
    page = report([run], tmp_path / "r.html")
    tiles = list(page.all("article"))
    assert sorted(outcomes(t, "revised")[0] for t in tiles) == sorted(
        ["male", "female", "unsure", "reply not understood", "no person perceived", "image refused"]
    )
    assert {facets(t)["profession"][0] for t in tiles} == {"judge", "nurse"}
    classes = [json.loads(t["data-classes"])["revised"] for t in tiles]
    assert ["gender: male", "tone: 4"] in classes
    values = [attrs.get("value") for attrs in page.all("option")]
    assert {"tone: 4", "tone: 5", "tone: no face found", "judge", "nurse"} <= set(values)
    assert text_of(page, "gallery").count("A person who works as a judge") >= 3


def test_runs_are_columns_and_images_of_a_prompt_stand_side_by_side(run, tmp_path):
    other = make_run(tmp_path / "model-b", reply="the man")
    page = report([run, other], tmp_path / "r.html", gallery=8)
    tiles = page.all("article")
    assert len(tiles) == 4  # of two images each
    gallery = page.section("gallery")
    first = gallery.partition("<article")[2].partition("</article>")[0]
    assert first.count('class="picture"') == 2
    assert "model-a" in first
    assert "model-b" in first
    for section in ("results", "deviation", "clothes"):
        assert "model-a" in text_of(page, section)
        assert "model-b" in text_of(page, section)
    assert "answered 'the man'" in plain(gallery)


def test_galleries_that_cannot_be(run, tmp_path):
    with pytest.raises(UsageError, match="0 \\(no images\\) or more, got -1"):
        write_report([run], tmp_path / "r.html", gallery=-1)
    with pytest.raises(UsageError, match="between 16 and 4096, got 3"):
        write_report([run], tmp_path / "r.html", embed_pixels=3)
    assert "made without images" in text_of(report([run], tmp_path / "r.html", gallery=0), "gallery")


# ----------------------------------------------------------------------------------------------------------------- page
def test_hostile_text_stays_text(tmp_path):
    scores = [
        *standard_scores(),
        mine("presence", 0.5, axis="attribute", attribute=HOSTILE, prompts="man"),
        mine("class_share", 0.1, axis="gender", **{"class": HOSTILE}),
    ]
    run = make_run(tmp_path / "h", scores=scores, text=HOSTILE, reply=HOSTILE)
    page = report([run], tmp_path / "r.html")
    assert "window.bad=1</script>" not in page.source
    assert "{{ 7*7 }}" in unescape(page.source)
    assert len(page.all("script")) == 2
    assert not any("onerror" in attrs for _, attrs in page.elements)
    assert json.loads(page.source.partition('id="numbers">')[2].partition("</script>")[0])["scores"]


def test_the_page_needs_no_network_and_is_the_same_twice(run, tmp_path):
    first = write_report([run], tmp_path / "a.html").read_bytes()
    assert first == write_report([run], tmp_path / "b.html").read_bytes()
    page = Page(first.decode())
    for tag, attribute in (("img", "src"), ("link", "href"), ("script", "src")):
        assert all((attrs.get(attribute) or "data:").startswith("data:") for attrs in page.all(tag))
    assert "default-src 'none'" in page.source


def test_wording(run, tmp_path):
    answer = plain(report([run], tmp_path / "r.html").source).casefold()
    for needed in ("perceived", "never who anybody is", "two terms are not all genders", "is no race", "by chance"):
        assert needed in answer, needed


def test_what_protocols_change_is_told_with_numbers(tmp_path):
    released = [replace(s, protocol="released", value=s.value + 0.01) for s in standard_scores() if s.metric == "mad"]
    page = report([make_run(tmp_path / "p", scores=[*standard_scores(), *released])], tmp_path / "r.html")
    answer = text_of(page, "protocols")
    assert "MAD gender 0.287 0.297 – +0.0100 –" in answer
    assert "their parser does not know" in answer
    assert "nearly always finds 5 or 6" in answer


def test_a_reference_distribution_is_shown_if_there_is_one(run, tmp_path):
    assert "To compare with figures of your own" in text_of(report([run], tmp_path / "a.html"), "distributions")
    scores = [
        *standard_scores(),
        replace(mine("reference_deviation", 0.0771, 0.05, 0.11, axis="gender"), unit="MAD"),
        mine("reference_difference", -0.0643, -0.09, -0.02, axis="gender", **{"class": "female"}),
    ]
    answer = text_of(report([make_run(tmp_path / "t", scores=scores)], tmp_path / "b.html"), "distributions")
    assert "0.077 [0.050, 0.110]" in answer
    assert "−6.4 [−9.0, −2.0]" in answer


# --------------------------------------------------------------------------------------------------------------- tables
def test_the_short_table_is_short(run):
    answer = terminal_table([run], [presentation_of(run)])
    rows = [line.split()[:2] for line in answer.splitlines()[2:-1]]
    assert ["mad", "gender"] in rows
    assert ["mad_debiased", "gender"] in rows
    assert ["axis_mean", "tone"] in rows
    assert rows[0][0] == "mad"
    assert rows[-1] == ["usable_share", "gender,"]
    assert not any(name in answer for name in ("nurse", "presence", "joint_share", "class_share"))
    assert "0.243 [0.152, 0.311]" in answer
    assert "0.271 [0.099, 0.377]" in answer
    assert "| MAD | gender | MAD | 0.287 [0.211, 0.344] (40) |" in markdown_table([run], [presentation_of(run)])


# -------------------------------------------------------------------------------------------------------------- browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_enlarged_images_of_all_runs_stand_side_by_side(run, tmp_path):
    file = write_report([run, make_run(tmp_path / "model-b")], tmp_path / "r.html")
    page, answer = in_browser(file, tmp_path, 'document.querySelector("#tiles .picture").click();')
    assert "Uncaught" not in answer
    large = page.source.partition('id="large-tile"')[2].partition('class="steps"')[0]
    assert large.count('<div class="picture"') == 2
    assert "<button" not in large


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_filters_work_in_a_browser(run, tmp_path):
    file = write_report([run], tmp_path / "r.html")
    steps = """
      const pick = (name, value) => { document.querySelector(`select[name="${name}"]`).value = value; };
      pick("class", "tone: no usable face");
      document.getElementById("filters").dispatchEvent(new Event("input"));
    """
    page, answer = in_browser(file, tmp_path, steps)
    assert "Uncaught" not in answer
    shown = [outcomes(attrs, "revised")[0] for attrs in page.all("article") if "hidden" not in attrs]
    assert sorted(shown) == ["reply not understood", "unsure"]


# ---------------------------------------------------------------------------------------------------------- real suites
class Classifier:
    """Says of every image, by its brightest channel, how much each of the texts fits."""

    name = CLIP

    def observe(self, images, need):
        vectors = np.zeros((len(images), 8), dtype=np.float32)
        for row, loaded in enumerate(images):
            vectors[row, :3] = loaded.pixels.reshape(-1, 3).mean(axis=0) / 255
            vectors[row, 7] = 1
        return vector_rows(need.table, [i.image_id for i in images], self.name, vectors)

    def embed_texts(self, texts):
        return vector_rows("text_embeddings", texts, self.name, np.eye(8, dtype=np.float32)[: len(texts)] + 0.01)


def test_a_run_of_the_suite_with_a_perfect_judge(tmp_path):
    run = evaluate(
        "social_bias",
        model="people:female=0.3&draw=plain",
        judges={"vqa": "truth", "skin_tone": "truth"},
        limit=6,
        n_images=2,
        out=tmp_path / "run",
        rules={"n_resamples": 50},
    )
    page = report([run], tmp_path / "r.html", gallery=6)
    answer = text_of(page, "results")
    assert "the ground truth of the generator, which does not err" in answer
    coverage = text_of(page, "coverage")
    assert "asked for 12 there 12 100.0 % person : perceived 12 100.0 %" in coverage
    assert "gender : usable of person prompts 4 100.0 %" in coverage
    mean = next(
        s for s in run.scores() if s.metric == "axis_mean" and s.group == {"axis": "tone"} and s.protocol == "revised"
    )
    assert words.value(mean) in answer
    assert "At least 5 such images" in text_of(page, "intersections")
    assert len(page.all("article")) == 6
    assert terminal_table([run], protocol="released")


def test_runs_of_the_first_version_side_by_side(tmp_path):
    runs = [
        evaluate(
            "social_bias_v1",
            model=f"people:female={share}&draw=plain",
            judges={"clip": Classifier()},
            limit=5,
            n_images=2,
            out=tmp_path / f"run-{share}",
            rules={"n_resamples": 50},
        )
        for share in (0.2, 0.8)
    ]
    page = report(runs, tmp_path / "r.html", gallery=6)
    answer = text_of(page, "deviation")
    assert "MAD of the votes" in answer
    assert "prompts that voted 5 10 used 5 10 used" in answer
    assert RACE_WARNING in text_of(page, "results")
    assert len(page.all("article")) == 3
    released = next(
        s for s in runs[1].scores() if (s.metric, s.protocol, dict(s.group)) == ("mad", "released", {"axis": "gender"})
    )
    assert f"{words.value(released)} {words.interval(released)}" in answer
