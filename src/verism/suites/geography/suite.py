"""DIG In as a suite: what is asked, what must be observed, evidence image by image, indicators.

Source: Hall et al. 2023, arXiv:2308.06198.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError
from verism.records import (
    PROTOCOLS,
    EmbeddingNeed,
    FeatureNeed,
    Need,
    Observed,
    Prompt,
    ReferenceSet,
    Score,
    UserImage,
)
from verism.suites.base import (
    COSINE,
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.geography.demo import DEMOS, DEMOS_DOLLARSTREET
from verism.suites.geography.indicators import indicator_scores, notes
from verism.suites.geography.layouts import RealData, fit_world, read_real, reference_of
from verism.suites.geography.measure import Comparison, Made, Measured, Rules, measure
from verism.suites.geography.metrics import METRICS
from verism.suites.geography.prompts import make_prompts
from verism.suites.geography.selection import DEDUP
from verism.suites.geography.user_images import UserImageRow, read_user_images, user_image_prompts
from verism.suites.geography.worlds import FAMILIES, World, read_world, standard_world
from verism.suites.verdict_table import VerdictRows

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["Geography", "GeographyDollarStreet"]

OF_FEATURES = tuple(spec.name for spec in METRICS if "features" in spec.judges)
BUILT_IN_FACETS = ("object", "region", "country")  # what every prompt has; other columns come from tables


GEODE, DOLLARSTREET = "geode", "dollarstreet"
PROTOCOL_MEANINGS = {
    "revised": "Both sides sampled to equal sizes by the same rule, with one copy of duplicates. Use it to compare "
    "models.",
    "released": "The authors' published scripts: real images as loaded, generated ones sampled with seed 42, all "
    "copies of duplicates dropped.",
    "paper": "The paper's text: the same number per object and region on both sides, duplicates kept.",
}
LIMITS = (
    "Precision and coverage say how alike two sets of images are to one network. They depend on it, on its weights and "
    "on how images were cut and resized: numbers made with other features are not comparable.",
    "They depend on the sizes of both sets. The dashed stroke is what images of the very same distribution would get "
    "at these sizes; read coverage against it and not against 100 %.",
    "The real images are not the region: they are what was photographed for one collection.",
    "The similarity of an image and a word inherits what its model learnt of both, its own biases included.",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Geography(Suite):
    """Prompts by object and region, and the real images they are compared with. Make one with ``Geography.make``.

    Attributes:
        world: name of the world: regions, objects and templates.
        prompt_list: the prompts.
        objects: names, in order.
        regions: keys, in order.
        balanced: whether a number of images is asked for each cell.
        object_region: whether cells of object and region are compared beside regions.
        compares: whether there are real images.
        reference: the real images; None without any, and on a stored run.
        user_images: the images to evaluate; None if a model makes them.
        standard: name of the world used unless another is given.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        maps_vectors: features are read from files, see ``Suite``.
        takes_uneven_vectors: images whose vectors are not as those of most are unusable, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    world: str
    prompt_list: tuple[Prompt, ...]
    objects: tuple[str, ...]
    regions: tuple[str, ...]
    balanced: bool = True
    object_region: bool = True
    compares: bool = False
    reference: ReferenceSet | None = None
    user_images: tuple[UserImage, ...] | None = None
    _memory: dict[str, tuple[tuple[Any, ...], Measured]] = field(default_factory=dict)

    standard: ClassVar[str] = GEODE
    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="geography",
        title="Geography",
        question="Are the images equally realistic, diverse and consistent for every region of the world?",
        summary="realism, diversity and consistency by region of the world (DIG In): 27 objects, 6 regions (GeoDE)",
        protocols=PROTOCOL_MEANINGS,
        limits=LIMITS,
        citation="Hall et al. 2023, DIG In, arXiv:2308.06198",
    )
    commands: ClassVar[Mapping[str, str]] = {"data check": "verism.suites.geography.cli:check"}
    published: ClassVar[Mapping[str, str]] = {"digin": "verism.suites.geography.published:digin"}
    maps_vectors: ClassVar[bool] = True
    takes_uneven_vectors: ClassVar[bool] = True
    judge_roles: ClassVar[tuple[str, ...]] = ("features", "clip")
    growing_settings = ("families",)
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("reference", Path, help="Real images: a GeoDE or DollarStreet folder, a table, or a reference file."),
        Option("images", Path, help="Images to evaluate: a table, or a folder in the authors' naming."),
        Option("objects", str, many=True, flag="--object", help="Use only this object; repeatable."),
        Option("regions", str, many=True, flag="--region", help="Use only this region; repeatable."),
        Option(
            "families",
            str,
            many=True,
            choices=FAMILIES,
            flag="--family",
            help="Form of the prompts: object, region or country; repeatable.",
        ),
        Option("per_cell", int, low=1, help="Images per object and region.", default="180, or the smallest real cell"),
        Option("world", Path, help="File with regions, objects, countries and templates of your own (.yaml, .json)."),
        Option(
            "k", int, low=1, help="Nearest neighbours of precision and coverage; cells need k + 2 images.", default="3"
        ),
        Option("group_by", str, many=True, commas=True, help="Further columns to compare by, comma-separated."),
        Option("tree_tag", str, help="Use only real images with this value in the column tree_tag (EvalGIM: no)."),
        replace(LIMIT, help="Number of prompts, as whole objects where one fits."),
        replace(SEED, help="Seed of the images and of the resampling behind intervals."),
        replace(N_IMAGES, help="Not available here; --per-cell sets the number of images per prompt.", default=""),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "k", int, 3, low=1, metrics=OF_FEATURES, help="Nearest neighbour, the k-th, whose distance is the radius."
        ),
        Rule(
            "per_cell",
            int,
            None,
            low=1,
            optional=True,
            metrics=OF_FEATURES,
            help="Images sampled per cell; null: the size of the smallest cell.",
        ),
        Rule(
            "dedup",
            str,
            "protocol",
            choices=DEDUP,
            metrics=OF_FEATURES,
            help="Duplicate images: none are dropped, all but one, or all; protocol: as each protocol does.",
        ),
        Rule(
            "group_by",
            str,
            many=True,
            metrics=(),
            help="Additional columns to group by.",
        ),
        Rule(
            "splits",
            int,
            Rules.splits,
            low=0,
            affects="scores",
            metrics=(),
            help="Random halves for the intervals; 0: no intervals of precision, recall, density, coverage.",
        ),
        Rule(
            "approximate",
            bool,
            Rules.approximate,
            metrics=OF_FEATURES,
            help="Search neighbours in nearby cells only, for large sets; each number then has an error, "
            "and no interval.",
        ),
        Rule("resampling_seed", int, 0, low=0, affects="scores", metrics=(), help="Seed of resampling."),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "quality": (
                "precision_mean",
                "coverage_mean",
            ),
            "fairness": (
                "precision_gap",
                "coverage_gap",
                "consistency_gap",
                "precision_worst",
                "coverage_worst",
                "consistency_worst",
            ),
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="inside", metric="precision", key=("region",), where={"level": "region"}, split=("family",)),
        Pairing(rule="consistency", metric="mean_similarity", facet="region", split=("family",), scale=COSINE),
    )
    layout: ClassVar[Layout] = Layout(
        detail=("object",),
        names={
            "family=object": "object",
            "family=region": "object in region",
            "family=country": "object in country",
        },
    )

    @property
    def limits(self) -> Rules:
        """The rules as the measuring code takes them."""
        return Rules(
            k=self.rule("k"),
            per_cell=self.rule("per_cell"),
            dedup=self.rule("dedup"),
            group_by=tuple(self.rule("group_by")),
            splits=self.rule("splits"),
            approximate=self.rule("approximate"),
        )

    @property
    def seed(self) -> int:
        """Seed of the resampling behind intervals; draws have the published one, 42."""
        return int(self.rule("resampling_seed"))

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule; regions are compared anyway and are no further column.

        Raises:
            UsageError: a value that does not fit.
        """
        checked = rule.check(value)
        if rule.name == "group_by":
            checked = list(dict.fromkeys(checked))
            if "region" in checked:
                raise UsageError("group_by names further columns; regions are compared anyway")
        return checked

    def _with(self, **attributes: Any) -> Self:
        return super()._with(**{"_memory": {}, **attributes})

    # ---------------------------------------------------------------------------------------------- what is asked
    def prompts(self) -> Sequence[Prompt]:
        return self.prompt_list

    @property
    def families(self) -> tuple[str, ...]:
        """Prompt families that are asked for."""
        present = {p.facets["family"] for p in self.prompt_list}
        return tuple(f for f in FAMILIES if f in present)

    def needs(self) -> Sequence[Need]:
        """Features if there are real images; vectors of bare objects and of prompts. Either may be left out."""
        bare = dict.fromkeys(str(p.facets["object"]) for p in self.prompt_list)
        texts = tuple(dict.fromkeys([*bare, *(p.text for p in self.prompt_list)]))
        embedding = EmbeddingNeed(texts=texts, optional=True)
        return (FeatureNeed(reference=True, optional=True), embedding) if self.compares else (embedding,)

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.geography.report import geography_sections

        return geography_sections(evidence)

    @property
    def compared_settings(self) -> Sequence[str]:
        """Whether every region counts the same number of real images."""
        return ("balanced",)

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs."""
        return {
            "world": self.world,
            "objects": list(self.objects),
            "regions": list(self.regions),
            "families": list(self.families),
            "balanced": self.balanced,
            "object_region": self.object_region,
            "compares": self.compares,
        }

    # --------------------------------------------------------------------------------------------------- evidence
    def measured(self, observed: Observed) -> Measured:
        """Every comparison, made once for the same tables."""
        key = (observed.images, observed.reference, *(observed.observations[t] for t in sorted(observed.observations)))
        stored = self._memory.get("last")
        if stored is not None and len(stored[0]) == len(key) and all(a is b for a, b in zip(stored[0], key)):
            return stored[1]
        known = None
        if self.reference is not None and self.reference.features is not None:
            known = ([p.image_id for p in self.reference.images], self.reference.features)
        result = measure(
            observed,
            objects=self.objects,
            regions=self.regions,
            protocols=PROTOCOLS,
            balanced=self.balanced,
            object_region=self.object_region,
            rules=self.limits,
            seed=self.seed,
            known=known,
        )
        self._memory["last"] = (key, result)
        return result

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Where every image lies; table ``verdicts``.

        Rules:

        * ``inside``: whether a generated image lies in the manifold of the real ones it is compared with; ``detail``
          has ``region``, ``level`` (``region``: all objects of the region; ``object-region``: its own object's), and
          the ``nearest`` real image with its ``distance``. An {object} image has a row for every region.
        * ``covered``: whether a real image has a generated one within the radius of its neighbours; ``image_id`` is
          the real image's, ``prompt_id`` is empty, ``detail`` has ``family``, ``region`` and ``level``.
        * ``consistency``: cosine of a generated image with its bare object (``consistency_prompt``, only under
          ``paper``: with its prompt).

        Images that were not drawn, left out as duplicates, or have no usable answer have no value but a reason.
        """
        rows = VerdictRows()
        measured = self.measured(observed)
        for protocol in PROTOCOLS:
            for family in self.families:
                made = [m for m in measured.made if m.family == family]
                if measured.has_features:
                    self._manifold_rows(rows, measured, protocol, family, made)
                if measured.has_vectors:
                    _similarity_rows(rows, measured, protocol, family, made)
        return rows.table()

    def _manifold_rows(
        self, rows: VerdictRows, measured: Measured, protocol: str, family: str, made: Sequence[Made]
    ) -> None:
        prompt_of = {m.image_id: m.prompt.prompt_id for m in made}
        comparisons = [c for c in measured.comparisons[protocol, family] if c.level in ("region", "object-region")]
        drawn: set[str] = set()
        for c in comparisons:
            drawn.update(c.generated_ids)
            _comparison_rows(rows, c, protocol, family, prompt_of, self.limits.smallest)
        choice, side = measured.choices[protocol, family], measured.sides[family]
        doubled = {side.ids[r] for r in choice.duplicates}
        cells = "all that could be" if choice.per_cell is None else f"{choice.per_cell:,} per object and region"
        for m in made:
            if m.image_id in drawn:
                continue
            reason = m.no_features
            if not reason:
                reason = "left out as a duplicate" if m.image_id in doubled else f"not drawn; {cells} were"
            rows.add_row(m.image_id, m.prompt.prompt_id, protocol, "inside", None, reason, {"region": m.region})

    # ----------------------------------------------------------------------------------------------------- scores
    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:  # noqa: ARG002
        """All numbers of the suite, from the same comparisons as the verdicts; see ``docs/suites/geography.md``."""
        return indicator_scores(
            self.measured(observed),
            suite=self.name,
            families=self.families,
            objects=self.objects,
            regions=self.regions,
            protocols=PROTOCOLS,
            rules=self.limits,
            seed=self.seed,
        )

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """Whether regions differ significantly, and which is worst.

        Args:
            scores: all of a run, as judged.
        """
        from verism.suites.geography.answers import geography_answers

        return geography_answers(scores, self.layout.names) or super().answers(scores)

    def remarks(self, observed: Observed, protocols: Sequence[str] = ("revised",)) -> list[str]:
        """Lines on set sizes, cells that are short or undefined, and duplicates."""
        return notes(self.measured(observed), protocols=protocols, rules=self.limits)

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def build(
        cls,
        *,
        reference: Path | None = None,
        images: Path | None = None,
        objects: Sequence[str] | None = None,
        regions: Sequence[str] | None = None,
        families: Sequence[str] | None = None,
        per_cell: int | None = None,
        world: Path | None = None,
        k: int = 3,
        group_by: Sequence[str] = (),
        tree_tag: str | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite over a world of regions and objects.

        Args:
            reference: real images: a GeoDE or DollarStreet folder, a table with ``file_path``, ``object`` and
                ``region``, or a reference file. None: only consistency can be measured.
            images: images that exist: a table, or a folder in the authors' naming (see ``read_user_images``); the
                prompts are those they answer. None: a model is asked the prompts of the world.
            objects: only these; None: those of the images, or the paper's.
            regions: only these; as of ``objects``.
            families: forms of the prompts; as of ``objects``.
            per_cell: images per object and region, at least k + 2 if they are compared. By default 180 for prompts of
                the paper, otherwise as many as the smallest usable cell has.
            world: regions, objects, countries and templates of your own (YAML or JSON).
            k: neighbours.
            group_by: further columns that become facets and are compared group by group.
            tree_tag: only reference rows with this value in the column ``tree_tag`` (EvalGIM: ``no``).
            limit: at most so many prompts, as whole objects where one fits.
            seed: of the resampling behind intervals; draws have the published one, 42.
            n_images: refused, ``per_cell`` says how many.

        Raises:
            UsageError: something does not exist or does not fit.
        """
        name = cls.info.name
        if n_images is not None:
            raise UsageError(f"{name} asks as many images of a prompt as cells need; say how many with per_cell")
        columns = tuple(dict.fromkeys(group_by))
        base = standard_world(cls.standard) if world is None else read_world(world)
        real = None if reference is None else _real_data(cls.standard, reference, base, tree_tag)
        if per_cell is not None:
            if real is not None and per_cell < k + 2:
                raise UsageError(f"per_cell must be at least k + 2 = {k + 2} images for k = {k}; got {per_cell}")
            base = replace(base, per_cell=per_cell)
        shown = [] if real is None else real.images
        open_world = world is None and (real is None or real.layout in ("table", "file"))
        user_images: tuple[UserImage, ...] | None = None
        if images is not None:
            rows = _user_image_rows(
                images, base.with_foreign([p.object for p in shown], [p.region for p in shown]), families
            )
            chosen = _world_of_rows(rows, base, objects, regions, [p.region for p in shown], world is None)
            prompts, existing = user_image_prompts(name, chosen, rows, columns)
            if not prompts:
                raise UsageError(f"{images}: none of its {len(rows):,} images shows what was asked for")
        else:
            if real is not None:
                chosen = fit_world(
                    base,
                    objects=objects,
                    regions=regions,
                    seen_objects=list(dict.fromkeys(p.object for p in shown)),
                    seen_regions=list(dict.fromkeys(p.region for p in shown)),
                    foreign=open_world,
                )
            else:
                chosen = base.choose(objects, regions)
            if (
                per_cell is None
                and real is not None
                and real.layout in ("table", "file")
                and chosen.per_cell is not None
            ):
                chosen = replace(chosen, per_cell=_smallest_cell(real, chosen, k))
            default = [f for f in FAMILIES if f != "country" or all(p.countries for p in chosen.regions)]
            prompts, existing = make_prompts(name, chosen, families or default), []
        prompts = _limited(prompts, limit)
        if images is not None:
            kept = {p.prompt_id for p in prompts}
            user_images = tuple(b for b in existing if b.prompt_id in kept)
        drawn = per_cell if images is not None or chosen.per_cell is None else chosen.per_cell
        asked = {str(p.facets["object"]) for p in prompts}
        suite = cls(
            world=chosen.name,
            prompt_list=tuple(prompts),
            objects=tuple(t.name for t in chosen.objects if t.name in asked),
            regions=tuple(p.key for p in chosen.regions),
            balanced=chosen.per_cell is not None,
            object_region=chosen.name != DOLLARSTREET,
            compares=real is not None,
            reference=None if real is None else reference_of(real, _asked_world(chosen, asked), columns),
            user_images=user_images,
        )
        return suite.with_rules(k=k, per_cell=drawn, group_by=columns, resampling_seed=seed)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run: its real images are in the run's own tables."""
        return cls(
            world=str(settings["world"]),
            prompt_list=tuple(prompts),
            objects=tuple(settings["objects"]),
            regions=tuple(settings["regions"]),
            balanced=bool(settings["balanced"]),
            object_region=bool(settings["object_region"]),
            compares=bool(settings["compares"]),
        )


class GeographyDollarStreet(Geography):
    """The same with DollarStreet."""

    standard: ClassVar[str] = DOLLARSTREET
    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="geography_dollarstreet",
        title="Geography, DollarStreet",
        question=Geography.info.question,
        summary="as geography, with DollarStreet: 109 topics, 4 regions",
        protocols=PROTOCOL_MEANINGS,
        limits=LIMITS,
        citation=Geography.info.citation,
    )
    demos: ClassVar[tuple[Demo, ...]] = DEMOS_DOLLARSTREET


