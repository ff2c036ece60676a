"""GenEval through the command line: offline on rendered scenes, and on a folder of images with real networks.

The networks' weights are random: what they say is another test's business, but that every stage hands on what the next
one needs is this one's.
"""

import csv
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from commands import verism
from PIL import Image
from tiny_models import tiny_clip
from tiny_vision_language import enliven
from transformers import (
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    Mask2FormerImageProcessor,
    SwinConfig,
)

from verism import api
from verism.pipeline.shares import ALONE, Shares
from verism.suites.geneval.layout import read_results
from verism.suites.geneval.prompts import METADATA_SHA256, draw_prompts, sha256_of
from verism.suites.geneval.vocabulary import CLASSES, TASKS

COLORED = ["colors", "color_attr"]  # the tasks that look at objects again
COCO = {"computer mouse": "mouse", "tv remote": "remote", "computer keyboard": "keyboard"}


@pytest.fixture(scope="module")
def mask2former(tmp_path_factory):
    """A Mask2Former with COCO's 80 classes by COCO's names, random weights."""
    torch.manual_seed(0)
    names = {k: COCO.get(name, name) for k, name in enumerate(CLASSES)}
    trunk = SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=4, image_size=64,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = Mask2FormerConfig(
        backbone_config=trunk, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=16,
        encoder_layers=1, num_attention_heads=2, dim_feedforward=16, decoder_layers=2, num_queries=6,
        id2label=names, label2id={v: k for k, v in names.items()},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("mask2former")
    enliven(Mask2FormerForUniversalSegmentation(config)).save_pretrained(folder)
    Mask2FormerImageProcessor(size={"height": 96, "width": 96}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def every_object(mask2former):
    """The segmenter with all it finds, which is shown images as they are and not enlarged."""
    return f"transformers:{mask2former}?min_score=0&preprocessing=model"


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    out = tmp_path_factory.mktemp("oracle") / "run"
    words = ("--model", "oracle", "--segmenter", "truth", "--limit", 12, "--n-images", 1, "--size", 96, "--out", out)
    done = verism("run", "geneval", *words)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def released(oracle, tmp_path_factory):
    """The oracle's images in the released layout."""
    out = tmp_path_factory.mktemp("released")
    done = verism("geneval", "export", oracle, "--out", out)
    assert done.exit_code == 0, done.output
    return out


def overall(run, protocol="released"):
    return next(s.value for s in run.scores() if s.metric == "overall" and s.protocol == protocol)


def test_prompts_are_the_published_ones():
    lines = verism("prompts", "geneval").output.splitlines()
    assert len(lines) == 554
    assert lines[1] == "00000,a photo of a bench,4"


def test_every_task_of_the_oracle_is_right_under_every_protocol(oracle):
    run = api.open_run(oracle)
    by_task = [s for s in run.scores() if s.metric == "accuracy" and list(s.group) == ["task"]]
    assert {str(s.group["task"]) for s in by_task} == set(TASKS)
    assert {s.value for s in by_task} == {1.0}
    assert len(by_task) == 18
    assert not run.has_truth("detections")  # ground truth that no need asks for is not kept


def test_planted_errors_are_found(tmp_path):
    out = tmp_path / "run"
    words = ("--model", "scripted:error=1", "--segmenter", "truth", "--limit", 12, "--n-images", 1, "--size", 96)
    assert verism("run", "geneval", *words, "--out", out).exit_code == 0
    run = api.open_run(out)
    assert overall(run, "revised") == 0.0
    true = {str(s.group["task"]): s.value for s in run.scores() if s.metric == "true_accuracy"}
    assert true == dict.fromkeys(TASKS, 0.0)
    notes = " ".join(run.read("images")["note"].to_list())
    assert "rendered as asked" not in notes


def test_export_is_the_released_layout_and_its_summary_the_run_s(released):
    folders = sorted(path.name for path in released.iterdir() if path.is_dir())
    assert len(folders) == 12
    assert all(len(name) == 5 and name.isdigit() for name in folders)
    metadata = json.loads((released / folders[0] / "metadata.jsonl").read_text())
    assert metadata == draw_prompts()[int(folders[0])]
    assert (released / folders[0] / "samples" / "00000.png").is_file()
    results = read_results(released / "results.jsonl")
    assert len(results) == 12
    assert all(line.correct for line in results)
    first = json.loads((released / "results.jsonl").read_text().splitlines()[0])
    boxes = json.loads(first["details"])
    assert all(len(box) == 5 for some in boxes.values() for box in some)
    summary = json.loads(verism("geneval", "summary", released / "results.jsonl", "--json").stdout)
    assert summary["overall"] == 1.0
    assert summary["prompts"] == 12
    assert "overall" in verism("geneval", "summary", released / "results.jsonl").output


def test_images_with_segmenter_and_clip(released, every_object, tmp_path):
    out = tmp_path / "G"
    judges = ("--segmenter", every_object, "--clip", tiny_clip(tmp_path / "clip"))
    words = ("run", "geneval", "--images", released, "--limit", 12, *judges, "--device", "cpu", "--out", out)
    done = verism(*words)
    assert done.exit_code == 0, done.output
    run = api.open_run(out)
    segmenter, clip = run.judge("segmenter"), run.judge("clip")
    assert clip.endswith(f"objects of {segmenter}")
    segments = run.read("segments", segmenter)
    assert segments["image_id"].n_unique() == 12
    regions = run.read("region_embeddings", clip)
    asked = {p.prompt_id for p in run.prompts() if p.facets.get("color")}
    assert {image_id.partition("#")[0] for image_id in regions["image_id"]} <= asked
    assert set(regions["view"]) == {"masked", "square"}
    assert not [line for line in run.manifest.scoring.remarks if "not by CLIP" in line]
    before = str([(s.metric, s.protocol, dict(s.group), s.value) for s in run.scores()])
    # With rules that take everything for an object, what is asked for is found and colours are judged by CLIP.
    assert verism("score", out, "--rule", "object_threshold=0", "--rule", "counting_threshold=0").exit_code == 0
    again = api.open_run(out).verdicts().filter((pl.col("protocol") == "released") & (pl.col("rule") == "colors_right"))
    assert again["value"].null_count() == 0
    # A resumed run ends in the same numbers.
    assert verism(*words).exit_code == 0
    assert str([(s.metric, s.protocol, dict(s.group), s.value) for s in api.open_run(out).scores()]) == before


def test_another_segmenter_needs_clip_to_look_again(released, every_object, tmp_path):
    out, clip = tmp_path / "G", tiny_clip(tmp_path / "clip")
    first = ("--segmenter", every_object, "--clip", clip)
    some = ("--images", released, "--task", COLORED[0], "--task", COLORED[1], "--limit", 4)
    assert verism("run", "geneval", *some, *first, "--out", out).exit_code == 0
    second = f"{every_object}&pairs=99"
    refused = api.open_run(out)
    with pytest.raises(api.UsageError, match=r"of objects that .* found"):
        api.observe(refused, segmenter=second)
    api.observe(api.open_run(out), segmenter=second, clip=str(clip))
    run = api.open_run(out)
    assert "pairs=99" in run.judge("clip")
    assert run.read("region_embeddings", run.judge("clip"))["segmenter"].unique().to_list() == [run.judge("segmenter")]


def test_truth_and_clip_go_together(tmp_path):
    clip = tiny_clip(tmp_path / "clip")
    words = ("--model", "oracle", "--segmenter", "truth", "--clip", clip, "--task", "colors", "--limit", 2)
    out = tmp_path / "run"
    assert verism("run", "geneval", *words, "--n-images", 1, "--size", 64, "--out", out).exit_code == 0
    run = api.open_run(out)
    assert run.judge("clip").endswith("objects of truth")
    assert run.read("region_embeddings", run.judge("clip")).height == 2 * 2


def test_builtin_detector_s_boxes_on_scenes_it_knows(tmp_path):
    words = ("--model", "oracle", "--segmenter", "boxes:builtin", "--modelled", "true", "--task", "single_object")
    out = tmp_path / "run"
    done = verism("run", "geneval", *words, "--limit", 6, "--n-images", 1, "--size", 160, "--out", out)
    if "no class for" in done.output:
        pytest.fail(done.output)
    run = api.open_run(out)
    assert any("tuned for Mask2Former" in line for line in run.manifest.scoring.remarks)
    accuracy = next(s for s in run.scores() if s.metric == "accuracy" and s.protocol == "revised" and s.group)
    assert accuracy.value >= 0.5


def test_report_compare_and_dry_run_know_the_suite(oracle, tmp_path):
    page = tmp_path / "report.html"
    assert verism("report", oracle, "--out", page).exit_code == 0
    text = page.read_text()
    assert "What makes an image right" in text
    assert "attribute binding" in text
    same = verism("compare", oracle, oracle, "--json")
    assert same.exit_code == 0
    differences = [row["difference"] for row in json.loads(same.stdout)]
    assert differences
    assert set(differences) == {0.0}
    planned = verism("run", "geneval", "--segmenter", "truth", "--dry-run")
    assert "2,212 images for 553 prompts of geneval" in planned.output


def test_lost_images_are_counted_in_the_table(released, mask2former, tmp_path):
    victim = next(iter(sorted(released.rglob("*.png"))))
    content = victim.read_bytes()
    victim.unlink()
    try:
        judge = ("--segmenter", f"transformers:{mask2former}")
        out = tmp_path / "G"
        done = verism("run", "geneval", "--images", released, "--limit", 12, *judge, "--out", out)
    finally:
        victim.write_bytes(content)
    assert done.exit_code == 1  # finished, with failures that are listed
    run = api.open_run(out)
    strict = [s for s in run.scores() if s.metric == "accuracy_if_unusable_wrong"]
    assert strict
    assert {s.n_unusable for s in strict} == {1}


def test_prompt_files_are_written_byte_for_byte(tmp_path):
    assert verism("geneval", "prompts", "--out", tmp_path).exit_code == 0
    assert sha256_of((tmp_path / "evaluation_metadata.jsonl").read_text()) == METADATA_SHA256
    assert verism("geneval", "prompts", "--draw", 2, "--out", tmp_path / "fresh").exit_code == 0
    assert sha256_of((tmp_path / "fresh" / "evaluation_metadata.jsonl").read_text()) != METADATA_SHA256


def test_people_and_judge_are_held_against_each_other(oracle, tmp_path):
    run = api.open_run(oracle)
    header = [
        "HITId", "Input.prompt_id", "Input.image_id", "Input.object_0_name", "Input.object_1_name",
        "Answer.task-count-0", "Answer.task-count-1", "Answer.task-color-0", "Answer.task-color-1",
        "Answer.task-position-x", "Answer.task-position-y",
    ]  # fmt: skip
    sides = {"left of": ("left", ""), "right of": ("right", ""), "above": ("", "above"), "below": ("", "below")}
    path = tmp_path / "annotations.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        for number, prompt in enumerate(run.prompts()):
            entries = prompt.spec["metadata"]["include"]
            names = [e["class"] for e in entries] + [""]
            counts = [str(e["count"]) for e in entries] + [""]
            colors = [e.get("color", "") for e in entries] + [""]
            x, y = sides.get(str(prompt.facets.get("relation")), ("", ""))
            for person in range(2):
                seen = "0" if person == 1 and number == 0 else counts[0]  # one person misses one object
                table.writerow(["H", int(prompt.prompt_id), 0, *names[:2], seen, counts[1], *colors[:2], x, y])
    done = json.loads(verism("geneval", "human", path, "--run", oracle, "--json").stdout)
    [record] = done["files"]
    assert (record["annotations"], record["images"], record["unanimous"]) == (24, 12, 11)
    assert record["judge"]["agreement_with_annotators"] == pytest.approx(23 / 24)
    assert record["judge"]["agreement_on_unanimous"] == 1.0
    assert record["pairwise_agreement"] == pytest.approx(11 / 12)
    shown = verism("geneval", "human", path, "--ratings", tmp_path / "ratings.csv")
    assert "unanimous 11" in shown.output
    rows = list(csv.DictReader((tmp_path / "ratings.csv").open(encoding="utf-8", newline="")))
    assert len(rows) == 24
    assert {row["answer"] for row in rows} == {"yes", "no"}


def test_published_figures_are_reproduced():
    done = verism("reproduce", "geneval", "--json")
    assert done.exit_code == 0
    records = json.loads(done.stdout)
    assert {r["verdict"] for r in records} >= {"agrees", "differs by definition", "cannot be recomputed"}


def test_images_named_by_prompt_id_serve_as_well(tmp_path):
    folder = tmp_path / "flat"
    folder.mkdir()
    for number in range(2):
        image = Image.new("RGB", (64, 64), (number * 100, 50, 50))
        image.putpixel((3, 3), (255, 255, 255))
        image.save(folder / f"{number:05d}.png")
    planned = verism("run", "geneval", "--images", folder, "--segmenter", "truth", "--dry-run")
    assert planned.exit_code == 0


class Together(Shares):
    """Processes as threads: each has judges of its own, and waits for what the others say and finish."""

    alone = False

    def __init__(self, board: dict[str, object], changed: threading.Condition) -> None:
        self.board, self.changed = board, changed

    def _await(self, key: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.board, timeout=60), f"nobody gave {key}"

    def _give(self, key: str, value: object) -> None:
        with self.changed:
            self.board[key] = value
            self.changed.notify_all()

    def agree(self, own, wanted):
        for key, value in own.items():
            self._give(key, value)
        for key in wanted:
            self._await(key)
        return dict(self.board)

    @contextmanager
    def claims(self, stage, items, *, key, done, after=""):
        if after:
            self._await(f"done {after}")
        with Shares().claims(stage, items, key=key, done=done) as claims:
            yield claims
        self._give(f"done {stage}", None)


@pytest.fixture(scope="module")
def alone(released, every_object, tmp_path_factory):
    """What is asked of every division of work, and what one process makes of it."""
    folder = tmp_path_factory.mktemp("alone")
    judges = {"segmenter": every_object, "clip": str(tiny_clip(folder / "clip"))}
    call = api._Call.of(None, judges, {"tasks": COLORED, "limit": 4, "device": "cpu"})
    asked = api._Evaluation("geneval", None, released, folder / "run", None, call)
    return asked, api._made(asked, ALONE)


@pytest.mark.parametrize(
    "parts",
    [
        [{"generator", "clip"}, {"segmenter"}],
        [{"generator"}, {"segmenter", "clip"}],
        [{"generator", "segmenter"}, {"clip"}],
        [{"generator"}, {"segmenter"}, {"clip"}],
    ],
)
def test_who_looks_at_objects_is_shown_them_whoever_finds_them(parts, alone, tmp_path):
    asked, alone = replace(alone[0], out=tmp_path / "parts"), alone[1]
    board, changed = {}, threading.Condition()
    with ThreadPoolExecutor(len(parts)) as pool:
        made = [pool.submit(api._made, asked, Together(board, changed), roles) for roles in parts]
        assert [m.result().names for m in made] == [alone.names] * len(parts)
    run = api.open_run(tmp_path / "parts")
    for table in ("region_embeddings", "embeddings"):
        expected = alone.run.read(table, alone.names["clip"])
        assert expected.height
        found = run.read(table, alone.names["clip"])
        assert found.drop("vector").equals(expected.drop("vector"))
        gap = np.array(found["vector"].to_list()) - np.array(expected["vector"].to_list())
        assert np.abs(gap).max() <= 1e-4  # batches of other sizes add in another order
