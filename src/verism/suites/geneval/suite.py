"""GenEval as a suite: prompts, what must be seen, rules, scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError
from verism.metrics.named_colours import dominant_color
from verism.records import (
    PROTOCOLS,
    EmbeddingNeed,
    Estimand,
    Need,
    Observed,
    Prompt,
    RatingTask,
    Score,
    SegmentationNeed,
    UserImage,
)
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
from verism.suites.geneval.colours import ColorClassifier, texts_for
from verism.suites.geneval.demo import DEMOS
from verism.suites.geneval.human_labels import rated_class, rating_tasks
from verism.suites.geneval.layout import is_released_layout, read_folders, user_images
from verism.suites.geneval.metrics import METRICS
from verism.suites.geneval.prompts import PUBLISHED_SEED, Metadata, draw_prompts, read_metadata
from verism.suites.geneval.rules import Decision, RuleSet, SeenObject, decide, paper_relations, released_relations
from verism.suites.geneval.scenes import MODELLED, SHAPES, is_modelled, scene_of
from verism.suites.geneval.scoring import PARTS, geneval_scores
from verism.suites.geneval.vocabulary import CLASSES, COLORS, TASKS
from verism.suites.prompt_lists import choose
from verism.suites.right_or_wrong import right_or_wrong_estimands
from verism.suites.verdict_table import VerdictRows, shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["GenEval", "objects_by_image"]

IMAGES_EACH = 4
VIEW = {"released": "masked", "paper": "masked", "revised": "square"}
SOURCES = ("auto", "clip", "head", "pixels")

PROTOCOL_MEANINGS = {
    "revised": "As the paper, without known defects: any object of a class may have the colour, long objects are "
    "shown whole to the colour judge, thresholds may be the segmenter's own, and the overall score needs "
    "all six tasks. Use it to compare models.",
    "released": "The authors' evaluation code: colour and position of the most confident objects only, relations "
    "need twice the printed margin, missing images and tasks shrink the denominators. Use it to compare "
    "with published numbers.",
    "paper": "The paper's text where it differs from the code: a relation is an inequality on its axis, and every "
    "object can have the colour.",
}
LIMITS = (
    "The judge was tuned on models of 2022 and 2023. People find more images of today's models right than it does, by "
    "5 to 18 points, and in another order.",
    "Scores of models that were trained with these rules as reward, and of rewritten prompts, are not comparable.",
    "80 classes of COCO, ten colours, four relations, numbers up to four: other words are not tested.",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class GenEval(Suite):
    """The published prompts, or a fresh draw of them.

    Attributes:
        asked: index, id and metadata of each prompt, in order.
        n_images: images per prompt.
        modelled: whether only classes are asked that the simulator has models of.
        found: images in the released layout; None for others.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        benches: how judges are held against rendered images, see ``JudgeBench``.
        in_blocks: large runs are scored block by block, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    asked: tuple[tuple[str, Metadata], ...]
    n_images: int = IMAGES_EACH
    modelled: bool = False
    found: tuple[UserImage, ...] | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="geneval",
        title="GenEval",
        question="Do the images show the objects, numbers, colours and positions that their prompts ask for?",
        summary="objects, counting, colours, position, attribute binding: 553 prompts, six tasks (NeurIPS 2023)",
        protocols=PROTOCOL_MEANINGS,
        limits=LIMITS,
        citation="Ghosh, Hajishirzi & Schmidt 2023, GenEval, NeurIPS Datasets and Benchmarks, arXiv:2310.11513",
    )
    commands: ClassVar[Mapping[str, str]] = {"geneval": "verism.suites.geneval.cli:geneval"}
    published: ClassVar[Mapping[str, str]] = {"geneval": "verism.suites.geneval.published:geneval"}
    judge_roles: ClassVar[tuple[str, ...]] = ("segmenter", "clip")
    benches: ClassVar[tuple[JudgeBench, ...]] = (
        JudgeBench(
            roles=("segmenter",),
            model="scripted:paired=true&pair_seed={seed}",
            options={"modelled": True, "n_images": 2},
            images_per_prompt=2,
            paired=True,
            by=("class", "count", "color", "relation"),
        ),
    )
    in_blocks: ClassVar[bool] = True
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("tasks", str, many=True, choices=TASKS, flag="--task", help="Use only this task; repeatable."),
        Option("draw", int, low=1, help="Draw of the prompts: 1 is the published one.", default="1"),
        Option("metadata", Path, help="Your own prompts, in the format of evaluation_metadata.jsonl."),
        Option("modelled", bool, help="Use only prompts whose objects the simulator can render.", default="false"),
        Option("images", Path, help="Images, in the released layout or any other."),
        replace(LIMIT, help="Number of prompts, spread over the tasks."),
        replace(SEED, help="Seed of prompt sampling (--limit) and images."),
        replace(N_IMAGES, default="4"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "object_threshold",
            float,
            0.3,
            low=0,
            high=1,
            help="Confidence above which an object counts under released and paper.",
        ),
        Rule(
            "counting_threshold",
            float,
            0.9,
            low=0,
            high=1,
            help="Confidence above which an object counts in the task counting, under released and paper.",
        ),
        Rule(
            "object_threshold_revised",
            float,
            0.3,
            low=0,
            high=1,
            protocol="revised",
            calibrated_by="segmenter",
            help="Confidence above which an object counts under revised.",
        ),
        Rule(
            "counting_threshold_revised",
            float,
            0.9,
            low=0,
            high=1,
            protocol="revised",
            calibrated_by="segmenter",
            help="Confidence above which an object counts in the task counting, under revised.",
        ),
        Rule("max_objects", int, 16, low=1, help="Maximum number of objects per class, by confidence."),
        Rule(
            "max_overlap",
            float,
            1.0,
            low=0,
            high=1,
            help="Overlap above which the less confident object is dropped; 1: never.",
        ),
        Rule("relation_margin", float, 0.1, low=0, help="Margin of a relation, as a share of the sum of both extents."),
        Rule(
            "color_by",
            str,
            "auto",
            choices=SOURCES,
            help="Judge of colours: clip, head (the segmenter's), pixels (rule on the mask); auto: the first of them.",
        ),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "alignment": (
                "overall",
                "accuracy",
            ),
            "reasoning": ("accuracy",),
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="accuracy", metric="accuracy", facet="task", mean="overall", groups=TASKS, right_or_wrong=True),
    )
    layout: ClassVar[Layout] = Layout(
        kind="columns",
        metric="accuracy",
        facet="task",
        mean="overall",
        detail=("class",),
        names={
            "task=single_object": "single object",
            "task=two_object": "two objects",
            "task=colors": "colours",
            "task=color_attr": "attribute binding",
            "color": "colour",
            "count": "number asked for",
        },
    )

    @classmethod
    def build(
        cls,
        *,
        tasks: Sequence[str] = TASKS,
        draw: int = 1,
        metadata: Path | None = None,
        modelled: bool = False,
        images: Path | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite with these prompts.

        Args:
            tasks: only these.
            draw: 1 for the published prompts, others for prompts drawn afresh.
            metadata: file of prompts of the user's own, instead.
            modelled: whether to keep only prompts whose objects the simulator has models of.
            images: folder of images that exist; in the released layout it is matched by folder and number.
            limit: prompts in all, drawn evenly from the tasks; None for all.
            seed: of which prompts a limit keeps.
            n_images: images per prompt; None: four, or as many as the largest folder of ``images`` has.

        Raises:
            UsageError: a file that is no list of prompts, both lists named, or folders of other prompts.
        """
        if metadata is not None and draw != 1:
            raise UsageError("give either --draw or --metadata: prompts are drawn, or listed in a file")
        listed = draw_prompts(PUBLISHED_SEED + draw - 1) if metadata is None else read_metadata(metadata)
        start = "" if draw == 1 else f"draw{draw}_"
        every = [(f"{start}{index:05d}", prompt) for index, prompt in enumerate(listed)]
        kept = [(i, p) for i, p in every if p["tag"] in tasks and (not modelled or is_modelled(p))]
        chosen = {prompt_id for prompt_id, _ in _limited(kept, limit, seed)}
        asked = tuple((prompt_id, prompt) for prompt_id, prompt in kept if prompt_id in chosen)
        found: tuple[UserImage, ...] | None = None
        if images is not None and is_released_layout(images):
            folders = read_folders(images)
            found = tuple(user_images(folders, {int(i.rpartition("_")[2]): (i, p) for i, p in asked}))
            if n_images is None:
                n_images = max((image.index + 1 for image in found), default=IMAGES_EACH)
        return cls(asked=asked, n_images=n_images or IMAGES_EACH, modelled=modelled, found=found)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored; they hold all it needs to know."""
        asked = tuple((p.prompt_id, p.spec["metadata"]) for p in prompts)
        n_images = max((p.n_images for p in prompts), default=IMAGES_EACH)
        return cls(asked=asked, n_images=n_images, modelled=bool(settings.get("modelled")))

    def settings(self) -> Mapping[str, Any]:
        """What decides the prompts; where the images lie does not."""
        return {name: value for name, value in self.made_with.items() if name != "images"}

    @property
    def user_images(self) -> Sequence[UserImage] | None:  # type: ignore[override]
        """Images in the released layout; None for others, which are matched by their names."""
        return self.found

    @property
    def classes(self) -> Mapping[str, str]:
        """What renderers show of each class, where they have no model of it."""
        return {label: SHAPES[label] for label in self.labels}

    @property
    def colors(self) -> Sequence[str]:
        """The ten colours, if any prompt asks for one."""
        return COLORS if any(_painted(prompt) for _, prompt in self.asked) else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes that the segmenter is asked for: all 80, as released, or those of the simulator."""
        return tuple(label for label in CLASSES if label in MODELLED) if self.modelled else CLASSES

    def prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(
                prompt_id=prompt_id,
                suite=self.name,
                text=metadata["prompt"],
                facets=_facets(metadata),
                spec={"metadata": dict(metadata)},
                n_images=self.n_images,
                scene=scene_of(prompt_id, metadata),
            )
            for prompt_id, metadata in self.asked
        ]

    def needs(self) -> Sequence[Need]:
        """Objects with masks; and, where prompts ask for colours, vectors of the objects whose colour is asked."""
        segments = SegmentationNeed(classes=self.labels, colors=tuple(self.colors))
        painted = {prompt_id: _painted(prompt) for prompt_id, prompt in self.asked if _painted(prompt)}
        if not painted:
            return (segments,)
        labels = dict.fromkeys(label for some in painted.values() for label in some)
        views = tuple(dict.fromkeys(VIEW.values()))
        return (segments, EmbeddingNeed(texts=texts_for(labels), regions=painted, views=views, optional=True))

    # ------------------------------------------------------------------------------------------------------ verdicts
    def rule_sets(self) -> dict[str, RuleSet]:
        """The rules of each protocol."""
        released = RuleSet(
            threshold=self.rule("object_threshold"),
            counting_threshold=self.rule("counting_threshold"),
            max_objects=self.rule("max_objects"),
            max_overlap=self.rule("max_overlap"),
            margin=self.rule("relation_margin"),
            relations=released_relations,
        )
        paper = replace(released, relations=paper_relations, every_object=True)
        revised = replace(
            paper,
            threshold=self.rule("object_threshold_revised"),
            counting_threshold=self.rule("counting_threshold_revised"),
        )
        return {"released": released, "paper": paper, "revised": revised}

    def facts(self, observed: Observed) -> Mapping[str, float]:
        """Who says anything of colours: CLIP, the segmenter's own head, the pixels of masks."""
        import polars as pl

        tables = observed.observations
        regions, segments = tables.get("region_embeddings"), tables.get(SegmentationNeed.table)
        by_clip = regions is not None and not regions.is_empty() and "text_embeddings" in tables
        if segments is None:
            return {"clip": by_clip, "head": False, "pixels": False}
        objects = segments.filter(pl.col("segment") >= 0)
        return {
            "clip": by_clip,
            "head": bool(objects["color"].is_not_null().any()),
            "pixels": bool((objects["pixel_colors"].list.len() > 0).any()),
        }

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Every protocol's decision about every image, and the parts of it; table ``verdicts``."""
        segments = _segments(observed)
        seen = objects_by_image(segments)
        source = _color_source(observed, segments, self.rule("color_by"), self.known_facts(observed))
        colors = {view: source.colors(view) for view in dict.fromkeys(VIEW.values())}
        judged = set(segments["image_id"].to_list())
        sets, rows = self.rule_sets(), VerdictRows()
        for image in shown_images(observed, judged=judged):
            metadata = image.prompt.spec["metadata"]
            parts = _parts(metadata)
            for protocol in PROTOCOLS:
                if image.problem:
                    for rule in ("accuracy", *parts):
                        rows.add(image, protocol, rule, None, image.problem)
                    continue
                of_image = colors[VIEW[protocol]].get(image.image_id, {})
                objects = [replace(o, color=of_image.get(o.segment)) for o in seen.get(image.image_id, ())]
                decision = decide(metadata, objects, sets[protocol])
                self._add(rows, image, protocol, decision, parts, source.name)
        return rows.table()

    @staticmethod
    def _add(
        rows: VerdictRows, image: Any, protocol: str, decision: Decision, parts: Sequence[str], source: str
    ) -> None:
        reason = "; ".join(decision.reasons) or "as asked"
        detail: dict[str, Any] = {"found": dict(decision.found)}
        if "colors_right" in parts:
            detail["color_by"] = source
        rows.add(image, protocol, "accuracy", decision.correct, reason, detail)
        for part in parts:
            name = part.removesuffix("_right")
            if name in decision.parts:
                rows.add(image, protocol, part, decision.parts[name], reason)

    # -------------------------------------------------------------------------------------------------------- scores
    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite."""
        return geneval_scores(self.name, PROTOCOLS, observed, verdicts)

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """Accuracies of the tasks, and their mean."""
        scores = self.scores(observed, verdicts)
        pairing = self.pairings[0]
        return right_or_wrong_estimands(scores, observed.prompts, verdicts, pairing, SegmentationNeed.role)

    def remarks(self, observed: Observed) -> Sequence[str]:
        """What keeps the numbers from being compared with published ones."""
        segments = _segments(observed)
        lines = []
        judge = next(iter(segments["judge"].to_list()), observed.judges.get(SegmentationNeed.table, ""))
        if judge and judge != "truth" and "mask2former" not in judge.lower():
            lines.append(
                f"the thresholds {self.rule('object_threshold'):g} and {self.rule('counting_threshold'):g} were tuned "
                f"for Mask2Former, whose confidence contains the quality of the mask; {judge} has others, so released "
                "and paper scores are not comparable with published ones"
            )
        if self.colors:
            source = _color_source_name(self.rule("color_by"), self.known_facts(observed))
            if source != "clip":
                lines.append(
                    f"colours were judged by {WORDS[source]}, not by CLIP as published; name a CLIP model with --clip"
                )
        return lines

    # -------------------------------------------------------------------------------------------------------- people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """What people may be asked about the images."""
        return rating_tasks([task for task in TASKS if any(p["tag"] == task for _, p in self.asked)])

    def rated_class(self, task: RatingTask, prompt: Prompt, answer: str) -> str | None:
        """Whether an answer says that an image is right."""
        return rated_class(task, prompt, answer)

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.geneval.report import geneval_sections

        return geneval_sections(evidence)


WORDS = {
    "clip": "CLIP",
    "head": "the segmenter's own colour head (or the ground truth of rendered scenes)",
    "pixels": "a rule on the pixels of the mask",
    "nobody": "nobody",
}


def _limited(prompts: Sequence[tuple[str, Metadata]], limit: int | None, seed: int) -> list[tuple[str, Metadata]]:
    """A limit dealt out evenly to the tasks; what a small task cannot use goes to the others."""
    by_task = {task: [item for item in prompts if item[1]["tag"] == task] for task in TASKS}
    groups = sorted((group for group in by_task.values() if group), key=len)
    left = len(prompts) if limit is None else limit
    kept: list[tuple[str, Metadata]] = []
    for number, group in enumerate(groups):
        share = min(len(group), -(-left // (len(groups) - number)))
        left -= share
        if share:
            kept += choose(group, [prompt_id for prompt_id, _ in group], share, seed)
    return kept


def _facets(metadata: Metadata) -> dict[str, Any]:
    """What breakdowns group by. Of a position prompt the object that is placed comes first, as in its text."""
    entries = list(metadata["include"])
    if any("position" in entry for entry in entries):
        entries = entries[::-1]
    facets: dict[str, Any] = {"task": metadata["tag"], "class": entries[0]["class"]}
    if len(entries) > 1:
        facets["class_b"] = entries[1]["class"]
    for entry, suffix in zip(entries, ("", "_b"), strict=False):
        if "color" in entry:
            facets[f"color{suffix}"] = entry["color"]
        if "position" in entry:
            facets["relation"] = entry["position"][0]
    if metadata["tag"] == "counting":
        facets["count"] = entries[0]["count"]
    return facets


def _painted(metadata: Metadata) -> tuple[str, ...]:
    """Classes whose colour a prompt asks for."""
    return tuple(dict.fromkeys(entry["class"] for entry in metadata["include"] if "color" in entry))


def _parts(metadata: Metadata) -> tuple[str, ...]:
    """Parts of the rule that a prompt asks for."""
    asked = {"objects_right"}
    asked |= {"colors_right"} if _painted(metadata) else set()
    asked |= {"relation_right"} if any("position" in entry for entry in metadata["include"]) else set()
    return tuple(part for part in PARTS if part in asked)


def _segments(observed: Observed) -> pl.DataFrame:
    if SegmentationNeed.table not in observed.observations:
        raise UsageError(f"geneval needs a segmenter; this run has {sorted(observed.observations)}")
    return observed.observations[SegmentationNeed.table]


def objects_by_image(segments: pl.DataFrame) -> dict[str, list[SeenObject]]:
    """Objects of known classes by image, in the segmenter's order."""
    import polars as pl

    found: dict[str, list[SeenObject]] = {}
    known = segments.filter((pl.col("segment") >= 0) & pl.col("label").is_not_null())
    columns = ("image_id", "segment", "label", "score", "x0", "y0", "x1", "y1")
    for image_id, segment, label, score, *box in known.select(columns).iter_rows():
        x0, y0, x1, y1 = box
        found.setdefault(image_id, []).append(
            SeenObject(segment=segment, label=label, score=score, box=(x0, y0, x1, y1))
        )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Colors:
    """Who judges colours, and what they say: by view, image and number of the object. Without a view: of all views."""

    name: str
    by_view: Mapping[str, Mapping[str, Mapping[int, str]]]

    def colors(self, view: str) -> Mapping[str, Mapping[int, str]]:
        return self.by_view.get(view, self.by_view.get("", {}))


def _color_source_name(asked: str, facts: Mapping[str, float]) -> str:
    """Who judges colours: ``auto`` is CLIP, else the segmenter's head, else the pixel rule.

    Args:
        asked: the rule ``color_by``.
        facts: of all images (``GenEval.facts``).
    """
    there = [name for name in ("clip", "head", "pixels") if facts[name] and asked in ("auto", name)]
    return there[0] if there else "nobody"


def _color_source(observed: Observed, segments: pl.DataFrame, asked: str, facts: Mapping[str, float]) -> _Colors:
    """The colours by the source that was asked for.

    Raises:
        UsageError: CLIP looked at the objects of another segmenter.
    """
    name = _color_source_name(asked, facts)
    if name == "clip":
        return _Colors(name=name, by_view=_clip_colors(observed, segments) or {})
    objects = (row for row in segments.iter_rows(named=True) if row["segment"] >= 0)
    if name == "head":
        return _Colors(name=name, by_view={"": _by_image((row, row["color"]) for row in objects)})
    if name == "pixels":
        named = ((row, dominant_color(row["pixel_colors"], COLORS)) for row in objects if row["pixel_colors"])
        return _Colors(name=name, by_view={"": _by_image(named)})
    return _Colors(name=name, by_view={})


def _by_image(named: Any) -> dict[str, dict[int, str]]:
    colors: dict[str, dict[int, str]] = {}
    for row, color in named:
        if color is not None:
            colors.setdefault(row["image_id"], {})[row["segment"]] = color
    return colors


def _clip_colors(observed: Observed, segments: pl.DataFrame) -> dict[str, dict[str, dict[int, str]]] | None:
    """Colours by CLIP, by view; None if no object was embedded."""
    regions = observed.observations.get("region_embeddings")
    texts = observed.observations.get("text_embeddings")
    if regions is None or texts is None or regions.is_empty():
        return None
    judge, seen_by = segments["judge"][0], set(regions["segmenter"].to_list())
    if seen_by != {judge}:
        raise UsageError(
            f"colours were judged of objects that {', '.join(sorted(seen_by))} found, and {judge} is to count; let "
            "CLIP look again: verism observe RUN --clip NAME"
        )
    classifier = ColorClassifier(dict(zip(texts["text"].to_list(), texts["vector"].to_list(), strict=True)))
    labels = {
        (image_id, segment): label
        for image_id, segment, label in segments.select("image_id", "segment", "label").rows()
    }
    colors: dict[str, dict[str, dict[int, str]]] = {}
    for image_id, segment, view, vector in regions.select("image_id", "segment", "view", "vector").iter_rows():
        color = classifier.color(labels[image_id, segment], vector)
        colors.setdefault(view, {}).setdefault(image_id, {})[segment] = color
    return colors