SUITE_OF_LAYOUT = {cls.standard: cls.info.name for cls in (Geography, GeographyDollarStreet)}


def _comparison_rows(
    rows: VerdictRows, c: Comparison, protocol: str, family: str, prompt_of: Mapping[str, str], smallest: int
) -> None:
    where = " / ".join(str(v) for v in c.group.values())
    index_of = {"region": c.group["region"], "level": c.level}
    n_real, n_made = len(c.real_ids), len(c.generated_ids)
    e = c.evidence
    if e is None:
        reason = f"undefined: {where} has {n_real} real and {n_made} generated images, and needs {smallest} of each"
        for image_id in c.generated_ids:
            rows.add_row(image_id, prompt_of[image_id], protocol, "inside", None, reason, index_of)
        for image_id in c.real_ids:
            rows.add_row(image_id, "", protocol, "covered", None, reason, {"family": family, **index_of})
        return
    for i, image_id in enumerate(c.generated_ids):
        inside, distance = bool(e.inside[i]), float(e.nearest_distance[i])
        reason = f"{'inside' if inside else 'outside'} the manifold of {n_real:,} real images of {where}"
        nearest = {**index_of, "nearest": c.real_ids[e.nearest_real[i]], "distance": distance}
        rows.add_row(image_id, prompt_of[image_id], protocol, "inside", float(inside), reason, nearest)
    for i, image_id in enumerate(c.real_ids):
        n, radius = int(e.n_generated_inside[i]), float(e.real_radii[i])
        reason = f"{n:,} of {n_made:,} generated images of {where} lie within its radius"
        detail = {"family": family, **index_of, "radius": radius}
        rows.add_row(image_id, "", protocol, "covered", float(n > 0), reason, detail)


