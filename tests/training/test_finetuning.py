"""Finetuning: a tiny Stable Diffusion pipeline of random weights, trained end to end, stopped, resumed, and used."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from PIL import Image, ImageDraw
from safetensors.torch import load_file
from tiny_models import tiny_pipeline

from verism.errors import UsageError, VerismError
from verism.records import Prompt, Request
from verism.registry import Context, make_generator
from verism.suites.paintskills.layout import image_path, write_metadata, write_scenes
from verism.suites.paintskills.scenes import build_scenes
from verism.suites.paintskills.vocabulary import VERSIONS
from verism.training import _finetuning_learner as stepping
from verism.training import _latent_diffusion as model
from verism.training import finetuning
from verism.training._checkpoints import read_header
from verism.training.finetuning import finetune_diffusers
from verism.training.image_text_pairs import Pair, image_text_pairs
from verism.training.settings import FinetuneConfig

pytestmark = pytest.mark.usefixtures("one_thread")

V2 = VERSIONS["paintskills"]
SHORT: dict[str, Any] = {"batch_size": 2, "gradient_accumulation": 1, "lr": 1e-3, "device": "cpu", "workers": 2}


def finetune(
    base: str | Path, pairs: Sequence[Pair], *, out: Path, about: Any = None, log: Any = None, **settings: Any
) -> Path:
    return finetune_diffusers(base, pairs, FinetuneConfig(**settings), out=out, about=about, log=log)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_pipeline(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    return made_pairs(tmp_path_factory.mktemp("data"))


def made_pairs(root: Path) -> list[Pair]:
    """Six images in the published layout: a bright bar left or right, smaller than the model's images."""
    scenes = build_scenes(V2, "object", "train")[:4] + build_scenes(V2, "spatial", "train")[:2]
    write_metadata(root, V2)
    write_scenes(root, scenes)
    for i, scene in enumerate(scenes):
        image = Image.new("RGB", (20, 20), (40 * i, 30, 60))
        ImageDraw.Draw(image).rectangle((2 + 8 * (i % 2), 3, 8 + 8 * (i % 2), 16), fill=(250, 40 * i, 20))
        path = image_path(root, scene.skill, scene.scene_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return image_text_pairs([root])


def state(folder: Path, part: str) -> dict[str, torch.Tensor]:
    files = {"text_encoder": "model", "unet": "diffusion_pytorch_model", "vae": "diffusion_pytorch_model"}
    return load_file(folder / part / f"{files[part]}.safetensors")


def same(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def apart(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[k] - b[k]).abs().max()) for k in a)


