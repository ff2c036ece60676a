"""Images of other prompts: what chance alone, and the likeness of prompts, would score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from verism.records import Generator, Prompt, Request, Result

__all__ = ["ShuffledGenerator"]


class ShuffledGenerator:
    """Answers each request with the image of a random prompt of the same group.

    Drawn with replacement, one draw per request, from all prompts that share the facet, itself included: this is what
    the released PaintSkills code calls shuffling (there unseeded). It is not a permutation.
    """

    def __init__(self, inner: Generator, prompts: Sequence[Prompt], *, seed: int, by: str) -> None:
        """A generator that answers with the images of other prompts.

        Args:
            inner: generates or finds the images.
            prompts: all prompts of the run.
            seed: of the draw.
            by: facet of the prompts that keeps groups apart; without it (or empty) all prompts are one group.
        """
        self.inner = inner
        self.name = f"shuffled:seed={seed}({inner.name})"
        groups: dict[object, list[Prompt]] = {}
        for prompt in prompts:
            groups.setdefault(prompt.facets.get(by), []).append(prompt)
        self._donor: dict[str, Prompt] = {}
        for number, group in enumerate(groups.values()):
            ordered = sorted(group, key=lambda p: p.prompt_id)
            drawn = np.random.default_rng([seed, number, 0x5417F]).integers(len(ordered), size=len(ordered))
            self._donor |= {p.prompt_id: ordered[k] for p, k in zip(ordered, drawn, strict=True)}

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        donors = [replace(r, prompt=self._donor[r.prompt.prompt_id]) for r in requests]
        for request, result in zip(donors, self.inner.generate(donors), strict=True):
            note = f"image of {request.prompt.prompt_id}" + (f"; {result.note}" if result.note else "")
            yield replace(result, note=note)

    def __getattr__(self, name: str) -> Any:
        """What else the generator says of itself: ``describe``, ``estimate`` ..."""
        if name == "inner":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    def close(self) -> None:
        """End what the generator of the images has running, if anything."""
        getattr(self.inner, "close", lambda: None)()
