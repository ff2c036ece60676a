"""HPSv3: Qwen2-VL reads an instruction with the prompt, and a small head makes a mean and a deviation of one token.

verism run preference --images A --images-b B --prompts P.csv \\
    --scorer "hpsv3:HPSv3.safetensors?wording=data_collator_qwen.py&base=Qwen/Qwen2-VL-7B-Instruct"
"""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.files import read_text
from verism.judges.batching import EXTRA, Batches, content_id, judge_name, pick_device, pick_dtype
from verism.judges.hub import HubOptions, load_config, load_image_processor
from verism.judges.preference.scoring import Judged, ModelScorer, TextTokens, load_tokenizer
from verism.judges.preference.weights import build, missing_file, nested_tensors

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["PIXELS", "REWARD", "Hpsv3", "hpsv3_size", "read_wording"]

REWARD = "<|Reward|>"
FACTOR = 28  # an image's sides are multiples of it: patches of 14, merged two by two
PIXELS = 256 * FACTOR * FACTOR  # of every image, whatever its size
BASE = "Qwen/Qwen2-VL-7B-Instruct"
HEAD = (0, 3, 5)  # of the head: linear, ReLU, dropout, linear, ReLU, linear
IMAGE = "<|image_pad|>"
PARTS = ("INSTRUCTION", "prompt_with_special_token")
LONGEST = 4096  # tokens of a prompt with its image; longer ones are no prompts


def read_wording(path: Path) -> str:
    """The instruction that HPSv3 was trained with, ``{text_prompt}`` standing for the prompt.

    Args:
        path: your copy of the released ``hpsv3/dataset/data_collator_qwen.py``, of which the texts ``INSTRUCTION`` and
            ``prompt_with_special_token`` are read and nothing is run; or a text file with the whole instruction.

    Raises:
        UsageError: no such file, or no such texts in it.
    """
    text = read_text(path, "the instruction of HPSv3")
    if path.suffix == ".py":
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
            raise UsageError(f"{path}: no Python source ({err})") from None
        found = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if missing := [name for name in PARTS if name not in found]:
            raise UsageError(f"{path}: no text {' and no text '.join(missing)}; give HPSv3's data_collator_qwen.py")
        text = "".join(found[name] for name in PARTS)
    if text.count("{text_prompt}") != 1 or text.count(REWARD) != 1:
        raise UsageError(f"{path}: an instruction holds {{text_prompt}} and {REWARD} once each")
    return text


