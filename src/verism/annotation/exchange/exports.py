"""Files for others: a page that needs no server, a crowd platform, a labelling tool, or a plain table.

Every export shows the same questions under the same names, so answers from several of them fit together.
"""

from __future__ import annotations

import html
import json
import math
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from verism.annotation.exchange.material import (
    IMAGES,
    SIDES,
    Layout,
    Question,
    example_name,
    questions,
    study_key,
    url_of,
    write_images,
)
from verism.annotation.views import StudyView, keys_for
from verism.annotation.votes import VoteStore
from verism.errors import UsageError
from verism.files import csv_text, guarded, write_whole
from verism.metrics.colour import MONK_RGB
from verism.store import Run

__all__ = ["KINDS", "TABLE_COLUMNS", "export_study"]

KINDS = ("bundle", "mturk", "label-studio", "table")
TABLE_COLUMNS = ("item", "task", "question", "options", "pictures")
LOCAL_FILES = "/data/local-files/?d=pictures/{name}"  # where Label Studio finds files of a local storage
ITEMS_PER_HIT = 10


def export_study(
    store: VoteStore,
    runs: Sequence[Run],
    kind: str,
    out: Path,
    *,
    image_url: str | None = None,
    items_per_hit: int = ITEMS_PER_HIT,
) -> list[Path]:
    """Write a study for others to answer.

    Args:
        store: the study and its votes.
        runs: the study's, or some of them; others are opened where the study says they lie.
        kind: ``bundle`` (a folder with a page that collects answers without a server), ``mturk`` (templates and tables
            of Mechanical Turk, and of platforms that read the same), ``label-studio`` (tasks and configurations) or
            ``table`` (CSV).
        out: a folder, new or empty.
        image_url: where the images will lie, with ``{name}`` for the file's name. Needed for ``mturk``; Label Studio
            looks into its local storage without; pages and tables name files in the folder ``images`` without.
        items_per_hit: questions of a task (HIT) of Mechanical Turk, known answers not counted; there is one of these in
            each while the study has any.

    Returns:
        The files that were written for reading, and the folder of images.

    Raises:
        UsageError: an unknown kind, a folder that holds something, a missing address, or images that are not there.
    """
    if kind not in KINDS:
        raise UsageError(f"no export of kind {kind!r}; there are {', '.join(KINDS)}")
    if items_per_hit < 1:
        raise UsageError(f"items_per_hit must be at least 1, got {items_per_hit}")
    if kind == "mturk" and image_url is None:
        raise UsageError(
            "workers need images they can reach: give --image-url, such as 'https://me.example/{name}', and put the "
            "images there"
        )
    pattern = image_url or (LOCAL_FILES if kind == "label-studio" else f"{IMAGES}/{{name}}")
    url_of("", pattern)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} holds something already; name a new folder for the export")
    view = StudyView(store, runs)
    asked = questions(view)
    out.mkdir(parents=True, exist_ok=True)
    try:
        write_images(view, out / IMAGES, asked)
        if kind == "bundle":
            written = _bundle(store, asked, out, pattern)
        elif kind == "mturk":
            written = _mturk(asked, out, pattern, items_per_hit)
        elif kind == "label-studio":
            written = _label_studio(asked, out, pattern)
        else:
            written = _table(asked, out, pattern)
    except BaseException:
        shutil.rmtree(out)  # all of it or nothing; the folder was new or empty
        raise
    return [*written, out / IMAGES]


