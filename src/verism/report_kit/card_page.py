"""A judge card as people read it: in words, as text, and as one HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from verism.cards import JudgeCard, Measured, main_tables
from verism.records import PROTOCOLS
from verism.report_kit.figures import environment
from verism.report_kit.maps import CountCell, count_map
from verism.report_kit.words import UNDEFINED
from verism.statistics.intervals import wilson

__all__ = ["CardView", "TableView", "card_line", "card_text", "confusion_map", "view_of", "write_card_page"]

ORDER = ("revised", *(p for p in PROTOCOLS if p != "revised"))
KINDS = {
    "rendered": "rendered images",
    "human": "images labelled by people",
    "model": "images labelled by a model",
}
MANY = 6  # classes of a table from which on it takes the whole width
FEW = 30  # items of a class below which its rates are hardly known
LIMITS = {
    "rendered": "The content of rendered images is known. Generated images look different, and are wrong in other "
    "ways: there the judge may err more.",
    "model": "The labels are a model's, not people's: its mistakes count as the judge's errors, and mistakes that both "
    "make do not.",
    "human": "People err and disagree, too: part of what counts as the judge's error is theirs.",
}
ANY_CARD = (
    "It holds for this judge with these settings and rules, and for images like those it was measured on.",
    "Intervals (95 %, Wilson) take items for independent; errors that come together in a prompt make them too narrow.",
)


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """How a judge does on one class: of the items of it that it is ``found`` in; of the others, ``not_claimed`` in."""

    label: str
    n: int
    found: str
    not_claimed: str
    unusable: int


@dataclass(frozen=True, kw_only=True)
class TableView:
    """A table of a card in words.

    Attributes:
        task: name of the task.
        protocol: name of the protocol.
        group: the group in words; ``all`` if it holds every item.
        n: number of items with an answer.
        unusable: number of items without a usable answer.
        accuracy: share of right answers with its confidence interval, as text.
        auc: area under the ROC curve, as text; empty if there are no scores.
        rows: class by class.
        heat: the confusion table as a figure.
    """

    task: str
    protocol: str
    group: str
    n: int
    unusable: int
    accuracy: str
    auc: str
    rows: Sequence[ClassRow]
    heat: Markup


@dataclass(frozen=True, kw_only=True)
class CardView:
    """A card as it is shown: tables about all items first, those of single groups beside them."""

    card: JudgeCard
    line: str
    kind: str
    main: Sequence[TableView]
    finer: Sequence[TableView]
    limits: Sequence[str]
    made: Sequence[tuple[str, str]]

    @property
    def broad(self) -> bool:
        """Whether its tables have so many classes that two do not fit beside each other."""
        return any(len(table.rows) > MANY for table in self.main)


# -------------------------------------------------------------------------------------------------------------- numbers
def _rate(hits: int, n: int) -> str:
    """A share in per cent with its interval; a dash for none."""
    if n == 0:
        return UNDEFINED
    result = wilson(hits, n)
    return f"{100 * result.value:.1f} [{100 * result.low:.1f}, {100 * result.high:.1f}]"


def _rows(m: Measured) -> list[ClassRow]:
    total = sum(map(sum, m.counts))
    rows = []
    for k, label in enumerate(m.labels):
        n = sum(m.counts[k])
        claimed = sum(row[k] for row in m.counts) - m.counts[k][k]
        rows.append(
            ClassRow(
                label=label,
                n=n,
                found=_rate(m.counts[k][k], n),
                not_claimed=_rate(total - n - claimed, total - n),
                unusable=m.unusable[k] if m.unusable else 0,
            )
        )
    return rows


def _right(m: Measured) -> int:
    return sum(m.counts[k][k] for k in range(len(m.labels)))


def _area(m: Measured) -> str:
    if len({true for true, _ in m.scores}) < 2:
        return ""
    from verism.statistics.association import auc

    estimate = auc([score for _, score in m.scores], [true for true, _ in m.scores], n_resamples=500, seed=0)
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _pooled(tables: Sequence[Measured]) -> Measured | None:
    """Tables of the same classes as one; None if their classes differ."""
    first = tables[0]
    if any(m.labels != first.labels for m in tables):
        return None
    k = range(len(first.labels))
    return Measured(
        task=first.task,
        protocol=first.protocol,
        labels=first.labels,
        counts=tuple(tuple(sum(m.counts[i][j] for m in tables) for j in k) for i in k),
        unusable=tuple(sum(m.unusable[i] if m.unusable else 0 for m in tables) for i in k),
    )


def card_line(card: JudgeCard) -> str:
    """What a card says, in one line: by task, of the protocol to compare models with where there is such a table."""
    parts = []
    main = main_tables(card)
    for task in dict.fromkeys(m.task for m in main):
        owner = [m for m in main if m.task == task]
        protocol = next((p for p in ORDER if any(m.protocol == p for m in owner)), owner[0].protocol)
        m = _pooled([m for m in owner if m.protocol == protocol])
        if m is None:
            continue
        n, lost = sum(map(sum, m.counts)), sum(m.unusable)
        words = f"{task}, {protocol} protocol: {_rate(_right(m), n)} % of {n:,} items right"
        rows = _rows(m)
        if len(rows) == 2:
            label = rows[1].label
            words += f", sensitivity for “{label}” {rows[1].found} %, specificity {rows[1].not_claimed} %"
        else:
            results = [m.counts[k][k] / row.n for k, row in enumerate(rows) if row.n]
            words += f", classes found in {100 * min(results):.0f} to {100 * max(results):.0f} %" if results else ""
        parts.append(words + (f", {lost:,} unusable" if lost else ""))
    return "; ".join(parts) or "no table of all items"


def _group(m: Measured) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in m.group.items()) or "all"


def _table(m: Measured) -> TableView:
    n = sum(map(sum, m.counts))
    return TableView(
        task=m.task,
        protocol=m.protocol,
        group=_group(m),
        n=n,
        unusable=sum(m.unusable),
        accuracy=_rate(_right(m), n),
        auc=_area(m),
        rows=_rows(m),
        heat=confusion_map(m),
    )


def view_of(card: JudgeCard) -> CardView:
    """A card with everything that is said about it."""
    main = main_tables(card)
    finer = [m for m in card.measured if not any(m is other for other in main)]

    return CardView(
        card=card,
        line=card_line(card),
        kind=KINDS[card.kind],
        main=[_table(m) for m in sorted(main, key=_by_protocol)],
        finer=[_table(m) for m in sorted(finer, key=_by_protocol)],
        limits=[LIMITS[card.kind], *ANY_CARD, *_few(main)],
        made=list(_flat(card.made)),
    )


def _few(main: Sequence[Measured]) -> list[str]:
    rare = list(dict.fromkeys(label for m in main for label, row in zip(m.labels, m.counts) if sum(row) < FEW))
    return [f"Fewer than {FEW} items of {', '.join(rare)} in a table: their rates are rough."] if rare else []


def _flat(record: Mapping[str, Any], name: str = "") -> Iterable[tuple[str, str]]:
    for key, value in record.items():
        full = f"{name}.{key}" if name else str(key)
        if isinstance(value, Mapping):
            yield from _flat(value, full)
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for number, part in enumerate(value, start=1):
                yield from _flat(part, f"{full} {number}")
        else:
            yield full, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --------------------------------------------------------------------------------------------------------------- figure
def confusion_map(m: Measured) -> Markup:
    """True classes (rows) and what the judge says (columns), as counts, coloured by their share of the row."""
    lost = any(m.unusable)
    columns = [*m.labels, "unusable"] if lost else list(m.labels)
    rows = []
    for i, label in enumerate(m.labels):
        counts = [*m.counts[i], *([m.unusable[i]] if lost else [])]
        full = sum(counts)
        cells = []
        for j, count in enumerate(counts):
            share = count / full if full else 0.0
            text = f"truly {label}, judged {columns[j]}: {count:,} of {full:,}"
            text += f", {100 * share:.1f} %" if full else ""
            cells.append(CountCell(shown=f"{count:,}" if count else "·", share=share, tooltip=text, diagonal=i == j))
        rows.append(cells)
    return count_map(
        head="the judge predicts",
        rows=[f"truly {label}" for label in m.labels],
        columns=columns,
        cells=rows,
        label=f"Judgements of {m.task} by true class, {m.protocol}, {_group(m)}",
    )


# ---------------------------------------------------------------------------------------------------------------- pages
def card_text(card: JudgeCard) -> str:
    """A card as plain text for a terminal: what it is, tables of all items, accuracy by group, limits."""
    view = view_of(card)
    lines = [
        f"judge: {card.judge} ({card.role})",
        f"measured on {view.kind}: {card.ground_truth}",
        view.line,
        "rates in % with 95 % intervals; -: no usable answer",
        "",
    ]
    for table, m in zip(view.main, sorted(main_tables(card), key=_by_protocol), strict=True):
        unusable = f", {table.unusable:,} unusable" if table.unusable else ""
        area = f", AUC {table.auc}" if table.auc else ""
        about = f"{table.task}, {table.protocol}, {table.group}"
        lines.append(f"{about}: accuracy {table.accuracy} % of {table.n:,}{area}{unusable}")
        lost = any(m.unusable)
        heads = [*m.labels, *(["-"] if lost else [])]  # -: nothing usable
        width = max(6, *(len(label) + 1 for label in heads))
        lines.append("  " + " " * (width + 6) + "".join(f"{head:>{width}}" for head in heads) + "  (predicted)")
        for row, counts in zip(table.rows, m.counts, strict=True):
            numbers = "".join(f"{n:>{width},}" for n in [*counts, *([row.unusable] if lost else [])])
            lines.append(
                f"  truly {row.label:>{width}}{numbers}   sensitivity {row.found}, specificity {row.not_claimed}"
            )
    if view.finer:
        lines += ["", "by group:"]
        lines += [f"  {t.task}, {t.protocol}, {t.group}: accuracy {t.accuracy} % of {t.n:,}" for t in view.finer]
    lines += ["", "limits:", *(f"  {limit}" for limit in view.limits)]
    lines += ["", "made by:", *(f"  {name}: {value}" for name, value in view.made)]
    return "\n".join(lines).replace(UNDEFINED, "-") + "\n"


def _by_protocol(m: Measured) -> int:
    return ORDER.index(m.protocol) if m.protocol in ORDER else len(ORDER)


def write_card_page(cards: Sequence[JudgeCard], out: Path) -> Path:
    """One self-contained page about a card, or several; replaced if it is there."""
    from verism.report_kit.page import write_page

    # The figures carry style attributes, so that the page must allow styles; scripts it has none.
    style = (resources.files("verism.report_kit") / "templates" / "report.css").read_text(encoding="utf-8")
    page = (
        environment()
        .get_template("card.html.j2")
        .render(
            title=cards[0].judge if len(cards) == 1 else f"{len(cards)} judge cards",
            style=Markup(style),
            views=[view_of(card) for card in cards],
        )
    )
    return write_page(page, out)
