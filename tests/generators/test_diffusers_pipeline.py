"""Text-to-image pipelines: small ones with random weights, made here, of each family whose call differs."""

from __future__ import annotations

import importlib
import json
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")
pytest.importorskip("transformers")

from verism.errors import UsageError, VerismError  # noqa: E402
from verism.generators.diffusers_pipeline import SCHEDULERS, DiffusersGenerator  # noqa: E402
from verism.generators.diffusers_pipeline._libraries import made_up, overheard  # noqa: E402
from verism.generators.diffusers_pipeline._parts import dtype_keyword, pick_dtype  # noqa: E402
from verism.options import build  # noqa: E402
from verism.records import Prompt, Request, Result  # noqa: E402

LETTERS = [chr(code) for code in range(33, 127)]
SIZE = {"width": 32, "height": 32}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


# --------------------------------------------------------------------------------------------------------------------
# Small pipelines
# --------------------------------------------------------------------------------------------------------------------
def clip_tokenizer() -> Any:
    """One token for each letter, and one at the start and the end."""
    from transformers import CLIPTokenizer

    tokens = [*LETTERS, *(f"{c}</w>" for c in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=[], model_max_length=77)


def t5_tokenizer() -> Any:
    """One token for each letter, one before each word, and one at the end."""
    from transformers import T5Tokenizer

    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), *((c, -3.0) for c in LETTERS)]
    return T5Tokenizer(vocab=vocab, extra_ids=0, model_max_length=512)


def clip_text_encoder(*, projection: bool = False) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    words = 2 * len(LETTERS) + 2
    config = CLIPTextConfig(
        vocab_size=words, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
        projection_dim=32, bos_token_id=words - 2, eos_token_id=words - 1, pad_token_id=1,
    )  # fmt: skip
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config).eval()


def t5_encoder() -> Any:
    from transformers import T5Config, T5EncoderModel

    words = 4 + len(LETTERS)
    return T5EncoderModel(T5Config(vocab_size=words, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4)).eval()


def unet(**changes: Any) -> Any:
    settings = {
        "block_out_channels": (16, 32), "layers_per_block": 1, "sample_size": 16, "in_channels": 4, "out_channels": 4,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "cross_attention_dim": 32, "norm_num_groups": 8,
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8,
    }  # fmt: skip
    return diffusers.UNet2DConditionModel(**settings | changes)


def vae(latent_channels: int = 4, **changes: Any) -> Any:
    return diffusers.AutoencoderKL(
        block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2, norm_num_groups=8, sample_size=32,
        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=latent_channels, **changes,
    )  # fmt: skip


def stable_diffusion(*, checker: bool = False, prudish: bool = False) -> Any:
    """``prudish``: the safety checker takes every image for unsafe."""
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig, CLIPImageProcessorPil

    safety = extractor = None
    if checker:
        tower = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1, "num_attention_heads": 4}
        eye = {**tower, "image_size": 30, "patch_size": 10, "projection_dim": 32}
        safety = StableDiffusionSafetyChecker(CLIPConfig(vision_config=eye, text_config=tower, projection_dim=32))
        # An image is unsafe if its cosine with a concept exceeds the concept's weight.
        safety.concept_embeds_weights.data.fill_(-2.0 if prudish else 2.0)
        safety.special_care_embeds_weights.data.fill_(2.0)
        extractor = CLIPImageProcessorPil(size={"shortest_edge": 30}, crop_size={"height": 30, "width": 30})
    return diffusers.StableDiffusionPipeline(
        vae=vae(), text_encoder=clip_text_encoder(), tokenizer=clip_tokenizer(), unet=unet(), safety_checker=safety,
        scheduler=diffusers.PNDMScheduler(skip_prk_steps=True, steps_offset=1, beta_end=0.012),
        feature_extractor=extractor, requires_safety_checker=checker,
    )  # fmt: skip


def stable_diffusion_xl() -> Any:
    denoiser = unet(
        cross_attention_dim=64, addition_embed_type="text_time", addition_time_embed_dim=8, attention_head_dim=(2, 4),
        projection_class_embeddings_input_dim=80, use_linear_projection=True, transformer_layers_per_block=(1, 2),
    )  # fmt: skip
    return diffusers.StableDiffusionXLPipeline(
        vae=vae(), text_encoder=clip_text_encoder(), text_encoder_2=clip_text_encoder(projection=True), unet=denoiser,
        tokenizer=clip_tokenizer(), tokenizer_2=clip_tokenizer(), scheduler=diffusers.EulerDiscreteScheduler(),
    )  # fmt: skip


def flux(*, guidance_embeds: bool = True) -> Any:
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8), guidance_embeds=guidance_embeds,
    )  # fmt: skip
    decoder = vae(1, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.06, scaling_factor=1.5)
    return diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(), vae=decoder, transformer=transformer,
        text_encoder=clip_text_encoder(), tokenizer=clip_tokenizer(), text_encoder_2=t5_encoder(),
        tokenizer_2=t5_tokenizer(),
    )  # fmt: skip


def pixart() -> Any:
    transformer = diffusers.PixArtTransformer2DModel(
        sample_size=8, num_layers=2, attention_head_dim=8, num_attention_heads=3, caption_channels=32, in_channels=4,
        cross_attention_dim=24, out_channels=8,
    )  # fmt: skip
    return diffusers.PixArtAlphaPipeline(
        tokenizer=t5_tokenizer(), text_encoder=t5_encoder(), vae=vae(), transformer=transformer,
        scheduler=diffusers.DPMSolverMultistepScheduler(),
    )  # fmt: skip


