"""Make a text-to-image model answer verism, from an environment of its own: copy this file next to your program.

It needs nothing but Python 3.6 or later; verism is not imported. Write a function that paints, and hand it over::

    from serve import Refused, seed_all, serve

    def paint(requests):                      # a list of at most `batch` requests
        pictures = []
        for request in requests:              # {"prompt": ..., "seed": ..., "image_id": ..., "prompt_id": ..., ...}
            seed_all(request["seed"])
            images.append(model(request["prompt"]))
        return pictures                       # as many answers: PIL images, paths, Refused("why"), exceptions

    serve(paint, batch=8, name="my model, step 20000")

and run ``verism run paintskills --model "command:python my_program.py" --out runs/mine``.

Load the model before calling ``serve``. Whatever is printed goes to standard error; standard output belongs to the
answers. By hand it can be tried with one line on standard input: ``{"prompt": "a dog", "seed": 1}``.
"""

import json
import os
import queue
import random
import sys
import tempfile
import threading
import traceback

__all__ = ["Refused", "seed_all", "serve", "torch_generators"]

WAIT_S = 0.05  # for another request to fill a batch; verism sends what it has at once, so more would be waiting in vain


class Refused(Exception):
    """The model declines to paint this prompt, by its safety filter for example. Return it or raise it."""


def seed_all(seed):
    """Seed the random numbers of Python, and of NumPy and PyTorch (all devices) if the program has imported them."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def torch_generators(requests, device="cpu"):
    """One ``torch.Generator`` per request, so that an image does not depend on its neighbours in the batch.

    Generators on the CPU give the same noise on every machine; those on a GPU do not.
    """
    import torch

    return [torch.Generator(device).manual_seed(request["seed"]) for request in requests]


def serve(paint, batch=1, name=None):
    """Answer requests until there are no more.

    Args:
        paint: function of a list of 1 to ``batch`` requests (dictionaries with ``prompt``, ``seed``, ``image_id``,
            ``prompt_id``, ``index``, ``path``). It returns a list of the same length: for each request a PIL image, the
            path of an image it has written (``request["path"]`` is a good place), ``Refused("why")`` or an exception.
            If it raises, its requests are tried again one by one, and those that raise again are answered as refused
            or failed. With ``paint.seeded = False`` verism notes that the model was not given the seeds.
        batch: most requests handed over at once. Fewer are when fewer are waiting: nothing waits for a full batch.
        name: what the run's manifest should keep: name and version of the model, for example.
    """
    if batch < 1:
        raise ValueError(f"serve: batch must be at least 1, got {batch}")
    answers, requests = _take_over()
    if name is not None:
        _write(answers, {"name": str(name), "python": sys.version.split()[0]})
    waiting = queue.Queue()  # type: queue.Queue
    reader = threading.Thread(target=_read, args=(requests, waiting))
    reader.daemon = True
    reader.start()
    more = True
    while more:
        request = waiting.get()
        chosen = []
        while request is not None:
            chosen.append(request)
            if len(chosen) == batch:
                break
            try:
                request = waiting.get(timeout=WAIT_S)
            except queue.Empty:
                break
        more = request is not None
        if chosen:
            for request, image in zip(chosen, _paint(paint, chosen)):
                answer = _answer(request, image)
                if answer.get("state") is None and not getattr(paint, "seeded", True):
                    answer["seeded"] = False
                _write(answers, answer)


def _take_over():
    """Keep standard input and output for verism; prints, also of C libraries and child processes, go to stderr."""
    if sys.stdin.isatty():
        sys.stderr.write('waiting for requests, one per line, such as {"prompt": "a dog", "seed": 1}\n')
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = sys.stderr
    return answers, requests


def _read(requests, waiting):
    """Put requests into the queue, and None after the last."""
    folder, line = os.environ.get("VERISM_OUT"), ""
    try:
        for number, line in enumerate(requests):
            if not line.strip():
                continue
            request = json.loads(line)
            request.setdefault("image_id", str(number))
            request.setdefault("seed", 0)
            if "path" not in request:  # somebody tries the program by hand
                folder = folder or tempfile.mkdtemp(prefix="pictures-")
                request["path"] = os.path.join(folder, f"{number}.png")
            waiting.put(request)
    except ValueError as err:
        sys.stderr.write(f"not a request, one JSON object per line: {line.strip()[:200]} ({err})\n")
    finally:
        waiting.put(None)


def _paint(paint, requests):
    """What the function answers to each request; exceptions take the place of images."""
    try:
        images = list(paint(requests))
        if len(images) != len(requests):
            raise ValueError(f"paint() returned {len(images)} answers to {len(requests)} requests")
        return images
    except Exception as err:
        if not isinstance(err, Refused):
            traceback.print_exc()
        if len(requests) == 1:
            return [err]
    return [_paint(paint, [request])[0] for request in requests]


def _answer(request, image):
    """The answer to one request, as a dictionary; a PIL image is saved first."""
    answer = {"image_id": request["image_id"]}
    try:
        if isinstance(image, Refused):
            answer.update(state="refused", note=str(image))
        elif isinstance(image, BaseException):
            raise image
        elif isinstance(image, (str, os.PathLike)):
            answer["path"] = os.path.abspath(os.fspath(image))
        elif hasattr(image, "save"):
            image.save(request["path"])
            answer["path"] = request["path"]
        else:
            raise TypeError(f"paint() returned {type(image).__name__}; expected a PIL image or a path")
    except Exception as err:
        answer.update(state="failed", note=f"{type(err).__name__}: {err}")
    return answer


def _write(answers, answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
