"""GenEval as a suite: verdicts out of tables, protocols, what is missing, people, the released files."""

import json

import numpy as np
import polars as pl
import pytest

from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.pipeline.scoring import score_run
from verism.published import Verdict
from verism.records import Observed, frame
from verism.store import Run, blocks, sorted_verdicts
from verism.suites.base import complete_scores
from verism.suites.geneval.human_labels import human_summary, is_right, rated_class, rating_tasks, read_annotations
from verism.suites.geneval.layout import is_released_layout, read_folders, read_results, result_line
from verism.suites.geneval.prompts import draw_prompts
from verism.suites.geneval.published import geneval
from verism.suites.geneval.suite import GenEval
from verism.suites.geneval.vocabulary import COLORS, TASKS

PUBLISHED = draw_prompts()


def observed(suite, objects, *, states=None, clip=None, judge="segmenter:mask2former"):
    """A run of one image a prompt: objects by prompt id as (label, score, box, head colour, pixel shares)."""
    prompts = {p.prompt_id: p for p in suite.prompts()}
    images, rows = [], []
    for prompt_id in prompts:
        image_id = f"{prompt_id}#0"
        state = (states or {}).get(prompt_id, "ok")
        images.append({"image_id": image_id, "prompt_id": prompt_id, "index": 0, "state": state, "note": ""})
        if state != "ok":
            continue
        rows.append({"image_id": image_id, "judge": judge, "segment": -1})
        for number, (label, score, box, color, shares) in enumerate(objects.get(prompt_id, ())):
            rows.append(
                {"image_id": image_id, "judge": judge, "segment": number, "label": label, "score": score,
                 **dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)), "color": color, "pixel_colors": shares}
            )  # fmt: skip
    tables = {"segments": frame("segments", rows), **(clip or {})}
    return Observed(prompts=prompts, images=frame("images", images), observations=tables)


def one(task: str) -> GenEval:
    """A suite of the first prompt of a task, one image."""
    return GenEval.make({"tasks": [task], "limit": 1, "n_images": 1})


def asked(suite):
    return suite.prompts()[0].prompt_id, suite.prompts()[0].spec["metadata"]


def value(suite, run, protocol="released", rule="accuracy"):
    rows = suite.verdicts(run).filter((pl.col("protocol") == protocol) & (pl.col("rule") == rule))
    assert rows.height == 1
    return rows["value"][0]


BOX = (10, 10, 110, 110)


def test_colour_sources_are_clip_then_head_then_pixels():
    suite = one("colors")
    prompt_id, metadata = asked(suite)
    label, color = metadata["include"][0]["class"], metadata["include"][0]["color"]
    other = next(c for c in COLORS if c != color)
    shares = [float(c == color) for c in COLORS]
    run = observed(suite, {prompt_id: [(label, 0.9, BOX, other, shares)]})
    assert value(suite, run) == 0.0  # the head says another colour
    assert value(suite.with_rules(color_by="pixels"), run) == 1.0
    assert value(suite.with_rules(color_by="clip"), run) is None  # nobody looked
    by_pixels = observed(suite, {prompt_id: [(label, 0.9, BOX, None, shares)]})
    assert value(suite, by_pixels) == 1.0
    assert any("rule on the pixels" in line for line in suite.remarks(by_pixels))

    # CLIP: every sentence of the colour points along one axis, and so does the object under the view of released.
    texts = suite.needs()[1].texts
    vectors = [[1.0, 0.0] if f" {color}" in text else [0.0, 1.0] for text in texts]
    clip = {
        "text_embeddings": frame(
            "text_embeddings", [{"text": t, "judge": "c", "vector": v} for t, v in zip(texts, vectors, strict=True)]
        ),
        "region_embeddings": frame(
            "region_embeddings",
            [
                {"image_id": f"{prompt_id}#0", "judge": "c", "segmenter": "segmenter:mask2former", "segment": 0,
                 "view": view, "vector": vector}
                for view, vector in (("masked", [1.0, 0.0]), ("square", [0.0, 1.0]))
            ],
        ),
    }  # fmt: skip
    both = observed(suite, {prompt_id: [(label, 0.9, BOX, other, shares)]}, clip=clip)
    assert value(suite, both, "released") == 1.0
    assert value(suite, both, "revised") == 0.0  # which looks at the square view
    assert suite.remarks(both) == []
    foreign = observed(suite, {prompt_id: [(label, 0.9, BOX, other, shares)]}, clip=clip, judge="another mask2former")
    with pytest.raises(UsageError, match="of objects that segmenter:mask2former found"):
        suite.verdicts(foreign)


