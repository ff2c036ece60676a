"""``verism metrics``: one metric on files made elsewhere, without a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from verism.cli._metric_files import (
    read_array,
    read_candidates,
    read_clusters,
    read_counts,
    read_features,
    read_features_or_statistics,
    read_frequencies,
    read_pixels,
    read_references,
    usage,
)
from verism.errors import UsageError, VerismError
from verism.limits import CLASSES
from verism.terminal import SEED, Group, PathType, ProtocolChoice, put_result, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from verism.judges.skin_tone.builtin import BuiltinFaces, BuiltinTones
    from verism.judges.skin_tone.colour import SkinColour

__all__ = ["metrics"]

F = TypeVar("F", bound=Callable[..., Any])

# From so many features on, the interval of a Fréchet distance takes more than a moment.
LONG_JACKKNIFE = 512
LONG_NOTE = "computed anew for many parts of the images, which takes a while; --no-interval leaves them out"


@click.group(cls=Group)
def metrics() -> None:
    """Compute single metrics from files of features, embeddings or captions.

    \b
    verism metrics prdc --real real.npy --generated mine.npy -k 3
    verism metrics fid --real coco_val.npz --generated mine.npy --json
    verism metrics captions --references captions_val2014.json --candidates results.json

    Arrays are .npy, or .npz with a single array (or one named `features`): one row per image. Pickles are not opened.
    """


# ------------------------------------------------------------------------------------------------------------- options
def _files(*names: str, what: str) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for name in reversed(names):
            command = click.option(f"--{name}", required=True, type=PathType(), help=what.format(name.split("-")[0]))(
                command
            )
        return command

    return decorate


_sides = _files("real", "generated", what="Features of {} images, shape (images, features).")
_embeddings = _files("image-embeddings", "text-embeddings", what="Vectors of {}s, shape (N, D), not normalised.")
_prompts = click.option(
    "--prompts",
    type=PathType(),
    help="Text file, line i the prompt of generated image i, or .csv with a column `prompt`: intervals keep images of "
    "one prompt together.",
)
_no_interval = click.option("--no-interval", is_flag=True, help="Leave intervals out.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


# --------------------------------------------------------------------------------------------------------- feature sets
@metrics.command("prdc")
@_sides
@_prompts
@click.option(
    "-k",
    "--neighbours",
    "k",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of nearest neighbours; DIG In uses 3.",
)
@click.option("--inclusive", is_flag=True, help="Count points on the sphere as inside, as torch-fidelity does.")
@_no_interval
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random halves behind the intervals.")
@click.option("--device", help="PyTorch device for matrix products: cpu, cuda, cuda:1 ...; the numbers are the same.")
@click.option("--approximate", is_flag=True, help="Search neighbours in nearby cells only, and report the error.")
@click.option(
    "--probes", type=click.IntRange(1), default=16, show_default=True, help="Cells searched by --approximate."
)
@_as_json
def metrics_prdc(
    real: Path,
    generated: Path,
    prompts: Path | None,
    k: int,
    inclusive: bool,
    no_interval: bool,
    seed: int,
    device: str | None,
    approximate: bool,
    probes: int,
    as_json: bool,
) -> None:
    """Compute precision, recall, density and coverage of generated images against real ones.

    \b
    verism metrics prdc --real real.npy --generated mine.npy -k 3 --json
    verism metrics prdc --real real.npy --generated mine.npy --prompts prompts.csv
    verism metrics prdc --real real.npy --generated mine.npy --device cuda
    verism metrics prdc --real real.npy --generated mine.npy --approximate

    The numbers are exact, on any device. With --approximate they are not, and have no intervals: each comes with the
    error that was found on a sample, whose neighbours are searched everywhere.
    """
    import numpy as np

    from verism.inference import float32_product
    from verism.metrics.manifold import PRDC, approximate_prdc, expected_coverage, half_samples, prdc, products_by
    from verism.metrics.results import PRDCResult

    x, y = read_features(real, "--real"), read_features(generated, "--generated")
    intervals = rough = None
    with usage(), nullcontext() if device is None else products_by(float32_product(device)):
        clusters = read_clusters(prompts, len(y))
        if approximate:
            rng = np.random.default_rng(seed)
            rough = approximate_prdc(x, y, k, probes=probes, strict=not inclusive, rng=rng)
            values = rough.values
        elif no_interval:
            values = prdc(x, y, k, strict=not inclusive)
        else:
            halves = half_samples(x, y, k, seed=seed, strict=not inclusive, clusters=clusters)
            values, intervals = halves.values, {name: halves.interval(name) for name in PRDC._fields}  # type: ignore[arg-type]
        result = PRDCResult(
            values=values,
            expected_coverage=expected_coverage(len(x), len(y), k),
            intervals=intervals,
            k=k,
            strict=not inclusive,
            n_real=len(x),
            n_generated=len(y),
            dim=x.shape[1],
            approximate=rough,
        )
    put_result(result, as_json)


@metrics.command("fid")
@_sides
@_prompts
@click.option("--infinity", is_flag=True, help="Also extrapolate to infinitely many generated images.")
@_no_interval
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Seed of the groups that the jackknife leaves out."
)
@_as_json
def metrics_fid(
    real: Path, generated: Path, prompts: Path | None, infinity: bool, no_interval: bool, seed: int, as_json: bool
) -> None:
    """Compute the Fréchet distance: the FID, if the features are those of the FID Inception network.

    Either side may be a statistics file (.npz with mu and sigma), as published for many data sets.

    \b
    verism metrics fid --real real.npy --generated mine.npy --json
    verism metrics fid --real coco_val.npz --generated mine.npy --infinity
    """
    from verism.metrics.frechet import FeatureStatistics, fid_infinity, frechet_from_features, frechet_interval
    from verism.metrics.results import FrechetResult

    first = read_features_or_statistics(real, "--real")
    second = read_features_or_statistics(generated, "--generated")
    interval = infinite = None
    with usage():
        distance = frechet_from_features(first, second)
        if prompts is not None and isinstance(second, FeatureStatistics):
            raise UsageError(f"--prompts needs the features of the generated images; {generated} has statistics")
        clusters = read_clusters(prompts, len(second))
        if distance.warning:
            say(f"warning: {distance.warning}")
        if not no_interval:
            if distance.dim >= LONG_JACKKNIFE:
                say(f"interval: {LONG_NOTE}")
            interval = frechet_interval(first, second, clusters=clusters, seed=seed)
        if infinity:
            if isinstance(second, FeatureStatistics):
                raise UsageError(f"--infinity needs the features of the generated images; {generated} has statistics")
            n_groups = 0 if no_interval else 10
            infinite = fid_infinity(first, second, clusters=clusters, n_groups=n_groups, seed=seed)
            if infinite.warning and infinite.warning != distance.warning:
                say(f"warning: {infinite.warning}")
    put_result(FrechetResult(distance=distance, interval=interval, infinity=infinite), as_json)


@metrics.command("kid")
@_sides
@_prompts
@click.option(
    "--published", is_flag=True, help="Also report mean and spread over random subsets, as papers usually do."
)
@click.option(
    "--subsets", type=click.IntRange(1), default=100, show_default=True, help="--published: number of subsets."
)
@click.option(
    "--subset-size", type=click.IntRange(2), default=1000, show_default=True, help="--published: images per subset."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the subsets.")
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
    """Compute the kernel distance (KID): unbiased, so values of different numbers of images compare.

    \b
    verism metrics kid --real real.npy --generated mine.npy --json
    verism metrics kid --real real.npy --generated mine.npy --published --subset-size 500
    """
    from verism.metrics.kernel import kid, kid_subsets
    from verism.metrics.results import KernelResult

    x, y = read_features(real, "--real"), read_features(generated, "--generated")
    parts = None
    with usage():
        distance = kid(x, y, clusters=read_clusters(prompts, len(y)))
        if published:
            parts = kid_subsets(x, y, subsets=subsets, subset_size=subset_size, seed=seed)
    put_result(KernelResult(distance=distance, dim=x.shape[1], published=parts, seed=seed), as_json)


@metrics.command("inception-score")
@click.option("--logits", type=PathType(), help="Logits of a classifier, shape (images, classes).")
@click.option("--probabilities", type=PathType(), help="Probabilities instead of logits; rows sum to 1.")
@click.option(
    "--splits",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of consecutive parts to average over.",
)
@_prompts
@_as_json
def metrics_inception_score(
    logits: Path | None, probabilities: Path | None, splits: int, prompts: Path | None, as_json: bool
) -> None:
    """Compute the Inception score from a classifier's predictions.

    \b
    verism metrics inception-score --logits logits.npy --json
    """
    from verism.metrics.inception_score import inception_score
    from verism.metrics.results import InceptionResult

    if (logits is None) == (probabilities is None):
        raise UsageError("give one of --logits and --probabilities")
    if logits is not None:
        predictions = read_features(logits, "--logits")
    else:
        assert probabilities is not None
        predictions = read_features(probabilities, "--probabilities")
    with usage():
        score = inception_score(
            predictions,
            kind="probabilities" if logits is None else "logits",
            splits=splits,
            clusters=read_clusters(prompts, len(predictions)),
        )
    put_result(InceptionResult(score=score, n_classes=predictions.shape[1]), as_json)


# ------------------------------------------------------------------------------------------------------------ captions
@metrics.command("captions")
@click.option("--references", required=True, type=PathType(), help="COCO captions file.")
@click.option("--candidates", required=True, type=PathType(), help="COCO results file.")
@click.option(
    "--with", "extra", multiple=True, type=click.Choice(["meteor", "spice"]), help="Metric that needs Java; repeatable."
)
@click.option(
    "--tokenizer",
    type=click.Choice(["ptb", "none"]),
    default="ptb",
    show_default=True,
    help="ptb: Penn Treebank, as COCO; none: captions are tokenised already.",
)
@_as_json
def metrics_captions(references: Path, candidates: Path, extra: tuple[str, ...], tokenizer: str, as_json: bool) -> None:
    """Compute BLEU-1..4, ROUGE-L and CIDEr as the COCO caption toolkit does; METEOR and SPICE on request.

    References: {"annotations": [{"image_id": 1, "caption": "a dog"}, ...]}. Candidates: [{"image_id": 1, "caption":
    "a cat"}], one of each image. Images without a candidate are left out, as is usual, and counted.

    \b
    verism metrics captions --references refs.json --candidates cands.json --json
    verism metrics captions --references refs.json --candidates cands.json --with meteor --with spice
    """
    from verism.metrics.captions import DEFAULT_METRICS, MissingTool, ToolFailed, caption_scores
    from verism.metrics.results import CaptionResult

    by_people, generated = read_references(references, "--references"), read_candidates(candidates, "--candidates")
    if unknown := [key for key in generated if key not in by_people]:
        raise UsageError(
            f"{len(unknown):,} of {len(generated):,} candidates have no reference, such as image_id {unknown[0]!r}: "
            f"are {candidates} and {references} of the same data set?"
        )
    try:
        with usage():
            scores = caption_scores(
                by_people,
                generated,
                metrics=(*DEFAULT_METRICS, *extra),  # type: ignore[arg-type]  # click checked them
                tokenizer=tokenizer,  # type: ignore[arg-type]
                unmatched="count",
            )
    except (MissingTool, ToolFailed) as err:
        raise VerismError(str(err)) from err
    put_result(CaptionResult(scores=scores), as_json)


# ---------------------------------------------------------------------------------------------------------- embeddings
@metrics.command("r-precision")
@_embeddings
@click.option("--positive", type=PathType(), help="Row of each image's text.  [default: the same row]")
@click.option(
    "--protocol",
    type=ProtocolChoice(["released", "revised"]),
    default="revised",
    show_default=True,
    help="Protocol: as released, or revised.",
)
@click.option(
    "--method",
    type=click.Choice(["exact", "sampled"]),
    help="Use the exact value, or sampled pools.  [default: sampled if released, else exact]",
)
@click.option(
    "--pool", type=click.IntRange(2), default=100, show_default=True, help="Texts per pool, the image's own among them."
)
@click.option(
    "--repeats", type=click.IntRange(1), default=5, show_default=True, help="Number of repeats with sampled pools."
)
@click.option("--seed", type=SEED, default=10, show_default=True, help="Seed of the sampled pools.")
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
    """Compute how often an image is nearer to its own text than to all others of a pool.

    \b
    verism metrics r-precision --image-embeddings i.npy --text-embeddings t.npy --protocol released --json
    verism metrics r-precision --image-embeddings i.npy --text-embeddings t.npy
    """
    from verism.metrics.results import RPrecisionResult
    from verism.metrics.retrieval import r_precision

    images = read_features(image_embeddings, "--image-embeddings")
    texts = read_features(text_embeddings, "--text-embeddings")
    rows = None if positive is None else read_array(positive, "--positive")
    chosen: Any = {"protocol": protocol, "method": method or ("sampled" if protocol == "released" else "exact")}
    with usage():
        precision = r_precision(images, texts, positive=rows, **chosen, pool=pool, repeats=repeats, seed=seed)
    put_result(RPrecisionResult(precision=precision, **chosen, pool=pool, n_texts=len(texts)), as_json)


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
    """Compute the mean agreement of images with their texts, row by row.

    \b
    verism metrics clipscore --image-embeddings i.npy --text-embeddings t.npy --scale hessel --json
    """
    from verism.metrics.results import ClipScoreResult
    from verism.metrics.retrieval import mean_clipscore

    images = read_features(image_embeddings, "--image-embeddings")
    texts = read_features(text_embeddings, "--text-embeddings")
    with usage():
        clusters = read_clusters(prompts, len(images))
        score = mean_clipscore(images, texts, scale=scale, clusters=clusters)  # type: ignore[arg-type]  # click checked
    put_result(ClipScoreResult(score=score, scale=scale), as_json)


# ------------------------------------------------------------------------------------------- gender presentation (GEP)
@metrics.command("gep")
@click.option(
    "--frequencies",
    required=True,
    type=PathType(),
    help="CSV with columns model, setting, gender, attribute, frequency (a number, or a fraction such as 11/80).",
)
@_as_json
def metrics_gep(frequencies: Path, as_json: bool) -> None:
    """Compute gender presentation differences: the vector and the score of each model and setting.

    The vector is the frequency with the gender that the file names first less that with the second; the score is the
    mean absolute entry. More than two genders: a vector and a score of every pair, and the mean largest gap.

    \b
    verism metrics gep --frequencies frequencies.csv --json
    """
    from verism.metrics.presentation import exact_pairs
    from verism.metrics.results import PresentationResult

    results = [
        PresentationResult(model=model, setting=setting, pair=pair)
        for (model, setting), genders in read_frequencies(frequencies, "--frequencies").items()
        for pair in exact_pairs(genders)
    ]
    put_result(results, as_json)


# ----------------------------------------------------------------------------------------------------------- skin tone
@metrics.command("tone")
@click.option(
    "--image",
    "images",
    required=True,
    multiple=True,
    type=PathType(),
    help="Image, or a flat patch of colour; repeatable.",
)
@click.option("--box", metavar="X0,Y0,X1,Y1", help="Region in pixels, ends excluded.  [default: the whole image]")
@click.option(
    "--average",
    type=click.Choice(["median", "trimmed", "mean"]),
    default="median",
    show_default=True,
    help="Average that makes one colour of all pixels, in linear light.",
)
@click.option(
    "--illumination",
    type=click.Choice(["none", "grey-world", "shades-of-grey", "white-patch"]),
    default="none",
    show_default=True,
    help="Estimator of the light to correct for, from the whole image.",
)
@_as_json
def metrics_tone(images: tuple[Path, ...], box: str | None, average: str, illumination: str, as_json: bool) -> None:
    """Compute colour, ITA and Monk tone of an image or a region of it, and the tones of the faces in it.

    Without --box, the built-in networks find faces and estimate their tones whatever the light, and the colour is that
    of the whole image. Three ways lead from a colour to a tone: revised (CIELAB in real units; nearest tone by
    CIEDE2000, and by ITA), released (as DALL-Eval's code computes it, swapped channels and 8-bit Lab included; its
    index counts from 0), and the pixel rule of its authors.

    \b
    verism metrics tone --image portrait.png
    verism metrics tone --image swatch.png --json
    verism metrics tone --image one.png --image two.png --box 96,80,160,140
    """
    import numpy as np

    from verism.judges.skin_tone.colour import measure_skin
    from verism.metrics.colour import rule_tone

    sides = None if box is None else _box(box)
    settings: Any = {"average": average, "illumination": illumination}  # click checked the names
    results = []
    for path in images:
        pixels = read_pixels(path, "--image")
        height, width = pixels.shape[:2]
        x0, y0, x1, y1 = sides or (0, 0, width, height)
        if x1 > width or y1 > height:
            raise UsageError(f"--box {box} must lie within the image; {path} is {width} x {height} pixels")
        mask = np.zeros((height, width), dtype=bool)
        mask[y0:y1, x0:x1] = True
        skin = measure_skin(pixels, mask, min_pixels=1, **settings)
        tone, rgb, n_pixels = rule_tone(pixels, mask)
        rule = {"monk_tone": tone or None, "rgb": rgb.tolist(), "n_pixels": n_pixels}
        faces = () if sides else _faces(pixels)
        results.append(_Tone(image=str(path), box=(x0, y0, x1, y1), skin=skin, pixel_rule=rule, faces=faces))
    put_result(results if len(results) > 1 else results[0], as_json)


def _faces(pixels: NDArray[np.uint8]) -> tuple[_FaceTone, ...]:
    """Faces of an image, the largest first, with their tones."""
    finder, tones = _builtin_networks()
    found = finder.find(pixels)
    return tuple(
        _FaceTone(
            box=tuple(round(float(v), 1) for v in face.box), score=float(face.score or 0.0), chances=chances.tolist()
        )
        for face, chances in zip(found, tones.estimate(pixels, found), strict=True)
    )


@cache
def _builtin_networks() -> tuple[BuiltinFaces, BuiltinTones]:
    from verism.judges.skin_tone.builtin import BuiltinFaces, BuiltinTones

    return BuiltinFaces(), BuiltinTones()


@dataclass(frozen=True, kw_only=True)
class _FaceTone:
    """A face: its box, how sure its finder is, and the probabilities of tones 1 to 10."""

    box: tuple[float, ...]
    score: float
    chances: list[float]

    @property
    def tone(self) -> int:
        return self.chances.index(max(self.chances)) + 1

    def record(self) -> dict[str, Any]:
        chances = [round(chance, 4) for chance in self.chances]
        return {
            "box": list(self.box),
            "score": round(self.score, 4),
            "monk_tone": self.tone,
            "probability": max(chances),
            "probabilities": chances,
        }

    def text(self) -> str:
        likely = sorted(range(10), key=lambda k: -self.chances[k])[:3]
        told = ", ".join(f"tone {k + 1} {self.chances[k]:.2f}" for k in likely if self.chances[k] >= 0.05)
        return f"  face at {', '.join(f'{v:.0f}' for v in self.box)}: {told}"


@dataclass(frozen=True, kw_only=True)
class _Tone:
    """Colour and tone of a region of an image, three ways, and the faces in the image where they were looked for."""

    image: str
    box: tuple[int, int, int, int]
    skin: SkinColour
    pixel_rule: Mapping[str, Any]
    faces: tuple[_FaceTone, ...] = ()

    @property
    def n_pixels(self) -> int:
        x0, y0, x1, y1 = self.box
        return (x1 - x0) * (y1 - y0)

    def record(self) -> dict[str, Any]:
        skin = self.skin
        return {
            "image": self.image,
            "box": list(self.box),
            "n_pixels": self.n_pixels,
            "revised": {
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
            "pixel_rule": dict(self.pixel_rule),
            "faces": [face.record() for face in self.faces],
        }

    def text(self) -> str:
        from verism.metrics.results import number

        skin, rule = self.skin, self.pixel_rule
        lines = [f"{self.image}: {self.n_pixels:,} pixels", f"  {'':<12} {'tone':>4} {'ITA':>8}  colour (sRGB)"]
        for name, tone, angle, rgb in (
            ("revised", skin.tone, number(skin.ita_deg, 2), skin.rgb255),
            ("by ITA", skin.tone_by_ita, "", ()),
            ("released", skin.released_tone, number(skin.released_ita_deg, 2), ()),
            ("pixel rule", rule["monk_tone"], "", rule["rgb"]),
        ):
            colour = " ".join(number(v, 1) for v in rgb)
            lines.append(f"  {name:<12} {tone or '-':>4} {angle:>8}  {colour}".rstrip())
        if skin.note:
            lines.append(f"  {skin.state}: {skin.note}")
        lines += [face.text() for face in self.faces]
        return "\n".join(lines)


def _box(text: str) -> tuple[int, int, int, int]:
    try:
        x0, y0, x1, y1 = (int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--box must be four whole numbers x0,y0,x1,y1, such as 96,80,160,140; got {text!r}") from None
    if not (0 <= x0 < x1 and 0 <= y0 < y1):
        raise UsageError(f"--box must have 0 <= x0 < x1 and 0 <= y0 < y1; got {text!r}")
    return x0, y0, x1, y1


# ----------------------------------------------------------------------------------------------------------- imbalance
@metrics.command("mad")
@click.option("--counts", metavar="N,N,...", help="Images of each class of one prompt (or of all together): 7,2.")
@click.option(
    "--counts-file",
    type=PathType(),
    help="CSV with a header of class names and a row of counts per prompt; a column prompt may name the prompts.",
)
@click.option("--target", metavar="T,T,...", help="Target share of each class, summing to 1.  [default: all equal]")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the resampling.")
@_as_json
def metrics_mad(counts: str | None, counts_file: Path | None, target: str | None, seed: int, as_json: bool) -> None:
    """Compute the mean absolute deviation (MAD) of class shares from equal shares, or from a target.

    For several prompts it prints the mean of their MADs with an interval by resampling prompts, the MAD to expect of a
    model without imbalance at these numbers of images, an estimate without that bias, and the MAD of all images
    together. For one prompt the interval is of the MAD of its true shares. Divisor K is the published formula; Tables 8
    and 9 of the first DALL-Eval paper use K-1.

    \b
    verism metrics mad --counts 7,2 --json
    verism metrics mad --counts 20,14,85,26
    verism metrics mad --counts-file per_prompt.csv --target 0.3,0.7
    """
    from verism.metrics.imbalance import Divisor, mean_std, pooled_mad, prompt_mad, unbiased_test
    from verism.metrics.results import MadResult

    if (counts is None) == (counts_file is None):
        raise UsageError("give one of --counts and --counts-file")
    classes = None
    if counts is not None:
        table = [_comma_separated(counts, "--counts")]
    else:
        assert counts_file is not None
        classes, table = read_counts(counts_file, "--counts-file")
    if len(table[0]) > CLASSES.value:
        raise UsageError(f"{len(table[0]):,} classes; {CLASSES.hint()}")
    shares = None if target is None else _comma_separated(target, "--target")
    divisors: tuple[Divisor, ...] = ("K", "K-1")
    with usage():
        result = MadResult(
            by_prompt={d: prompt_mad(table, shares, divisor=d, seed=seed) for d in divisors},
            pooled={d: pooled_mad(table, shares, divisor=d, seed=seed) for d in divisors},
            std=mean_std(table, shares),
            p_value=unbiased_test(table, shares, seed=seed),
            n_rows=len(table),
            n_classes=len(table[0]),
            classes=classes,
            target=shares,
        )
    put_result(result, as_json)


def _comma_separated(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} must be numbers with commas between, such as 7,2; got {text!r}") from None