def qwen_image() -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

    # The byte alphabet of GPT-2: printable Latin-1 stands for itself, the other bytes for letters from U+0100 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in printable] + [chr(256 + k) for k in range(256 - len(printable))]
    words = [*letters, "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = Qwen2Tokenizer(vocab={t: i for i, t in enumerate(words)}, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    n = len(words)
    text = {
        "vocab_size": n + 8, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "rope_parameters": {"mrope_section": [1, 1, 2], "rope_type": "default", "rope_theta": 1e6},
        "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    eye = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=eye, vision_start_token_id=n, vision_end_token_id=n + 1,
                              vision_token_id=n + 2, image_token_id=n + 3, video_token_id=n + 4)  # fmt: skip
    transformer = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    decoder = diffusers.AutoencoderKLQwenImage(
        base_dim=24, z_dim=4, dim_mult=[1, 2, 4], num_res_blocks=1, temperal_downsample=[False, True],
        latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
    )  # fmt: skip
    return diffusers.QwenImagePipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(), vae=decoder, tokenizer=tokenizer,
        text_encoder=Qwen2_5_VLForConditionalGeneration(config).eval(), transformer=transformer,
    )  # fmt: skip


def unclip() -> Any:
    package = importlib.import_module("diffusers.pipelines.deprecated.unclip")
    decoder = unet(
        in_channels=3, out_channels=6, down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"), cross_attention_dim=16,
        mid_block_type="UNetMidBlock2DSimpleCrossAttn", attention_head_dim=4, resnet_time_scale_shift="scale_shift",
        class_embed_type="identity",
    )  # fmt: skip

    def enlarger() -> Any:
        return diffusers.UNet2DModel(
            sample_size=32, layers_per_block=1, down_block_types=("ResnetDownsampleBlock2D",) * 2, in_channels=6,
            up_block_types=("ResnetUpsampleBlock2D",) * 2, block_out_channels=(16, 32), norm_num_groups=8,
        )  # fmt: skip

    scheduler = diffusers.UnCLIPScheduler
    return package.UnCLIPPipeline(
        prior=diffusers.PriorTransformer(num_attention_heads=2, attention_head_dim=12, embedding_dim=32, num_layers=1),
        decoder=decoder, text_encoder=clip_text_encoder(projection=True), tokenizer=clip_tokenizer(),
        text_proj=package.UnCLIPTextProjModel(clip_embeddings_dim=32, time_embed_dim=64, cross_attention_dim=16),
        super_res_first=enlarger(), super_res_last=enlarger(),
        prior_scheduler=scheduler(variance_type="fixed_small_log", prediction_type="sample", clip_sample_range=5.0),
        decoder_scheduler=scheduler(variance_type="learned_range"),
        super_res_scheduler=scheduler(variance_type="fixed_small_log"),
    )  # fmt: skip


