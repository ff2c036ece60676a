"""Preference models as a suite: prompts, one or two sets of images, scores, wins."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError
from verism.records import Need, Observed, PreferenceNeed, Prompt, Score, UserImage
from verism.suites.base import (
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Row,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.preference.demo import DEMOS
from verism.suites.preference.metrics import METRICS, SCORE, scorer_title
from verism.suites.preference.prompts import matched_images, prompts_digest, read_prompts
from verism.suites.preference.scoring import OF_SET, AskedImage, base_id, outcomes, set_of, suite_scores
from verism.suites.prompt_lists import ListedPrompt, choose
from verism.suites.questions.scenes import COLOURS, scene_classes, scene_prompts
from verism.suites.verdict_table import VerdictRows, shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.own_images import OwnImages, Possible

__all__ = ["Preference", "asked_images", "scorer_of"]

TABLE = PreferenceNeed.table
SCORED = "preference_score"  # rule of the verdicts that hold scores
USUAL_GROUPS = ("style", "category")  # of HPSv2's and HPSv3's prompts


@dataclass(frozen=True, kw_only=True, eq=False)
class Preference(Suite):
    """Prompts, and the sets of images that exist for them, if any.

    Attributes:
        listed: the prompts; of two sets each prompt is there twice, under the label of either set.
        labels: of two sets; a single empty one where there is one set.
        source: what the prompts were made from, for the settings of a run.
        found: images that exist; None: a model makes them.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        lists_images: whether scores ask which images there are, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        layout: layout of its tables.
    """

    listed: tuple[Prompt, ...]
    labels: tuple[str, ...] = ("",)
    source: Mapping[str, Any] = field(default_factory=dict)
    found: tuple[UserImage, ...] | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="preference",
        title="Preference",
        question="Which images do models of human preference prefer?",
        summary="PickScore and similar models: scores, win rates of two sets or several runs, agreement with people",
        protocols={
            "revised": "Means over prompts; wins prompt by prompt, with equal scores as half; images without a score "
            "are counted.",
        },
        limits=(
            "Scores follow taste more than content: an image that ignores half of its prompt can win.",
            "A model that was tuned or selected with a scorer gains on this scorer by construction.",
            "Scores of two scorers, or of two versions of one, are on two scales and are never compared; nor are means "
            "over different prompts.",
            "Most scorers read 35 to 77 tokens: what stands behind them in a long prompt does not count.",
            "The scorer's own mistakes are part of every number and of no interval.",
        ),
        citation="Kirstain et al. 2023, arXiv:2305.01569; Wu et al. 2023, arXiv:2306.09341; Xu et al. 2023, "
        "arXiv:2304.05977; Ma et al. 2025, arXiv:2508.03789",
    )
    commands: ClassVar[Mapping[str, str]] = {"preference": "verism.suites.preference.cli:preference"}
    published: ClassVar[Mapping[str, str]] = {"preference": "verism.suites.preference.published:preference"}
    judge_roles: ClassVar[tuple[str, ...]] = ("scorer",)
    lists_images: ClassVar[bool] = True
    growing_settings = ("source.limit", "source.n_images")
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "prompts",
            Path,
            help="Prompt list (.txt, .csv, .jsonl), a folder of JSON lists by style (HPSv2) or of texts by category "
            "(HPSv3); without it, verism's prompts about rendered scenes.",
        ),
        Option("images", Path, help="Existing images: a folder with files named by prompt id, or a table."),
        Option("images_b", Path, help="A second set of images of the same prompts, to compare with --images."),
        Option("label_a", str, help="Label of the first set.", default="the name of its folder"),
        Option("label_b", str, help="Label of the second set.", default="the name of its folder"),
        replace(LIMIT, help="Number of prompts, sampled at random by --seed."),
        SEED,
        replace(N_IMAGES, default="as many as there are of a prompt in --images, else 1"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "margin",
            float,
            0.0,
            low=0,
            metrics=("win_rate", "tie_rate", "compared"),
            help="Largest difference of two scores that is a tie, in units of the scorer.",
        ),
        Rule(
            "when_missing",
            str,
            "left_out",
            choices=("left_out", "loses"),
            metrics=("win_rate", "tie_rate", "compared"),
            help="How to count a missing image where the other set has one: left out and counted, or a loss.",
        ),
        Rule(
            "group_by",
            str,
            many=True,
            flag="--group-by",
            affects="scores",
            metrics=(),
            help="Facets to report scores by; style and category if there are any.",
        ),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {"aesthetics": ("preference_score", "win_rate")}
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    layout: ClassVar[Layout] = Layout(
        kind="rows",
        rows=(
            Row("preference_score"),
            Row("preference_score", ("set",)),
            Row("win_rate", ("set", "against")),
            Row("tie_rate", ("set", "against")),
            Row("score_difference", ("set", "against")),
            Row("compared", ("set", "against")),
            Row("scored"),
            Row("scored", ("set",)),
            Row("score_over_groups", ("groups",)),
            Row("score_over_groups", ("set", "groups")),
        ),
        names={"set": "images", "against": "against", "groups": "groups"},
    )

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def build(
        cls,
        *,
        prompts: Path | None = None,
        images: Path | None = None,
        images_b: Path | None = None,
        label_a: str = "",
        label_b: str = "",
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite over a prompt list, or over our own prompts.

        Args:
            prompts: the list (``prompts.read_prompts``); None: our own prompts about rendered scenes.
            images: images that exist; None: a model makes them.
            images_b: images of a second set.
            label_a: what the first set is called; empty: the name of its folder.
            label_b: what the second set is called.
            limit: prompts, drawn at random by seed; None for all.
            seed: of that draw.
            n_images: images per prompt; None: as many as exist, else 1.

        Raises:
            UsageError: a list that cannot be read, a second set without a first, sets with one name, or images of which
                none is of a prompt.
        """
        if images is None and (images_b is not None or label_a or label_b):
            raise UsageError("--images-b and labels compare two sets of images: name the first, too: --images A")
        if images_b is None and (label_a or label_b):
            raise UsageError("labels tell two sets apart: name the second, too: --images-b B")
        every, source = _every_prompt(prompts)
        chosen = choose(every, [p.prompt_id for p, _ in every], limit, seed)
        texts = {p.prompt_id: p.text for p, _ in chosen}
        source = {**source, "limit": limit}
        if images is None:
            made = [_prompt(cls.info.name, p, scene, "", n_images or 1) for p, scene in chosen]
            return cls(listed=tuple(made), source={**source, "n_images": n_images or 1})
        labels = ("",) if images_b is None else _labels(images, images_b, label_a, label_b)
        found: list[UserImage] = []
        listed: list[Prompt] = []
        for label, folder, option in zip(labels, (images, images_b), ("--images", "--images-b"), strict=False):
            if folder is None:
                continue
            matched = matched_images(folder, texts, option)
            most = n_images or max(image.index + 1 for image in matched)
            listed += [_prompt(cls.info.name, p, scene, label, most) for p, scene in chosen]
            found += [
                replace(image, prompt_id=_in_set(label, image.prompt_id)) for image in matched if image.index < most
            ]
        return cls(listed=tuple(listed), labels=labels, source=source, found=tuple(found))

    @classmethod
    def for_own_images(cls, found: OwnImages, judges: Mapping[str, str], reference: Path | None) -> Possible | None:
        """Images with prompts, and a scorer.

        Args:
            found: the images.
            judges: names of judges that the user named, by role.
            reference: not used here.
        """
        from verism.own_images import Possible

        del reference
        if found.with_prompt and "scorer" in judges:
            options = {"scorer": judges["scorer"]}
            return Possible(suite=cls.info.name, options=options, why="how a model of people's taste scores the images")
        why = "how a model of people's taste scores the images; needs prompts, and --scorer pickscore:PATH"
        return Possible(suite=cls.info.name, options=None, why=why)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run; its prompts hold all it needs to know."""
        return cls(
            listed=tuple(prompts),
            labels=tuple(settings.get("labels") or ("",)),
            source=dict(settings.get("source", {})),
        )

    def settings(self) -> Mapping[str, Any]:
        """What decides the prompts; where files lie does not."""
        return {"source": dict(self.source), "labels": list(self.labels)}

    @property
    def user_images(self) -> Sequence[UserImage] | None:  # type: ignore[override]
        """The images of both sets; None where a model makes them."""
        return self.found

    @property
    def classes(self) -> Mapping[str, str]:
        """Classes of the scenes of our own prompts."""
        return scene_classes() if any(p.scene is not None for p in self.listed) else {}

    @property
    def colors(self) -> Sequence[str]:
        """Colours of those scenes."""
        return COLOURS if any(p.scene is not None for p in self.listed) else ()

    def prompts(self) -> Sequence[Prompt]:
        return self.listed

    def needs(self) -> Sequence[Need]:
        """A score of each image as a picture of its prompt."""
        return (PreferenceNeed(texts={p.prompt_id: p.text for p in self.listed}),)

    def all_pairings(self) -> Sequence[Pairing]:
        """Scores are compared image by image, those of two sets apart."""
        split = ("set",) if len(self.labels) == 2 else ()
        return (Pairing(rule=SCORED, metric="preference_score", scale=SCORE, split=split, by_prompt=True),)

    # --------------------------------------------------------------------------------------------------------- rules
    def default_of(self, rule: Rule) -> Any:
        """As of any suite; groups are those of HPSv2's and HPSv3's prompts, if they are there."""
        if rule.name == "group_by":
            return [name for name in USUAL_GROUPS if any(p.facets.get(name) is not None for p in self.listed)]
        return super().default_of(rule)

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule; facets must exist.

        Raises:
            UsageError: a value that does not fit, or no such facet.
        """
        checked = rule.check(value)
        if rule.name == "group_by":
            facets = sorted({name for p in self.listed for name in p.facets} - {"set"})
            if foreign := [name for name in checked if name not in facets]:
                raise UsageError(
                    f"{self.name}: the prompts have no facet {foreign[0]!r} to group by; they have {facets}"
                )
        if rule.name == "margin" and not math.isfinite(checked):
            raise UsageError(f"{self.name}: margin must be a finite number, got {checked}")
        return checked

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def scored_in_blocks(self) -> bool:
        """Unless the name of a set begins with that of the other: then ids do not tell whose an image is."""
        return not any(a != b and a.startswith(f"{b}/") for a in self.labels for b in self.labels)

    def block_key(self) -> Callable[[pl.Series], pl.Series] | None:
        """Of two sets, the id without the name of the set: images that are compared come together."""
        if len(self.labels) < 2:
            return None
        of_sets = f"^(?:{'|'.join(map(re.escape, self.labels))})/"
        return lambda ids: ids.str.replace(of_sets, "")

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """The score of each image, and, of the first of two sets, its share of wins; table ``verdicts``."""
        if TABLE not in observed.observations:
            raise UsageError(f"{self.name} needs a scorer; this run has {sorted(observed.observations)}")
        given = {row["image_id"]: row for row in observed.observations[TABLE].iter_rows(named=True)}
        rows = VerdictRows()
        shown = shown_images(observed, judged=set(given))
        for image in shown:
            row = given.get(image.image_id)
            problem = image.problem
            if problem is None and row is not None and row["score"] is None:
                problem = f"no score: {row['note'] or 'the scorer gave none'}"
            if problem is not None or row is None:
                rows.add(image, "revised", SCORED, None, problem or "not looked at")
                continue
            deviation = row["deviation"]
            reason = f"score {row['score']:.4g}" + ("" if deviation is None else f", deviation {deviation:.3g}")
            reason += ", of the beginning of the prompt only" if row["text_cut"] else ""
            rows.add(image, "revised", SCORED, row["score"], reason)
        if len(self.labels) == 2:
            self._add_wins(rows, asked_images(observed, rows.table()), observed)
        return rows.table()

    def _add_wins(self, rows: VerdictRows, asked: Mapping[str, AskedImage], observed: Observed) -> None:
        """What came of each image of the first set against those of the second."""
        second: dict[str, list[AskedImage]] = {}
        for image in asked.values():
            if image.group == self.labels[1]:
                second.setdefault(image.base, []).append(image)
        for shown in shown_images(observed):
            image = asked[shown.image_id]
            if image.group != self.labels[0]:
                continue
            others = second.get(image.base, [])
            made = outcomes([image], others, margin=self.rule("margin"), when_missing=self.rule("when_missing"))
            result = made[image.base]
            if not result.n:
                rows.add(shown, "revised", "win", None, f"no comparison with {self.labels[1]}: a score is missing")
                continue
            scores = ", ".join("none" if o.known is None else f"{o.known:.4g}" for o in others)
            own = "no image" if image.known is None else f"{image.known:.4g}"
            rows.add(shown, "revised", "win", result.wins, f"{own} against {scores} of {self.labels[1]}")

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite."""
        return suite_scores(
            self.name,
            list(asked_images(observed, verdicts).values()),
            self.labels,
            facets=self.rule("group_by"),
            margin=self.rule("margin"),
            when_missing=self.rule("when_missing"),
        )

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """Which of two sets wins more often, and whether the interval says so; the means where there is one set.

        Args:
            scores: all of a run, as judged.
        """
        from verism.report_kit.answers import amount

        wins = next((s for s in scores if s.metric == "win_rate" and set(s.group) == {"set", "against"}), None)
        if wins is not None and not math.isnan(wins.value):
            first, second = wins.group["set"], wins.group["against"]
            result = f"{first} wins {amount(wins)} of comparisons with {second} over {wins.n_used:,} prompts"
            if math.isnan(wins.ci_low) or wins.ci_low <= 0.5 <= wins.ci_high:
                return [f"{result}: no significant difference."]
            return [f"{result}: the scorer prefers {first if wins.value > 0.5 else second}."]
        means = [s for s in scores if s.metric == "preference_score" and set(s.group) <= {"set"}]
        return [
            f"The mean preference score{_of_set(s)} is {amount(s)} over {s.n_used:,} images; it says something only "
            "beside another model's on the same prompts."
            for s in means
            if not math.isnan(s.value)
        ]

    def counts(self, observed: Observed) -> Mapping[str, int]:
        """Images that a scorer observed, and those of them whose prompts were cut."""
        table = observed.observations.get(TABLE)
        if table is None:
            return {}
        return {"scored": table.height, "cut": table.filter(table["text_cut"].fill_null(value=False)).height}

    def remarks(self, observed: Observed) -> Sequence[str]:
        """Which scale the scores are on, and prompts that were cut."""
        table = observed.observations.get(TABLE)
        if table is None or table.is_empty():
            return ()
        judge = str(table["judge"][0])
        lines = [
            f"scores are {scorer_title(judge)} by {judge}; those of another scorer or version are on another scale"
        ]
        counts = self.known_counts(observed)
        if cut := counts["cut"]:
            lines.append(
                f"{cut:,} of {counts['scored']:,} images have prompts longer than the scorer reads: what stands behind "
                "the cut does not count"
            )
        return lines


def scorer_of(observed: Observed) -> str:
    """Full name of the scorer of a run; empty without scores.

    Args:
        observed: a run.
    """
    table = observed.observations.get(TABLE)
    return "" if table is None or table.is_empty() else str(table["judge"][0])


def asked_images(observed: Observed, verdicts: pl.DataFrame) -> dict[str, AskedImage]:
    """All images that were asked for with their scores, by image id.

    Args:
        observed: a run.
        verdicts: with the rule ``preference_score``.
    """
    import polars as pl

    rows = verdicts.lazy().filter((pl.col("rule") == SCORED) & (pl.col("protocol") == "revised"))
    scores: dict[str, float | None] = dict(rows.select("image_id", "value").collect().iter_rows())
    there = {i for i, state in observed.images.select("image_id", "state").iter_rows() if state == "ok"}
    # Images of a prompt share its facets: there may be millions.
    facets = {
        prompt_id: {name: value for name, value in prompt.facets.items() if name != "set"}
        for prompt_id, prompt in observed.prompts.items()
    }
    return {
        image.image_id: AskedImage(
            base=base_id(image.prompt),
            group=set_of(image.prompt),
            facets=facets[image.prompt.prompt_id],
            score=scores.get(image.image_id) if image.image_id in there else math.inf,
        )
        for image in shown_images(observed)
    }


def _every_prompt(path: Path | None) -> tuple[list[tuple[ListedPrompt, Any]], dict[str, Any]]:
    """Prompts with their scenes, if they have one, and what they were made from."""
    if path is not None:
        listed = read_prompts(path)
        if clash := next((p for p in listed if "set" in p.facets), None):
            raise UsageError(
                f"{path}: the column 'set' of prompt {clash.prompt_id!r} is kept for sets of images; rename it"
            )
        return [(p, None) for p in listed], {"file": path.name, "sha256": prompts_digest(path)[:16]}
    made = []
    for asked in scene_prompts():
        skill = None if asked.scene is None else asked.scene.skill
        made.append((ListedPrompt(prompt_id=asked.prompt_id, text=asked.text, facets={"skill": skill}), asked.scene))
    return made, {"file": None}


def _labels(images: Path, images_b: Path, label_a: str, label_b: str) -> tuple[str, str]:
    usual = (images.absolute().stem, images_b.absolute().stem)
    if usual[0] == usual[1]:
        usual = ("A", "B")
    labels = (label_a or usual[0], label_b or usual[1])
    if labels[0] == labels[1]:
        raise UsageError(f"both sets are called {labels[0]!r}; name them apart: --label-a NAME --label-b NAME")
    for label in labels:
        if "#" in label or label != label.strip("/ "):
            raise UsageError(f"the label {label!r} must not hold '#', nor begin or end with a slash or space")
    return labels


def _in_set(label: str, prompt_id: str) -> str:
    return f"{label}/{prompt_id}" if label else prompt_id


def _prompt(suite: str, listed: ListedPrompt, scene: Any, label: str, n_images: int) -> Prompt:
    return Prompt(
        prompt_id=_in_set(label, listed.prompt_id),
        suite=suite,
        text=listed.text,
        facets={**({"set": label} if label else {}), **listed.facets},
        spec={OF_SET: listed.prompt_id},
        n_images=listed.n_images or n_images,
        scene=scene,
    )


def _of_set(score: Score) -> str:
    """Whose images a score is of, in words; empty where there is one set without a name."""
    return f" of {score.group['set']}" if score.group.get("set") else ""
