"""Training, measuring and exporting the built-in embedder.

``train_embedder`` learns from rendered examples and can be stopped and resumed at any time; ``finish`` exports the
averaged weights as the files that ``judges.embedding.builtin`` and ``judges.vqa.builtin`` run, calibrates what they say
of garments on held-out examples, and measures those very files on examples of seeds that nothing has seen.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, require
from verism.files import write_whole
from verism.judges.detection.builtin import detector_file, letterbox
from verism.judges.embedding.embedder_files import IMAGES, OUTPUTS, TEXTS, ImageTower, TextTower
from verism.judges.embedding.vocabulary import LONGEST, Vocabulary
from verism.training._checkpoints import averaged_weights, read_settings
from verism.training._onnx_export import OnnxInterface, read_onnx, with_properties, write_onnx
from verism.training._replicas import NetworkLearner, autocast, averaged_network
from verism.training.embedder_examples import COLORS, GARMENTS, Examples, Facts, load_examples, render_examples
from verism.training.embedder_texts import Claim, fit_of, spoilt, true_claim, vocabulary, worded
from verism.training.loop import Hooks, Log, fit, log_to
from verism.training.rendered_training import RenderedTraining
from verism.training.settings import EMBEDDER_RENDERING, PAINTSKILLS_CLASSES, EmbedderConfig

if TYPE_CHECKING:
    import torch

    _Maps: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

__all__ = [
    "CHECKPOINT",
    "LOG",
    "TextBatch",
    "export_onnx",
    "finish",
    "head_targets",
    "losses",
    "measure",
    "mirrored",
    "split_examples",
    "train_and_export",
    "train_embedder",
    "varied_pixels",
]

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"
_PURPOSE = "embedder training"

# Weights of the parts of the loss. By themselves colours and sides come last: texts rarely differ by them alone.
_TRUTH = 0.1
_HEADS = {"counts": 0.3, "colors": 0.9, "sides": 0.9, "places": 0.15, "garments": 0.5}
_ZOOM = 0.06  # of the image that is cut off on each side at most
_LENGTHS = 4  # groups of texts of like length
_BEYOND = 2  # texts of examples outside the batch, for each of its images


# --------------------------------------------------------------------------------------------------------------------
# Examples
# --------------------------------------------------------------------------------------------------------------------
def split_examples(examples: Examples, share: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices to learn from, and held out; an example's place in its file decides, however many follow.

    Args:
        examples: all of them.
        share: to hold out, in [0, 1).
    """
    keys = [zlib.crc32(f"{part} {row}".encode()) % 10_000 for part, row in examples.rows.tolist()]
    out = np.array(keys) < share * 10_000
    return np.flatnonzero(~out), np.flatnonzero(out)


def mirrored(facts: Facts) -> Facts:
    """What is known of the mirror image."""
    return replace(facts, relation={"left": "right", "right": "left"}.get(facts.relation, facts.relation))