def test_missing_images_are_counted_and_never_scored():
    suite = GenEval.make({"tasks": ["single_object"], "limit": 4, "n_images": 1})
    ids = [p.prompt_id for p in suite.prompts()]
    right = {p.prompt_id: [(p.facets["class"], 0.9, BOX, None, None)] for p in suite.prompts()[:2]}
    run = observed(suite, right, states={ids[3]: "missing"})
    verdicts = suite.verdicts(run)
    scores = {(s.metric, s.protocol, tuple(s.group)): s for s in suite.scores(run, verdicts)}
    accuracy = scores["accuracy", "revised", ("task",)]
    assert (accuracy.value, accuracy.n_used, accuracy.n_unusable) == (pytest.approx(2 / 3), 3, 1)
    bound = scores["accuracy_if_unusable_wrong", "revised", ("task",)]
    assert (bound.value, bound.n_used, bound.n_unusable) == (0.5, 4, 1)
    # Released: the mean of the tasks that are there; revised: all six or none.
    assert scores["overall", "released", ()].value == pytest.approx(2 / 3)
    assert np.isnan(scores["overall", "revised", ()].value)


def test_each_protocol_reads_a_diagonal_in_its_own_way():
    suite = GenEval.make({"tasks": ["position"], "n_images": 1})
    prompt = next(p for p in suite.prompts() if p.facets["relation"] == "right of")
    reference, placed = (e["class"] for e in prompt.spec["metadata"]["include"])
    boxes = [(reference, 0.9, (200, 200, 300, 300), None, None), (placed, 0.9, (350, -60, 450, 40), None, None)]
    run = observed(suite, {prompt.prompt_id: boxes})
    rows = suite.verdicts(run).filter((pl.col("prompt_id") == prompt.prompt_id) & (pl.col("rule") == "accuracy"))
    assert dict(rows.select("protocol", "value").rows()) == {"released": 0.0, "paper": 1.0, "revised": 1.0}


def test_thresholds_of_revised_are_rules_of_their_own():
    suite = one("single_object")
    prompt_id, metadata = asked(suite)
    run = observed(suite, {prompt_id: [(metadata["include"][0]["class"], 0.4, BOX, None, None)]})
    strict = suite.with_rules(object_threshold_revised=0.5)
    assert (value(strict, run, "revised"), value(strict, run, "released")) == (0.0, 1.0)
    assert value(suite.with_rules(object_threshold=0.5), run, "released") == 0.0


def test_other_segmenters_than_mask2former_are_remarked():
    suite = one("single_object")
    prompt_id, metadata = asked(suite)
    objects = {prompt_id: [(metadata["include"][0]["class"], 0.4, BOX, None, None)]}
    assert suite.remarks(observed(suite, objects)) == []
    [line] = suite.remarks(observed(suite, objects, judge="boxes of detr"))
    assert "tuned for Mask2Former" in line
    assert suite.remarks(observed(suite, objects, judge="truth")) == []


def test_scores_follow_class_colour_number_and_relation():
    suite = GenEval.make({"limit": 60, "n_images": 1})
    run = observed(suite, {})
    groups = {tuple(s.group) for s in suite.scores(run, suite.verdicts(run))}
    assert {("task",), ("class",), ("task", "color"), ("task", "count"), ("task", "relation"), ()} <= groups
    both = next(p for p in suite.prompts() if p.facets["task"] == "color_attr")
    colors = {s.group["color"] for s in suite.scores(run, suite.verdicts(run)) if tuple(s.group) == ("task", "color")}
    assert {both.facets["color"], both.facets["color_b"]} <= colors


# --------------------------------------------------------------------------------------------------------------- people
COLUMNS = (
    "HITId,Input.index,Input.prompt_id,Input.image_id,Input.image_url,Input.caption,Input.object_0_name,"
    "Input.object_1_name,Input.object_0_name_plural,Input.object_1_name_plural,Input.exclude,Answer.ee,"
    "Answer.task-color-0,Answer.task-color-1,Answer.task-count-0,Answer.task-count-1,Answer.task-objects,"
    "Answer.task-position-x,Answer.task-position-y,Answer.task-quality,Answer.task-real-0,Answer.task-real-1"
)


def record(index, image, *, names=("", ""), colors=("", ""), counts=("", ""), x="", y="", objects="things"):
    return (
        f"H,{index}_{image},{index},{image},url,caption,{names[0]},{names[1]},,,,1.0,{colors[0]},{colors[1]},"
        f"{counts[0]},{counts[1]},{objects},{x},{y},4,3.0,"
    )


