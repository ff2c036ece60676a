"""Report pages as tests read them."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browsing import CHROMIUM, OPTIONS

from verism.report_kit import page as pages
from verism.report_kit.answers import headline_answers
from verism.report_kit.evidence import Evidence
from verism.specs import Presentation
from verism.suites.catalogue import suite_class

HOSTILE = "</script><script>window.bad=1</script>{{ 7*7 }}{% raw %}<img src=x onerror=alert(1)>\"'&\u2028"


class Page(HTMLParser):
    """Elements with their attributes, and the source."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]

    def section(self, name: str) -> str:
        return self.source.partition(f'<section id="{name}">')[2].partition("</section>")[0]


def suite_of(run):
    """The suite of a run whose settings are made up: what it shows depends on the run alone."""
    cls = suite_class(run.suite_name)
    made = cls.__new__(cls)
    presentation = presentation_of(run)
    # Without its settings it has no answer of its own; what any suite answers needs none.
    object.__setattr__(made, "answers", lambda scores: headline_answers(presentation, scores))
    object.__setattr__(made, "default_of", lambda rule: rule.default)
    return made


def presentation_of(run) -> Presentation:
    """What a run's suite says of itself."""
    cls = suite_class(run.suite_name)
    rules = tuple(rule.scope for rule in cls.rules)
    return Presentation(info=cls.info, metrics=cls.metrics, pairings=cls.pairings, layout=cls.layout, rules=rules)


def evidence_of(runs, **options) -> Evidence:
    return Evidence.of(runs, [presentation_of(run) for run in runs], **options)


def write_report(runs, out: Path, **options) -> Path:
    known = {"suites": [suite_of(run) for run in runs], "presentations": [presentation_of(run) for run in runs]}
    return pages.write_report(runs, out, **known | options)


def report(runs, out: Path, **options) -> Page:
    return Page(write_report(runs, out, **options).read_text(encoding="utf-8"))


def facets(article) -> dict[str, list[str]]:
    """What a tile of the gallery can be filtered by."""
    return json.loads(article["data-facets"])


def outcomes(article, protocol: str) -> list[str]:
    """What was decided about a tile under a protocol."""
    return json.loads(article["data-outcomes"]).get(protocol, [])


def plain(html: str) -> str:
    """Text of a piece of the page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def in_browser(file: Path, folder: Path, steps: str | None = None) -> tuple[Page, str]:
    """The page in a browser, and what that said; skips where it does not start in time.

    Args:
        steps: a script that acts on the page first; without one the page is left as it is, its own policy included.
    """
    if steps is not None:
        text = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", file.read_text(encoding="utf-8"))
        file.write_text(text.replace("</body>", f"<script>{steps}</script></body>"), encoding="utf-8")
    options = [
        *OPTIONS,
        "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            [str(CHROMIUM), *options, "--dump-dom", file.as_uri()],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the browser did not start in time")
    return Page(done.stdout), done.stderr
