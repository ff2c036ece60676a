"""Image captions in DALL-Eval (Cho, Zala and Bansal, arXiv:2202.04053v1), beside what its code says of real images."""

from __future__ import annotations

from verism.published import Check, Known, Tables, Writer, read_outputs, read_tables

__all__ = ["dalleval"]


def dalleval() -> list[Check]:
    """Captions in DALL-Eval (arXiv:2202.04053, v1): metrics of real images."""
    paper, code = Writer("DALL-Eval v1"), Writer("DALL-Eval code", place=1)
    _captions(paper, read_tables("dalleval"))
    code.impossible("README", "caption metrics of real images (16)", "", "needs the images and the captioner")
    return [*paper.checks, *code.checks]


def _captions(writer: Writer, tables: Tables) -> None:
    row, outputs = tables["v1", "7"]["GT (upper bound)"], read_outputs("dalleval")
    rouge = Known(value="20.43", why="55.3 is ROUGE-L of the same images; the authors have confirmed it")
    for metric, name in (("BLEU-4", "Bleu_4"), ("METEOR", "METEOR"), ("CIDEr", "CIDEr"), ("SPICE", "SPICE")):
        value = 100 * float(outputs["captioning, beam 5", name])
        known = rouge if metric == "SPICE" else None
        what = f"{metric} of real images, from the authors' README"
        writer.number("Table 7", what, row[metric], value, known=known)
    value = 100 * float(outputs["captioning, beam 5", "ROUGE_L"])
    writer.number("Table 7", "the printed SPICE of real images is their ROUGE-L", row["SPICE"], value)
    writer.impossible("Table 7", "caption metrics, R-precision, human scores of models (24)", "", "needs the images")
