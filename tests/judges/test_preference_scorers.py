"""Scorers of preference: networks of random weights in the published layouts, against the published arithmetic."""

import math

import numpy as np
import pytest
import torch
from tiny_models import LETTERS, tiny_clip
from tiny_vision_language import WORDS, qwen2_vl
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from torch.nn import functional
from transformers import AutoTokenizer, CLIPTokenizer, PreTrainedTokenizerFast

from verism.errors import UsageError
from verism.judges.preference.hps import hps_input, hpsv2, hpsv2_1
from verism.judges.preference.hpsv3 import REWARD, Hpsv3, hpsv3_size, read_wording
from verism.judges.preference.imagereward import CENTRE, DEVIATION, ImageReward, imagereward_input
from verism.judges.preference.pickscore import PickScore
from verism.judges.preference.results import PreferenceResults
from verism.judges.preference.scoring import TextTokens
from verism.records import LoadedImage, PreferenceNeed

TEXTS = {"p0": "a red cat", "p1": "dog", "p2": "a red cat"}
NEED = PreferenceNeed(texts=TEXTS)


def images(shapes=((40, 36), (36, 40), (64, 64))):
    rng = np.random.default_rng(0)
    return [
        LoadedImage(image_id=f"p{n}#0", prompt_id=f"p{n}", pixels=rng.integers(0, 256, (*shape, 3), dtype=np.uint8))
        for n, shape in enumerate(shapes)
    ]


def scores(judge, seen=None):
    table = judge.observe(images() if seen is None else seen, NEED)
    assert table["judge"].unique().to_list() == [judge.name]
    return table["score"].to_list()


# --------------------------------------------------------------------------------------------------- HPS, as open_clip
class Block(nn.Module):
    """A block of open_clip, by its names."""

    def __init__(self, width, heads=16):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(width, 2 * width))
        self.mlp.add_module("gelu", nn.GELU())
        self.mlp.add_module("c_proj", nn.Linear(2 * width, width))

    def forward(self, x, mask=None):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Blocks(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.resblocks = nn.ModuleList(Block(width) for _ in range(n))

    def forward(self, x, mask=None):
        for block in self.resblocks:
            x = block(x, mask)
        return x


class OpenClipVision(nn.Module):
    def __init__(self, width, patch, side, out):
        super().__init__()
        self.class_embedding = nn.Parameter(torch.randn(width))
        self.positional_embedding = nn.Parameter(torch.randn((side // patch) ** 2 + 1, width))
        self.proj = nn.Parameter(torch.randn(width, out))
        self.conv1 = nn.Conv2d(3, width, patch, patch, bias=False)
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = Blocks(width, 2)

    def forward(self, x):
        x = self.conv1(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], dim=1) + self.positional_embedding
        return self.ln_post(self.transformer(self.ln_pre(x))[:, 0]) @ self.proj


class OpenClip(nn.Module):
    """What open_clip's CLIP computes, written from its description, by the names of its state dictionary."""

    def __init__(self, words, length=77, width=32, out=8):
        super().__init__()
        self.visual = OpenClipVision(48, 8, 32, out)
        self.token_embedding = nn.Embedding(words, width)
        self.positional_embedding = nn.Parameter(torch.randn(length, width))
        self.transformer = Blocks(width, 3)
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, out))
        self.logit_scale = nn.Parameter(torch.tensor(4.6))

    def text(self, ids):
        mask = torch.full((ids.shape[1], ids.shape[1]), -math.inf).triu(1)
        x = self.transformer(self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]], mask)
        return self.ln_final(x)[torch.arange(len(ids)), ids.argmax(dim=-1)] @ self.text_projection


@pytest.fixture
def hps(tmp_path):
    """Weights under ``state_dict``, as published, a tokenizer beside them, and the network."""
    torch.manual_seed(0)
    folder = tiny_clip(tmp_path / "clip")
    words = CLIPTokenizer.from_pretrained(folder)
    words.save_pretrained(tmp_path)
    network = OpenClip(len(words)).eval()
    torch.save({"epoch": 1, "state_dict": network.state_dict()}, tmp_path / "HPS_v2.1_compressed.pt")
    return tmp_path / "HPS_v2.1_compressed.pt", network, words


def test_hps_score_is_that_of_open_clips_network(hps):
    path, network, words = hps
    judge = hpsv2_1(path)
    expected = []
    for image in images():
        ids = words([TEXTS[image.prompt_id]], return_tensors="pt")["input_ids"]
        filled = functional.pad(ids, (0, 77 - ids.shape[1]))  # open_clip fills up with 0
        with torch.no_grad():
            pair = network.visual(hps_input(image.pixels, side=32)[None]), network.text(filled)
        expected.append(100 * float(functional.cosine_similarity(*pair)))
    assert scores(judge) == pytest.approx(expected, abs=1e-3)
    assert len({round(value, 2) for value in expected}) == 3
    assert "antialias=False" in judge.name


