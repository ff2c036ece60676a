"""Every reader of files, with files that are damaged, hostile or of another kind: a sentence, or success.

``test_every_reader_is_tried_or_left_out_for_a_reason`` walks the package, so that a new reader cannot be forgotten.
"""

from __future__ import annotations

import ast
import csv
import importlib
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import verism
from verism.annotation.tasks import general_tasks
from verism.errors import VerismError
from verism.records import ReferenceImage, ReferenceSet
from verism.references import write_reference
from verism.suites.catalogue import make_suite

HOUSE = Path(verism.__file__).parent

# ---------------------------------------------------------------------------------------------------- what readers get
ROW = {
    "image_id": "p#0",
    "prompt_id": "p",
    "prompt": "a cat",
    "text": "a cat",
    "caption": "a cat",
    "references": "a",
    "file_path": "a.png",
    "index": "0",
    "question": "is there a cat?",
    "answer": "yes",
    "probability": "0.5",
    "item": "p#0",
    "task": "human",
    "check": "gold",
    "rater": "r",
    "label": "1",
    "attribute": "boots",
    "n": "2",
    "object": "bag",
    "country": "Kenya",
    "region": "Africa",
    "class": "woman",
    "share": "0.5",
    "model": "m",
    "setting": "s",
    "gender": "woman",
    "frequency": "1/2",
    "tuple": "1",
    "category": "entity",
    "dependency": "0",
    "id": "1",
    "choices": "yes|no",
    "axis": "gender",
    "target": "0.5",
    "group": "woman",
    "word": "nurse",
}
PROPOSITION = {
    "item_id": "a",
    "text": "a cat",
    "proposition_id": "1",
    "dependency": "0",
    "tuple": "entity - whole (cat)",
    "question_natural_language": "Is there a cat?",
}
GENAI = {"00000": {"id": "00000", "prompt": "a cat", "models": {"DALLE_3": [5, 4, 4]}}}
RELEASED_ANSWER = {
    "t2i_model": "m",
    "model_type": "m",
    "item_id": "a",
    "question": "Is there a cat?",
    "question_id": "1",
    "dependency_id": "0",
    "answer": "1",
}
TIFA_QUESTION = {
    "id": "a",
    "caption": "a cat",
    "question": "is there a cat?",
    "choices": ["yes", "no"],
    "answer": "yes",
    "element_type": "object",
}
COCO = {"annotations": [{"image_id": 1, "id": 1, "caption": "a cat"}, {"image_id": 2, "id": 2, "caption": "a dog"}]}
SCENES = {
    "data": [
        {
            "id": "object_val_00000",
            "skill": "object",
            "text": "a photo of a dog",
            "background": "plain",
            "objects": [{"shape": "dog", "color": "red", "texture": "pure", "scale": 1.0, "relation": None}],
        }
    ]
}
BOXES = {
    "images": [{"id": 0, "file_name": "image_object_val_00000.png"}],
    "annotations": [{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4]}],
}
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, float("nan"), 10**30, 10**400, "", " ", "x" * 300, "\x00", "\ud800", "=1", "é\u2028"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, "/dev/zero", "../../etc/passwd", "a\nb"),
)


def table(rows: Sequence[dict[str, Any]]) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode("utf-8", "surrogatepass")


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def changed(value: Any, rng: np.random.Generator) -> Any:
    """The same with one of its values, at any depth, replaced by a hostile one, or left out."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])

    result = pickle.loads(pickle.dumps(value))
    walk(result)
    if not places:
        return HOSTILE[rng.integers(len(HOSTILE))]
    node, key = places[rng.integers(len(places))]
    if rng.integers(5):
        node[key] = HOSTILE[rng.integers(len(HOSTILE))]
    else:
        del node[key]
    return result


def damaged(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Cut, flipped, overwritten and doubled bytes."""
    for _ in range(4):
        yield content[: rng.integers(len(content) + 1)]
        flipped = bytearray(content)
        for place in rng.integers(0, max(1, len(content)), 4):
            flipped[place : place + 1] = bytes([rng.integers(256)])
        yield bytes(flipped)
    yield content + content
    yield bytes(len(content))


