"""The programs of examples/recipes, each against a stub of its model's own interface, and the pages about them.

No weights: the stubs take the calls that the models' packages take, note the settings, draw random numbers as the
packages do and return tensors of the packages' shapes. What the models paint is not tested here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "examples" / "recipes"
PAGES = ROOT / "docs" / "recipes"

# The sampling settings of the papers and of the code they released: what must reach the models, and stand in the pages.
PUBLISHED: dict[str, dict[str, dict[str, Any]]] = {
    "dalle_small": {
        "released": {"filter_thres": 0.9, "temperature": 1.0},
        "paper": {"filter_thres": 0.0, "temperature": 1.0},
    },
    "rudalle_xl": {"released": {"top_k": 2048, "top_p": 0.995, "temperature": 1.0}},
    "mindalle": {"released": {"top_k": 256, "top_p": None, "softmax_temperature": 1.0}},
    "glide": {"released": {"steps": "100", "guidance": 3.0, "upsample_steps": "fast27", "upsample_temp": 0.997}},
    "cogview2_coglm": {"released": {"style": "mainbody"}, "paper": {"style": "none"}},
    "x_lxmert": {"released": {"steps": 4, "max_text_length": 20}},
}
PAGE = {
    "dalle_small": "dalle-small.md",
    "rudalle_xl": "rudalle-xl.md",
    "mindalle": "mindalle.md",
    "glide": "glide.md",
    "cogview2_coglm": "cogview2.md",
    "x_lxmert": "x-lxmert.md",
}
SCRIPTS = sorted(PUBLISHED)

# What every stub begins with: a note of each call, and images that show the random numbers that were drawn.
COMMON = '''
import json, os
import torch

def note(what, **values):
    with open(os.environ["STUB_LOG"], "a") as file:
        file.write(json.dumps({"what": what, **values}) + "\\n")

def refuse_bad(texts):
    if any("FAIL" in text for text in texts):
        raise RuntimeError("the stub cannot paint this")

def shades(values, size):
    """Plain pictures (N, 3, size, size), a shade in [0, 1] each."""
    return values.reshape(-1, 1, 1, 1).expand(-1, 3, size, size)
'''


@dataclass(frozen=True)
class Recipe:
    """A stub of the model's package and how the program is told of it."""

    stub: Mapping[str, str]  # modules by path
    arguments: tuple[str, ...] = ()
    size: int = 256
    batch: int = 4
    weights: Mapping[str, Any] = field(default_factory=dict)  # saved with torch.save; None: an empty file
    drop: str = ""  # the file without which the program must refuse to start