def image(folder: Path, *, lora: Path | None = None) -> np.ndarray:
    pipeline = StableDiffusionPipeline.from_pretrained(folder, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    if lora is not None:
        pipeline.load_lora_weights(lora)
    rng = torch.Generator().manual_seed(5)
    drawn = pipeline("dog", num_inference_steps=4, generator=rng, output_type="np").images
    return np.asarray(drawn[0])


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


# ---------------------------------------------------------------------------------------------------------- end to end
def test_all_weights_of_the_unet_are_trained_and_the_rest_stays_as_it_was(
    base: Path, pairs: list[Pair], tmp_path: Path
) -> None:
    collected: list[Mapping[str, Any]] = []
    torch.manual_seed(99)
    folder = finetune(
        base, pairs, out=tmp_path, steps=3, about={"fraction": 0.5}, log=collected.append, log_every_s=0, **SHORT
    )
    assert torch.equal(torch.rand(2), torch.rand(2, generator=torch.Generator().manual_seed(99)))  # caller's randomness
    assert folder == tmp_path / "pipeline"
    assert same(state(folder, "vae"), state(base, "vae"))
    assert same(state(folder, "text_encoder"), state(base, "text_encoder"))
    trained = state(folder, "unet")
    changed = [not torch.equal(v, trained[k]) for k, v in state(base, "unet").items()]
    assert all(changed)
    config = json.loads((folder / "scheduler" / "scheduler_config.json").read_text())
    assert (config["_class_name"], config["prediction_type"]) == ("PNDMScheduler", "epsilon")  # the base's sampler
    ours, theirs = image(folder), image(base)
    assert ours.shape == (32, 32, 3)
    assert np.abs(ours - theirs).max() > 1e-3

    assert [line["event"] for line in collected] == ["start", "train", "train", "train", "end"]
    assert collected == lines(tmp_path)
    assert all(line["loss"] > 0 and line["lr"] == 1e-3 for line in collected if line["event"] == "train")
    card = json.loads((folder / "training.json").read_text())
    assert card["method"] == "full"
    assert card["base"]["model"] == str(base)
    assert card["data"]["per_skill"] == {"object": 4, "spatial": 2}
    assert card["data"]["fraction"] == 0.5
    # 3 steps of 2 images are one pass over the 6.
    assert (card["steps"], card["pictures_seen"], card["epochs"]) == (3, 6, 1.0)
    assert card["settings"]["resolution"] == 32
    assert card["loss"] == collected[-2]["loss"]
    assert {"torch", "diffusers"} <= set(card["packages"])
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["checkpoint.safetensors", "log.jsonl", "pipeline"]


@pytest.mark.parametrize("with_text", [False, True])
def test_lora_is_saved_in_the_form_that_diffusers_reads(
    base: Path, pairs: list[Pair], tmp_path: Path, with_text: bool
) -> None:
    folder = finetune(
        base, pairs, out=tmp_path, steps=3, lora_rank=2, train_text_encoder=with_text, **{**SHORT, "lr": 0.05}
    )
    assert folder == tmp_path / "lora"
    assert sorted(p.name for p in folder.iterdir()) == ["pytorch_lora_weights.safetensors", "training.json"]
    weights = load_file(folder / "pytorch_lora_weights.safetensors")
    assert {k.partition(".")[0] for k in weights} == ({"unet", "text_encoder"} if with_text else {"unet"})
    assert {min(w.shape) for w in weights.values()} == {2}
    assert np.abs(image(base, lora=folder) - image(base)).max() > 1e-3
    # Loading writes what was trained, and nothing else: the updates of the file are those of the checkpoint.
    pipeline = StableDiffusionPipeline.from_pretrained(base, local_files_only=True)
    pipeline.load_lora_weights(folder)
    trained = load_file(tmp_path / "checkpoint.safetensors")
    loaded = {f"weights.unet.{k}": v for k, v in pipeline.unet.named_parameters() if "lora_" in k}
    if with_text:
        loaded |= {f"weights.text_encoder.{k}": v for k, v in pipeline.text_encoder.named_parameters() if "lora_" in k}
    loaded = {k.replace("default_0", "default"): v.detach() for k, v in loaded.items()}
    assert same(loaded, {k: v for k, v in trained.items() if k.startswith("weights.")})
    assert all(float(v.abs().max()) > 0 for v in loaded.values())  # both factors learn
    assert json.loads((folder / "training.json").read_text())["method"] == "lora"


def test_results_are_models_for_a_run(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    full = finetune(base, pairs, out=tmp_path / "full", steps=2, **SHORT)
    lora = finetune(base, pairs, out=tmp_path / "low", steps=2, lora_rank=2, **{**SHORT, "lr": 0.05})
    prompt = Prompt(prompt_id="p", suite="s", text="dog")
    drawn = []
    for name in (f"diffusers:{base}?steps=3", f"diffusers:{full}?steps=3", f"diffusers:{base}?steps=3&lora={lora}"):
        generator = make_generator(name, Context(device="cpu"))
        (result,) = generator.generate([Request(image_id="p#0", prompt=prompt, index=0, seed=1)])
        assert result.state == "ok", result.note
        drawn.append(np.asarray(result.pixels, dtype=int))
    assert np.abs(drawn[1] - drawn[0]).max() > 0
    assert np.abs(drawn[2] - drawn[0]).max() > 0


def test_a_lora_file_means_what_was_trained(base: Path, tmp_path: Path) -> None:
    source = model.load_base(str(base))
    plain = predicted(source.unet)
    model.add_lora(source.unet, 4)
    assert torch.equal(predicted(source.unet), plain)  # before the first step it is the base
    rng = torch.Generator().manual_seed(0)
    weights = {
        f"unet.{k}": torch.randn(v.shape, generator=rng) for k, v in source.unet.named_parameters() if v.requires_grad
    }
    model.save_lora(source.unet, None, weights, tmp_path)
    trained = predicted(source.unet)
    assert float((trained - plain).abs().max()) > 0.01
    pipeline = StableDiffusionPipeline.from_pretrained(base, local_files_only=True)
    pipeline.load_lora_weights(tmp_path)
    assert torch.allclose(predicted(pipeline.unet), trained, atol=1e-5)  # of the same strength, too


def predicted(unet: Any) -> torch.Tensor:
    rng = torch.Generator().manual_seed(3)
    noisy, hidden = torch.randn((1, 4, 16, 16), generator=rng), torch.randn((1, 24, 16), generator=rng)
    with torch.no_grad():
        result: torch.Tensor = unet(noisy, torch.tensor([500]), encoder_hidden_states=hidden).sample
    return result


def test_the_text_encoder_is_trained_if_asked(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    folder = finetune(base, pairs, out=tmp_path, steps=2, train_text_encoder=True, **SHORT)
    assert apart(state(folder, "text_encoder"), state(base, "text_encoder")) > 1e-4
    assert same(state(folder, "vae"), state(base, "vae"))


def test_sixteen_bits_in_training_leave_no_trace_in_what_is_frozen(
    base: Path, pairs: list[Pair], tmp_path: Path
) -> None:
    folder = finetune(base, pairs, out=tmp_path, steps=2, mixed_precision="bf16", **SHORT)
    assert same(state(folder, "vae"), state(base, "vae"))
    assert same(state(folder, "text_encoder"), state(base, "text_encoder"))
    trained = state(folder, "unet")
    assert all(v.dtype == torch.float32 for v in trained.values())
    assert any(not torch.equal(v, v.bfloat16().float()) for v in trained.values())  # kept and saved in full


@pytest.mark.parametrize("prediction_type", ["epsilon", "v_prediction"])
def test_the_loss_falls_on_two_images(pairs: list[Pair], tmp_path: Path, prediction_type: str) -> None:
    base = tiny_pipeline(tmp_path / "tiny", prediction_type=prediction_type)
    two = pairs[:2]
    folder = finetune(
        base, two, out=tmp_path / "out", steps=16, caption_dropout=0.0, batch_size=4, gradient_accumulation=1,
        lr=4e-3, device="cpu",
    )  # fmt: skip
    assert json.loads((folder / "training.json").read_text())["base"]["prediction_type"] == prediction_type
    # Judged apart from the training: the same noise for both, on a grid of time steps, with diffusers' own scheduler.
    before, after = (denoising_error(f, two, prediction_type) for f in (base, folder))
    assert after < 0.85 * before


def denoising_error(folder: Path, pairs: Sequence[Pair], prediction_type: str) -> float:
    pipeline = StableDiffusionPipeline.from_pretrained(folder, local_files_only=True)
    scheduler = DDPMScheduler.from_config(pipeline.scheduler.config)
    assert scheduler.config.prediction_type == prediction_type
    pixels = torch.stack(
        [
            torch.from_numpy(np.asarray(Image.open(p.image).resize((32, 32)), dtype=np.float32) / 127.5 - 1)
            for p in pairs
        ]
    ).permute(0, 3, 1, 2)
    rng = torch.Generator().manual_seed(1)
    errors = []
    with torch.no_grad():
        latents = pipeline.vae.encode(pixels).latent_dist.mean * pipeline.vae.config.scaling_factor
        hidden = pipeline.encode_prompt([p.text for p in pairs], "cpu", 1, False)[0]
        for t in range(50, 1000, 100) if prediction_type == "epsilon" else range(700, 1000, 50):  # where it is no noise
            noise = torch.randn(latents.shape, generator=rng)
            steps = torch.full((len(pairs),), t)
            noisy = scheduler.add_noise(latents, noise, steps)
            wanted = noise if prediction_type == "epsilon" else scheduler.get_velocity(latents, noise, steps)
            got = pipeline.unet(noisy, steps, encoder_hidden_states=hidden).sample
            errors.append(float((got - wanted).square().mean()))
    return float(np.mean(errors))


# ------------------------------------------------------------------------------------------------ stopping and going on
class Killed(Exception):  # not one of ours, so that nothing can be prepared for it
    pass


def kill_at(step: int) -> Any:
    def log(line: Mapping[str, Any]) -> None:
        if line["event"] == "train" and line["step"] == step:
            raise Killed

    return log


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"ema_decay": 0.9}, id="full, averaged"),
        pytest.param({"lora_rank": 2, "train_text_encoder": True}, id="lora"),
        pytest.param({"lr_schedule": "cosine", "lr_warmup_steps": 2, "snr_gamma": 5.0}, id="cosine"),
        pytest.param({"mixed_precision": "fp16"}, id="scaled gradients"),
    ],
)
def test_two_and_two_steps_are_four_steps(
    base: Path, pairs: list[Pair], tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Refused on a processor, where it is slow; but it computes the same, the scaling of gradients included.
    monkeypatch.setattr(finetuning, "_precision", lambda name, _: "no" if name == "auto" else name)
    kwargs = {**SHORT, **options, "steps": 4, "log_every_s": 0, "checkpoint_every_s": 0}
    full = finetune(base, pairs, out=tmp_path / "whole", **kwargs)
    # Killed in step 3 with the checkpoint of step 2 on the disk: step 3 is done again.
    with pytest.raises(Killed):
        finetune(base, pairs, out=tmp_path / "parts", log=kill_at(3), **kwargs)
    assert not (tmp_path / "parts" / full.name).exists()
    torch.manual_seed(12345)  # the machine's generators are in another state than before
    parts = finetune(base, pairs, out=tmp_path / "parts", **kwargs)
    starts = [line["step"] for line in lines(tmp_path / "parts") if line["event"] == "start"]
    assert starts == [0, 2]
    a, b = (load_file(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts"))
    assert any(k.startswith("optimizer.exp_avg.") for k in a)
    assert apart(a, b) < 1e-6
    headers = [read_header(tmp_path / name / "checkpoint.safetensors", "finetuning") for name in ("whole", "parts")]
    assert headers[0].scaler == headers[1].scaler
    assert bool(headers[0].scaler) == (options.get("mixed_precision") == "fp16")
    file = "pytorch_lora_weights.safetensors" if "lora_rank" in options else "unet/diffusion_pytorch_model.safetensors"
    assert apart(load_file(full / file), load_file(parts / file)) < 1e-6
    assert apart(load_file(full / file), first_steps(base, pairs, tmp_path / "two", file, options)) > 1e-5


def first_steps(
    base: Path, pairs: list[Pair], out: Path, file: str, options: dict[str, Any]
) -> dict[str, torch.Tensor]:
    """After two steps only: what an equal result must differ from, or the test above could not fail."""
    return load_file(finetune(base, pairs, out=out, steps=2, **{**SHORT, **options}) / file)


def test_a_finished_training_goes_on_when_more_steps_are_asked(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    full = state(finetune(base, pairs, out=tmp_path / "whole", steps=3, **SHORT), "unet")

    def more(**options: Any) -> dict[str, torch.Tensor]:
        return state(finetune(base, pairs, out=tmp_path / "parts", **options, **SHORT), "unet")

    one = more(steps=1)
    assert apart(full, one) > 1e-5
    assert apart(full, more(epochs=1)) < 1e-6  # 6 images: 3 steps of 2
    assert apart(full, more(steps=3)) < 1e-6  # nothing left to do
    assert same(more(steps=1, resume=False), one)


def test_a_signal_ends_the_training_with_a_checkpoint(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    out = tmp_path / "out"

    def told_to_stop(line: Mapping[str, Any]) -> None:
        if line["event"] == "train" and line["step"] == 3:
            signal.raise_signal(signal.SIGTERM)  # as of another process, in the middle of a step

    with pytest.raises(SystemExit) as ended:
        finetune(base, pairs, out=out, steps=100_000, log=told_to_stop, log_every_s=0, **SHORT)
    assert ended.value.code == 128 + signal.SIGTERM
    events = lines(out)
    assert [line["event"] for line in events[-2:]] == ["train", "stopped"]
    step = events[-1]["step"]
    assert not (out / "pipeline").exists()
    # What was done up to the signal is kept, and equals a training that was meant to end there.
    stopped = finetune(base, pairs, out=out, steps=step + 1, **SHORT)
    assert lines(out)[-3]["event"] == "start"
    assert lines(out)[-3]["step"] == step
    meant = finetune(base, pairs, out=tmp_path / "meant", steps=step + 1, **SHORT)
    assert apart(state(stopped, "unet"), state(meant, "unet")) < 1e-6


def test_a_checkpoint_of_other_settings_is_refused(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    finetune(base, pairs, out=tmp_path, steps=1, **SHORT)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    for changed, message in [
        (
            {"seed": 4},
            r": seed was 0, and is 4 now\. .* use another folder, or start over: --fresh \(Python: resume=False\)",
        ),
        ({"lora_rank": 2, "lr": 1e-4}, "lora_rank was not set, and is 2 now; lr was 0.001, and is 0.0001 now"),
        ({"lr_schedule": "linear"}, "lr_until was not set, and is 2 steps"),
    ]:
        with pytest.raises(UsageError, match=message):
            finetune(base, pairs, out=tmp_path, steps=2, **{**SHORT, **changed})
    with pytest.raises(UsageError, match=r"data was 6 images, .*, and is 5 images"):
        finetune(base, pairs[:5], out=tmp_path, steps=2, **SHORT)
    other = tiny_pipeline(tmp_path / "other")
    pipeline = StableDiffusionPipeline.from_pretrained(other)
    with torch.no_grad():
        pipeline.vae.encoder.conv_in.bias[0] += 1
    pipeline.save_pretrained(other)
    with pytest.raises(UsageError, match=r": base_weights was \w+, and is \w+ now\."):
        finetune(other, pairs, out=tmp_path, steps=2, **SHORT)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before
    (tmp_path / "checkpoint.safetensors").write_bytes(before[:100])
    with pytest.raises(UsageError, match="cannot be read"):
        finetune(base, pairs, out=tmp_path, steps=2, **SHORT)


def test_a_disk_that_fills_up_leaves_the_last_checkpoint_and_result(
    base: Path, pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finetune(base, pairs, out=tmp_path, steps=1, **SHORT)
    before = (tmp_path / "checkpoint.safetensors").read_bytes(), state(folder, "unet")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    for call in ("os.fsync", "os.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(call, full)
            with pytest.raises(VerismError, match="No space"):
                finetune(base, pairs, out=tmp_path, steps=2, **SHORT)
        assert (tmp_path / "checkpoint.safetensors").read_bytes() == before[0]
    usual = StableDiffusionPipeline.save_pretrained

    def full_at_the_end(*args: Any, **kwargs: Any) -> None:
        usual(*args, **kwargs)
        full()

    with monkeypatch.context() as patch:
        patch.setattr(StableDiffusionPipeline, "save_pretrained", full_at_the_end)
        with pytest.raises(OSError, match="No space"):
            finetune(base, pairs, out=tmp_path, steps=2, **SHORT)
    assert same(state(folder, "unet"), before[1])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.safetensors", "log.jsonl", "pipeline"]


def test_a_time_limit_ends_the_training(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    folder = finetune(base, pairs, out=tmp_path, minutes=0.5 / 60, lr_schedule="cosine", **SHORT)
    end = lines(tmp_path)[-2]
    assert end["event"] == "train"
    assert end["elapsed_s"] >= 0.5
    assert 1 <= json.loads((folder / "training.json").read_text())["steps"] == end["step"]


# ---------------------------------------------------------------------------------------------- what a step consists of
def trainer(base: Path, pairs: list[Pair], **changes: Any) -> stepping.FinetuneLearner:
    settings: dict[str, Any] = {
        **SHORT, "resolution": 32, "caption_dropout": 0.0, "mixed_precision": "no", "weight_decay": 0.0, **changes
    }  # fmt: skip
    return stepping.FinetuneLearner(model.load_base(str(base)), pairs, FinetuneConfig(**settings), torch.device("cpu"))


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_what_is_trained_is_float32_and_what_is_not_has_no_gradient(
    base: Path, pairs: list[Pair], lora_rank: int | None
) -> None:
    trained = trainer(base, pairs, mixed_precision="bf16", lora_rank=lora_rank)
    assert {p.dtype for p in trained.state.weights.values()} == {torch.float32}
    source = trained.source
    rest = [*source.vae.parameters(), *source.text_encoder.parameters()]
    rest += [p for name, p in source.unet.named_parameters() if f"unet.{name}" not in trained.state.weights]
    assert {(p.dtype, p.requires_grad) for p in rest} == {(torch.bfloat16, False)}
    assert all("lora_" in name for name in trained.state.weights) == (lora_rank is not None)


def samples_of(trained: stepping.FinetuneLearner, first: int, n: int) -> list[stepping.Sample]:
    with trained.samples(first) as stream:
        return [next(stream) for _ in range(n)]


def test_the_way_a_batch_is_split_does_not_matter(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    def gradients(size: int) -> dict[str, torch.Tensor]:
        """A tenth of them, as the optimiser keeps them after one step."""
        out = tmp_path / f"{size}"
        finetune(
            base, pairs, out=out, steps=1, batch_size=size, gradient_accumulation=4 // size, lr=1e-3, device="cpu",
            gradient_checkpointing=size == 2,
        )  # fmt: skip
        saved = load_file(out / "checkpoint.safetensors")
        return {k: v for k, v in saved.items() if k.startswith("optimizer.exp_avg.")}

    full = gradients(4)
    assert max(float(v.abs().max()) for v in full.values()) > 1e-3
    assert apart(full, gradients(2)) < 1e-7
    assert apart(full, gradients(1)) < 1e-7


def test_every_pass_shows_every_image_once_in_an_order_of_its_own(base: Path, pairs: list[Pair]) -> None:
    trained = trainer(base, pairs)
    samples = samples_of(trained, 0, 18)
    passes = [[s.text for s in samples[i : i + 6]] for i in (0, 6, 12)]
    assert [sorted(p) for p in passes] == [list(range(6))] * 3
    assert len({tuple(p) for p in passes}) > 1
    later = samples_of(trained, 7, 2)  # the same from the middle on
    for ours, theirs in zip(later, samples[7:9], strict=True):
        assert (ours.text, ours.timestep) == (theirs.text, theirs.timestep)
        assert torch.equal(ours.noise, theirs.noise)
    assert len({s.timestep for s in samples}) > 10
    noise = torch.stack([s.noise for s in samples])
    assert noise.shape == (18, 4, 16, 16)
    assert float(noise.mean()) == pytest.approx(0, abs=0.05)
    assert float(noise.std()) == pytest.approx(1, abs=0.05)


def test_prompts_are_dropped_and_images_flipped_as_often_as_asked(base: Path, pairs: list[Pair]) -> None:
    plain = samples_of(trainer(base, pairs), 0, 60)
    empty = len(pairs)  # the row after the prompts
    assert not any(s.text == empty for s in plain)
    dropped = samples_of(trainer(base, pairs, caption_dropout=0.5), 0, 60)
    assert 18 <= sum(s.text == empty for s in dropped) <= 42  # binomial(60, 0.5), more than 3 standard deviations
    flipped = samples_of(trainer(base, pairs, flip=True), 0, 60)
    mirrored = [torch.equal(a.pixels.flip(2), b.pixels) for a, b in zip(plain, flipped, strict=True)]
    unturned = [torch.equal(a.pixels, b.pixels) for a, b in zip(plain, flipped, strict=True)]
    assert all(a or b for a, b in zip(mirrored, unturned, strict=True))
    assert 18 <= sum(mirrored) <= 42
    both = samples_of(trainer(base, pairs, flip=True, caption_dropout=0.5), 0, 60)
    events = {(s.text == empty, torch.equal(a.pixels, s.pixels)) for a, s in zip(plain, both, strict=True)}
    assert len(events) == 4  # one does not decide the other
    for other in (dropped, flipped):  # one setting leaves the draws of another as they are
        assert [s.timestep for s in other] == [s.timestep for s in plain]
        assert all(torch.equal(a.noise, b.noise) for a, b in zip(plain, other, strict=True))


def test_images_that_are_not_square_are_squeezed_or_cropped(tmp_path: Path) -> None:
    wide = np.zeros((16, 32, 3), dtype=np.uint8)
    wide[:, :8] = 255  # a quarter of the width
    Image.fromarray(wide).save(tmp_path / "wide.png")
    full = stepping.read_pixels(tmp_path / "wide.png", 32, center_crop=False, flip=False)
    assert full.shape == (3, 32, 32)
    assert full.dtype == np.float32
    assert full[0].mean(axis=0)[[0, 4, 16, 31]] == pytest.approx([1, 1, -1, -1], abs=0.01)
    middle = stepping.read_pixels(tmp_path / "wide.png", 16, center_crop=True, flip=False)  # columns 8 to 24: all black
    assert middle == pytest.approx(np.full((3, 16, 16), -1.0))
    turned = stepping.read_pixels(tmp_path / "wide.png", 32, center_crop=False, flip=True)
    assert np.array_equal(turned, full[:, :, ::-1])


def scheduler(prediction_type: str) -> DDPMScheduler:
    # Products of (1 - beta) after each of two steps: 0.8 and 0.8 x 0.5 = 0.4, so signal to noise is 4 and 2/3.
    return DDPMScheduler(num_train_timesteps=2, trained_betas=[0.2, 0.5], prediction_type=prediction_type)


@pytest.mark.parametrize(
    ("prediction_type", "error", "weights"),
    [
        # Prediction 0, latents 2, noise 1. Errors: the square of the target. Weights with gamma 1, min(4, 1) = 1 and
        # min(2/3, 1) = 2/3: divided by s, by s + 1, by nothing.
        pytest.param("epsilon", (1.0, 1.0), (1 / 4, 1.0), id="noise"),
        # sqrt(0.8) x 1 - sqrt(0.2) x 2 = 0, squared 0; sqrt(0.4) - sqrt(0.6) x 2 = -0.91674, squared 0.84041
        pytest.param("v_prediction", (0.0, 0.84041), (1 / 5, 2 / 5), id="velocity"),
        pytest.param("sample", (4.0, 4.0), (1.0, 2 / 3), id="clean latents"),
    ],
)
def test_loss_and_its_weights(prediction_type: str, error: tuple[float, float], weights: tuple[float, float]) -> None:
    latents, noise = torch.full((2, 1, 1, 1), 2.0), torch.ones((2, 1, 1, 1))
    seen = []

    def predict(noisy: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        seen.append(noisy)
        return torch.zeros_like(noisy)

    args = predict, scheduler(prediction_type), latents, noise, torch.tensor([0, 1])
    assert model.denoising_loss(*args).tolist() == pytest.approx(error, abs=1e-5)
    weighted = model.denoising_loss(*args, snr_gamma=1.0).tolist()
    assert weighted == pytest.approx([e * w for e, w in zip(error, weights, strict=True)], abs=1e-5)
    # sqrt(0.8) x 2 + sqrt(0.2) x 1 = 2.23607; sqrt(0.4) x 2 + sqrt(0.6) = 2.03951
    assert seen[0].flatten().tolist() == pytest.approx([2.23607, 2.03951], abs=1e-5)


def test_a_schedule_that_ends_in_pure_noise_has_finite_weights() -> None:
    ends = DDPMScheduler(
        num_train_timesteps=10, beta_schedule="scaled_linear", rescale_betas_zero_snr=True, prediction_type="epsilon"
    )
    latents = torch.ones((1, 1, 1, 1))
    loss = model.denoising_loss(lambda x, _: x, ends, latents, latents * 0, torch.tensor([9]), snr_gamma=5.0)
    assert torch.isfinite(loss).all()


def test_prompts_are_encoded_as_the_pipeline_does(base: Path) -> None:
    source = model.load_base(str(base))
    pipeline = StableDiffusionPipeline.from_pretrained(base, local_files_only=True)
    texts = ["a photo of 2 dogs", "", "x" * 40]
    ids, mask, n_cut = model.tokenize(source, texts)
    assert n_cut == 1
    with torch.no_grad():
        ours = model.encode_texts(source.text_encoder, ids, mask)
        theirs = pipeline.encode_prompt(texts, "cpu", 1, False)[0]
    assert torch.equal(ours, theirs)


def test_latents_are_those_of_the_pipeline(base: Path) -> None:
    source = model.load_base(str(base))
    source.vae.register_to_config(scaling_factor=0.5)
    pixels = torch.rand((2, 3, 32, 32), generator=torch.Generator().manual_seed(0)) * 2 - 1
    posterior = source.vae.encode(pixels).latent_dist
    noise = torch.ones((2, 4, 16, 16))
    expected = 0.5 * (posterior.mean + posterior.std)
    assert torch.allclose(model.encode_images(source.vae, pixels, noise), expected)


def test_the_average_lags_behind_the_weights(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    folder = finetune(base, pairs, out=tmp_path, steps=2, ema_decay=0.5, **SHORT)
    saved = load_file(tmp_path / "checkpoint.safetensors")
    name = "unet.conv_in.weight"
    result = state(folder, "unet")["conv_in.weight"]
    assert torch.equal(result, saved[f"average.{name}"])
    one = finetune(base, pairs, out=tmp_path / "one", steps=1, **SHORT)
    w0, w1, w2 = (
        state(base, "unet")["conv_in.weight"], state(one, "unet")["conv_in.weight"], saved[f"weights.{name}"],
    )  # fmt: skip
    # The average keeps min(0.5, 1/10) = 0.1 in the first step and min(0.5, 2/11) = 2/11 in the second.
    assert torch.allclose(result, 2 / 11 * (0.1 * w0 + 0.9 * w1) + 9 / 11 * w2, atol=1e-7)


def test_learning_rates() -> None:
    def factor(schedule: Any, step: int, share: float, warm_up: int = 0) -> float:
        return FinetuneConfig(lr_schedule=schedule, lr_warmup_steps=warm_up).lr_factor(step, share)

    assert [factor("constant", s, 0.5, warm_up=4) for s in (0, 1, 3, 9)] == [0.25, 0.5, 1, 1]
    assert [factor("linear", 0, s) for s in (0, 0.25, 1)] == [1, 0.75, 0]
    assert [factor("cosine", 0, s) for s in (0, 0.5, 1)] == pytest.approx([1, 0.5, 0])


def test_a_loss_that_stays_infinite_ends_the_training(
    base: Path, pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = model.denoising_loss

    def broken(*args: Any, **kwargs: Any) -> torch.Tensor:
        return usual(*args, **kwargs) * float("nan")

    monkeypatch.setattr(model, "denoising_loss", broken)
    with pytest.raises(VerismError, match="the loss is not finite for 20 steps, at step 20; lower lr"):
        finetune(base, pairs, out=tmp_path, steps=50, **SHORT)
    monkeypatch.undo()
    once = [True]

    def stumbles(*args: Any, **kwargs: Any) -> torch.Tensor:
        return usual(*args, **kwargs) * (float("nan") if once and once.pop() else 1.0)

    monkeypatch.setattr(model, "denoising_loss", stumbles)
    folder = finetune(base, pairs, out=tmp_path / "on", steps=2, **SHORT)
    assert all(torch.isfinite(v).all() for v in state(folder, "unet").values())


# ------------------------------------------------------------------------------------------------------ what is refused
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say how long to train"),
        ({"steps": 2, "epochs": 1}, r"give steps \(2\) or epochs \(1\), not both"),
        ({"steps": 0}, r"steps must lie in \[1, inf\), got 0"),
        ({"epochs": 0.0}, r"epochs must lie in \(0, inf\), got 0.0"),
        ({"steps": 1, "batch_size": 0}, r"batch_size must lie in \[1, inf\), got 0"),
        ({"steps": 1, "lora_rank": 0}, r"lora_rank must lie in \[1, inf\), got 0"),
        ({"steps": 1, "lr": float("nan")}, r"lr must lie in \(0, inf\), got nan"),
        ({"steps": 1, "seed": -1}, r"seed must lie in \[0, inf\), got -1"),
        ({"steps": 1, "caption_dropout": 1.0}, r"caption_dropout must lie in \[0, 1\)"),
        ({"steps": 1, "ema_decay": 1.0}, r"ema_decay must lie in \(0, 1\), got 1.0"),
        ({"steps": 1, "lr_schedule": "steep"}, "lr_schedule must be one of constant, linear, cosine, got 'steep'"),
        ({"steps": 1, "mixed_precision": "int4"}, "mixed_precision must be one of auto, no, fp16, bf16"),
        ({"steps": 1, "mixed_precision": "fp16"}, "fp16 needs a GPU, not device cpu"),
        ({"steps": 1, "resolution": 30}, "resolution must be a multiple of 4 for this model, got 30"),
        ({"steps": 1, "device": "abacus"}, "cannot compute on device 'abacus'"),
    ],
)
def test_wrong_settings_are_refused(
    base: Path, pairs: list[Pair], tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        finetune(base, pairs, out=tmp_path / "out", **{"device": "cpu", **options})
    assert not (tmp_path / "out").exists()


def test_wrong_images_are_refused(base: Path, pairs: list[Pair], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no image to learn from"):
        finetune(base, [], out=tmp_path, steps=1, **SHORT)
    gone = Pair(image=tmp_path / "gone.png", text="dog", skill="object", scene_id="x")
    with pytest.raises(UsageError, match=r"gone\.png cannot be learnt from: No such file"):
        finetune(base, [*pairs, gone], out=tmp_path, steps=1, **SHORT)
    (tmp_path / "gone.png").write_text("not an image")
    with pytest.raises(UsageError, match=r"gone\.png cannot be learnt from: not an image file"):
        finetune(base, [gone], out=tmp_path, steps=1, **SHORT)


def test_one_process_on_one_device(
    base: Path, pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UsageError, match=r"one of 4 processes .* finetuning runs in one"):
        finetune(base, pairs, out=tmp_path, steps=1, **SHORT)


def test_a_model_in_the_hub_cache_is_told_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--org--tiny"
    tiny_pipeline(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    source = model.load_base("org/tiny", local_files_only=True)
    assert source.commit == commit
    assert (source.resolution, source.factor, source.prediction_type) == (32, 2, "epsilon")
    assert model.load_base(str(repository / "snapshots" / commit)).weights_sha256 == source.weights_sha256


def test_models_that_cannot_be_finetuned_are_named(
    pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        UsageError, match=r"cannot load the model nobody/nothing: .* Give a folder written by diffusers"
    ):
        finetune("nobody/nothing", pairs, out=tmp_path, steps=1, local_files_only=True, **SHORT)

    def variant(name: str, part: str, **changes: Any) -> Path:
        folder = tiny_pipeline(tmp_path / name)
        path = folder / part
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config | changes))
        return folder

    xl = variant("xl", "model_index.json", _class_name="StableDiffusionXLPipeline")
    with pytest.raises(UsageError, match=r"is a StableDiffusionXLPipeline, .* Supported are .* 1\.x and 2\.x"):
        finetune(xl, pairs, out=tmp_path, steps=1, **SHORT)
    odd = variant("odd", "scheduler/scheduler_config.json", prediction_type="flow")
    with pytest.raises(UsageError, match="prediction_type 'flow'; supported are epsilon, v_prediction, sample"):
        finetune(odd, pairs, out=tmp_path, steps=1, **SHORT)
    bare = tiny_pipeline(tmp_path / "bare")
    for file in bare.glob("unet/*.safetensors"):
        file.rename(file.with_suffix(".bin"))  # a pickle by its name: never opened
    with pytest.raises(UsageError, match=r"cannot load the model .*bare"):
        finetune(bare, pairs, out=tmp_path, steps=1, **SHORT)
    inpainting = tiny_pipeline(tmp_path / "inpainting")
    UNet2DConditionModel(
        in_channels=9, sample_size=16, block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=16,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=2, norm_num_groups=4,
    ).save_pretrained(inpainting / "unet")  # fmt: skip
    with pytest.raises(UsageError, match="has 9 input and 4 output channels for 4 latent ones"):
        finetune(inpainting, pairs, out=tmp_path, steps=1, **SHORT)