# PyYAML looks a thousand brackets of a line ahead, which takes a second. All readers of YAML use the same two
# functions, which get these brackets; to the others each bracket comes on a line of its own.
DEEP = b"[" * 100_000
DEEP_LINES = b"[\n" * 100_000

# What no reader may fall over, whatever it expects.
EVERYTHING = (
    *(
        b"",
        b"\xef\xbb\xbf",
        b"\x00" * 50,
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{}",
        b"[[]]",
        b'"x"',
        b"7",
        b"NaN",
        b"\n\n",
    ),
    *(DEEP, b'{"a":' * 20_000, b"- " * 5_000, b"a: " * 2000, b"[" + b"9" * 5000 + b"]", b"[1e999]"),
    *(
        b'{"a": "\\ud800"}',
        b"a,a\n1,2\n",
        b"a\n" + b"x" * 200_000,
        b'a\n"unclosed',
        b"PK\x03\x04",
        b"PAR1PAR1",
        b"\x93NUMPY",
    ),
    *(b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }" + b" " * 50,),
)


@cache
def arrays() -> dict[str, bytes]:
    """Files of arrays that are right in themselves."""
    made = {}
    for name, array in {
        "plain": np.zeros((4, 3), np.float32),
        "texts": np.array(["a", "b"]),
        "complex": np.zeros((2, 2), np.complex128),
        "nan": np.full((4, 3), np.nan),
        "empty": np.zeros((0, 3)),
        "scalar": np.float64(1.0),
        "five": np.zeros((1, 1, 1, 1, 1)),
    }.items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        made[f"{name}.npy"] = buffer.getvalue()
        buffer = io.BytesIO()
        np.savez_compressed(buffer, features=array, mu=array, sigma=array, head=array, rows=array)
        made[f"{name}.npz"] = buffer.getvalue()
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    made["pickle.npy"] = buffer.getvalue()
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        other = io.BytesIO()
        with zipfile.ZipFile(other, "w", method) as archive:
            archive.writestr("features.npy", made["plain.npy"])
        made[f"method{method}.npz"] = other.getvalue()
        # The method's number alone, in both headers: one that nobody knows.
        unknown = bytearray(other.getvalue())
        unknown[8] = unknown[unknown.rindex(b"PK\x01\x02") + 10] = 99
        made[f"unknown{method}.npz"] = bytes(unknown)
        encrypted = bytearray(made["plain.npz"])
        encrypted[6] |= 1
        encrypted[encrypted.rindex(b"PK\x01\x02") + 8] |= 1
        made["encrypted.npz"] = bytes(encrypted)
    return made


@cache
def reference_file(folder: Path) -> bytes:
    path = folder / "reference.npz"
    images = tuple(ReferenceImage(image_id=f"r{n}", path=None, sha256=None, facets={}) for n in range(3))
    features = np.zeros((3, 2), np.float32)
    write_reference(path, ReferenceSet(source="s", images=images, judge="j", features=features), {})
    return path.read_bytes()


def image_file(format: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).save(buffer, format=format)
    return buffer.getvalue()


# -------------------------------------------------------------------------------------------------------- the readers
@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader, and the files it is tried on.

    Attributes:
        call: reads a file.
        base: a document or rows that it takes, or bytes.
        suffixes: of files it may be given.
        of_yaml: whether it is one of those that all others read YAML with.
    """

    call: Callable[[Path], Any]
    base: Any = None
    suffixes: tuple[str, ...] = (".csv", ".jsonl", ".json")
    of_yaml: bool = False


def resolved(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"verism.{module}"), function)


def plain(name: str, *more: Any, **named: Any) -> Callable[[Path], Any]:
    return lambda path: resolved(name)(path, *more, **named)


def with_option(name: str) -> Callable[[Path], Any]:
    return plain(f"cli._metric_files:{name}", "--real")


def in_layout(name: str, folder: str, *more: Any) -> Callable[[Path], Any]:
    """A reader of a data set's folder, in which the file is put where it belongs."""

    def call(path: Path) -> Any:
        root = path.parent / "layout"
        target = resolved("suites.paintskills.layout:" + folder)(root, "object", "val")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        return resolved(name)(root, *more)

    return call


def read_opened(path: Path) -> None:
    with resolved("arrays:open_arrays")(path) as opened:
        if not isinstance(opened, np.ndarray):
            dict(opened)


