"""What the recipes of this folder share; see docs/recipes/README.md. Python 3.6 or later, verism is not needed.

A recipe is a program that runs in the environment of an old model and answers ``verism run --model "command:..."``
through ``serve.py`` of the folder above. It has

* ``SETTINGS``: the sampling settings by name, ``released`` (what the authors' code does) and, where the paper says
  something else, ``paper``. Every setting is also an option of the program.
* ``load(args, settings)``: checks that the weights are there, loads the model and returns ``paint(requests)``.
"""

import argparse
import contextlib
import os
import random
import sys

__all__ = [
    "Missing",
    "OwnNumbers",
    "arguments",
    "device_of",
    "main",
    "need_files",
    "seed_everything",
    "to_image",
]


class Missing(Exception):
    """Something that concerns every image is not there: weights, a package, a folder."""


# ---------------------------------------------------------------------------------------------------------------------
# The program around a model
# ---------------------------------------------------------------------------------------------------------------------
def arguments(description, settings, kinds=None, batch=1, default="released"):
    """A parser with the sampling settings as options.

    Args:
        settings: values by setting, by name of the settings (``released``, ``paper``).
        kinds: type by setting, where the value itself does not tell (None).
        batch: most images at once; 1 leaves the option out, for models that cannot do more.
        default: name of the settings that apply where an option is not given.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False
    )
    if len(settings) > 1:
        parser.add_argument("--settings", choices=sorted(settings), default=default, help="whose sampling settings")
    for key in settings[default]:
        values = "; ".join(f"{name}: {settings[name][key]}" for name in sorted(settings))
        kind = (kinds or {}).get(key) or type(settings[default][key])
        option = "--" + key.replace("_", "-")
        parser.add_argument(option, type=kind, default=argparse.SUPPRESS, help="instead of " + values)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 ...; auto: the GPU if there is one")
    if batch > 1:
        parser.add_argument("--batch-size", type=int, default=batch, help="most images at once")
    return parser


def main(parser, settings, load, model, argv=None):
    """Parse, load, serve. Ends with exit code 2 and one line on standard error if the model cannot be loaded."""
    args = parser.parse_args(argv)
    chosen = dict(settings[getattr(args, "settings", "released")])
    chosen.update({key: getattr(args, key) for key in chosen if hasattr(args, key)})
    batch = getattr(args, "batch_size", 1)
    if batch < 1:
        parser.error(f"argument --batch-size: must be at least 1, got {batch}")
    if os.environ.get("VERISM_OUT"):
        os.environ["VERISM_OUT"] = os.path.abspath(os.environ["VERISM_OUT"])
    serve = _serve()
    try:
        with _answers_kept_clean():
            paint = load(args, chosen)
    except Missing as err:
        parser.exit(2, f"{parser.prog}: {err}\n")
    except ImportError as err:
        parser.exit(2, f"{parser.prog}: this is not the environment of the model: {err}\n")
    serve(paint, batch=batch, name=model + "?" + "&".join(f"{k}={chosen[k]}" for k in sorted(chosen)))


def _serve():
    """``serve`` of the file in the folder above; the folder does not stay on the path, where it could hide packages."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, folder)
    try:
        from serve import serve
    finally:
        sys.path.remove(folder)
    return serve


