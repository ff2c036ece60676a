"""Quality as a suite: a set of images against a set of real ones, or against published statistics of one.

==============  =====================================================================================================
``revised``   all usable images, with intervals; unbiased KID of all pairs; FID also extrapolated to any number
``paper``       as first published: FID without interval, KID of 100 subsets of 1,000, Inception score of ten splits
``released``    the FID of DALL-Eval: images in batches of 64 by name, the last incomplete batch left out
==============  =====================================================================================================

Which network and preprocessing the features come from is no part of the protocol but of the judge's name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.locations import location
from verism.records import FeatureNeed, Need, Observed, Prompt, ReferenceSet, Score, UserImage, vectors_of
from verism.statistics.intervals import Interval
from verism.suites.base import LIMIT, N_IMAGES, SEED, Demo, MetricSpec, Option, Pairing, Rule, Suite, SuiteInfo
from verism.suites.prompt_lists import choose, file_hash, read_prompt_list
from verism.suites.quality.demo import DEMOS
from verism.suites.quality.image_sets import ListedImage, list_images, open_reference
from verism.suites.quality.metrics import METRICS
from verism.suites.verdict_table import VerdictRows, image_problem

if TYPE_CHECKING:
    import polars as pl

    from verism.metrics.frechet import FeatureStatistics
    from verism.metrics.manifold import ApproximatePRDC, Memberships
    from verism.own_images import OwnImages, Possible
    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["Quality"]

RELEASED_BATCH = 64  # default of DALL-Eval's script, which drops the last incomplete batch
PAPER_SUBSETS, PAPER_SUBSET_SIZE = 100, 1000  # Binkowski et al. 2018, arXiv:1801.01401, Sec. 4
FEW = 8  # images in the smallest subset, at least, to draw a line through
PAPER_SPLITS = 10  # Salimans et al. 2016, arXiv:1606.03498
UNDEFINED = Interval(math.nan, math.nan, math.nan)
MANIFOLD = ("precision", "recall", "density", "coverage")
SETTINGS = (
    "reference_kind",
    "reference_path",
    "reference_sha256",
    "reference_left_out",
    "pictures_from",
    "prompt_list",
    "limit",
    "n_images",
)


NO_PROMPTS = "needs images (--images) or prompts for a model (--prompts FILE)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Quality(Suite):
    """Images and what they are compared with. Make one with ``Quality.make``.

    Attributes:
        listed: the prompts; of images without prompts, one with an empty text for each.
        user_images: the images, None if a model makes them.
        reference: real images; None on a stored run (whose tables hold them), for statistics, and for no reference.
        source: what both were made from, for the settings of a run.
        info: name, title, question, protocols and limits, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        maps_vectors: features are read from files, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
    """

    listed: tuple[Prompt, ...]
    user_images: tuple[UserImage, ...] | None = None
    reference: ReferenceSet | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    _memory: dict[str, tuple[tuple[Any, ...], ApproximatePRDC]] = field(default_factory=dict)

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="quality",
        title="Quality",
        question="Are the images as realistic and as diverse as real ones?",
        summary="FID, KID, precision, recall, density, coverage against real images or published statistics",
        protocols={
            "revised": "All usable images. Use it to compare models.",
            "released": "What DALL-Eval's published code does: the last incomplete batch is left out.",
            "paper": "The definition in the text of the publication.",
        },
        limits=(
            "FID, KID, precision and the rest depend on the network, its weights and on how images were cut and "
            "resized: numbers made with other features are not comparable.",
            "FID is biased upwards for few images; compare runs of equal size, or its extrapolation.",
            "None of these metrics judges a single image as a person would.",
        ),
        citation="Heusel et al. 2017 (FID), Binkowski et al. 2018 (KID), Naeem et al. 2020 (PRDC)",
    )
    judge_roles: ClassVar[tuple[str, ...]] = ("features",)
    maps_vectors: ClassVar[bool] = True
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "reference",
            Path,
            help="Real images: a folder, a list (.csv, .jsonl), a run, features (.npz), or FID statistics (.npz).",
        ),
        Option("images", Path, help="Images to evaluate: a folder, a list or a run.", flag="--images"),
        Option("prompts", Path, help="Prompt list (.txt, .csv, .jsonl): with it, images are matched by name."),
        replace(LIMIT, help="Number of prompts, sampled at random by --seed."),
        SEED,
        replace(N_IMAGES, default="1"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "k",
            int,
            3,
            low=1,
            metrics=(*MANIFOLD, "expected_coverage"),
            help="Nearest neighbours of precision, recall, density and coverage.",
        ),
        Rule(
            "group_by",
            str,
            many=True,
            flag="--group-by",
            affects="scores",
            metrics=(),
            help="Facets to group by; several with commas.",
        ),
        Rule(
            "extrapolate",
            bool,
            True,
            affects="scores",
            metrics=(),
            help="Compute FID-infinity, which takes a hundred times as long as FID.",
        ),
        Rule(
            "splits",
            int,
            20,
            low=2,
            affects="scores",
            metrics=(),
            help="Random halves for the intervals of precision, recall, density and coverage.",
        ),
        Rule(
            "approximate",
            bool,
            False,
            metrics=MANIFOLD,
            help="Search neighbours in nearby cells only, for large sets; each number then has an error, "
            "and no interval.",
        ),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "quality": (
                "fid",
                "fid_infinity",
                "kid",
                "inception_score",
                "precision",
                "recall",
                "density",
                "coverage",
            )
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    pairings: ClassVar[tuple[Pairing, ...]] = (Pairing(rule="inside", metric="precision"),)

    def prompts(self) -> Sequence[Prompt]:
        if not self.listed:
            raise UsageError(f"{self.name} {NO_PROMPTS}")
        return self.listed

    @property
    def compared_settings(self) -> Sequence[str]:
        """Published statistics are told apart by their file; real images, by what they are.

        Without either, no number depends on them.
        """
        kind = self.source.get("reference_kind")
        if kind is None:
            return ()
        return ("reference_kind", "reference_sha256") if kind == "statistics" else ("reference_kind",)

    @property
    def reference_name(self) -> str:
        """The name of the folder, list or file of statistics."""
        path = self.source.get("reference_path")
        return Path(path).name if path else ""

    def needs(self) -> Sequence[Need]:
        return (FeatureNeed(reference=self.source.get("reference_kind") in ("pictures", "features")),)

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.quality.report import quality_sections

        return quality_sections(evidence)

    def settings(self) -> Mapping[str, Any]:
        return dict(self.source)

    @property
    def k(self) -> int:
        """Nearest neighbours of precision, recall, density and coverage."""
        return int(self.rule("k"))

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule; facets to group by must be those of images and reference.

        Raises:
            UsageError: a value that does not fit, or a facet that images or reference do not have.
        """
        checked = rule.check(value)
        if rule.name == "group_by":
            self._check_groups(checked)
        return checked

    def _check_groups(self, group_by: Sequence[str]) -> None:
        if group_by and self.source.get("reference_kind") == "statistics":
            raise UsageError(
                f"{self.name}: published statistics are of all images together and have no groups by {group_by[0]}; "
                "give the real images or their features"
            )
        sides = [("images", {name for p in self.listed for name in p.facets})]
        if self.reference is not None:
            sides.append(("reference", {name for p in self.reference.images for name in p.facets}))
        for side, facets in sides:
            if missing := [name for name in group_by if name not in facets]:
                raise UsageError(
                    f"{self.name}: the {side} have no facet {missing[0]!r} to group by; they have {sorted(facets)}"
                )

    @classmethod
    def build(
        cls,
        *,
        reference: Path | None = None,
        images: Path | None = None,
        prompts: Path | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int = 1,
    ) -> Self:
        """The suite over images that exist, or over a prompt list for a model.

        Args:
            reference: a folder of images, a list of them (CSV or JSON lines, ``file_path`` and facets), a run
                directory, a reference file of ours, an array of features (.npy, .npz), or statistics (.npz with ``mu``
                and ``sigma``: FID only). None: only the Inception score.
            images: a folder, list or run directory of images, each its own prompt unless the list says otherwise. With
                ``prompts``, they are matched with these by name.
            prompts: a prompt list (see ``prompt_lists.read_prompt_list``).
            limit: prompts, drawn at random by seed; None for all.
            seed: of that draw.
            n_images: images per prompt.

        Raises:
            UsageError: neither images nor prompts nor a reference, or a source that cannot be read as any of the forms.
        """
        name = cls.info.name
        opened = None if reference is None else open_reference(reference)
        user_images: list[UserImage] | None = None
        if prompts is not None:
            if images is not None and (images / "prompts.parquet").is_file():
                raise UsageError(f"{images} is a run directory and has its own prompts; leave out --prompts {prompts}")
            listed = [
                Prompt(prompt_id=p.prompt_id, suite=name, text=p.text, facets=dict(p.facets), n_images=n_images)
                for p in read_prompt_list(prompts)
            ]
        elif images is not None:
            if n_images != 1:
                raise UsageError("the number of images per prompt is that of --images; leave out --n-images")
            listed, user_images = _own_prompts(name, list_images(images))
        elif reference is not None:
            listed = []  # only the real images are wanted, for a reference file
        else:
            raise UsageError(f"{name} {NO_PROMPTS}")
        chosen = choose(listed, [p.prompt_id for p in listed], limit, seed)
        ids = {p.prompt_id for p in chosen}
        is_file = reference is not None and reference.is_file()
        source = {
            "reference_kind": None if opened is None else opened.kind,
            "reference_path": None if reference is None else str(reference.absolute()),
            "reference_sha256": file_hash(reference) if reference is not None and is_file else None,
            "reference_left_out": 0 if opened is None else opened.left_out,
            "pictures_from": None if images is None else str(images.absolute()),
            "prompt_list": None if prompts is None else {"file": prompts.name, "sha256": file_hash(prompts)[:16]},
            "limit": limit,
            "n_images": n_images,
        }
        return cls(
            listed=tuple(chosen),
            user_images=None if user_images is None else tuple(i for i in user_images if i.prompt_id in ids),
            reference=None if opened is None else opened.images,
            source=source,
        )

    @classmethod
    def for_own_images(cls, found: OwnImages, judges: Mapping[str, str], reference: Path | None) -> Possible | None:
        """Any images, and real ones to compare with.

        Args:
            found: not used here.
            judges: names of judges that the user named, by role.
            reference: real images that the user named.
        """
        from verism.own_images import Possible

        del found
        if reference is None:
            why = "how close images are to real ones, and how varied; needs real ones: --reference DIR"
            return Possible(suite=cls.info.name, options=None, why=why)
        options = {"reference": reference, "features": judges.get("features", "builtin")}
        why = "how close the images are to real ones, and how varied"
        return Possible(suite=cls.info.name, options=options, why=why, by_prompt=False)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run; the images it compares with are in the run's tables."""
        return cls(listed=tuple(prompts), source={key: settings.get(key) for key in SETTINGS})

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """``inside`` per image, with the nearest real one; ``covered`` per real image; table ``verdicts``."""
        sets = _Sets.of(observed)
        if sets.real is None:
            return VerdictRows().table()
        rough = self._approximate(sets)
        result = _memberships(sets.real, sets.generated, self.k) if rough is None else rough.memberships
        near = "nearest" if rough is None else "nearest found"
        few = (
            f"{len(sets.real)} real and {len(sets.generated)} generated images can be used; k = {self.k} needs "
            f"{self.k + 2} of each"
        )
        index_of = {image_id: row for row, image_id in enumerate(sets.generated_ids)}
        rows = VerdictRows()
        for image in observed.images.sort("image_id").iter_rows(named=True):
            at = index_of.get(image["image_id"])
            value, reason, detail = None, few, None
            if at is None:
                reason = image_problem(image["state"], image["note"], observed=False) or few
            elif result is not None:
                balls, distance = int(result.n_real_balls[at]), float(result.nearest_distance[at])
                nearest = sets.real_ids[result.nearest_real[at]]
                radius = float(result.real_radii[result.nearest_real[at]])
                value = float(balls > 0)
                reason = (
                    f"{'inside' if balls else 'outside'} the real images: {near} is {nearest} at {distance:.4g}, "
                    f"whose own neighbours reach to {radius:.4g}"
                )
                detail = {"nearest": nearest, "distance": distance, "n_balls": balls}
            rows.add_row(image["image_id"], image["prompt_id"], "revised", "inside", value, reason, detail)
        for row, image_id in enumerate(sets.real_ids):
            value, reason, detail = None, few, None
            if result is not None:
                inside = int(result.n_generated_inside[row])
                value = float(inside > 0)
                reason = f"{inside} images within {float(result.real_radii[row]):.4g}"
                detail = {"n_inside": inside}
            rows.add_row(image_id, "", "revised", "covered", value, reason, detail)
        return rows.table()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order.

        Raises:
            UsageError: features of another size than the reference's, statistics that changed or are gone, or no
                reference and no logits, so that there is nothing to compute.
        """
        del verdicts  # they tell about images; numbers need all features anyway
        sets = _Sets.of(observed)
        statistics = self._statistics(sets)
        if sets.real is None and statistics is None and not sets.logits:
            raise UsageError(
                f"{self.name}: features alone say nothing without something to compare with; give --reference, or "
                "logits for the Inception score (a judge with layer=logits or layer=logits_unbiased)"
            )
        scores = self._of_group(sets, statistics, {})
        for facet in self.rule("group_by"):
            for value, group in _split(sets, facet):
                scores += self._of_group(group, None, {facet: value})
        return scores

    def _statistics(self, sets: _Sets) -> FeatureStatistics | None:
        """The published statistics the run compares with, read again from their file."""
        if self.source.get("reference_kind") != "statistics":
            return None
        from verism.metrics.frechet import read_statistics

        path = location(self.source["reference_path"])
        if not path.is_file():
            raise UsageError(f"{path}: the statistics this run compares with are gone; put the file back to score it")
        if file_hash(path) != self.source["reference_sha256"]:
            raise UsageError(f"{path}: the statistics are not those this run was started with; start another run")
        try:
            statistics = read_statistics(path)
        except ValueError as err:
            raise UsageError(str(err)) from err
        if len(sets.generated) and sets.generated.shape[1] != len(statistics.mean):
            raise UsageError(
                f"{path} is of {len(statistics.mean)} features and the judge gives {sets.generated.shape[1]}; use the "
                "network the statistics were made with"
            )
        return statistics

    def _of_group(self, sets: _Sets, statistics: FeatureStatistics | None, group: Mapping[str, Any]) -> list[Score]:
        def add(
            metric: str, protocol: str, interval: Interval, more: Mapping[str, Any] | None = None, **counted: Any
        ) -> None:
            described: dict[str, Any] = {
                "n_used": len(sets.generated),
                "n_unusable": sets.unusable,
                "unit": "distance",
            } | counted
            scores.append(
                Score(
                    suite=self.name,
                    metric=metric,
                    protocol=protocol,
                    value=interval.value,
                    ci_low=interval.low,
                    ci_high=interval.high,
                    group={**group, **(more or {})},
                    **described,
                )
            )

        scores: list[Score] = []
        real = statistics if statistics is not None else sets.real
        if real is not None:
            self._distances(sets, real, add, whole=not group)
        if sets.real is not None:
            self._manifold(sets, sets.real, add)
        if sets.logits:
            _inception(sets, add)
        return scores

    def _distances(
        self,
        sets: _Sets,
        real: NDArray[np.float32] | FeatureStatistics,
        add: Callable[..., None],
        *,
        whole: bool,
    ) -> None:
        from verism.metrics.frechet import fid_infinity, frechet_from_features, frechet_interval
        from verism.metrics.kernel import kid, kid_subsets

        generated, m = sets.generated, len(sets.generated)
        features = real if isinstance(real, np.ndarray) else None
        enough = m >= 2 and (features is None or len(features) >= 2)
        fid = frechet_interval(real, generated, clusters=sets.clusters) if enough else UNDEFINED
        add("fid", "revised", fid)
        if self.rule("extrapolate") and whole:
            # Straight in 1/n only where the subsets, of half the images or 5,000 and more, outnumber the features.
            straight = enough and min(m // 2, 5000) > max(generated.shape[1], FEW)
            limit = fid_infinity(real, generated, clusters=sets.clusters) if straight else None
            add("fid_infinity", "revised", UNDEFINED if limit is None else _ends(limit))
        if features is not None:
            value = kid(features, generated, clusters=sets.clusters) if enough else None
            add("kid", "revised", UNDEFINED if value is None else _ends(value))
        if not whole:
            return
        add("fid", "paper", Interval(fid.value, math.nan, math.nan))
        if features is not None:
            subsets = math.nan
            if min(m, len(features)) >= PAPER_SUBSET_SIZE:
                subsets = kid_subsets(features, generated, subsets=PAPER_SUBSETS, subset_size=PAPER_SUBSET_SIZE).mean
            add("kid", "paper", Interval(subsets, math.nan, math.nan))
        kept = m - m % RELEASED_BATCH
        released = math.nan
        if kept >= 2 and enough:
            released = frechet_from_features(real, generated[:kept]).value
        add(
            "fid",
            "released",
            Interval(released, math.nan, math.nan),
            n_used=kept,
            n_unusable=sets.unusable + m - kept,
        )

    def _manifold(self, sets: _Sets, real: NDArray[np.float32], add: Callable[..., None]) -> None:
        """Precision, recall, density, coverage; each with the number of images it is a share of."""
        from verism.metrics.manifold import expected_coverage, half_samples

        n, m = len(real), len(sets.generated)
        result = dict.fromkeys((*MANIFOLD, "expected_coverage"), UNDEFINED)
        rough = self._approximate(sets)
        if rough is not None:
            result |= {name: Interval(getattr(rough.values, name), math.nan, math.nan) for name in MANIFOLD}
        elif min(n, m) >= self.k + 2:
            halves = half_samples(
                real, sets.generated, self.k, seed=0, n_splits=self.rule("splits"), clusters=sets.clusters
            )
            result |= {
                "precision": halves.interval("precision"),
                "recall": halves.interval("recall"),
                "density": halves.interval("density"),
                "coverage": halves.interval("coverage"),
            }
        if min(n, m) >= self.k + 2:
            expected = expected_coverage(n, m, self.k)
            result["expected_coverage"] = Interval(expected, math.nan, math.nan)  # known, and no estimate
        of_real = {"n_used": n, "n_unusable": sets.real_unusable}
        add("precision", "revised", result["precision"], unit="share")
        add("recall", "revised", result["recall"], unit="share", **of_real)
        add("density", "revised", result["density"], unit="ratio")
        add("coverage", "revised", result["coverage"], unit="share", **of_real)
        add(
            "expected_coverage",
            "revised",
            result["expected_coverage"],
            unit="share",
            **of_real,
        )
        if rough is not None:
            for name in MANIFOLD:
                error = Interval(getattr(rough.error, name), math.nan, math.nan)
                counted = {"n_used": rough.checked, "n_unusable": 0, "unit": "ratio" if name == "density" else "share"}
                add("approximation_error", "revised", error, more={"of": name}, **counted)

    def _approximate(self, sets: _Sets) -> ApproximatePRDC | None:
        """Numbers by approximate neighbours, if the rule asks for them and the sets are large enough for any.

        Those of all images are kept: verdicts, scores and remarks are of the same neighbours.
        """
        from verism.metrics.manifold import approximate_prdc

        if not self.rule("approximate") or sets.real is None or min(len(sets.real), len(sets.generated)) < self.k + 2:
            return None
        key = (self.k, *sets.tables)
        stored = self._memory.get("approximate")
        if sets.tables and stored is not None and all(a is b for a, b in zip(stored[0], key, strict=True)):
            return stored[1]
        rough = approximate_prdc(sets.real, sets.generated, self.k, rng=np.random.default_rng(0))
        if sets.tables:
            self._memory["approximate"] = (key, rough)
        return rough

    def remarks(self, observed: Observed) -> list[str]:
        """What makes the numbers of these images hard to trust, in lines for people; empty if nothing does."""
        sets = _Sets.of(observed)
        lines = []
        m, dim = len(sets.generated), sets.generated.shape[1]
        sides = [("images", m)] + ([("real images", len(sets.real))] if sets.real is not None else [])
        few = [f"{n:,} {name}" for name, n in sides if n <= dim]
        if few and dim:
            lines.append(
                f"only {' and '.join(few)} for {dim:,} features: the Fréchet distance is far too high; compare it "
                "with those of the same numbers of images only, or use the kernel distance"
            )
        if sets.real is not None and m and len(sets.real) and m != len(sets.real):
            lines.append(
                f"{m:,} images against {len(sets.real):,} real ones: coverage grows with the first and falls with "
                "the second; read it next to expected_coverage, which equal distributions would give"
            )
        lines += _copies(observed)
        if (rough := self._approximate(sets)) is not None:
            listed = ", ".join(f"{name} {getattr(rough.error, name):.2g}" for name in MANIFOLD)
            lines.append(
                f"precision, recall, density and coverage are by approximate neighbours, of which "
                f"{rough.neighbour_recall:.1%} were found: they have no intervals, and may be off by (95 %) {listed}"
            )
        if left_out := self.source.get("reference_left_out"):
            lines.append(f"{left_out:,} images of the run that serves as reference could not be used")
        if self.source.get("reference_kind") == "statistics":
            lines.append(
                "published statistics hold no images: KID, precision, recall, density and coverage need the real "
                "images or their features"
            )
        return lines


def _copies(observed: Observed) -> list[str]:
    """How many usable generated images are, byte by byte, real ones or each other."""
    generated, real = (_hashes(table) for table in (observed.images, observed.reference))
    lines = []
    if shared := int(generated.is_in(real.unique().implode()).sum()):
        lines.append(
            f"copies of real images, byte by byte: {shared:,} of {len(generated):,} images; real images are compared "
            "with themselves there"
        )
    if repeated := len(generated) - generated.n_unique():
        lines.append(
            f"copies of other images of the set, byte by byte: {repeated:,} of {len(generated):,}; each counts"
        )
    return lines


def _hashes(images: pl.DataFrame | None) -> pl.Series:
    """SHA-256 of the usable images of a table, as far as they are known."""
    import polars as pl

    if images is None or "sha256" not in images.columns:
        return pl.Series("sha256", [], dtype=pl.String)
    return images.filter(pl.col("state") == "ok")["sha256"].drop_nulls()


# ------------------------------------------------------------------------------------------------------------- features
@dataclass(frozen=True, kw_only=True, eq=False)
class _Sets:
    """Features of both sides, rows in the order of ids.

    Attributes:
        generated: shape (M, D), float32. clusters: prompt of each. unusable: images without features.
        real: shape (N, D), None without real images. logits: whether the judge gives a classifier's logits.
        tables: of the observations they are all of; empty for a group of images.
    """

    generated: NDArray[np.float32]
    generated_ids: list[str]
    clusters: NDArray[Any]
    generated_facets: list[Mapping[str, Any]]
    unusable_facets: list[Mapping[str, Any]]
    real: NDArray[np.float32] | None
    real_ids: list[str]
    real_facets: list[Mapping[str, Any]]
    real_unusable_facets: list[Mapping[str, Any]]
    logits: bool
    tables: tuple[Any, ...] = ()

    @property
    def unusable(self) -> int:
        return len(self.unusable_facets)

    @property
    def real_unusable(self) -> int:
        return len(self.real_unusable_facets)

    @staticmethod
    def of(observed: Observed) -> _Sets:
        import polars as pl

        table = observed.observations["features"]
        usable = observed.images.filter(pl.col("state") == "ok").select("image_id", "prompt_id")
        rows = table.with_row_index("row").join(usable, on="image_id", how="inner").sort("image_id")
        seen = set(rows["image_id"].to_list())
        facets = {p: prompt.facets for p, prompt in observed.prompts.items()}
        lost = observed.images.filter(~pl.col("image_id").is_in(list(seen)))
        real, real_ids, real_facets, real_lost = None, [], [], []
        if observed.reference is not None:
            vectors = observed.observations.get("reference_features", table.clear()).with_row_index("row")
            known = observed.reference.sort("image_id")
            owner = {row["image_id"]: json.loads(row["facets"]) for row in known.iter_rows(named=True)}
            ok = known.filter(pl.col("state") == "ok")["image_id"].to_list()
            vectors = vectors.filter(pl.col("image_id").is_in(ok)).sort("image_id")
            real, real_ids = _vectors(observed, "reference_features", vectors), vectors["image_id"].to_list()
            real_facets = [owner[image_id] for image_id in real_ids]
            there = set(real_ids)
            real_lost = [facets_ for image_id, facets_ in owner.items() if image_id not in there]
        generated = _vectors(observed, "features", rows)
        if real is not None and len(real) and len(generated) and real.shape[1] != generated.shape[1]:
            raise UsageError(
                f"real images have {real.shape[1]} features and the others {generated.shape[1]}: both must come from "
                "the same network and layer"
            )
        judge = str(table["judge"][0]) if table.height else ""
        return _Sets(
            generated=generated,
            generated_ids=rows["image_id"].to_list(),
            clusters=np.array(rows["prompt_id"].to_list(), dtype=str),
            generated_facets=[facets[p] for p in rows["prompt_id"].to_list()],
            unusable_facets=[facets[p] for p in lost["prompt_id"].to_list()],
            real=real,
            real_ids=real_ids,
            real_facets=real_facets,
            real_unusable_facets=real_lost,
            logits="layer=logits" in judge,
            tables=(table, observed.observations.get("reference_features"), observed.reference),
        )


def _vectors(observed: Observed, table: str, rows: pl.DataFrame) -> NDArray[np.float32]:
    """Vectors of some rows of a table, with their numbers in the column ``row``: all of them are not copied."""
    mapped = observed.vectors.get(table)
    if mapped is None:
        return vectors_of(rows["vector"])
    numbers = rows["row"].to_numpy()
    every = len(numbers) == len(mapped) and bool((numbers == np.arange(len(mapped))).all())
    return mapped if every else mapped[numbers]


def _split(sets: _Sets, facet: str) -> list[tuple[Any, _Sets]]:
    """The images of each value of a facet, real and generated; values that either side has.

    Raises:
        UsageError: the two sides have no value in common, so nothing would be compared.
    """
    mine = {facets.get(facet) for facets in (*sets.generated_facets, *sets.unusable_facets)}
    theirs = {facets.get(facet) for facets in (*sets.real_facets, *sets.real_unusable_facets)}
    if sets.real is not None and mine and theirs and not mine & theirs:
        raise UsageError(
            f"images and reference have no {facet} in common: {_some(mine)} here and {_some(theirs)} there; write "
            "them alike"
        )
    split = []
    for value in sorted(mine | theirs, key=lambda v: (v is None, str(v))):
        mask = np.array([f.get(facet) == value for f in sets.generated_facets], dtype=bool)
        other = np.array([f.get(facet) == value for f in sets.real_facets], dtype=bool)
        part = replace(
            sets,
            tables=(),
            generated=sets.generated[mask] if len(mask) else sets.generated,
            generated_ids=[i for i, chosen in zip(sets.generated_ids, mask, strict=True) if chosen],
            clusters=sets.clusters[mask] if len(mask) else sets.clusters,
            generated_facets=[f for f, chosen in zip(sets.generated_facets, mask, strict=True) if chosen],
            unusable_facets=[f for f in sets.unusable_facets if f.get(facet) == value],
            real=None if sets.real is None else sets.real[other] if len(other) else sets.real,
            real_ids=[i for i, chosen in zip(sets.real_ids, other, strict=True) if chosen],
            real_facets=[f for f, chosen in zip(sets.real_facets, other, strict=True) if chosen],
            real_unusable_facets=[f for f in sets.real_unusable_facets if f.get(facet) == value],
        )
        split.append((value, part))
    return split


def _some(values: set[Any]) -> str:
    listed = sorted(map(str, values))
    return ", ".join(listed[:4]) + (", ..." if len(listed) > 4 else "")


def _memberships(real: NDArray[np.float32], generated: NDArray[np.float32], k: int) -> Memberships | None:
    """Where every image lies; None for sets too small to have k neighbours."""
    from verism.metrics.manifold import memberships

    if min(len(real), len(generated)) < k + 2:
        return None
    return memberships(real, generated, k)


def _ends(value: Any) -> Interval:
    return Interval(value.value, value.low, value.high)


def _inception(sets: _Sets, add: Callable[..., None]) -> None:
    from verism.metrics.inception_score import inception_score

    m = len(sets.generated)
    full = paper = UNDEFINED
    if m:
        result = inception_score(sets.generated, kind="logits", splits=min(PAPER_SPLITS, m), clusters=sets.clusters)
        full = _ends(result)
        if m >= PAPER_SPLITS:
            paper = Interval(result.mean, math.nan, math.nan)
    add("inception_score", "revised", full, unit="classes")
    add("inception_score", "paper", paper, unit="classes")


def _own_prompts(suite: str, images: Sequence[ListedImage]) -> tuple[list[Prompt], list[UserImage]]:
    """Prompts of images that exist: as their list names them, the same for the same text, else one for each."""
    of_text: dict[tuple[str, str], str] = {}
    prompts: dict[str, Prompt] = {}
    user_images: list[UserImage] = []
    counts: dict[str, int] = {}
    for image in images:
        prompt_id = image.prompt_id
        if prompt_id is None:
            # The same words in another group (region ...) are another prompt.
            key = (image.text, json.dumps(dict(image.facets), sort_keys=True))
            prompt_id = of_text.setdefault(key, image.name) if image.text else image.name
        index = counts.get(prompt_id, 0) if image.index is None else image.index
        counts[prompt_id] = max(counts.get(prompt_id, 0), index + 1)
        prompt = Prompt(prompt_id=prompt_id, suite=suite, text=image.text, facets=dict(image.facets))
        first = prompts.setdefault(prompt_id, prompt)
        if (first.text, first.facets) != (prompt.text, prompt.facets):
            raise UsageError(
                f"{image.path}: prompt {prompt_id!r} stands for {first.text!r} {dict(first.facets)} above and for "
                f"{prompt.text!r} {dict(prompt.facets)} here; images of one prompt share text and facets"
            )
        if image.path is not None:
            user_images.append(UserImage(prompt_id=prompt_id, index=index, path=str(image.path)))
    return [replace(p, n_images=counts[p.prompt_id]) for p in prompts.values()], user_images
