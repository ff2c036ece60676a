"""PaintSkills as a suite: prompts, what must be seen, rules, scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from verism.errors import UsageError
from verism.metrics.skills import expected_shuffled_accuracy
from verism.records import (
    PROTOCOLS,
    DetectionNeed,
    Estimand,
    Need,
    Observed,
    Prompt,
    ProtocolName,
    RatingTask,
    Scene,
    Score,
)
from verism.statistics.intervals import Interval, mean_of_independent, proportion_of_totals
from verism.suites.base import (
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    JudgeBench,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds
from verism.suites.paintskills.demo import DEMOS, DEMOS_V1
from verism.suites.paintskills.human_labels import rated_class, rating_tasks
from verism.suites.paintskills.layout import read_scenes
from verism.suites.paintskills.metrics import METRICS
from verism.suites.paintskills.scenes import (
    Split,
    expected_of_cells,
    prompt_of,
    prompts_per_cell,
    sample_scenes,
    split_of,
    spread,
)
from verism.suites.paintskills.skills import skill
from verism.suites.paintskills.vocabulary import COLORS, VERSIONS, Version
from verism.suites.right_or_wrong import count_by, right_by_prompt, right_or_wrong_estimands
from verism.suites.verdict_table import VerdictRows, image_problem

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["PaintSkills", "PaintSkillsV1"]

THRESHOLDS = {  # names of the rules, and what ``Thresholds`` calls them
    "threshold_revised": "revised",
    "threshold_released_count": "released_count",
    "threshold_paper": "paper",
    "spatial_margin": "margin",
}
DEFAULTS = Thresholds()
BLOCK = 16_384  # images whose boxes are held as arrays at once

PROTOCOL_MEANINGS = {
    "revised": "Verism's reading of the task, without the known defects of the other two, with a confidence "
    "threshold calibrated for the detector. Use it to compare models.",
    "released": "What the authors' published evaluation code does, defects included. Use it to compare with numbers "
    "that were made with that code.",
    "paper": "What the text of the publication says, where it differs from the code. Use it to see how much the "
    "difference matters.",
}
LIMITS = (
    "The detector's mistakes are part of every number; the intervals hold them only where the judge's error was taken "
    "out.",
    "Objects, colours and relations are those of a simulator: other words are not tested.",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PaintSkills(Suite):
    """The version of ICCV 2023 over a given set of scenes.

    Make one with ``PaintSkills.standard`` (our scenes) or ``PaintSkills.from_folder`` (scenes on disk).

    Attributes:
        scenes: in order; each is a prompt.
        n_images: images per prompt.
        seed: of the scenes and of which of them are kept.
        split: ``val`` (papers say test) or ``train``.
        limit: prompts asked for; None for all.
        version: of the data set: its classes, backgrounds, skills and templates.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        growing_settings: what a run may go on with other values of, see ``Suite``.
        benches: how judges are held against rendered scenes.
        in_blocks: large runs are scored block by block, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    scenes: tuple[Scene, ...]
    n_images: int = 1
    seed: int = 0
    split: str = "val"
    limit: int | None = None

    version: ClassVar[Version] = VERSIONS["paintskills"]
    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="paintskills",
        title="PaintSkills",
        question="Do the images show the objects, numbers and relations that their prompts ask for?",
        summary="object, count, spatial; 15 classes, 13 backgrounds (ICCV 2023); optional skill: color",
        protocols=PROTOCOL_MEANINGS,
        limits=LIMITS,
        citation="Cho, Zala & Bansal 2023, DALL-Eval, ICCV",
    )
    commands: ClassVar[Mapping[str, str]] = {
        "scenes render": "verism.suites.paintskills.cli:render",
        "demo tour": "verism.suites.paintskills.cli:tour",
    }
    published: ClassVar[Mapping[str, str]] = {"dalleval": "verism.suites.paintskills.published:dalleval"}
    judge_roles: ClassVar[tuple[str, ...]] = ("detector",)
    growing_settings: ClassVar[tuple[str, ...]] = (*Suite.growing_settings, "skills")  # a small limit has few skills
    benches: ClassVar[tuple[JudgeBench, ...]] = (
        JudgeBench(
            roles=("detector",),
            model="scripted:paired=true&pair_seed={seed}",
            options={"n_images": 2, "skills": [*version.skills, *version.optional_skills]},
            images_per_prompt=2,
            paired=True,
            by=("object", "count", "color", "relation"),
        ),
        JudgeBench(
            roles=("clip", "vqa", "captioner"),
            model="oracle",
            options={"n_images": 1, "skills": [*version.skills, *version.optional_skills]},
            paired=True,
            by=("object", "count", "color", "relation"),
            by_prompts=True,
        ),
    )
    in_blocks: ClassVar[bool] = True
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("scenes", Path, help="Folder of scenes in the published layout."),
        Option("skills", str, many=True, flag="--skill", help="Use only this skill; repeatable."),
        Option("split", str, help="Split of the prompts: val (papers say test) or train.", default="val"),
        replace(LIMIT, help="Number of prompts, spread evenly over skills and factors."),
        replace(SEED, help="Seed of scenes, sampling and generation."),
        replace(N_IMAGES, default="1"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "threshold_revised",
            float,
            DEFAULTS.revised,
            low=0,
            high=1,
            protocol="revised",
            calibrated_by="detector",
            help="Confidence threshold of the revised rules.",
        ),
        Rule(
            "threshold_released_count",
            float,
            DEFAULTS.released_count,
            low=0,
            high=1,
            protocol="released",
            help="Confidence threshold of the released count rule.",
        ),
        Rule(
            "threshold_paper",
            float,
            DEFAULTS.paper,
            low=0,
            high=1,
            protocol="paper",
            help="Confidence threshold of the paper's rules.",
        ),
        Rule(
            "spatial_margin",
            float,
            DEFAULTS.margin,
            low=0,
            high=1,
            help="Minimum distance of centres for a relation, as a share of the image.",
        ),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "reasoning": (
                "accuracy",
                "mean_accuracy",
            )
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(
            rule="accuracy",
            metric="accuracy",
            facet="skill",
            mean="mean_accuracy",
            groups=version.skills,
            right_or_wrong=True,
        ),
    )
    layout: ClassVar[Layout] = Layout(
        kind="columns",
        metric="accuracy",
        facet="skill",
        mean="mean_accuracy",
        reference="shuffled_expectation",
        names={
            "skill=color": "colour",
            "object_b": "second object",
            "color": "colour",
            "count": "number asked for",
        },
    )

    @classmethod
    def standard(
        cls,
        *,
        skills: Sequence[str] | None = None,
        split: str = "val",
        limit: int | None = None,
        seed: int = 0,
        n_images: int = 1,
    ) -> Self:
        """Our own scenes.

        Args:
            skills: only these; None for the published ones.
            split: ``val``, ``test`` (the same) or ``train``.
            limit: prompts in all, spread evenly over skills, then over every factor; None for all.
            seed: of the scenes, at least 0.
            n_images: images per prompt.

        Raises:
            UsageError, ValueError: a skill or split that does not exist.
        """
        v = cls.version
        chosen = tuple(dict.fromkeys(skills or v.skills))
        the_split: Split = split_of(split)
        scenes: list[Scene] = []
        for skill_name, share in zip(chosen, _shares(limit, len(chosen)), strict=True):
            if share != 0:
                scenes += sample_scenes(v, skill_name, the_split, share, seed=seed)
        return cls(scenes=tuple(scenes), n_images=n_images, seed=seed, split=split, limit=limit)

    @classmethod
    def from_folder(
        cls,
        root: Path,
        *,
        skills: Sequence[str] | None = None,
        split: str = "val",
        limit: int | None = None,
        seed: int = 0,
        n_images: int = 1,
    ) -> Self:
        """Scenes of a data set in the published layout, ours or the authors'. Those without objects ask for nothing.

        Args:
            root: folder of the data set.
            skills: as of ``standard``.
            split: as of ``standard``.
            limit: as of ``standard``.
            seed: of which scenes are kept.
            n_images: images per prompt.

        Raises:
            UsageError, ValueError: a skill, split or folder that does not exist.
        """
        scenes = [scene for scene in read_scenes(root, cls.version, split_of(split), skills) if scene.objects]
        by_skill: dict[str, list[Scene]] = {}
        for scene in scenes:
            skill(scene.skill)  # unknown skills fail here, by name
            by_skill.setdefault(scene.skill, []).append(scene)
        kept: list[Scene] = []
        for group, share in zip(by_skill.values(), _shares(limit, len(by_skill)), strict=True):
            if share != 0:
                kept += spread(group, share, seed=seed)
        return cls(scenes=tuple(kept), n_images=n_images, seed=seed, split=split, limit=limit)

    @classmethod
    def build(cls, *, scenes: Path | None = None, **options: Any) -> Self:
        """Our own scenes, or those on disk; see ``standard`` and ``from_folder``."""
        return cls.standard(**options) if scenes is None else cls.from_folder(scenes, **options)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored; they hold all it needs to know."""
        scenes = tuple(p.scene for p in prompts if p.scene is not None)
        split = str(settings.get("split") or "val")
        return cls(scenes=scenes, n_images=max((p.n_images for p in prompts), default=1), split=split)

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds that the rules say."""
        return Thresholds(**{field: self.rule(name) for name, field in THRESHOLDS.items()})

    @property
    def classes(self) -> Mapping[str, str]:
        """Name in scene files by label, for renderers that swap one class for another."""
        known = {c.label: c.shape for c in self.version.classes}
        known |= {o.label: o.shape for s in self.scenes for o in s.objects if o.label not in known}
        return {label: known[label] for label in self.labels}  # in the order of the classes asked of judges

    @property
    def colors(self) -> tuple[str, ...]:
        """Colours the prompts ask for; none if no skill asks for one."""
        return COLORS if any(s.skill == "color" for s in self.scenes) else ()

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.paintskills.report import paintskills_sections

        return paintskills_sections(evidence)

    def settings(self) -> Mapping[str, Any]:
        """What decides the prompts."""
        return {
            "split": self.split,
            "skills": sorted({scene.skill for scene in self.scenes}),
            "limit": self.limit,
            "n_images": self.n_images,
        }

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes of the version, then any others that the scenes hold (data sets of other people)."""
        subset = list(self.version.labels)
        return (*subset, *sorted({o.label for s in self.scenes for o in s.objects} - set(subset)))

    def prompts(self) -> Sequence[Prompt]:
        return [prompt_of(scene, self.name, self.n_images) for scene in self.scenes]

    def needs(self) -> Sequence[Need]:
        return (DetectionNeed(classes=self.labels, colors=self.colors),)

    # ------------------------------------------------------------------------------------------------------ verdicts
    def facts(self, observed: Observed) -> Mapping[str, float]:
        """Whether there are boxes, and any with a colour."""
        import polars as pl

        detections = observed.observations.get("detections")
        if detections is None:
            return {"boxes": False, "colored_boxes": False}
        colors = detections.filter(pl.col("query") >= 0)["color"]
        return {"boxes": not colors.is_empty(), "colored_boxes": bool(colors.is_not_null().any())}

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Every protocol's decisions about every image; table ``verdicts``."""
        if "detections" not in observed.observations:
            raise UsageError(f"{self.name} needs detections; this run has {sorted(observed.observations)}")
        detections = observed.observations["detections"]
        looked = set(detections["image_id"].to_list())
        facts = self.known_facts(observed)
        # A detector without a colour for any box judges none, also in images where it found nothing.
        judges_colors = not facts["boxes"] or bool(facts["colored_boxes"])
        nothing = _no_boxes(self.labels, judges_colors)
        seen: Mapping[str, Boxes] = {}
        rows = VerdictRows()
        for number, image in enumerate(observed.images.iter_rows(named=True)):
            if number % BLOCK == 0:  # boxes as arrays take many times what they take in the table
                some = observed.images[number : number + BLOCK]
                of_these = detections.join(some.select("image_id"), on="image_id", how="semi")
                seen = _boxes_by_image(of_these, some, self.labels, judges_colors, self.version.head)
            prompt = observed.prompts[image["prompt_id"]]
            expected = Expected(
                labels=tuple(prompt.spec["labels"]), relation=prompt.spec["relation"], color=prompt.spec["color"]
            )
            rules = skill(str(prompt.facets["skill"]))
            for protocol in PROTOCOLS:
                if image["state"] == "ok" and image["image_id"] in looked:
                    boxes = seen.get(image["image_id"], nothing)
                    decisions = rules.decide(protocol, expected, boxes, self.thresholds)
                else:
                    why = image_problem(image["state"], image["note"], observed=False) or ""
                    # The rules' names are the same whatever is seen; an empty image tells which they are.
                    names = [d.rule for d in rules.decide(protocol, expected, nothing, self.thresholds)]
                    decisions = [Decision(rule=name, value=None, reason=why) for name in names]
                for d in decisions:
                    detail = None if d.detail is None else dict(sorted(d.detail.items()))
                    rows.add_row(image["image_id"], image["prompt_id"], protocol, d.rule, d.value, d.reason, detail)
        return rows.table()

    # -------------------------------------------------------------------------------------------------------- scores
    def scores(self, observed: Observed, verdicts: pl.DataFrame | pl.LazyFrame) -> Sequence[Score]:
        """All numbers of the suite; order is fixed, so that equal verdicts give equal bytes."""
        import polars as pl

        prompts = list(observed.prompts.values())
        facet_names = ("skill", "object", "object_b", "count", "color", "relation", "background")
        facets = pl.DataFrame(
            {"prompt_id": [p.prompt_id for p in prompts]}
            | {name: [p.facets.get(name) for p in prompts] for name in facet_names},
            schema={"prompt_id": pl.String}
            | {name: (pl.Int64 if name == "count" else pl.String) for name in facet_names},
        )
        skills = [s for s in (*self.version.skills, *self.version.optional_skills) if s in set(facets["skill"])]
        totals = right_by_prompt(verdicts, "protocol", "rule")
        found = _found_by_prompt(verdicts, facets.filter(pl.col("skill") == "count")["prompt_id"])
        scores: list[Score] = []
        for protocol in PROTOCOLS:
            of_protocol = totals.filter(pl.col("protocol") == protocol)
            per_skill: list[Interval] = []
            used = unusable = 0
            for name in skills:
                of_skill = of_protocol.join(facets.filter(pl.col("skill") == name), on="prompt_id", how="inner")
                of_skill = of_skill.sort("prompt_id", "rule")
                by_rule = of_skill.partition_by("rule", as_dict=True)
                accuracy = by_rule.pop(("accuracy",), of_skill.clear())
                headline = self._proportion("accuracy", protocol, {"skill": name}, accuracy)
                scores.append(headline)
                if name in self.version.skills:
                    per_skill.append(Interval(headline.value, headline.ci_low, headline.ci_high))
                    used, unusable = used + headline.n_used, unusable + headline.n_unusable
                found_here = found.filter(pl.col("protocol") == protocol)
                scores += self._details(name, protocol, accuracy, by_rule, found_here)
            scores.append(self._mean(protocol, per_skill, used, unusable))
        scores += self._expectations(prompts, skills)
        return scores

    # -------------------------------------------------------------------------------------------------------- people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """What people may be asked about the images (see ``people``)."""
        return rating_tasks({scene.skill for scene in self.scenes}, self.labels)

    def rated_class(self, task: RatingTask, prompt: Prompt, answer: str) -> str:
        """Whether an answer says that an image is right."""
        return rated_class(task, prompt, answer)

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """Accuracies that can be adjusted for the detector's errors."""
        scores = self.scores(observed, verdicts)
        return right_or_wrong_estimands(scores, observed.prompts, verdicts, self.pairings[0], DetectionNeed.role)

    def _proportion(self, metric: str, protocol: str, group: Mapping[str, Any], rows: pl.DataFrame) -> Score:
        """Share of right images among the usable ones, from the totals of one rule."""
        return self._share(metric, protocol, group, rows["right"], rows["used"], int(rows["images"].sum()))

    def _share(
        self, metric: str, protocol: str, group: Mapping[str, Any], right: pl.Series, sizes: pl.Series, images: int
    ) -> Score:
        interval = proportion_of_totals(right.to_numpy(), sizes.to_numpy())
        used = int(sizes.sum())
        return Score(
            suite=self.name,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=used,
            n_unusable=images - used,
        )

    def _details(
        self,
        name: str,
        protocol: ProtocolName,
        accuracy: pl.DataFrame,
        by_rule: Mapping[tuple[Any, ...], pl.DataFrame],
        found: pl.DataFrame,
    ) -> list[Score]:
        """Shares of the other rules, and of parts of the prompts.

        Args:
            name: the skill.
            protocol: name of the protocol.
            accuracy: by prompt, how many images are right.
            by_rule: the same of every other rule.
            found: by prompt and number of objects found, how many images.
        """
        # Tables are taken apart in one go each: a filter for each level costs more than all the arithmetic.
        scores = []
        for (rule,), rows in sorted(by_rule.items(), key=lambda item: item[0]):
            scores.append(self._proportion(rule, protocol, {"skill": name}, rows))
        if accuracy["images"].sum() > accuracy["used"].sum():
            strict = accuracy.with_columns(used="images")
            bound = self._proportion("accuracy", protocol, {"skill": name}, strict)
            scores.append(replace(bound, metric="accuracy_if_unusable_wrong"))
        for facet in (*skill(name).breakdowns, "background"):
            by_level = accuracy.partition_by(facet, as_dict=True)
            levels = sorted(level for (level,) in by_level if level is not None)
            if facet == "background" and len(levels) < 2:
                continue
            for level in levels:
                group = {"skill": name, facet: level}
                scores.append(self._proportion("accuracy", protocol, group, by_level[level,]))
        if name == "count" and protocol == "released":
            # What the released code prints as count-1 ... count-4 is the number of boxes alone, of whatever class.
            right_number = by_rule.get(("right_number",), accuracy.clear())
            by_level = right_number.partition_by("count", as_dict=True)
            for level in accuracy["count"].unique().sort().to_list():
                group = {"skill": name, "count": level}
                rows = by_level.get((level,), accuracy.clear())
                scores.append(self._proportion("right_number", protocol, group, rows))
        if name == "count" and protocol != "paper":
            scores += self._count_confusion(protocol, accuracy, found)
        return scores

    def _count_confusion(self, protocol: str, accuracy: pl.DataFrame, found: pl.DataFrame) -> list[Score]:
        """Of the images asked to show ``count`` objects, the share that shows ``found``.

        Args:
            protocol: name of the protocol.
            accuracy: by prompt, how many images were decided upon.
            found: by prompt and number of objects found, how many images.
        """
        import polars as pl

        scores = []
        usable = accuracy.filter(pl.col("used") > 0)
        for count in sorted(set(usable["count"].to_list())):
            chosen = accuracy.filter(pl.col("count") == count)
            of_count = found.filter(pl.col("prompt_id").is_in(chosen["prompt_id"].implode()))
            for number in sorted(set(of_count["found"].to_list())):
                hits = of_count.filter(pl.col("found") == number).select("prompt_id", "images")
                right = chosen.select("prompt_id", "used").join(
                    hits, on="prompt_id", how="left", maintain_order="left"
                )["images"]
                group = {"skill": "count", "count": int(count), "found": int(number)}
                images = int(chosen["images"].sum())
                scores.append(self._share("count_found", protocol, group, right.fill_null(0), chosen["used"], images))
        return scores

    def _mean(self, protocol: str, per_skill: Sequence[Interval], used: int, unusable: int) -> Score:
        """Plain mean over the published skills, as the papers print it; undefined unless all of them were scored."""
        if len(per_skill) == len(self.version.skills) and not any(math.isnan(i.value) for i in per_skill):
            mean = mean_of_independent(per_skill)
        else:
            mean = Interval(math.nan, math.nan, math.nan)
        return Score(
            suite=self.name,
            metric="mean_accuracy",
            protocol=protocol,
            value=mean.value,
            ci_low=mean.low,
            ci_high=mean.high,
            n_used=used,
            n_unusable=unusable,
        )

    def _expectations(self, prompts: Sequence[Prompt], skills: Sequence[str]) -> list[Score]:
        """What shuffled ground truth scores under a perfect judge, exactly, over the full prompt list of each skill.

        Over a few prompts alone it would say how few they are: of three, each gets its own image once in three times.
        Scenes that the list does not hold (data sets of other people) are taken as they are.
        """
        scores = []
        for name in skills:
            rules = skill(name)
            asked = [
                rules.truth_key(
                    Expected(labels=tuple(p.spec["labels"]), relation=p.spec["relation"], color=p.spec["color"])
                )
                for p in prompts
                if p.facets["skill"] == name
            ]
            n_prompts = len(asked)
            if name in (*self.version.skills, *self.version.optional_skills):
                full = [rules.truth_key(expected) for expected in expected_of_cells(self.version, name)]
                if set(asked) <= set(full):
                    asked = full
                    n_prompts = len(full) * prompts_per_cell(self.version, name, split_of(self.split))
            value = float(expected_shuffled_accuracy(asked))
            scores.append(
                Score(
                    suite=self.name,
                    metric="shuffled_expectation",
                    protocol="revised",
                    group={"skill": name},
                    value=value,
                    ci_low=value,
                    ci_high=value,
                    n_used=n_prompts,
                    n_unusable=0,
                )
            )
        return scores


