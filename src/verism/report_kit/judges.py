"""Who judged the runs of a report, and what is known of how often they err."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verism.cards import JudgeCard, read_card, shipped_cards
from verism.records import NEEDS, judge_identity, roles
from verism.report_kit.adjustments import as_judged
from verism.report_kit.card_page import CardView, view_of
from verism.store import TRUTH, Run

__all__ = ["CARDS", "JudgePanel", "cards_of", "judge_panels"]

CARDS = "cards"  # folder of a run with cards of its judges
UNMEASURED = "No judge card: the error rates of this judge have not been measured."
COUNTED = "Where the ground truth of the images is known, its errors are counted on this page."
# Tables of judges whose answers are vectors or texts: no class of theirs is right or wrong.
WITHOUT_CLASSES = ("features", "captions")


@dataclass(frozen=True, kw_only=True)
class JudgePanel:
    """A judge of a report.

    Attributes:
        name: with revision and settings.
        role: as what it judged, in words.
        runs: numbers of the runs it judged.
        cards: what is known of its errors.
        missing: what is said when there is no card; empty for a judge without classes.
        beside: what the report itself knows of its errors.
    """

    name: str
    role: str
    runs: Sequence[int]
    cards: Sequence[CardView]
    missing: str
    beside: str


def cards_of(runs: Sequence[Run], given: Sequence[JudgeCard] = ()) -> list[JudgeCard]:
    """The cards to be looked up: those given, those in the folder ``cards`` of each run, those that come with verism.

    Raises:
        UsageError: a file in such a folder is no card.
    """
    subset = [read_card(path) for run in runs for path in sorted((run.path / CARDS).glob("*.json"))]
    results: list[JudgeCard] = []
    for card in [*given, *subset, *shipped_cards()]:
        if card not in results:
            results.append(card)
    return results


def judge_panels(runs: Sequence[Run], given: Sequence[JudgeCard] = ()) -> list[JudgePanel]:
    """Every judge that the scores of these runs rest on, with its cards."""
    cards = cards_of(runs, given)
    used: dict[tuple[str, str], list[int]] = {}
    for number, run in enumerate(runs):
        for role in roles():
            name = run.judge(role)
            if name is not None and name != TRUTH:
                used.setdefault((role, name), []).append(number)
    panels = []
    for (role, name), numbers in used.items():
        key = (judge_identity(name), role)
        subset = [view_of(card) for card in cards if (judge_identity(card.judge), card.role) == key]
        measured = any(_with_errors(runs[n]) for n in numbers)
        panels.append(
            JudgePanel(
                name=name,
                role=f"({NEEDS[role].judges})",
                runs=numbers,
                cards=subset,
                missing="" if subset or NEEDS[role].table in WITHOUT_CLASSES else UNMEASURED,
                beside=COUNTED if measured else "",
            )
        )
    return panels


def _with_errors(run: Run) -> bool:
    """Whether the ground truth of a run is known, so that the errors of its judge are among the scores."""
    return any(s.metric in ("judge_false_accept", "judge_false_reject") for s in as_judged(run.scores()))
