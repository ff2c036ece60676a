"""What the suite shows offline."""

from __future__ import annotations

from verism.specs import Demo

__all__ = ["DEMOS"]

DEMOS = (
    Demo(
        models={"careful": "scripted:error=0.1", "careless": "scripted:error=0.4"},
        settings={"limit": 16, "n_images": 1, "size": 192, "ocr": "truth"},
        shows="Planted spelling mistakes (in 10 and 40 % of the images), read without error: prompts of our own.",
        left_out=(
            "OCR that errs: no engine comes with verism; install tesseract or verism[ocr], then --ocr tesseract",
            "the prompts of LongText-Bench, CVTG-2K and OneIG: name your copy by --prompts",
        ),
    ),
)