class PaintSkillsV1(PaintSkills):
    """The version of the first preprint (2022), on black backgrounds."""

    version: ClassVar[Version] = VERSIONS["paintskills-v1"]
    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="paintskills_v1",
        title="PaintSkills, first version",
        question="Do the images show the objects, numbers, colours and relations that their prompts ask for?",
        summary="object, count, color, spatial; 21 classes, 6 colours, black background (arXiv v1)",
        protocols=PROTOCOL_MEANINGS,
        limits=LIMITS,
        citation="Cho, Zala & Bansal 2022, DALL-Eval, arXiv:2202.04053v1",
    )
    benches: ClassVar[tuple[JudgeBench, ...]] = (
        replace(PaintSkills.benches[0], options={"n_images": 2, "skills": [*version.skills]}),
    )
    demos: ClassVar[tuple[Demo, ...]] = DEMOS_V1
    pairings: ClassVar[tuple[Pairing, ...]] = (replace(PaintSkills.pairings[0], groups=version.skills),)


def _shares(limit: int | None, parts: int) -> list[int | None]:
    """A limit dealt out evenly; None for no limit."""
    if limit is None:
        return [None] * parts
    if limit < 1:
        raise UsageError(f"limit must be at least 1, got {limit}")
    return [limit // parts + (k < limit % parts) for k in range(parts)]


def _found_by_prompt(verdicts: pl.DataFrame | pl.LazyFrame, prompts: pl.Series) -> pl.DataFrame:
    """How many images of each prompt show so many objects: columns protocol, prompt_id, found, images."""
    import polars as pl

    def with_found(rows: pl.LazyFrame) -> pl.LazyFrame:
        usable = (pl.col("rule") == "accuracy") & pl.col("value").is_not_null() & (pl.col("protocol") != "paper")
        found = pl.col("detail").str.json_path_match("$.found").cast(pl.Int64).alias("found")
        return rows.filter(usable & pl.col("prompt_id").is_in(prompts.implode())).with_columns(found)

    return count_by(verdicts, with_found, ["protocol", "prompt_id", "found"], images=pl.len())


def _no_boxes(classes: tuple[str, ...], judges_colors: bool) -> Boxes:
    none = np.zeros((0, 2))
    scores = np.zeros((0, len(classes)))
    return Boxes([], np.zeros(0), none, none, none, none, scores, classes, [] if judges_colors else None)


def _boxes_by_image(
    detections: pl.DataFrame,
    images: pl.DataFrame,
    classes: tuple[str, ...],
    judges_colors: bool,
    head: tuple[str, ...],
) -> dict[str, Boxes]:
    """Detections as arrays per image, most confident first."""
    import polars as pl

    found = (
        detections.filter(pl.col("query") >= 0)
        .join(images.select("image_id", "width", "height"), on="image_id", how="inner")
        .sort(["image_id", "score", "query"], descending=[False, True, False])
    )
    n_scores = found["class_scores"].list.len().fill_null(0)
    if (others := n_scores != len(classes)).any():
        image_id, n = found.filter(others)["image_id"][0], n_scores.filter(others)[0]
        raise UsageError(
            f"detections of {image_id}: {n} class scores for {len(classes)} classes; the detector searched for other "
            "classes than this suite needs. Run it again: verism observe"
        )
    # Of all images at once: a table for each image takes longer than all rules.
    size = found.select("width", "height").to_numpy().astype(np.float64)
    corners = found.select("x0", "y0", "x1", "y1").to_numpy().astype(np.float64)
    center, extent = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    relative_center, relative_extent = center / size, extent / size
    class_scores = found["class_scores"].explode().to_numpy().astype(np.float64).reshape(found.height, len(classes))
    scores = found["score"].to_numpy().astype(np.float64)
    labels, colors = found["label"].to_list(), found["color"].to_list()
    result, start = {}, 0
    for image_id, n in found.group_by("image_id", maintain_order=True).len().iter_rows():
        own = slice(start, start + n)
        result[str(image_id)] = Boxes(
            labels=labels[own],
            scores=scores[own],
            center=relative_center[own],
            extent=relative_extent[own],
            pixel_center=center[own],
            pixel_extent=extent[own],
            class_scores=class_scores[own],
            classes=classes,
            colors=colors[own] if judges_colors else None,
            head=head,
        )
        start += n
    return result
