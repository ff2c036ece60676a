"""What judges can be trusted with: every judge that comes with verism on the bench, beside baselines without any sense.

    python benchmarks/judges.py                      into a folder of its own, printed
    python benchmarks/judges.py --out BENCHES        into a folder that is gone on with
    python benchmarks/judges.py --write              and write docs/what-judges-can-be-trusted-with.md

The seed is one that nothing was trained or calibrated on. The baselines show what the numbers
of the bench are without any look at the image: one that sees nothing, one that answers by lot.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import tempfile
import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verism.judge_bench.bench import BenchSettings, Truth, run_bench
from verism.judge_bench.board import Board
from verism.judge_bench.disturbances import parse_disturbances
from verism.judge_bench.page import write_bench
from verism.judge_bench.words import RULE, bench_markdown, bench_text
from verism.records import Judge, LoadedImage, Need, frame
from verism.terminal import say

SEED = 90001
PAGE = Path(__file__).parent.parent / "docs" / "what-judges-can-be-trusted-with.md"
TABLES = PAGE.parent / "judge-tables"  # every row, as CSV files
BASELINE = "baseline: "
SHOWN = ("Tasks", "Disturbed images")  # tables of which the page has the rows of real judges; of others the sentences


class SeesNothing:
    """A detector that finds nothing in any image."""

    name = "baseline: sees nothing"
    threshold = 0.5

    def observe(self, images: Sequence[LoadedImage], need: Need) -> Any:
        return frame(need.table, [{"image_id": i.image_id, "judge": self.name, "query": -1} for i in images])


class DrawsVectors:
    """An image-text model whose vectors are drawn by lot."""

    name = "baseline: vectors by lot"

    def _vector(self, text: str) -> list[float]:
        return np.random.default_rng(zlib.crc32(text.encode())).standard_normal(64).tolist()

    def observe(self, images: Sequence[LoadedImage], need: Need) -> Any:
        rows = [{"image_id": i.image_id, "judge": self.name, "vector": self._vector(i.image_id)} for i in images]
        return frame(need.table, rows)

    def embed_texts(self, texts: Sequence[str]) -> Any:
        rows = [{"text": text, "judge": self.name, "vector": self._vector(text)} for text in texts]
        return frame("text_embeddings", rows)


class AnswersByLot:
    """A model of questions that says yes or no, or one of the choices, by lot."""

    name = "baseline: yes or no by lot"

    def observe(self, images: Sequence[LoadedImage], need: Any) -> Any:
        rows = []
        for image in images:
            for question in need.questions[image.prompt_id]:
                rng = np.random.default_rng(zlib.crc32(f"{image.image_id} {question.text}".encode()))
                choices = question.choices or ("yes", "no")
                value = choices[int(rng.integers(len(choices)))]
                rows.append(
                    {
                        "image_id": image.image_id,
                        "judge": self.name,
                        "question": question.text,
                        "answer": value,
                        "value": value,
                    }
                )
        return frame(need.table, rows)


class MiddleTone:
    """A judge of skin that says tone 5 of every image."""

    name = "baseline: always tone 5"

    def observe(self, images: Sequence[LoadedImage], need: Need) -> Any:
        rows = []
        for image in images:
            height, width = image.pixels.shape[:2]
            tones = dict.fromkeys(("tone", "tone_by_ita", "released_tone", "rgb_tone"), 5)
            box = {"x0": 0.0, "y0": 0.0, "x1": float(width), "y1": float(height)}
            state = {"face": 0, "score": 1.0, "state": "ok", "note": "not looked at"}
            rows.append({"image_id": image.image_id, "judge": self.name, **state, **box, **tones})
        return frame(need.table, rows)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A bench of the page.

    Attributes:
        role: of the judges.
        judges: names, and baselines.
        limit: images of each suite.
        disturb: what is done to the images besides.
        about: a sentence or two before the numbers.
    """

    role: str
    judges: tuple[str | Judge, ...]
    limit: int
    disturb: str = ""
    about: str = ""


PARTS = (
    Part(
        role="detector",
        judges=("builtin", SeesNothing()),
        limit=304,  # of each class of a task 38, so that one without any error is known to 91 %
        disturb="blur=2,jpeg=10,occlusion=0.25",
        about="Scenes in pairs, one of each with a planted error. A judge without detections rejects "
        "every wrong image, so neither rate suffices alone.",
    ),
    Part(
        role="clip",
        judges=("builtin", DrawsVectors()),
        limit=200,
        disturb="blur=2,jpeg=10",
        about="Scenes with two prompts of one form, of which one is wrong for the image.",
    ),
    Part(
        role="vqa",
        judges=("builtin", AnswersByLot()),
        limit=100,
        about="Questions about rendered people. The built-in judge never answers what asks for perceived gender.",
    ),
    Part(
        role="skin_tone",
        judges=("builtin", "builtin:colour=pixels", "cascade", MiddleTone()),
        limit=120,
        about="Rendered heads of all ten tones. Sensitivity and specificity are means over the tones.",
    ),
)