MAKERS: dict[str, Callable[[], Any]] = {
    "sd": stable_diffusion,
    "checked": lambda: stable_diffusion(checker=True),
    "prudish": lambda: stable_diffusion(checker=True, prudish=True),
    "sdxl": stable_diffusion_xl,
    "flux": flux,
    "schnell": lambda: flux(guidance_embeds=False),
    "pixart": pixart,
    "qwen": qwen_image,
    "unclip": unclip,
}
FEW = {"prior_num_inference_steps": 2, "super_res_num_inference_steps": 2}  # of UnCLIP's two other stages
FAMILIES: dict[str, dict[str, Any]] = {
    "sd": SIZE,
    "sdxl": SIZE,
    "flux": SIZE,
    "pixart": SIZE | {"use_resolution_binning": False},
    "qwen": SIZE,
    "unclip": FEW,
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Callable[[str], Path]:
    """Folders of saved pipelines by name, each made when first asked for."""
    root = tmp_path_factory.mktemp("pipelines")

    def saved(name: str) -> Path:
        if not (root / name).exists():
            torch.manual_seed(0)
            with overheard():
                MAKERS[name]().save_pretrained(root / name)
            if name == "unclip":  # as on the hub; as save_pretrained writes it is tested below
                index = json.loads((root / name / "model_index.json").read_text())
                index["text_proj"] = ["unclip", "UnCLIPTextProjModel"]
                (root / name / "model_index.json").write_text(json.dumps(index))
        return root / name

    return saved


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    """Machines with a GPU run these tests with the same numbers."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


TEXTS = ("a dog", "three red buses on a hill", "cat", "an old man with a hat", "x")


def requests(*texts: str, seed: int = 100) -> list[Request]:
    return [
        Request(image_id=f"p{i}#0", prompt=Prompt(prompt_id=f"p{i}", suite="s", text=text), index=0, seed=seed + i)
        for i, text in enumerate(texts or TEXTS)
    ]


def images(generator: DiffusersGenerator, asked: Sequence[Request] | None = None) -> list[np.ndarray]:
    asked = requests() if asked is None else asked
    results = list(generator.generate(asked))
    assert [r.image_id for r in results] == [r.image_id for r in asked]
    assert [r.state for r in results] == ["ok"] * len(asked), results[0].note
    return [r.pixels for r in results if r.pixels is not None]


def in_batches(generator: DiffusersGenerator, *sizes: int) -> dict[int, list[np.ndarray]]:
    """The same images in batches of each size, by a model that is loaded once."""
    made = {}
    for size in sizes:
        generator.batch_size = size
        made[size] = images(generator)
    assert generator.describe()["batch_size_lowered"] == []
    return made


def largest_difference(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> int:
    return max(int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(first, second, strict=True))


def generator_of(model: str, **options: Any) -> DiffusersGenerator:
    """A generator of options, as by name."""
    generator: DiffusersGenerator = build(DiffusersGenerator, model, options, kind="diffusers")
    return generator


def sd(folder, **options: Any) -> DiffusersGenerator:
    return generator_of(str(folder("sd")), **{"steps": 2, **SIZE, **options})


# --------------------------------------------------------------------------------------------------------------------
# An image depends on its request alone
# --------------------------------------------------------------------------------------------------------------------
# Largest difference of 8-bit levels that rounding made between batches of 1, 3 and 4, on the processor in float32.
# UnCLIP's random weights amplify it through three stages; in float64 it is 0 (next test).
TOLERANCE = {"unclip": 8}


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_do_not_change_an_image(folder, family):
    made = in_batches(generator_of(str(folder(family)), steps=3, **FAMILIES[family]), 1, 3, 4)
    assert made[1][0].shape == (32, 32, 3)
    assert made[1][0].dtype == np.uint8
    assert largest_difference(made[1], made[3]) <= TOLERANCE.get(family, 1)
    assert largest_difference(made[1], made[4]) <= TOLERANCE.get(family, 1)
    # Of other prompts and seeds the images are other ones, by far.
    assert min(largest_difference(made[1][:1], [other]) for other in made[1][1:]) > 50


def test_what_batches_change_is_rounding(folder):
    generator = generator_of(str(folder("unclip")), steps=3, **FAMILIES["unclip"])
    generator._dtype = torch.float64
    made = in_batches(generator, 1, 4)
    assert largest_difference(made[1], made[4]) == 0


@pytest.mark.parametrize("scheduler", ["ddpm", "euler_a", "dpm++_sde", "lcm"])
def test_noise_added_on_the_way_is_the_images_own(folder, scheduler):
    made = in_batches(sd(folder, steps=4, scheduler=scheduler), 1, 3)
    assert largest_difference(made[1], made[3]) <= 1


def first_noise(generator: DiffusersGenerator, component: str, argument: str, asked: Sequence[Request]) -> Any:
    """What the denoiser saw first, for each image."""
    generator._load()
    seen: list[Any] = []
    calls = []
    denoiser = getattr(generator._pipeline, component)

    def look(_: Any, args: Any, kwargs: Any) -> None:
        calls.append(args[0] if args else kwargs[argument])

    handle = denoiser.register_forward_pre_hook(look, with_kwargs=True)
    original = generator._call

    def call(prompts: Sequence[str], seeds: Sequence[int]) -> Any:
        calls.clear()
        answer = original(prompts, seeds)
        seen.extend(calls[0][-len(prompts) :].clone())  # with guidance the batch stands there twice
        return answer

    generator._call = call  # type: ignore[method-assign]
    list(generator.generate(asked))
    handle.remove()
    return torch.stack(seen)


def test_every_batch_size_starts_from_the_same_noise(folder):
    asked = requests()
    # 32 pixels are 16 latents here; the scheduler (PNDM) leaves the first noise as it is.
    drawn = [torch.randn((1, 4, 16, 16), generator=torch.Generator().manual_seed(r.seed)) for r in asked]
    for size in (1, 3, 4):
        noise = first_noise(sd(folder, batch_size=size), "unet", "sample", asked)
        assert torch.equal(noise, torch.cat(drawn))


def test_sixteen_bits_round_the_noise_of_thirty_two(folder):
    asked = requests("a dog", "a cat")
    full, half = (first_noise(sd(folder, dtype=kind), "unet", "sample", asked) for kind in ("float32", "bfloat16"))
    assert half.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits: values up to 4 are rounded by up to 4 / 2**8.
    assert float((half.float() - full).abs().max()) < 0.02


def test_the_image_is_the_one_the_bare_pipeline_makes(folder):
    with overheard():
        bare = diffusers.DiffusionPipeline.from_pretrained(folder("sd"))
    bare.set_progress_bar_config(disable=True)
    for request, ours in zip(requests(), images(sd(folder, batch_size=1, negative="ugly", guidance=4.0))):
        random = torch.Generator().manual_seed(request.seed)
        answer = bare(
            request.prompt.text,
            negative_prompt="ugly",
            guidance_scale=4.0,
            num_inference_steps=2,
            generator=random,
            **SIZE,
        )
        assert np.array_equal(ours, np.asarray(answer.images[0]))


class Careless(diffusers.DDIMScheduler):
    """Adds noise from the global generator."""

    def step(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().step(*args, **kwargs)
        return (answer[0] + 0.3 * torch.randn_like(answer[0]), *answer[1:])


def test_noise_nobody_controls_is_noticed_and_made_the_images_own(folder):
    made = []
    for size in (1, 4):
        generator = sd(folder, batch_size=size, scheduler="ddim")
        generator._load()
        generator._pipeline.scheduler = Careless.from_config(generator._pipeline.scheduler.config)
        before = torch.random.get_rng_state()
        made.append(images(generator))
        assert torch.equal(torch.random.get_rng_state(), before)  # the caller's own random numbers are left alone
    assert np.array_equal(made[0], made[1])
    assert generator.batch_size == 1
    assert generator.describe()["batch_size_lowered"] == [
        "4 to 1: the pipeline or its scheduler draws noise that no generator of an image controls"
    ]
    # Seeded per image, not the same for all: other seeds, other noise.
    assert not np.array_equal(made[0][0], images(generator, requests("a dog", seed=7))[0])


class Idle(diffusers.DDIMScheduler):
    """Draws from the global generator and does nothing with it, as some attention kernels do."""

    def step(self, *args: Any, **kwargs: Any) -> Any:
        torch.randn(1)
        return super().step(*args, **kwargs)


def test_global_noise_that_shows_nowhere_costs_one_batch(folder):
    generator = sd(folder, batch_size=4, scheduler="ddim")
    expected = images(generator)
    generator._pipeline.scheduler = Idle.from_config(generator._pipeline.scheduler.config)
    pipeline = stubborn(generator, lambda _: None)
    assert largest_difference(images(generator), expected) == 0
    assert generator.batch_size == 4
    assert pipeline.tried == [4, 4, 1]  # the first batch twice, with other global seeds


def test_images_are_made_when_they_are_asked_for(folder):
    generator = sd(folder, batch_size=2)
    results = generator.generate(requests())
    next(results)
    assert generator._counts.batches == 1
    assert [r.state for r in results] == ["ok"] * 4
    assert generator._counts.batches == 3
    assert list(generator.generate([])) == []


def test_nothing_is_printed_and_logging_is_put_back(folder, capfd):
    logger = logging.getLogger("diffusers")
    before = (logger.handlers, logger.level, logger.propagate)
    images(sd(folder, safety="off"))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert (logger.handlers, logger.level, logger.propagate) == before
    assert diffusers.utils.logging.is_progress_bar_enabled()
    assert "torchvision" not in sys.modules


# --------------------------------------------------------------------------------------------------------------------
# Options
# --------------------------------------------------------------------------------------------------------------------
def test_the_name_tells_what_changes_images_and_nothing_else(folder):
    name = sd(folder).name
    digest = name.partition("@")[2][:12]
    assert name == (
        f"diffusers:sd@{digest} num_inference_steps=2 guidance_scale=7.5 width=32 height=32 "
        "scheduler=PNDMScheduler dtype=float32 safety=none"
    )
    assert sd(folder, batch_size=9, device="cpu", local_files_only=True).name == name
    changes: list[dict[str, Any]] = [
        {"steps": 3}, {"guidance": 4.0}, {"negative": "ugly"}, {"width": 64}, {"height": 64}, {"dtype": "bfloat16"},
        {"scheduler": "ddim"}, {"scheduler": "dpm++"}, {"scheduler": "dpm++_karras"}, {"scheduler": "dpm++_sde"},
        {"eta": 1.0}, {"clip_skip": 1},
    ]  # fmt: skip
    assert len({name, *(sd(folder, **change).name for change in changes)}) == len(changes) + 1


@pytest.mark.parametrize(
    ("family", "options", "arguments", "negative"),
    [
        ("sd", {"steps": 5, "guidance": 3.0}, {"num_inference_steps": 5, "guidance_scale": 3.0}, None),
        ("sd", {"negative": "ugly", "eta": "0.5"}, {"eta": 0.5}, "ugly"),
        (
            "sd",
            {"clip_skip": "2", "guidance_rescale": "1"},
            {"clip_skip": 2, "guidance_rescale": 1},
            None,
        ),
        (
            "unclip",
            {"steps": 5, "guidance": 3.0, "prior_guidance_scale": "2"},
            {"decoder_num_inference_steps": 5, "decoder_guidance_scale": 3.0, "prior_guidance_scale": 2},
            None,
        ),
        # Qwen-Image guides with true_cfg_scale, and only if there is a negative prompt, be it empty.
        ("qwen", {"guidance": 3.0}, {"true_cfg_scale": 3.0}, " "),
        ("qwen", {}, {}, " "),
        ("qwen", {"guidance": 1.0}, {"true_cfg_scale": 1.0}, None),
        ("flux", {"guidance": 3.0}, {"guidance_scale": 3.0}, None),
        ("flux", {"true_cfg_scale": "2", "negative": "a"}, {"true_cfg_scale": 2}, "a"),
        ("schnell", {"guidance": 0.0}, {"guidance_scale": 0.0}, None),
        ("pixart", {}, {"clean_caption": False}, None),
        (
            "pixart",
            {"use_resolution_binning": "False", "max_sequence_length": "60"},
            {"clean_caption": False, "use_resolution_binning": False, "max_sequence_length": 60},
            None,
        ),
    ],
)
def test_options_go_to_the_arguments_of_the_family(folder, family, options, arguments, negative):
    generator = generator_of(str(folder(family)), **options)
    assert generator._arguments == arguments
    assert generator._negative == negative
    assert generator.describe()["arguments"] | arguments == generator.describe()["arguments"]


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        (
            "unclip",
            {"negative": "ugly"},
            "UnCLIPPipeline takes no option 'negative'. Of its own it takes: steps, guidance, prior_",
        ),
        ("unclip", {"width": 64}, "takes no option 'width'"),
        ("sd", {"guidence_rescale": "1"}, "Did you mean guidance_rescale?"),
        ("sd", {"batchsize": "1"}, "Did you mean batch_size?"),
        ("sd", {"latents": "1"}, "takes no option 'latents'"),
        ("sd", {"callback_steps": "1"}, "takes no option 'callback_steps'"),
        ("sd", {"steps": 5, "num_inference_steps": "6"}, "num_inference_steps of .* is given twice"),
        ("sd", {"eta": "much"}, "option eta='much': expected a number"),
        ("pixart", {"max_sequence_length": "1.5"}, "expected a whole number"),
        ("pixart", {"use_resolution_binning": "perhaps"}, "expected true or false"),
        ("schnell", {"guidance": 3.5}, "ignores guidance_scale"),
        ("qwen", {"guidance_scale": "3.5"}, "ignores guidance_scale"),
        ("flux", {"negative": "ugly"}, "negative has no effect on FluxPipeline while true_cfg_scale is 1"),
        ("sd", {"negative": "ugly", "guidance": 0.0}, "negative has no effect"),
        ("sd", {"steps": 0}, "steps must be at least 1, got 0"),
        ("sd", {"batch_size": 0}, "batch_size must be at least 1"),
        ("sd", {"dtype": "float8"}, "option dtype='float8': expected one of auto, float32"),
        ("sd", {"safety": "none"}, "option safety='none': expected one of default, off"),
        ("sd", {"lora_scale": 0.5}, "no effect without lora=FILE"),
        ("sd", {"device": "cuda"}, "cannot compute on device 'cuda'"),
        ("sd", {"device": "gpu"}, "cannot compute on device 'gpu'"),
        ("sd", {"offload": "model"}, "device is cpu"),
        ("sd", {"revision": "main"}, "is a folder"),
        ("sd", {"variant": "fp16"}, "no weights of variant 'fp16'; there is only the plain one"),
        ("sd", {"scheduler": "eulr"}, r"'eulr' does not fit sd, made with PNDMScheduler; there are: ddim \(DDIMSch"),
        ("sd", {"scheduler": "FlowMatchEulerDiscreteScheduler"}, "does not fit sd"),
        ("flux", {"scheduler": "ddim"}, "there are: FlowMatchEulerDiscreteScheduler$"),
        ("unclip", {"scheduler": "ddim"}, "no scheduler that can be replaced .it has .*prior_scheduler"),
    ],
)
def test_options_a_pipeline_does_not_take_are_refused(folder, family, options, message):
    with pytest.raises(UsageError, match=message):
        generator_of(str(folder(family)), **options)


@pytest.mark.parametrize("short", SCHEDULERS)
def test_short_names_of_schedulers_make_images(folder, short):
    generator = sd(folder, scheduler=short, steps=3)
    # "+" is a space in the options of a command line.
    assert sd(folder, scheduler=short.replace("+", " "), steps=3).name == generator.name
    images(generator, requests("a dog", "a cat"))
    subset = generator._pipeline.scheduler
    assert type(subset).__name__ == SCHEDULERS[short][0]
    assert subset.config.beta_end == 0.012  # the model's own
    assert generator.describe()["schedulers"]["scheduler"]["beta_end"] == 0.012


def test_schedulers_by_class_name(folder):
    assert "scheduler=HeunDiscreteScheduler" in sd(folder, scheduler="HeunDiscreteScheduler").name


def test_sixteen_bits_by_themselves_only_where_they_fit(monkeypatch):
    cuda, cpu, mps = (torch.device(kind) for kind in ("cuda", "cpu", "mps"))
    unet_model = {"unet": ["diffusers", "UNet2DConditionModel"]}
    karlo = {"_class_name": "UnCLIPPipeline", "decoder": ["diffusers", "UNet2DConditionModel"]}
    transformer = {"transformer": ["diffusers", "FluxTransformer2DModel"], "unet": [None, None]}
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    pick = pick_dtype
    assert pick("auto", cpu, unet_model, None) == pick("auto", mps, transformer, "fp16") == torch.float32
    assert pick("auto", cuda, unet_model, None) == pick("auto", cuda, transformer, "fp16") == torch.float16
    assert pick("auto", cuda, transformer, None) == pick("auto", cuda, unet_model, "bf16") == torch.bfloat16
    assert pick("auto", cuda, karlo, None) == torch.float16
    assert pick("float32", cuda, unet_model, "fp16") == torch.float32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert pick("auto", cuda, transformer, None) == torch.float16


def test_the_model_is_loaded_in_the_numbers_asked_for(folder, monkeypatch):
    generator = sd(folder, dtype="bfloat16")
    images(generator)
    assert generator._pipeline.unet.dtype == generator._pipeline.text_encoder.dtype == torch.bfloat16
    for version, word in (
        ("0.35.2", "torch_dtype"),
        ("0.41.0.dev0", "torch_dtype"),
        ("0.42.1", "dtype"),
        ("1.0", "dtype"),
    ):
        monkeypatch.setattr(diffusers, "__version__", version)
        assert dtype_keyword() == word


# --------------------------------------------------------------------------------------------------------------------
# Images that do not come
# --------------------------------------------------------------------------------------------------------------------
def test_an_image_the_safety_checker_withholds_is_refused(folder):
    generator = generator_of(str(folder("prudish")), steps=2, **SIZE)
    results = list(generator.generate(requests()))
    assert [(r.state, r.pixels) for r in results] == [("refused", None)] * 5
    assert "safety checker took the image for unsafe" in results[0].note
    assert generator.name.endswith("safety=on")


def test_only_the_images_it_flags_are_refused(folder):
    generator = generator_of(str(folder("checked")), steps=2, **SIZE)
    assert {r.state for r in generator.generate(requests())} == {"ok"}
    checker = generator._pipeline.safety_checker
    forward = checker.forward

    def second(*args: Any, **kwargs: Any) -> Any:
        images, flags = forward(*args, **kwargs)
        return images, [i == 1 for i, _ in enumerate(flags)]

    checker.forward = second
    assert [r.state for r in generator.generate(requests()[:4])] == ["ok", "refused", "ok", "ok"]


def test_without_the_checker_the_image_is_there(folder):
    generator = generator_of(str(folder("prudish")), steps=2, safety="off", **SIZE)
    images(generator)
    assert generator._pipeline.safety_checker is None
    assert generator.name.endswith("safety=off")
    assert generator.describe()["safety_checker"] == "off"


class Stubborn:
    """The pipeline, failing as told."""

    def __init__(self, pipeline: Any, fails: Callable[[Sequence[str]], Exception | None]) -> None:
        self.pipeline, self.fails = pipeline, fails
        self.components = pipeline.components
        self.tried: list[int] = []

    def __call__(self, **arguments: Any) -> Any:
        self.tried.append(len(arguments["prompt"]))
        if (failure := self.fails(arguments["prompt"])) is not None:
            raise failure
        return self.pipeline(**arguments)


def stubborn(generator: DiffusersGenerator, fails: Callable[[Sequence[str]], Exception | None]) -> Stubborn:
    generator._load()
    generator._pipeline = Stubborn(generator._pipeline, fails)
    return generator._pipeline


MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
    MemoryError("Unable to allocate 4 GiB"),
]


@pytest.fixture(scope="module")
def by_twos(folder) -> list[np.ndarray]:
    return images(sd(folder, batch_size=2, device="cpu"))


@pytest.mark.parametrize("failure", MEMORY, ids=lambda f: str(f)[:12])
def test_out_of_memory_halves_the_batch_for_good(folder, by_twos, failure):
    generator = sd(folder, batch_size=8)
    name = generator.name
    pipeline = stubborn(generator, lambda prompts: failure if len(prompts) > 2 else None)
    made = images(generator)
    assert pipeline.tried == [5, 2, 2, 1]  # five were asked for; 5 // 2 fit
    assert largest_difference(made, by_twos) <= 1
    assert generator.batch_size == 2
    assert generator.name == name
    pipeline.tried.clear()
    images(generator)
    assert pipeline.tried == [2, 2, 1]
    (line,) = generator.describe()["batch_size_lowered"]
    assert line.startswith("8 to 2: ")
    assert any(line in result for result in generator.summary())


def test_out_of_memory_for_one_image_is_its_failure(folder):
    generator = sd(folder, batch_size=4)
    pipeline = stubborn(generator, lambda prompts: MEMORY[0] if "cat" in prompts else None)
    results = list(generator.generate(requests()))
    assert [r.state for r in results] == ["ok", "ok", "failed", "ok", "ok"]
    assert "out of memory, even for a single image" in results[2].note
    assert "Tried to allocate 20.00 GiB" in results[2].note
    assert pipeline.tried == [4, 2, 2, 1, 1, 1]


def test_a_prompt_the_pipeline_fails_at_does_not_cost_its_neighbours(folder):
    generator = sd(folder, batch_size=4)
    pipeline = stubborn(generator, lambda prompts: ValueError("bad prompt") if "cat" in prompts else None)
    results = list(generator.generate(requests()))
    assert [r.state for r in results] == ["ok", "ok", "failed", "ok", "ok"]
    assert results[2].note == "ValueError: bad prompt"
    assert generator.batch_size == 4
    assert pipeline.tried == [4, 1, 1, 1, 1, 1, 1]  # the fifth: a plain prompt, to see whether all is broken


def test_settings_that_never_work_stop_the_run(folder):
    generator = sd(folder, width=33)
    with pytest.raises(UsageError, match=r"makes no image with these settings .*divisible by 8"):
        list(generator.generate(requests()))
    generator = sd(folder)
    stubborn(generator, lambda _: RuntimeError("device-side assert"))
    with pytest.raises(VerismError, match="device-side assert"):
        list(generator.generate(requests()))


def test_a_pipeline_that_makes_something_else_stops_the_run(folder):
    generator = sd(folder)
    stubborn(generator, lambda _: None).pipeline = lambda **_: SimpleNamespace(frames=[])
    with pytest.raises(UsageError, match="is a StableDiffusionPipeline, which answered with no images"):
        list(generator.generate(requests()))


def test_an_image_of_no_numbers_is_a_failure_with_advice(folder):
    generator = sd(folder, batch_size=3)
    generator._load()
    decoder = generator._pipeline.vae
    decode = decoder.decode

    def overflow(latents: Any, *args: Any, **kwargs: Any) -> Any:
        (image, *rest) = decode(latents, *args, **kwargs)
        if len(image) == 3:
            image[1, :, 4, 5] = torch.nan
        return (image, *rest)

    decoder.decode = overflow
    results = list(generator.generate(requests()))
    assert [r.state for r in results] == ["ok", "failed", "ok", "ok", "ok"]
    assert results[1].pixels is None
    assert "pixels that are no numbers (computed in float32)" in results[1].note
    generator._dtype = torch.float16
    assert "use dtype=bfloat16 or dtype=float32" in generator._overflow_note()


# --------------------------------------------------------------------------------------------------------------------
# Prompts that are too long
# --------------------------------------------------------------------------------------------------------------------
def notes(generator: DiffusersGenerator, *texts: str) -> list[str]:
    return [r.note for r in generator.generate(requests(*texts))]


def test_what_the_tokenizer_cuts_off_is_noted(folder):
    # 75 letters and two special tokens are 77; 90 letters are 92, of which 15 are cut.
    full, long = "a" * 75, "a" * 75 + "b" * 15
    assert notes(sd(folder), full, long) == [
        "",
        "prompt not read to its end: tokenizer cut the last 15 of 92 tokens (limit 77)",
    ]
    # And so it is: what stands behind does not change the image.
    (first,), (second,) = (images(sd(folder), requests("a" * 75 + end)) for end in ("b" * 15, "c" * 40))
    assert np.array_equal(first, second)


def test_every_tokenizer_of_a_pipeline_is_counted(folder):
    text = "a" * 90
    two = notes(generator_of(str(folder("sdxl")), steps=1, **SIZE), text)[0]
    assert two.count("cut the last 15 of 92 tokens (limit 77)") == 2
    # FLUX: CLIP reads 77 tokens, T5 (90 letters, one for the word, one at the end) as many as max_sequence_length.
    options: dict[str, Any] = {"steps": 1, **SIZE}
    assert notes(generator_of(str(folder("flux")), **options), text) == [
        "prompt not read to its end: tokenizer cut the last 15 of 92 tokens (limit 77)"
    ]
    short = generator_of(str(folder("flux")), **options, max_sequence_length=80)
    assert notes(short, text) == [
        "prompt not read to its end: tokenizer cut the last 15 of 92 tokens (limit 77); "
        "tokenizer_2 cut the last 12 of 92 tokens (limit 80)"
    ]


def test_lengths_of_pixart_and_qwen_image(folder):
    options = {"steps": 2, **SIZE, "use_resolution_binning": False}
    # 130 letters, one token for the word, one at the end: 132, of which PixArt-alpha reads 120.
    assert notes(generator_of(str(folder("pixart")), **options), "a" * 130, "a" * 118) == [
        "prompt not read to its end: tokenizer cut the last 12 of 132 tokens (limit 120)",
        "",
    ]
    # Qwen-Image: the text behind the prompt is cut before the prompt itself.
    qwen = generator_of(str(folder("qwen")), steps=1, **SIZE)
    tokenizer_room = _qwen_room(qwen)
    assert notes(qwen, "a" * tokenizer_room, "a" * (tokenizer_room + 7)) == [
        "",
        f"prompt not read to its end: tokenizer cut the last 7 of {_qwen_total(qwen) + tokenizer_room + 7} tokens "
        f"(limit {_qwen_total(qwen) + tokenizer_room})",
    ]


def _qwen_parts(generator: DiffusersGenerator) -> tuple[int, int]:
    """Tokens of the template before and behind the prompt: special ones, and one a letter."""
    generator._load()
    before, behind = generator._pipeline.prompt_template_encode.split("{}")
    lengths = []
    for part in (before, behind):
        special = part.count("<|im_start|>") + part.count("<|im_end|>")
        plain = part.replace("<|im_start|>", "").replace("<|im_end|>", "")
        lengths.append(special + len(plain))
    return lengths[0], lengths[1]


def _qwen_total(generator: DiffusersGenerator) -> int:
    return _qwen_parts(generator)[0]


def _qwen_room(generator: DiffusersGenerator) -> int:
    """Letters that fit: 512 tokens and the 34 dropped ones, less the template."""
    before, behind = _qwen_parts(generator)
    return 512 + 34 - before - behind


# --------------------------------------------------------------------------------------------------------------------
# Where a model comes from
# --------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def hub_cache(folder, tmp_path, monkeypatch) -> Path:
    """The hub's cache with one model, at one commit, and no network."""
    root = tmp_path / "hub"
    snapshot = root / "models--someone--tiny" / "snapshots" / COMMIT
    shutil.copytree(folder("sd"), snapshot)
    (snapshot / "README.md").write_text("---\ntags:\n- text-to-image\nlicense: openrail++\n---\n# Tiny\nlicense: no\n")
    refs = root / "models--someone--tiny" / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(root))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return root


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("options", [{}, {"local_files_only": True}, {"revision": COMMIT}])
def test_a_model_of_the_hub_is_named_by_its_commit(folder, options):
    generator = generator_of("someone/tiny", steps=2, **SIZE, **options)
    assert generator.name.startswith(f"diffusers:someone/tiny@{COMMIT[:12]} num_inference_steps=2 ")
    result = generator.describe()
    assert (result["from"], result["commit"], result["licence"]) == ("hub", COMMIT, "openrail++")
    assert result["asked_revision"] == options.get("revision")
    assert largest_difference(images(generator), images(sd(folder))) == 0