# ------------------------------------------------------------------------------------------------------------ the page
def _bundle(store: VoteStore, asked: Sequence[Question], out: Path, pattern: str) -> list[Path]:
    content = {
        "format": "verism study 1",
        "study": study_key(store),
        "layouts": {layout.name: _layout_record(layout, pattern) for layout in _layouts_of(asked)},
        "items": [
            {
                "item": q.key,
                "task": q.task,
                "layout": q.layout.name,
                "question": q.text,
                "pictures": [url_of(name, pattern) for name in q.images],
            }
            for q in asked
        ],
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    # Within a script element only "<" can end it; JSON allows the escape.
    page = _template("bundle.html").render(content=text.replace("<", "\\u003c"))
    return [_written(out / "index.html", page), _written(out / "items.json", text + "\n")]


def _layout_record(layout: Layout, pattern: str) -> dict[str, Any]:
    return {
        "kind": layout.kind,
        "options": list(layout.options),
        "keys": [] if layout.kind == "list" else keys_for(layout.options),
        "unit": layout.unit,
        "help": layout.help,
        "examples": dict(layout.examples),
        "examplePictures": {o: url_of(example_name(layout, o), pattern) for o in layout.example_images},
        "swatches": _swatches(layout),
    }


def _swatches(layout: Layout) -> dict[str, str]:
    """The colour of each tone's option, as CSS writes it."""
    if layout.kind != "tone":
        return {}
    colours = ["#" + "".join(f"{int(c):02x}" for c in rgb) for rgb in MONK_RGB]
    return dict(zip(layout.options, colours, strict=False))


# ------------------------------------------------------------------------------------------------------ Mechanical Turk
def _mturk(asked: Sequence[Question], out: Path, pattern: str, per_hit: int) -> list[Path]:
    written = []
    parts = []
    for layout in _layouts_of(asked):
        of_layout = [q for q in asked if q.layout == layout]
        hits = _hits(of_layout, per_hit)
        size = max(len(hit) for hit in hits)
        shown = max(len(q.images) for q in of_layout)
        names = SIDES[:2] if layout.unit == "pair" else tuple(f"image {i + 1}" for i in range(shown))
        page = _template("hit.html").render(
            layout=layout,
            size=size,
            names=names,
            swatches=_swatches(layout),
            example_urls={o: url_of(example_name(layout, o), pattern) for o in layout.example_images},
        )
        of_question = ("item", "question", *(f"picture{j}_" for j in range(shown)))
        columns = [f"{column}{i}" for i in range(size) for column in of_question]
        rows = [_hit_row(hit, pattern) for hit in hits]
        written.append(_written(out / f"{layout.name}.html", page))
        written.append(_written(out / f"{layout.name}.csv", _csv(columns, rows)))
        parts.append((layout.name, len(hits), size))
    guide = _template("mturk.md").render(parts=parts, images=IMAGES, pattern=pattern)
    return [*written, _written(out / "INSTRUCTIONS.md", guide)]


def _hits(asked: Sequence[Question], per_hit: int) -> list[list[Question]]:
    """So many questions at a time, each time with a known answer among them while there are any, by turns."""
    checks, proper = [q for q in asked if q.check], [q for q in asked if not q.check]
    if not proper:
        return [checks[i : i + per_hit] for i in range(0, len(checks), per_hit)]
    n_hits = math.ceil(len(proper) / per_hit)
    hits = [list(proper[i * per_hit : (i + 1) * per_hit]) for i in range(n_hits)]
    if checks:
        for number in range(max(n_hits, len(checks))):
            hit, check = hits[number % n_hits], checks[number % len(checks)]
            index = int(check.key[1:], 16) + number  # anywhere, but the same in every export
            hit.insert(index % (len(hit) + 1), check)
    return hits


def _hit_row(hit: Sequence[Question], pattern: str) -> dict[str, str]:
    row: dict[str, str] = {}
    for i, question in enumerate(hit):
        row[f"item{i}"] = question.key
        row[f"question{i}"] = _markup(question.text)
        row |= {f"picture{j}_{i}": _markup(url_of(name, pattern)) for j, name in enumerate(question.images)}
    return row


def _markup(text: str) -> str:
    """Text as it may stand in a page, in quotes, and in a cell: the platform puts cells into the page as they are."""
    escaped = " ".join(html.escape(text).split()).replace("$", "&#36;")
    return f"&#{ord(escaped[0])};{escaped[1:]}" if guarded(escaped) != escaped else escaped


# --------------------------------------------------------------------------------------------------------- Label Studio
def _label_studio(asked: Sequence[Question], out: Path, pattern: str) -> list[Path]:
    written = []
    groups: dict[tuple[str, int], list[Question]] = {}
    for question in asked:  # a configuration names every image, so it needs to know how many there are
        groups.setdefault((question.layout.name, len(question.images)), []).append(question)
    for (name, shown), of_group in groups.items():
        single = len({n for layout, n in groups if layout == name}) == 1
        stem = name if single else f"{name}-{shown}-pictures"
        tasks = [
            {
                "data": {
                    "item": q.key,
                    "task": q.task,
                    "question": q.text,
                    **{f"image{i}": url_of(image, pattern) for i, image in enumerate(q.images)},
                }
            }
            for q in of_group
        ]
        text = json.dumps(tasks, ensure_ascii=False, indent=1)
        written.append(_written(out / f"{stem}.json", text + "\n"))
        written.append(_written(out / f"{stem}.xml", _config(of_group[0].layout, shown, pattern)))
    return written


def _config(layout: Layout, shown: int, pattern: str) -> str:
    """A labelling configuration: the question, the images, and one answer."""
    lines = ["<View>", '  <Header value="$question"/>']
    if layout.help:
        lines.append(f'  <Header size="6" value={quoteattr(layout.help)}/>')
    for option, text in layout.examples.items():
        lines.append(f'  <Header size="6" value={quoteattr(f"{option}: {text}")}/>')
    for option in layout.example_images:
        name = example_name(layout, option)
        lines.append(f'  <Header size="6" value={quoteattr(f"{option}, for example:")}/>')
        lines.append(f"  <Image name={quoteattr(name.removesuffix('.png'))} value={quoteattr(url_of(name, pattern))}/>")
    if layout.unit == "pair":
        lines += [
            '  <Pairwise name="answer" toName="image0,image1"/>',
            '  <View style="display: flex;">',
            '    <View style="flex: 50%;"><Image name="image0" value="$image0"/></View>',
            '    <View style="flex: 50%;"><Image name="image1" value="$image1"/></View>',
            "  </View>",
            '  <Choices name="tie" toName="image0" choice="single" required="false">',
            '    <Choice value="tie" hotkey="t"/>',
            "  </Choices>",
        ]
        return "\n".join([*lines, "</View>", ""])
    lines.append('  <View style="display: flex; flex-wrap: wrap;">')
    width = "100%" if shown == 1 else "33%"
    for i in range(shown):
        lines.append(f'    <View style="width: {width};"><Image name="image{i}" value="$image{i}"/></View>')
    lines.append("  </View>")
    if layout.kind == "scale" and layout.options == tuple(str(i + 1) for i in range(len(layout.options))):
        lines.append(f'  <Rating name="answer" toName="image0" maxRating="{len(layout.options)}" required="true"/>')
    else:
        more = ' layout="select"' if layout.kind == "list" else ' showInline="true"'
        lines.append(f'  <Choices name="answer" toName="image0" choice="single" required="true"{more}>')
        swatches = _swatches(layout)
        keys = [""] * len(layout.options) if layout.kind == "list" else keys_for(layout.options)
        for option, hotkey in zip(layout.options, keys, strict=True):
            key = f' hotkey="{hotkey}"' if hotkey else ""
            if option in swatches:
                key += f' background="{swatches[option]}"'
            lines.append(f"    <Choice value={quoteattr(option)}{key}/>")
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


# ---------------------------------------------------------------------------------------------------------- plain table
def _table(asked: Sequence[Question], out: Path, pattern: str) -> list[Path]:
    rows = [
        {
            "item": q.key,
            "task": q.task,
            "question": q.text,
            "options": " | ".join(q.layout.options),
            "pictures": " | ".join(url_of(name, pattern) for name in q.images),
        }
        for q in asked
    ]
    return [_written(out / "items.csv", _csv(TABLE_COLUMNS, rows))]


def _csv(columns: Sequence[str], rows: Iterable[dict[str, str]]) -> str:
    return csv_text(columns, ([row.get(column, "") for column in columns] for row in rows))


def _layouts_of(asked: Sequence[Question]) -> list[Layout]:
    return list({q.layout.name: q.layout for q in asked}.values())


def _written(path: Path, text: str) -> Path:
    write_whole(path, text)
    return path


def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("verism.annotation.exchange", "pages"),
        autoescape=name.endswith(".html") and name != "bundle.html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = lambda text: Markup(_markup(text))
    return environment.get_template(name)
