"""What the pipeline adds to the time of a diffusers model: read the ratios, seconds differ between machines.

    python benchmarks/generation.py                                  a small Stable Diffusion with random weights
    python benchmarks/generation.py --model ID_OR_FOLDER --dtype auto --size 512 --steps 25

Three jobs take turns over the same requests in the same batches: ``bare`` calls the diffusers pipeline in a loop and
drops the images; ``generator`` asks verism's generator and drops them; ``run`` is a whole ``run_images`` without
judges: images made, encoded as PNG, hashed and stored, tables written. ``run`` may take 5 % more than ``bare``.

Seconds are of the clock. Beside them stand the processor seconds of all threads: they hold on a busy machine too, count
what ``run`` does on other threads while the model works, and mean little where a GPU does the work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verism.generators.diffusers_pipeline import DiffusersGenerator
    from verism.records import Request

LIMIT = 1.05
ANIMALS = ("dog", "cat", "horse", "bird", "bear", "sheep")


@dataclass(frozen=True)
class Measured:
    """Seconds of one job over all repetitions, and as shares of ``bare``."""

    job: str
    clock: str
    minimum_s: float
    median_s: float
    images: int
    ratio_of_minima: float
    ratio_of_medians: float
    note: str = ""

    def line(self) -> str:
        each = 1000 * self.minimum_s / self.images
        return (
            f"{self.clock:<10} {self.job:<10} min {self.minimum_s:>8.3f} s  median {self.median_s:>8.3f} s  "
            f"{each:>7.1f} ms/image   x {self.ratio_of_minima:.3f} (min)  x {self.ratio_of_medians:.3f} (median)  "
            f"{self.note}"
        )


def small_model(folder: Path) -> None:
    """Save a Stable Diffusion of about 10 million random weights: a tenth of a second an image and more on a core."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    letters = [chr(code) for code in range(33, 127)]
    tokens = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    torch.manual_seed(0)
    text = CLIPTextConfig(
        vocab_size=len(tokens), hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
        bos_token_id=len(tokens) - 2, eos_token_id=len(tokens) - 1, pad_token_id=1,
    )  # fmt: skip
    unet = UNet2DConditionModel(
        block_out_channels=(64, 128, 192), layers_per_block=1, sample_size=32, cross_attention_dim=128,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"), attention_head_dim=4,
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    vae = AutoencoderKL(
        block_out_channels=(32, 64, 64), down_block_types=("DownEncoderBlock2D",) * 3, latent_channels=4,
        up_block_types=("UpDecoderBlock2D",) * 3, sample_size=128,
    )  # fmt: skip
    StableDiffusionPipeline(
        vae=vae, text_encoder=CLIPTextModel(text).eval(), unet=unet, feature_extractor=None,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        tokenizer=CLIPTokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=[], model_max_length=77),
        safety_checker=None, requires_safety_checker=False,
    ).save_pretrained(folder)  # fmt: skip


def make_requests(count: int) -> list[Request]:
    from verism.pipeline.local import make_requests as requests_of
    from verism.records import Prompt

    texts = [f"a photo of {1 + k % 4} {ANIMALS[k % len(ANIMALS)]}" for k in range(count)]
    return requests_of([Prompt(prompt_id=f"p{k:05d}", suite="speed", text=text) for k, text in enumerate(texts)], 5)


def bare_job(
    generator: DiffusersGenerator, requests: Sequence[Request], options: argparse.Namespace
) -> Callable[[], None]:
    """The diffusers pipeline as its own documentation has people call it, on a model of its own."""
    import torch
    from diffusers import AutoPipelineForText2Image

    result = generator.describe()
    pipeline = AutoPipelineForText2Image.from_pretrained(
        options.model, revision=result.get("commit"), dtype=getattr(torch, result["dtype"])
    ).to(result["device"])
    pipeline.set_progress_bar_config(disable=True)
    batch = options.batch_size

    def job() -> None:
        for start in range(0, len(requests), batch):
            part = requests[start : start + batch]
            pipeline(
                [r.prompt.text for r in part],
                generator=[torch.Generator().manual_seed(r.seed) for r in part],
                num_inference_steps=options.steps,
                width=options.size,
                height=options.size,
            )

    return job


def measure(options: argparse.Namespace, folder: Path) -> list[Measured]:
    from verism.generators.diffusers_pipeline import DiffusersGenerator, Loading, Sampling
    from verism.manifest import RunSettings
    from verism.pipeline.local import run_images
    from verism.store import Run

    requests = make_requests(options.images)
    generator = DiffusersGenerator(
        options.model,
        loading=Loading(dtype=options.dtype),
        sampling=Sampling(steps=options.steps, width=options.size, height=options.size),
        batch_size=options.batch_size,
        device=options.device,
    )
    numbers = iter(range(10**6))

    def run() -> None:
        run_images(Run.start(folder / f"run-{next(numbers)}", RunSettings(suite="speed")), requests, generator, [])

    def alone() -> None:
        for result in generator.generate(requests):
            if result.state != "ok":
                raise RuntimeError(result.note)

    jobs = {"bare": bare_job(generator, requests, options), "generator": alone, "run": run}
    for job in jobs.values():  # weights load, kernels compile
        job()
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    seconds: dict[tuple[str, str], list[float]] = {(clock, name): [] for clock in clocks for name in jobs}
    for _ in range(options.repeats):
        # In turns, so that a busy moment of the machine hits all of them.
        for name, job in jobs.items():
            starts = {clock: read() for clock, read in clocks.items()}
            job()
            for clock, read in clocks.items():
                seconds[clock, name].append(read() - starts[clock])
    measured = []
    for (clock, name), times in seconds.items():
        peer = seconds[clock, "bare"]
        ratio, typical = min(times) / min(peer), statistics.median(times)
        note = "peer" if name == "bare" else ""
        if name == "run":
            note = f"{'within' if ratio <= LIMIT else 'ABOVE'} the limit of {LIMIT}"
        ratio_of_medians = typical / statistics.median(peer)
        measured.append(Measured(name, clock, min(times), typical, len(requests), ratio, ratio_of_medians, note))
    return measured


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a hub's id or a folder; a small model with random weights")
    parser.add_argument("--images", type=int, default=16, help="per job and repetition (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=4, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="(%(default)s)")
    parser.add_argument("--size", type=int, default=128, help="width and height in pixels (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="of all jobs, in turns (%(default)s)")
    parser.add_argument("--dtype", default="float32", help="(%(default)s)")
    parser.add_argument("--device", help="cuda, mps or cpu; the best there is")
    parser.add_argument("--threads", type=int, help="of torch on the processor")
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    options = parser.parse_args(argv)
    if min(options.images, options.batch_size, options.steps, options.repeats) < 1:
        parser.error("--images, --batch-size, --steps and --repeats must be at least 1")
    import torch

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.model is None:
            small_model(folder / "model")
            options.model = str(folder / "model")
        measured = measure(options, folder)
    if options.json:
        print(json.dumps([asdict(m) for m in measured], indent=1))
    else:
        for one in measured:
            print(one.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