def read_calibration(path: Path) -> Any:
    from verism.judges.skin_tone.calibration import CALIBRATION

    return resolved("pipeline.calibration:read_truth")(path, CALIBRATION)


def data(name: str) -> Any:
    return json.loads((HOUSE / "data" / name).read_text(encoding="utf-8"))


@cache
def known() -> dict[str, Any]:
    """Studies, worlds and prompts that some readers need beside the file."""
    from verism.suites.gender_presentation.studies import standard_study as presentation
    from verism.suites.geography.worlds import standard_world
    from verism.suites.paintskills.vocabulary import version
    from verism.suites.social_bias.studies import standard_study
    from verism.suites.social_bias_v1.words import read_words

    return {
        "world": standard_world("geode").choose(objects=["bag", "car"]),
        "bias": standard_study(),
        "presentation": presentation("released"),
        "version": version("paintskills"),
        "words": read_words(Path("released")) if (HOUSE / "data" / "social_bias" / "words.json").exists() else None,
        "prompts": make_suite("social_bias", limit=4).prompts(),
    }


NPY = (".npy", ".npz")
DOCUMENT = (".json", ".yaml")


def read_compbench_prompts(path: Path) -> Any:
    folder = path.parent / "prompts"
    folder.mkdir(exist_ok=True)
    (folder / "color_val.txt").write_bytes(path.read_bytes())
    return resolved("suites.compbench.prompts:read_category")(folder, "color", "val")


def geneval_annotations() -> bytes:
    columns = [
        *("HITId", "Input.prompt_id", "Input.image_id", "Input.object_0_name", "Input.object_1_name"),
        *("Answer.task-count-0", "Answer.task-count-1", "Answer.task-color-0", "Answer.task-color-1"),
        *("Answer.task-position-x", "Answer.task-position-y"),
    ]
    return f"{','.join(columns)}\nH,0,0,bench,,1,,red|blue,,,\n".encode()