def test_hps_editions_and_smoothing_never_share_a_name(hps):
    path, _, _ = hps
    names = {hpsv2(path).name, hpsv2_1(path).name, hpsv2_1(path, antialias=True).name}
    assert len(names) == 3
    assert {name.partition(":")[0] for name in names} == {"hpsv2", "hpsv2.1"}
    assert scores(hpsv2_1(path)) != scores(hpsv2_1(path, antialias=True))


def test_hps_weights_that_are_missing_or_too_many_are_refused(hps):
    path, network, _ = hps
    weights = network.state_dict()
    torch.save({k: v for k, v in weights.items() if k != "visual.transformer.resblocks.1.ln_2.bias"}, path)
    with pytest.raises(UsageError, match=r"1 missing \(vision_model.encoder.layers.1.layer_norm2.bias\)"):
        hpsv2_1(path)
    torch.save(weights | {"head.weight": torch.zeros(2)}, path)
    with pytest.raises(UsageError, match=r"1 unknown \(head.weight\)"):
        hpsv2_1(path)
    torch.save(weights | {"visual.proj": torch.zeros(48, 9)}, path)
    with pytest.raises(UsageError, match="of another shape"):
        hpsv2_1(path)
    torch.save({"anything": 3}, path)
    with pytest.raises(UsageError, match="no dictionary of tensors"):
        hpsv2_1(path)


def test_hps_input_keeps_the_aspect_and_fills_with_black():
    pixels = np.full((30, 60, 3), 255, dtype=np.uint8)
    made = hps_input(pixels, side=20)
    mean, std = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
    black, white = -mean / std, (1 - mean) / std
    assert made.shape == (3, 20, 20)
    assert made[:, 0, 0].numpy() == pytest.approx(black, abs=1e-5)
    assert made[:, 4, 3].numpy() == pytest.approx(black, abs=1e-5)
    assert made[:, 5, 0].numpy() == pytest.approx(white, abs=1e-5)
    assert made[:, 14, 19].numpy() == pytest.approx(white, abs=1e-5)
    assert made[:, 15, 19].numpy() == pytest.approx(black, abs=1e-5)


def test_hps_input_smoothing_only_matters_where_images_shrink():
    small, large = (np.random.default_rng(1).integers(0, 256, (n, n, 3), dtype=np.uint8) for n in (10, 80))
    for pixels, differs in ((small, False), (large, True)):
        # torch's bicubic kernel is another one with smoothing, so enlarged images differ slightly.
        plain, smooth = (hps_input(pixels, side=20, antialias=each) for each in (False, True))
        assert (float((plain - smooth).abs().mean()) > 0.2) == differs


# --------------------------------------------------------------------------------------------------------- ImageReward
class Attention(nn.Module):
    def __init__(self, width, heads, seen=None):
        super().__init__()
        self.self = nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.self, name, nn.Linear(width if name == "query" else seen or width, width))
        self.output = nn.Module()
        self.output.dense, self.output.LayerNorm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.heads = heads

    def forward(self, x, seen=None):
        seen = x if seen is None else seen
        q, k, v = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, y in ((self.self.query, x), (self.self.key, seen), (self.self.value, seen))
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.output.LayerNorm(self.output.dense(mixed) + x)


class TextLayer(nn.Module):
    def __init__(self, width, seen):
        super().__init__()
        self.attention, self.crossattention = Attention(width, 12), Attention(width, 12, seen)
        self.intermediate, self.output = nn.Module(), nn.Module()
        self.intermediate.dense = nn.Linear(width, 2 * width)
        self.output.dense, self.output.LayerNorm = nn.Linear(2 * width, width), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, seen):
        x = self.crossattention(self.attention(x), seen)
        return self.output.LayerNorm(self.output.dense(functional.gelu(self.intermediate.dense(x))) + x)