def test_human_rule_by_hand(tmp_path):
    position = next(i for i, p in enumerate(PUBLISHED) if p["tag"] == "position" and p["prompt"].find("above") > 0)
    metadata = PUBLISHED[position]
    names = tuple(e["class"] for e in metadata["include"])
    counting = next(i for i, p in enumerate(PUBLISHED) if p["tag"] == "counting" and p["include"][0]["count"] == 3)
    colors = next(i for i, p in enumerate(PUBLISHED) if p["tag"] == "colors")
    painted = PUBLISHED[colors]["include"][0]
    path = tmp_path / "annotations.csv"
    lines = [
        record(position, 0, names=names, counts=("1", "2.0"), x="left", y="above"),  # more than asked is right
        record(position, 0, names=names, counts=("1", "1.0"), x="neither_x", y="neither_y"),
        record(position, 0, names=names, counts=("0", "1.0"), x="", y=""),
        record(counting, 1, counts=("3", "")),
        record(counting, 1, counts=("5", "")),
        record(colors, 2, counts=("1", ""), colors=(f"white|{painted['color']}", "")),
        # A carriage return within a field, as one of the released files has, is no end of a record.
        record(colors, 2, counts=("1", ""), colors=("gray", ""), objects="a\rb"),
    ]
    path.write_bytes("\n".join([COLUMNS, *lines, ""]).encode())
    annotations = read_annotations(path)
    assert len(annotations) == 7
    right = [is_right(a, PUBLISHED[a.index]) for a in annotations]
    assert right == [True, False, False, True, False, True, False]
    summary = human_summary(annotations, dict(enumerate(PUBLISHED)))
    assert summary.score == pytest.approx(3 / 7)  # a plain mean over annotations, not over tasks
    assert summary.tasks == {"position": pytest.approx(1 / 3), "counting": 0.5, "colors": 0.5}
    assert (summary.n_images, summary.unanimous) == (3, 0)
    assert summary.pairwise_agreement == pytest.approx((1 / 3 + 0 + 0) / 3)
    assert summary.majority == {(position, 0): False}


