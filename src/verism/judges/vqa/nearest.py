"""The choice that a free reply is nearest to, by the embeddings of sentences: beside the replies of any VQA model.

verism run tifa --images DIR --vqa "nearest:sentence-transformers/all-mpnet-base-v2?vqa=results:answers.csv"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, judge_name, pick_device, pick_dtype
from verism.judges.hub import HubOptions, identity, load_config, load_model, source_name
from verism.records import AnswerNeed

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from verism.records import LoadedImage

__all__ = ["NearestChoice", "SentenceEmbedder"]

LONGEST = 512  # tokens of a text that are read


class SentenceEmbedder:
    """Sentences as vectors of length 1: the mean over the tokens of the last layer, as sentence-transformers pool it.

    Args:
        id_or_path: repository on the hub, or a folder with model and tokenizer.
        hub: which edition of the model, and how it is run; ``batch_size`` of sentences at once.

    Raises:
        UsageError: no such model, or incomplete weights.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    def __init__(self, id_or_path: str, *, hub: HubOptions) -> None:
        where = hub.where(id_or_path)
        for module in ("torch", "transformers"):
            require(module, extra=EXTRA, purpose="a model that embeds sentences")
        from transformers import AutoModel, AutoTokenizer

        config = load_config(id_or_path, where)
        self._device, self._batch = pick_device(hub.device), hub.batch_size
        self._model = load_model(AutoModel, id_or_path, where, pick_dtype(hub.dtype), self._device)
        try:
            auto: Any = AutoTokenizer  # not annotated in every version
            self._tokenizer = auto.from_pretrained(id_or_path, config=config, **where)
        except (OSError, ValueError) as err:
            raise UsageError(f"{id_or_path!r} has no tokenizer: {str(err).splitlines()[0][:300]}") from err
        self._longest = min(LONGEST, int(getattr(config, "max_position_embeddings", LONGEST)) - 2)
        self.source, self.identity = source_name(id_or_path), identity(self._model, id_or_path)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The vectors of texts, shape (N, D), each of length 1.

        Args:
            texts: the sentences.
        """
        import torch

        rows = []
        for start in range(0, len(texts), self._batch):
            batch = self._tokenizer(
                list(texts[start : start + self._batch]),
                padding=True,
                truncation=True,
                max_length=self._longest,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                hidden = self._model(**batch).last_hidden_state.double()
            mask = batch["attention_mask"].unsqueeze(-1).double()
            mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            rows.append(torch.nn.functional.normalize(mean, dim=1).cpu().numpy())
        return np.concatenate(rows) if rows else np.zeros((0, 0))


class NearestChoice:
    """Hands on the replies of a VQA model, and says how near each choice is to a reply that is none of them.

    The nearest choice is not put into ``value``: what a reply says stays apart from what it resembles.

    Args:
        id_or_path: sentence embedding model with its tokenizer: model id on the Hugging Face Hub, or a folder.
        make_inner: makes a VQA model of a name.
        vqa: VQA model, as for ``--vqa``; write ``%26`` for ``&``.
        hub: which edition of the model of sentences, and how it is run.

    Raises:
        UsageError: no VQA model named, or no such model.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = AnswerNeed.role

    def __init__(
        self, id_or_path: str, make_inner: Callable[[str], Any], *, vqa: str = "", hub: HubOptions = HubOptions()
    ) -> None:
        if not vqa:
            raise UsageError(f"nearest:{id_or_path} needs a VQA model whose replies it compares: ?vqa=NAME")
        self._inner = make_inner(vqa)
        self._sentences = SentenceEmbedder(id_or_path, hub=hub)
        self._known: dict[str, NDArray[np.float64]] = {}
        self.name = judge_name(
            "nearest", self._sentences.source, self._sentences.identity, vqa=self._inner.name, dtype=hub.named_dtype
        )

    def check(self, need: AnswerNeed) -> None:
        """Ask the VQA model whether it can fill the need."""
        getattr(self._inner, "check", lambda _: None)(need)

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> Mapping[str, pl.DataFrame]:
        """The replies, as table ``answers``; and ``answer_similarities`` for replies that are none of the choices."""
        import polars as pl

        from verism.records import frame

        made = self._inner.observe(images, need)
        tables = {need.table: made} if isinstance(made, pl.DataFrame) else dict(made)
        tables = {name: table.with_columns(pl.lit(self.name).alias("judge")) for name, table in tables.items()}
        choices = {
            (image.image_id, question.text): question.choices
            for image in images
            for question in need.questions.get(image.prompt_id, ())
        }
        asked = [
            (row["image_id"], row["question"], row["answer"], choices[row["image_id"], row["question"]])
            for row in tables[need.table].iter_rows(named=True)
            if row["question"] is not None and row["answer"] is not None
        ]
        asked = [row for row in asked if row[3] and row[2] not in row[3]]
        self._learn([text for _, _, answer, allowed in asked for text in (answer, *allowed)])
        rows = [
            {
                "image_id": image_id,
                "judge": self.name,
                "question": question,
                "choice": choice,
                "cosine": float(self._known[answer] @ self._known[choice]),
            }
            for image_id, question, answer, allowed in asked
            for choice in allowed
        ]
        return {**tables, "answer_similarities": frame("answer_similarities", rows)}

    def _learn(self, texts: Sequence[str]) -> None:
        """Embed what is not known yet."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= dict(zip(fresh, self._sentences.vectors(fresh), strict=True)) if fresh else {}

    def summary(self) -> list[str]:
        """Lines of the VQA model."""
        return list(getattr(self._inner, "summary", list)())

    def close(self) -> None:
        """End what the VQA model has under way."""
        getattr(self._inner, "close", lambda: None)()
