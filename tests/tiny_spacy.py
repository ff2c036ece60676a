"""A spaCy pipeline whose parser knows two templates: enough to hold the adapter against, without a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NOUNS = ("cup", "vase", "chair", "lamp", "dog", "desk", "plate", "ball", "bowl")
CLOSED = {"the": "DET", "a": "DET", "is": "AUX", "next": "ADV", "to": "ADP", "and": "CCONJ"}


def tiny_spacy(folder: Path) -> Path:
    """Write a pipeline; it can be loaded again in the process that called this."""
    import spacy
    from spacy.language import Language

    @Language.component("template_parser")
    def parse(doc: Any) -> Any:
        """Every noun is the head of the words before it up to its article; the first one is the root."""
        noun_places = [k for k, token in enumerate(doc) if token.text in NOUNS]
        root = noun_places[0] if noun_places else 0
        for k, token in enumerate(doc):
            following = next((n for n in noun_places if n >= k), None)
            is_noun = token.text in NOUNS
            token.pos_ = "NOUN" if is_noun else CLOSED.get(token.text, "ADJ")
            inside = following is not None and token.pos_ in ("DET", "ADJ")
            token.head = doc[following] if inside and following is not None else doc[root]
            token.dep_ = "ROOT" if k == root else "dobj" if is_noun else "amod" if inside else "dep"
        return doc

    pipeline = spacy.blank("en")
    pipeline.meta["name"], pipeline.meta["version"] = "templates", "1.2"
    pipeline.add_pipe("template_parser", name="parser")
    pipeline.to_disk(folder)
    return folder
