"""Studies given away to be answered elsewhere, and answers taken in: static pages, crowd platforms, plain tables."""

from verism.annotation.exchange.exports import KINDS, export_study
from verism.annotation.exchange.imports import Imported, import_ratings

__all__ = ["KINDS", "Imported", "export_study", "import_ratings"]
