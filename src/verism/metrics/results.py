"""What a metric found, as one object: a record for JSON, and lines of text for people.

A result holds numbers only and computes none that its metric does not have; whoever prints it chooses one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from verism.metrics.captions import CaptionScores
    from verism.metrics.frechet import FidInfinity, FrechetDistance
    from verism.metrics.imbalance import PooledMad, PromptMad
    from verism.metrics.inception_score import InceptionScore
    from verism.metrics.kernel import KernelDistance, KernelSubsets
    from verism.metrics.manifold import PRDC, ApproximatePRDC
    from verism.metrics.presentation.gep import ExactPair
    from verism.metrics.retrieval import MeanClipScore, RPrecision
    from verism.statistics import Interval

__all__ = [
    "CaptionResult",
    "ClipScoreResult",
    "FrechetResult",
    "InceptionResult",
    "KernelResult",
    "MadResult",
    "PRDCResult",
    "PresentationResult",
    "RPrecisionResult",
    "Result",
    "aligned",
    "estimate",
    "number",
    "row",
]


class Result(Protocol):
    """What can be printed: by ``verism ... --json``, or without it."""

    def record(self) -> dict[str, Any] | list[dict[str, Any]]:
        """Plain dictionaries and lists; NaN where undefined."""

    def text(self) -> str:
        """The same for people, without a line break at the end."""


class _Bounded(Protocol):
    """A named tuple with the ends of an interval."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class _Estimate(_Bounded, Protocol):
    @property
    def value(self) -> float: ...


# ---------------------------------------------------------------------------------------------------------------- text
def number(value: float, digits: int = 4) -> str:
    """A number with so many digits behind the point; a dash for NaN."""
    return "-" if value != value else f"{value:.{digits}f}"


def row(name: str, value: float, interval: _Bounded | None = None, digits: int = 4) -> str:
    """A line of a result: its name, the value, and the interval if there is one."""
    line = f"{name:<14} {number(value, digits):>10}"
    return line if interval is None else f"{line}  [{number(interval.low, digits)}, {number(interval.high, digits)}]"


def estimate(interval: _Estimate) -> str:
    """``0.640 [0.340, 0.820]``; the value alone where the ends are NaN, a dash where the value is."""
    value = number(interval.value, 3)
    return value if interval.low != interval.low else f"{value} [{interval.low:.3f}, {interval.high:.3f}]"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Cells as a table with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _ends(interval: _Bounded) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high, "level": 0.95}


def _counts(n_real: int | None, n_generated: int | None, dim: int) -> str:
    real, generated = ("unknown number of" if n is None else f"{n:,}" for n in (n_real, n_generated))
    return f"{real} real and {generated} generated images, {dim:,} features"


# -------------------------------------------------------------------------------------------------------- feature sets
@dataclass(frozen=True, kw_only=True)
class PRDCResult:
    """Precision, recall, density and coverage.

    Attributes:
        values: the four.
        expected_coverage: coverage of two sets of one distribution.
        intervals: by name of the four; None if they were left out.
        k: neighbours.
        strict: whether the sphere itself counts as outside.
        n_real: real images.
        n_generated: generated images.
        dim: numbers per image.
        approximate: of numbers by approximate neighbours: the same with their errors; None for exact ones.
    """

    values: PRDC
    expected_coverage: float
    intervals: Mapping[str, Interval] | None
    k: int
    strict: bool
    n_real: int
    n_generated: int
    dim: int
    approximate: ApproximatePRDC | None = None

    def record(self) -> dict[str, Any]:
        intervals, rough = self.intervals, self.approximate
        if rough is None:
            errors = {}
        else:
            found = {"neighbour_recall": rough.neighbour_recall, "checked": rough.checked}
            errors = {"approximate": {"error": rough.error._asdict()} | found}
        return (
            self.values._asdict()
            | errors
            | {
                "k": self.k,
                "strict": self.strict,
                "n_real": self.n_real,
                "n_generated": self.n_generated,
                "features": self.dim,
                "expected_coverage": self.expected_coverage,
                "intervals": None
                if intervals is None
                else {name: _ends(interval) for name, interval in intervals.items()},
            }
        )

    def text(self) -> str:
        intervals, rough = self.intervals or {}, self.approximate
        lines = [row(name, value, intervals.get(name)) for name, value in self.values._asdict().items()]
        if rough is not None:
            lines = [f"{line}   error at most {error:.4f}" for line, error in zip(lines, rough.error, strict=True)]
        lines[-1] += f"   equal distributions: {self.expected_coverage:.4f}"
        if rough is not None:
            lines.append(
                f"by approximate neighbours, of which {rough.neighbour_recall:.1%} were found; errors (95 %) from "
                f"{rough.checked} images of each set that were measured exactly"
            )
        return "\n".join([*lines, f"k = {self.k}; {_counts(self.n_real, self.n_generated, self.dim)}"])


