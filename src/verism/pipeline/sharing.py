"""Images that several runs of one model ask for alike: the second run takes them from the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from verism.errors import VerismError
from verism.records import Generator, Request, Result
from verism.store import Run

__all__ = ["SharedImages", "SharingGenerator"]


class SharedImages:
    """Images of finished runs, by generator, prompt and seed.

    Only images of generators whose class says ``text_only = True`` are shared: they read the prompt's text and the seed
    of a request and nothing else of it.
    """

    def __init__(self) -> None:
        self._images: dict[tuple[str, str, int], tuple[Path, dict[str, Any]]] = {}
        self._runs: dict[Path, Run] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: runs are opened there anew, as what they know of their files does not."""
        return {**self.__dict__, "_runs": {}}

    def add(self, run: Run) -> None:
        """Take in the images that a run made.

        Args:
            run: of any state; images without a seed are of models that cannot repeat themselves, and not shared.
        """
        try:
            texts = {p.prompt_id: p.text for p in run.prompts()}
        except VerismError:  # stopped before it had any
            return
        self._runs.setdefault(run.path, run)
        for row in run.read("images").iter_rows(named=True):
            if row["state"] == "ok" and row["seed"] is not None and row["path"]:
                key = (run.manifest.settings.generator, texts[row["prompt_id"]], int(row["seed"]))
                self._images.setdefault(key, (run.path, {"path": row["path"], "sha256": row["sha256"]}))

    def has(self, generator: str, request: Request) -> bool:
        """Whether an image of this text and seed was there when its run was taken in.

        Args:
            generator: full name.
            request: what is asked for.
        """
        return (generator, request.prompt.text, request.seed) in self._images

    def find(self, generator: str, request: Request) -> Any:
        """Pixels of the image that a generator made of this text and seed before; None if there is none any more.

        Args:
            generator: full name.
            request: what is asked for.
        """
        found = self._images.get((generator, request.prompt.text, request.seed))
        if found is None:
            return None
        path, row = found
        if path not in self._runs:
            self._runs[path] = Run.open(path, scoring=False)
        image = self._runs[path].load_image(row)
        return image.pixels if image.state == "ok" and image.sha256 == row["sha256"] else None


class SharingGenerator:
    """A generator whose images of the same text and seed are taken from other runs, where there are any."""

    def __init__(self, inner: Generator, shared: SharedImages) -> None:
        """A generator that asks for what is not there yet.

        Args:
            inner: generates the rest.
            shared: images there are.
        """
        self.inner = inner
        self.name = inner.name
        self.shared = shared
        self.taken = 0

    def __getattr__(self, name: str) -> Any:
        """What else the generator says of itself: ``describe``, ``estimate`` ..."""
        return getattr(self.inner, name)

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """The answers in order; runs of requests that are not there yet go to the generator together.

        Args:
            requests: what is asked for.
        """
        there = [self.shared.has(self.name, request) for request in requests]
        fresh = self.inner.generate([r for r, known in zip(requests, there, strict=True) if not known])
        for request, known in zip(requests, there, strict=True):
            if not known:
                yield next(fresh)
                continue
            pixels = self.shared.find(self.name, request)
            if pixels is None:  # removed or changed since
                yield next(iter(self.inner.generate([request])))
                continue
            self.taken += 1
            yield Result(image_id=request.image_id, state="ok", pixels=pixels, note="as in another run of the plan")