def varied_pixels(pixels: NDArray[np.uint8], size: int, rng: np.random.Generator, *, flip: bool) -> NDArray[np.uint8]:
    """An image at the network's size, cut a little, in slightly other light; mirrored if asked.

    Args:
        pixels: (S, S, 3), uint8.
        size: side of the result.
        rng: draws the cut and the light.
        flip: whether to mirror it.
    """
    from PIL import Image

    side = pixels.shape[0]
    low, high = rng.uniform(0, _ZOOM, 2) * side, side * (1 - rng.uniform(0, _ZOOM, 2))
    if rng.random() < 0.4:
        low, high = np.zeros(2), np.full(2, float(side))
    cut = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
    image = Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR, box=cut)
    result = np.asarray(image)
    if flip:
        result = result[:, ::-1]
    if rng.random() < 0.5:
        light = rng.uniform(0.85, 1.15) * rng.uniform(0.96, 1.04, 3)
        noise = rng.normal(0, rng.uniform(0, 6), result.shape) if rng.random() < 0.3 else 0.0
        result = np.clip(result * light + noise, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(result)


def head_targets(facts: Sequence[Facts], places: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """What the heads should say of some images, -1 where it is not known; see ``embedder_network.Shape``.

    Args:
        facts: of the images.
        places: names of environments, in the order of their outputs.
    """
    n, classes = len(facts), len(PAINTSKILLS_CLASSES)
    counts = np.zeros((n, classes, 4), np.float32)
    colors = np.zeros((n, classes, len(COLORS)), np.float32)
    sides = np.zeros((n, classes, 4), np.float32)
    in_place = np.full((n, len(places)), -1, np.float32)
    garments = np.full((n, len(GARMENTS)), -1, np.float32)
    names = ("left", "right", "above", "below")
    for k, known in enumerate(facts):
        if known.background:
            in_place[k] = [name == known.background for name in places]
        if known.kind == "person":
            worn = [known.garments.get(name) for name in GARMENTS]
            garments[k] = [-1 if value is None else float(value) for value in worn]
            person = PAINTSKILLS_CLASSES.index("person")
            counts[k, person, 0] = 1
            colors[k, person], sides[k, person] = -1, -1
            continue
        for thing in known.things:
            if thing.label not in PAINTSKILLS_CLASSES:
                continue
            c = PAINTSKILLS_CLASSES.index(thing.label)
            counts[k, c, int(counts[k, c].sum())] = 1
            if thing.color:
                colors[k, c, COLORS.index(thing.color)] = 1
            else:
                colors[k, c] = -1
            if known.relation not in names:
                sides[k, c] = -1
        if known.relation in names:
            first, second = (t.label for t in known.things)
            r = names.index(known.relation)
            opposite = r + 1 - 2 * (r % 2)
            sides[k, PAINTSKILLS_CLASSES.index(second), r] = 1
            sides[k, PAINTSKILLS_CLASSES.index(first), opposite] = 1
    flat = {"counts": counts, "colors": colors, "sides": sides}
    return {name: table.reshape(n, -1) for name, table in flat.items()} | {"places": in_place, "garments": garments}


@dataclass(frozen=True, kw_only=True, eq=False)
class TextBatch:
    """Texts for a batch of images, with how each fits each.

    Attributes:
        texts: T texts.
        fits: says all of the image, shape (B, T), bool.
        true: is true of it, open pairs left out.
        false: is false of it.
        less: true, but says less or names fewer objects: not what the image is described best by.
    """

    texts: Sequence[str]
    fits: NDArray[np.bool_]
    true: NDArray[np.bool_]
    false: NDArray[np.bool_]
    less: NDArray[np.bool_]

    @classmethod
    def draw(cls, facts: Sequence[Facts], others: Sequence[Facts], rng: np.random.Generator) -> TextBatch:
        """For each image two texts that fit and three that are nearly alike; and texts of other examples.

        Args:
            facts: of the images.
            others: of examples whose images are not in the batch.
            rng: draws claims and words.
        """
        claims: list[Claim] = []
        for known in facts:
            own = true_claim(known, rng)
            claims += [own, *(spoilt(own, rng) for _ in range(3)), true_claim(known, rng)]
        claims += [true_claim(known, rng) for known in others]
        table = np.array([[fit_of(claim, known) for claim in claims] for known in facts])
        return cls(
            texts=[worded(claim, rng) for claim in claims],
            fits=table == "fits",
            true=(table == "fits") | (table == "holds"),
            false=table == "false",
            less=(table == "holds") | (table == "part"),
        )


# --------------------------------------------------------------------------------------------------------------------
# Loss
# --------------------------------------------------------------------------------------------------------------------
def losses(
    network: Any, maps: _Maps, batch: TextBatch, words: Vocabulary, heads: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Parts of the loss: ranking of texts for images and of images for texts, truth of pairs, and the heads.

    Args:
        network: an ``EmbedderNetwork``.
        maps: of its trunk, of B images.
        batch: T texts, with how each fits each image.
        words: the vocabulary.
        heads: see ``head_targets``.
    """
    import torch
    import torch.nn.functional as F

    device, n_images = maps[0].device, len(maps[0])
    rows = torch.from_numpy(words.array(batch.texts))
    lengths = (rows != 0).sum(dim=1)
    order = torch.argsort(lengths, stable=True)
    # Texts of like length together: padding would be half of all tokens.
    groups = [rows[part, : int(lengths[part].max())].to(device) for part in torch.chunk(order, _LENGTHS)]
    with autocast(device.type):
        image, text, outputs = network(maps, groups)
    text = torch.empty_like(text).index_copy(0, order.to(device), text)
    cosines = image @ text.T
    table = {name: torch.from_numpy(getattr(batch, name)).to(device) for name in ("fits", "true", "false", "less")}
    logits = cosines * network.temperature.exp().clamp(max=60.0)

    def ranked(scores: torch.Tensor, positive: torch.Tensor, rival: torch.Tensor) -> torch.Tensor:
        lowest = torch.finfo(scores.dtype).min
        best = torch.logsumexp(scores.masked_fill(~positive, lowest), dim=1)
        everything = torch.logsumexp(scores.masked_fill(~(positive | rival), lowest), dim=1)
        asked = positive.any(dim=1)
        return (everything - best)[asked].mean() if bool(asked.any()) else scores.sum() * 0

    parts = {
        "texts": ranked(logits, table["fits"], table["false"] | table["less"]),
        "images": ranked(logits.T, table["true"].T, table["false"].T),
    }
    truth = network.slope.exp() * 3 * (cosines - network.middle)
    known = (table["true"] | table["false"]).float()
    each = F.binary_cross_entropy_with_logits(truth, table["true"].float(), reduction="none") * known
    parts["truth"] = _TRUTH * each.sum() / n_images
    for name, target in heads.items():
        goal = torch.from_numpy(target).to(device)
        there = (goal >= 0).float()
        each = F.binary_cross_entropy_with_logits(outputs[name], goal.clamp(min=0), reduction="none") * there
        parts[name] = _HEADS[name] * each.sum() / n_images
    parts["colors"] = parts["colors"] + _HEADS["colors"] * _any_color(outputs["colors"], heads["colors"])
    return parts


def _any_color(logits: torch.Tensor, target: NDArray[np.float32]) -> torch.Tensor:
    """Whether anything has each colour, by the same outputs: learnt much sooner than what has it.

    Args:
        logits: of each class in each colour, shape (B, C K).
        target: 1, 0, or -1 where it is not known, same shape.
    """
    import torch
    import torch.nn.functional as F

    shape = (-1, len(PAINTSKILLS_CLASSES), len(COLORS))
    goal = torch.from_numpy(target).to(logits.device).reshape(shape)
    known = (goal >= 0).all(dim=1).float()
    anything = torch.logsumexp(logits.reshape(shape), dim=1)
    each = F.binary_cross_entropy_with_logits(anything, goal.amax(dim=1).clamp(min=0), reduction="none")
    total: torch.Tensor = (each * known).sum()
    return total / len(logits)


# --------------------------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------------------------
class _KeptMaps:
    """Maps of a trunk that does not change any more, computed once for each image.

    Args:
        size: side of the network's input.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._of: dict[tuple[int, int], _Maps] = {}

    def of(self, network: Any, chosen: Sequence[int], examples: Examples, device: torch.device) -> _Maps:
        """Maps of some examples, stacked.

        Args:
            network: an ``EmbedderNetwork``.
            chosen: indices of the examples.
            examples: all of them.
            device: where the maps are wanted.
        """
        import torch

        keys: list[tuple[int, int]] = [(int(part), int(row)) for part, row in examples.rows[list(chosen)]]
        missing = [n for n, key in enumerate(keys) if key not in self._of]
        if missing:
            squares = np.stack([letterbox(examples.image(chosen[n]), self._size)[0] for n in missing])
            pixels = torch.from_numpy(squares).permute(0, 3, 1, 2).to(device)
            with torch.no_grad(), autocast(device.type):
                early, middle, last = network.images.maps(pixels, fixed_trunk=True)
            for n, a, b, c in zip(missing, early, middle, last, strict=True):
                # A view of a batch would keep all of the batch in memory.
                self._of[keys[n]] = (a.bfloat16().clone(), b.bfloat16().clone(), c.bfloat16().clone())
        a, b, c = zip(*(self._of[key] for key in keys), strict=True)
        # Kept in 16 bits to save memory, whatever the processor computes with.
        return torch.stack(a).float(), torch.stack(b).float(), torch.stack(c).float()


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a checkpoint must share with the training that resumes it, and needs to be exported."""

    words: tuple[str, ...]
    classes: tuple[str, ...]
    places: tuple[str, ...]
    garments: tuple[str, ...]
    channels: tuple[int, ...]
    size: int
    width: int
    dim: int
    batch_size: int
    seed: int

    def shape(self) -> Any:
        from verism.training.embedder_network import Shape

        return Shape(
            channels=self.channels, size=self.size, words=len(Vocabulary(self.words)), longest=LONGEST,
            width=self.width, dim=self.dim, classes=len(self.classes), colors=len(COLORS), places=len(self.places),
            garments=len(self.garments),
        )  # fmt: skip


def _places() -> tuple[str, ...]:
    from verism.simulator.catalogue import standard_catalogue

    return tuple(standard_catalogue().environments)


def train_embedder(
    examples: Examples,
    config: EmbedderConfig,
    *,
    out: Path,
    detector: Path | None = None,
    refresh: Callable[[], Examples] | None = None,
    log: Log | None = None,
) -> Path:
    """Train both towers; see ``loop.fit`` for stopping and going on.

    Args:
        examples: images with facts; a share is held out for validation.
        config: the settings.
        out: folder for the checkpoint (``checkpoint.safetensors``) and the log (``log.jsonl``), made if missing.
        detector: ONNX file of the detector whose trunk the image tower starts from; None: the one of the package.
        refresh: asked now and then for the examples again, for data that are still being made.
        log: receives each line of the log as well, see ``loop.Hooks``.

    Returns:
        The checkpoint.

    Raises:
        UsageError: nothing to learn from, neither steps nor minutes given, a checkpoint of other settings, or a file
            that is no detector of ours.
        VerismError: the loss stays infinite.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    require("safetensors", extra="train", purpose=_PURPOSE)
    import torch

    from verism.training.embedder_evaluation import measured
    from verism.training.embedder_network import EmbedderNetwork

    config.check_length()
    if config.size % 32 or config.width % 8:
        raise UsageError(f"size is a multiple of 32 and width one of 8, got {config.size} and {config.width}")
    words, places = vocabulary(), _places()
    weights, _ = read_onnx(detector_file(detector))
    try:
        channels = (len(weights["network.stem.0.weight"]), *(
            len(weights[f"network.stages.{k}.0.0.weight"]) for k in (1, 2, 3)
        ))  # fmt: skip
        settings = _Settings(
            words=words.words, classes=PAINTSKILLS_CLASSES, places=places, garments=GARMENTS, channels=channels,
            size=config.size, width=config.width, dim=config.dim, batch_size=config.batch_size, seed=config.seed,
        )  # fmt: skip
        torch.manual_seed(config.seed)
        network = EmbedderNetwork(settings.shape())
        network.start_from(weights)
    except KeyError as err:
        raise UsageError(f"{detector or 'the detector of this package'} has no layer {err}: not one of ours") from err
    for head in network.heads.values():
        torch.nn.init.constant_(head.bias, -3.0)  # type: ignore[arg-type]  # most outputs are mostly no
    learn, held_out = split_examples(examples, config.held_out)

    def loss(net: Any, indices: np.ndarray, rng: np.random.Generator, done: float) -> Mapping[str, torch.Tensor]:
        chosen = [int(learn[i]) for i in indices]
        beyond = [examples.facts[int(learn[k])] for k in rng.integers(len(learn), size=_BEYOND * len(chosen))]
        if done >= 1 - config.kept_maps:
            facts = [examples.facts[k] for k in chosen]
            maps = kept.of(net, chosen, examples, learner.device)
            return losses(net, maps, TextBatch.draw(facts, beyond, rng), words, head_targets(facts, places))
        flips = rng.random(len(chosen)) < 0.5
        facts = [examples.facts[k] for k in chosen]
        facts = [mirrored(f) if flip else f for f, flip in zip(facts, flips, strict=True)]
        images = [
            varied_pixels(examples.image(k), config.size, rng, flip=bool(flip))
            for k, flip in zip(chosen, flips, strict=True)
        ]
        pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(learner.device)
        with autocast(learner.device.type):
            maps = net.images.maps(pixels, fixed_trunk=done < config.fixed_trunk)
        return losses(net, maps, TextBatch.draw(facts, beyond, rng), words, head_targets(facts, places))

    kept = _KeptMaps(config.size)

    def reload() -> int:
        nonlocal examples, learn, held_out
        assert refresh is not None
        examples = refresh()
        learn, held_out = split_examples(examples, config.held_out)
        return len(learn)

    def validate() -> Mapping[str, Any]:
        return measured(averaged_network(learner).cpu(), examples, held_out[:600], words)

    learner = NetworkLearner("embedder", network, loss, len(learn), config)
    hooks = Hooks(
        log=log_to(out / LOG, log),
        validate=validate if len(held_out) else None,
        refresh=None if refresh is None else reload,
    )
    fit(learner, config, hooks, checkpoint=out / CHECKPOINT, settings=asdict(settings))
    return out / CHECKPOINT


# --------------------------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------------------------
def export_onnx(checkpoint: Path, out: Path) -> tuple[Path, Path]:
    """Write the averaged weights of a checkpoint as the files that the built-in judges run.

    Weights are kept in 16 bits; computing is done in 32.

    Args:
        checkpoint: checkpoint of ``train_embedder``.
        out: folder for ``embedder_images.onnx`` and ``embedder_texts.onnx``.

    Returns:
        Both files.

    Raises:
        UsageError: there is no checkpoint, or not one of an embedder.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.embedder_network import EmbedderNetwork, ExportedImages, ExportedTexts
    from verism.training.embedder_texts import content_words

    settings, header = read_settings(checkpoint, "embedder", _Settings)
    network = EmbedderNetwork(settings.shape())
    network.load_state_dict(averaged_weights(checkpoint))
    network.eval()
    batch = torch.export.Dim("batch", min=1, max=4096)
    about = json.dumps({"steps": header.step, "trained_s": round(header.elapsed_s)})
    heads = {"size": settings.size, "classes": settings.classes, "colors": COLORS, "places": settings.places,
             "garments": settings.garments}  # fmt: skip
    words = {"words": settings.words, "content": sorted(content_words())}
    pixels = torch.zeros((2, settings.size, settings.size, 3), dtype=torch.uint8)
    images = write_onnx(
        out / IMAGES, ExportedImages(network).eval(), (pixels,),
        OnnxInterface(inputs=("pixels",), outputs=OUTPUTS, shapes={"pixels": {0: batch}}),
        {"embedder": json.dumps(heads), "card": about}, half=True,
    )  # fmt: skip
    tokens = torch.ones((2, LONGEST), dtype=torch.long)
    texts = write_onnx(
        out / TEXTS, ExportedTexts(network).eval(), (tokens,),
        OnnxInterface(inputs=("tokens",), outputs=("vectors",), shapes={"tokens": {0: batch}}),
        {"embedder": json.dumps(words), "card": about}, half=True,
    )  # fmt: skip
    return images, texts


def measure(out: Path, test: Examples, *, threads: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Measure exported files on examples: retrieval, garments and questions, see ``embedder_evaluation``.

    Args:
        out: folder of the files.
        test: examples that nothing has seen.
        threads: number of threads of onnxruntime; None: its own choice.
        seed: draws the words of texts.
    """
    import time

    from verism.judges.vqa.builtin import BuiltinVqa
    from verism.training.embedder_evaluation import answered, evaluate

    tower, texts = ImageTower(out, threads=threads), TextTower(out, threads=threads)

    def image_vectors(pixels: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any]]:
        seen = tower.look(list(pixels))
        return seen.vectors, seen.garments

    started = time.monotonic()
    result = evaluate(test, range(len(test)), tower.size, image_vectors, texts.embed, seed=seed)
    result["images_per_s"] = round(len(test) / (time.monotonic() - started), 1)
    return result | {"questions": answered(BuiltinVqa(out, least_right=0.0, threads=threads), test, seed=seed)}


def finish(out: Path, test: Examples | None, *, threads: int | None = None) -> dict[str, Any]:
    """Export a trained checkpoint, and measure the files. Writes them and ``evaluation.json`` into ``out``.

    Args:
        out: folder of the training.
        test: examples that nothing has seen; None: nothing is measured.
        threads: number of threads of onnxruntime; None: its own choice.

    Returns:
        What was measured, with the sizes of the files in bytes.
    """
    from verism.training.embedder_evaluation import balanced

    files = export_onnx(out / CHECKPOINT, out)
    result: dict[str, Any] = {}
    if test is not None:
        result = measure(out, test, threads=threads)
        names = ("r_precision", "pool", "scenes", "auc_cosine_lowest", "auc_cosine_mean")
        card = {"test": {k: result[k] for k in names if k in result}, "balanced": balanced(result["questions"])}
        for path in files:
            with_properties(path, card=card)
    result["bytes"] = {path.name: path.stat().st_size for path in files}
    write_whole(out / "evaluation.json", json.dumps(result, indent=1).replace("NaN", "null"))
    return result


train_and_export = RenderedTraining[Examples, EmbedderConfig](
    render=render_examples,
    load=load_examples,
    train=train_embedder,
    finish=lambda out, _, test, config: finish(out, test, threads=config.workers),
    rendering=EMBEDDER_RENDERING,
)
"""The whole way from images to the measured files of both towers."""
