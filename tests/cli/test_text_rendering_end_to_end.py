"""Text rendering through the command line: offline on rendered texts, on released layouts, and with OCR engines."""

from __future__ import annotations

import json
import math
import shutil

import polars as pl
import pytest
from commands import verism
from PIL import Image

from verism import api
from verism.cards import read_card
from verism.errors import UsageError
from verism.records import GARBLED
from verism.suites.text_rendering.suite import TextRendering

LONGTEXT = [
    {
        "prompt_id": 3,
        "category": "sign",
        "length": "short",
        "prompt": "a sign: Mind the step",
        "text": ["Mind the step"],
    },
    {
        "prompt_id": 12,
        "category": "letter",
        "length": "long",
        "prompt": "a letter",
        "text": ["Dear Anna,", "see you soon"],
    },
]


def overall(run, metric, protocol="revised"):
    return next(s for s in run.scores() if (s.metric, s.protocol, dict(s.group)) == (metric, protocol, {}))


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    out = tmp_path_factory.mktemp("oracle") / "run"
    done = verism(
        "run", "text_rendering", "--model", "oracle", "--ocr", "truth", "--limit", 10, "--size", 192, "--out", out
    )
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """Half of the images have a mistake in their text."""
    out = tmp_path_factory.mktemp("scripted") / "run"
    words = ("--model", "scripted:error=0.5", "--ocr", "truth", "--limit", 16, "--size", 192, "--out", out)
    assert verism("run", "text_rendering", *words).exit_code == 0
    return out