class Hpsv3(ModelScorer):
    """The mean of the score, about -1 to 12 for the published weights, and its deviation.

    Every image is brought to about 200,704 pixels (256 x 28 x 28), bicubic with Pillow, its sides multiples of 28. The
    prompt stands in the instruction that the network was trained with; without it scores would be others, so it is read
    from your copy of the released file. In the released program a prompt is dropped where special tokens are turned
    off, by the order of an addition and a condition; here it never is.

    Args:
        path: ``HPSv3.safetensors``, with tensor names of any version of transformers.
        wording: your copy of the released ``hpsv3/dataset/data_collator_qwen.py``, which has the instruction HPSv3 was
            trained with; or a text file with that instruction. Required.
        base: Qwen2-VL, for its configuration, tokenizer and image processor: model id on the Hugging Face Hub, or a
            folder. Its weights are not read.
        pixels: pixels per image after resizing, at least 784. Other values than the default do not give published
            scores.
        hub: how it is run, and which edition of ``base``. The released program computes with ``bfloat16``.

    Raises:
        UsageError: no such file, weights that are missing or too many, no instruction, or a base that is no Qwen2-VL.
        MissingExtra: ``torch`` or ``transformers`` is not installed.

    Source: Ma et al. 2025, arXiv:2508.03789.
    """

    def __init__(
        self,
        path: Path,
        *,
        wording: Path | None = None,
        base: str = BASE,
        pixels: int = PIXELS,
        hub: HubOptions = HubOptions(dtype="bfloat16", batch_size=2),
    ) -> None:
        require("torch", extra=EXTRA, purpose="HPSv3")
        require("transformers", extra=EXTRA, purpose="HPSv3")
        missing_file(path, "hpsv3")
        if wording is None:
            raise UsageError(
                "hpsv3 needs the instruction it was trained with: wording=FILE, your copy of the released "
                "hpsv3/dataset/data_collator_qwen.py"
            )
        self._wording = read_wording(wording)
        where = hub.where(base)
        config = load_config(base, where)
        if config.model_type != "qwen2_vl":
            raise UsageError(f"hpsv3: base {base!r} is a model of type {config.model_type!r}, not Qwen2-VL")
        vision = config.vision_config
        self._merge = int(vision.spatial_merge_size)
        self._factor = int(vision.patch_size) * self._merge
        if pixels < self._factor**2:
            raise UsageError(f"hpsv3: pixels must be at least {self._factor**2}, not {pixels}")
        self._pixels = pixels
        self._device, self._dtype = pick_device(hub.device), pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        self._processor = load_image_processor(base, config, where)
        self._tokenizer = load_tokenizer(base, where)
        if not getattr(self._tokenizer, "chat_template", None):
            raise UsageError(f"hpsv3: the tokenizer of {base!r} has no chat template")
        self._tokenizer.add_special_tokens({"additional_special_tokens": [REWARD]}, replace_extra_special_tokens=False)
        self._reward = int(self._tokenizer.convert_tokens_to_ids(REWARD))
        self._image = int(config.image_token_id)
        self._texts = TextTokens(self._tokenizer, LONGEST)
        body, head = _renamed(nested_tensors(path, "model"), str(path))
        self._model = self._network(config, body, str(path))
        self._head = [(w.to(self._device).float(), b.to(self._device).float()) for w, b in head]
        if self._head[0][0].shape[1] != self._model.config.text_config.hidden_size:
            raise UsageError(f"{str(path)!r}: the head takes another size of vectors than the network gives")
        self.name = judge_name(
            "hpsv3",
            path.name,
            content_id(path),
            wording=hashlib.sha256(self._wording.encode()).hexdigest()[:12],
            pixels=None if pixels == PIXELS else pixels,
            dtype=hub.dtype,
        )

    def _network(self, config: Any, body: Mapping[str, torch.Tensor], source: str) -> Any:
        import torch
        from transformers import Qwen2VLModel
        from transformers.initialization import no_init_weights

        embedding = "language_model.embed_tokens.weight"
        if embedding not in body:
            raise UsageError(f"{source!r} holds no weights of HPSv3: there is no {embedding}")
        words = body[embedding].shape[0]
        if words <= self._reward:
            raise UsageError(f"{source!r} knows {words} tokens, and {REWARD} is number {self._reward} of the base's")
        config.text_config.vocab_size = words

        def make() -> Any:
            usual = torch.get_default_dtype()
            torch.set_default_dtype(self._dtype)
            try:
                with no_init_weights():  # random numbers for eight billion weights that are replaced take minutes
                    return Qwen2VLModel(config)
            finally:
                torch.set_default_dtype(usual)

        return build(make, body, source).to(self._device)

    def judge_pairs(self, images: Sequence[LoadedImage], texts: Sequence[str]) -> Sequence[Judged]:
        """Mean and deviation of the score of each image for its text.

        Args:
            images: N images.
            texts: the text of each.
        """
        return self._batches.run(list(zip(images, texts, strict=True)), self._inputs, self._step)

    def _inputs(self, pair: tuple[LoadedImage, str]) -> Mapping[str, torch.Tensor]:
        import torch
        from PIL import Image

        image, text = pair
        size = hpsv3_size(image.pixels.shape[1], image.pixels.shape[0], pixels=self._pixels, factor=self._factor)
        resized = Image.fromarray(np.ascontiguousarray(image.pixels)).resize(size, Image.Resampling.BICUBIC)
        seen = self._processor(images=[resized], do_resize=False, return_tensors="pt")
        asked = self._wording.replace("{text_prompt}", text.replace(REWARD, "").replace(IMAGE, ""))
        message = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": asked}]}]
        written = self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        n_places = int(seen["image_grid_thw"][0].prod()) // self._merge**2
        ids = self._tokenizer([written.replace(IMAGE, IMAGE * n_places)], return_tensors="pt")["input_ids"][0]
        if int((ids == self._reward).sum()) != 1 or int((ids == self._image).sum()) != n_places:
            raise UsageError(f"hpsv3: the chat template does not take the image and {REWARD} as single tokens")
        return {
            "input_ids": ids,
            "pixel_values": seen["pixel_values"],
            "image_grid_thw": torch.as_tensor(seen["image_grid_thw"])[0],
        }

    def _step(self, _: Sequence[tuple[LoadedImage, str]], inputs: dict[str, torch.Tensor]) -> list[Judged]:
        import torch

        ids = inputs["input_ids"]
        hidden = self._model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=inputs["pixel_values"].flatten(0, 1).to(self._dtype),
            image_grid_thw=inputs["image_grid_thw"],
            mm_token_type_ids=(ids == self._image).int(),
            use_cache=False,
        ).last_hidden_state
        values = hidden[ids == self._reward].float()
        for number, (weight, bias) in enumerate(self._head):
            values = torch.nn.functional.linear(values.relu() if number else values, weight, bias)
        # The second number stands as the network gives it: the released program reports it beside the mean.
        return [Judged(float(row[0]), float(row[1])) for row in values.cpu()]


