"""The documentation site: its navigation is complete, and its checker finds what is broken. ``make docs`` builds it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import check_site  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
DOCS = ROOT / CONFIG["docs_dir"]


def navigated(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from navigated(below)


def test_every_page_is_in_the_navigation_once():
    counted = Counter(navigated(CONFIG["nav"]))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(counted) == pages
    assert [name for name, times in counted.items() if times > 1] == []


def test_pages_link_to_nothing_outside_their_folder_but_by_address():
    # The site holds docs/ alone: what lies beside it is reached by the address of the repository.
    outside = []
    for path in DOCS.rglob("*.md"):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            if "://" not in target and not (path.parent / target).resolve().is_relative_to(DOCS):
                outside.append(f"{path.relative_to(ROOT)}: {target}")
    assert not outside, "write the address: https://github.com/verism-project/verism/blob/main/..."


def test_addresses_of_the_repository_name_files_that_exist():
    home = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    assert CONFIG["extra"]["social"][0]["link"] == home
    named = [
        (path, target)
        for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
        for target in re.findall(rf"{home}/(?:blob|tree)/main/([^)\s#]+)", path.read_text(encoding="utf-8"))
    ]
    assert len(named) >= 5
    assert [f"{path.name}: {target}" for path, target in named if not (ROOT / target).exists()] == []


def test_the_site_asks_no_other_host():
    assert CONFIG["theme"]["font"] is False
    assert "repo_url" not in CONFIG  # the theme would ask api.github.com
    theme = (ROOT / CONFIG["theme"]["custom_dir"] / "main.html").read_text(encoding="utf-8")
    assert "block libs" in theme  # replaces the polyfill that the theme loads from elsewhere


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html">b</a><a href="b.html#here">c</a><img src="i.png">', None),
        ('<a href="https://example.org/x">elsewhere</a><a href="mailto:a@example.org">write</a>', None),
        ('<link rel="canonical" href="https://example.org/x">', None),
        ('<a href="c.html">c</a>', "index.html: nothing at c.html"),
        ('<a href="b.html#there">b</a>', "index.html: no such anchor: b.html#there"),
        ('<a href="#there">b</a>', "index.html: no such anchor: #there"),
        ('<a href="../secret.txt">out</a>', "index.html: nothing at ../secret.txt"),
        ('<script src="https://example.org/x.js"></script>', "index.html: loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "index.html: loads //example.org/x.css"),
    ],
)
def test_check_site_finds_what_is_broken(tmp_path, body, problem):
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "secret.txt").write_text("x", encoding="utf-8")
    (site / "i.png").write_bytes(b"x")
    (site / "b.html").write_text('<p id="here">b</p>', encoding="utf-8")
    (site / "index.html").write_text(body, encoding="utf-8")
    assert check_site.problems(site) == ([problem] if problem else [])


def test_check_site_of_an_empty_folder_is_a_problem(tmp_path):
    assert check_site.problems(tmp_path) == [f"{tmp_path}: no pages"]
