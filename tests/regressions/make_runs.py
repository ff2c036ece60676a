"""How the stored runs below ``runs/`` and the values below ``expected/`` were written.

They were written once, on 2026-11-22, by verism 0.1.0 as it was before its redesign (schema version 1), by

    PYTHONPATH=src:tests python tests/regressions/make_runs.py

and are data from then on: whatever a later version computes from these tables is held against what that version
computed. The script therefore uses names of that version, need not work with later ones, and is not to be adapted to
them. To store a new kind of run, write a new script beside it, and leave the old runs alone.

Generators draw placeholder images (noise, or boxes of flat colour). Judges here look at no image: they take the
generator's ground truth, or random numbers seeded by the image id, and err at a known rate. That gives tables with all
that real ones have (several boxes, near-threshold confidences, unreadable replies, images that are refused or blank) at
a few kilobytes per run. Image files are dropped afterwards, because re-scoring reads tables only, and paths of the
machine are replaced by relative ones.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from fakes import PixelRenderer

import verism
from verism import api
from verism.annotation.ratings import study_path
from verism.annotation.sampling import draw_items
from verism.annotation.tasks import choose_tasks, tasks_of
from verism.annotation.votes import Study, VoteStore
from verism.generators.people import PeopleGenerator, PlainPeople
from verism.generators.scripted import ScriptedGenerator, one_hot
from verism.imaging import encode_png
from verism.records import LoadedImage, Need, Request, Result, frame, vector_rows
from verism.registry import make_suite
from verism.simulator.wardrobe import ATTRIBUTES
from verism.store import Run, score_records

HERE = Path(__file__).parent
RUNS, EXPECTED = HERE / "runs", HERE / "expected"


def draw(*key: object) -> np.random.Generator:
    """A random generator for a key, the same on every machine."""
    return np.random.default_rng(list(hashlib.sha256("/".join(map(str, key)).encode()).digest()))


def noise(*key: object, side: int = 16) -> np.ndarray:
    return draw(*key).integers(0, 255, (side, side, 3), dtype=np.uint8)


# ---------------------------------------------------------------------------------------------------------- generators
class NoiseGenerator:
    """An image of noise for every request."""

    name = "noise@1"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for r in requests:
            yield Result(image_id=r.image_id, state="ok", pixels=noise(r.image_id, r.seed))


class Recording:
    """A generator that now and then refuses, fails or gives a blank image; keeps what each image shows for judges."""

    def __init__(self, generator: Any, name: str, unusable: float = 0.06) -> None:
        self.generator, self.name, self.unusable = generator, name, unusable
        self.truth: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.texts: dict[str, str] = {}

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request, result in zip(requests, self.generator.generate(requests), strict=True):
            self.texts[request.image_id] = request.prompt.text
            for table, rows in result.truth.items():
                self.truth[table, request.image_id] = rows.to_dicts()
            luck = draw(self.name, "state", request.image_id).random()
            if luck < self.unusable / 3:
                yield Result(image_id=request.image_id, state="refused", note="content policy")
            elif luck < 2 * self.unusable / 3:
                yield Result(image_id=request.image_id, state="failed", note="the service did not answer")
            elif luck < self.unusable:
                yield replace(result, pixels=np.full((16, 16, 3), 7, np.uint8), truth={})
            else:
                yield result


# -------------------------------------------------------------------------------------------------------------- judges
class ErringDetector:
    """The ground truth, with objects overlooked, confused and imagined; confidences on both sides of any threshold."""

    threshold = 0.45

    def __init__(self, book: Recording, name: str = "erring-detector@1") -> None:
        self.book, self.name = book, name

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame:
        rows: list[dict[str, Any]] = []
        for image in images:
            rng = draw(self.name, image.image_id)
            rows.append(
                {"image_id": image.image_id, "judge": self.name, "query": -1, "class_scores": [], "color_scores": []}
            )
            boxes = []
            for seen in self.book.truth.get(("detections", image.image_id), []):
                if seen["query"] >= 0 and rng.random() > 0.07:
                    boxes.append((seen["label"], seen["color"], [seen[k] for k in ("x0", "y0", "x1", "y1")]))
            if rng.random() < 0.15:
                low = rng.uniform(0, 30, 2)
                color = str(rng.choice(need.colors)) if need.colors else None
                boxes.append((str(rng.choice(need.classes)), color, [*low, *(low + rng.uniform(4, 20, 2))]))
            for query, (label, color, box) in enumerate(boxes):
                if rng.random() < 0.07:
                    label = str(rng.choice(need.classes))
                if color is not None and rng.random() < 0.1:
                    color = str(rng.choice(need.colors))
                score = float(rng.beta(6, 2))
                others = rng.dirichlet(np.ones(len(need.classes))) * (1 - score) * 0.9
                scores = np.where(one_hot(label, need.classes) > 0, score, others)
                label = need.classes[int(scores.argmax())]
                jitter = rng.normal(0, 1.5, 4)
                x0, y0, x1, y1 = (float(v) for v in np.round(np.array(box) + jitter, 2))
                shades = (one_hot(color, need.colors) * 0.8 + 0.02).tolist() if color and need.colors else []
                rows.append(
                    {
                        "image_id": image.image_id, "judge": self.name, "query": query, "label": label,
                        "raw_label": label, "score": float(scores.max()), "x0": x0, "y0": y0, "x1": x1, "y1": y1,
                        "class_scores": np.round(scores, 4).tolist(), "color": color if shades else None,
                        "color_scores": shades,
                    }
                )  # fmt: skip
        return frame("detections", rows)


class RandomFeatures:
    """A vector for each image from its id; images of the reference lie a little aside."""

    def __init__(self, name: str = "random-features@1", size: int = 4, spread: float = 1.0) -> None:
        self.name, self.size, self.spread = name, size, spread

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame:
        ids = [image.image_id for image in images]
        return vector_rows(need.table, ids, self.name, self.spread * np.array([self._of(i) for i in ids]))

    def _of(self, image_id: str) -> np.ndarray:
        return draw("features", image_id).normal(0.4 if image_id.startswith("real/") else 0.0, 1.0, self.size)


class TextualClip(RandomFeatures):
    """Vectors of images are those of their prompts and noise, so that alignment means something."""

    def __init__(self, book: Recording, name: str = "textual-clip@1", size: int = 8, common: float = 0.5) -> None:
        super().__init__(name, size)
        self.book, self.common = book, common

    def _of(self, image_id: str) -> np.ndarray:
        text = self.book.texts.get(image_id, image_id)
        return self._text(text) + 0.7 * draw("clip", image_id).normal(size=self.size)

    def _text(self, text: str) -> np.ndarray:
        words = [draw("word", word).normal(size=self.size) for word in text.lower().split() or [""]]
        return self.common + np.mean(words, axis=0) * len(words) ** 0.5

    def embed_texts(self, texts: Sequence[str]) -> pl.DataFrame:
        return vector_rows("text_embeddings", texts, self.name, np.array([self._text(text) for text in texts]))


class ErringVqa:
    """The ground truth where there is any (otherwise a toss), wrong or unreadable at a known rate."""

    def __init__(self, book: Recording, name: str = "erring-vqa@1") -> None:
        self.book, self.name = book, name

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame:
        rows = []
        for image in images:
            known = {row["question"]: row["value"] for row in self.book.truth.get(("answers", image.image_id), [])}
            for question in need.questions.get(image.prompt_id, ()):
                rng = draw(self.name, image.image_id, question.text)
                options = list(question.choices) or ["yes", "no"]
                value = known.get(question.text)
                if value not in options or rng.random() < 0.12:
                    value = str(rng.choice(options))
                answer, probability = value, round(float(rng.uniform(0.5, 1.0)), 4)
                if rng.random() < 0.06:
                    answer, value = f"maybe {value}, it is hard to see", None
                    probability = None
                elif not question.choices and value == "no":
                    probability = round(1 - probability, 4)  # of yes
                rows.append(
                    {
                        "image_id": image.image_id, "judge": self.name, "question": question.text, "answer": answer,
                        "value": value, "probability": probability,
                    }
                )  # fmt: skip
        return frame("answers", rows)


class ErringSkin:
    """The tone of the paint, one off now and then; faces that are overlooked or too small."""

    def __init__(self, book: Recording, name: str = "erring-skin@1") -> None:
        self.book, self.name = book, name

    def observe(self, images: Sequence[LoadedImage], need: Need) -> pl.DataFrame:  # noqa: ARG002
        rows = []
        for image in images:
            rng = draw(self.name, image.image_id)
            (face,) = self.book.truth.get(("skin_tones", image.image_id), [{"tone": 5, "ita_deg": 20.0}])
            none = {"image_id": image.image_id, "judge": self.name, "face": -1, "note": "no face found"}
            if rng.random() < 0.08:
                rows.append(none)
                continue
            if rng.random() < 0.08:
                rows.append({**none, "face": 0, "score": 0.6, "state": "too_small", "note": "9 pixels wide"})
                continue
            near = np.clip(face["tone"] + rng.integers(-1, 2, 4), 1, 10).tolist()
            rows.append(
                {
                    **face, "image_id": image.image_id, "judge": self.name, "face": 0, "score": 0.9, "state": "ok",
                    "note": None, "n_pixels": 400, "tone": near[0], "tone_by_ita": near[1], "released_tone": near[2],
                    "rgb_tone": near[3], "released_ita_deg": face["ita_deg"] + 3,
                }
            )  # fmt: skip
        return frame("skin_tones", rows)


class WordyCaptioner:
    """The prompt with words lost, changed and added; now and then nothing."""

    name = "wordy-captioner@1"

    def __init__(self, book: Recording) -> None:
        self.book = book

    def observe(self, images: Sequence[LoadedImage], need: Need) -> pl.DataFrame:  # noqa: ARG002
        rows: list[dict[str, Any]] = []
        for image in images:
            rng = draw(self.name, image.image_id)
            if rng.random() < 0.08:
                rows.append({"image_id": image.image_id, "judge": self.name, "text": None, "note": "no reply"})
                continue
            words = [w for w in self.book.texts[image.image_id].split() if rng.random() > 0.2]
            words += [str(rng.choice(["outside", "red", "two", "table", "there"])) for _ in range(rng.integers(0, 3))]
            rows.append({"image_id": image.image_id, "judge": self.name, "text": " ".join(words) or "an image"})
        return frame("captions", rows)


# ---------------------------------------------------------------------------------------------------------------- runs
def paintskills(out: Path, suite: str = "paintskills", *, error: float, seed: int = 0, **options: Any) -> Run:
    made = make_suite(suite, **options)
    renderer = PixelRenderer(tuple(made.shapes), made.colors)
    inner = ScriptedGenerator(renderer, classes=made.shapes, colors=made.colors, error=error)
    book = Recording(inner, f"scripted-{error}")
    return api.evaluate(suite, out=out, model=book, detector=ErringDetector(book), seed=seed, **options)


def people(**more: Any) -> PeopleGenerator:
    wears = {"suit": (0.2, 0.4), "tie": (0.0, 0.7), "boots": (0.4, 0.2), "skirt": (0.4, 0.0), "hat": (0.1, 0.3)}
    settings: dict[str, Any] = {"tones": (0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.0), "wears": wears} | more
    return PeopleGenerator(PlainPeople(ATTRIBUTES, 32), **settings)


def reference_folder(work: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    work.mkdir(parents=True)
    for row in rows:
        (work / row["file_path"]).write_bytes(encode_png(noise("real", row["file_path"])))
    with (work / "real.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return work / "real.csv"


def geography(out: Path, work: Path, suite: str, objects: Sequence[str], regions: Sequence[str]) -> Run:
    each = 8
    rows = [
        {"file_path": f"{region}_{item}_{i}.png".replace(" ", "_"), "object": item, "region": region}
        for region in regions
        for item in objects
        for i in range(each + 1)
    ]
    book = Recording(NoiseGenerator(), "noise@1")
    return api.evaluate(
        suite, out=out, model=book, reference=reference_folder(work / out.name, rows), objects=list(objects),
        regions=list(regions), per_cell=each, features=RandomFeatures(), clip=TextualClip(book),
    )  # fmt: skip


PROMPTS = [
    {"id": f"p{i:02d}", "prompt": f"{how} {what} {where}", "references": [f"{how} {what} {where}", f"a {what}"],
     "style": style}
    for i, (how, what, where, style) in enumerate(
        (how, what, where, "photo" if len(how) % 2 else "drawing")
        for how in ("a small", "a big red", "one green")
        for what in ("dog", "cat", "bus", "apple tree")
        for where in ("on the grass", "beside a house")
    )
]  # fmt: skip


def prompt_list(work: Path, name: str, rows: Sequence[Mapping[str, Any]] = PROMPTS) -> Path:
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"{name}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def quality(out: Path, work: Path, *, kind: str) -> Run:
    book = Recording(NoiseGenerator(), f"noise-{kind}@1")
    options: dict[str, Any] = {"prompts": prompt_list(work, out.name), "n_images": 3}
    judge = RandomFeatures()
    if kind == "images":
        rows = [{"file_path": f"real{i:02d}.png", "style": ("photo", "drawing")[i % 2]} for i in range(40)]
        options |= {"reference": reference_folder(work / out.name, rows), "group_by": "style"}
    elif kind == "statistics":
        spread = draw("statistics").normal(size=(60, judge.size)) + 0.2
        np.savez(work / "statistics.npz", mu=spread.mean(axis=0), sigma=np.cov(spread, rowvar=False))
        options["reference"] = work / "statistics.npz"
    else:
        judge = RandomFeatures("random-classifier@1?layer=logits", size=6, spread=2.0)
    run = api.evaluate("quality", out=out, model=book, features=judge, **options)
    if kind == "statistics":
        shutil.copy(work / "statistics.npz", out)
    return run


def alignment(out: Path, work: Path, *, generator: str = "noise@1") -> Run:
    questions = [
        {"item_id": row["id"], "text": row["prompt"], "proposition_id": n, "dependency": parent, "question": question,
         "category_broad": category}
        for row in PROMPTS
        for n, parent, question, category in (
            (1, 0, f"is there a {row['prompt'].split()[2]}?", "entity"), (2, 1, "is it red?", "attribute"),
            (3, 2, "is it outside?", "relation"),
        )
    ]  # fmt: skip
    asked = work / "questions.json"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text(json.dumps(questions), encoding="utf-8")
    book = Recording(NoiseGenerator(), generator)
    return api.evaluate(
        "alignment", out=out, model=book, prompts=prompt_list(work, out.name), questions=asked, group_by="style",
        n_images=2, captioner=WordyCaptioner(book), clip=TextualClip(book), vqa=ErringVqa(book),
        rules={"pool": 10},
    )  # fmt: skip


def gender_presentation(out: Path, work: Path) -> Run:
    study = work / "presentation.json"
    work.mkdir(parents=True, exist_ok=True)
    attributes = ["boots", {"name": "skirt", "query": "a skirt"}, {"name": "hat", "query": "a hat"}]
    study.write_text(json.dumps({"extends": "released", "attributes": attributes, "n_images": 2}), encoding="utf-8")
    book = Recording(people(), "people-presentation")
    return api.evaluate(
        "gender_presentation", out=out, model=book, study=study, clip=TextualClip(book), vqa=ErringVqa(book),
        settings=["neutral", "explicit"], limit=64,
    )  # fmt: skip


def social_bias(out: Path, work: Path, *, female: float) -> Run:
    study = work / "bias.json"
    work.mkdir(parents=True, exist_ok=True)
    listed = {"descriptors": ["judge", "nurse", "pilot"], "attributes": ["a tie", "a skirt"]}
    study.write_text(json.dumps({"extends": "released", "name": "small", "bare": "", **listed}), encoding="utf-8")
    target = work / "labour.csv"
    target.write_text("profession,group,share\nnurse,female,0.9\n,female,0.5\n", encoding="utf-8")
    book = Recording(people(female=female, strength=1.0), f"people-{female}")
    return api.evaluate(
        "social_bias", out=out, model=book, study=study, target=target, n_images=6, vqa=ErringVqa(book),
        skin_tone=ErringSkin(book),
    )  # fmt: skip


def social_bias_v1(out: Path, work: Path) -> Run:  # noqa: ARG001
    book = Recording(NoiseGenerator(), "noise-v1")
    return api.evaluate("social_bias_v1", out=out, model=book, clip=TextualClip(book, common=6.0), limit=14)


# -------------------------------------------------------------------------------------------------------------- ratings
def rate(run: Run, tasks: Sequence[str], *, per_cell: int | None, by: Sequence[str] = ()) -> None:
    """Three made-up raters: they share an answer to an item four times in five, which is what the prompt asks for (if
    the question is about that) two times in three; they skip one item in twenty, and are unsure of few."""
    chosen = choose_tasks(tasks_of(run), tasks)
    items = [item for task in chosen for item in draw_items([run], task, per_cell=per_cell, by=by)]
    study = Study(tasks=tuple(chosen), items=tuple(items), runs=(run.name,), overlap=3, settings={"by": ",".join(by)})
    store = VoteStore.create(study_path(run), study)
    asked = {prompt.prompt_id: [str(v) for v in prompt.facets.values()] for prompt in run.prompts()}
    for name in ("Ann", "Bob", "Cem"):
        rater = store.named_rater(name)
        for position, item in enumerate(items):
            task = store.task(item.task)
            sure = [option for option in task.options if option not in task.unsure]
            rng, shared = draw(run.name, name, position), draw(run.name, item.item, item.task)
            right = [option for option in asked[item.item.split("#")[0]] if option in sure]
            answer = right[-1] if right and shared.random() < 2 / 3 else str(shared.choice(sure))
            if rng.random() > 0.8:
                answer = str(rng.choice(task.options))
            voted = None if rng.random() < 0.05 else answer
            store.vote(rater, position, voted, seconds=round(float(rng.uniform(2, 9)), 1), at="2026-11-22T00:00:00Z")


# ------------------------------------------------------------------------------------------------------------- storing
# The scores of a run are its own scores.parquet. A variant (the same run scored otherwise) holds what differs: new or
# changed rows of these columns, and the first six columns alone of rows that are no longer there.
COLUMNS = (
    "suite", "metric", "protocol", "group", "unit", "adjusted", "value", "ci_low", "ci_high", "n_used", "n_unusable",
    "higher_is_better",
)  # fmt: skip
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "paintskills": {
        "rendered": {"correct": "rendered"},
        "human": {"correct": "human"},
        "threshold": {"threshold": 0.7},
    },
    "social_bias": {"rendered": {"correct": "rendered"}, "human": {"correct": "human"}},
    "gender_presentation": {"labels": {"rules": {"labels": "annotation"}}},
    "social_bias_v1": {"labels": {"rules": {"labels": "annotation"}}},
}
PAIRS = (("paintskills", "paintskills_b"), ("alignment", "alignment_b"), ("social_bias", "social_bias_b"))
RATED = ("paintskills", "social_bias", "gender_presentation", "social_bias_v1")


def neutral(run: Path, work: Path) -> None:
    """Drop image files and the readable copy of the scores, and make paths relative: re-scoring needs none of them."""
    for file in [*run.rglob("*.png"), run / "scores.json"]:
        file.unlink()
    for part in run.rglob("part-*.parquet"):
        table = pl.read_parquet(part, glob=False)
        if "path" in table.columns and table["path"].str.starts_with("/").any():
            table.with_columns(pl.col("path").str.split("/").list.last()).write_parquet(
                part, compression="zstd", compression_level=3
            )
    manifest = run / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    for root in (f"{work}/{run.name}/", f"{run}/", f"{work}/"):
        text = text.replace(root, "")
    manifest.write_text(text, encoding="utf-8")


ADJUSTMENT = (
    "metric", "protocol", "group", "adjusted", "judged", "method", "n_labels", "effective_n", "trust", "labels_only",
    "labels_only_low", "labels_only_high",
)  # fmt: skip
DIFFERENCE = (
    "metric", "protocol", "group", "unit", "adjusted", "method", "value_a", "value_b", "difference", "ci_low",
    "ci_high", "p_value", "p_holm", "n_pairs", "n_prompts", "n_unpaired",
)  # fmt: skip


def write_table(name: str, columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> None:
    """A JSON list: the names of the columns, then a row for each record."""
    write_lines(name, [columns, *([record[column] for column in columns] for record in records)])


def write_lines(name: str, lines: Sequence[Any]) -> None:
    """A JSON list with one entry a line."""
    EXPECTED.mkdir(exist_ok=True)
    text = ",\n".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines)
    (EXPECTED / f"{name}.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def rows_of(run: Run) -> list[list[Any]]:
    return [[record[column] for column in COLUMNS] for record in score_records(run.scores())]


def write_expected(name: str, folder: Path) -> None:
    """What this version computes from a stored run, wherever it lies."""
    stored = rows_of(api.open_run(RUNS / name))

    def copy(variant: str) -> Run:
        position = folder / variant / name
        shutil.copytree(RUNS / name, position)
        os.chdir(position)  # the statistics of quality_statistics are named relative to the run
        return api.open_run(position)

    run = copy("plain")
    verism.score(run)
    if rows_of(run) != stored:
        raise AssertionError(f"{name}: scored again, its tables give other scores")
    for variant, how in VARIANTS.get(name, {}).items():
        run = copy(variant)
        verism.score(run, **how)
        result = rows_of(run)
        keys = [row[:6] for row in result]
        gone = [row[:6] for row in stored if row[:6] not in keys]
        write_lines(f"{name}.{variant}", [COLUMNS, *(row for row in result if row not in stored), *gone])
        if run.adjustments():
            write_table(f"{name}.{variant}.adjustments", ADJUSTMENT, run.adjustments())
    if name in RATED:
        write_lines(f"{name}.agreement", [api.agreement(copy("agreement"), n_resamples=50)])


def main() -> None:
    shutil.rmtree(RUNS, ignore_errors=True)
    shutil.rmtree(EXPECTED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        made, work = Path(folder) / "runs", Path(folder) / "work"
        made.mkdir()
        skills = ["object", "count", "spatial", "color"]
        shared: dict[str, Any] = {"skills": skills, "limit": 48, "n_images": 2}
        recipes: dict[str, Callable[[Path], Run]] = {
            "paintskills": lambda out: paintskills(out, error=0.2, **shared),
            "paintskills_b": lambda out: paintskills(out, error=0.5, **shared),
            "paintskills-v1": lambda out: paintskills(out, "paintskills-v1", error=0.3, limit=40),
            "geography": lambda out: geography(out, work, "geography", ("bag", "chair"), ("Africa", "Europe")),
            "geography-dollarstreet": lambda out: geography(
                out, work, "geography-dollarstreet", ("bed", "roof"), ("Africa", "Asia")
            ),
            "quality": lambda out: quality(out, work, kind="images"),
            "quality_statistics": lambda out: quality(out, work, kind="statistics"),
            "quality_logits": lambda out: quality(out, work, kind="logits"),
            "alignment": lambda out: alignment(out, work),
            "alignment_b": lambda out: alignment(out, work, generator="noise@2"),
            "gender_presentation": lambda out: gender_presentation(out, work),
            "social_bias": lambda out: social_bias(out, work, female=0.4),
            "social_bias_b": lambda out: social_bias(out, work, female=0.7),
            "social_bias_v1": lambda out: social_bias_v1(out, work),
        }
        for name, recipe in recipes.items():
            recipe(made / name)
            print(name, len(api.open_run(made / name).scores()))
        rate(api.open_run(made / "paintskills"), skills, per_cell=8, by=("skill",))
        rate(api.open_run(made / "social_bias"), ["gender", "tone", "attribute: a tie"], per_cell=6, by=("profession",))
        rate(api.open_run(made / "gender_presentation"), ["attribute"], per_cell=10, by=("gender",))
        rate(api.open_run(made / "social_bias_v1"), ["gender", "race"], per_cell=None)
        for name in recipes:
            neutral(made / name, work)
            shutil.copytree(made / name, RUNS / name)
        for name in recipes:
            write_expected(name, Path(folder) / "again")
        for a, b in PAIRS:
            differences = [d.record() for d in verism.compare(RUNS / a, RUNS / b)]
            write_table(f"{a}.comparison", DIFFERENCE, differences)


if __name__ == "__main__":
    main()