@contextlib.contextmanager
def _answers_kept_clean():
    """Send what is printed while a model loads to standard error: standard output belongs to the answers."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def need_files(files, advice):
    """Raise Missing unless every file or folder is there.

    Args:
        files: path by what it is, for example ``{"checkpoint": "model.pt"}``. advice: where to get them.
    """
    absent = [f"{path} ({what})" for what, path in files.items() if not os.path.exists(path)]
    if absent:
        raise Missing("no file or folder {}. {}".format(", ".join(absent), advice))


# ---------------------------------------------------------------------------------------------------------------------
# PyTorch, imported only when a model is loaded
# ---------------------------------------------------------------------------------------------------------------------
def device_of(args):
    """The device asked for, as a string."""
    import torch

    if args.device != "auto":
        return args.device
    return "cuda" if torch.cuda.is_available() else "cpu"


def seed_everything(seed):
    """Seed Python, NumPy and PyTorch (all devices)."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def to_image(tensor, rounded=False):
    """A PIL image of a (3, H, W) tensor in [0, 1].

    Args:
        rounded: to the nearest of 256 values; else cut off, as torchvision's ToPILImage does.

    Raises:
        ValueError: a number that is not finite (half precision can overflow), which would become a random colour.
    """
    from PIL import Image

    array = tensor.detach().float().cpu().clamp(0, 1).permute(1, 2, 0).numpy() * 255
    if (array != array).any():
        raise ValueError("the model returned numbers that are not finite")
    return Image.fromarray((array + 0.5 if rounded else array).astype("uint8"))


class OwnNumbers(object):  # noqa: UP004 (as old as the models)
    """While active, each image of a batch draws its random numbers from a generator of its own.

    The samplers of these models draw for the whole batch at once, ``torch.multinomial(probabilities, 1)`` say, so that
    an image would depend on its place and its neighbours. This replaces ``torch.multinomial``, ``torch.randn`` and
    ``torch.randn_like`` by functions that draw row by row; row i belongs to image i modulo the number of images
    (batches are doubled for classifier-free guidance).

    Normal noise is drawn on the CPU, so that it is the same on every machine. Tokens are drawn where their
    probabilities are: a GPU draws others than a CPU.
    """

    PATCHED = ("multinomial", "randn", "randn_like")

    def __init__(self, seeds):
        import torch

        self.torch = torch
        self.seeds = list(seeds)
        self.generators = {}
        self.draws = 0
        self.originals = {}

    def __enter__(self):
        seed_everything(self.seeds[0])  # for whatever else draws; with more than one image see check()
        for name in self.PATCHED:
            self.originals[name] = getattr(self.torch, name)
            setattr(self.torch, name, getattr(self, name))
        return self

    def __exit__(self, *error):
        for name, function in self.originals.items():
            setattr(self.torch, name, function)

    def check(self):
        """Raise if the model drew nothing in the ways known here, and the images are not independent therefore."""
        if not self.draws and len(self.seeds) > 1:
            raise Missing(
                "this version of the model draws its random numbers in a way that this recipe does not know, so that "
                "images of a batch would depend on each other; use --batch-size 1"
            )

    def multinomial(self, probabilities, num_samples, replacement=False):
        draw, self.draws = self.originals["multinomial"], self.draws + 1
        if probabilities.dim() == 1:
            (generator,) = self._rows(1, probabilities.device)
            return draw(probabilities, num_samples, replacement, generator=generator)
        rows = zip(probabilities, self._rows(len(probabilities), probabilities.device))
        return self.torch.stack([draw(row, num_samples, replacement, generator=generator) for row, generator in rows])

    def randn(self, *size, **kwargs):
        shape = tuple(size[0]) if size and not isinstance(size[0], int) else size
        draw, self.draws = self.originals["randn"], self.draws + 1
        rows = self._rows(shape[0] if shape else 1, "cpu")
        noise = self.torch.stack([draw(*shape[1:], generator=generator) for generator in rows])
        return noise.to(**{key: kwargs[key] for key in ("device", "dtype") if kwargs.get(key) is not None})

    def randn_like(self, tensor):
        return self.randn(*tensor.shape, dtype=tensor.dtype, device=tensor.device)

    def _rows(self, number, device):
        """The generators of so many rows."""
        if number % len(self.seeds):
            raise ValueError(f"{number} rows of random numbers for {len(self.seeds)} images")
        key = str(device)
        if key not in self.generators:
            self.generators[key] = [self.torch.Generator(device=device).manual_seed(seed) for seed in self.seeds]
        return [self.generators[key][i % len(self.seeds)] for i in range(number)]