def hpsv3_size(width: int, height: int, *, pixels: int = PIXELS, factor: int = FACTOR) -> tuple[int, int]:
    """Width and height of an image for HPSv3: multiples of a factor, about so many pixels, the aspect as far as kept.

    Args:
        width: of the image, pixels.
        height: of the image, pixels.
        pixels: least and largest number at once, as the released program asks: larger images are made smaller than it,
            smaller ones larger.
        factor: of which both sides are multiples.

    >>> hpsv3_size(1024, 1024), hpsv3_size(1024, 512), hpsv3_size(300, 300)
    ((448, 448), (616, 308), (448, 448))
    """
    rounded_h = max(factor, round(height / factor) * factor)
    rounded_w = max(factor, round(width / factor) * factor)
    if rounded_h * rounded_w == pixels:
        return rounded_w, rounded_h
    scale = math.sqrt(height * width / pixels)
    if rounded_h * rounded_w > pixels:
        to = math.floor
        return max(factor, to(width / scale / factor) * factor), max(factor, to(height / scale / factor) * factor)
    return math.ceil(width / scale / factor) * factor, math.ceil(height / scale / factor) * factor


def _renamed(
    weights: Mapping[str, torch.Tensor], source: str
) -> tuple[dict[str, torch.Tensor], list[tuple[torch.Tensor, torch.Tensor]]]:
    """Weights by the names of today's Qwen2-VL without its last layer, which is not used, and those of the head."""
    body: dict[str, torch.Tensor] = {}
    head: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        if name.startswith("rm_head."):
            head[name.removeprefix("rm_head.")] = value
        elif name.startswith("lm_head."):
            continue
        elif name.startswith("visual."):
            body[name] = value
        elif name.startswith(("model.visual.", "model.language_model.")):
            body[name.removeprefix("model.")] = value
        else:
            body["language_model." + name.removeprefix("model.")] = value
    wanted = {f"{number}.{kind}" for number in HEAD for kind in ("weight", "bias")}
    if set(head) != wanted:
        raise UsageError(f"{source!r}: the head of HPSv3 has {sorted(wanted)}; differing: {sorted(set(head) ^ wanted)}")
    layers = [(head[f"{number}.weight"], head[f"{number}.bias"]) for number in HEAD]
    if layers[-1][0].shape[0] != 2:
        raise UsageError(f"{source!r}: the head of HPSv3 gives two numbers, this one {layers[-1][0].shape[0]}")
    return body, layers