def _similarity_rows(rows: VerdictRows, measured: Measured, protocol: str, family: str, made: Sequence[Made]) -> None:
    counted = measured.consistency[protocol, family]
    for m in made:
        s = measured.similarities.get(m.image_id)
        for rule in ("consistency", "consistency_prompt")[: 2 if protocol == "paper" else 1]:
            text = m.object if rule == "consistency" else m.prompt.text
            value = math.nan if s is None else s.bare if rule == "consistency" else s.prompt
            reason = m.no_vector or f"cosine with {text!r}"
            if math.isnan(value):
                reason = m.no_vector or f"no vector of the text {text!r}"
            elif m.image_id not in counted:
                value, reason = math.nan, "not drawn, or left out as a duplicate"
            detail = {"region": m.region, "text": text}
            usable = None if math.isnan(value) else value
            rows.add_row(m.image_id, m.prompt.prompt_id, protocol, rule, usable, reason, detail)


def _real_data(standard: str, reference: Path, base: World, tree_tag: str | None) -> RealData:
    real = read_real(reference, base, tree_tag=tree_tag, need_files=False)
    if real.layout in SUITE_OF_LAYOUT and real.layout != standard:
        raise UsageError(f"{reference} is a {real.layout} folder: use the suite {SUITE_OF_LAYOUT[real.layout]}")
    return real


