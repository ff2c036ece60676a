"""T2I-CompBench and ++ as a suite: the user's prompts or our own, what must be seen, rules, scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError, VerismError
from verism.records import (
    AnswerNeed,
    DepthNeed,
    DetectionNeed,
    EmbeddingNeed,
    Estimand,
    Need,
    Observed,
    Prompt,
    Question,
    SceneFact,
    Score,
    UserImage,
    option_of,
)
from verism.suites.base import (
    COSINE,
    LIMIT,
    N_IMAGES,
    SEED,
    SHARE,
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
from verism.suites.compbench.binding import question_of
from verism.suites.compbench.combination import ROUTES
from verism.suites.compbench.demo import DEMOS
from verism.suites.compbench.judging import Judged, Rules, level_prompts
from verism.suites.compbench.layout import is_released_layout, read_images
from verism.suites.compbench.metrics import METRIC_OF, METRICS, SCORED
from verism.suites.compbench.multimodal import SCALES
from verism.suites.compbench.own_prompts import COLORS, own_classes, own_prompts
from verism.suites.compbench.phrases import Parsed, make_parser, needs_phrases, read_phrases, with_phrases
from verism.suites.compbench.prompts import (
    IMAGES_EACH,
    SPLITS,
    Asked,
    prompt_file,
    read_category,
    refusal,
    structure_problem,
)
from verism.suites.compbench.scoring import compbench_scores
from verism.suites.compbench.spatial import detector_name
from verism.suites.compbench.vocabulary import BOUND, CATEGORIES, RENAMED
from verism.suites.prompt_lists import choose, file_hash
from verism.suites.right_or_wrong import right_or_wrong_estimands
from verism.suites.verdict_table import VerdictRows, shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["CompBench"]

PROTOCOLS = ("revised", "released", "paper")
OWN = "own"
TITLES: Mapping[str, str] = {
    "color": "colour",
    "spatial": "spatial (2D)",
    "3d_spatial": "spatial (3D)",
    "non_spatial": "non-spatial",
}
ROLES: Mapping[str, tuple[str, ...]] = {
    "color": ("vqa",),
    "shape": ("vqa",),
    "texture": ("vqa",),
    "spatial": ("detector",),
    "3d_spatial": ("detector", "depth"),
    "numeracy": ("detector",),
    "non_spatial": ("clip",),
    "complex": ("vqa", "detector", "clip"),
}
PUBLISHED_JUDGES: Mapping[str, tuple[str, str]] = {
    "vqa": ("blip-vqa-capfilt-large", "BLIP-VQA"),
    "detector": ("unidet", "UniDet"),
    "depth": ("dpt-hybrid", "MiDaS's DPT-hybrid"),
    "clip": ("clip-vit-base-patch32", "CLIP ViT-B/32"),
}
TABLES: Mapping[str, str] = {"vqa": "answers", "detector": "detections", "depth": "depths", "clip": "embeddings"}

PROTOCOL_MEANINGS = {
    "revised": "Without the ceilings and errors of the released code: all equivalent labels, no gate, every "
    "relation, correct depth crops without required overlap, geometric mean over phrases, unparsed "
    "replies counted. Use it to compare models, not with published numbers.",
    "released": "The authors' code of January 2025 with its ceilings: names that are not labels of its detector "
    "never score, 2D relations below one half count 0, depth maps are cropped with rows and columns "
    "swapped, complex prompts use the parts of their list.",
    "paper": "The papers' text where it differs from the code: binary relations, correct depth crops, probability of "
    "yes among all words, complex prompts as the mean of all parts.",
}
LIMITS = (
    "There is no overall score: a cosine of about 0.3 and shares between 0 and 1 have no common mean.",
    "Published numbers come from BLIP-VQA, UniDet, DPT-hybrid and CLIP ViT-B/32. UniDet cannot be installed here; "
    "scores of other detectors are of another vocabulary and another scale of confidence.",
    "Attribute binding multiplies probabilities of phrases, so long prompts score low; and parsers of two versions "
    "find other phrases in 4 to 10 % of the prompts.",
    "CLIPScore lies between 0.298 and 0.320 for twelve published systems.",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CompBench(Suite):
    """The prompts of the user's copy of T2I-CompBench, or our own.

    Attributes:
        asked: id and prompt, in order.
        n_images: images per prompt.
        own: whether the prompts are not the released ones.
        altered: how prompts of the user differ from the released ones; empty if they do not, or are ours.
        files: SHA-256 of the user's files, by name.
        parser: who parsed noun phrases.
        levels: scale of multimodal judges, if their levels are asked; else empty.
        found: images in the released layout; None for others.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        named_judges_only: no judge observes that the user did not name.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
        in_blocks: large runs are scored block by block, see ``Suite``.
    """

    asked: tuple[tuple[str, Asked], ...]
    n_images: int = IMAGES_EACH
    own: bool = False
    altered: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    parser: str = ""
    levels: str = ""
    found: tuple[UserImage, ...] | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="compbench",
        title="T2I-CompBench",
        question="Are attributes, relations, numbers and actions as the prompt says?",
        summary="attribute binding, relations in image and depth, numeracy, complex prompts: 8 x 300, from your copy",
        protocols=PROTOCOL_MEANINGS,
        limits=LIMITS,
        citation="Huang et al. 2023, T2I-CompBench, NeurIPS Datasets and Benchmarks, arXiv:2307.06350; ++: TPAMI 2025",
    )
    commands: ClassVar[Mapping[str, str]] = {"compbench": "verism.suites.compbench.cli:compbench"}
    published: ClassVar[Mapping[str, str]] = {"compbench": "verism.suites.compbench.published:compbench"}
    judge_roles: ClassVar[tuple[str, ...]] = ("vqa", "detector", "depth", "clip")
    named_judges_only: ClassVar[bool] = True
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "prompts",
            Path,
            help="Folder of your copy of the released prompts (examples/dataset). Without it, verism's own prompts.",
        ),
        Option(
            "categories",
            str,
            many=True,
            choices=CATEGORIES,
            flag="--category",
            help="Use only this category; repeatable.",
        ),
        Option("split", str, choices=SPLITS, help="Split of the prompts; published results use val.", default="val"),
        Option("own", bool, help="Accept files with other prompts than the released ones.", default="false"),
        Option(
            "phrases",
            Path,
            help="File of noun phrases, as verism compbench phrases writes it.",
            default="phrases.jsonl beside the prompts",
        ),
        Option(
            "parser",
            str,
            help="Parser of noun phrases, in place of a file: spacy:PIPELINE.",
            default="spacy:en_core_web_sm where it is installed",
        ),
        Option(
            "levels",
            str,
            choices=SCALES,
            help="Ask a multimodal chat model (--vqa) for levels, on the scale of ShareGPT4V or of GPT-4V.",
        ),
        Option("images", Path, help="Images, in the released layout or any other."),
        replace(LIMIT, help="Number of prompts, spread over the categories."),
        replace(SEED, help="Seed of prompt sampling (--limit) and images."),
        replace(N_IMAGES, default="10; 2 of our own prompts"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("box_threshold", float, 0.1, low=0, high=1, help="Confidence above which released and paper count boxes."),
        Rule(
            "box_threshold_revised",
            float,
            0.1,
            low=0,
            high=1,
            protocol="revised",
            calibrated_by="detector",
            help="Confidence above which revised counts boxes.",
        ),
        Rule(
            "least_2d_score",
            float,
            0.5,
            low=0,
            high=1,
            protocol="released",
            help="2D scores below it count as 0 under released.",
        ),
        Rule(
            "np_num",
            int,
            8,
            low=1,
            help="Highest number of noun phrases per prompt under released and paper; 2 in code before December 2023.",
        ),
        Rule("phrase_filter", bool, True, help="Drop top, the side, the left and the right from the noun phrases."),
        Rule(
            "numeracy_edition",
            str,
            "2025",
            choices=("2025", "2024"),
            help="Released code for reading numbers; in 2024, fish, deer, sheep, shrimp and goldfish mean one.",
        ),
        Rule(
            "depth_indexing",
            str,
            "swapped",
            choices=("swapped", "right"),
            protocol="released",
            help="Indexing of depth maps under released: swapped (rows and columns, as in its code) or right.",
        ),
        Rule(
            "depth_by",
            str,
            "median",
            choices=("median", "mean"),
            protocol="revised",
            help="Depth of a box under revised.",
        ),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "alignment": (
                "attribute_binding",
                "clip_score",
                "three_in_one",
                "multimodal",
            ),
            "reasoning": (
                "spatial_2d",
                "spatial_3d",
                "numeracy",
            ),
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    pairings: ClassVar[tuple[Pairing, ...]] = (
        *(
            Pairing(rule=name, metric=name, split=("category",), scale=COSINE if name == "clip_score" else SHARE)
            for name in SCORED
        ),
        Pairing(rule="accuracy", metric="accuracy", facet="category", split=("category",), right_or_wrong=True),
    )
    in_blocks: ClassVar[bool] = True
    layout: ClassVar[Layout] = Layout(
        kind="rows",
        facet="category",
        rows=(*(Row(name, ("category",)) for name in SCORED), Row("accuracy", ("category",))),
        detail=("relation",),
        names={
            **{f"category={name}": title for name, title in TITLES.items()},
            **{f"category={OWN} {name}": f"{OWN} {title}" for name, title in TITLES.items()},
            "seen": "pair in training prompts",
            "route": "list of complex prompts",
            "phrases": "noun phrases",
            "kinds": "kinds of objects",
        },
    )

    # ------------------------------------------------------------------------------------------------------- making
    @classmethod
    def build(
        cls,
        *,
        prompts: Path | None = None,
        categories: Sequence[str] = CATEGORIES,
        split: str = "val",
        own: bool = False,
        phrases: Path | None = None,
        parser: str | None = None,
        levels: str = "",
        images: Path | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite with the prompts of a folder, or with ours.

        Args:
            prompts: the user's copy of the released prompts; None: ours.
            categories: only these.
            split: ``val`` or ``train``.
            own: whether the folder holds other prompts than the released ones, on purpose.
            phrases: file of noun phrases.
            parser: parser of noun phrases, ``spacy:PIPELINE``.
            levels: scale of a multimodal judge; empty: judges of the categories' own.
            images: images that exist; in the released layout they are matched by the text and number in their names.
            limit: prompts in all, drawn evenly from the categories; None for all.
            seed: of which prompts a limit keeps.
            n_images: images per prompt; None: ten, two of our own prompts, or as many as ``images`` has.

        Raises:
            UsageError: a file is missing, altered, or not parsed; or options contradict each other.
        """
        if phrases is not None and parser is not None:
            raise UsageError("give either --phrases or --parser: noun phrases are listed in a file, or parsed")
        by_category: dict[str, list[Asked]] = {c: [] for c in CATEGORIES if c in categories}
        altered = ""
        files: dict[str, str] = {}
        if prompts is None:
            for each in own_prompts(categories):
                by_category[each.category].append(each)
        else:
            by_category, altered, files = _read(prompts, list(by_category), split, own)
        is_own = prompts is None or bool(altered)
        every = [
            (f"{f'{OWN}_' if is_own else ''}{category}_{each.index:05d}", each)
            for category, some in by_category.items()
            for each in some
        ]
        chosen = {prompt_id for prompt_id, _ in _limited(every, limit, seed)}
        kept = [(prompt_id, each) for prompt_id, each in every if prompt_id in chosen]
        parsed, parser_name = _parsed([each for _, each in kept], phrases, parser, prompts)
        asked = tuple(
            zip([prompt_id for prompt_id, _ in kept], with_phrases([e for _, e in kept], parsed), strict=True)
        )
        found: tuple[UserImage, ...] | None = None
        if images is not None and is_released_layout(images, list(by_category)):
            of_category = {c: [item for item in asked if item[1].category == c] for c in by_category}
            found = tuple(read_images(images, of_category))
            if n_images is None:
                n_images = max((image.index + 1 for image in found), default=IMAGES_EACH)
        return cls(
            asked=asked,
            n_images=n_images or (2 if prompts is None else IMAGES_EACH),
            own=is_own,
            altered=altered,
            files=files,
            parser=parser_name,
            levels=levels,
            found=found,
        )

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored; they hold all it needs to know."""
        return cls(
            asked=tuple((p.prompt_id, replace(Asked.of_spec(p.text, p.spec), scene=p.scene)) for p in prompts),
            n_images=max((p.n_images for p in prompts), default=IMAGES_EACH),
            own=bool(settings.get("own", False)),
            altered=str(settings.get("altered", "")),
            files=dict(settings.get("files", {})),
            parser=str(settings.get("parser", "")),
            levels=str(settings.get("levels", "")),
        )

    def settings(self) -> Mapping[str, Any]:
        """What decides the prompts and what is asked; where files lie does not."""
        kept = ("categories", "split", "limit", "seed", "n_images")
        return {
            **{name: value for name, value in self.made_with.items() if name in kept},
            "own": self.own,
            "altered": self.altered,
            "files": dict(self.files),
            "parser": self.parser,
            "levels": self.levels,
        }

    @property
    def user_images(self) -> Sequence[UserImage] | None:  # type: ignore[override]
        """Images in the released layout; None for others, which are matched by their names."""
        return self.found

    @property
    def classes(self) -> Mapping[str, str]:
        """Classes of our own prompts, with what renderers show where they have no model of one."""
        return own_classes() if self.own and not self.altered else {}

    @property
    def colors(self) -> Sequence[str]:
        """Colours of our own prompts."""
        return COLORS if self.own and not self.altered else ()

    # ------------------------------------------------------------------------------------------------ what is asked
    def prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(
                prompt_id=prompt_id,
                suite=self.name,
                text=each.text,
                facets=self._facets(each),
                spec=each.spec(),
                n_images=self.n_images,
                scene=each.scene,
            )
            for prompt_id, each in self.asked
        ]

    def _facets(self, asked: Asked) -> dict[str, Any]:
        """What breakdowns group by. Prompts other than the released ones carry that in their category's name."""
        facets: dict[str, Any] = {"category": f"{OWN} {asked.category}" if self.own else asked.category}
        if asked.relation is not None:
            facets["relation"] = asked.relation
        if asked.seen:
            facets["seen"] = asked.seen
        if asked.route:
            facets["route"] = asked.route
        if asked.phrases is not None:
            facets["phrases"] = len(asked.phrases)
        if asked.numbers:
            facets["kinds"] = len(asked.numbers)
        return facets

    def needs(self) -> Sequence[Need]:
        """Answers about noun phrases, boxes, depth, vectors: as far as the categories asked take them.

        All may stay open: categories whose judges nobody named have no scores, and that is said.
        """
        if self.levels:
            questions = {
                prompt_id: tuple(Question(text=text, choices=LEVEL_CHOICES, bare=True) for text in texts)
                for prompt_id, texts in ((i, level_prompts(each, self.levels)) for i, each in self.asked)
            }
            return (AnswerNeed(questions=questions),)
        roles = {role for _, each in self.asked for role in ROLES[each.category]}
        needs: list[Need] = []
        if "vqa" in roles:
            asked = {i: _questions(each) for i, each in self.asked if each.phrases}
            needs.append(AnswerNeed(questions=asked, weighed=True, optional=True))
        if "detector" in roles:
            needs.append(DetectionNeed(classes=tuple(self._labels()), partial=True, optional=True))
        if "depth" in roles:
            needs.append(DepthNeed(optional=True))
        if "clip" in roles:
            needs.append(EmbeddingNeed(texts=tuple(self._texts()), optional=True))
        return [need for need in needs if not isinstance(need, DetectionNeed) or need.classes]

    def _labels(self) -> Iterable[str]:
        """What a detector is asked for, each once, in a fixed order."""
        return sorted({name for _, each in self.asked for name in _looked_for(each)})

    def _texts(self) -> Iterable[str]:
        """Texts that images are held against, each once."""
        texts: dict[str, None] = {}
        for _, each in self.asked:
            if each.category in ("non_spatial", "complex"):
                texts |= {each.text: None} | ({each.without_adjectives: None} if each.without_adjectives else {})
        return texts

    # ------------------------------------------------------------------------------------------------------ verdicts
    def rule_values_of(self) -> Rules:
        """The values of all rules."""
        return Rules(
            threshold=self.rule("box_threshold"),
            threshold_revised=self.rule("box_threshold_revised"),
            gate=self.rule("least_2d_score"),
            np_num=self.rule("np_num"),
            phrase_filter=self.rule("phrase_filter"),
            edition=self.rule("numeracy_edition"),
            swapped=self.rule("depth_indexing") == "swapped",
            middle=self.rule("depth_by") == "median",
        )

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Every protocol's score of every image, its parts, and whether all is there; table ``verdicts``."""
        judged, rules, rows = Judged(observed, self.levels), self.rule_values_of(), VerdictRows()
        asked = {p.prompt_id: Asked.of_spec(p.text, p.spec) for p in observed.prompts.values()}
        for image in shown_images(observed):
            each = asked[image.prompt.prompt_id]
            metric = "multimodal" if self.levels else METRIC_OF[each.category]
            for protocol in PROTOCOLS:
                checked = not self.levels and _is_checked(each, protocol)
                if image.problem:
                    for rule in (metric, "accuracy") if checked else (metric,):
                        rows.add(image, protocol, rule, None, image.problem)
                    continue
                made = judged.decide(image.image_id, image.index, each, protocol, rules)
                if made is None:
                    continue
                rows.add(image, protocol, metric, made.score, made.reason, made.detail or None)
                if checked:
                    rows.add(image, protocol, "accuracy", made.right, made.reason)
                for rule, value in made.parts.items():
                    rows.add(image, protocol, rule, value, made.reason)
            if image.problem is None and not self.levels and each.phrases and "vqa" in judged.filled:
                for phrase in each.phrases:
                    share, _, mass = judged.probabilities(image.image_id, phrase)
                    rows.add(image, PROTOCOLS[0], "phrase", share, question_of(phrase), {"mass": mass})
        return rows.table()

    # -------------------------------------------------------------------------------------------------------- scores
    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, category by category."""
        return compbench_scores(self.name, PROTOCOLS, observed, verdicts)

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """Shares of images that show all, of the categories that hang on one judge alone."""
        import polars as pl

        scores, pairing = self.scores(observed, verdicts), self.pairings[-1]
        made: list[Estimand] = []
        for role in ("vqa", "detector"):
            of_role = {i: p for i, p in observed.prompts.items() if ROLES[p.spec["category"]] == (role,)}
            names = {p.facets["category"] for p in of_role.values()}
            some = [s for s in scores if s.metric == "accuracy" and s.group.get("category") in names]
            rows = verdicts.filter(pl.col("prompt_id").is_in(list(of_role)))
            made += right_or_wrong_estimands(some, of_role, rows, pairing, role)
        return made

    def remarks(self, observed: Observed) -> Sequence[str]:
        """What keeps the numbers from being compared with published ones."""
        lines = []
        if self.altered:
            lines.append(f"the prompts are not the released ones: {self.altered}")
        elif self.own:
            lines.append(
                "the prompts are verism's own, as no --prompts was given: categories are named 'own ...', and no "
                "number is comparable with one of T2I-CompBench"
            )
        if self.levels:
            lines.append("questions for levels are worded by verism: no number is comparable with a published one")
            return lines
        asked = {each.category for _, each in self.asked}
        for role, table in TABLES.items():
            of_role = [category for category in CATEGORIES if category in asked and role in ROLES[category]]
            rows = observed.observations.get(table)
            if not of_role:
                continue
            if rows is None:
                lines.append(f"no judge was named as {option_of(role)}, so {', '.join(of_role)} lack what it says")
                continue
            judge = next(iter(rows["judge"].to_list()), "")
            part, published = PUBLISHED_JUDGES[role]
            if judge and part not in judge.lower():
                lines.append(
                    f"{', '.join(of_role)}: judged by {judge}, not by {published} as published; not comparable with "
                    "published numbers under any protocol"
                )
        lines += self._never_seen(observed)
        tokens = observed.observations.get("token_probabilities")
        if asked & {*BOUND, "complex"} and "answers" in observed.observations and (tokens is None or tokens.is_empty()):
            lines.append(
                "the VQA judge gives no probabilities of single words: under paper its normalised ones were taken"
            )
        return lines

    def facts(self, observed: Observed) -> Mapping[str, float]:
        """The highest confidence of the detector in each name."""
        import polars as pl

        rows, labels = observed.observations.get(TABLES["detector"]), sorted(self._labels())
        if rows is None or not labels:
            return {}
        highest = [
            pl.col("class_scores")
            .list.get(number, null_on_oob=True)
            .max()
            .fill_null(0.0)
            .alias(f"confidence in {label}")
            for number, label in enumerate(labels)
        ]
        return rows.select(highest).row(0, named=True)

    def _never_seen(self, observed: Observed) -> list[str]:
        """A line on names to which the detector gave no confidence in any box: it may not know them at all."""
        rows = observed.observations.get(TABLES["detector"])
        if rows is None or rows.is_empty() or rows["judge"][0] == "truth":
            return []
        labels = sorted(self._labels())
        facts = self.known_facts(observed)
        never = [label for label in labels if not facts.get(f"confidence in {label}")]
        if not never:
            return []
        unable = [e for _, e in self.asked if not set(never).isdisjoint(_looked_for(e))]
        shown = ", ".join(never[:8]) + (" ..." if len(never) > 8 else "")
        return [
            f"the detector gave no confidence to {len(never)} of {len(labels)} names in any image ({shown}); if it "
            f"does not know them, {len(unable)} prompts cannot score whatever the images show"
        ]

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.compbench.report import compbench_sections

        return compbench_sections(evidence)


USUAL_PARSER = "spacy:en_core_web_sm"
PHRASES_FILE = "phrases.jsonl"
LEVEL_CHOICES = ("1", "2", "3", "4", "5")
STRINGS = ("yes", "no")


def _fact(shown: Mapping[str, str]) -> SceneFact:
    """That an object with these properties is there."""
    label, color, texture, shape = (shown.get(name, "") for name in ("label", "color", "texture", "shape"))
    return SceneFact(asks="present", label=label, color=color, texture=texture, shape=shape)


def _questions(asked: Asked) -> tuple[Question, ...]:
    """A question for each noun phrase, each wording once; of prompts of ours with what a renderer must have shown."""
    made: dict[str, Question] = {}
    for number, phrase in enumerate(asked.phrases or ()):
        fact = _fact(asked.shows[number]) if asked.shows else None
        text = question_of(phrase)
        made.setdefault(text, Question(text=text, strings=STRINGS, bare=True, fact=fact))
    return tuple(made.values())


def _looked_for(asked: Asked) -> tuple[str, ...]:
    """What a detector is asked for on behalf of a prompt."""
    if asked.category in ("spatial", "3d_spatial", "complex"):
        return tuple(detector_name(name) for name in asked.names or ())
    return tuple(RENAMED.get(name, name) for name, _ in asked.numbers)


def _is_checked(asked: Asked, protocol: str) -> bool:
    """Whether it can be said that an image shows all that is asked: of a cosine nobody can say how much is enough."""
    if asked.category == "complex":
        return "clip" not in ROUTES["both" if protocol == "paper" else asked.route]
    return asked.category != "non_spatial"


def _read(
    folder: Path, categories: Sequence[str], split: str, own: bool
) -> tuple[dict[str, list[Asked]], str, dict[str, str]]:
    """Prompts by category, how they differ from the released ones, and the hashes of their files.

    Raises:
        UsageError: no such folder, a file is missing, or one is altered and ``altered`` is not given.
    """
    if not folder.is_dir():
        raise refusal(folder / f"{categories[0]}_{split}.txt", f"{folder} is no folder", split)
    read = {category: read_category(folder, category, split) for category in categories}
    altered = structure_problem(read, split, folder)
    if altered and not own:
        name = next((n for n in (prompt_file(folder, c, split) for c in categories) if n.name in altered), folder)
        raise refusal(name, altered, split)
    paths = [prompt_file(folder, category, split) for category in categories]
    return read, altered, {path.name: file_hash(path) for path in paths}


def _parsed(
    asked: Sequence[Asked], phrases: Path | None, parser: str | None, folder: Path | None
) -> tuple[dict[str, Parsed], str]:
    """Noun phrases of the prompts that take them, and who parsed: the file or parser named, else a file beside the
    prompts, else the usual parser where it is installed.

    Raises:
        UsageError: none of these, and they are needed.
    """
    wanted = [each for each in asked if needs_phrases(each)]
    if not wanted:
        return {}, ""
    if phrases is None and parser is None and folder is not None and (folder / PHRASES_FILE).is_file():
        phrases = folder / PHRASES_FILE
    if phrases is not None:
        found = read_phrases(phrases)
        names = dict.fromkeys(found[e.text].parser for e in wanted if e.text in found)
        return found, f"{', '.join(names)} ({phrases.name}, {file_hash(phrases)[:12]})"
    try:
        made = make_parser(parser or USUAL_PARSER)
    except VerismError:
        if parser is not None:
            raise
    else:
        return {each.text: made.parse(each.text) for each in wanted}, made.name
    needed = ", ".join(dict.fromkeys(each.category for each in wanted))
    raise UsageError(
        f"{needed} prompts are scored by their noun phrases: give --phrases FILE (verism compbench phrases writes one) "
        "or --parser spacy:en_core_web_sm (pip install 'verism[phrases]'), or leave them out with --category"
    )


def _limited(prompts: Sequence[tuple[str, Asked]], limit: int | None, seed: int) -> list[tuple[str, Asked]]:
    """A limit dealt out evenly to the categories; what a small one cannot use goes to the others."""
    groups = [[item for item in prompts if item[1].category == category] for category in CATEGORIES]
    groups = sorted((group for group in groups if group), key=len)
    left = len(prompts) if limit is None else limit
    kept: list[tuple[str, Asked]] = []
    for number, group in enumerate(groups):
        share = min(len(group), math.ceil(left / (len(groups) - number)))
        left -= share
        if share:
            kept += choose(group, [prompt_id for prompt_id, _ in group], share, seed)
    return kept
