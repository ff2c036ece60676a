"""Models of the hub that read an image and a text and write a text: what captioners and question answerers share.

BLIP, BLIP-2, InstructBLIP, GIT, encoder-decoders such as ViT-GPT2, and chat models (LLaVA, Qwen-VL and their kind)
through their own chat templates. Images are prepared by the checkpoint's image processor in its Pillow edition:
``torchvision`` is neither needed nor used, not even where a processor asks for it on behalf of videos.

Nothing is ever padded: only texts of equal length share a batch, and only images of equal input size. So a reply
does not depend on the images and questions beside it but for rounding, and padding sides do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, pick_device, pick_dtype
from verism.judges.hub import HubOptions, identity, load_config, source_name
from verism.records import content_hash

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["Ask", "Reply", "VisionLanguageModel", "check_count"]

Task = Literal["captions", "answers", "texts"]
PURPOSES = {
    "captions": "a captioner",
    "answers": "a model that answers questions about images",
    "texts": "a model that reads texts in images",
}

# Where the parts lie whose output is the same for every question about an image: the vision network, and what comes
# after it before the text does. InstructBLIP's second part reads the question, BLIP-2's does not.
_SHARED: dict[str, tuple[str, ...]] = {
    "blip": ("vision_model",),
    "blip-2": ("vision_model", "qformer", "language_projection"),
    "instructblip": ("vision_model",),
    "git": ("git.image_encoder",),
    "llava": ("model.vision_tower",),
    "vipllava": ("model.vision_tower",),
    "paligemma": ("model.vision_tower",),
    "qwen2_vl": ("model.visual",),
    "qwen2_5_vl": ("model.visual",),
    "qwen3_vl": ("model.visual",),
}
_PLAIN = ("blip", "blip-2", "instructblip", "git", "vision-encoder-decoder")  # never asked through a chat template
# Left out of checkpoints without loss: counters and tables that follow from the configuration.
_DERIVED = ("num_batches_tracked", "position_ids", "relative_position_index", "inv_freq")
BLIP_PX, BLIP_TOKENS = 480, 35  # of the original code's images and questions
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_WORD_MARKS = "▁Ġ "  # how vocabularies write the space before a word


@dataclass(frozen=True)
class Ask:
    """A text to put to a model, and replies whose probability is wanted, each as a tuple of its spellings.

    Attributes:
        text: the text.
        candidates: replies, each as a tuple of its spellings.
        strings: texts whose first token's probability is wanted.
    """

    text: str
    candidates: tuple[tuple[str, ...], ...] = ()
    strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """What a model answered.

    Attributes:
        text: without the prompt and without special tokens, stripped.
        yes: probability that the first token of the reply is the word yes, under the softmax over the whole vocabulary;
            None if the vocabulary has no such token.
        no: the same for the word no.
        candidates: per candidate of the question, the probability that the whole reply is one of its spellings.
        strings: per string of the question, its first token and the probability that the reply begins with it, under
            the softmax over the whole vocabulary.
    """

    text: str
    yes: float | None
    no: float | None
    candidates: tuple[float, ...] = ()
    strings: tuple[tuple[int, float], ...] = ()


def check_count(name: str, value: int) -> int:
    """The value, or UsageError if it is not positive."""
    if value < 1:
        raise UsageError(f"{name} must be at least 1, not {value}")
    return value


class VisionLanguageModel:
    """A model that writes a text about an image, loaded with ``transformers``.

    Public attributes: ``family`` is the ``model_type`` of its configuration. ``chat`` says whether texts reach it
    through a chat template. ``says_yes_and_no`` says whether each of the two words is a token of its vocabulary.
    ``source`` and ``identity`` enter the name of a judge. ``shares_vision`` says whether an image is looked at once for
    all its texts; without it the answers are the same, but come later.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with model, image processor and tokenizer.
        task: what it is to be loaded for; BLIP has a network for each.
        hub: which edition of the model, and how it is run; ``batch_size`` of images at once, and of texts at once.
        original_blip: whether BLIP is run as its original code does: images squashed to 480 x 480 pixels, bicubic, with
            CLIP's mean and deviation; questions of at most 35 tokens that begin with ``[ENC]``, where ``transformers``
            leaves ``[CLS]``.

    Raises:
        UsageError: no such model, a model that writes no text, or incomplete weights.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    _encoder_token: int | None = None  # that questions begin with; None: the tokenizer's own

    def __init__(
        self,
        id_or_path: str,
        *,
        task: Task,
        hub: HubOptions,
        original_blip: bool = False,
    ) -> None:
        purpose = PURPOSES[task]
        where = hub.where(id_or_path)
        for module in ("torch", "transformers"):
            require(module, extra=EXTRA, purpose=f"{purpose} from the Hugging Face hub")
        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        self._texts_at_once = hub.batch_size

        config = load_config(id_or_path, where)
        self.family: str = config.model_type
        loader = _loader(id_or_path, config, task)
        self._model = _load_model(loader, id_or_path, where, self._dtype, self._device, purpose)
        prepared: dict[str, Any] = {}
        if original_blip:
            if self.family != "blip":
                raise UsageError(
                    f"{id_or_path!r} is a model of type {self.family!r}; only BLIP has an original code here"
                )
            side = {"height": BLIP_PX, "width": BLIP_PX}
            prepared = {"size": side, "resample": 3, "image_mean": CLIP_MEAN, "image_std": CLIP_STD}
            prepared |= {"do_resize": True, "do_rescale": True, "do_normalize": True}
        self._images = _ImageProcessor(_load_image_processor(id_or_path, where | prepared))
        self._processor, self._tokenizer = _load_processor(id_or_path, config, self._images, where)
        if original_blip:  # the last of the vocabulary, which the tokenizer's own files may lack
            known = self._tokenizer.get_vocab().get("[ENC]")
            self._encoder_token = int(config.text_config.vocab_size) - 1 if known is None else int(known)
        self.chat = self.family not in _PLAIN and bool(getattr(self._processor, "chat_template", None))
        self._image_token: int | None = getattr(config, "image_token_id", getattr(config, "image_token_index", None))
        self._words = {word: _tokens_of_word(self._tokenizer, word) for word in ("yes", "no")}
        self.says_yes_and_no = all(self._words.values())
        self._end = _end_tokens(self._model, self._tokenizer)
        self.shares_vision = True
        self.source = source_name(id_or_path)
        self.identity = identity(self._model, id_or_path)
        if self.chat and Path(id_or_path).is_dir():  # whose template lies in a file that its hash may not cover
            self.identity = content_hash([self.identity, self._processor.chat_template])[:12]

    def replies(
        self,
        images: Sequence[LoadedImage],
        asks: Callable[[LoadedImage], Sequence[Ask]],
        *,
        beams: int = 1,
        max_new_tokens: int = 20,
        generation: Mapping[str, float] | None = None,
    ) -> list[list[Reply]]:
        """The replies to all texts about all images, without sampling.

        Args:
            images: RGB uint8, of any size.
            asks: the texts for an image.
            beams: of the search; 1 takes the most probable token each time.
            max_new_tokens: length of a reply.
            generation: further settings of ``generate`` for the replies, in place of the checkpoint's own.
        Returns:
            Per image, in order, a reply per text.
        """
        import torch

        def prepare(item: _Item) -> Mapping[str, torch.Tensor]:
            vision, item.texts = self._encode(item.pixels, [ask.text for ask in item.asks])
            return vision

        def answer(items: Sequence[_Item], vision: dict[str, torch.Tensor]) -> list[list[Reply]]:
            vision = {k: v.to(self._dtype) if v.is_floating_point() else v for k, v in vision.items()}
            pairs = [
                _Pair(image=i, ask=ask, text=text)
                for i, item in enumerate(items)
                for ask, text in zip(item.asks, item.texts, strict=True)
            ]
            options = {**(generation or {}), "num_beams": beams, "max_new_tokens": max_new_tokens}
            shared = _SHARED.get(self.family, ()) if self.shares_vision else ()
            with _vision_once(self._model, shared, vision) as show:
                result = iter(self._answer(pairs, vision, show, options))
            return [[next(result) for _ in item.asks] for item in items]

        def step(items: Sequence[_Item], vision: dict[str, torch.Tensor]) -> list[list[Reply]]:
            while True:
                try:
                    return answer(items, vision)
                except torch.OutOfMemoryError:
                    # Fewer texts at once, for good; several images are shared out anew by whoever called.
                    single = self._texts_at_once == 1
                    self._texts_at_once = max(1, self._texts_at_once // 2)
                    if single or len(items) > 1:
                        raise
                torch.cuda.empty_cache()

        every = [_Item(pixels=image.pixels, asks=tuple(asks(image))) for image in images]
        result = iter(self._batches.run([item for item in every if item.asks], prepare, step))
        return [next(result) if item.asks else [] for item in every]

    # ---------------------------------------------------------------------------------------------------- inputs
    def _encode(
        self, pixels: np.ndarray, texts: Sequence[str]
    ) -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
        """The network inputs of an image, and those of each text about it."""
        from PIL import Image

        # As a Pillow image: from an array, an image three pixels high would be taken for channels first.
        image = Image.fromarray(np.ascontiguousarray(pixels))
        self._images.forget()
        if self._processor is None:
            return dict(self._images([image], return_tensors="pt")), [{} for _ in texts]
        vision: dict[str, torch.Tensor] = {}
        prepared = []
        for text in texts:
            # BLIP and GIT write a caption without being asked; the others have their place for the image in the text.
            silent = not text and self.family in ("blip", "git")
            wording = None if silent else self._wording(text)
            try:
                batch = self._processor(images=[image], text=wording, return_tensors="pt")
            except ValueError as err:  # some processors count the places for images themselves
                raise UsageError(f"{self._no_place()} The processor says: {' '.join(str(err).split())[:300]}") from err
            vision = {name: batch[name] for name in batch if name in self._images.names}
            prepared.append({name: batch[name] for name in batch if name not in vision})
        for inputs in prepared:
            self._check_text(inputs)
        return vision, prepared

    def _wording(self, text: str) -> str:
        if not self.chat:
            return text
        content = [{"type": "image"}, *([{"type": "text", "text": text}] if text else [])]
        wording: str = self._processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return wording

    def _check_text(self, inputs: dict[str, torch.Tensor]) -> None:
        """Fit a text's inputs to the model.

        Raises:
            UsageError: the text has no place for the image, which would be ignored.
        """
        import torch

        ids = inputs.get("input_ids")
        if self._encoder_token is not None and ids is not None:
            for name in inputs:
                if inputs[name].shape[1] > BLIP_TOKENS:  # cut before the token that ends it
                    inputs[name] = torch.cat([inputs[name][:, : BLIP_TOKENS - 1], inputs[name][:, -1:]], dim=1)
            inputs["input_ids"] = inputs["input_ids"].clone()
            inputs["input_ids"][:, 0] = self._encoder_token
            ids = inputs["input_ids"]
        if self.family == "git" and ids is not None:
            # A text to go on with must not be closed by [SEP], at which GIT ends its sentences.
            for name in inputs:
                inputs[name] = inputs[name][:, :-1]
        if self._image_token is not None and ids is not None and not bool((ids == self._image_token).any()):
            raise UsageError(self._no_place())

    def _no_place(self) -> str:
        return (
            f"{self.source!r} ({self.family}) marks the image's place in a text by a token of its own, and it has to "
            "stand there once. It does not: the checkpoint has neither a chat template nor a processor that sees to "
            "it, or the text has the token already. Write it into the prompt (often '<image>'), or add the chat "
            "template of the model the checkpoint was made from."
        )

    # --------------------------------------------------------------------------------------------------- answers
    def _answer(
        self,
        pairs: Sequence[_Pair],
        vision: Mapping[str, torch.Tensor],
        show: Callable[[torch.Tensor], None],
        options: Mapping[str, float],
    ) -> list[Reply]:
        texts: list[str] = [""] * len(pairs)
        words: dict[str, list[float | None]] = {word: [None] * len(pairs) for word in self._words}
        strings: list[tuple[tuple[int, float], ...]] = [()] * len(pairs)
        for part in self._parts(pairs, range(len(pairs))):
            recorder = _Recorder()
            output = self._generate([pairs[i] for i in part], vision, show, recorder, **options)
            for i, tokens in zip(part, output.sequences[:, recorder.start :], strict=True):
                texts[i] = str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()
            first = output.logits[0][:: int(options["num_beams"])].double().softmax(-1)
            for row, i in enumerate(part):
                tokens_of_strings = [self._first_token(string) for string in pairs[i].ask.strings]
                strings[i] = tuple((token, float(first[row, token])) for token in tokens_of_strings)
            for word, tokens_of_word in self._words.items():
                if tokens_of_word:
                    for i, value in zip(part, first[:, tokens_of_word].sum(-1).tolist(), strict=True):
                        words[word][i] = value
        candidates = self._candidates(pairs, vision, show)
        columns = zip(texts, words["yes"], words["no"], candidates, strings, strict=True)
        return [Reply(*result) for result in columns]

    def _first_token(self, string: str) -> int:
        """The first token of a text in the middle of a reply.

        Raises:
            UsageError: the tokenizer makes nothing of it.
        """
        tokens = self._tokenizer(string, add_special_tokens=False)["input_ids"]
        if not tokens:
            raise UsageError(f"{self.source!r}: its tokenizer makes no token of {string!r}")
        return int(tokens[0])

    def _candidates(
        self,
        pairs: Sequence[_Pair],
        vision: Mapping[str, torch.Tensor],
        show: Callable[[torch.Tensor], None],
    ) -> list[tuple[float, ...]]:
        """Per pair and candidate, the probability that the reply is one of its spellings and ends there."""
        asked: list[tuple[int, int, tuple[int, ...]]] = []  # pair, candidate, tokens
        for i, pair in enumerate(pairs):
            for k, spellings in enumerate(pair.ask.candidates):
                asked += [(i, k, tokens) for tokens in self._spelled(spellings)]
        sums = [[0.0] * len(pair.ask.candidates) for pair in pairs]
        repeated = [pairs[i] for i, _, _ in asked]
        for part in self._parts(repeated, range(len(asked))):
            targets = [asked[j][2] for j in part]
            force = _Forced(targets, self._end[0])
            output = self._generate(
                [repeated[j] for j in part], vision, show, force, num_beams=1, max_new_tokens=force.length
            )
            collected = [logits.double().log_softmax(-1) for logits in output.logits]
            for row, j in enumerate(part):
                i, k, tokens = asked[j]
                value = sum(float(collected[t][row, token]) for t, token in enumerate(tokens))
                value += float(collected[len(tokens)][row, self._end].logsumexp(-1))
                sums[i][k] += math.exp(value)
        return [tuple(values) for values in sums]

    def _spelled(self, spellings: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each spelling, with and without a space before it, each sequence once."""
        results: dict[tuple[int, ...], None] = {}
        for spelling in spellings:
            for text in (spelling, f" {spelling}"):
                tokens = tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])
                if tokens:
                    results[tokens] = None
        return list(results)

    def _parts(self, pairs: Sequence[_Pair], numbers: Sequence[int]) -> Iterator[list[int]]:
        """Numbers of pairs whose texts have equal shapes, at most a batch at a time."""
        groups: dict[tuple[tuple[str, tuple[int, ...]], ...], list[int]] = {}
        for i in numbers:
            shapes = tuple((name, tuple(value.shape)) for name, value in pairs[i].text.items())
            groups.setdefault(shapes, []).append(i)
        for members in groups.values():
            for start in range(0, len(members), self._texts_at_once):
                yield members[start : start + self._texts_at_once]

    def _generate(
        self,
        pairs: Sequence[_Pair],
        vision: Mapping[str, torch.Tensor],
        show: Callable[[torch.Tensor], None],
        processor: Any,
        **options: float,
    ) -> Any:
        import torch

        rows = torch.tensor([pair.image for pair in pairs], device=self._device)
        show(rows)
        # Stacked by image; its own first axis, if the model packs images of different sizes, is joined again.
        shown = {name: value[rows].flatten(0, 1) for name, value in vision.items()}
        asked = {name: torch.cat([pair.text[name] for pair in pairs]).to(self._device) for name in pairs[0].text}
        positions = {} if self._encoder_token is None else {"interpolate_pos_encoding": True}
        return self._model.generate(
            **shown,
            **asked,
            **options,
            **positions,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            logits_processor=[processor],
        )


@dataclass(eq=False)
class _Item:
    """An image and the texts about it; ``texts``: their network inputs, once they are prepared."""

    pixels: np.ndarray
    asks: tuple[Ask, ...]
    texts: Sequence[dict[str, torch.Tensor]] = ()


@dataclass(frozen=True)
class _Pair:
    """One text about one image of a batch."""

    image: int
    ask: Ask
    text: dict[str, torch.Tensor]


class _Recorder:
    """Notes how many tokens the decoder had before its first own: these are the prompt, where it repeats it."""

    def __init__(self) -> None:
        self.start = -1

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.start < 0:
            self.start = input_ids.shape[1]
        return scores


class _Forced:
    """Makes the decoder write given tokens, so that its own probabilities of them can be read from its outputs."""

    def __init__(self, targets: Sequence[Sequence[int]], end: int) -> None:
        self.length = max(map(len, targets)) + 1
        self._targets = [[*target, *[end] * (self.length - len(target))] for target in targets]
        self._steps = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        import torch

        forced = torch.full_like(scores, -torch.inf)
        tokens = torch.tensor([target[self._steps] for target in self._targets], device=scores.device)
        forced[torch.arange(len(tokens), device=scores.device), tokens] = 0
        self._steps += 1
        return forced


@contextmanager
def _vision_once(
    model: Any, shared: Sequence[str], vision: Mapping[str, torch.Tensor]
) -> Iterator[Callable[[torch.Tensor], None]]:
    """Let a model look at each image of a batch once, however many texts there are about it.

    Within the context, the parts named by ``shared``, see ``_SHARED``, hand out rows of what they made of each image
    before. The function the context gives says which image each row of the next call is of. Without such parts,
    every batch of texts looks again.
    """
    rows: list[torch.Tensor] = []

    def show(wanted: torch.Tensor) -> None:
        rows[:] = [wanted]

    parts = [model.get_submodule(path) for path in shared]
    for number, part in enumerate(parts):
        part.forward = _tower_once(part.forward, vision, rows) if number == 0 else _part_once(part.forward, rows)
    try:
        yield show
    finally:
        for part in parts:
            del part.forward  # the class's own shows again


def _tower_once(
    own_values: Callable[..., Any], vision: Mapping[str, torch.Tensor], rows: Sequence[torch.Tensor]
) -> Callable[..., Any]:
    """A vision network's ``forward`` that computes the whole batch at its first call and then hands out its rows.

    Args:
        vision: the network inputs, stacked by image; ``image_grid_thw`` where images are packed patch by patch.
        rows: its one element is the image of each text of the call under way.
    """
    pixels = vision["pixel_values"]
    packed = {"grid_thw": vision["image_grid_thw"].flatten(0, 1)} if "image_grid_thw" in vision else {}
    results: dict[str, Any] = {}

    def forward(pixel_values: torch.Tensor, *given: Any, **options: Any) -> Any:
        # A search with beams may repeat the rows of each text.
        repeats, rest = divmod(len(pixel_values), pixels.shape[1] * len(rows[0]))
        plain = {name: value for name, value in options.items() if name not in packed}
        if rest or not repeats or (given and not packed):
            return own_values(pixel_values, *given, **options)
        key = repr(sorted(plain.items()))
        if key not in results:
            results[key] = own_values(pixels.flatten(0, 1), **packed, **plain)
        return _take_rows(results[key], rows[0].repeat_interleave(repeats), images=len(pixels))

    return forward


def _part_once(own_values: Callable[..., Any], rows: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The ``forward`` of a part between vision and text that is computed once for each image, when it is first met.

    Its tensors have a row per text of the call under way, all its inputs follow from the image.
    """
    import torch

    kept: list[Any] = []  # one output, of the images met so far
    position: dict[int, int] = {}  # of each of them: its row there

    def forward(*given: Any, **options: Any) -> Any:
        images = rows[0].tolist()
        new = {image: row for row, image in enumerate(images) if image not in position}
        if new:
            some = torch.tensor(list(new.values()), device=rows[0].device)
            made = own_values(
                *[_take_rows(value, some) for value in given],
                **{name: _take_rows(value, some) for name, value in options.items()},
            )
            position.update({image: len(position) + i for i, image in enumerate(new)})
            kept[:] = [_joined(kept[0], made) if kept else made]
        return _take_rows(kept[0], torch.tensor([position[p] for p in images], device=rows[0].device))

    return forward


def _take_rows(value: Any, rows: torch.Tensor, images: int | None = None) -> Any:
    """Rows of every tensor of a network's output, in the same structure; what is no tensor stays as it is.

    Args:
        images: how many images the first axis of each tensor is made of, if that is not one row each.
    """
    import torch

    if isinstance(value, torch.Tensor):
        if images is None or len(value) == images:
            return value[rows]
        return value.reshape(images, -1, *value.shape[1:])[rows].flatten(0, 1)
    if isinstance(value, Mapping):
        return type(value)(**{name: _take_rows(part, rows, images) for name, part in value.items()})
    if isinstance(value, tuple | list):
        return type(value)(_take_rows(part, rows, images) for part in value)
    return value


def _joined(first: Any, second: Any) -> Any:
    """Two outputs of one network as one, row after row."""
    import torch

    if isinstance(first, torch.Tensor):
        return torch.cat([first, second])
    if isinstance(first, Mapping):
        return type(first)(**{name: _joined(part, second[name]) for name, part in first.items()})
    if isinstance(first, tuple | list):
        return type(first)(_joined(a, b) for a, b in zip(first, second, strict=True))
    return first


# --------------------------------------------------------------------------------------------------------------------
# Loading
# --------------------------------------------------------------------------------------------------------------------
class _ImageProcessor:
    """An image processor that prepares an image once for all texts about it."""

    def __init__(self, processor: Any) -> None:
        self.own = processor
        self._kept: dict[str, Any] | None = None
        self.names: tuple[str, ...] = ()

    def forget(self) -> None:
        """The next image is another one."""
        self._kept = None

    def __call__(self, images: Any, **options: Any) -> Any:
        from transformers import BatchFeature

        if self._kept is None:
            self._kept = dict(self.own(images, **{**options, "return_tensors": "pt"}))
            self.names = tuple(self._kept)
        return BatchFeature(dict(self._kept))

    def __getattr__(self, name: str) -> Any:
        if name == "own":  # asked for before it is set: by whoever copies the object
            raise AttributeError(name)
        return getattr(self.own, name)


def _loader(id_or_path: str, config: Any, task: Task) -> Any:
    """The class that loads a model for a task.

    Raises:
        UsageError: it has none.
    """
    import transformers
    from transformers.models.auto import modeling_auto

    answers = "BlipForQuestionAnswering" in (config.architectures or ())
    if config.model_type == "blip":
        if answers != (task == "answers"):
            made, option = ("answers", "--vqa") if answers else ("captions", "--captioner")
            raise UsageError(
                f"{id_or_path!r} is a BLIP that writes {made} only: name it as {option}, or take another one"
            )
        return transformers.BlipForQuestionAnswering if answers else transformers.BlipForConditionalGeneration
    if config.model_type == "vision-encoder-decoder" and task == "answers":
        raise UsageError(f"{id_or_path!r} is a captioner that reads no questions; name it as --captioner")
    if config.model_type not in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise UsageError(
            f"{id_or_path!r} is a model of type {config.model_type!r}, which writes no text about images. Wanted is, "
            "for example, BLIP, BLIP-2, InstructBLIP, GIT, LLaVA or Qwen-VL."
        )
    return transformers.AutoModelForImageTextToText


def _load_model(
    loader: Any, id_or_path: str, hub: Mapping[str, Any], dtype: torch.dtype, device: torch.device, purpose: str
) -> Any:
    try:
        model, loading_info = loader.from_pretrained(id_or_path, dtype=dtype, output_loading_info=True, **hub)
    except (OSError, ValueError, ImportError) as err:
        raise UsageError(f"cannot load the weights of {id_or_path!r}: {' '.join(str(err).split())[:400]}") from err
    # transformers fills what is missing with random numbers and only logs it; replies would be noise that looks real.
    missing = sorted(key for key in loading_info["missing_keys"] if not key.endswith(_DERIVED))
    mismatched = sorted(str(key) for key in loading_info["mismatched_keys"])
    if missing or mismatched:
        raise UsageError(
            f"the weights of {id_or_path!r} are incomplete: {len(missing)} missing ({', '.join(missing[:5])}), "
            f"{len(mismatched)} of another shape ({', '.join(mismatched[:5])}). Use a checkpoint trained as {purpose}."
        )
    return model.to(device).eval()


def _load_image_processor(id_or_path: str, hub: Mapping[str, Any]) -> Any:
    from transformers import AutoImageProcessor
    from transformers.image_processing_backends import PilBackend

    auto: Any = AutoImageProcessor  # not annotated in every version
    why = "it exists for torchvision only"
    try:
        processor = auto.from_pretrained(id_or_path, backend="pil", **hub)
    except (OSError, ValueError, ImportError) as err:
        processor, why = None, " ".join(str(err).split())[:300]
    if not isinstance(processor, PilBackend):
        raise UsageError(f"{id_or_path!r} has no image processor that works without torchvision: {why}")
    return processor


def _load_processor(id_or_path: str, config: Any, images: Any, hub: Mapping[str, Any]) -> tuple[Any, Any]:
    """The processor with our image processor in it, None if the model reads no text; and its tokenizer."""
    from transformers import AutoProcessor, AutoTokenizer

    if config.model_type == "vision-encoder-decoder":
        return None, AutoTokenizer.from_pretrained(id_or_path, **hub)
    try:
        try:
            processor = AutoProcessor.from_pretrained(id_or_path, **hub)
        except ImportError:
            processor = _without_video(id_or_path, config, images.own, hub)
    except (OSError, ValueError, TypeError, ImportError) as err:
        raise UsageError(f"cannot load the processor of {id_or_path!r}: {' '.join(str(err).split())[:400]}") from err
    if not hasattr(processor, "tokenizer"):
        raise UsageError(f"{id_or_path!r} comes without a processor for images and texts; add its files")
    processor.image_processor = images
    # Older checkpoints of the BLIP-2 family do not say how many places the image takes; the text would have none.
    if getattr(processor, "num_query_tokens", 0) is None:
        processor.num_query_tokens = config.num_query_tokens
    if getattr(processor, "chat_template", None) is None and hasattr(processor, "chat_template"):
        processor.chat_template = getattr(processor.tokenizer, "chat_template", None)
    return processor, processor.tokenizer


def _without_video(id_or_path: str, config: Any, images: Any, hub: Mapping[str, Any]) -> Any:
    """A processor for images and texts where the checkpoint's own cannot be made for want of one for videos."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    name = PROCESSOR_MAPPING_NAMES.get(config.model_type)
    base: Any = getattr(transformers, str(name), None)
    if base is None or "video_processor" not in base.get_attributes():
        raise UsageError(f"{id_or_path!r} ({config.model_type}) prepares images with torchvision only")

    class ImagesOnly(base):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument_name in ("image_processor", "video_processor"):
                return type(argument)
            return super().check_argument_for_proper_class(argument_name, argument)

    parts = {
        "image_processor": images,
        "tokenizer": transformers.AutoTokenizer.from_pretrained(id_or_path, **hub),
        "video_processor": None,
    }
    unknown = [part for part in base.get_attributes() if part not in parts]
    if unknown:
        raise UsageError(f"{id_or_path!r} ({config.model_type}) needs {unknown} beside images and texts")
    settings, _ = base.get_processor_dict(id_or_path, **hub)
    return ImagesOnly.from_args_and_dict([parts[part] for part in base.get_attributes()], settings)


def _tokens_of_word(tokenizer: Any, word: str) -> list[int]:
    """All tokens that are exactly this word, in any case, with or without the space before it."""
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    return sorted(i for token, i in vocabulary.items() if token.lstrip(_WORD_MARKS).lower() == word)


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The tokens at which the model ends a reply."""
    if model.config.model_type == "blip":  # it is told so at every call
        return [int(model.config.text_config.sep_token_id)]
    for part in (getattr(model, "language_model", None), model):
        ends = getattr(getattr(part, "generation_config", None), "eos_token_id", None)
        if ends is not None:
            return [int(end) for end in (ends if isinstance(ends, list | tuple) else [ends])]
    return [int(tokenizer.eos_token_id)]
