"""``verism metrics``: one metric on files made elsewhere, without a run."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from verism.cli.common import Group, put_json, say, without_nan
from verism.errors import UsageError, VerismError
from verism.files import split_lines

if TYPE_CHECKING:
    import numpy as np

    from verism.metrics.frechet import FeatureStatistics

__all__ = ["metrics"]

F = TypeVar("F", bound=Callable[..., Any])
Array = Any  # numpy arrays: numpy is loaded with the first command, not with the command line

# From here on an interval takes more than a moment: features of a Fréchet distance, and products between two sets.
LONG_JACKKNIFE = 512
LONG_PRDC = 10**10
LONG_NOTE = "computed anew for many parts of the pictures, which takes a while; --no-interval leaves them out"


@click.group(cls=Group)
def metrics() -> None:
    """Single metrics on features, embeddings or captions that you have as files.

    \b
    verism metrics prdc --real real.npy --generated mine.npy -k 3
    verism metrics fid --real coco_val.npz --generated mine.npy --json
    verism metrics captions --references captions_val2014.json --candidates results.json

    Arrays are .npy, or .npz with a single array (or one named `features`): one row per picture. Pickles are not opened.
    """


# ------------------------------------------------------------------------------------------------------------- options
def _files(*names: str, what: str) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for name in reversed(names):
            command = click.option(
                f"--{name}", required=True, type=click.Path(path_type=Path), help=what.format(name.split("-")[0])
            )(command)
        return command

    return decorate


_sides = _files("real", "generated", what="Features of {} pictures, shape (pictures, features).")
_embeddings = _files("image-embeddings", "text-embeddings", what="Vectors of {}s, shape (N, D), not normalised.")
_prompts = click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    help="Text file, line i the prompt of generated picture i: intervals keep pictures of one prompt together.",
)
_no_interval = click.option("--no-interval", is_flag=True, help="Leave intervals out: they take most of the time.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


# --------------------------------------------------------------------------------------------------------- feature sets
@metrics.command("prdc")
@_sides
@click.option("-k", "--neighbours", "k", type=click.IntRange(1), default=5, show_default=True, help="DIG In uses 3.")
@click.option("--inclusive", is_flag=True, help="On the sphere counts as inside, as in torch-fidelity.")
@_no_interval
@click.option("--seed", type=int, default=0, show_default=True, help="Of the halves behind the intervals.")
@_as_json
def metrics_prdc(
    real: Path, generated: Path, k: int, inclusive: bool, no_interval: bool, seed: int, as_json: bool
) -> None:
    """Precision, recall, density and coverage of generated pictures against real ones.

    \b
    verism metrics prdc --real real.npy --generated mine.npy -k 3 --json
    verism metrics prdc --real real.npy --generated mine.npy --inclusive
    """
    from verism.metrics.manifold import PRDC, expected_coverage, half_samples, prdc

    x, y = _features(real, "--real"), _features(generated, "--generated")
    with _usage():
        values = prdc(x, y, k, strict=not inclusive)
        ceiling = expected_coverage(len(x), len(y), k)
        intervals = None
        if not no_interval:
            if len(x) * len(y) * x.shape[1] > LONG_PRDC:
                say(f"intervals: {LONG_NOTE}")
            halves = half_samples(x, y, k, seed=seed, strict=not inclusive, values=values)
            intervals = {
                "precision": halves.interval("precision"),
                "recall": halves.interval("recall"),
                "density": halves.interval("density"),
                "coverage": halves.interval("coverage"),
            }
    if as_json:
        result = values._asdict() | {
            "k": k,
            "strict": not inclusive,
            "n_real": len(x),
            "n_generated": len(y),
            "features": x.shape[1],
            "expected_coverage": ceiling,
            "intervals": None if intervals is None else {name: _ends(ends) for name, ends in intervals.items()},
        }
        put_json(without_nan(result))
        return
    for name in PRDC._fields:
        note = f"   equal distributions: {ceiling:.4f}" if name == "coverage" else ""
        click.echo(_row(name, getattr(values, name), None if intervals is None else intervals[name]) + note)
    click.echo(f"k = {k}; {_counts(len(x), len(y), x.shape[1])}")


@metrics.command("fid")
@_sides
@_prompts
@click.option("--infinity", is_flag=True, help="Also extrapolate to infinitely many generated pictures.")
@_no_interval
@click.option("--seed", type=int, default=0, show_default=True, help="Of the groups that are left out in turn.")
@_as_json
def metrics_fid(
    real: Path, generated: Path, prompts: Path | None, infinity: bool, no_interval: bool, seed: int, as_json: bool
) -> None:
    """Fréchet distance. It is FID if the features are those of the FID Inception network.

    Either side may be a statistics file (.npz with mu and sigma), as published for many data sets.

    \b
    verism metrics fid --real real.npy --generated mine.npy --json
    verism metrics fid --real coco_val.npz --generated mine.npy --infinity
    """
    from verism.metrics.frechet import FeatureStatistics, fid_infinity, frechet_from_features, frechet_interval

    first, second = _features_or_statistics(real, "--real"), _features_or_statistics(generated, "--generated")
    interval = extrapolated = None
    with _usage():
        told = frechet_from_features(first, second)
        clusters = None if prompts is None else _labels(prompts, _n_rows(second, generated))
        if told.warning:
            say(f"warning: {told.warning}")
        if not no_interval:
            if told.dim >= LONG_JACKKNIFE:
                say(f"interval: {LONG_NOTE}")
            interval = frechet_interval(first, second, clusters=clusters, seed=seed)
        if infinity:
            if isinstance(second, FeatureStatistics):
                raise UsageError(f"--infinity needs the features of the generated pictures; {generated} has statistics")
            n_groups = 0 if no_interval else 10
            extrapolated = fid_infinity(first, second, clusters=clusters, n_groups=n_groups, seed=seed)
            if extrapolated.warning and extrapolated.warning != told.warning:
                say(f"warning: {extrapolated.warning}")
    if as_json:
        result: dict[str, Any] = {
            "fid": told.value,
            "n_real": told.n_real,
            "n_generated": told.n_generated,
            "features": told.dim,
            "warning": told.warning,
        }
        if interval is not None:
            result["interval"] = _ends(interval)
        if extrapolated is not None:
            result["fid_infinity"] = {
                "value": extrapolated.value,
                "interval": _ends(extrapolated),
                "slope": extrapolated.slope,
                "sizes": extrapolated.sizes.tolist(),
                "distances": extrapolated.values.tolist(),
            }
        put_json(without_nan(result))
        return
    click.echo(_row("fid", told.value, interval))
    if extrapolated is not None:
        click.echo(_row("fid-infinity", extrapolated.value, extrapolated))
    click.echo(_counts(told.n_real, told.n_generated, told.dim))


@metrics.command("kid")
@_sides
@_prompts
@click.option("--published", is_flag=True, help="Also mean and spread of random subsets, as it is usually printed.")
@click.option("--subsets", type=click.IntRange(1), default=100, show_default=True, help="With --published.")
@click.option("--subset-size", type=click.IntRange(2), default=1000, show_default=True, help="With --published.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the subsets.")
@_as_json
def metrics_kid(
    real: Path,
    generated: Path,
    prompts: Path | None,
    published: bool,
    subsets: int,
    subset_size: int,
    seed: int,
    as_json: bool,
) -> None:
    """Kernel (Inception) distance: unbiased, so sets of different sizes compare.

    \b
    verism metrics kid --real real.npy --generated mine.npy --json
    verism metrics kid --real real.npy --generated mine.npy --published --subset-size 500
    """
    from verism.metrics.kernel import kid, kid_subsets

    x, y = _features(real, "--real"), _features(generated, "--generated")
    parts = None
    with _usage():
        told = kid(x, y, clusters=None if prompts is None else _labels(prompts, len(y)))
        if published:
            parts = kid_subsets(x, y, subsets=subsets, subset_size=subset_size, seed=seed)
    if as_json:
        result: dict[str, Any] = {
            "kid": told.value,
            "interval": _ends(told),
            "n_real": told.n_real,
            "n_generated": told.n_generated,
            "features": x.shape[1],
        }
        if parts is not None:
            result["published"] = {
                "kid_mean": parts.mean,
                "kid_std": parts.std,
                "subsets": subsets,
                "subset_size": subset_size,
                "seed": seed,
            }
        put_json(without_nan(result))
        return
    click.echo(_row("kid", told.value, told, digits=6))
    if parts is not None:
        click.echo(
            f"{'kid, subsets':<14} {parts.mean:>10.6f}  ± {parts.std:.6f}   {subsets} of {subset_size:,} pictures"
        )
    click.echo(_counts(told.n_real, told.n_generated, x.shape[1]))


@metrics.command("inception-score")
@click.option("--logits", type=click.Path(path_type=Path), help="Of a classifier, shape (pictures, classes).")
@click.option("--probabilities", type=click.Path(path_type=Path), help="Instead: rows of sum 1.")
@click.option("--splits", type=click.IntRange(1), default=10, show_default=True, help="Consecutive parts.")
@_prompts
@_as_json
def metrics_inception_score(
    logits: Path | None, probabilities: Path | None, splits: int, prompts: Path | None, as_json: bool
) -> None:
    """Inception score from a classifier's predictions.

    \b
    verism metrics inception-score --logits logits.npy --json
    """
    from verism.metrics.inception_score import inception_score

    if (logits is None) == (probabilities is None):
        raise UsageError("give one of --logits and --probabilities")
    path, option = (logits, "--logits") if logits is not None else (probabilities, "--probabilities")
    assert path is not None
    given = _features(path, option)
    with _usage():
        told = inception_score(
            given,
            kind="logits" if logits is not None else "probabilities",
            splits=splits,
            clusters=None if prompts is None else _labels(prompts, len(given)),
        )
    if as_json:
        result = {
            "inception_score": told.mean,
            "std": told.std,
            "splits": told.splits,
            "whole": {"value": told.value, "interval": _ends(told)},
            "n_generated": told.n,
        }
        put_json(without_nan(result))
        return
    click.echo(f"{'inception score':<16} {told.mean:>8.4f}  ± {told.std:.4f}   {told.splits} splits, as published")
    click.echo(f"{'all at once':<16} {told.value:>8.4f}  [{told.low:.4f}, {told.high:.4f}]")
    click.echo(f"{told.n:,} pictures, {given.shape[1]:,} classes")


# ------------------------------------------------------------------------------------------------------------ captions
@metrics.command("captions")
@click.option("--references", required=True, type=click.Path(path_type=Path), help="COCO captions file.")
@click.option("--candidates", required=True, type=click.Path(path_type=Path), help="COCO results file.")
@click.option(
    "--with", "extra", multiple=True, type=click.Choice(["meteor", "spice"]), help="Java programs; may be given twice."
)
@click.option("--tokenizer", type=click.Choice(["ptb", "none"]), default="ptb", show_default=True)
@_as_json
def metrics_captions(references: Path, candidates: Path, extra: tuple[str, ...], tokenizer: str, as_json: bool) -> None:
    """BLEU-1..4, ROUGE-L and CIDEr as the COCO caption toolkit; METEOR and SPICE on request.

    References: {"annotations": [{"image_id": 1, "caption": "a dog"}, ...]}. Candidates: [{"image_id": 1, "caption":
    "a cat"}], one of each picture. Pictures without a candidate are left out, as is usual, and counted.

    \b
    verism metrics captions --references refs.json --candidates cands.json --json
    verism metrics captions --references refs.json --candidates cands.json --with meteor --with spice
    """
    from verism.metrics.captions import (
        DEFAULT_METRICS,
        TOOLKIT_NAMES,
        MissingTool,
        ToolFailed,
        caption_scores,
    )

    meant, said = _references(references), _candidates(candidates)
    if unknown := [key for key in said if key not in meant]:
        raise UsageError(
            f"{len(unknown):,} of {len(said):,} candidates have no reference, such as image_id {unknown[0]!r}: are "
            f"{candidates} and {references} of the same data set?"
        )
    try:
        with _usage():
            told = caption_scores(
                meant,
                said,
                metrics=(*DEFAULT_METRICS, *extra),  # type: ignore[arg-type]  # click checked them
                tokenizer=tokenizer,  # type: ignore[arg-type]
                unmatched="count",
            )
    except (MissingTool, ToolFailed) as err:
        raise VerismError(str(err)) from err
    names = {name: TOOLKIT_NAMES[name] for name in TOOLKIT_NAMES if name in told.values}
    if as_json:
        result = {
            **{shown: told.values[name].value for name, shown in names.items()},
            "intervals": {shown: _ends(told.values[name]) for name, shown in names.items()},
            "n_used": told.n_used,
            "n_unusable": told.n_unusable,
            "tokenizer": told.tokenizer,
        }
        put_json(without_nan(result))
        return
    for name, shown in names.items():
        click.echo(_row(shown, told.values[name].value, told.values[name]))
    click.echo(f"{told.n_used:,} pictures, {told.n_unusable:,} without a candidate left out")


# ---------------------------------------------------------------------------------------------------------- embeddings
@metrics.command("r-precision")
@_embeddings
@click.option(
    "--positive", type=click.Path(path_type=Path), help="Row of each picture's text.  [default: the same row]"
)
@click.option(
    "--protocol", type=click.Choice(["released", "corrected"]), default="corrected", show_default=True, help="See docs."
)
@click.option("--method", type=click.Choice(["exact", "sampled"]), help="[default: sampled if released, else exact]")
@click.option("--pool", type=click.IntRange(2), default=100, show_default=True, help="Texts, the own among them.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Of sampled pools.")
@click.option("--seed", type=click.IntRange(0), default=10, show_default=True, help="Of sampled pools.")
@_as_json
def metrics_r_precision(
    image_embeddings: Path,
    text_embeddings: Path,
    positive: Path | None,
    protocol: str,
    method: str | None,
    pool: int,
    repeats: int,
    seed: int,
    as_json: bool,
) -> None:
    """How often a picture is nearer to its own text than to all others of a pool.

    \b
    verism metrics r-precision --image-embeddings i.npy --text-embeddings t.npy --protocol released --json
    verism metrics r-precision --image-embeddings i.npy --text-embeddings t.npy
    """
    from verism.metrics.retrieval import r_precision

    images, texts = _features(image_embeddings, "--image-embeddings"), _features(text_embeddings, "--text-embeddings")
    rows = None if positive is None else _array(positive, "--positive")
    with _usage():
        told = r_precision(
            images,
            texts,
            positive=rows,
            protocol=protocol,  # type: ignore[arg-type]  # click checked both
            method=method,  # type: ignore[arg-type]
            pool=pool,
            repeats=repeats,
            seed=seed,
        )
    if as_json:
        result = {
            "r_precision": told.value,
            "interval": _ends(told),
            "n_used": told.n_used,
            "n_unusable": told.n_unusable,
            "protocol": protocol,
            "method": method or ("sampled" if protocol == "released" else "exact"),
            "pool": pool,
        }
        put_json(without_nan(result))
        return
    click.echo(_row("r-precision", told.value, told))
    click.echo(
        f"{protocol}, pool of {pool}; {told.n_used:,} pictures, {told.n_unusable:,} unusable; {len(texts):,} texts"
    )


@metrics.command("clipscore")
@_embeddings
@click.option(
    "--scale",
    type=click.Choice(["cosine", "x100", "hessel"]),
    default="cosine",
    show_default=True,
    help="hessel: 2.5 times the cosine, not below 0.",
)
@_prompts
@_as_json
def metrics_clipscore(
    image_embeddings: Path, text_embeddings: Path, scale: str, prompts: Path | None, as_json: bool
) -> None:
    """Mean agreement of pictures with their texts, row by row.

    \b
    verism metrics clipscore --image-embeddings i.npy --text-embeddings t.npy --scale hessel --json
    """
    import numpy as np

    from verism.metrics.retrieval import clipscore, mean_score
    from verism.statistics import cluster_bootstrap_mean

    images, texts = _features(image_embeddings, "--image-embeddings"), _features(text_embeddings, "--text-embeddings")
    with _usage():
        scores = clipscore(images, texts, scale=scale)  # type: ignore[arg-type]  # click checked it
        told = mean_score(scores)
        usable = ~np.isnan(scores)
        clusters = np.arange(len(scores)) if prompts is None else _labels(prompts, len(scores))
        interval = cluster_bootstrap_mean(scores[usable], clusters[usable], seed=0)
    if as_json:
        result = {
            "clipscore": told.value,
            "interval": _ends(interval),
            "scale": scale,
            "n_used": told.n_used,
            "n_unusable": told.n_unusable,
        }
        put_json(without_nan(result))
        return
    click.echo(_row("clipscore", told.value, interval))
    click.echo(f"scale {scale}; {told.n_used:,} pictures, {told.n_unusable:,} unusable")


# ------------------------------------------------------------------------------------------- gender presentation (GEP)
@metrics.command("gep")
@click.option(
    "--frequencies",
    required=True,
    type=click.Path(path_type=Path),
    help="CSV with columns model, setting, gender, attribute, frequency (a number, or a fraction such as 11/80).",
)
@_as_json
def metrics_gep(frequencies: Path, as_json: bool) -> None:
    """Gender presentation differences: the vector and the score of each model and setting.

    The vector is the frequency with the gender that the file names first less that with the second; the score is the
    mean absolute entry. More than two genders: a vector and a score of every pair, and the mean largest gap.

    \b
    verism metrics gep --frequencies frequencies.csv --json
    """
    result = []
    for (model, setting), genders in _frequencies(frequencies).items():
        names = list(genders)
        for place, first in enumerate(names):
            for second in names[place + 1 :]:
                vector = {a: genders[first][a] - genders[second][a] for a in genders[first]}
                entry: dict[str, Any] = {
                    "model": model,
                    "setting": setting,
                    "genders": [first, second],
                    "vector": {a: float(v) for a, v in vector.items()},
                    "gep": float(sum(map(abs, vector.values())) / len(vector)),
                }
                if len(names) > 2:
                    gaps = [max(f[a] for f in genders.values()) - min(f[a] for f in genders.values()) for a in vector]
                    entry["largest_gap"] = float(sum(gaps) / len(gaps))
                result.append(entry)
    if as_json:
        put_json(result)
        return
    for entry in result:
        first, second = entry["genders"]
        click.echo(f"{entry['model']}, {entry['setting']}: {first} minus {second}")
        width = max(14, *map(len, entry["vector"]))
        for name, value in entry["vector"].items():
            click.echo(f"  {name:<{width}} {value:>+9.4f}")
        click.echo(f"  {'GEP score':<{width}} {entry['gep']:>9.4f}")
        if "largest_gap" in entry:
            click.echo(f"  {'largest gap':<{width}} {entry['largest_gap']:>9.4f}  over all genders")


# ----------------------------------------------------------------------------------------------------------- skin tone
@metrics.command("tone")
@click.option(
    "--image",
    "images",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="A picture, or a flat patch of colour; may be given again.",
)
@click.option("--box", metavar="X0,Y0,X1,Y1", help="Only this region, pixels, ends excluded. By default all of it.")
@click.option(
    "--average",
    type=click.Choice(["median", "trimmed", "mean"]),
    default="median",
    show_default=True,
    help="How pixels become one colour, in linear light.",
)
@click.option(
    "--illumination",
    type=click.Choice(["none", "grey-world", "shades-of-grey", "white-patch"]),
    default="none",
    show_default=True,
    help="How the light that is corrected for is estimated, from the whole picture.",
)
@_as_json
def metrics_tone(images: tuple[Path, ...], box: str | None, average: str, illumination: str, as_json: bool) -> None:
    """Colour, ITA and Monk tone of a picture or a region of it, whatever it shows: no face is looked for.

    Three ways: corrected (CIELAB in real units; nearest tone by CIEDE2000, and by ITA), released (as DALL-Eval's code
    computes it, swapped channels and 8-bit Lab included; its index counts from 0), and the pixel rule of its authors.

    \b
    verism metrics tone --image swatch.png --json
    verism metrics tone --image one.png --image two.png --box 96,80,160,140
    """
    import numpy as np

    from verism.judges.skin_tone.colour import measure_skin
    from verism.metrics.colour import rule_tone

    sides = None if box is None else _box(box)
    results = []
    for path in images:
        pixels = _pixels(path, "--image")
        height, width = pixels.shape[:2]
        x0, y0, x1, y1 = sides or (0, 0, width, height)
        if x1 > width or y1 > height:
            raise UsageError(f"--box {box} must lie within the picture; {path} is {width} x {height} pixels")
        mask = np.zeros((height, width), dtype=bool)
        mask[y0:y1, x0:x1] = True
        settings: Any = {"average": average, "illumination": illumination}  # click checked the names
        skin = measure_skin(pixels, mask, min_pixels=1, **settings)
        tone, rgb, n_passed = rule_tone(pixels, mask)
        results.append(
            {
                "image": str(path),
                "box": [x0, y0, x1, y1],
                "n_pixels": (x1 - x0) * (y1 - y0),
                "corrected": {
                    "ita_deg": skin.ita_deg,
                    "monk_tone": skin.tone,
                    "monk_tone_by_ita": skin.tone_by_ita or None,
                    "lab": list(skin.lab),
                    "rgb": list(skin.rgb255),
                    "delta_e": skin.delta_e,
                    "n_pixels": skin.n_pixels,
                    "state": skin.state,
                    "note": skin.note,
                },
                "released": {
                    "ita_deg": skin.released_ita_deg,
                    "monk_tone": skin.released_tone or None,
                    "index": skin.released_tone - 1 if skin.released_tone else None,
                },
                "pixel_rule": {"monk_tone": tone or None, "rgb": rgb.tolist(), "n_pixels": n_passed},
            }
        )
    if as_json:
        put_json(without_nan(results if len(results) > 1 else results[0]))
        return
    for number, result in enumerate(results):
        corrected, released, rule = (cast(dict[str, Any], result[w]) for w in ("corrected", "released", "pixel_rule"))
        click.echo("\n" * (number > 0) + f"{result['image']}: {result['n_pixels']:,} pixels")
        click.echo(f"  {'':<12} {'tone':>4} {'ITA':>8}  colour (sRGB)")
        for name, way, tone in (
            ("corrected", corrected, corrected["monk_tone"]),
            ("by ITA", {}, corrected["monk_tone_by_ita"]),
            ("released", released, released["monk_tone"]),
            ("pixel rule", rule, rule["monk_tone"]),
        ):
            angle = _number(way["ita_deg"], 2) if "ita_deg" in way else ""
            levels = " ".join(_number(v, 1) for v in way.get("rgb", ()))
            click.echo(f"  {name:<12} {tone or '-':>4} {angle:>8}  {levels}".rstrip())
        if corrected["note"]:
            click.echo(f"  {corrected['state']}: {corrected['note']}")


def _box(text: str) -> tuple[int, int, int, int]:
    try:
        x0, y0, x1, y1 = (int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--box must be four whole numbers x0,y0,x1,y1, such as 96,80,160,140; got {text!r}") from None
    if not (0 <= x0 < x1 and 0 <= y0 < y1):
        raise UsageError(f"--box must have 0 <= x0 < x1 and 0 <= y0 < y1; got {text!r}")
    return x0, y0, x1, y1


def _pixels(path: Path, option: str) -> Array:
    from verism.imaging import read_picture

    read = read_picture(path)
    if read.pixels is None:
        raise UsageError(f"{option}: {path} cannot be used: {read.note}")
    if read.state == "ok" and read.note:
        say(f"{path}: {read.note}")
    return read.pixels


# ----------------------------------------------------------------------------------------------------------- imbalance
@metrics.command("mad")
@click.option("--counts", metavar="N,N,...", help="Pictures of each class of one prompt (or of all together): 7,2.")
@click.option(
    "--counts-file",
    type=click.Path(path_type=Path),
    help="CSV: a line of class names, then a row of counts per prompt; a column named prompt may name them.",
)
@click.option("--target", metavar="T,T,...", help="Share of each class, of sum 1.  [default: all equal]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of resampled prompts.")
@_as_json
def metrics_mad(counts: str | None, counts_file: Path | None, target: str | None, seed: int, as_json: bool) -> None:
    """Mean absolute deviation (MAD) of shares of classes from equal shares, or from a target.

    Of several prompts: the mean of the MADs of each, with an interval by resampling prompts; what a model without
    imbalance would show at these numbers of pictures; an estimate without that part; and the MAD of all together. Of
    one prompt: the interval is that of the MAD of its true shares. Divisor K is the published formula, K-1 what Tables
    8 and 9 of the first DALL-Eval paper print.

    \b
    verism metrics mad --counts 7,2 --json
    verism metrics mad --counts 20,14,85,26
    verism metrics mad --counts-file per_prompt.csv --target 0.3,0.7
    """
    import numpy as np

    from verism.metrics.imbalance import Divisor, pooled_mad, prompt_mad, std, unbiased_test

    if (counts is None) == (counts_file is None):
        raise UsageError("give one of --counts and --counts-file")
    if counts is not None:
        table = [_comma_separated(counts, "--counts")]
        classes = None
    else:
        assert counts_file is not None
        classes, table = _counts_table(counts_file)
    goal = None if target is None else _comma_separated(target, "--target")
    divisors: tuple[Divisor, ...] = ("K", "K-1")
    with _usage():
        each = {d: prompt_mad(table, goal, divisor=d, seed=seed) for d in divisors}
        whole = {d: pooled_mad(table, goal, divisor=d, seed=seed) for d in divisors}
        stds = std(table, goal)
        used = ~np.isnan(stds)
        spread = float(stds[used].mean()) if used.any() else float("nan")
        p_value = unbiased_test(table, goal, seed=seed)
    first = each["K"]
    several = first.n_prompts > 1
    unusable = len(table) - first.n_prompts
    if as_json:

        def entry(d: Divisor) -> dict[str, Any]:
            told, pooled = each[d], whole[d]
            debiased = {"low": told.debiased_low, "high": told.debiased_high, "level": 0.95}
            return {
                "value": told.value,
                "interval": _ends(told),
                "expected": told.expected,
                "debiased": {"value": told.debiased, "interval": debiased} if several else None,
                "pooled": {"value": pooled.value, "interval": _ends(pooled), "expected": pooled.expected},
            }

        result = {
            "mad": {d: entry(d) for d in divisors},
            "std": spread,
            "p_unbiased": p_value,
            "classes": classes,
            "target": goal,
            "n_prompts": first.n_prompts,
            "n_prompts_empty": unusable,
            "n_used": first.n_used,
        }
        put_json(without_nan(result))
        return
    for d in divisors:
        told = each[d]
        click.echo(_row(f"MAD, {d}", told.value, told) + f"   unbiased model: {_number(told.expected, 4)}")
        if several:
            click.echo(_row("  debiased", told.debiased, _Bounds(told.debiased_low, told.debiased_high)))
            click.echo(
                _row("  pooled", whole[d].value, whole[d]) + f"   unbiased model: {_number(whole[d].expected, 4)}"
            )
    click.echo(_row("STD", spread, None))
    click.echo(_row("p, unbiased", p_value, None))
    click.echo(
        f"{first.n_prompts:,} prompt{'s' if first.n_prompts != 1 else ''}, {first.n_used:,} pictures, {len(table[0])} "
        f"classes; {unusable:,} prompts without pictures left out"
    )


class _Bounds(NamedTuple):
    low: float
    high: float


def _comma_separated(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} must be numbers with commas between, such as 7,2; got {text!r}") from None


def _counts_table(path: Path) -> tuple[list[str], list[list[float]]]:
    """Names of the classes, and counts of each prompt."""
    option = "--counts-file"
    try:
        lines = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{option}: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"{option}: {path} cannot be read as text ({err})") from err
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(lines, newline="")) if row]
    if len(rows) < 2:
        raise UsageError(f"{option}: {path} must have a line of class names, and a row of counts per prompt")
    kept = [i for i, name in enumerate(rows[0]) if name.lower() != "prompt"]
    classes = [rows[0][i] for i in kept]
    if any(name.replace(".", "", 1).isdigit() for name in classes):
        raise UsageError(f"{option}: the first line of {path} must name the classes; got {','.join(rows[0])}")
    table = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise UsageError(f"{option}: row {number} of {path} must have {len(rows[0])} cells; it has {len(row)}")
        try:
            table.append([float(row[i]) for i in kept])
        except ValueError:
            raise UsageError(f"{option}: row {number} of {path} must have counts; got {','.join(row)}") from None
    return classes, table


# --------------------------------------------------------------------------------------------------------------- files
@contextmanager
def _usage() -> Iterator[None]:
    """What a metric says about its input is wrong usage."""
    try:
        yield
    except ValueError as err:
        raise UsageError(str(err)) from err


def _open(path: Path, option: str) -> Any:
    """An array, or an open .npz file."""
    import numpy as np

    if path.suffix not in (".npy", ".npz"):
        raise UsageError(f"{option} must be an .npy or .npz file; got {path}")
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"{option}: there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as err:
        raise UsageError(
            f"{option}: {path} cannot be read as an array ({err}). Save it with numpy.save; pickles are not opened"
        ) from err


def _array(path: Path, option: str) -> Array:
    opened = _open(path, option)
    if not hasattr(opened, "files"):
        return opened
    with opened:
        name = "features" if "features" in opened.files else opened.files[0] if len(opened.files) == 1 else None
        if name is None:
            hint = ""
            if {"mu", "sigma"} <= set(opened.files):
                hint = ". It is a statistics file, which only `verism metrics fid` can use"
            raise UsageError(
                f"{option}: {path} must hold one array, or one named features; it has {', '.join(opened.files)}{hint}"
            )
        try:
            return opened[name]
        except ValueError as err:
            raise UsageError(f"{option}: {name} of {path} cannot be read ({err})") from err


def _features(path: Path, option: str) -> Array:
    array = _array(path, option)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        hint = ". Pictures must be turned into features first" if array.ndim == 4 else ""
        raise UsageError(
            f"{option}: {path} must hold numbers of shape (rows, columns), one row per picture; "
            f"got {array.dtype} of shape {array.shape}{hint}"
        )
    return array


def _features_or_statistics(path: Path, option: str) -> Array | FeatureStatistics:
    opened = _open(path, option)
    if hasattr(opened, "files"):
        with opened:
            is_statistics = {"mu", "sigma"} & set(opened.files)
        if is_statistics:
            from verism.metrics.frechet import read_statistics

            with _usage():
                return read_statistics(path)
    return _features(path, option)


def _n_rows(side: Array | FeatureStatistics, path: Path) -> int:
    if isinstance(side, tuple):
        raise UsageError(f"--prompts needs the features of the generated pictures; {path} has statistics")
    return len(side)


def _labels(path: Path, n: int) -> np.ndarray:
    """The lines of a text file, one per picture."""
    import numpy as np

    try:
        lines = split_lines(path.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"--prompts: {path} cannot be read as text ({err})") from err
    if len(lines) != n:
        raise UsageError(f"--prompts: {path} must have one line for each of the {n:,} pictures; it has {len(lines):,}")
    return np.array(lines)


def _frequencies(path: Path) -> dict[tuple[str, str], dict[str, dict[str, Fraction]]]:
    """Frequency of each attribute by (model, setting) and gender; exact, so that equal differences stay equal."""
    option, columns = "--frequencies", ("model", "setting", "gender", "attribute", "frequency")
    try:
        lines = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{option}: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"{option}: {path} cannot be read as text ({err})") from err
    reader = csv.DictReader(io.StringIO(lines, newline=""))
    if missing := [c for c in columns if c not in (reader.fieldnames or ())]:
        raise UsageError(
            f"{option}: {path} must have the columns {', '.join(columns)}; {', '.join(missing)} is missing"
        )
    found: dict[tuple[str, str], dict[str, dict[str, Fraction]]] = {}
    for row in reader:
        where = f"{option}: line {reader.line_num} of {path}"
        model, setting, gender, attribute, text = ((row[c] or "").strip() for c in columns)
        try:
            frequency = Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise UsageError(f"{where} must have a number as frequency, such as 0.25 or 20/80; got {text!r}") from None
        mine = found.setdefault((model, setting), {}).setdefault(gender, {})
        if attribute in mine:
            raise UsageError(f"{where} gives {attribute!r} of {gender!r} again ({model}, {setting})")
        mine[attribute] = frequency
    if not found:
        raise UsageError(f"{option}: {path} has no rows")
    for (model, setting), genders in found.items():
        where = f"{option}: {path}, {model}, {setting}"
        if len(genders) < 2:
            raise UsageError(f"{where}: needs at least two genders to compare; it has {', '.join(genders)}")
        every = {a for mine in genders.values() for a in mine}
        for gender, mine in genders.items():
            if lacking := sorted(every - set(mine)):
                raise UsageError(f"{where}: {gender!r} lacks {', '.join(lacking)}, which others have")
    return found


def _json(path: Path, option: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{option}: there is no file {path}") from None
    except (OSError, ValueError) as err:
        raise UsageError(f"{option}: {path} cannot be read as JSON ({err})") from err


def _records(given: Any, path: Path, option: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(r, dict) and {"image_id", "caption"} <= set(r) for r in given):
        raise UsageError(f"{option}: {path} must have a list of records, each with image_id and caption")
    for record in given:
        if not isinstance(record["image_id"], (int, str)):
            raise UsageError(f"{option}: image_id in {path} must be a number or a text; got {record['image_id']!r}")
    return given


def _references(path: Path) -> dict[int | str, list[str]]:
    """Captions of each picture, in the order of the file."""
    given = _json(path, "--references")
    if not isinstance(given, dict) or "annotations" not in given:
        raise UsageError(f'--references: {path} must be a COCO captions file, {{"annotations": [...]}}')
    captions: dict[int | str, list[str]] = {}
    for record in _records(given["annotations"], path, "--references"):
        if not isinstance(record["caption"], str):
            raise UsageError(f"--references: caption of image_id {record['image_id']!r} in {path} must be a text")
        captions.setdefault(record["image_id"], []).append(record["caption"])
    return captions


def _candidates(path: Path) -> dict[int | str, str | None]:
    captions: dict[int | str, str | None] = {}
    for record in _records(_json(path, "--candidates"), path, "--candidates"):
        key, caption = record["image_id"], record["caption"]
        if key in captions:
            raise UsageError(f"--candidates: {path} must have one caption per picture; image_id {key!r} comes again")
        if not (caption is None or isinstance(caption, str)):
            raise UsageError(f"--candidates: caption of image_id {key!r} in {path} must be a text; got {caption!r}")
        captions[key] = caption
    return captions


# ------------------------------------------------------------------------------------------------------------- output
def _ends(interval: Any) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high, "level": 0.95}


def _row(name: str, value: float, interval: Any, *, digits: int = 4) -> str:
    text = f"{name:<14} {_number(value, digits):>10}"
    return text if interval is None else text + f"  [{_number(interval.low, digits)}, {_number(interval.high, digits)}]"


def _number(value: float, digits: int) -> str:
    return "-" if value != value else f"{value:.{digits}f}"


def _counts(n_real: int | None, n_generated: int | None, dim: int) -> str:
    shown = ["unknown number of" if n is None else f"{n:,}" for n in (n_real, n_generated)]
    return f"{shown[0]} real and {shown[1]} generated pictures, {dim:,} features"
