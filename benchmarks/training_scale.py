"""How much data the built-in generator needs: the study of training scale of DALL-Eval (ICCV 2023, Table 5).

    python benchmarks/training_scale.py train --scenes T --out D --rounds 3     the trainings; the same command goes on
    python benchmarks/training_scale.py evaluate --out D                        the same test prompts for all of them
    python benchmarks/training_scale.py table --out D [--svg FILE] [--json FILE]
    python benchmarks/training_scale.py page --out D    docs/training-scale.md and docs/images/training-scale.svg

As in the paper the image tokenizer is frozen: the autoencoders are trained once, on all scenes, and every writer learns
from 100, 50 or 10 % of the scenes of each skill (shares lie within each other), two seeds each. Every round gives each
of the six writers the same number of further steps at a constant learning rate, so whenever the study is stopped
between rounds all have learnt equally long. Steps and not minutes: on a machine that others use, minutes are not equal.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from verism import api
from verism.files import write_json, write_whole
from verism.statistics.intervals import clustered_proportion
from verism.statistics.paired import PairedDifference, paired_difference

FRACTIONS = (1.0, 0.5, 0.1)
SEEDS = (0, 1)
SKILLS = ("object", "count", "spatial")
TEST_SEED, PER_SKILL = 620417, 150  # of prompts that trained, calibrated and decided nothing
FROZEN = {"steps": 300, "width": 0.5}
WRITER = {"width": 128, "depth": 3}
ROUND = 200  # steps of each writer
PUBLISHED = {
    # Cho, Zala & Bansal 2023, ICCV, Table 5.
    "minDALL-E": {1.0: (89.9, 47.5, 50.7), 0.5: (90.1, 49.4, 53.3), 0.1: (90.8, 50.9, 38.2)},
    "Stable Diffusion v1.4": {1.0: (96.2, 37.8, 7.9), 0.5: (96.0, 42.2, 7.6), 0.1: (94.2, 37.9, 8.9)},
}


def name_of(fraction: float, seed: int) -> str:
    return f"{round(100 * fraction)}-{seed}"


def trainings() -> Iterator[tuple[float, int]]:
    for seed in SEEDS:
        for fraction in FRACTIONS:
            yield fraction, seed


# ------------------------------------------------------------------------------------------------------------ training
def train(scenes: Sequence[Path], out: Path, rounds: int) -> None:
    import torch

    from verism.training.generator import chosen_scenes, export_generator
    from verism.training.generator_autoencoders import AUTOENCODERS, describe_images, train_autoencoders
    from verism.training.generator_writer import train_writer
    from verism.training.loop import log_to
    from verism.training.scene_layers import load_layers
    from verism.training.settings import AutoencoderConfig, SceneChoice, WriterConfig

    torch.set_num_threads(1)

    def layers_of(fraction: float, seed: int):
        choice = SceneChoice(skills=SKILLS, fraction=fraction)
        return load_layers(scenes, out / "cache", choose=lambda s: chosen_scenes(s, choice, seed=seed), log=say)

    autoencoders = out / "autoencoders"
    autoencoders.mkdir(parents=True, exist_ok=True)
    config = AutoencoderConfig(**FROZEN, workers=1, lr_schedule="cosine", checkpoint_every_s=60, log_every_s=30)
    every = layers_of(1.0, 0)
    train_autoencoders(
        every, config, out=autoencoders, log=log_to(autoencoders / "log.jsonl", progress("autoencoders"))
    )
    say("describing the scenes")
    known = describe_images(every, autoencoders / AUTOENCODERS)
    described = {scene.scene_id: made for scene, made in zip(every.scenes, known, strict=True)}
    for number in range(1, rounds + 1):
        for fraction, seed in trainings():
            folder = out / name_of(fraction, seed)
            done = state_of(folder)
            if done["steps"] >= number * ROUND:
                continue
            folder.mkdir(exist_ok=True)
            if not (folder / AUTOENCODERS).exists():
                write_whole(folder / AUTOENCODERS, (autoencoders / AUTOENCODERS).read_bytes())
            layers = layers_of(fraction, seed)
            config = WriterConfig(
                **WRITER, steps=number * ROUND, seed=seed, workers=1, lr=1.5e-3, lr_schedule="constant",
                checkpoint_every_s=60, log_every_s=30, validate_every_s=1e9,
            )  # fmt: skip
            began = time.process_time()
            train_writer(
                layers, config, out=folder, described=[described[scene.scene_id] for scene in layers.scenes],
                log=log_to(folder / "log.jsonl", progress(name_of(fraction, seed))),
            )  # fmt: skip
            spent = done["processor_s"] + time.process_time() - began
            state = {"fraction": fraction, "seed": seed, "scenes": len(layers), "steps": number * ROUND}
            export_generator(folder, folder / f"model-{number * ROUND}", {"study": "training scale", **state})
            write_json(folder / "state.json", {**state, "processor_s": round(spent, 1)})
        say(f"round {number} of {rounds}: every writer has {number * ROUND} steps")


def state_of(folder: Path) -> dict:
    file = folder / "state.json"
    return json.loads(file.read_text()) if file.exists() else {"steps": 0, "processor_s": 0.0}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def progress(name: str):
    def write(line) -> None:
        if line["event"] in ("train", "validate"):
            say(f"{name}: " + ", ".join(f"{k} {v}" for k, v in line.items() if k in ("step", "loss", "x", "label")))

    return write


# ---------------------------------------------------------------------------------------------------------- evaluation
def evaluate(out: Path) -> None:
    for fraction, seed in trainings():
        folder = out / name_of(fraction, seed)
        steps = common_steps(out)
        model = folder / f"model-{steps}"
        run = api.evaluate(
            "paintskills", model=f"builtin:{model}", skills=SKILLS, limit=PER_SKILL * len(SKILLS), seed=TEST_SEED,
            out=folder / f"run-{steps}",
        )  # fmt: skip
        say(f"{folder.name}: {run.path}")


def common_steps(out: Path) -> int:
    """Steps that every writer has and was exported with."""
    steps = min(state_of(out / name_of(f, s))["steps"] for f, s in trainings())
    return steps // ROUND * ROUND


# --------------------------------------------------------------------------------------------------------------- table
def verdicts(out: Path, steps: int) -> pl.DataFrame:
    """One row for each image: fraction, seed, prompt, skill, 0 or 1 under the revised protocol; null: no verdict."""
    parts = []
    for fraction, seed in trainings():
        run = api.open_run(out / name_of(fraction, seed) / f"run-{steps}")
        skills = {p.prompt_id: str(p.facets["skill"]) for p in run.prompts()}
        images = run.read("images").select("image_id", "prompt_id")
        rows = run.verdicts().filter((pl.col("protocol") == "revised") & (pl.col("rule") == "accuracy"))
        joined = images.join(rows.select("image_id", "value"), on="image_id", how="left")
        parts.append(
            joined.with_columns(
                pl.lit(fraction).alias("fraction"),
                pl.lit(seed).alias("seed"),
                pl.col("prompt_id").replace_strict(skills).alias("skill"),
            )
        )
    return pl.concat(parts)


def page(out: Path, docs: Path) -> None:
    """Write the page and its figure from the stored runs."""
    with io.StringIO() as text, redirect_stdout(text):
        record = table(out, docs / "images" / "training-scale.svg", None)
        tables = text.getvalue().partition("\njudge: ")[0]
    scenes = {state["fraction"]: state["scenes"] for state in record["trainings"]}
    minutes = sum(state["processor_s"] for state in record["trainings"]) / 60
    write_whole(docs / "training-scale.md", PAGE.format(
        tables=tables, short=in_short(record["differences"]), steps=record["steps"],
        judge=record["judge"]["detector"], seed=TEST_SEED, minutes=round(minutes),
        whole=scenes[1.0], half=scenes[0.5], tenth=scenes[0.1], frozen=FROZEN["steps"], prompts=PER_SKILL,
        rounds=record["steps"] // ROUND, **WRITER,
    ))  # fmt: skip


PAGE = """\
# How much data does a model need? The study of training scale