@dataclass(frozen=True, kw_only=True)
class FrechetResult:
    """Fréchet distance.

    Attributes:
        distance: of the two sets.
        interval: of the distance; None if it was left out.
        infinity: extrapolation to infinitely many generated images, None if it was not asked for.
    """

    distance: FrechetDistance
    interval: Interval | None = None
    infinity: FidInfinity | None = None

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "fid": self.distance.value,
            "label": "Fréchet distance",
            "n_real": self.distance.n_real,
            "n_generated": self.distance.n_generated,
            "features": self.distance.dim,
            "warning": self.distance.warning,
        }
        if self.interval is not None:
            record["interval"] = _ends(self.interval)
        if self.infinity is not None:
            record["fid_infinity"] = {
                "value": self.infinity.value,
                "interval": _ends(self.infinity),
                "slope": self.infinity.slope,
                "sizes": self.infinity.sizes.tolist(),
                "distances": self.infinity.values.tolist(),
            }
        return record

    def text(self) -> str:
        lines = [row("Frechet", self.distance.value, self.interval)]
        if self.infinity is not None:
            lines.append(row("  infinity", self.infinity.value, self.infinity))
        counts = _counts(self.distance.n_real, self.distance.n_generated, self.distance.dim)
        return "\n".join([*lines, counts, "Frechet distance: the FID if these features are those of its network."])


@dataclass(frozen=True, kw_only=True)
class KernelResult:
    """Kernel distance.

    Attributes:
        distance: of the two sets, with its interval.
        dim: numbers per image.
        published: mean and spread over random subsets, None if they were not asked for.
        seed: of the subsets.
    """

    distance: KernelDistance
    dim: int
    published: KernelSubsets | None = None
    seed: int = 0

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "kid": self.distance.value,
            "label": "Kernel distance",
            "interval": _ends(self.distance),
            "n_real": self.distance.n_real,
            "n_generated": self.distance.n_generated,
            "features": self.dim,
        }
        if self.published is not None:
            record["published"] = {
                "kid_mean": self.published.mean,
                "kid_std": self.published.std,
                "subsets": len(self.published.values),
                "subset_size": self.published.subset_size,
                "seed": self.seed,
            }
        return record

    def text(self) -> str:
        lines = [row("kernel", self.distance.value, self.distance, digits=6)]
        if (parts := self.published) is not None:
            size = f"{len(parts.values)} of {parts.subset_size:,} images"
            lines.append(f"{'  subsets':<14} {parts.mean:>10.6f}  ± {parts.std:.6f}   {size}")
        counts = _counts(self.distance.n_real, self.distance.n_generated, self.dim)
        return "\n".join([*lines, counts, "Kernel distance: the KID if these features are those of the FID's network."])


@dataclass(frozen=True, kw_only=True)
class InceptionResult:
    """Inception score.

    Attributes:
        score: of consecutive parts, and of all images at once.
        n_classes: classes of the predictions.
    """

    score: InceptionScore
    n_classes: int

    def record(self) -> dict[str, Any]:
        return {
            "inception_score": self.score.mean,
            "std": self.score.std,
            "splits": self.score.splits,
            "whole": {"value": self.score.value, "interval": _ends(self.score)},
            "n_generated": self.score.n,
        }

    def text(self) -> str:
        s = self.score
        return (
            f"{'inception score':<16} {s.mean:>8.4f}  ± {s.std:.4f}   {s.splits} splits, as published\n"
            f"{'all at once':<16} {s.value:>8.4f}  [{s.low:.4f}, {s.high:.4f}]\n"
            f"{s.n:,} images, {self.n_classes:,} classes"
        )


# ------------------------------------------------------------------------------------------------ captions, embeddings
@dataclass(frozen=True, kw_only=True)
class CaptionResult:
    """Caption metrics, by their names in the COCO toolkit.

    Attributes:
        scores: values, intervals and numbers of images.
    """

    scores: CaptionScores[Any]

    def _named(self) -> dict[str, Interval]:
        from verism.metrics.captions import TOOLKIT_NAMES

        return {shown: self.scores.values[name] for name, shown in TOOLKIT_NAMES.items() if name in self.scores.values}

    def record(self) -> dict[str, Any]:
        return {
            **{name: interval.value for name, interval in self._named().items()},
            "intervals": {name: _ends(interval) for name, interval in self._named().items()},
            "n_used": self.scores.n_used,
            "n_unusable": self.scores.n_unusable,
            "tokenizer": self.scores.tokenizer,
        }

    def text(self) -> str:
        rows = [row(name, interval.value, interval) for name, interval in self._named().items()]
        counts = f"{self.scores.n_used:,} images, {self.scores.n_unusable:,} without a candidate left out"
        return "\n".join([*rows, counts])