READERS: dict[str, Reader] = {
    "annotation.sampling:read_checks": Reader(
        call=lambda p: resolved("annotation.sampling:read_checks")(p, general_tasks()), base=[ROW]
    ),
    "annotation.tasks:read_tasks": Reader(
        call=plain("annotation.tasks:read_tasks"),
        base=[{"name": "t", "question": "is it {prompt}?", "options": ["yes", "no"], "unit": "image"}],
        suffixes=DOCUMENT,
    ),
    "arrays:open_arrays": Reader(call=read_opened, suffixes=NPY),
    "arrays:read_arrays": Reader(call=plain("arrays:read_arrays"), suffixes=NPY),
    "arrays:read_array": Reader(call=plain("arrays:read_array"), suffixes=NPY),
    "cards:read_card": Reader(
        call=plain("cards:read_card"), base=data("cards/skin_tone-cascade.json"), suffixes=(".json",)
    ),
    "cli._metric_files:read_array": Reader(call=with_option("read_array"), suffixes=NPY),
    "cli._metric_files:read_features": Reader(call=with_option("read_features"), suffixes=NPY),
    "cli._metric_files:read_features_or_statistics": Reader(
        call=with_option("read_features_or_statistics"), suffixes=NPY
    ),
    "cli._metric_files:read_pixels": Reader(
        call=with_option("read_pixels"), base=image_file("PNG"), suffixes=(".png",)
    ),
    "cli._metric_files:read_lines": Reader(call=with_option("read_lines"), base=b"a\nb\n", suffixes=(".txt",)),
    "cli._metric_files:read_clusters": Reader(
        call=plain("cli._metric_files:read_clusters", 2), base=b"a\nb\n", suffixes=(".txt",)
    ),
    "cli._metric_files:read_counts": Reader(
        call=with_option("read_counts"), base=b"prompt,a,b\np,1,2\n", suffixes=(".csv",)
    ),
    "cli._metric_files:read_frequencies": Reader(
        call=with_option("read_frequencies"), base=[ROW, ROW | {"gender": "man"}], suffixes=(".csv",)
    ),
    "cli._metric_files:read_references": Reader(call=with_option("read_references"), base=COCO, suffixes=(".json",)),
    "cli._metric_files:read_candidates": Reader(
        call=with_option("read_candidates"), base=COCO["annotations"], suffixes=(".json",)
    ),
    "files:read_text": Reader(call=plain("files:read_text"), base=b"text", suffixes=(".txt",)),
    "files:read_lines": Reader(call=plain("files:read_lines"), base=b"a\nb\n", suffixes=(".txt",)),
    "files:read_json": Reader(call=plain("files:read_json"), base=COCO, suffixes=(".json",)),
    "plans.document:read_document_lines": Reader(
        call=plain("plans.document:read_document_lines", "a plan"), base=COCO, suffixes=DOCUMENT, of_yaml=True
    ),
    "files:read_document": Reader(
        call=plain("files:read_document", "a study"), base=COCO, suffixes=DOCUMENT, of_yaml=True
    ),
    "files:read_rows": Reader(call=plain("files:read_rows"), base=[ROW]),
    "imaging:read_image": Reader(call=plain("imaging:read_image"), base=image_file("TIFF"), suffixes=(".tif", ".png")),
    "judges.captions.results:CaptionResults": Reader(call=plain("judges.captions.results:CaptionResults"), base=[ROW]),
    "judges.ocr.results:OcrResults": Reader(call=plain("judges.ocr.results:OcrResults"), base=[ROW]),
    "judges.preference.hpsv3:read_wording": Reader(
        call=plain("judges.preference.hpsv3:read_wording"),
        base=b'INSTRUCTION = "{text_prompt}"\nprompt_with_special_token = "<|Reward|>"\n',
        suffixes=(".py", ".txt"),
    ),
    "judges.preference.results:read_scores": Reader(
        call=plain("judges.preference.results:read_scores"), base=[ROW | {"score": 0.5, "scorer": "mine"}]
    ),
    "judges.vqa.results:AnswerResults": Reader(call=plain("judges.vqa.results:AnswerResults"), base=[ROW]),
    "judges.skin_tone.trust:read_basis": Reader(call=plain("judges.skin_tone.trust:read_basis"), suffixes=(".npz",)),
    "parquet:read_parquet": Reader(call=plain("parquet:read_parquet"), base=None, suffixes=(".parquet",)),
    "pipeline.calibration:read_truth": Reader(
        call=read_calibration, base=[ROW | {"path": "a.png", "tone": "3"}], suffixes=(".csv",)
    ),
    "references:read_reference": Reader(call=plain("references:read_reference"), suffixes=(".npz",)),
    "own_images:read_own_images": Reader(
        call=lambda p: resolved("own_images:read_own_images")(p, p.parent / "unpacked"),
        base=[{"path": "a.png", "prompt": "a cat"}],
        suffixes=(".csv", ".jsonl"),
    ),
    "references:read_provenance": Reader(call=plain("references:read_provenance"), suffixes=(".npz",)),
    "references:read_radii": Reader(call=plain("references:read_radii"), suffixes=(".npz",)),
    "simulator.environments:read_radiance": Reader(
        call=plain("simulator.environments:read_radiance"),
        base=b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 2 +X 2\n" + bytes(16),
        suffixes=(".hdr",),
    ),
    "simulator.user_assets:load_model": Reader(
        call=plain("simulator.user_assets:load_model"), base=b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", suffixes=(".obj",)
    ),
    "suites.alignment.captions:read_annotations": Reader(
        call=plain("suites.alignment.captions:read_annotations"), base=COCO, suffixes=(".json",)
    ),
    "suites.alignment.questions:read_questions": Reader(
        call=plain("suites.alignment.questions:read_questions"), base=[ROW]
    ),
    "suites.dpg_bench.benchmark:read_file": Reader(
        call=plain("suites.dpg_bench.benchmark:read_file"), base=[PROPOSITION], suffixes=(".csv", ".jsonl")
    ),
    "suites.dsg.benchmark:read_file": Reader(
        call=plain("suites.dsg.benchmark:read_file"), base=[PROPOSITION], suffixes=(".csv", ".jsonl")
    ),
    "suites.dsg.human_labels:read_answers": Reader(
        call=plain("suites.dsg.human_labels:read_answers"), base=[RELEASED_ANSWER], suffixes=(".csv", ".jsonl")
    ),
    "suites.dsg.human_labels:read_ratings": Reader(
        call=plain("suites.dsg.human_labels:read_ratings"), base=[RELEASED_ANSWER], suffixes=(".csv", ".jsonl")
    ),
    "suites.gender_presentation.labels:read_votes": Reader(
        call=lambda p: resolved("suites.gender_presentation.labels:read_votes")([p], known()["presentation"]),
        base=[ROW],
    ),
    "suites.gender_presentation.labels:read_labels": Reader(
        call=lambda p: resolved("suites.gender_presentation.labels:read_labels")(p, known()["presentation"]), base=[ROW]
    ),
    "suites.gender_presentation.labels:read_label_array": Reader(
        call=lambda p: resolved("suites.gender_presentation.labels:read_label_array")(p, known()["presentation"]),
        suffixes=NPY,
    ),
    "suites.gender_presentation.studies:read_study": Reader(
        call=plain("suites.gender_presentation.studies:read_study"),
        base=data("gender_presentation/released.json"),
        suffixes=DOCUMENT,
    ),
    "suites.gender_presentation.user_images:read_user_images": Reader(
        call=lambda p: resolved("suites.gender_presentation.user_images:read_user_images")(p, known()["presentation"]),
        base=[ROW],
    ),
    "suites.geography.layouts:read_real": Reader(
        call=lambda p: resolved("suites.geography.layouts:read_real")(p, known()["world"]), base=[ROW]
    ),
    "suites.geography.user_images:read_user_images": Reader(
        call=lambda p: resolved("suites.geography.user_images:read_user_images")(p, known()["world"]), base=[ROW]
    ),
    "suites.geography.worlds:read_world": Reader(
        call=plain("suites.geography.worlds:read_world"), base=data("geography/geode.json"), suffixes=DOCUMENT
    ),
    "suites.compbench.phrases:read_phrases": Reader(
        call=plain("suites.compbench.phrases:read_phrases"),
        base=[{"prompt": "p", "phrases": ["a cup"], "objects": ["a", "b"], "without_adjectives": "p", "parser": "q"}],
        suffixes=(".jsonl", ".csv"),
    ),
    "suites.compbench.prompts:read_category": Reader(
        call=read_compbench_prompts, base=b"a red cup\na blue cup\n", suffixes=(".txt",)
    ),
    "suites.geneval.human_labels:read_annotations": Reader(
        call=plain("suites.geneval.human_labels:read_annotations"), base=geneval_annotations(), suffixes=(".csv",)
    ),
    "suites.geneval.layout:read_results": Reader(
        call=plain("suites.geneval.layout:read_results"),
        base=[{"filename": "a", "tag": "colors", "prompt": "p", "correct": True, "metadata": "{}"}],
        suffixes=(".jsonl",),
    ),
    "suites.geneval.prompts:read_metadata": Reader(
        call=plain("suites.geneval.prompts:read_metadata"),
        base=[{"tag": "colors", "include": [{"class": "dog", "count": 1, "color": "red"}], "prompt": "p"}],
        suffixes=(".jsonl",),
    ),
    "suites.geneval2.questions:read_asked": Reader(
        call=plain("suites.geneval2.questions:read_asked"),
        base=[{"prompt": "p", "atom_count": 1, "vqa_list": [["q", "Yes"]], "skills": ["object"]}],
        suffixes=(".jsonl",),
    ),
    "suites.oneig_alignment.benchmark:read_prompts": Reader(
        call=plain("suites.oneig_alignment.benchmark:read_prompts"),
        base=[{"category": "Portrait", "id": "000", "prompt_en": "a man"}],
        suffixes=(".csv", ".jsonl"),
    ),
    "suites.oneig_alignment.benchmark:read_questions": Reader(
        call=plain("suites.oneig_alignment.benchmark:read_questions"),
        base={"000": {"question": '{"1": "Is there a man?"}', "dependency": '{"1": [0]}'}},
        suffixes=(".json",),
    ),
    "suites.genai_bench.benchmark:read_prompts": Reader(
        call=plain("suites.genai_bench.benchmark:read_prompts"), base=GENAI, suffixes=(".json",)
    ),
    "suites.genai_bench.benchmark:read_skills": Reader(
        call=plain("suites.genai_bench.benchmark:read_skills"), base={"scene": [0, "1"]}, suffixes=(".json",)
    ),
    "suites.genai_bench.ratings:read_ratings": Reader(
        call=lambda p: resolved("suites.genai_bench.ratings:read_ratings")(p, ["00000"], "DALLE_3"),
        base=GENAI,
        suffixes=(".json",),
    ),
    "suites.tifa.benchmark:read_questions": Reader(
        call=plain("suites.tifa.benchmark:read_questions"), base=[TIFA_QUESTION], suffixes=(".json",)
    ),
    "suites.tifa.benchmark:read_image_map": Reader(
        call=lambda p: resolved("suites.tifa.benchmark:read_image_map")(p, ()), base={"a": "a.png"}, suffixes=(".json",)
    ),
    "suites.tifa.human_labels:read_ratings": Reader(
        call=plain("suites.tifa.human_labels:read_ratings"),
        base={"a_m": {"text_id": "a", "human_scores": [4, 5], "tifa_x": 0.5}},
        suffixes=(".json",),
    ),
    "suites.unsafe_content.prompt_file:read_prompts": Reader(
        call=plain("suites.unsafe_content.prompt_file:read_prompts"),
        base=[{"prompt": "a cat", "categories": "hate, violence", "hard": 1, "prompt_toxicity": 0.5}],
        suffixes=(".csv", ".jsonl"),
    ),
    "suites.wise.benchmark:read_prompts": Reader(
        call=lambda p: resolved("suites.wise.benchmark:read_prompts")(
            p, "verified", resolved("suites.wise.benchmark:our_wording")("verified")
        ),
        base=[{"prompt_id": 1, "Prompt": "a cat", "Explanation": "a cat"}],
        suffixes=(".json",),
    ),
    "suites.wise.benchmark:read_wording": Reader(
        call=plain("suites.wise.benchmark:read_wording"), base=b"Look at {prompt}: {explanation}", suffixes=(".txt",)
    ),
    "suites.unigenbench.benchmark:read_points": Reader(
        call=plain("suites.unigenbench.benchmark:read_points"),
        base=[{"index": "0", "prompt_en": "a", "sub_dims_en": '{"Testpoints": ["S"], "Testpoint Description": ["d"]}'}],
        suffixes=(".csv", ".jsonl"),
    ),
    "suites.unigenbench.benchmark:read_results": Reader(
        call=plain("suites.unigenbench.benchmark:read_results"),
        base=[{"index": "0", "result_json": '{"testpoint": ["S"], "score": [1]}', "img_path": "0_0.png"}],
        suffixes=(".csv", ".jsonl"),
    ),
    "suites.paintskills.layout:read_scenes": Reader(
        call=lambda p: in_layout("suites.paintskills.layout:read_scenes", "scenes_path", known()["version"], "val")(p),
        base=SCENES,
        suffixes=(".json",),
    ),
    "suites.paintskills.layout:read_boxes": Reader(
        call=in_layout("suites.paintskills.layout:read_boxes", "boxes_path", "object", "val"),
        base=BOXES,
        suffixes=(".json",),
    ),
    "suites.preference.choices:read_choices": Reader(
        call=plain("suites.preference.choices:read_choices"),
        base=[{"prompt": "a cat", "generations": ["1.png", "2.png"], "ranking": [1, 2]}],
        suffixes=(".json", ".jsonl"),
    ),
    "suites.preference.prompts:read_prompts": Reader(
        call=plain("suites.preference.prompts:read_prompts"), base=[ROW], suffixes=(".csv", ".jsonl", ".txt")
    ),
    "suites.preference.prompts:style_prompts": Reader(
        call=plain("suites.preference.prompts:style_prompts"), base=["a cat"], suffixes=(".json",)
    ),
    "suites.preference.prompts:matched_images": Reader(
        call=lambda p: resolved("suites.preference.prompts:matched_images")(p, {"a": "x"}, "--images"), base=[ROW]
    ),
    "suites.prompt_lists:read_prompt_list": Reader(
        call=plain("suites.prompt_lists:read_prompt_list"), base=[ROW], suffixes=(".csv", ".jsonl", ".json", ".txt")
    ),
    "suites.quality.image_sets:open_reference": Reader(
        call=plain("suites.quality.image_sets:open_reference"), base=[ROW], suffixes=(".csv", ".jsonl", *NPY)
    ),
    "suites.social_bias.studies:read_study": Reader(
        call=plain("suites.social_bias.studies:read_study"), base=data("social_bias/released.json"), suffixes=DOCUMENT
    ),
    "suites.social_bias.targets:read_targets": Reader(
        call=lambda p: resolved("suites.social_bias.targets:read_targets")(p, known()["bias"]), base=[ROW]
    ),
    "suites.social_bias.user_images:read_user_images": Reader(
        call=lambda p: resolved("suites.social_bias.user_images:read_user_images")(p, known()["prompts"]), base=[ROW]
    ),
    "suites.social_bias_v1.words:read_words": Reader(
        call=plain("suites.social_bias_v1.words:read_words"),
        base=data("social_bias/first.json"),
        suffixes=(*DOCUMENT, ".csv"),
    ),
    "suites.text_rendering.prompt_sets:read_longtext": Reader(
        call=plain("suites.text_rendering.prompt_sets:read_longtext", "en"),
        base=[{"prompt_id": 1, "category": "sign", "length": "short", "prompt": "p", "text": ["a b"]}],
        suffixes=(".jsonl",),
    ),
    "suites.text_rendering.prompt_sets:read_cvtg_file": Reader(
        call=plain("suites.text_rendering.prompt_sets:read_cvtg_file", "CVTG", 2),
        base={"data_list": [{"index": 0, "prompt": "a 'b' and 'c'", "carrier_list": [], "sentence_list": []}]},
        suffixes=(".json",),
    ),
    "suites.text_rendering.prompt_sets:read_oneig_texts": Reader(
        call=plain("suites.text_rendering.prompt_sets:read_oneig_texts"),
        base=[{"id": "000", "text_content": "a b"}],
        suffixes=(".csv",),
    ),
    "suites.text_rendering.prompt_sets:read_oneig_prompts": Reader(
        call=plain("suites.text_rendering.prompt_sets:read_oneig_prompts", {"000": "a b"}, "en"),
        base=[
            {
                "category": "Text_Rendering",
                "id": "000",
                "prompt_en": "p",
                "type": "T",
                "prompt_length": "short",
                "class": "text",
            }
        ],
        suffixes=(".csv",),
    ),
    "user_images:read_image_table": Reader(call=plain("user_images:read_image_table", "prompt_id"), base=[ROW]),
}
# Readers that are not tried here, and why.
LEFT_OUT = {
    "suites.compbench.layout:read_images": "a folder, of which names alone are read",
    "suites.geneval.layout:read_folders": "a folder; its files are read by read_metadata",
    "suites.questions.proposition_files:read_propositions": "read_file of its suites is tried",
    "files:open_regular": "raises OSError, which its callers tell of",
    "files:read_regular": "raises OSError, which its callers tell of",
    "imaging:open_image": "raises what decoders raise; read_image makes a state of it",
    "metrics.frechet:read_statistics": "raises ValueError; read_features_or_statistics is tried",
    "judges.detection.detr_original:read_checkpoint": "torch checkpoints: tests/judges/test_detr_original.py",
    "judges.detection.detr_original:load_detr": "torch checkpoints: tests/judges/test_detr_original.py",
    "judges.features.inception:load_inception": "torch checkpoints: tests/judges/test_features_inception.py",
    "judges.features.weights:read_tensors": "torch checkpoints: tests/judges/test_features_weights.py",
    "judges.skin_tone.trust:load_encoder": "torch checkpoints: tests/judges/skin_tone/test_trust.py",
    "training._checkpoints:read_header": "checkpoints of a training of one's own",
    "training._checkpoints:load_state": "checkpoints of a training of one's own",
    "training._checkpoints:read_settings": "checkpoints of a training of one's own",
    "training._finetuning_learner:read_pixels": "asks read_image",
    "training.generator_autoencoders:load_autoencoders": "checkpoints of a training of one's own",
    "training.scene_arrays:load_scene_arrays": "folders that `verism scenes render` wrote",
    "training.scene_layers:load_layers": "folders that `verism scenes render` wrote",
    "simulator.user_assets:load_assets": "a folder; load_model is tried",
    "suites.gender_presentation.labels:read_vote_files": "read_votes is tried",
    "suites.social_bias_v1.people:read_labels": "read_rows, tried, and the axes of a word list",
    "suites.social_bias_v1.prompts:read_user_images": "read_image_table is tried",
    "suites.quality.image_sets:list_images": "open_reference is tried",
    "api:open_run": "run directories: tests/test_store.py",
    "plans.status:read_rows": "a folder; read_json is tried",
    "judge_bench.bench:read_bench": "a folder that `verism judge bench` wrote; read_json and read_parquet are tried",
    "training.embedder_examples:load_examples": "folders that `verism train embedder` wrote",
    "training._example_chunks:read_chunks": "folders that `render_chunks` wrote",
    "training.face_examples:load_faces": "folders that `verism train faces` wrote",
    "store.scorings:read_scoring": "run directories: tests/test_verification.py",
}


