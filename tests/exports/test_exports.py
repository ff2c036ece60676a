"""Exports are read back by the libraries they are made for, and say what the run says."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from commands import verism as command
from PIL import Image as PilImage
from report_runs import build_run

import verism
from verism.errors import DamagedRun, UsageError, VerismError
from verism.files import read_rows
from verism.manifest import RunSettings
from verism.records import frame
from verism.store import TRUTH, Run


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs") / "mine"
    return build_run(path, skill_level=0.7, limit=24, states={3: "refused", 5: "failed"}, truth=True, note="=1+1")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf-cache"))


def outcome_of(run: Run) -> dict[str, str]:
    """Right or wrong by the run's own rule, one image at a time."""
    rules = {p.rule for p in verism.api.presentation_of(run).pairings if p.right_or_wrong}
    first = next(iter(verism.api.presentation_of(run).info.protocols))
    results: dict[str, str] = {}
    for row in run.verdicts().filter(pl.col("protocol") == first).iter_rows(named=True):
        if row["rule"] in rules:
            value = row["value"]
            results[row["image_id"]] = "unusable" if value is None else "right" if value >= 0.5 else "wrong"
    return results


# -------------------------------------------------------------------------------------------------------- Hugging Face
@pytest.fixture(scope="module")
def dataset(scored: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Words that Hugging Face's loader takes for names of splits, in the folder's own name and in the images' ids.
    folder = tmp_path_factory.mktemp("exports") / "my-dataset"
    assert verism.export(scored, folder, to="huggingface") == {"images": 22, "unavailable": 2}
    return folder


@pytest.mark.parametrize("way", ["imagefolder", "folder"])
def test_datasets_reads_images_prompts_facets_and_verdicts(scored, dataset, tmp_path, way):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    arguments: dict[str, Any] = {"cache_dir": str(tmp_path / "cache")}
    loaded = (
        datasets.load_dataset("imagefolder", data_dir=str(dataset), **arguments)
        if way == "imagefolder"
        else datasets.load_dataset(str(dataset), **arguments)
    )
    assert list(loaded) == ["train"]
    rows = loaded["train"]
    images = {r["image_id"]: r for r in scored.read("images").iter_rows(named=True) if r["state"] == "ok"}
    prompts = {p.prompt_id: p for p in scored.prompts()}
    assert sorted(rows["image_id"]) == sorted(images)
    outcomes = outcome_of(scored)
    assert {"right", "wrong"} <= set(outcomes.values())
    for row in rows:
        known = images[row["image_id"]]
        assert row["image"].size == (known["width"], known["height"])
        with PilImage.open(scored.resolve(known["path"])) as original:
            assert row["image"].convert("RGB").tobytes() == original.convert("RGB").tobytes()
        assert row["prompt"] == prompts[known["prompt_id"]].text
        assert row["facet_skill"] == prompts[known["prompt_id"]].facets["skill"]
        assert row["verdict"] == outcomes[row["image_id"]]
        assert {v["protocol"] for v in row["verdicts"]} == set(scored.verdicts()["protocol"])


def test_dataset_card_says_where_the_images_come_from(scored, dataset):
    text = (dataset / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["size_categories"] == ["n<1K"]
    assert "license" not in card
    settings = scored.manifest.settings
    for word in (settings.generator, "fake-detector@1", "22; 2 more were asked for", "No license is stated"):
        assert word in body
    assert f"{100 * scored.metrics()['mean_accuracy']:.1f}" in body


def test_images_without_a_file_and_scores_lie_beside(scored, dataset):
    with (dataset / "tables" / "unavailable_images.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["state"] for row in rows) == ["failed", "refused"]
    assert {row["note"] for row in rows} == {"'=1+1"}  # no formula for a spreadsheet
    scores = (dataset / "tables" / "scores.csv").read_text(encoding="utf-8")
    assert scores.count("\n") == len(scored.scores()) + 1


def test_copied_images_are_the_bytes_of_the_run(dataset):
    table = pl.read_parquet(dataset / "metadata.parquet")
    for name, expected in table.select("file_name", "sha256").iter_rows():
        assert hashlib.sha256((dataset / name).read_bytes()).hexdigest() == expected


# ---------------------------------------------------------------------------------------------------------------- COCO
def test_coco_is_read_by_pycocotools_with_truth_results_and_captions(scored, tmp_path):
    mask = pytest.importorskip("pycocotools.coco")
    written = verism.export(scored, tmp_path / "coco", to="coco")
    assert (written["images"], written["results"]) == (22, 1)
    coco = mask.COCO(str(tmp_path / "coco" / "annotations" / "instances.json"))
    by_id = {image["verism_id"]: image for image in coco.dataset["images"]}
    assert len(by_id) == 22
    truth = scored.read("detections", TRUTH).filter((pl.col("query") >= 0) & pl.col("image_id").is_in(list(by_id)))
    assert written["annotations"] == len(coco.anns) == truth.height > 0
    names = {c["id"]: c["name"] for c in coco.dataset["categories"]}
    expected = {
        (image_id, label, *(round(v, 2) for v in (x0, y0, x1 - x0, y1 - y0)))
        for image_id, label, x0, y0, x1, y1 in truth.select("image_id", "label", "x0", "y0", "x1", "y1").iter_rows()
    }
    ids = {image["id"]: image["verism_id"] for image in coco.dataset["images"]}
    found = {(ids[a["image_id"]], names[a["category_id"]], *a["bbox"]) for a in coco.anns.values()}
    assert found == expected
    assert all("score" not in annotation for annotation in coco.anns.values())

    (results,) = (tmp_path / "coco" / "results").glob("detections-*.json")
    detections = coco.loadRes(str(results))
    seen = scored.read("detections", "fake-detector@1").filter(
        (pl.col("query") >= 0) & pl.col("label").is_not_null() & pl.col("image_id").is_in(list(by_id))
    )
    assert len(detections.anns) == seen.height
    captions = json.loads((tmp_path / "coco" / "annotations" / "captions.json").read_text(encoding="utf-8"))
    texts = {p.prompt_id: p.text for p in scored.prompts()}
    assert [a["caption"] for a in captions["annotations"]] == [texts[i["prompt_id"]] for i in captions["images"]]
    for image in captions["images"]:
        with PilImage.open(tmp_path / "coco" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])


def test_coco_without_truth_has_boxes_above_the_threshold_and_says_so(tmp_path):
    run = build_run(tmp_path / "run", limit=12)
    verism.export(run, tmp_path / "coco", to="coco")
    content = json.loads((tmp_path / "coco" / "annotations" / "instances.json").read_text(encoding="utf-8"))
    assert content["info"]["boxes"].startswith("boxes of fake-detector@1 with a score above 0.")
    assert content["annotations"]
    assert all(a["score"] > 0.5 for a in content["annotations"])


def test_coco_has_results_of_captioners(tmp_path):
    run = build_run(tmp_path / "run", limit=4)
    ids = run.read("images")["image_id"].to_list()
    rows = [{"image_id": i, "judge": "teller@1", "text": None if n == 1 else f"text {i}"} for n, i in enumerate(ids)]
    run.append("captions", frame("captions", rows), "teller@1")
    assert verism.export(run, tmp_path / "coco", to="coco")["results"] == 2
    images = json.loads((tmp_path / "coco" / "annotations" / "captions.json").read_text())["images"]
    by_id = {image["id"]: image["verism_id"] for image in images}
    (file,) = (tmp_path / "coco" / "results").glob("captions-*.json")
    assert {by_id[r["image_id"]]: r["caption"] for r in json.loads(file.read_text())} == {
        i: f"text {i}" for n, i in enumerate(ids) if n != 1
    }


# -------------------------------------------------------------------------------------------------------------- tables
def test_parquet_tables_have_every_row(scored, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    counts = verism.export(scored, tmp_path / "t", to="parquet")
    for name, n in counts.items():
        assert parquet.read_table(tmp_path / "t" / f"{name}.parquet").num_rows == n
    assert counts["images"] == scored.read("images").height == 24
    assert counts["verdicts"] == scored.verdicts().height
    assert counts["scores"] == len(scored.scores())
    expected = scored.read("detections", "fake-detector@1").height + scored.read("detections", TRUTH).height
    assert counts["detections"] == expected
    images = pl.read_parquet(tmp_path / "t" / "images.parquet")
    outcomes = outcome_of(scored)
    assert dict(images.select("image_id", "verdict").iter_rows()) == {i: outcomes.get(i) for i in images["image_id"]}
    assert set(json.loads((tmp_path / "t" / "columns.json").read_text())["images"]) >= {"image_id", "state"}


@pytest.mark.parametrize(("raw", "note"), [(False, "'=1+1"), (True, "=1+1")])
def test_csv_guards_formulas_unless_raw(scored, tmp_path, raw, note):
    verism.export(scored, tmp_path / "t", to="csv", raw=raw)
    with (tmp_path / "t" / "images.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["note"] for row in rows if row["state"] == "refused"} == {note}
    assert {row["image_id"]: row["prompt"] for row in rows} == dict(
        scored.read("images").join(
            pl.DataFrame([(p.prompt_id, p.text) for p in scored.prompts()], schema=["prompt_id", "text"], orient="row"),
            on="prompt_id",
        ).select("image_id", "text").iter_rows()
    )  # fmt: skip
    assert not list((tmp_path / "t").glob("*.parquet"))


def test_csv_undefined_scores_are_empty_cells(scored, tmp_path):
    verism.export(scored, tmp_path / "t", to="csv")
    rows = read_rows(tmp_path / "t" / "scores.csv")
    scores = scored.scores()
    assert [row["ci_low"] == "" for row in rows] == [math.isnan(score.ci_low) for score in scores]
    assert any(math.isnan(score.ci_low) for score in scores)


def test_csv_written_in_slices_is_the_same(scored, tmp_path, monkeypatch):
    verism.export(scored, tmp_path / "whole", to="csv")
    monkeypatch.setattr("verism.exports.tables.ROWS", 7)
    verism.export(scored, tmp_path / "slices", to="csv")
    for file in (tmp_path / "whole").glob("*.csv"):
        assert file.read_bytes() == (tmp_path / "slices" / file.name).read_bytes()


def test_small_chunks_give_the_same_coco(scored, tmp_path, monkeypatch):
    verism.export(scored, tmp_path / "whole", to="coco")
    monkeypatch.setattr("verism.exports.coco.CHUNK", 5)
    verism.export(scored, tmp_path / "chunks", to="coco")
    for file in (tmp_path / "whole").rglob("*.json"):
        assert file.read_bytes() == (tmp_path / "chunks" / file.relative_to(tmp_path / "whole")).read_bytes()


# -------------------------------------------------------------------------------------------------------------- folder
def test_folder_that_no_export_wrote_is_never_replaced(scored, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    for force in (False, True):
        with pytest.raises(UsageError, match="is not empty, and no export wrote it"):
            verism.export(scored, tmp_path / "mine", to="csv", force=force)
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def test_earlier_export_is_replaced_with_force_alone(scored, tmp_path):
    verism.export(scored, tmp_path / "t", to="csv")
    with pytest.raises(UsageError, match="replace it with --force"):
        verism.export(scored, tmp_path / "t", to="parquet")
    verism.export(scored, tmp_path / "t", to="parquet", force=True)
    assert {p.suffix for p in (tmp_path / "t").iterdir() if not p.name.startswith(".")} == {".parquet", ".json"}
    assert sorted(p.name for p in tmp_path.iterdir() if "hf" not in p.name) == ["t"]


@pytest.mark.parametrize("to", ["huggingface", "coco"])
def test_changed_image_stops_the_export_and_leaves_nothing(tmp_path, to):
    run = build_run(tmp_path / "run", limit=6)
    path = run.resolve(run.read("images").filter(pl.col("state") == "ok")["path"][2])
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DamagedRun, match="changed since the run was made"):
        verism.export(run, tmp_path / "out", to=to)
    assert [p.name for p in tmp_path.iterdir() if p.name != "run"] == []


def test_failed_replacement_leaves_the_earlier_export(tmp_path):
    run = build_run(tmp_path / "run", limit=6)
    verism.export(run, tmp_path / "out", to="huggingface")
    before = (tmp_path / "out" / "metadata.parquet").read_bytes()
    run.resolve(run.read("images").filter(pl.col("state") == "ok")["path"][0]).unlink()
    with pytest.raises(DamagedRun):
        verism.export(run, tmp_path / "out", to="huggingface", force=True)
    assert (tmp_path / "out" / "metadata.parquet").read_bytes() == before


@pytest.mark.parametrize("inside", ["run/export", "."])
def test_folder_and_run_in_each_other_are_refused(tmp_path, inside):
    run = build_run(tmp_path / "run", limit=4)
    with pytest.raises(UsageError, match="lie in each other"):
        verism.export(run, tmp_path / inside, to="csv", force=True)


def test_run_without_scores_is_refused(tmp_path):
    run = Run.start(tmp_path / "run", RunSettings(suite="paintskills"))
    with pytest.raises(VerismError, match="no scores yet"):
        verism.export(run, tmp_path / "out", to="csv")


def test_image_of_a_format_that_few_read_becomes_png(tmp_path, suite):
    own = tmp_path / "own"
    own.mkdir()
    for prompt in suite.prompts():
        PilImage.effect_noise((32, 32), 90).convert("RGB").save(own / f"{prompt.prompt_id}.ppm")
    lines = "path,prompt_id\n" + "".join(f"{own / p.prompt_id}.ppm,{p.prompt_id}\n" for p in suite.prompts())
    (tmp_path / "list.csv").write_text(lines)
    run = verism.evaluate(suite, images=tmp_path / "list.csv", judges={"detector": Blind()}, out=tmp_path / "run")
    assert run.read("images")["state"].unique().to_list() == ["ok"]
    verism.export(run, tmp_path / "out", to="huggingface")
    files = list((tmp_path / "out" / "images").rglob("*.*"))
    assert {f.suffix for f in files} == {".png"}
    assert PilImage.open(io.BytesIO(files[0].read_bytes())).format == "PNG"


class Blind:
    """A detector that sees nothing."""

    name = "blind"

    def observe(self, images: Any, need: object) -> object:  # noqa: ARG002
        return frame("detections", [{"image_id": i.image_id, "judge": self.name, "query": -1} for i in images])


def test_command_writes_and_says_what(scored, tmp_path):
    done = command("export", scored.path, "--to", "csv", tmp_path / "t", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["images"] == 24
    assert (tmp_path / "t" / "scores.csv").is_file()
    with pytest.raises(UsageError, match="--raw is for"):
        command("export", scored.path, "--to", "coco", tmp_path / "u", "--raw")


def test_coco_of_segments_has_their_masks(tmp_path):
    mask = pytest.importorskip("pycocotools.mask")
    run = verism.evaluate(
        "geneval", model="oracle", segmenter="truth", limit=3, n_images=1, size=64, out=tmp_path / "run"
    )
    verism.export(run, tmp_path / "coco", to="coco")
    instances = json.loads((tmp_path / "coco" / "annotations" / "instances.json").read_text())["annotations"]
    assert instances
    for one in instances:
        assert mask.area(one["segmentation"]) == one["area"] > 0
        x, y, width, height = mask.toBbox(one["segmentation"])
        assert one["bbox"] == pytest.approx([x, y, width, height])
