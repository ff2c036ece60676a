"""Whether a built documentation site is whole: every link and anchor leads somewhere, and no page asks another host.

    python tools/check_site.py site          # exit code 1, and a line for each problem

The generator checks links between pages of Markdown. This checks what readers get: all pages, with all that the theme
adds.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "audio": "src",
    "video": "src",
}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}  # links of a page's head that browsers do not follow


class Page(HTMLParser):
    """The addresses in a page, and its anchors.

    Attributes:
        anchors: ids and names that a link can lead to.
        links: addresses that a reader may follow.
        loaded: addresses that a browser asks for by itself.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        address = given.get(LOADED.get(tag, ""), "")
        if address and not (tag == "link" and NOT_LOADED & set(given.get("rel", "").split())):
            self.loaded.append(address)


def problems(site: Path) -> list[str]:
    """What is wrong with a site, a line each.

    Args:
        site: folder of the built pages.
    """
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site}: no pages"]
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for address in page.loaded:
            if urlsplit(address).netloc:
                found.append(f"{name}: loads {address}")
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                base = site if parts.path.startswith("/") else path.parent
                target = (base / unquote(parts.path).lstrip("/")).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or not target.is_relative_to(site.resolve()):
                found.append(f"{name}: nothing at {address}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: no such anchor: {address}")
    return found


def main() -> None:
    """The command."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()
    lines = problems(site)
    print("\n".join(lines) or f"{site}: every link leads somewhere, and nothing is loaded from elsewhere")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
