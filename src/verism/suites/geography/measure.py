"""From tables to comparisons: which features belong to which image, and where every image lies.

Everything heavy of the suite happens here, once for each set of observations.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verism.metrics.manifold import (
    PRDC,
    ApproximatePRDC,
    HalfSamples,
    Memberships,
    approximate_prdc,
    half_samples,
    knn_radii,
    memberships,
    prdc,
)
from verism.metrics.retrieval import cosine
from verism.records import FacetValue, Observed, Prompt
from verism.suites.geography.selection import ROWS_AT_ONCE, Choice, RowsOf, Side, choose
from verism.suites.geography.worlds import FAMILIES
from verism.suites.verdict_table import NOT_OBSERVED, image_problem

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Comparison", "Made", "Measured", "Real", "Rules", "Similarity", "measure"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What changes numbers without new images or observations.

    Attributes:
        k: neighbours that define a radius, >= 1.
        per_cell: images drawn per cell; None: as many as the smallest usable cell has.
        dedup: see ``selection.DEDUP``.
        group_by: further columns to compare group by group.
        splits: random halvings behind each interval, >= 0; 0: no intervals of precision, recall, density, coverage.
        approximate: whether neighbours are searched in near cells alone; then there are no intervals either.
    """

    k: int = 3
    per_cell: int | None = None
    dedup: str = "protocol"
    group_by: tuple[str, ...] = ()
    splits: int = 20
    approximate: bool = False

    @property
    def smallest(self) -> int:
        """Images a set needs for a manifold: the published formula takes one more than k + 1 for granted."""
        return self.k + 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """A generated image: its row of ``images``, its prompt, and why its features or vectors cannot be used.

    Attributes:
        image_id: of its row in table ``images``.
        prompt: the prompt it was made from.
        region: whose real images it is compared with; None: every region's.
        no_features: why its features cannot be used; empty if they can.
        no_vector: why its vector cannot be used; empty if it can.
    """

    image_id: str
    prompt: Prompt
    region: str | None
    no_features: str
    no_vector: str

    @property
    def family(self) -> str:
        return str(self.prompt.facets["family"])

    @property
    def object(self) -> str:
        return str(self.prompt.facets["object"])


@dataclass(frozen=True, kw_only=True, eq=False)
class Real:
    """A real image: facets, and why its features cannot be used (empty if they can)."""

    image_id: str
    facets: Mapping[str, FacetValue]
    no_features: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """A set of generated images against a set of real ones.

    Attributes:
        group: what it is restricted to: a region, an object in a region, or a value of another column.
        level: ``region``, ``object-region`` or the column's name.
        real_ids: ids of the real images, in the order of the arrays below.
        generated_ids: ids of the generated images, in the order of the arrays below.
        values: precision, recall, density and coverage; NaN where a set is too small.
        evidence: which images lie inside the other set; None where a set is too small.
        halves: values of random halves behind the intervals; None without intervals.
        rough: of approximate neighbours, the same with the error of each number; None for exact ones.
    """

    group: Mapping[str, FacetValue]
    level: str
    real_ids: Sequence[str]
    generated_ids: Sequence[str]
    values: PRDC
    evidence: Memberships | None
    halves: HalfSamples | None
    rough: ApproximatePRDC | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Similarity:
    """Cosine of an image with its bare object, and with the prompt that made it; NaN where there is none."""

    bare: float
    prompt: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """All that verdicts and scores are made of.

    Attributes:
        made: generated images in the order of prompts and indices.
        real: real images in table order.
        has_features: whether there are real images and a judge's table of features, which may be empty.
        has_vectors: whether there is a judge's table of image vectors, which may be empty.
        choices: by (protocol, family), which images are compared.
        sides: by family, the generated images that have features.
        real_side: the real images that have features; None where there was nothing to compare.
        comparisons: by (protocol, family), all groups.
        similarities: by image; empty where nobody compared images with texts.
        consistency: by (protocol, family), the images whose similarity counts.
    """

    made: Sequence[Made]
    real: Sequence[Real]
    has_features: bool
    has_vectors: bool
    choices: Mapping[tuple[str, str], Choice] = field(default_factory=dict)
    sides: Mapping[str, Side] = field(default_factory=dict)
    real_side: Side | None = None
    comparisons: Mapping[tuple[str, str], Sequence[Comparison]] = field(default_factory=dict)
    similarities: Mapping[str, Similarity] = field(default_factory=dict)
    consistency: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)