@pytest.mark.usefixtures("hub_cache")
def test_a_model_that_is_not_in_the_cache():
    with pytest.raises(UsageError, match=r"someone/other is not in the hub's cache .* give the path of a folder"):
        generator_of("someone/other")
    with pytest.raises(UsageError, match=r"someone/tiny at revision v2 is not in the hub's cache"):
        generator_of("someone/tiny", revision="v2")


def test_weights_that_are_not_in_the_cache(hub_cache):
    weights = next((hub_cache / "models--someone--tiny" / "snapshots" / COMMIT / "unet").glob("*.safetensors"))
    weights.unlink()
    generator = generator_of("someone/tiny", steps=2, **SIZE)
    with pytest.raises(UsageError, match="cannot load someone/tiny"):
        list(generator.generate(requests()))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("GatedRepoError", r"a/b is gated: accept its terms at https://huggingface.co/a/b, then .*hf auth login"),
        (
            "RepositoryNotFoundError",
            r"a/b is not on the Hugging Face hub, or private: check the spelling .*hf auth login",
        ),
        ("RevisionNotFoundError", "the hub has no such branch, tag or commit of a/b"),
        ("HfHubHTTPError", "a/b could not be fetched from the hub: server on fire"),
    ],
)
def test_answers_of_the_hub_are_explained(monkeypatch, kind, message):
    httpx = pytest.importorskip("httpx")
    errors = importlib.import_module("huggingface_hub.errors")
    response = httpx.Response(404, request=httpx.Request("GET", "https://huggingface.co/a/b"))

    def refuse(*_: Any, **__: Any) -> None:
        raise getattr(errors, kind)("server on fire", response=response)

    monkeypatch.setattr("verism.services.hub.hub_is_reachable", lambda: True)
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(UsageError, match=message):
        generator_of("a/b")