@dataclass(frozen=True, kw_only=True)
class RPrecisionResult:
    """R-precision and how it was computed.

    Attributes:
        precision: its value, interval and numbers of images.
        protocol: ``released`` or ``revised``.
        method: ``exact`` or ``sampled``.
        pool: texts to choose from.
        n_texts: texts of the file.
    """

    precision: RPrecision
    protocol: str
    method: str
    pool: int
    n_texts: int

    def record(self) -> dict[str, Any]:
        return {
            "r_precision": self.precision.value,
            "interval": _ends(self.precision),
            "n_used": self.precision.n_used,
            "n_unusable": self.precision.n_unusable,
            "protocol": self.protocol,
            "method": self.method,
            "pool": self.pool,
        }

    def text(self) -> str:
        p = self.precision
        counts = f"{p.n_used:,} images, {p.n_unusable:,} unusable; {self.n_texts:,} texts"
        return f"{row('r-precision', p.value, p)}\n{self.protocol}, pool of {self.pool}; {counts}"


@dataclass(frozen=True, kw_only=True)
class ClipScoreResult:
    """Mean CLIPScore.

    Attributes:
        score: mean, interval and numbers of images.
        scale: of the scores.
    """

    score: MeanClipScore
    scale: str

    def record(self) -> dict[str, Any]:
        return {
            "clipscore": self.score.value,
            "interval": _ends(self.score),
            "scale": self.scale,
            "n_used": self.score.n_used,
            "n_unusable": self.score.n_unusable,
        }

    def text(self) -> str:
        counts = f"{self.score.n_used:,} images, {self.score.n_unusable:,} unusable"
        return f"{row('clipscore', self.score.value, self.score)}\nscale {self.scale}; {counts}"


# -------------------------------------------------------------------------------------------- presentation, imbalance
@dataclass(frozen=True, kw_only=True)
class PresentationResult:
    """GEP vector and score of two groups.

    Attributes:
        model: name of the model.
        setting: name of the setting.
        pair: the two groups, their vector and score.
    """

    model: str
    setting: str
    pair: ExactPair

    def record(self) -> dict[str, Any]:
        record = {
            "model": self.model,
            "setting": self.setting,
            "genders": list(self.pair.groups),
            "vector": {name: float(value) for name, value in self.pair.vector.items()},
            "gep": float(self.pair.score),
        }
        return record if self.pair.largest_gap is None else record | {"largest_gap": float(self.pair.largest_gap)}

    def text(self) -> str:
        pair, width = self.pair, max(14, *map(len, self.pair.vector))
        lines = [f"{self.model}, {self.setting}: {pair.groups[0]} minus {pair.groups[1]}"]
        lines += [f"  {name:<{width}} {float(value):>+9.4f}" for name, value in pair.vector.items()]
        lines.append(f"  {'GEP score':<{width}} {float(pair.score):>9.4f}")
        if pair.largest_gap is not None:
            lines.append(f"  {'largest gap':<{width}} {float(pair.largest_gap):>9.4f}  over all genders")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class MadResult:
    """Mean absolute deviation of class shares.

    Attributes:
        by_prompt: mean over prompts, by divisor.
        pooled: of all images together, by divisor.
        std: mean over prompts of the root mean square deviation.
        p_value: of images without imbalance.
        n_rows: prompts, those without images included.
        n_classes: classes.
        classes: their names, None if there are none.
        target: share of each class; None: all equal.
    """

    by_prompt: Mapping[str, PromptMad]
    pooled: Mapping[str, PooledMad]
    std: float
    p_value: float
    n_rows: int
    n_classes: int
    classes: Sequence[str] | None = None
    target: Sequence[float] | None = None

    def record(self) -> dict[str, Any]:
        first = self.by_prompt["K"]
        return {
            "mad": {divisor: self._entry(divisor) for divisor in self.by_prompt},
            "std": self.std,
            "p_unbiased": self.p_value,
            "classes": self.classes,
            "target": self.target,
            "n_prompts": first.n_prompts,
            "n_prompts_empty": self.n_rows - first.n_prompts,
            "n_used": first.n_used,
        }

    def _entry(self, divisor: str) -> dict[str, Any]:
        mean, pooled = self.by_prompt[divisor], self.pooled[divisor]
        debiased = {"value": mean.debiased, "interval": _ends(mean.debiased_interval)} if mean.n_prompts else None
        return {
            "value": mean.value,
            "interval": _ends(mean),
            "expected": mean.expected,
            "debiased": debiased,
            "pooled": {"value": pooled.value, "interval": _ends(pooled), "expected": pooled.expected},
        }

    def text(self) -> str:
        lines = []
        for divisor, mean in self.by_prompt.items():
            pooled = self.pooled[divisor]
            lines.append(f"{row(f'MAD, {divisor}', mean.value, mean)}   unbiased model: {number(mean.expected)}")
            if mean.n_prompts:
                lines.append(row("  debiased", mean.debiased, mean.debiased_interval))
            if mean.n_prompts > 1:
                lines.append(f"{row('  pooled', pooled.value, pooled)}   unbiased model: {number(pooled.expected)}")
        lines += [row("STD", self.std), row("p, unbiased", self.p_value)]
        first = self.by_prompt["K"]
        lines.append(
            f"{first.n_prompts:,} prompt{'s' if first.n_prompts != 1 else ''}, {first.n_used:,} images, "
            f"{self.n_classes} classes; {self.n_rows - first.n_prompts:,} prompts without images left out"
        )
        return "\n".join(lines)
