"""The whole way of a training on rendered images: rendered if there are none, learnt from, exported, measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from verism.training.settings import NetworkConfig, Rendering

__all__ = ["RenderedTraining"]

E = TypeVar("E")
C = TypeVar("C", bound=NetworkConfig)

_TEST_SEED = 900_001  # added to the seed of the training: test images share nothing with those that are learnt from
_LEFT_OUT = ("settings", "garments")  # of a line of the log: too long to be shown


@dataclass(frozen=True, kw_only=True)
class RenderedTraining(Generic[E, C]):
    """A training whose examples can be rendered, to be called.

    Attributes:
        render: renders a number of examples into a folder, see ``embedder_examples.render_examples``.
        load: the examples of some folders.
        train: learns from examples and writes a checkpoint, see ``embedder.train_embedder``.
        finish: exports and measures the checkpoint of a folder, given what loads the examples, those to measure on
            (or None), and the settings.
        rendering: how many images are rendered unless the caller says otherwise.
    """

    render: Callable[..., Path]
    load: Callable[[Sequence[Path]], E]
    train: Callable[..., Path]
    finish: Callable[[Path, Callable[[], E], E | None, C], dict[str, Any]]
    rendering: Rendering

    def __call__(
        self,
        folders: Sequence[Path],
        out: Path,
        config: C,
        *,
        rendering: Rendering | None = None,
        export_only: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Render examples, train, export to ``out``, and measure on examples of another seed.

        Args:
            folders: examples that are rendered already (or still being rendered); none: they are rendered into
                ``out/examples``.
            out: folder of the training, made if missing.
            config: the settings.
            rendering: how many images are rendered; None: the usual numbers.
            export_only: export and measure the checkpoint of ``out`` as it is.
            say: receives progress, a line at a time.

        Returns:
            What was measured, also in ``out/evaluation.json``.

        Raises:
            UsageError: nothing to learn from, or neither steps nor minutes.
        """
        if not export_only:
            config.check_length()
        counts = rendering or self.rendering

        def rendered(name: str, count: int, seed: int) -> Path:
            return self.render(
                out / name, count, seed=seed, processes=config.workers or os.cpu_count() or 1,
                on_chunk=lambda n: say(f"{name}: {n:,} of {count:,}"),
            )  # fmt: skip

        def examples() -> E:
            return self.load(list(folders) or [rendered("examples", counts.count, config.seed + 1)])

        if not export_only:
            self.train(
                examples(), config, out=out, refresh=examples if folders else None,
                log=lambda line: say(json.dumps({k: v for k, v in line.items() if k not in _LEFT_OUT})),
            )  # fmt: skip
        test = self.load([rendered("test", counts.test, config.seed + _TEST_SEED)]) if counts.test else None
        return self.finish(out, examples, test, config)