STUBS: dict[str, Recipe] = {
    "dalle_small": Recipe(
        stub={
            "dalle_pytorch/__init__.py": """
                from common import *

                class VQGanVAE(torch.nn.Module):
                    def __init__(self, vqgan_model_path=None, vqgan_config_path=None):
                        super().__init__()
                        print("Loaded VQGAN from", vqgan_model_path)  # the package does, on standard output
                        self.image_size, self.num_tokens, self.num_layers = 256, 1024, 4

                def top_k(logits, thres):
                    kept = max(int((1 - thres) * logits.shape[-1]), 1)
                    values, places = torch.topk(logits, kept)
                    return torch.full_like(logits, float("-inf")).scatter(1, places, values)

                class DALLE(torch.nn.Module):
                    def __init__(self, *, dim, vae, num_text_tokens, text_seq_len, depth):
                        super().__init__()
                        assert isinstance(vae, VQGanVAE)
                        self.scale = torch.nn.Parameter(torch.zeros(1))
                        self.text_seq_len, self.num_image_tokens = text_seq_len, vae.num_tokens
                        self.num_text_tokens = num_text_tokens + text_seq_len
                        self.total_tokens = self.num_text_tokens + vae.num_tokens

                    def generate_images(self, text, *, clip=None, mask=None, filter_thres=0.5, temperature=1.0):
                        assert text.shape[1] == self.text_seq_len and self.scale.item() == 2 and not self.training
                        if (text[:, 0] == ord("F")).any():
                            raise RuntimeError("the stub cannot paint this")
                        note("generate", batch=len(text), filter_thres=filter_thres, temperature=temperature,
                             tokens=text[0, :3].tolist())
                        logits = torch.linspace(0, 1, self.total_tokens).repeat(len(text), 1)
                        logits[:, : self.num_text_tokens] = -torch.finfo(logits.dtype).max
                        chances = torch.softmax(top_k(logits, filter_thres) / temperature, dim=-1)
                        drawn = torch.multinomial(chances, 1) - self.num_text_tokens
                        assert (drawn >= 0).all()
                        return shades(drawn / 1024, 256)
            """,
            "dalle_pytorch/tokenizer.py": """
                import torch

                class SimpleTokenizer:
                    def tokenize(self, texts, context_length=256, truncate_text=False):
                        assert truncate_text, "the released script truncates"
                        rows = [[ord(letter) for letter in text][:context_length] for text in texts]
                        return torch.tensor([row + [0] * (context_length - len(row)) for row in rows])

                tokenizer = SimpleTokenizer()
            """,
        },
        arguments=("--weights", "dalle.pt", "--vqgan", "vqgan.ckpt", "--vqgan-config", "vqgan.yml"),
        weights={
            "dalle.pt": {
                "hparams": {"dim": 512, "num_text_tokens": 49408, "text_seq_len": 128, "depth": 16, "vae": None},
                "vae_params": None,
                "weights": {"scale": torch.tensor([2.0])},
            },
            "vqgan.ckpt": None,
            "vqgan.yml": None,
        },
        drop="vqgan.yml",
    ),
    "rudalle_xl": Recipe(
        stub={
            "rudalle/__init__.py": """
                from common import *

                TEXT, PICTURE, WORDS, CODES = 8, 16, 50, 4096

                class Model(torch.nn.Module):
                    def get_param(self, name):
                        return {"text_seq_length": TEXT, "image_seq_length": PICTURE, "vocab_size": WORDS,
                                "total_seq_length": TEXT + PICTURE}[name]

                    def forward(self, input_ids, attention_mask, return_loss=False, has_cache=False, use_cache=False):
                        rows, length = input_ids.shape
                        assert attention_mask.shape == (rows, 1, TEXT + PICTURE, TEXT + PICTURE)
                        assert (attention_mask[0, 0] == torch.tril(torch.ones(TEXT + PICTURE, TEXT + PICTURE))).all()
                        assert has_cache == (length > TEXT) and use_cache and not return_loss and not self.training
                        if length == TEXT:
                            note("paint", batch=rows, tokens=input_ids[0].tolist())
                        # Code k is as likely as k: the smallest are cut off by top-k, and nearly none by top-p.
                        codes = torch.arange(CODES).float().clamp(min=1e-9).log().repeat(rows, length, 1)
                        words = torch.full((rows, length, WORDS), 99.0)
                        return torch.cat((words, codes), dim=2), True

                class Vae(torch.nn.Module):
                    def decode(self, codes):
                        assert codes.shape[1] == PICTURE and (codes >= 0).all() and (codes < CODES).all()
                        note("codes", smallest=int(codes.min()), largest=int(codes.max()))
                        return shades(codes.float().mean(1) / CODES, 256)

                class Tokenizer:
                    def encode_text(self, text, text_seq_length, bpe_dropout=0.0):
                        refuse_bad([text.upper()])
                        row = [2] + [ord(letter) % WORDS for letter in text] + [3]
                        return torch.tensor((row + [0] * text_seq_length)[:text_seq_length])

                def get_rudalle_model(name, pretrained=True, fp16=False, device="cpu", cache_dir="/tmp/rudalle"):
                    print("Malevich is 1.3 billion params model")
                    note("load", name=name, pretrained=pretrained, fp16=fp16, device=device)
                    return Model()

                def get_vae(pretrained=True, dwt=False, cache_dir="/tmp/rudalle"):
                    assert pretrained and not dwt
                    return Vae()

                def get_tokenizer(path=None, cache_dir="/tmp/rudalle"):
                    return Tokenizer()
            """,
        },
        arguments=("--translations", "ru.tsv", "--missing", "missing.tsv"),
        weights={"ru.tsv": "a dog\tСОБАКА \na bus\tавтобус\n\na FAIL\tFAIL\n"},
        drop="ru.tsv",
    ),
    "mindalle": Recipe(
        stub={
            "minDALL-E/dalle/__init__.py": "",
            "minDALL-E/dalle/utils/__init__.py": "",
            "minDALL-E/dalle/utils/sampling.py": """
                from common import *

                def sampling(model, tokens, top_k=None, top_p=None, softmax_temperature=1.0, is_tqdm=True,
                             use_fp16=True, max_seq_len=256):
                    assert tokens.shape[1] == 64 and model == "stage2"
                    if (tokens[:, 0] == ord("F")).any():
                        raise RuntimeError("the stub cannot paint this")
                    note("sampling", batch=len(tokens), top_k=top_k, top_p=top_p, use_fp16=use_fp16,
                         softmax_temperature=softmax_temperature, tokens=tokens[0, :3].tolist())
                    chances = torch.ones(len(tokens), 16384)
                    return torch.cat([torch.multinomial(chances, num_samples=1) for _ in range(max_seq_len)], axis=1)
            """,
            "minDALL-E/dalle/models/__init__.py": """
                from common import *

                class Encoding:
                    def __init__(self, text):
                        self.ids = ([ord(letter) for letter in text] + [0] * 64)[:64]

                class Tokenizer:
                    def encode(self, text):
                        return Encoding(text)

                class Stage(str):
                    def eval(self):
                        return self

                class Stage1(Stage):
                    def decode_code(self, codes):
                        assert codes.shape[1:] == (16, 16)
                        return shades(codes.float().flatten(1).mean(1) / 16384 * 2 - 1, 256)

                class Dalle(torch.nn.Module):
                    @classmethod
                    def from_pretrained(cls, path):
                        print(path, "successfully restored..")
                        assert os.path.isfile(os.path.join(path, "config.yaml"))
                        model = cls()
                        model.tokenizer, model.stage1, model.stage2 = Tokenizer(), Stage1("stage1"), Stage("stage2")
                        return model
            """,
        },
        arguments=("--repository", "stub/minDALL-E", "--weights", "1.3B"),
        weights={f"1.3B/{name}": None for name in ("config.yaml", "tokenizer", "stage1_last.ckpt", "stage2_last.ckpt")},
        drop="1.3B/stage2_last.ckpt",
    ),
    "glide": Recipe(
        stub={
            "glide_text2im/__init__.py": "",
            "glide_text2im/download.py": """
                def load_checkpoint(name, device, progress=True, cache_dir=None, chunk_size=4096):
                    raise AssertionError("the file is there, and nothing is to be downloaded")
            """,
            "glide_text2im/model_creation.py": """
                from common import *

                def model_and_diffusion_defaults():
                    return {"image_size": 64, "text_ctx": 128, "timestep_respacing": "", "use_fp16": True,
                            "super_res": False}

                def model_and_diffusion_defaults_upsampler():
                    return dict(model_and_diffusion_defaults(), image_size=256, super_res=True)

                class Tokenizer:
                    def encode(self, text):
                        refuse_bad([text])
                        return [ord(letter) for letter in text]

                    def padded_tokens_and_mask(self, tokens, length):
                        tokens = tokens[:length]
                        padding = length - len(tokens)
                        return tokens + [0] * padding, [True] * len(tokens) + [False] * padding

                class UNet(torch.nn.Module):
                    def __init__(self, large):
                        super().__init__()
                        self.tokenizer, self.large = Tokenizer(), large
                        self.scale = torch.nn.Parameter(torch.zeros(1))

                    def convert_to_fp16(self):
                        raise AssertionError("no half precision without a GPU")

                    def del_cache(self):
                        pass

                    def forward(self, x, steps, tokens=None, mask=None, low_res=None):
                        # Six channels: noise and variance. With a prompt the noise is 1, without it is 0.25.
                        assert len(x) == len(steps) == len(tokens) == len(mask) and mask.dtype == torch.bool
                        assert (low_res is not None) == self.large and self.scale.item() == 2
                        level = torch.where(mask.any(1), 1.0, 0.25).reshape(-1, 1, 1, 1)
                        return torch.cat([x * 0 + level, x * 0], dim=1)

                class Diffusion:
                    def __init__(self, respacing):
                        self.respacing = respacing

                    def p_sample_loop(self, model, shape, noise=None, clip_denoised=True, denoised_fn=None,
                                      cond_fn=None, model_kwargs=None, device=None, progress=False):
                        image = noise if noise is not None else torch.randn(*shape, device=device)
                        predicted = model(image, torch.zeros(shape[0]), **model_kwargs)
                        assert predicted.shape == (shape[0], 6, *shape[2:]) and cond_fn is None and clip_denoised
                        note("base", rows=shape[0], size=shape[2], steps=self.respacing,
                             guided=predicted[0, 0, 0, 0].item(), prompts=model_kwargs["mask"].any(1).tolist())
                        image = image + torch.randn_like(image)
                        return shades((torch.sigmoid(image.flatten(1)[:, :4].sum(1)) * 2 - 1), shape[2])

                    def ddim_sample_loop(self, model, shape, noise=None, clip_denoised=True, denoised_fn=None,
                                         cond_fn=None, model_kwargs=None, device=None, progress=False, eta=0.0):
                        small = model_kwargs["low_res"]
                        assert small.shape == (shape[0], 3, 64, 64) and eta == 0
                        model(noise, torch.zeros(shape[0]), **model_kwargs)
                        eight_bits = (small + 1) * 127.5
                        assert torch.allclose(eight_bits, eight_bits.round(), atol=1e-3)
                        note("upsample", rows=shape[0], size=shape[2], steps=self.respacing, noise=noise.std().item())
                        return torch.nn.functional.interpolate(small, shape[2:]) + noise * 0

                def create_model_and_diffusion(**options):
                    assert options["use_fp16"] is False
                    return UNet(options["super_res"]), Diffusion(options["timestep_respacing"])
            """,
        },
        arguments=("--weights", "cache"),
        weights={f"cache/{name}.pt": {"scale": torch.tensor([2.0])} for name in ("base", "upsample")},
        drop="cache/upsample.pt",
    ),
    "cogview2_coglm": Recipe(
        stub={
            "SwissArmyTransformer/__init__.py": """
                import argparse

                def get_args(options):
                    parser = argparse.ArgumentParser()
                    parser.add_argument("--mode")
                    parser.add_argument("--fp16", action="store_true")
                    parser.add_argument("--batch-size", type=int)
                    parser.add_argument("--max-inference-batch-size", type=int)
                    given = parser.parse_args(options)
                    given.device = "cpu"
                    return given
            """,
            "SwissArmyTransformer/generation/__init__.py": "",
            "SwissArmyTransformer/generation/autoregressive_sampling.py": """
                from common import *

                def filling_sequence(model, seq, batch_size, strategy=None, max_memory_length=100000,
                                     log_attention_weights=None, get_masks_and_position_ids=None, mems=None):
                    context = int((seq >= 0).sum())
                    assert (seq[:context] >= 0).all() and (seq[context:] == -1).all() and len(seq) == context + 400
                    assert strategy.start_pos == context
                    tokens, mask, positions = get_masks_and_position_ids(seq)
                    assert mask == context - 1, "the token that begins the picture is not context"
                    weights = log_attention_weights
                    note("fill", batch=batch_size, mode=model.args.mode, fp16=model.args.fp16,
                         inverse_prompt=model.args.inverse_prompt, weight=round(weights[0, 0].item(), 3),
                         weighted=int((weights[0] != 0).sum()), context=context)
                    drawn = torch.stack([strategy.forward(20000) for _ in range(400)])
                    return torch.cat([seq[:context], drawn]).unsqueeze(0), None
            """,
        },
        arguments=("--repository", "repository", "--weights", "sat"),
        size=480,
        batch=1,
        weights={
            "sat/coglm": None,
            "sat/cogview2-dsr": None,
            "sat/cogview2-itersr": None,
            "repository/cluster_label.npy": None,
            "repository/coglm_strategy.py": """
                from common import *

                class CoglmStrategy:
                    def __init__(self, invalid_slices=[], temperature=1.0, top_k=200, eps=1e-4, top_p=0.0,
                                 end_tokens=None, top_k_cluster=1.0):
                        open("cluster_label.npy").close()  # by its bare name, as the released code does
                        assert invalid_slices == [slice(20000, None)]
                        note("strategy", temperature=temperature, top_k=top_k, top_k_cluster=top_k_cluster)

                    def forward(self, number):
                        return torch.multinomial(torch.ones(number), num_samples=1)[0]
            """,
            "repository/cogview2_text2image.py": """
                from common import *

                class tokenizer:
                    num_image_tokens = 20000

                    @staticmethod
                    def encode(text):
                        refuse_bad([text])
                        assert text.endswith("<start_of_image>")
                        note("text", text=text)
                        return [ord(letter) for letter in text[: -len("<start_of_image>")]] + [20000]

                    @staticmethod
                    def decode(image_ids):
                        assert image_ids.shape == (3600,)
                        return shades(image_ids.float().mean().reshape(1) / 20000, 480)

                def get_masks_and_position_ids_coglm(seq, context_length):
                    return seq.unsqueeze(0), context_length, None

                def get_recipe(name):
                    recipe = {"attn_plus": 1.4, "temp_all_gen": 1.15, "topk_gen": 16, "temp_cluster_gen": 1.0,
                              "temp_all_dsr": 1.5, "topk_dsr": 100, "temp_cluster_dsr": 0.89,
                              "temp_all_itersr": 1.3, "topk_itersr": 16, "query_template": "{}<start_of_image>"}
                    if name == "mainbody":
                        recipe["query_template"] = "{} 高清摄影 隔绝<start_of_image>"
                    return recipe

                class InferenceModel:
                    @classmethod
                    def from_pretrained(cls, args, name):
                        print("Converting", name)
                        assert os.path.isdir(os.path.join(os.environ["SAT_HOME"], name)) or name == "coglm"
                        model = cls()
                        model.args = args
                        return model, args
            """,
            "repository/sr_pipeline/__init__.py": """
                from common import *

                class SRGroup:
                    def __init__(self, args):
                        note("enlarge", temp_all_dsr=args.temp_all_dsr, topk_dsr=args.topk_dsr,
                             temp_cluster_dsr=args.temp_cluster_dsr, temp_all_itersr=args.temp_all_itersr,
                             topk_itersr=args.topk_itersr)

                    def sr_base(self, picture, text):
                        print("Direct super-resolution...")  # the released code does, for every picture
                        assert picture.shape == (1, 400) and text.dim() == 1 and (text != 20000).all()
                        return picture.repeat_interleave(9, dim=1)
            """,
        },
        drop="sat/cogview2-itersr",
    ),
    "x_lxmert": Recipe(
        stub={},
        arguments=("--repository", "repository"),
        batch=1,
        weights={
            "repository/x-lxmert/src/tasks/__init__.py": "",
            "repository/x-lxmert/src/tasks/imggen_model.py": """
                from common import *

                class ImggenModel(torch.nn.Module):
                    def __init__(self, config, args, num_clusters=10000):
                        super().__init__()
                        self.bert = torch.nn.Linear(2, 2)
                        self.cls = torch.nn.Linear(2, 2)  # not in the checkpoint, and not needed to paint
                        self.mask_feat = torch.nn.Parameter(torch.zeros(2))

                    @classmethod
                    def from_pretrained(cls, name, *more, **kwargs):
                        assert name == "bert-base-uncased"
                        return cls(None, *more, **kwargs)

                    def set_visual_embedding(self, centroids):
                        note("centroids", shape=list(centroids.shape))

                    def set_image_generator(self, generator):
                        self.G = generator

                    def sample_image_NAR(self, sentences, max_text_length=20, n_steps=None, return_intermediate=False):
                        refuse_bad(sentences)
                        assert len(sentences) == 1, "the released code does not pad"
                        assert (self.bert.weight == 3).all() and not self.training
                        note("sample", batch=1, n_steps=n_steps, max_text_length=max_text_length, text=sentences[0])
                        return self.G(torch.zeros(1, 2048, 8, 8))
            """,
            "repository/image_generator/src/layers.py": """
                from common import *

                class Generator(torch.nn.Module):
                    def __init__(self, emb_dim=2048, mod_dim=128, base_dim=64, n_channel=3, target_size=16,
                                 extra_layers=0, init_H=8, init_W=8, norm_type="spade_in", SN=True, codebook_dim=256):
                        super().__init__()
                        self.size, self.conv = target_size, torch.nn.Linear(2, 2)
                        note("generator", base_dim=base_dim, emb_dim=emb_dim, target_size=target_size,
                             grid=[init_H, init_W], codebook_dim=codebook_dim)

                    def forward(self, codes):
                        assert (self.conv.weight == 3).all()
                        noise = codes.new_empty(len(codes), 1, 8, 8).normal_()  # the released generator adds noise
                        return shades(torch.sigmoid(noise.flatten(1)[:, 0]), self.size)
            """,
            "repository/x-lxmert/snap/pretrained/x_lxmert/Epoch20_LXRT.pth": {
                "module.bert.weight": torch.full((2, 2), 3.0),
                "module.bert.bias": torch.zeros(2),
                "module.mask_feat": torch.zeros(2),
                "module.vis_emb.weight": torch.zeros(10000, 4),
            },
            "repository/image_generator/snap/pretrained/G_60.pth": {
                "module.conv.weight": torch.full((2, 2), 3.0),
                "module.conv.bias": torch.zeros(2),
            },
        },
        drop="repository/image_generator/snap/pretrained/G_60.pth",
    ),
}


