"""A section of a report: what suites return, what the page is made of, and what a run keeps of its own suite's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from verism.errors import DamagedRun
from verism.store import Run

__all__ = ["Section", "section_records", "store_sections", "stored_sections", "table_section"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the page.

    Attributes:
        title: its heading.
        id: the anchor, unique on the page; letters, digits and hyphens.
        body: HTML below the heading; text from runs must be escaped in it, as the parts of the kit do.
        nav: as the navigation bar calls it; empty: as the heading does.
        by_protocol: whether it changes with the protocol; the heading then names the one that is shown.
        generic: whether the kit makes it from the scores of any suite, so that a run need not keep it.
        place: ``evidence``, or ``method`` for what says how the numbers came about: it follows all evidence.
    """

    title: str
    id: str
    body: Markup
    nav: str = ""
    by_protocol: bool = True
    generic: bool = False
    place: Literal["evidence", "method"] = "evidence"


def table_section(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    note: str = "",
    by_protocol: bool = False,
    place: Literal["evidence", "method"] = "evidence",
) -> Section:
    """A section with one table of words and numbers.

    Args:
        title: its heading; the anchor is made from it.
        columns: their names; the first is the name of a row.
        rows: shape (rows, columns), as text, which is escaped here.
        note: below the table.
        by_protocol: whether the numbers are those of one protocol.
        place: of the section.

    Raises:
        ValueError: a row with another number of cells than there are columns.
    """
    if any(len(row) != len(columns) for row in rows):
        raise ValueError(f"a table with the columns {list(columns)} needs {len(columns)} cells in each row")
    head = Markup().join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    lines = [
        Markup('<tr><th scope="row"><bdi>{}</bdi></th>{}</tr>').format(
            row[0], Markup().join(Markup("<td><bdi>{}</bdi></td>").format(cell) for cell in row[1:])
        )
        for row in rows
    ]
    body = Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0"><table class="dense"><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(title, head, Markup("\n").join(lines))
    if note:
        body += Markup('<p class="small">{}</p>').format(note)
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "table"
    return Section(title=title, id=f"own-{anchor}", body=body, by_protocol=by_protocol, place=place)


def store_sections(run: Run, sections: Sequence[Section]) -> None:
    """Keep a suite's sections in its run, for reports where the suite is not installed.

    Args:
        run: the run that they are about.
        sections: in order. Of generic ones only the place is kept.
    """
    run.write_scoring(sections=section_records(sections))


def section_records(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Sections as plain JSON, as a run keeps them.

    Args:
        sections: in order. Of generic ones only the place is kept.
    """
    return [
        {
            "title": s.title,
            "id": s.id,
            "html": "" if s.generic else str(s.body),
            "nav": s.nav,
            "by_protocol": s.by_protocol,
            "generic": s.generic,
            "place": s.place,
        }
        for s in sections
    ]


def stored_sections(run: Run) -> list[Section] | None:
    """The sections that ``store_sections`` kept, bodies of generic ones empty; None if it kept none.

    The page forbids all scripts but its own and all addresses but its own, whatever stands in the file.

    Raises:
        DamagedRun: what it kept is damaged.
    """
    records = run.sections()
    if records is None:
        return None
    try:
        return [
            Section(
                title=str(record["title"]),
                id=str(record["id"]),
                body=Markup(record["html"]),
                nav=str(record.get("nav", "")),
                by_protocol=bool(record.get("by_protocol", True)),
                generic=bool(record.get("generic", False)),
                place="method" if record.get("place") == "method" else "evidence",
            )
            for record in records
        ]
    except (ValueError, KeyError, TypeError) as err:
        raise DamagedRun.of(run.path, run.scoring_file("sections.json"), repr(err)) from err