class ReleasedReward(nn.Module):
    """What ImageReward computes, written from its description, by the names of its state dictionary."""

    def __init__(self, words, width=24, seen=32):
        super().__init__()
        vision = nn.Module()
        vision.cls_token = nn.Parameter(torch.randn(1, 1, seen))
        vision.pos_embed = nn.Parameter(torch.randn(1, 17, seen))
        vision.patch_embed = nn.Module()
        vision.patch_embed.proj = nn.Conv2d(3, seen, 8, 8)
        vision.norm = nn.LayerNorm(seen, eps=1e-6)
        vision.blocks = nn.ModuleList()
        for _ in range(2):
            block = nn.Module()
            block.norm1, block.norm2 = nn.LayerNorm(seen, eps=1e-6), nn.LayerNorm(seen, eps=1e-6)
            block.attn, block.mlp = nn.Module(), nn.Module()
            block.attn.qkv, block.attn.proj = nn.Linear(seen, 3 * seen), nn.Linear(seen, seen)
            block.mlp.fc1, block.mlp.fc2 = nn.Linear(seen, 2 * seen), nn.Linear(2 * seen, seen)
            vision.blocks.append(block)
        text = nn.Module()
        text.embeddings, text.encoder = nn.Module(), nn.Module()
        text.embeddings.word_embeddings = nn.Embedding(words, width)
        text.embeddings.position_embeddings = nn.Embedding(64, width)
        text.embeddings.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        text.embeddings.register_buffer("position_ids", torch.arange(64)[None])
        text.encoder.layer = nn.ModuleList(TextLayer(width, seen) for _ in range(2))
        self.blip = nn.Module()
        self.blip.visual_encoder, self.blip.text_encoder = vision, text
        self.mlp = nn.Module()
        drop = nn.Dropout(0.2)
        sizes = (width, 16, 8, 6, 4)
        first, second, third, fourth = (nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False))
        self.mlp.layers = nn.Sequential(first, drop, second, drop, third, drop, fourth, nn.Linear(4, 1))

    def forward(self, pixels, ids):
        vision, text = self.blip.visual_encoder, self.blip.text_encoder
        x = vision.patch_embed.proj(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([vision.cls_token, x], dim=1) + vision.pos_embed
        for block in vision.blocks:
            q, k, v = block.attn.qkv(block.norm1(x)).unflatten(-1, (3, 16, -1)).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = x + block.attn.proj(mixed)
            x = x + block.mlp.fc2(functional.gelu(block.mlp.fc1(block.norm2(x))))
        seen = vision.norm(x)
        places = torch.arange(ids.shape[1])
        y = text.embeddings.word_embeddings(ids) + text.embeddings.position_embeddings(places)
        y = text.embeddings.LayerNorm(y)
        for layer in text.encoder.layer:
            y = layer(y, seen)
        return (self.mlp.layers(y[:, 0])[:, 0] - CENTRE) / DEVIATION


def letters_of_bert(folder):
    """A tokenizer of letters between BERT's opening and closing tokens."""
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", " ", *LETTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    words = PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    words.save_pretrained(folder)
    return words


@pytest.fixture
def reward(tmp_path):
    torch.manual_seed(0)
    words = letters_of_bert(tmp_path)
    network = ReleasedReward(len(words)).eval()
    torch.save(network.state_dict(), tmp_path / "ImageReward.pt")
    return tmp_path / "ImageReward.pt", network, words


def test_imagereward_is_that_of_the_released_network(reward):
    path, network, words = reward
    expected = []
    for image in images():
        ids = words([TEXTS[image.prompt_id]], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected.append(float(network(torch.from_numpy(imagereward_input(image.pixels, side=32))[None], ids)))
    judge = ImageReward(path)
    assert scores(judge) == pytest.approx(expected, abs=1e-4)
    assert len({round(value, 4) for value in expected}) == 3


def test_imagereward_batches_do_not_change_a_score(reward):
    path, _, _ = reward
    judge = ImageReward(path)
    seen = images()
    assert scores(judge, seen) == pytest.approx([scores(judge, [image])[0] for image in seen], abs=1e-5)


def test_imagereward_cuts_prompts_at_35_tokens_and_says_so(reward):
    path, _, _ = reward
    judge = ImageReward(path)
    pixels = images()[0].pixels
    seen = [LoadedImage(image_id=i, prompt_id=i, pixels=pixels) for i in ("a", "b", "c")]
    need = PreferenceNeed(texts={"a": "x" * 33, "b": "x" * 33 + "y", "c": "x" * 60})
    with pytest.warns(UserWarning, match="cut to the 35 tokens"):
        table = judge.observe(seen, need)
    assert table["text_cut"].to_list() == [False, True, True]
    first, second, third = table["score"].to_list()
    assert first == second == third
    assert "2 prompt(s) were cut" in judge.summary()[0]


def test_imagereward_weights_that_do_not_fit_are_refused(reward):
    path, network, _ = reward
    weights = network.state_dict()
    for name, message in (
        ("blip.text_encoder.encoder.layer.1.crossattention.self.key.weight", "1 missing"),
        ("mlp.layers.6.bias", "the head of ImageReward"),
        ("blip.visual_encoder.blocks.0.attn.qkv.bias", "1 missing"),
    ):
        torch.save({k: v for k, v in weights.items() if k != name}, path)
        with pytest.raises(UsageError, match=message):
            ImageReward(path)
    torch.save(weights | {"blip.vision_proj.weight": torch.zeros(2)}, path)
    with pytest.raises(UsageError, match=r"ImageReward has not: blip.vision_proj.weight"):
        ImageReward(path)


def test_imagereward_input_is_the_middle_of_the_image():
    pixels = np.zeros((20, 60, 3), dtype=np.uint8)
    pixels[:, 20:40] = 255
    made = imagereward_input(pixels, side=20)
    assert made.shape == (3, 20, 20)
    assert made.min() == pytest.approx(made[:, 10, 10].min())  # nothing black is left


# --------------------------------------------------------------------------------------------------------------- HPSv3
WORDING = """
# of our own making, in the form of the released file
INSTRUCTION = \"\"\" describe {text_prompt} \"\"\"
prompt_with_special_token = " image <|Reward|> "
"""


@pytest.fixture
def hpsv3(tmp_path):
    """Weights under today's names, the base, and the instruction."""
    from transformers import Qwen2VLModel

    base = qwen2_vl(tmp_path / "base")
    torch.manual_seed(0)
    words = AutoTokenizer.from_pretrained(base)
    network = Qwen2VLModel.from_pretrained(base)
    network.resize_token_embeddings(len(words) + 1)
    head = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Dropout(0.05), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 2))
    wording = tmp_path / "data_collator_qwen.py"
    wording.write_text(WORDING, encoding="utf-8")
    body = {f"model.{name}": value for name, value in network.state_dict().items()}
    weights = {**body, **{f"rm_head.{name}": value for name, value in head.state_dict().items()}}
    return tmp_path / "HPSv3.safetensors", weights, base, wording, network.eval(), head.eval()