def set_up(recipe: Recipe, folder: Path) -> None:
    """Write the stub and the files that stand for weights."""
    (folder / "stub").mkdir(parents=True)
    (folder / "stub" / "common.py").write_text(COMMON, encoding="utf-8")
    for name, source in recipe.stub.items():
        path = folder / "stub" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source), encoding="utf-8")
    for name, content in recipe.weights.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None and not path.suffix:
            path.mkdir()
        elif content is None or isinstance(content, str):
            path.write_text(dedent(content or ""), encoding="utf-8")
        else:
            torch.save(content, path)


# Runs programs as a new Python would, each in a process of its own that has loaded torch already.
FORKING = """
import json, os, runpy, sys
import numpy, PIL.Image, torch
for line in sys.stdin:
    call = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(call["folder"])
        os.environ.update(call["environment"])
        for number, name in enumerate(call["streams"]):
            os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False) for number in range(3)
        )
        sys.argv = call["words"]
        sys.path[:1] = [os.path.dirname(sys.argv[0]), call["environment"]["PYTHONPATH"]]
        code = 1
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def forking() -> subprocess.Popen[str]:
    """The process of ``FORKING``; it ends with this one, whose end it reads from."""
    if not hasattr(os, "fork"):
        pytest.skip("programs are forked")
    return subprocess.Popen([sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start(
    script: str, folder: Path, requests: list[dict[str, Any]], *more: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run a recipe as verism does: the finished program, and its answers."""
    recipe = STUBS[script]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "stub"),
        "STUB_LOG": str(folder / "log.jsonl"),
        "VERISM_OUT": str(folder / "out"),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    (folder / "out").mkdir(exist_ok=True)
    batch = ("--batch-size", str(recipe.batch)) if recipe.batch > 1 else ()
    words = [str(RECIPES / f"{script}.py"), *recipe.arguments, *batch, *more]
    streams = [folder / f"standard-{number}" for number in range(3)]
    streams[0].write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    call = {"words": words, "environment": environment, "folder": str(folder), "streams": [str(s) for s in streams]}
    server = forking()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(call) + "\n")
    server.stdin.flush()
    code = int(server.stdout.readline())
    out, err = (stream.read_text(encoding="utf-8") for stream in streams[1:])
    return subprocess.CompletedProcess(words, code, out, err), [json.loads(line) for line in out.splitlines()]