# -------------------------------------------------------------------------------------------------------------- vectors
class Vectors:
    """Vectors of a table by image or text, and why some cannot be used."""

    def __init__(
        self, table: pl.DataFrame | None, key: str = "image_id", mapped: NDArray[np.float32] | None = None
    ) -> None:
        """Vectors of a table.

        Args:
            table: its rows; None for none.
            key: column that names the image or text.
            mapped: its vectors where these lie in a file, in the order of the rows (``Observed.vectors``).
        """
        self.rows: dict[str, int] = {}
        self.seen: set[str] = set()
        self.matrix: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        if table is None or table.is_empty():
            return
        if mapped is not None:
            names = table[key].to_list()
            self.seen, self.matrix = set(names), mapped
            for start in range(0, len(mapped) if mapped.shape[1] else 0, ROWS_AT_ONCE):
                finite = np.isfinite(mapped[start : start + ROWS_AT_ONCE]).all(axis=1)
                self.rows |= {names[start + row]: start + row for row in np.flatnonzero(finite).tolist()}
            return
        import polars as pl

        table = table.unique(subset=key, keep="first", maintain_order=True)
        self.seen = set(table[key].to_list())
        table = table.with_columns(pl.col("vector").cast(pl.List(pl.Float32)))  # polars makes arrays of equal lengths
        lengths = table["vector"].list.len()
        # The width most images have: one row of another kind must not spoil the rest.
        width = lengths.drop_nulls().mode().max() or 0
        complete = table.filter((pl.col("vector").list.len() == width) & (pl.col("vector").list.len() > 0))
        if complete.is_empty():
            return
        flat = complete["vector"].explode().fill_null(float("nan")).to_numpy()
        matrix = flat.reshape(complete.height, -1)
        finite = np.isfinite(matrix).all(axis=1)
        self.matrix = matrix if finite.all() else matrix[finite]
        names = [name for name, good in zip(complete[key].to_list(), finite, strict=True) if good]
        self.rows = {name: i for i, name in enumerate(names)}

    def why_not(self, name: str) -> str:
        """Why there is no usable vector; empty if there is one."""
        if name in self.rows:
            return ""
        return "its vector is not finite or has another length" if name in self.seen else NOT_OBSERVED

    def of(self, names: Iterable[str]) -> RowsOf:
        """Vectors of images that have one, shape (N, D)."""
        return RowsOf(self.matrix, np.array([self.rows[name] for name in names], dtype=np.intp))


def _paired_region(prompt: Prompt, index: int) -> str | None:
    """The region an image is compared with: its prompt's, or that of its place in the pairing."""
    if prompt.facets.get("region") is not None:
        return str(prompt.facets["region"])
    for region, n in prompt.spec.get("pairing") or ():
        if index < n:
            return str(region)
        index -= n
    return None


def _made(observed: Observed, features: Vectors, embeddings: Vectors) -> list[Made]:
    order = {prompt_id: i for i, prompt_id in enumerate(observed.prompts)}
    rows = sorted(
        observed.images.select("image_id", "prompt_id", "index", "state", "note").iter_rows(named=True),
        key=lambda row: (order[row["prompt_id"]], row["index"]),
    )
    made = []
    for row in rows:
        prompt = observed.prompts[row["prompt_id"]]
        broken = image_problem(row["state"], row["note"])
        made.append(
            Made(
                image_id=row["image_id"],
                prompt=prompt,
                region=_paired_region(prompt, row["index"]),
                no_features=broken or features.why_not(row["image_id"]),
                no_vector=broken or embeddings.why_not(row["image_id"]),
            )
        )
    return made


def _real(observed: Observed, features: Vectors) -> list[Real]:
    if observed.reference is None:
        return []
    real = []
    for row in observed.reference.select("image_id", "state", "facets", "note").iter_rows(named=True):
        broken = image_problem(row["state"], row["note"])
        real.append(
            Real(
                image_id=row["image_id"],
                facets=json.loads(row["facets"]),
                no_features=broken or features.why_not(row["image_id"]),
            )
        )
    return sorted(real, key=lambda r: (_row_number(r), r.image_id))


def _row_number(real: Real) -> int:
    row = real.facets.get("row")
    return row if isinstance(row, int) else -1