def readers_of_the_package() -> set[str]:
    """Public functions by whose name and first argument they read a file."""
    found = set()
    for path in sorted(HOUSE.rglob("*.py")):
        module = ".".join(path.relative_to(HOUSE).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if re.search(r"^def (read|load|open|import)_", text, re.MULTILINE) else ():
            if isinstance(node, ast.FunctionDef) and node.name.startswith(("read_", "load_", "open_", "import_")):
                arguments = [*node.args.posonlyargs, *node.args.args]
                if any(a.annotation is not None and "Path" in ast.unparse(a.annotation) for a in arguments[:1]):
                    found.add(f"{module.removesuffix('.__init__')}:{node.name}")
    return found


def test_every_reader_is_tried_or_left_out_for_a_reason():
    found = readers_of_the_package()
    assert len(found) > 40
    assert sorted(found - set(READERS) - set(LEFT_OUT)) == []


def files_for(reader: Reader, rng: np.random.Generator, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Contents, each with the suffix it is given."""
    for suffix in reader.suffixes:
        base = reader.base
        if suffix in NPY:
            contents = [content for name, content in arrays().items() if name.endswith(suffix)]
            contents.append(reference_file(folder) if suffix == ".npz" else contents[0])
        elif isinstance(base, bytes):
            contents = [base]
        elif base is None:
            contents = []
        elif suffix == ".csv":
            rows = base if isinstance(base, list) else [ROW]
            contents = [table(rows)]
            for _ in range(40):
                row = dict(rows[0])
                row[list(row)[rng.integers(len(row))]] = str(HOSTILE[rng.integers(len(HOSTILE))])[:1000]
                contents.append(table([*rows, row]))
            contents.append(table([{name: value for name, value in rows[0].items() if rng.integers(2)} or ROW]))
        elif suffix in (".jsonl", ".txt"):
            contents = [as_json(row) + b"\n" for row in (base, *(changed(base, rng) for _ in range(40)))]
            contents += [b"\n".join(as_json(changed(ROW, rng)) for _ in range(3)) for _ in range(10)]
        else:  # JSON is YAML, too
            contents = [as_json(base), *(as_json(changed(base, rng)) for _ in range(60 if suffix == ".json" else 10))]
        yield from ((suffix, content) for content in contents)
        for content in contents[:1]:
            yield from ((suffix, broken) for broken in damaged(content, rng))
        lines = suffix == ".yaml" and not reader.of_yaml
        yield from ((suffix, DEEP_LINES if lines and content is DEEP else content) for content in EVERYTHING)


@pytest.mark.filterwarnings("ignore")  # what numpy, trimesh and Pillow remark about damaged files
@pytest.mark.parametrize("name", sorted(READERS))
def test_reader_tells_of_damaged_files_in_a_sentence(tmp_path, name):
    reader, rng = READERS[name], np.random.default_rng(14)
    tried = 0
    for number, (suffix, content) in enumerate(files_for(reader, rng, tmp_path)):
        path = tmp_path / f"file{number}{suffix}"
        path.write_bytes(content)
        tried += 1
        try:
            reader.call(path)
        except VerismError as err:
            said = str(err)
            assert said.strip(), name
            assert len(said) < 5000, said[:200]
        except BaseException as err:
            kept = content if len(content) < 400 else content[:200] + b" ... " + content[-200:]
            raise AssertionError(f"{name}, {suffix}: {type(err).__name__}: {str(err)[:300]}\n{kept!r}") from err
        path.unlink()
    assert tried >= 25