The ICCV 2023 paper trains its models on 100, 50 and 10 % of the train images of PaintSkills (Table 5) and finds little
difference. The same study on the built-in generator, from {whole:,}, {half:,} and {tenth:,} rendered train scenes.

![Accuracy by share of the train scenes](images/training-scale.svg)

{short}

{tables}
In parentheses: the two trainings (seeds), which choose other scenes. Intervals are over prompts, the same for all
models; they do not include how much another training would differ, which two seeds cannot show.

**What was held equal.** Steps, not minutes: the cores were shared with other programs, so that minutes would not have
been equal. Each writer took {steps:,} steps of 32 descriptions at a constant learning rate, some {minutes} processor
minutes for all six; the shipped model took 8,209. The writers are smaller than the shipped one: width {width}, {depth}
blocks.

**What differs from the paper.** The paper finetunes a large model; this study trains a small one from scratch. As
there, the image tokenizer is frozen: the autoencoders were trained once on all scenes ({frozen} steps, half the
channels), and only the writer learns from fewer. `verism train generator --fraction` trains both parts on the share.
Relations are learnt late (the shipped model learnt them after some 1,200 steps, see its curve): before that the
spatial column also shows how far a training has come.

Judge: `{judge}`, {prompts} prompts of each skill, test seed {seed}, which was used for nothing else. Accuracies
include the judge's error ([model card](models/builtin-generator.md)); it is the same for all rows.