# -------------------------------------------------------------------------------------------------------------- measure
def measure(
    observed: Observed,
    *,
    objects: Sequence[str],
    regions: Sequence[str],
    protocols: Sequence[str],
    balanced: bool,
    object_region: bool,
    rules: Rules,
    seed: int,
    known: tuple[Sequence[str], NDArray[np.float32]] | None = None,
) -> Measured:
    """Choose, compare, and take cosines.

    Args:
        observed: images, prompts and observations of the run.
        objects: names of the objects, as facets have them.
        regions: keys of the regions, as facets have them.
        protocols: names of the protocols to apply.
        balanced: whether cells are brought to equal size.
        object_region: whether single cells are compared, too.
        rules: what changes numbers without new images.
        seed: of the random choices.
        known: ids and features of real images that are not in the tables (a reference file scored directly).
    """
    tables = observed.observations
    features, embeddings = (
        Vectors(tables.get(table), mapped=observed.vectors.get(table)) for table in ("features", "embeddings")
    )
    real_features = Vectors(tables.get("reference_features"), mapped=observed.vectors.get("reference_features"))
    if not real_features.rows and known is not None:
        real_features.rows = {name: i for i, name in enumerate(known[0])}
        real_features.seen, real_features.matrix = set(known[0]), known[1]
    made = _made(observed, features, embeddings)
    real = _real(observed, real_features)
    families = [f for f in FAMILIES if any(m.family == f for m in made)]
    has_features, has_vectors = "features" in tables and bool(real), "embeddings" in tables
    similarities = _similarities(made, embeddings, Vectors(tables.get("text_embeddings"), key="text"))
    consistency = {}
    if has_vectors:
        for family in families:
            for protocol in protocols:
                consistency[protocol, family] = _counted(
                    protocol, [m for m in made if m.family == family], features, similarities, objects, regions,
                    balanced, rules,
                )  # fmt: skip
    if not has_features:
        return Measured(
            made=made,
            real=real,
            has_features=False,
            has_vectors=has_vectors,
            similarities=similarities,
            consistency=consistency,
        )
    usable = [
        r
        for r in real
        if not r.no_features and r.facets.get("object") in set(objects) and r.facets.get("region") in set(regions)
    ]
    real_side = Side(
        ids=[r.image_id for r in usable],
        objects=[str(r.facets["object"]) for r in usable],
        regions=[str(r.facets["region"]) for r in usable],
        features=real_features.of(r.image_id for r in usable),
    )
    real_labels = {c: [r.facets.get(c) for r in usable] for c in rules.group_by}
    choices, comparisons, sides = {}, {}, {}
    radii: dict[Hashable, NDArray[np.float64]] = {}
    for family in families:
        looked = [m for m in made if m.family == family and not m.no_features]
        side = sides[family] = _side(looked, features)
        labels = {c: [m.prompt.facets.get(c) for m in looked] for c in rules.group_by}
        comparer = _Comparer(real_side, side, [m.prompt.prompt_id for m in looked], rules, seed, radii)
        for protocol in protocols:
            choice = choose(
                protocol, real_side, side, objects=objects, regions=regions, balanced=balanced,
                per_cell=rules.per_cell, smallest=rules.smallest, dedup=rules.dedup,
            )  # fmt: skip
            choices[protocol, family] = choice
            results = [
                comparer.compare({"region": r}, "region", *_pool(choice, [(o, r) for o in objects])) for r in regions
            ]
            if object_region:
                results += [
                    comparer.compare({"object": o, "region": r}, "object-region", *_pool(choice, [(o, r)]))
                    for o in objects
                    for r in regions
                ]
            everything = _pool(choice, list(choice.real))
            for column in rules.group_by:
                results += [
                    comparer.compare({column: value}, column, *rows)
                    for value, rows in _split(everything, real_labels[column], labels[column]).items()
                ]
            comparisons[protocol, family] = results
    return Measured(
        made=made,
        real=real,
        has_features=True,
        has_vectors=has_vectors,
        choices=choices,
        sides=sides,
        real_side=real_side,
        comparisons=comparisons,
        similarities=similarities,
        consistency=consistency,
    )


def _side(made: Sequence[Made], features: Vectors) -> Side:
    return Side(
        ids=[m.image_id for m in made],
        objects=[m.object for m in made],
        regions=[m.region for m in made],
        features=features.of(m.image_id for m in made),
    )