@pytest.fixture(scope="module")
def longtext(tmp_path_factory):
    folder = tmp_path_factory.mktemp("longtext")
    (folder / "text_prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in LONGTEXT), encoding="utf-8")
    images = folder / "images"
    images.mkdir()
    for name in ("0003_0", "0003_1", "0012_0", "notes"):
        Image.effect_noise((32, 32), 60).convert("RGB").save(images / f"{name}.png")
    rows = [
        {"image_id": "0003#0", "text": "step the MIND"},
        {"image_id": "0003#1", "text": "No text recognized"},
        {"image_id": "0012#0", "text": ["Dear Anna", "see you soon soon"]},
    ]
    (folder / "readings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def run_longtext(folder, out, *more):
    return verism(
        "run", "text_rendering", "--set", "longtext", "--prompts", folder / "text_prompts.jsonl", "--altered", "true",
        "--images", folder / "images", "--ocr", f"results:{folder / 'readings.jsonl'}", "--out", out, *more,
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- offline
def test_no_interval_leaves_what_its_metric_can_be(scripted):
    scales = {metric.name: metric.scale for metric in TextRendering.metrics}
    checked = 0
    for score in api.open_run(scripted).scores():
        scale = scales[score.metric]
        if not math.isnan(score.ci_low):
            assert scale.low is None or score.ci_low >= scale.low, score
            assert scale.high is None or score.ci_high <= scale.high, score
            checked += 1
    assert checked > 20


def test_oracle_is_right_in_every_language(oracle):
    run = api.open_run(oracle)
    assert {p.facets["language"] for p in run.prompts()} == {"en", "de", "fr", "el", "ru", "zh", "ja", "ko"}
    assert overall(run, "exact_text").value == 1.0
    assert overall(run, "cer").value == overall(run, "wer").value == overall(run, "ocr_cer").value == 0.0
    assert overall(run, "exact_text").ci_low < 1.0
    assert {s.protocol for s in run.scores()} == {"revised"}  # our own prompts have no released arithmetic


def test_planted_mistakes_are_found_and_nothing_else(scripted):
    run = api.open_run(scripted)
    notes = dict(run.read("images").select("image_id", "note").iter_rows())
    verdicts = run.verdicts().filter(pl.col("rule") == "text")
    right = dict(verdicts.select("image_id", "value").iter_rows())
    planted = {image: note != "rendered as asked" for image, note in notes.items()}
    assert 2 < sum(planted.values()) < 14
    assert right == {image: float(not wrong) for image, wrong in planted.items()}
    assert overall(run, "exact_text").value == pytest.approx(sum(right.values()) / len(right))
    assert overall(run, "ocr_cer").value == 0.0
    assert overall(run, "true_cer").value == overall(run, "cer").value > 0


def test_each_kind_of_mistake_moves_its_own_number(tmp_path):
    numbers = {}
    for kind in ("surplus", "repeated", "garbled"):
        out = tmp_path / kind
        words = ("--model", f"scripted:error=1&mistakes={kind}", "--ocr", "truth", "--size", 192, "--out", out)
        more = ("--language", "en", "--limit", 5, "--seed", 4)
        done = verism("run", "text_rendering", *words, *more)
        assert done.exit_code == 0, done.output
        run = api.open_run(out)
        assert overall(run, "exact_text").value == 0.0
        numbers[kind] = [overall(run, m).value for m in ("missing_words", "surplus_words", "repeated_words")]
        if kind == "garbled":
            assert GARBLED in "".join(run.read("readings", "truth")["text"])
    assert numbers["surplus"][0] == 0.0
    assert numbers["surplus"][1] == 1.0
    assert numbers["repeated"] == [0.0, 1.0, 1.0]
    assert numbers["garbled"][0] == numbers["garbled"][1] > 0


def test_rules_are_applied_again_without_a_new_reading(scripted):
    before = api.open_run(scripted)
    judged = overall(before, "exact_text").value
    assert verism("score", scripted, "--rule", "surplus=free").exit_code == 0
    freed = api.open_run(scripted)
    assert overall(freed, "exact_text").value >= judged
    assert overall(freed, "cer").value <= overall(before, "cer").value
    assert verism("score", scripted).exit_code == 0
    with pytest.raises(UsageError, match="surplus is one of count, free; got 'often'"):
        verism("score", scripted, "--rule", "surplus=often")


def test_resumed_run_ends_in_the_same_numbers(oracle):
    before = (oracle / "images").stat().st_mtime_ns
    words = ("--model", "oracle", "--ocr", "truth", "--limit", 10, "--size", 192, "--out", oracle)
    assert verism("run", "text_rendering", *words).exit_code == 0
    assert (oracle / "images").stat().st_mtime_ns == before


def test_a_run_compared_with_itself_differs_by_nothing(oracle):
    done = verism("compare", oracle, oracle, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    rows = rows if isinstance(rows, list) else rows["rows"]
    assert {row["difference"] for row in rows if row.get("difference") is not None} == {0.0}


def test_report_says_what_counts_and_how_well_the_engine_reads(scripted, tmp_path):
    done = verism("report", scripted, "--out", tmp_path / "page")
    assert done.exit_code == 0, done.output
    page = next((tmp_path / "page").rglob("*.html")).read_text(encoding="utf-8")
    assert "What counts under revised" in page
    assert "How well the OCR engine reads known texts" in page
    assert "within each text" in page


# ----------------------------------------------------------------------------------------------------- released layouts
def test_longtext_with_readings_of_another_engine(longtext, tmp_path):
    done = run_longtext(longtext, tmp_path / "run")
    assert done.exit_code == 1, done.output  # an image is missing
    run = api.open_run(tmp_path / "run")
    # mind the step: 3 of 3 in any order; 0 of 3; dear anna see you soon: 5 of 5. The letter's second image is missing.
    score = overall(run, "longtext_score", "released")
    assert (score.value, score.n_used, score.n_unusable) == (pytest.approx(8 / 11), 3, 1)
    ours = overall(run, "word_accuracy")
    assert ours.value == pytest.approx(8 / 11)
    assert overall(run, "word_accuracy_if_unusable_wrong").value == pytest.approx(8 / 16)
    assert overall(run, "exact_text").value == 0.0  # one in wrong order, one not there, one with a word too much
    # WER: 2 edits of step the mind, 3 deletions, 1 insertion, of 11 words
    assert overall(run, "wer").value == pytest.approx(6 / 11)
    assert overall(run, "surplus_words").value == pytest.approx(1 / 3)
    assert overall(run, "repeated_words").value == pytest.approx(1 / 3)
    remarks = " ".join(run.manifest.scoring.remarks)
    assert "2 prompts instead of 160" in remarks
    assert "were read by Qwen2.5-VL-7B-Instruct, these by results:readings.jsonl" in remarks


def test_user_s_copy_is_asked_for_and_checked(longtext, tmp_path):
    command = ("run", "text_rendering", "--ocr", "truth", "--model", "oracle", "--out", tmp_path / "x")
    copy = ("--prompts", longtext / "text_prompts.jsonl")
    with pytest.raises(UsageError, match=r"does not come with verism; name your copy: --prompts text_prompts\.jsonl"):
        verism(*command, "--set", "longtext")
    with pytest.raises(UsageError, match=r"2 prompts instead of 160.*--altered true"):
        verism(*command, "--set", "longtext", *copy)
    with pytest.raises(UsageError, match="name it, --set longtext"):
        verism(*command, *copy)
    with pytest.raises(UsageError, match="no prompts of the language 'xx'; there are en, de"):
        verism(*command, "--language", "xx")


def write_cvtg(folder):
    for name in ("CVTG", "CVTG-Style"):
        (folder / name).mkdir(parents=True)
        for regions in (2, 3, 4, 5):
            texts = " and ".join(f"'Word{k} Ok'" for k in range(regions))
            entry = {"index": 0, "prompt": f"signs {texts}", "carrier_list": [], "sentence_list": []}
            (folder / name / f"{regions}.json").write_text(json.dumps({"data_list": [entry]}), encoding="utf-8")


def test_cvtg_of_the_user_s_folder(tmp_path):
    write_cvtg(tmp_path / "prompts")
    images = tmp_path / "images" / "CVTG" / "2"
    images.mkdir(parents=True)
    Image.effect_noise((32, 32), 60).convert("RGB").save(images / "0.jpg")
    (tmp_path / "r.csv").write_text("prompt_id,text\nCVTG/2/0,word0 OK extra\n", encoding="utf-8")
    words = ("--set", "cvtg2k", "--prompts", tmp_path / "prompts", "--altered", "true", "--images", tmp_path / "images")
    done = verism("run", "text_rendering", *words, "--ocr", f"results:{tmp_path / 'r.csv'}", "--out", tmp_path / "run")
    assert done.exit_code == 1, done.output  # images are missing or black
    run = api.open_run(tmp_path / "run")
    accuracy = overall(run, "cvtg_word_accuracy", "released")
    # word0 and both ok are read; word1 is one edit of five letters from word0. Seven images are missing.
    assert (accuracy.value, accuracy.n_used, accuracy.n_unusable) == (0.75, 1, 7)
    assert overall(run, "cvtg_ned", "released").value == pytest.approx((3 + 1 - 1 / (5 + 1e-5)) / 4)
    # Our rules want `ok` twice and no extra word.
    assert overall(run, "word_accuracy").value == 0.5
    assert overall(run, "surplus_words").value == 1.0


def write_oneig(folder):
    folder.mkdir(parents=True)
    rows = ["category,id,prompt_en,type,prompt_length,class"]
    rows += [
        f"{c},{i},a page,T,short,x"
        for c, i in (("Text_Rendering", "000"), ("Portrait", "000"), ("Text_Rendering", "001"))
    ]
    (folder / "OneIG-Bench.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "text_content.csv").write_text("id,text_content\n000,Open Late\n001,Sale\n", encoding="utf-8")


def test_oneig_grids_are_cut_and_black_grids_take_the_readings_before(tmp_path):
    write_oneig(tmp_path / "prompts")
    images = tmp_path / "images" / "text" / "mymodel"
    images.mkdir(parents=True)
    Image.effect_noise((64, 64), 60).convert("RGB").save(images / "000_grid.webp")
    Image.new("RGB", (64, 64)).save(images / "001.png")
    lines = ["image_id,text", "000#0,Open Late", "000#1,open late", "000#2,Open", "000#3,"]
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = (
        "--set",
        "oneig_text",
        "--prompts",
        tmp_path / "prompts",
        "--altered",
        "true",
        "--images",
        tmp_path / "images",
    )
    done = verism("run", "text_rendering", *words, "--ocr", f"results:{tmp_path / 'r.csv'}", "--out", tmp_path / "run")
    assert done.exit_code == 1, done.output  # images are missing or black
    run = api.open_run(tmp_path / "run")
    table = run.read("images")
    assert table.filter(pl.col("state") == "ok").height == 4
    assert table.filter(pl.col("state") == "blank").height == 4
    assert set(table["width"].drop_nulls()) == {32}
    # 000: distances 0, 2, 5, 9; 001 is black and read as 000 was.
    # Sale from Open Late: 7 edits, from open late 7, from Open 4, from nothing 4.
    ed = overall(run, "oneig_ed", "released")
    assert (ed.value, ed.n_used) == (pytest.approx((0 + 2 + 5 + 9 + 7 + 7 + 4 + 4) / 8), 8)
    assert overall(run, "oneig_cr", "released").value == pytest.approx(1 / 8)
    assert overall(run, "oneig_wac", "released").value == pytest.approx((2 + 0 + 1 + 0) / (4 * 2 + 4))
    product = ed.value * (1 - 1 / 8) * (1 - 3 / 12) / 100
    assert overall(run, "oneig_score", "released").value == pytest.approx(1 - product)
    # Our own numbers leave black images out, and say so.
    assert (overall(run, "cer").n_used, overall(run, "cer").n_unusable) == (4, 4)


# -------------------------------------------------------------------------------------------------------------- engines
@pytest.mark.skipif(shutil.which("tesseract") is None, reason="the program tesseract is not installed")
def test_card_of_tesseract_and_correction_of_the_share_of_right_texts(tmp_path):
    words = ("--language", "en", "--model", "scripted:error=0.5", "--size", 160, "--ocr", "tesseract:lang=eng")
    known, other = tmp_path / "known", tmp_path / "other"
    for out, seed in ((known, 1), (other, 2)):
        done = verism("run", "text_rendering", *words, "--limit", 16, "--seed", seed, "--out", out)
        assert done.exit_code == 0, done.output
    card = tmp_path / "card.json"
    done = verism("judge", "card", known, "--from", "truth", "--by", "render_size", "--out", card)
    assert done.exit_code == 0, done.output
    measured = read_card(card).measured
    assert {m.task for m in measured} == {"text"}
    assert {tuple(m.group) for m in measured} == {("language",), ("language", "render_size")}
    assert verism("score", other, "--correct", "rendered", "--card", card, "--anyway").exit_code == 0
    adjusted = [s for s in api.open_run(other).scores() if s.adjusted.startswith("rendered")]
    assert {s.metric for s in adjusted} <= {"exact_text", "exact_text_mean"}
    assert adjusted
    run = api.open_run(known)
    assert overall(run, "ocr_cer").n_used == 16
    assert not math.isnan(overall(run, "ocr_cer").value)


def test_engine_without_an_answer_is_counted_and_not_scored(tmp_path):
    path = tmp_path / "r.jsonl"
    suite = TextRendering.make({"languages": ["en"], "limit": 4})
    first, *others = (p.prompt_id for p in suite.prompts())
    rows = [{"image_id": f"{first}#0", "text": None}] + [{"image_id": f"{p}#0", "text": ""} for p in others]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ("--language", "en", "--limit", 4, "--model", "oracle", "--size", 256, "--ocr", f"results:{path}")
    assert verism("run", "text_rendering", *words, "--out", tmp_path / "run").exit_code == 0
    run = api.open_run(tmp_path / "run")
    score = overall(run, "exact_text")
    assert (score.value, score.n_used, score.n_unusable) == (0.0, 3, 1)
    assert overall(run, "cer").value == 1.0  # all is missing where an engine read nothing
    reasons = run.verdicts().filter(pl.col("value").is_null())["reason"].unique().to_list()
    assert reasons == ["not read: the text is null"]
    assert overall(run, "ocr_blind").value == 1.0
