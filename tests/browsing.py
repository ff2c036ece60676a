"""Headless Chromium for tests of pages, what is wrong with a page, and the page of a study to look at."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["CHROMIUM", "OPTIONS", "browsing", "faults_of", "serving", "serving_app", "until"]

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


def until(page: Any, condition: str) -> None:
    """Wait for a condition; Playwright's own way evaluates text in the page, which the page forbids."""
    deadline = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(25)