def test_annotations_of_something_else_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("item,answer\n1,yes\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"columns HITId, .* are missing"):
        read_annotations(path)
    path.write_text(f"{COLUMNS}\n{record(0, 0, names=('toaster', ''), counts=('1', ''))}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="about toaster, and the prompt about bench"):
        human_summary(read_annotations(path), dict(enumerate(PUBLISHED)))
    with pytest.raises(UsageError, match="prompt 0, and there is none"):
        human_summary(read_annotations(path), {})
    path.write_text(f"{COLUMNS}\n{record(0, 0, counts=('many', ''))}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="'many', not a whole number"):
        read_annotations(path)


def test_annotators_are_asked_what_the_rules_ask():
    tasks = rating_tasks(TASKS)
    prompt = GenEval.make({"limit": 6}).prompts()[0]
    assert [dict(t.key) for t in tasks] == [{"task": t} for t in TASKS]
    assert [rated_class(tasks[0], prompt, answer) for answer in tasks[0].options] == ["right", "wrong", None]


# ---------------------------------------------------------------------------------------------------------------- files
def folder(root, name, index, images=("00000.png", "00001.png"), metadata=True):
    samples = root / name / "samples"
    samples.mkdir(parents=True)
    for image in images:
        (samples / image).write_bytes(b"x")
    if metadata:
        (root / name / "metadata.jsonl").write_text(json.dumps(PUBLISHED[index]), encoding="utf-8")


def test_released_layout_is_read_with_four_or_five_digits(tmp_path):
    folder(tmp_path, "00000", 0, ("0000.png", "0001.png", "notes.txt", "0.png.bak"))
    folder(tmp_path, "00007", 7, ("00000.png",), metadata=False)
    (tmp_path / "logs").mkdir()
    assert is_released_layout(tmp_path)
    first, second = read_folders(tmp_path)
    assert [k for k, _ in first.images] == [0, 1]  # text files and 0.png.bak are none
    assert (second.index, second.metadata) == (7, None)
    suite = GenEval.make({"images": tmp_path})
    assert suite.n_images == 2
    assert {(i.prompt_id, i.index) for i in suite.user_images} == {("00000", 0), ("00000", 1), ("00007", 0)}
    assert not is_released_layout(tmp_path / "00000")


def test_folder_of_another_prompt_is_refused_and_a_rewritten_text_is_not(tmp_path):
    folder(tmp_path, "00000", 5)
    with pytest.raises(UsageError, match=r"and prompt 0 is 'a photo of a bench'.*--metadata FILE, or --draw"):
        GenEval.make({"images": tmp_path})
    rewritten = {**PUBLISHED[0], "prompt": "A weathered oak bench in the morning sun"}
    (tmp_path / "00000" / "metadata.jsonl").write_text(json.dumps(rewritten), encoding="utf-8")
    assert len(GenEval.make({"images": tmp_path}).user_images) == 2
    folder(tmp_path, "0000", 0)
    with pytest.raises(UsageError, match="0000 and 00000 are prompt 0"):
        GenEval.make({"images": tmp_path})


def test_result_lines_read_back(tmp_path):
    line = result_line("a.png", PUBLISHED[0], True, "", {"bench": [[0, 1, 2, 3, 0.5]]})
    record = json.loads(line)
    assert list(record) == ["filename", "tag", "prompt", "correct", "reason", "metadata", "details"]
    assert json.loads(record["details"]) == {"bench": [[0, 1, 2, 3, 0.5]]}
    path = tmp_path / "results.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    [result] = read_results(path)
    assert (result.correct, result.tag) == (True, "single_object")
    for text, message in (("{}", "expected filename"), ("[", "no JSON"), ("", "no results")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=message):
            read_results(path)


# ------------------------------------------------------------------------------------------------------------ published
def test_published_figures_agree_or_differ_as_known():
    checks = geneval()
    assert [c.quantity for c in checks if c.verdict is Verdict.DISAGREES] == []
    logs = [c for c in checks if c.paper == "GenEval public logs" and c.table == "overall"]
    assert len(logs) == 7
    assert all(c.verdict is Verdict.AGREES for c in logs)
    assert any(c.table == "contradictions" and "FLUX.1-dev" in c.quantity for c in checks)
    assert sum("people minus judge" in c.quantity for c in checks) == 7


@pytest.mark.parametrize("source", ["clip", "head", "pixels", "nobody"])
@pytest.mark.parametrize("size", [1, 7])
def test_blocks_of_any_size_give_the_scores_of_all_images(tmp_path, source, size, monkeypatch):
    """Of one image alone something is said of a colour: blocks without it must know that somebody judges colours."""
    suite = GenEval.make({"limit": 30, "n_images": 1})
    rng = np.random.default_rng(3)
    found, last = {}, None
    for prompt in suite.prompts():
        entries = prompt.spec["metadata"]["include"]
        boxes = [(e["class"], 0.95, BOX, None, None) for e in entries for _ in range(e.get("count", 1))]
        found[prompt.prompt_id] = boxes if rng.random() < 0.7 else boxes[:-1]
        if "color" in entries[0]:
            last = prompt.prompt_id, entries[0]
    prompt_id, entry = last
    shares = [float(c == entry["color"]) for c in COLORS] if source == "pixels" else None
    head = entry["color"] if source == "head" else None
    found[prompt_id] = [(entry["class"], 0.95, BOX, head, shares)]
    texts = suite.needs()[1].texts
    vectors = [{"text": t, "judge": "c", "vector": [1.0, float(n)]} for n, t in enumerate(texts)]
    region = {"image_id": f"{prompt_id}#0", "judge": "c", "segmenter": "segmenter:mask2former", "segment": 0}
    views = [region | {"view": view, "vector": [1.0, 0.0]} for view in ("masked", "square")]
    clip = {
        "region_embeddings": frame("region_embeddings", views),
        "text_embeddings": frame("text_embeddings", vectors),
    }
    seen = observed(suite, found, clip=clip if source == "clip" else None)
    run = Run.start(tmp_path / "run", RunSettings(suite="geneval", suite_settings=dict(suite.settings())))
    run.write_prompts(suite.prompts())
    run.append("images", seen.images)
    for table, rows in seen.observations.items():
        run.append(table, rows, rows["judge"][0])
    judges = {"segmenter": "segmenter:mask2former"} | ({"clip": "c"} if source == "clip" else {})
    monkeypatch.setattr(blocks, "BLOCK", size)
    scores = score_run(run, suite, judges=judges)
    whole = suite.verdicts(seen)
    assert run.verdicts().equals(sorted_verdicts(whole))
    assert [repr(s) for s in scores] == [repr(s) for s in complete_scores(suite, suite.scores(seen, whole))]
    if source == "nobody":
        assert any("nobody" in line for line in run.manifest.scoring.remarks)
    assert f'"color_by": "{source}"' in "".join(run.verdicts()["detail"].drop_nulls())