HEAD = """# What judges can be trusted with

The built-in judges, which need no external weights, on the [judge bench](judge-bench.md), beside baselines that ignore
the image. Made by `python benchmarks/judges.py --write`. Nothing was trained or calibrated on seed {seed}, but its
results were seen while the bench was developed, and the number of detector scenes was raised afterwards, so that a
lower end above 90 % is possible. Samples are small and intervals wide. For your own judges and more images:

```
{commands}
```

The commands also print speeds.

{rule}
"""


def command(part: Part) -> str:
    """The same bench as a command."""
    names = " ".join(f"--judge {judge!r}" for judge in part.judges if isinstance(judge, str)).replace("'", '"')
    disturb = f" --disturb {part.disturb}" if part.disturb else ""
    limit = f"--limit {part.limit}"
    return f"verism judge bench --role {part.role} {names} --truth rendered:{SEED} {limit}{disturb} --out {part.role}"


def section(part: Part, board: Board) -> tuple[str, dict[str, str]]:
    """What the page says of a role, and the CSV files of its tables by name."""
    notes = [f"* {judge.given}: {note}" for judge in board.judges for note in judge.notes]
    remarks = "\nRemarks of the judges:\n\n" + "\n".join(notes) + "\n" if notes else ""
    return shortened(part.role, f"{part.about}\n\n{bench_markdown(board, level=3, timing=False)}{remarks}")


def shortened(role: str, text: str) -> tuple[str, dict[str, str]]:
    """The section of a role without the rows of baselines and without long tables, which go to CSV files.

    Args:
        role: the role.
        text: introduction, sentences and tables, as ``bench_markdown`` writes them.
    """
    head, *tables = re.split(r"^### ", text.replace(f"{RULE}\n\n", ""), flags=re.MULTILINE)
    own = ("cannot be trusted", "gives no usable", "is not equally")  # what baselines are is known
    lines = [x for x in head.splitlines() if not (x.startswith(f"* {BASELINE}") and any(words in x for words in own))]
    parts, files, links = ["\n".join(lines).rstrip()], {}, []
    for table in tables:
        title, _, body = table.partition("\n")
        body, _, after = body.partition("\nRemarks of the judges:")
        rows = [[c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", x)[1:-1]] for x in body.splitlines()]
        rows = [row for row in rows if row and not set("".join(row)) <= {"-"}]
        name = f"{role}-{title.lower().replace(' ', '-')}.csv"
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(rows)
        files[name] = stream.getvalue()
        links.append(f"[{title.lower()}]({TABLES.name}/{name})")
        if title in SHOWN:
            kept = [line for line in body.splitlines() if not line.startswith(f"| {BASELINE}")]
            parts.append(f"### {title}\n" + "\n".join(kept).rstrip())
        if after:
            parts.append(f"Remarks of the judges:{after.rstrip()}")
    parts.insert(1, f"All rows, those of baselines too: {', '.join(links)}.")
    return f"\n## `{role}`\n\n" + "\n\n".join(parts) + "\n", files


def page(boards: Sequence[tuple[Part, Board]], before: str = "") -> tuple[str, dict[str, str]]:
    """The page of the docs, of all roles or ``before`` with the sections of some made anew; and its CSV files."""
    _, *rest = before.split("\n## `")
    sections = {text.partition("`")[0]: f"\n## `{text}" for text in rest}
    files: dict[str, str] = {}
    for part, board in boards:
        sections[part.role], tables = section(part, board)
        files |= tables
    text = HEAD.format(seed=SEED, commands="\n".join(command(part) for part in PARTS), rule=textwrap.fill(RULE, 120))
    return text + "".join(sections[part.role] for part in PARTS), files


def main() -> None:
    """Bench all, print the boards, and write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the benches, new or to go on with")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}, or its part on --role")
    parser.add_argument("--role", action="append", help="only this role")
    parser.add_argument("--limit", type=int, help="images of each suite, in place of the usual numbers")
    options = parser.parse_args()
    if options.write and options.limit:
        parser.error("--write takes the usual sizes")
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder)
        boards = []
        for part in PARTS:
            if options.role and part.role not in options.role:
                continue
            settings = BenchSettings(
                role=part.role,
                judges=part.judges,
                truth=Truth(seed=SEED),
                limit=options.limit or part.limit,
                disturbances=tuple(parse_disturbances(part.disturb)),
            )
            board = run_bench(settings, out / part.role, tell=say)
            write_bench(board, out / part.role)
            boards.append((part, board))
            print(bench_text(board))
        if options.write:
            before = PAGE.read_text(encoding="utf-8") if options.role else ""
            text, files = page(boards, before)
            PAGE.write_text(text, encoding="utf-8")
            TABLES.mkdir(exist_ok=True)
            for name, rows in files.items():
                (TABLES / name).write_text(rows, encoding="utf-8")


if __name__ == "__main__":
    main()