@pytest.mark.usefixtures("hub_cache")
def test_variants_of_the_hub_are_checked_before_anything_is_fetched(monkeypatch):
    listed = ["unet/diffusion_pytorch_model.fp16.safetensors", "vae/model.non_ema-00001-of-00002.safetensors"]
    hub = importlib.import_module("huggingface_hub")
    monkeypatch.setattr(hub.HfApi, "list_repo_files", lambda *_, **__: listed)
    with pytest.raises(UsageError, match="no weights of variant 'bf16'; there are: fp16, non_ema"):
        generator_of("someone/tiny", variant="bf16")
    generator_of("someone/tiny", variant="fp16")


def test_a_variant_in_a_folder(folder, tmp_path):
    with overheard():
        diffusers.DiffusionPipeline.from_pretrained(folder("sd")).save_pretrained(tmp_path / "half", variant="fp16")
    with pytest.raises(UsageError, match="no weights of variant 'bf16'; there are: fp16"):
        generator_of(str(tmp_path / "half"), variant="bf16")
    generator = generator_of(str(tmp_path / "half"), variant="fp16", steps=2, **SIZE)
    assert "variant=fp16" in generator.name
    assert largest_difference(images(generator), images(sd(folder))) == 0


def test_a_folder_is_named_by_its_content(folder, tmp_path):
    name = sd(folder).name
    moved = tmp_path / "elsewhere" / "sd"
    shutil.copytree(folder("sd"), moved)
    assert generator_of(str(moved), steps=2, **SIZE).name == name
    (moved / "README.md").write_text("nothing of account")
    assert generator_of(str(moved), steps=2, **SIZE).name == name
    weights = next((moved / "unet").glob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    changed = generator_of(str(moved), steps=2, **SIZE).name
    assert changed != name
    assert changed.partition("@")[0] == name.partition("@")[0]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (None, "has no model_index.json"),
        ("{", "is no JSON"),
        ("[]", "holds no JSON object"),
        ({"_class_name": ["pipeline", "Mine"]}, "brings a pipeline of its own"),
        ({"_class_name": "NoSuchPipeline"}, "is a NoSuchPipeline, which diffusers .* does not have"),
        ({"_class_name": "AutoencoderKL"}, "takes no prompt"),
        ({"_class_name": "StableVideoDiffusionPipeline"}, "which needs image; expected a pipeline that makes images"),
        ({"_class_name": "DDPMPipeline"}, "which takes no prompt"),
        ({"_class_name": "StableDiffusionPipeline", "scheduler": ["diffusers", "NoScheduler"]}, "has a NoScheduler"),
        (
            {"_class_name": "StableDiffusionPipeline", "scheduler": ["diffusers", "DDIMScheduler"]},
            "cannot read the sch",
        ),
    ],
)
def test_folders_that_are_no_text_to_image_model(tmp_path, index, message):
    if index is not None:
        (tmp_path / "model_index.json").write_text(index if isinstance(index, str) else json.dumps(index))
    with pytest.raises(UsageError, match=message):
        generator_of(str(tmp_path))