```bash
verism scenes render paintskills --split train --skill spatial --limit 900 --seed 2001 --size 192 --masks --out T
verism scenes render paintskills --split train --skill count --limit 480 --seed 2001 --size 192 --masks --out T
verism scenes render paintskills --split train --skill object --limit 240 --seed 2001 --size 192 --masks --out T
python benchmarks/training_scale.py train --scenes T --out D --rounds {rounds}
python benchmarks/training_scale.py evaluate --out D
python benchmarks/training_scale.py page --out D
```
"""


def table(out: Path, svg: Path | None, as_json: Path | None) -> dict:
    steps = common_steps(out)
    rows = verdicts(out, steps)
    if unusable := rows["value"].null_count():
        say(f"{unusable} images without a verdict are left out")
    rows = rows.drop_nulls("value")
    cells: dict[str, dict] = {}
    for fraction in FRACTIONS:
        for skill in SKILLS:
            own = rows.filter((pl.col("fraction") == fraction) & (pl.col("skill") == skill))
            both = clustered_proportion(own["value"].to_numpy(), own["prompt_id"].to_numpy())
            seeds = [float(own.filter(pl.col("seed") == seed)["value"].mean()) for seed in SEEDS]
            cells[f"{fraction}/{skill}"] = {
                "value": both.value, "low": both.low, "high": both.high, "n": len(own), "seeds": seeds,
            }  # fmt: skip
    print(f"Accuracy in per cent (`revised`), two trainings each of {steps:,} steps, {PER_SKILL} prompts a skill:\n")
    print("| train scenes | object | count | spatial | mean |\n|---|---|---|---|---|")
    for fraction in FRACTIONS:
        own = [cells[f"{fraction}/{skill}"] for skill in SKILLS]
        mean = 100 * float(np.mean([c["value"] for c in own]))
        print(f"| {fraction:.0%} | " + " | ".join(map(words, own)) + f" | {mean:.1f} |")
    print("\n| difference from 100 % | object | count | spatial |\n|---|---|---|---|")
    differences = {(f, skill): difference(rows, f, skill) for f in FRACTIONS[1:] for skill in SKILLS}
    for fraction in FRACTIONS[1:]:
        shown = [interval_words(differences[fraction, skill]) for skill in SKILLS]
        print(f"| {fraction:.0%} | " + " | ".join(shown) + " |")
    print("\nPublished (ICCV 2023, Table 5):\n")
    print("| train images | model | object | count | spatial |\n|---|---|---|---|---|")
    for model, published in PUBLISHED.items():
        for fraction in FRACTIONS:
            print(f"| {fraction:.0%} | {model} | " + " | ".join(f"{v:.1f}" for v in published[fraction]) + " |")
    judges = api.open_run(out / name_of(1.0, 0) / f"run-{steps}").manifest.scoring.judges
    states = [state_of(out / name_of(f, s)) for f, s in trainings()]
    print(f"\njudge: {judges}\nstates: {json.dumps(states)}")
    record: dict[str, Any] = {"steps": steps, "judge": dict(judges), "cells": cells, "trainings": states}
    if as_json is not None:
        write_json(as_json, record)
    record["differences"] = differences
    if svg is not None:
        write_whole(svg, figure(cells, steps))
    return record


def words(cell: dict) -> str:
    seeds = ", ".join(f"{100 * v:.1f}" for v in cell["seeds"])
    return f"{100 * cell['value']:.1f} [{100 * cell['low']:.1f}, {100 * cell['high']:.1f}] ({seeds})"


def in_short(differences: dict[tuple[float, str], PairedDifference]) -> str:
    """Which accuracies differ from those with all scenes, in a sentence for each share."""
    sentences = []
    for fraction in FRACTIONS[1:]:
        apart = [
            f"{skill} by {interval_words(made)} points"
            for skill in SKILLS
            if (made := differences[fraction, skill]).low > 0 or made.high < 0
        ]
        sentences.append(
            f"with {fraction:.0%} of the scenes, "
            + (f"what differs from all of them is {' and '.join(apart)}" if apart else "no skill differs")
        )
    return "By intervals over prompts, for these two trainings each: " + "; ".join(sentences) + "."


def interval_words(made: PairedDifference) -> str:
    return f"{100 * made.difference:+.1f} [{100 * made.low:+.1f}, {100 * made.high:+.1f}]"


def difference(rows: pl.DataFrame, fraction: float, skill: str) -> PairedDifference:
    """As a share, over the same prompts and training seeds."""
    of = rows.filter(pl.col("skill") == skill)
    keys = ["prompt_id", "image_id", "seed"]
    whole = of.filter(pl.col("fraction") == 1.0).select(*keys, "value")
    part = of.filter(pl.col("fraction") == fraction).select(*keys, pl.col("value").alias("part"))
    both = whole.join(part, on=keys)
    return paired_difference(both["value"].to_numpy(), both["part"].to_numpy(), both["prompt_id"].to_numpy(), seed=0)


# -------------------------------------------------------------------------------------------------------------- figure
def figure(cells: dict[str, dict], steps: int) -> str:
    """A panel for each skill: share of the scenes across, accuracy up; ours with intervals, theirs as dashed lines."""
    width, height, gap, left, top = 200, 190, 34, 46, 42
    series = ("ours", *PUBLISHED)
    at = {0.1: 0.12, 0.5: 0.5, 1.0: 0.88}
    parts = []
    for number, skill in enumerate(SKILLS):
        x0 = left + number * (width + gap)

        def x(fraction: float, shift: float = 0.0, x0: float = x0) -> float:
            return x0 + width * at[fraction] + shift

        def y(percent: float) -> float:
            return top + height * (1 - percent / 100)

        parts.append(f'<text class="head" x="{x0}" y="{top - 12}">{skill}</text>')
        for percent in (0, 25, 50, 75, 100):
            parts.append(f'<path class="grid" d="M{x0} {y(percent):.1f}h{width}"/>')
            if number == 0:
                parts.append(f'<text x="{x0 - 8}" y="{y(percent) + 4:.1f}" text-anchor="end">{percent}</text>')
        for fraction in FRACTIONS:
            parts.append(
                f'<text x="{x(fraction):.1f}" y="{top + height + 18}" text-anchor="middle">{fraction:.0%}</text>'
            )
        for n, (model, published) in enumerate(PUBLISHED.items(), start=1):
            points = [(x(f, 4 * n - 2), y(published[f][number])) for f in reversed(FRACTIONS)]
            parts.append(f'<path class="line s{n}" d="M' + "L".join(f"{a:.1f} {b:.1f}" for a, b in points) + '"/>')
            for a, b in points:
                shape = (
                    f'<rect class="dot s{n}" x="{a - 3.5:.1f}" y="{b - 3.5:.1f}" width="7" height="7"/>'
                    if n == 1
                    else f'<path class="dot s{n}" d="M{a:.1f} {b - 5:.1f}l4.6 8h-9.2z"/>'
                )
                parts.append(f"{shape}<!-- {model} -->")
        own = [(f, cells[f"{f}/{skill}"]) for f in reversed(FRACTIONS)]
        parts.append(
            '<path class="line s0" d="M' + "L".join(f"{x(f, -6):.1f} {y(100 * c['value']):.1f}" for f, c in own) + '"/>'
        )
        for f, c in own:
            low, high = y(100 * c["low"]), y(100 * c["high"])
            parts.append(f'<path class="bar s0" d="M{x(f, -6):.1f} {low:.1f}V{high:.1f}"/>')
            parts.append(f'<circle class="dot s0" cx="{x(f, -6):.1f}" cy="{y(100 * c["value"]):.1f}" r="4.5"/>')
    bottom = top + height + 44
    total = max(left + len(SKILLS) * (width + gap), left + 510 + 250)
    legend = [f"built-in generator, {steps:,} steps (95 % intervals)", *(f"{m} (ICCV 2023)" for m in series[1:])]
    places = (left, left + 330, left + 510)
    for n, (words_, place) in enumerate(zip(legend, places, strict=True)):
        marks = (
            f'<circle class="dot s0" cx="{place + 5}" cy="{bottom - 4}" r="4.5"/>',
            f'<rect class="dot s1" x="{place + 1.5}" y="{bottom - 7.5}" width="7" height="7"/>',
            f'<path class="dot s2" d="M{place + 5} {bottom - 9}l4.6 8h-9.2z"/>',
        )
        parts.append(f'{marks[n]}<text x="{place + 16}" y="{bottom}">{words_}</text>')
    style = (
        "text{font:12.5px system-ui,sans-serif;fill:#333}.head{font-weight:600;font-size:14px}"
        ".grid{stroke:#8884;fill:none}.line{fill:none;stroke-width:1.6}.bar{stroke-width:2.2;fill:none}"
        ".s0{stroke:#0b6bcb}.dot.s0{fill:#0b6bcb}.s1{stroke:#b8540a}.dot.s1{fill:#b8540a}"
        ".s2{stroke:#5b7f3a}.dot.s2{fill:#5b7f3a}.line.s1,.line.s2{stroke-dasharray:4 3}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.s0{stroke:#6cb2ff}.dot.s0{fill:#6cb2ff}"
        ".s1{stroke:#f0a15b}.dot.s1{fill:#f0a15b}.s2{stroke:#a8cf84}.dot.s2{fill:#a8cf84}}"
    )
    label = "Accuracy by share of the train scenes: built-in generator with intervals, beside the published models"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {math.ceil(total)} {bottom + 14}" role="img" '
        f'aria-label="{label}"><title>{label}</title><style>{style}</style>{"".join(parts)}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("train", "evaluate", "table", "page"))
    parser.add_argument("--scenes", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.part == "train":
        train(args.scenes, args.out, args.rounds)
    elif args.part == "evaluate":
        evaluate(args.out)
    elif args.part == "table":
        table(args.out, args.svg, args.json)
    else:
        page(args.out, args.docs)


if __name__ == "__main__":
    main()