def _user_image_rows(images: Path, world: World, families: Sequence[str] | None) -> list[UserImageRow]:
    rows = read_user_images(images, world)
    kept = [r for r in rows if families is None or r.family in families]
    if not kept:
        raise UsageError(f"{images}: none of its {len(rows):,} images answers a prompt of {', '.join(families or ())}")
    return kept


def _world_of_rows(
    rows: Sequence[UserImageRow],
    base: World,
    objects: Sequence[str] | None,
    regions: Sequence[str] | None,
    real_regions: Sequence[str],
    foreign: bool,
) -> World:
    """The world that user images show. Images of {object} prompts name no region: then the real ones' count."""
    named = [r for row in rows for r in (row.region, row.paired) if r is not None]
    return fit_world(
        base,
        objects=objects,
        regions=regions,
        seen_objects=list(dict.fromkeys(r.object for r in rows)),
        seen_regions=list(dict.fromkeys(named or real_regions)) or [p.key for p in base.regions],
        foreign=foreign,
    )


def _asked_world(world: World, asked: set[str]) -> World:
    return replace(world, objects=tuple(t for t in world.objects if t.name in asked))


def _smallest_cell(real: RealData, world: World, k: int) -> int:
    """Images per cell to ask of a model: as many as the smallest usable real cell has, at most the world's number."""
    counts: dict[tuple[str, str], int] = {}
    for image in real.images:
        item, position = world.thing(image.object), world.region(image.region)
        if item is not None and position is not None:
            counts[item.key, position.key] = counts.get((item.key, position.key), 0) + 1
    usable = [n for n in counts.values() if n >= k + 2]
    return min([world.per_cell or 180, *usable])


def _limited(prompts: Sequence[Prompt], limit: int | None) -> list[Prompt]:
    """At most ``limit`` prompts: as many objects as fit, each with all its prompts, so that regions stay comparable.

    Where not even one object fits, the first prompts of the first one: enough to see that everything works.
    """
    if limit is None or len(prompts) <= limit:
        return list(prompts)
    by_object: dict[Any, list[Prompt]] = {}
    for p in prompts:
        by_object.setdefault(p.facets["object"], []).append(p)
    left = limit
    kept: set[Any] = set()
    for item, entry in by_object.items():
        if len(entry) > left:
            break
        left -= len(entry)
        kept.add(item)
    if not kept:
        return next(iter(by_object.values()))[:limit]
    return [p for p in prompts if p.facets["object"] in kept]