@pytest.mark.parametrize("model", ["./no/such/folder", "/nowhere", "a/b/c", "C:\\models\\sd", "two words"])
def test_paths_that_are_not_there(model):
    with pytest.raises(UsageError, match=r"no such folder .* owner/name"):
        generator_of(model)


def test_a_single_file_is_no_pipeline(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(UsageError, match="from_single_file"):
        generator_of(str(file))


def test_parts_saved_for_a_sibling_task_serve(folder, tmp_path):
    shutil.copytree(folder("sd"), tmp_path / "sd")
    path = tmp_path / "sd" / "model_index.json"
    path.write_text(path.read_text().replace('"StableDiffusionPipeline"', '"StableDiffusionImg2ImgPipeline"'))
    generator = generator_of(str(tmp_path / "sd"), steps=2, **SIZE)
    assert generator.describe()["pipeline"] == "StableDiffusionPipeline"
    assert largest_difference(images(generator), images(sd(folder))) == 0


def test_unclip_as_save_pretrained_writes_it(folder, tmp_path):
    shutil.copytree(folder("unclip"), tmp_path / "unclip")
    path = tmp_path / "unclip" / "model_index.json"
    index = json.loads(path.read_text())
    assert index["text_proj"][0] == "unclip"
    path.write_text(json.dumps(index | {"text_proj": ["diffusers", "UnCLIPTextProjModel"]}))
    options: dict[str, Any] = {"steps": 2, **FEW}
    made = [images(generator_of(str(p), **options)) for p in (tmp_path / "unclip", folder("unclip"))]
    assert largest_difference(*made) == 0


@pytest.mark.parametrize("component", ["unet", "text_encoder"])
def test_weights_that_are_missing_are_not_made_up(folder, tmp_path, component):
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder("sd"), tmp_path / "sd")
    file = next((tmp_path / "sd" / component).glob("*.safetensors"))
    weights = load_file(file)
    missing = sorted(name for name in weights if name.endswith("weight"))[0]
    del weights[missing]
    save_file(weights, file, metadata={"format": "pt"})
    generator = generator_of(str(tmp_path / "sd"), steps=2, **SIZE)
    with pytest.raises(UsageError, match=rf"weights of sd are incomplete: 1 are missing .*{missing.split('.')[-2]}"):
        list(generator.generate(requests()))


