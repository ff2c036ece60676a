"""Questions about images: how much looking at each image once saves, on a BLIP-2 of random weights.

    python benchmarks/vqa.py                    16 questions about each of 4 images, 5 beams, as for social bias
    python benchmarks/vqa.py --questions 1      with one question there is nothing to save
    python benchmarks/vqa.py --json

The vision network has the shape of a small ViT (384 wide, 12 blocks, 257 places), the language model is tiny: this is
the part that sharing saves, and how much of the whole that is depends on the model. ``repeated`` is the same
judge with the sharing switched off, which looks at the images again for every batch of questions. Both must give the
same answers, and probabilities equal to 1e-5. Seconds are the best of ``--repeats``, of processor time. Needs
``pip install 'verism[models]'``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from verism.judges.hub import HubOptions
from verism.judges.vqa.transformers_vqa import TransformersVqa
from verism.records import AnswerNeed, LoadedImage, Question

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import tiny_vision_language as tiny

VISION = {
    "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 12, "num_attention_heads": 6,
    "image_size": 224, "patch_size": 14,
}  # fmt: skip
REPLY = 4  # tokens: random weights never end a reply, trained ones say a word or two


def images(number: int) -> list[LoadedImage]:
    rng = np.random.default_rng(0)
    return [
        LoadedImage(image_id=f"p{i}#0", prompt_id=f"p{i}", pixels=rng.integers(0, 256, (256, 256, 3), dtype=np.uint8))
        for i in range(number)
    ]


def questions(number: int) -> tuple[Question, ...]:
    """Of several lengths, as the names of clothes are."""
    things = ("a dog", "a red dog", "the cat in the photo", "red")
    return tuple(Question(text=f"is there {things[i % len(things)]} ?") for i in range(number))


def measure(
    judge: TransformersVqa, shown: list[LoadedImage], need: AnswerNeed, repeats: int
) -> tuple[float, pl.DataFrame]:
    """Seconds of processor time, and the answers."""
    best, table = float("inf"), None
    for _ in range(repeats):
        began = time.process_time()
        table = judge.observe(shown, need)
        best = min(best, time.process_time() - began)
    assert table is not None
    return best, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    shown = images(options.images)
    need = AnswerNeed(questions={p.prompt_id: questions(options.questions) for p in shown}, weighed=True)
    asked = options.images * options.questions
    with tempfile.TemporaryDirectory() as folder:
        path = tiny.blip2(Path(folder) / "blip2", encoder_decoder=True, vision=VISION)
        judge = TransformersVqa(
            str(path), beams=options.beams, max_new_tokens=REPLY, hub=HubOptions(device="cpu", batch_size=8)
        )
        seconds, tables = {}, {}
        for name, shares in (("repeated", False), ("shared", True)):
            judge._model.shares_vision = shares
            seconds[name], tables[name] = measure(judge, shown, need, options.repeats)
    same = tables["shared"].drop("probability").equals(tables["repeated"].drop("probability")) and np.allclose(
        tables["shared"]["probability"], tables["repeated"]["probability"], rtol=1e-5
    )
    described = {
        "images": options.images,
        "questions": asked,
        "per_second": {name: asked / value for name, value in seconds.items()},
        "ratio": seconds["repeated"] / seconds["shared"],
        "same_answers": bool(same),
    }
    if options.json:
        print(json.dumps(described))
    else:
        print(f"{asked:,} questions about {options.images} images, {options.beams} beams")
        for name, value in seconds.items():
            print(f"{name:>10}: {value:6.2f} s of processor time, {asked / value:7.1f} questions a second")
        print(f"looking once is {described['ratio']:.1f} times as fast; same answers: {same}")
    if not same:
        raise SystemExit("the answers differ")


if __name__ == "__main__":
    main()