def save(path, weights):
    from safetensors.torch import save_file

    save_file({name: value.contiguous().clone() for name, value in weights.items()}, path)
    return path


def scorer_of(path, base, wording, **options):
    from verism.judges.hub import HubOptions

    return Hpsv3(path, base=str(base), wording=wording, pixels=32 * 32, hub=HubOptions(batch_size=2), **options)


def test_hpsv3_score_is_the_heads_first_number_at_the_reward_token(hpsv3):
    path, weights, base, wording, network, head = hpsv3
    judge = scorer_of(save(path, weights), base, wording)
    table = judge.observe(images(), NEED)
    words = AutoTokenizer.from_pretrained(base)
    words.add_special_tokens({"additional_special_tokens": [REWARD]}, replace_extra_special_tokens=False)
    for image, score, deviation in zip(images(), table["score"], table["deviation"], strict=True):
        inputs = judge._inputs((image, TEXTS[image.prompt_id]))
        ids = inputs["input_ids"].tolist()
        n_places = int(inputs["image_grid_thw"].prod()) // 4
        written = (
            f"USER :<|vision_start|>{'<|image_pad|>' * n_places}<|vision_end|>  describe {TEXTS[image.prompt_id]}  "
            f"image {REWARD}  ASSISTANT :"
        )
        assert ids == words([written])["input_ids"][0]
        # One image alone, the patches straight from the processor; the place of the token looked up by its text.
        with torch.no_grad():
            hidden = network(
                input_ids=torch.tensor([ids]),
                pixel_values=inputs["pixel_values"],
                image_grid_thw=inputs["image_grid_thw"][None],
                mm_token_type_ids=torch.tensor([[int(i == 0) for i in ids]]),
            ).last_hidden_state[0]
            mean, spread = head(hidden[ids.index(len(words) - 1)]).tolist()
        assert score == pytest.approx(mean, abs=1e-4)
        assert deviation == pytest.approx(spread, abs=1e-4)
    assert len({round(value, 4) for value in table["score"]}) == 3


@pytest.mark.parametrize("names", ["before 4.52", "with lm_head"])
def test_hpsv3_names_of_older_releases_give_the_same_scores(hpsv3, names):
    path, weights, base, wording, *_ = hpsv3
    expected = scores(scorer_of(save(path, weights), base, wording))
    older = {
        name.replace("model.visual.", "visual.").replace("model.language_model.", "model."): value
        for name, value in weights.items()
    }
    if names == "with lm_head":
        older["lm_head.weight"] = torch.zeros(4, 16)
    assert scores(scorer_of(save(path, older), base, wording)) == pytest.approx(expected, abs=1e-6)


