"""OCR engines: reading order, rows, failures; real engines where they are installed; a tiny TrOCR."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from verism.errors import MissingExtra, UsageError
from verism.judges.ocr.instructions import INSTRUCTION, text_of_reply, wording_of
from verism.judges.ocr.readings import FoundLine, enlarged, in_reading_order, line_rows
from verism.judges.ocr.results import OcrResults
from verism.judges.ocr.tesseract import Tesseract
from verism.pipeline.stream import check_rows
from verism.records import LoadedImage, OcrNeed, Scene, SceneText, frame, reading_rows, schema
from verism.registry import Context, make_judge
from verism.simulator.fonts import standard_fonts
from verism.simulator.lettering import draw_texts

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None, reason="the program tesseract is not installed (apt install tesseract-ocr)"
)
WHITE = np.full((320, 320, 3), 255, dtype=np.uint8)


def rendered(*lines: str, name: str = "a") -> LoadedImage:
    texts = tuple(SceneText(text=line, surface="label", size="medium", font="sans") for line in lines)
    scene = Scene(scene_id="s", skill="text", split="val", text="", background="empty", objects=(), texts=texts)
    return LoadedImage(image_id=f"{name}#0", prompt_id=name, pixels=draw_texts(scene, WHITE, standard_fonts()).pixels)


def blank(name: str = "b") -> LoadedImage:
    return LoadedImage(image_id=f"{name}#0", prompt_id=name, pixels=WHITE)


def texts_of(table):
    return dict(table.filter(table["level"] == "image").select("image_id", "text").iter_rows())


# ----------------------------------------------------------------------------------------------------------------- rows
def test_reading_order_is_rows_from_the_top_and_each_from_the_left():
    boxes = {"d": (10, 60, 90, 80), "b": (60, 12, 90, 28), "a": (5, 10, 40, 30), "c": (10, 40, 40, 50)}
    lines = [FoundLine(text=name, box=box) for name, box in boxes.items()]
    assert "".join(line.text for line in in_reading_order(lines)) == "abcd"
    without = [*lines, FoundLine(text="e")]
    assert in_reading_order(without) == without


def test_rows_of_words_have_lines_and_the_whole_text():
    words = [(0, "OPEN", 0.9, (0, 0, 40, 10)), (0, "late", 0.7, (50, 2, 80, 12)), (1, "today", None, None)]
    table = frame("readings", reading_rows("a#0", "j", words))
    assert table.schema == schema("readings")
    assert table["text"].to_list() == ["OPEN late\ntoday", "OPEN late", "OPEN", "late", "today", "today"]
    assert table["level"].to_list() == ["image", "line", "word", "word", "line", "word"]
    line = table.row(1, named=True)
    assert (line["x0"], line["y0"], line["x1"], line["y1"]) == (0, 0, 80, 12)
    assert line["score"] == pytest.approx(0.8)
    assert table["score"].to_list()[4] is None


def test_nothing_read_is_an_empty_text_and_no_answer_a_null():
    assert reading_rows("a#0", "j", [])[0]["text"] == ""
    assert line_rows("a#0", "j", [])[0]["text"] == ""


def test_enlarging_is_by_a_whole_factor():
    pixels, factor = enlarged(WHITE[:100, :150], 256)
    assert (factor, pixels.shape) == (3, (300, 450, 3))
    assert enlarged(WHITE, 0)[1] == enlarged(WHITE, 320)[1] == 1


# ------------------------------------------------------------------------------------------------------------- replies
def test_wording_is_the_user_s_then_the_suite_s_then_ours():
    assert wording_of("mine", "its") == "mine"
    assert wording_of(None, "its") == "its"
    assert wording_of(None, "") == INSTRUCTION


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("  OPEN  \n\n late ", "OPEN\nlate"),
        ("no text", ""),
        ('"NO TEXT."', ""),
        ("```text\nOPEN\n```", "OPEN"),
        ("", ""),
    ],
)
def test_reply_to_our_instruction(reply, text):
    assert text_of_reply(reply, INSTRUCTION) == text


# -------------------------------------------------------------------------------------------------------- results files
def test_results_of_lines_and_texts(tmp_path):
    path = tmp_path / "r.jsonl"
    rows = [
        {"image_id": "a#0", "text": ["OPEN", " late "]},
        {"prompt_id": "b", "text": ""},
        {"image_id": "c", "text": None},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judge = make_judge(f"results:{path}", Context(), "ocr")
    images = [rendered("OPEN"), blank("b"), blank("c"), blank("d")]
    table = judge.observe(images, OcrNeed())
    check_rows(table, judge.name, OcrNeed(), [image.image_id for image in images])
    assert texts_of(table) == {"a#0": "OPEN\nlate", "b#0": "", "c#0": None, "d#0": None}
    assert table["note"].to_list() == [None, None, "the text is null", "r.jsonl has no text of this image"]
    assert judge.summary() == ["r.jsonl: no text for 1 images"]


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([{"image_id": "a", "reading": "x"}], "expected a text; it has"),
        ([{"image_id": "a", "text": 5}], "text must be a text or a list of lines, got 5"),
        ([{"image_id": "a", "text": "x"}, {"image_id": "a", "text": "y"}], "a second text for a"),
        ([{"text": "x"}], "expected image_id or prompt_id"),
    ],
)
def test_results_that_are_none_are_refused(tmp_path, rows, match):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(UsageError, match=match):
        OcrResults(path)


# ------------------------------------------------------------------------------------------------------------ tesseract
def program(folder: Path, body: str) -> str:
    """A program in the place of tesseract: one language, and what it does with an image."""
    path = folder / "fake-tesseract"
    path.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        '--version) echo "tesseract 5.9.9"; exit;;\n'
        f"--list-langs) echo 'List of available languages in \"{folder}/\" (1):'; echo eng; exit;;\n"
        f"esac\ncat > /dev/null\n{body}\n",
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


HEAD = "level\\tpage_num\\tblock_num\\tpar_num\\tline_num\\tword_num\\tleft\\ttop\\twidth\\theight\\tconf\\ttext\\n"


def test_tesseract_that_is_not_installed_is_told_with_the_remedy():
    with pytest.raises(UsageError, match=r"no program 'no-such-tesseract'\. Install it: apt install tesseract-ocr"):
        Tesseract(program="no-such-tesseract")


def test_tesseract_table_becomes_words_in_pixels_of_the_image(tmp_path):
    rows = "5\\t1\\t1\\t1\\t1\\t1\\t30\\t60\\t90\\t30\\t96.5\\tOPEN\\n"
    rows += "5\\t1\\t1\\t1\\t1\\t2\\t150\\t60\\t90\\t30\\t20.0\\tlate\\n"
    rows += "5\\t1\\t2\\t1\\t1\\t1\\t30\\t120\\t90\\t30\\t-1\\t\\n4\\t1\\t2\\t1\\t1\\t0\\t0\\t0\\t0\\t0\\t-1\\t\\n"
    judge = Tesseract(program=program(tmp_path, f"printf '{HEAD}{rows}'"), min_side=960, min_score=0)
    table = judge.observe([blank("a")], OcrNeed())
    check_rows(table, judge.name, OcrNeed(), ["a#0"])
    assert texts_of(table) == {"a#0": "OPEN late"}
    word = table.filter(table["level"] == "word").row(0, named=True)
    assert (word["x0"], word["y0"], word["x1"], word["y1"]) == (10, 20, 40, 30)  # enlarged three times
    assert word["score"] == pytest.approx(0.965)
    assert judge.name.startswith("tesseract-5.9.9@")
    sure = Tesseract(program=program(tmp_path, f"printf '{HEAD}{rows}'"))
    assert texts_of(sure.observe([blank("a")], OcrNeed())) == {"a#0": "OPEN"}
    assert sure.name != judge.name


@pytest.mark.parametrize(
    ("body", "note"),
    [("echo broken >&2; exit 3", "tesseract ended with 3: broken"), ("sleep 5", "tesseract took more than 0.5 s")],
)
def test_tesseract_that_fails_gives_no_answer_and_says_why(tmp_path, body, note):
    judge = Tesseract(program=program(tmp_path, f"exec {body}" if body.startswith("sleep") else body), timeout=0.5)
    row = judge.observe([blank("a")], OcrNeed()).row(0, named=True)
    assert (row["text"], row["note"]) == (None, note)


def test_tesseract_without_the_language_of_a_prompt_is_refused_before_any_image(tmp_path):
    judge = Tesseract(program=program(tmp_path, "exit 1"))
    judge.check(OcrNeed(languages={"a": "en"}))
    with pytest.raises(UsageError, match=r"no model of the language chi_sim.*apt install tesseract-ocr-chi-sim"):
        judge.check(OcrNeed(languages={"a": "zh"}))
    with pytest.raises(UsageError, match="no model of the language deu"):
        Tesseract(program=program(tmp_path, "exit 1"), lang="eng+deu")


@pytest.mark.parametrize("options", [{"psm": 0}, {"psm": 14}, {"min_score": 2}, {"timeout": 0}, {"min_side": -1}])
def test_tesseract_options_out_of_range(tmp_path, options):
    with pytest.raises(UsageError, match="tesseract: "):
        Tesseract(program=program(tmp_path, "exit 1"), **options)


@needs_tesseract
def test_tesseract_reads_what_was_rendered():
    judge = make_judge("tesseract:psm=6", Context(), "ocr")
    table = judge.observe([rendered("FRESH BREAD", "OPEN TODAY"), blank()], OcrNeed(languages={"a": "en", "b": "en"}))
    assert texts_of(table) == {"a#0": "FRESH BREAD\nOPEN TODAY", "b#0": ""}
    assert table.filter(table["level"] == "word")["score"].min() > 0.5


# ------------------------------------------------------------------------------------------------------------- rapidocr
def test_rapidocr_that_is_not_installed_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rapidocr", None)
    with pytest.raises(MissingExtra, match=r"rapidocr needs 'rapidocr'.*verism\[ocr\]"):
        make_judge("rapidocr", Context(), "ocr")


def test_rapidocr_reads_what_was_rendered_without_a_download(monkeypatch):
    pytest.importorskip("rapidocr")

    def refused(*_, **__):
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr("socket.create_connection", refused)
    judge = make_judge("rapidocr", Context(), "ocr")
    images = [rendered("FRESH BREAD", "OPEN TODAY"), blank()]
    table = judge.observe(images, OcrNeed())
    check_rows(table, judge.name, OcrNeed(), ["a#0", "b#0"])
    assert texts_of(table) == {"a#0": "FRESH BREAD\nOPEN TODAY", "b#0": ""}
    first = table.filter(table["level"] == "line").row(0, named=True)
    assert 0 <= first["x0"] < first["x1"] <= 320
    assert first["score"] > 0.9
    assert judge.name.startswith("rapidocr-")


def test_rapidocr_error_of_one_image_is_no_answer_for_it_alone(monkeypatch):
    pytest.importorskip("rapidocr")
    judge = make_judge("rapidocr", Context(), "ocr")
    engine, calls = judge._engine, []

    def flaky(pixels):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("out of luck")
        return engine(pixels)

    monkeypatch.setattr(judge, "_engine", flaky)
    table = judge.observe([rendered("OPEN"), rendered("LATE", name="b")], OcrNeed())
    assert texts_of(table) == {"a#0": None, "b#0": "LATE"}
    assert table["note"].to_list()[0] == "rapidocr: RuntimeError: out of luck"


# --------------------------------------------------------------------------------------------------------- transformers
@pytest.fixture(scope="module")
def trocr(tmp_path_factory):
    """An image encoder and a text decoder as TrOCR has them, random weights."""
    pytest.importorskip("transformers")
    import tiny_vision_language as tiny

    return tiny.vision_encoder_decoder(tmp_path_factory.mktemp("trocr"))


def test_trocr_reads_whole_images(trocr):
    judge = make_judge(f"transformers:{trocr}?max_new_tokens=5", Context(device="cpu"), "ocr")
    table = judge.observe([rendered("OPEN"), blank()], OcrNeed())
    check_rows(table, judge.name, OcrNeed(), ["a#0", "b#0"])
    assert table["level"].to_list() == ["image", "image"]
    assert all(text is not None for text in table["text"])
    assert judge.name.startswith(f"transformers:{Path(trocr).name}@") or "transformers:" in judge.name


def test_trocr_reads_line_by_line_where_another_engine_found_lines(trocr):
    pytest.importorskip("rapidocr")
    judge = make_judge(f"transformers:{trocr}?max_new_tokens=5&lines=rapidocr", Context(device="cpu"), "ocr")
    table = judge.observe([rendered("FRESH BREAD", "OPEN TODAY"), blank()], OcrNeed())
    lines = table.filter(table["level"] == "line")
    assert lines["image_id"].to_list() == ["a#0", "a#0"]
    assert lines["x0"].null_count() == 0
    assert texts_of(table)["b#0"] == ""
    assert "lines=(rapidocr-" in judge.name


def test_trocr_takes_no_prompt(trocr):
    with pytest.raises(UsageError, match="reads no text; leave prompt='read' out"):
        make_judge(f"transformers:{trocr}?prompt=read", Context(device="cpu"), "ocr")


def test_chat_model_is_asked_as_the_suite_says(tmp_path):
    pytest.importorskip("transformers")
    import tiny_vision_language as tiny

    judge = make_judge(f"transformers:{tiny.qwen2_vl(tmp_path)}?max_new_tokens=4", Context(device="cpu"), "ocr")
    asked = []
    replies = judge._model.replies
    judge._model.replies = lambda images, asks, **options: (
        asked.extend(asks(images[0])),
        replies(images, asks, **options),
    )[1]
    judge.observe([rendered("OPEN")], OcrNeed(instruction="what is there ?"))
    judge.observe([rendered("OPEN")], OcrNeed())
    assert [ask.text for ask in asked] == ["what is there ?", INSTRUCTION]