def request(image_id: str, prompt: str, seed: int, folder: Path) -> dict[str, Any]:
    path = str(folder / "out" / f"{image_id}.png")
    return {"image_id": image_id, "prompt_id": image_id, "prompt": prompt, "index": 0, "seed": seed, "path": path}


@dataclass(frozen=True)
class Run:
    """One run of a recipe: four images that fit a batch, then one of them again in other company."""

    code: int
    errors: str
    hello: dict[str, Any]
    answers: dict[str, dict[str, Any]]
    order: list[str]
    log: list[dict[str, Any]]
    pixels: dict[str, np.ndarray]
    folder: Path

    def calls(self, what: str) -> list[dict[str, Any]]:
        return [call for call in self.log if call["what"] == what]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """Filled on first use: each recipe is run once."""
    return {}


@pytest.fixture
def run(request: pytest.FixtureRequest, runs: dict[str, Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    script = request.param
    if script not in runs:
        folder = tmp_path_factory.mktemp(script)
        set_up(STUBS[script], folder)
        asked = [
            ("first", "a dog", 1), ("other-seed", "a dog", 2), ("other-prompt", "a bus", 3), ("fourth", "a dog", 4),
            ("first-again", "a dog", 1), ("bad", "FAIL" if script != "rudalle_xl" else "a FAIL", 5),
        ]  # fmt: skip
        done, lines = start(script, folder, [request_of(*one, folder) for one in asked])
        answers = {answer["image_id"]: answer for answer in lines[1:]}
        pixels = {k: np.asarray(Image.open(a["path"])) for k, a in answers.items() if "path" in a}
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        order = [answer["image_id"] for answer in lines[1:]]
        runs[script] = Run(done.returncode, done.stderr, lines[0], answers, order, log, pixels, folder)
    return runs[script]


request_of = request  # the fixture above has an argument of that name

every = pytest.mark.parametrize("run", SCRIPTS, indirect=True)


def one(script: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", [script], indirect=True)


# --------------------------------------------------------------------------------------------------------------------
# All recipes
# --------------------------------------------------------------------------------------------------------------------
@every
def test_every_request_is_answered_once_and_in_order(run):
    assert run.code == 0, run.errors
    assert run.order == ["first", "other-seed", "other-prompt", "fourth", "first-again", "bad"], run.errors


@every
def test_images_are_files_of_the_models_size(run, request):
    size = STUBS[request.node.callspec.params["run"]].size
    assert sorted(run.pixels) == ["first", "first-again", "fourth", "other-prompt", "other-seed"], run.errors
    assert {pixels.shape for pixels in run.pixels.values()} == {(size, size, 3)}


@every
def test_an_image_depends_on_its_seed_and_not_on_its_neighbours(run):
    shade = {name: int(pixels[0, 0, 0]) for name, pixels in run.pixels.items()}
    assert shade["first"] == shade["first-again"]
    assert len({shade["first"], shade["other-seed"], shade["fourth"]}) == 3


@every
def test_an_image_that_fails_does_not_end_the_program(run):
    assert run.answers["bad"]["state"] == "failed"
    assert "the stub cannot paint this" in run.answers["bad"]["note"]


@every
def test_what_the_model_prints_is_not_taken_for_an_answer(run):
    assert set(run.hello) == {"name", "python"}


@every
def test_the_name_holds_the_settings(run, request):
    script = request.node.callspec.params["run"]
    default = "paper" if script == "cogview2_coglm" else "released"
    for key, value in PUBLISHED[script][default].items():
        assert re.search(rf"[?&]{key}={re.escape(str(value))}(&|$)", run.hello["name"]), run.hello


@pytest.mark.parametrize("script", SCRIPTS)
def test_missing_weights_are_named(script, tmp_path):
    set_up(STUBS[script], tmp_path)
    gone = tmp_path / STUBS[script].drop
    gone.rmdir() if gone.is_dir() else gone.unlink()
    done, answers = start(script, tmp_path, [request("x", "a dog", 1, tmp_path)])
    assert (done.returncode, answers) == (2, [])
    (line,) = done.stderr.splitlines()
    assert gone.name in line
    assert re.search(r"--[a-z]|docs/recipes", line), "what to do"


def test_a_wrong_environment_is_named(tmp_path):
    set_up(STUBS["dalle_small"], tmp_path)
    (tmp_path / "stub" / "dalle_pytorch" / "__init__.py").unlink()
    (tmp_path / "stub" / "dalle_pytorch" / "tokenizer.py").unlink()
    (tmp_path / "stub" / "dalle_pytorch").rmdir()
    done, answers = start("dalle_small", tmp_path, [request("x", "a dog", 1, tmp_path)])
    assert (done.returncode, answers) == (2, [])
    assert "not the environment of the model: No module named 'dalle_pytorch'" in done.stderr


# --------------------------------------------------------------------------------------------------------------------
# Each model: what reached it
# --------------------------------------------------------------------------------------------------------------------
@one("dalle_small")
def test_dalle_small(run):
    calls = run.calls("generate")
    assert calls[0] == {"what": "generate", "batch": 4, "filter_thres": 0.9, "temperature": 1.0,
                        "tokens": [ord(letter) for letter in "a d"]}  # fmt: skip
    # 49,408 words + 128 paddings + 1,024 image tokens = 50,560 logits; int(0.1 * 50,560) = 5,055 after rounding.
    assert "filter_thres 0.9 keeps 5055 of 50560 logits; 1024 are image tokens: no image token is filtered out" in (
        run.errors
    )


@one("dalle_small")
def test_dalle_small_of_the_paper_paints_the_same(run):
    # The paper's appendix filters nothing, the code keeps the top tenth: both keep all image tokens.
    asked = [request("paper", "a dog", 1, run.folder)]
    done, lines = start("dalle_small", run.folder, asked, "--settings", "paper")
    assert lines[0]["name"] == "dalle-small?filter_thres=0.0&temperature=1.0", done.stderr
    assert json.loads((run.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])["filter_thres"] == 0.0
    assert np.array_equal(np.asarray(Image.open(lines[1]["path"])), run.pixels["first"])


@one("rudalle_xl")
def test_rudalle(run):
    assert run.calls("load") == [
        {"what": "load", "name": "Malevich", "pretrained": True, "fp16": False, "device": "cpu"}
    ]  # half precision on a GPU only
    paint = run.calls("paint")
    assert paint[0]["batch"] == 4
    # "СОБАКА " of the file, in lower case and stripped: 2, six letters, 3.
    assert paint[0]["tokens"] == [2, *(ord(letter) % 50 for letter in "собака"), 3]
    # Of codes 0 ... 4095, likely in proportion, top-k 2048 leaves 2048 ... 4095.
    assert min(call["smallest"] for call in run.calls("codes")) >= 2048


def test_rudalle_asks_for_translations(tmp_path):
    set_up(STUBS["rudalle_xl"], tmp_path)
    done, answers = start(
        "rudalle_xl", tmp_path, [request("x", "a cat", 1, tmp_path), request("y", "a dog", 1, tmp_path)]
    )
    assert [answer.get("state") for answer in answers[1:]] == ["failed", None], done.stderr
    assert "no Russian translation of 'a cat'" in answers[1]["note"]
    assert "--translations" in answers[1]["note"]
    assert (tmp_path / "missing.tsv").read_text(encoding="utf-8") == "a cat\t\n"


@pytest.fixture
def rudalle(monkeypatch):
    """The module itself, for its functions."""
    monkeypatch.syspath_prepend(str(RECIPES))
    import importlib

    return importlib.import_module("rudalle_xl")


def test_rudalle_reads_translations(rudalle, tmp_path):
    scenes = tmp_path / "object_val_ru.json"
    scenes.write_text(json.dumps({"data": [{"id": "x", "text": "a dog", "ru_text": "собака"}]}), encoding="utf-8")
    assert rudalle.read_translations(str(scenes)) == {"a dog": "собака"}
    table = tmp_path / "ru.tsv"
    table.write_text("a dog\tсобака\n\na bus\t\n", encoding="utf-8")
    assert rudalle.read_translations(str(table)) == {"a dog": "собака"}
    table.write_text("a dog\tсобака\n\na dog\tпёс\n", encoding="utf-8")
    with pytest.raises(rudalle.kit.Missing, match="line 3: a second translation of 'a dog'"):
        rudalle.read_translations(str(table))
    table.write_text("a dog;собака\n", encoding="utf-8")
    with pytest.raises(rudalle.kit.Missing, match="line 1: expected prompt, tab, Russian"):
        rudalle.read_translations(str(table))


def test_rudalle_asks_the_translator_once(rudalle):
    asked = []
    russian = rudalle.Translations({"a dog": "собака"}, lambda prompt: asked.append(prompt) or prompt.upper())
    assert [russian("a dog"), russian("a bus"), russian("a bus")] == ["собака", "A BUS", "A BUS"]
    assert asked == ["a bus"]


def test_rudalle_filter_by_hand(rudalle):
    # Chances 0.5, 0.3, 0.1, 0.1: top-k 3 drops the lesser of the last (a tie with the third stays); of the rest
    # 0.5 is not yet above 0.7, 0.5 + 0.3 is: the second crosses the limit and stays, what follows goes.
    logits = torch.tensor([[0.1, 0.5, 0.3, 0.1]]).log()
    kept = torch.isfinite(rudalle.filtered(logits, 4, 0.7))
    assert kept.tolist() == [[False, True, True, False]]
    assert torch.isfinite(rudalle.filtered(logits, 3, 1.0)).tolist() == [[True, True, True, True]]
    assert torch.isfinite(rudalle.filtered(logits, 2, 1.0)).tolist() == [[False, True, True, False]]
    assert torch.isfinite(rudalle.filtered(logits, 1, 0.995)).tolist() == [[False, True, False, False]]


@one("mindalle")
def test_mindalle(run):
    assert run.calls("sampling")[0] == {"what": "sampling", "batch": 4, "top_k": 256, "top_p": None, "use_fp16": False,
                                        "softmax_temperature": 1.0, "tokens": [97, 32, 100]}  # fmt: skip


def test_mindalle_keeps_the_released_limit(tmp_path):
    set_up(STUBS["mindalle"], tmp_path)
    done, _ = start("mindalle", tmp_path, [], "--top-k", "300")
    assert done.returncode == 2
    assert "--top-k must be 1 to 256, as in the released script; got 300" in done.stderr


@one("glide")
def test_glide(run):
    base, upsample = run.calls("base")[0], run.calls("upsample")[0]
    assert (base["rows"], base["size"], base["steps"]) == (8, 64, "100")  # with and without prompt
    assert base["prompts"] == [True] * 4 + [False] * 4
    assert base["guided"] == pytest.approx(0.25 + 3.0 * (1 - 0.25))  # without + scale x (with - without) = 2.5
    assert (upsample["rows"], upsample["size"], upsample["steps"]) == (4, 256, "fast27")
    assert upsample["noise"] == pytest.approx(0.997, abs=0.004)  # 4 x 3 x 256 x 256 draws: standard error 0.0008


@one("cogview2_coglm")
def test_cogview2(run):
    assert run.calls("strategy") == [{"what": "strategy", "temperature": 1.15, "top_k": 16, "top_k_cluster": 1.0}]
    assert run.calls("enlarge") == [
        {"what": "enlarge", "temp_all_dsr": 1.5, "topk_dsr": 100, "temp_cluster_dsr": 0.89, "temp_all_itersr": 1.3,
         "topk_itersr": 16}
    ]  # fmt: skip
    assert run.calls("text")[0]["text"] == "a dog<start_of_image>"  # no words of style
    # Five letters and the token that begins the image: context of six, of which five are text.
    assert run.calls("fill")[0] == {"what": "fill", "batch": 1, "mode": "inference", "fp16": True, "weight": 1.4,
                                    "inverse_prompt": False, "weighted": 5, "context": 6}  # fmt: skip


def test_cogview2_as_released_adds_words_of_style(tmp_path):
    set_up(STUBS["cogview2_coglm"], tmp_path)
    done, lines = start("cogview2_coglm", tmp_path, [request("x", "a dog", 1, tmp_path)], "--settings", "released")
    assert lines[0]["name"] == "cogview2?style=mainbody", done.stderr
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert "a dog 高清摄影 隔绝<start_of_image>" in [call.get("text") for call in log]


@one("x_lxmert")
def test_x_lxmert(run):
    assert run.calls("sample")[0] == {"what": "sample", "batch": 1, "n_steps": 4, "max_text_length": 20,
                                      "text": "a dog"}  # fmt: skip
    assert run.calls("generator") == [
        {"what": "generator", "base_dim": 32, "emb_dim": 2048, "target_size": 256, "grid": [8, 8], "codebook_dim": 256}
    ]
    assert run.calls("centroids") == [{"what": "centroids", "shape": [10000, 4]}]  # those of the checkpoint


def test_x_lxmert_refuses_weights_that_do_not_fit(tmp_path):
    set_up(STUBS["x_lxmert"], tmp_path)
    checkpoint = tmp_path / "repository/x-lxmert/snap/pretrained/x_lxmert/Epoch20_LXRT.pth"
    torch.save({"module.mask_feat": torch.zeros(2), "module.vis_emb.weight": torch.zeros(10, 4)}, checkpoint)
    done, answers = start("x_lxmert", tmp_path, [request("x", "a dog", 1, tmp_path)])
    assert (done.returncode, answers) == (2, [])
    assert "lacks 2 of the model's weights, such as bert.weight" in done.stderr


# --------------------------------------------------------------------------------------------------------------------
# Random numbers of one's own
# --------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def kit(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES))
    import importlib

    return importlib.import_module("recipe_kit")


def test_rows_are_drawn_as_if_alone(kit):
    def draws(seeds):
        with kit.OwnNumbers(seeds):
            normal = torch.randn(2 * len(seeds), 5)  # doubled, as for guidance: row i and row i + n are one image's
            like = torch.randn_like(torch.zeros(len(seeds), 3))
            tokens = torch.multinomial(torch.ones(len(seeds), 1000), 1)
        return [torch.cat([normal[i], normal[i + len(seeds)], like[i], tokens[i]]) for i in range(len(seeds))]

    together, alone = draws([7, 8, 9]), [draws([seed])[0] for seed in (7, 8, 9)]
    assert all(torch.equal(a, b) for a, b in zip(together, alone))
    assert len({tuple(row.tolist()) for row in together}) == 3
    assert not isinstance(getattr(torch.multinomial, "__self__", None), kit.OwnNumbers)  # as it was before


def test_draws_that_cannot_be_split_are_errors(kit):
    with kit.OwnNumbers([1, 2]), pytest.raises(ValueError, match="3 rows of random numbers for 2 images"):
        torch.randn(3, 4)
    with kit.OwnNumbers([1, 2]) as numbers:
        torch.rand(2)  # some other way to draw
    with pytest.raises(kit.Missing, match="--batch-size 1"):
        numbers.check()


def test_images_that_are_no_numbers_are_errors(kit):
    with pytest.raises(ValueError, match="not finite"):
        kit.to_image(torch.full((3, 4, 4), float("nan")))
    # 0.5 x 255 = 127.5: cut off 127, rounded 128.
    half = torch.full((3, 4, 4), 0.5)
    assert kit.to_image(half).getpixel((0, 0)) == (127, 127, 127)
    assert kit.to_image(half, rounded=True).getpixel((0, 0)) == (128, 128, 128)


# --------------------------------------------------------------------------------------------------------------------
# Programs and pages
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.py")), ids=lambda path: path.name)
def test_old_pythons_can_read_it(path):
    assert ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7)).body


def constant(script: str, name: str) -> Any:
    """The value of a constant at the top of a program."""
    tree = ast.parse((RECIPES / f"{script}.py").read_text(encoding="utf-8"))
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name]
    return ast.literal_eval(value)