def test_hpsv3_weights_that_do_not_fit_are_refused(hpsv3):
    path, weights, base, wording, *_ = hpsv3
    without = {k: v for k, v in weights.items() if k != "rm_head.5.bias"}
    with pytest.raises(UsageError, match=r"differing: \['5.bias'\]"):
        scorer_of(save(path, without), base, wording)
    name = next(k for k in weights if k.endswith("mlp.fc1.weight"))
    with pytest.raises(UsageError, match="1 missing"):
        scorer_of(save(path, {k: v for k, v in weights.items() if k != name}), base, wording)
    small = weights | {"model.language_model.embed_tokens.weight": torch.zeros(len(WORDS), 16)}
    with pytest.raises(UsageError, match=r"knows .* tokens"):
        scorer_of(save(path, small), base, wording)


def test_hpsv3_needs_the_instruction(hpsv3, tmp_path):
    path, weights, base, wording, *_ = hpsv3
    with pytest.raises(UsageError, match="wording=FILE"):
        Hpsv3(save(path, weights), base=str(base))
    assert read_wording(wording) == " describe {text_prompt}  image <|Reward|> "
    other = tmp_path / "other.py"
    other.write_text("INSTRUCTION = 'a'\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no text prompt_with_special_token"):
        read_wording(other)
    plain = tmp_path / "plain.txt"
    plain.write_text("rate {text_prompt}", encoding="utf-8")
    with pytest.raises(UsageError, match="once each"):
        read_wording(plain)


def test_hpsv3_prompt_cannot_bring_a_token_of_its_own(hpsv3):
    path, weights, base, wording, *_ = hpsv3
    judge = scorer_of(save(path, weights), base, wording)
    image = images()[0]
    table = judge.observe([image], PreferenceNeed(texts={"p0": f"a {REWARD} cat <|image_pad|>"}))
    assert table["score"].is_not_null().all()


@pytest.mark.parametrize(
    ("width", "height"), [(1024, 1024), (512, 512), (1920, 1080), (100, 300), (3000, 200), (448, 448)]
)
def test_hpsv3_size_is_that_of_the_released_resize(width, height):
    import sys

    from transformers import Qwen2VLImageProcessorPil

    module = sys.modules[Qwen2VLImageProcessorPil.__module__]
    expected = module.smart_resize(height, width, factor=28, min_pixels=200704, max_pixels=200704)
    assert hpsv3_size(width, height) == expected[::-1]


# ----------------------------------------------------------------------------------------------------------- all alike
def test_pickscore_scale_enters_the_score(tmp_path):
    from transformers import CLIPModel

    folder = tiny_clip(tmp_path / "a", dim=8)
    before = scores(PickScore(str(folder)))
    model = CLIPModel.from_pretrained(folder)
    model.logit_scale.data += math.log(2)
    model.save_pretrained(folder)
    assert scores(PickScore(str(folder))) == pytest.approx([2 * score for score in before], rel=1e-4)


def test_scores_that_are_not_finite_are_refused(tmp_path):
    from transformers import CLIPModel

    folder = tiny_clip(tmp_path / "a", dim=8)
    model = CLIPModel.from_pretrained(folder)
    model.logit_scale.data += 1000
    model.save_pretrained(folder)
    from verism.errors import VerismError

    with pytest.raises(VerismError, match="infinite or NaN"):
        scores(PickScore(str(folder)))


def test_texts_are_counted_as_cut_by_their_own_length(tmp_path):
    words = letters_of_bert(tmp_path)
    tokens = TextTokens(words, 5)
    assert tokens("abc")["input_ids"].tolist() == words("abc")["input_ids"]
    with pytest.warns(UserWarning, match="1 prompt"):
        assert tokens.note_cut(["abc", "abcd"]) == {"abcd"}
    assert tokens("abcd")["input_ids"].tolist() == [*words("abc")["input_ids"][:4], 3]


def test_results_find_images_by_the_names_of_their_files(tmp_path):
    file = tmp_path / "scores.jsonl"
    file.write_text('{"image": "p0.png", "score": 1.5}\n{"image": "p9.png", "score": 2}\n', encoding="utf-8")
    judge = PreferenceResults(file, scorer="mine 1")
    table = judge.observe(images(), NEED)
    assert table["score"].to_list() == [1.5, None, None]
    assert table["note"].to_list()[1] == "scores.jsonl has no score of this image"
    assert judge.name.endswith(" scorer=mine 1")
    assert judge.summary() == [
        "scores.jsonl: 1 of 2 scores belong to no image seen", "scores.jsonl: no score for 2 images"
    ]  # fmt: skip