def _pool(choice: Choice, cells: Sequence[tuple[str, str]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of both sides over some cells, each once: {object} images may stand in several."""
    nothing = np.zeros(0, dtype=np.intp)
    return (
        np.unique(np.concatenate([nothing, *(choice.real[c] for c in cells)])),
        np.unique(np.concatenate([nothing, *(choice.generated[c] for c in cells)])),
    )


def _split(
    rows: tuple[NDArray[np.intp], NDArray[np.intp]], real: Sequence[FacetValue], generated: Sequence[FacetValue]
) -> dict[FacetValue, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows of both sides by the value of a column; images without one are in no group."""
    values = {real[r] for r in rows[0]} | {generated[r] for r in rows[1]}
    return {
        value: (
            np.array([r for r in rows[0] if real[r] == value], dtype=np.intp),
            np.array([r for r in rows[1] if generated[r] == value], dtype=np.intp),
        )
        for value in sorted((v for v in values if v is not None), key=str)
    }


_Found = tuple[PRDC, Memberships | None, HalfSamples | None, ApproximatePRDC | None]


class _Comparer:
    """Compares sets of rows; the same sets are compared once, the same real ones measured once."""

    def __init__(
        self,
        real: Side,
        generated: Side,
        prompts: Sequence[str],
        rules: Rules,
        seed: int,
        radii: dict[Hashable, NDArray[np.float64]],
    ) -> None:
        self.real, self.generated, self.rules, self.seed = real, generated, rules, seed
        self.prompts = np.array(prompts, dtype=str)  # of each generated image
        self._known: dict[Hashable, _Found] = {}
        self._radii = radii  # shared by all generated sets held against these real images

    def compare(
        self, group: Mapping[str, FacetValue], level: str, real: NDArray[np.intp], generated: NDArray[np.intp]
    ) -> Comparison:
        # By name, so that intervals, too, do not depend on the order of tables.
        real = np.array(sorted(real.tolist(), key=lambda r: self.real.ids[r]), dtype=np.intp)
        generated = np.array(sorted(generated.tolist(), key=lambda r: self.generated.ids[r]), dtype=np.intp)
        key = (real.tobytes(), generated.tobytes())
        if key not in self._known:
            self._known[key] = self._measure(real, generated)
        values, evidence, halves, rough = self._known[key]
        return Comparison(
            group=group,
            level=level,
            real_ids=[self.real.ids[r] for r in real],
            generated_ids=[self.generated.ids[r] for r in generated],
            values=values,
            evidence=evidence,
            halves=halves,
            rough=rough,
        )

    def _measure(self, real: NDArray[np.intp], generated: NDArray[np.intp]) -> _Found:
        k = self.rules.k
        if min(len(real), len(generated)) < self.rules.smallest:
            return PRDC(np.nan, np.nan, np.nan, np.nan), None, None, None
        x, y = self.real.features[real], self.generated.features[generated]
        if self.rules.approximate:
            rough = approximate_prdc(x, y, k, rng=np.random.default_rng(self.seed))
            return rough.values, rough.memberships, None, rough
        key = real.tobytes()
        if key not in self._radii:
            self._radii[key] = knn_radii(x, k)
        radii = self._radii[key]
        evidence = memberships(x, y, k, real_radii=radii)
        if not self.rules.splits:
            return prdc(x, y, k, real_radii=radii), evidence, None, None
        halves = half_samples(
            x,
            y,
            k,
            seed=self.seed,
            n_splits=self.rules.splits,
            strata=([self.real.objects[r] for r in real], [self.generated.objects[r] for r in generated]),
            clusters=self.prompts[generated],
        )
        return halves.values, evidence, halves, None


# ---------------------------------------------------------------------------------------------------------- consistency
def _similarities(made: Sequence[Made], embeddings: Vectors, texts: Vectors) -> dict[str, Similarity]:
    usable = [m for m in made if not m.no_vector]
    if not usable or not texts.rows or embeddings.matrix.shape[1] != texts.matrix.shape[1]:
        return {}
    vectors = embeddings.of(m.image_id for m in usable)[:]
    absent = np.full(texts.matrix.shape[1], np.nan, dtype=np.float32)

    def against(names: Sequence[str]) -> NDArray[np.float64]:
        wanted = [texts.matrix[texts.rows[n]] if n in texts.rows else absent for n in names]
        return cosine(vectors, np.stack(wanted))

    bare, prompt = against([m.object for m in usable]), against([m.prompt.text for m in usable])
    return {
        m.image_id: Similarity(bare=float(b), prompt=float(p)) for m, b, p in zip(usable, bare, prompt, strict=True)
    }


def _counted(
    protocol: str,
    made: Sequence[Made],
    features: Vectors,
    similarities: Mapping[str, Similarity],
    objects: Sequence[str],
    regions: Sequence[str],
    balanced: bool,
    rules: Rules,
) -> frozenset[str]:
    """The images whose similarity counts: needs no real images, so their number does not come in.

    ``released`` and ``paper`` draw as many per cell as for the other indicators; ``released`` leaves duplicates out
    before (where features tell them). ``revised`` takes every image there is.
    """
    usable = [m for m in made if m.image_id in similarities]
    if protocol == "revised":
        return frozenset(m.image_id for m in usable)
    by_features = protocol == "released" and bool(features.seen)
    if by_features:
        usable = [m for m in usable if not m.no_features]
    side = Side(
        ids=[m.image_id for m in usable],
        objects=[m.object for m in usable],
        regions=[m.region for m in usable],
        features=features.of(m.image_id for m in usable)
        if by_features
        else RowsOf(np.zeros((1, 1), np.float32), np.zeros(len(usable), np.intp)),
    )
    nothing = Side(ids=[], objects=[], regions=[], features=RowsOf(side.features.matrix, side.features.rows[:0]))
    choice = choose(
        "released", nothing, side, objects=objects, regions=regions, balanced=balanced, per_cell=rules.per_cell,
        smallest=1, dedup=rules.dedup if by_features else "none",
    )  # fmt: skip
    return frozenset(side.ids[r] for rows in choice.generated.values() for r in rows)