@pytest.mark.parametrize("script", SCRIPTS)
def test_settings_are_the_published_ones(script):
    assert constant(script, "SETTINGS") == PUBLISHED[script]


@pytest.mark.parametrize("script", SCRIPTS)
def test_pages_show_the_settings(script):
    text = (PAGES / PAGE[script]).read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:2] == "| "]
    for name, settings in PUBLISHED[script].items():
        for key, value in settings.items():
            (row,) = [row for row in rows if row[0] == f"`{key}`"]
            shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            assert any(re.search(rf"(^|[^\d.]){re.escape(shown)}($|[^\d.])", cell) for cell in row[1:]), (name, row)


def test_every_recipe_has_a_page_and_every_page_is_listed():
    assert {p.stem for p in RECIPES.glob("*.py")} == {*SCRIPTS, "recipe_kit"}
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        if page.name != "README.md":
            assert f"]({page.name})" in index, page.name
            assert "real weights" in page.read_text(encoding="utf-8"), f"{page.name} must say what was run"


@pytest.mark.parametrize("script", SCRIPTS)
def test_options_in_commands_of_pages_exist(script):
    # With the environment's own Python, as in the pages; options behind the program's name are the program's.
    text = (PAGES / PAGE[script]).read_text(encoding="utf-8").replace("\\\n", " ")
    helped = subprocess.run(
        [sys.executable, str(RECIPES / f"{script}.py"), "--help"], capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"--[a-z][a-z0-9-]*", helped))
    commands = re.findall(rf"{script}\.py([^\"\n]*)", text)
    assert commands
    used = {option for command in commands for option in re.findall(r"--[a-z][a-z0-9-]*", command)}
    used |= set(re.findall(r"\*\*(--[a-z][a-z0-9-]*)\*\*", text))
    assert used <= known, used - known