def test_weights_that_follow_from_the_configuration_may_be_missing():
    report = (
        "CLIPTextModel LOAD REPORT from: x\nKey | Status |\n---+---+-\n"
        "embeddings.position_ids | MISSING |\na.weight | UNEXPECTED |\n\nNotes:\n- MISSING: newly initialized\n"
    )
    assert made_up([report]) == []
    assert made_up([report.replace("position_ids", "position.weight")]) == ["embeddings.position.weight"]


def test_damaged_weights_are_found_when_they_are_loaded(folder, tmp_path):
    shutil.copytree(folder("sd"), tmp_path / "sd")
    next((tmp_path / "sd" / "unet").glob("*.safetensors")).write_bytes(b"not weights")
    generator = generator_of(str(tmp_path / "sd"), steps=2, **SIZE)
    with pytest.raises(UsageError, match="cannot load sd"):
        list(generator.generate(requests()))


# --------------------------------------------------------------------------------------------------------------------
# LoRA
# --------------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="session")
def lora(folder, tmp_path_factory) -> Path:
    peft = pytest.importorskip("peft")
    with overheard():
        pipeline = diffusers.DiffusionPipeline.from_pretrained(folder("sd"))
    torch.manual_seed(1)
    pipeline.unet.add_adapter(peft.LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    state = peft.get_peft_model_state_dict(pipeline.unet)
    target = tmp_path_factory.mktemp("lora") / "style.safetensors"
    diffusers.StableDiffusionPipeline.save_lora_weights(
        target.parent, unet_lora_layers={k: 4 * v for k, v in state.items()}, weight_name=target.name
    )
    return target


def test_lora_weights_change_the_image_by_their_scale(folder, lora):
    plain = images(sd(folder))
    full, none, half = (sd(folder, lora=lora, lora_scale=scale) for scale in (1.0, 0.0, 0.5))
    made = images(full)
    assert largest_difference(made, plain) > 2
    assert largest_difference(images(none), plain) == 0
    assert largest_difference(images(half), plain) > 0
    assert largest_difference(images(half), made) > 0
    assert "lora=style.safetensors@" in full.name
    assert half.name.replace("*0.5", "*1") == full.name
    assert full.describe()["lora"]["scale"] == 1.0
    assert largest_difference(images(sd(folder, lora=lora.parent)), made) == 0  # a folder serves as well


def test_lora_weights_that_do_not_fit(folder, lora, tmp_path):
    with pytest.raises(UsageError, match="no such file or folder"):
        sd(folder, lora=tmp_path / "none.safetensors")
    with pytest.raises(UsageError, match=r"holds no \.safetensors file"):
        sd(folder, lora=tmp_path)
    with pytest.raises(UsageError, match=r"lora=.* does not fit|holds no weight|takes no LoRA"):
        list(generator_of(str(folder("flux")), steps=1, lora=lora, **SIZE).generate(requests()))
    with pytest.raises(UsageError, match="UnCLIPPipeline takes no LoRA weights"):
        list(generator_of(str(folder("unclip")), lora=lora).generate(requests()))


# --------------------------------------------------------------------------------------------------------------------
# Telling
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("family", FAMILIES)
def test_descriptions_are_json(folder, family):
    generator = generator_of(str(folder(family)), **FAMILIES[family])
    result = json.loads(json.dumps(generator.describe(), allow_nan=False))
    assert len(result["content_sha256"]) == 64
    assert result["content_sha256"].startswith(generator.name.partition("@")[2][:12])
    assert result["versions"]["diffusers"] == diffusers.__version__
    assert result["schedulers"]
    assert generator.summary() == []


def test_estimates_load_nothing(folder):
    generator = sd(folder, steps=7, batch_size=4)
    assert generator.estimate(requests()) == [
        "5 images from sd (StableDiffusionPipeline, float32 on cpu)",
        "2 batches of up to 4, 7 steps each; no fee",
    ]
    assert generator._pipeline is None


def test_the_summary_counts_and_closing_lets_go(folder):
    generator = sd(folder)
    images(generator)
    assert generator.summary()[0].startswith("5 images in 2 batches on cpu, ")
    generator.close()
    assert generator._pipeline is None
    generator.close()
    assert len(images(generator)) == 5  # loaded again when asked again


def test_results_are_of_the_shape_the_contract_asks(folder):
    (result,) = sd(folder).generate(requests("a dog"))
    assert isinstance(result, Result)
    assert result.path is None
    assert result.pixels is not None
    assert result.pixels.flags["C_CONTIGUOUS"]
