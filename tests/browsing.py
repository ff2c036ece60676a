"""Headless Chromium for tests of pages, what is wrong with a page, and the page of a study to look at."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "CHROMIUM",
    "OPTIONS",
    "broken_words",
    "browsing",
    "faults_of",
    "serving",
    "serving_app",
    "too_small",
    "until",
]

CHROMIUM = shutil.which("chromium")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

FAULTS = """() => {
  const found = [];
  const visible = (e) => e.checkVisibility();
  const name = (e) => (e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.innerText).join(" ")) ||
    e.innerText || e.alt || "").trim();
  for (const e of document.querySelectorAll("button, input, select, a, progress"))
    if (visible(e) && !name(e)) found.push("no name: " + e.outerHTML);
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) found.push("no alt: " + e.outerHTML);
  if ([...document.querySelectorAll("h1")].filter(visible).length !== 1) found.push("not one h1");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id twice: " + ids);
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the window");
  if (/\\[object |undefined|NaN/.test(document.body.innerText)) found.push("words of JavaScript");
  const light = (c) => c.map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const numbers = (c) => {
    const found = c.match(/[\\d.]+/g).map(Number);
    return c.startsWith("color(") ? found.map((v, n) => n < 3 ? 255 * v : v) : found;
  };
  for (const e of document.querySelectorAll("h1, h2, h3, p, label, button, a, th, td, dt, dd, li, span, kbd")) {
    if (!visible(e) || !e.innerText.trim() || e.disabled || e.closest(":disabled, .skip")) continue;
    let behind = e;
    while (behind && numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    const [a, b] = [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor].map(numbers)
      .map((c) => light(c.slice(0, 3)) + .05).sort((x, y) => x - y);
    if (b / a < 4.5) found.push("contrast " + (b / a).toFixed(2) + ": " + e.outerHTML.slice(0, 80));
  }
  return found;
}"""


TOO_SMALL = """(least) => {
  const found = [], box = (e) => e.getBoundingClientRect();
  for (const e of document.querySelectorAll("button, input, select, a[href], summary")) {
    if (!e.checkVisibility() || e.disabled || getComputedStyle(e).opacity === "0" || e.closest(".skip")) continue;
    // A link within a sentence may be as high as its line (WCAG 2.2, 2.5.8).
    const alone = e.parentElement.innerText.trim() === e.innerText.trim();
    if (e.tagName === "A" && getComputedStyle(e).display === "inline" && !alone) continue;
    const reached = [e, ...(e.labels || [])].map(box), sizes = reached.map((r) => `${r.width} x ${r.height}`);
    if (!reached.some((r) => r.width >= least.touched && r.height >= least.touched))
      found.push("touch " + sizes + ": " + e.outerHTML.slice(0, 90));
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !e.getClientRects().length) continue;
    if (e.closest("script, style, title, .away")) continue;
    const matrix = e.ownerSVGElement && e.getScreenCTM();
    const px = parseFloat(getComputedStyle(e).fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
    if (px < least.read) found.push("text of " + px.toFixed(1) + " px: " + e.outerHTML.slice(0, 90));
  }
  return [...new Set(found)];
}"""


BROKEN_WORDS = """() => [...document.querySelectorAll("th, td")].filter((e) => e.checkVisibility()).flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) {
    if (texts.currentNode.parentElement.closest(".away")) continue;
    for (const word of texts.currentNode.data.matchAll(/(?<!\\S)[A-Za-z]{2,12}(?!\\S)/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter((r) => r.width > 1).map((r) => Math.round(r.top));
      if (new Set(lines).size > 1) found.push(word[0] + " in " + cell.innerText.slice(0, 60));
    }
  }
  return found;
})"""


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser of Playwright's."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield browser
        browser.close()


@contextmanager
def serving(store: Any, *, tokens: bool = False) -> Iterator[str]:
    """The page of a study, in a thread; gives its address."""
    from verism.annotation.server import create_app

    with serving_app(create_app(store, [], tokens=tokens)) as address:
        yield address


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """An application, in a thread; gives its address."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def faults_of(page: Any) -> list[str]:
    """What is wrong with a page as it is shown now: nameless controls, contrast below WCAG AA, a page too wide."""
    return list(page.evaluate(FAULTS))


def broken_words(page: Any) -> list[str]:
    """Short words of tables that are broken within themselves, as their column is too narrow."""
    return list(page.evaluate(BROKEN_WORDS))


def too_small(page: Any) -> list[str]:
    """Controls on which no finger fits (less than 24 pixels either way), and letters below 11 pixels."""
    return list(page.evaluate(TOO_SMALL, {"touched": 23.9, "read": 10.95}))


def until(page: Any, condition: str) -> None:
    """Wait for a condition; Playwright's own way evaluates text in the page, which the page forbids."""
    deadline = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(25)
