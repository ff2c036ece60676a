"""Hostile prompts, captions and names: nothing of them runs in a page, a spreadsheet or a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from fault_campaigns.commands import Done, forked
from fault_campaigns.runs import judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, worst

NAME = "texts"
MARK = "zq7mark"  # in each text, to find it again
TEXTS = {
    "end of a script": f"</script><script>window.{MARK}=1</script>",
    "image with a handler": f"<img src=x onerror=alert('{MARK}')>",
    "end of an attribute": f'" onmouseover="alert(\'{MARK}\')" x="',
    "end of an attribute, single": f"' onfocus='alert(`{MARK}`)' autofocus='",
    "frame": f"<iframe src=javascript:alert('{MARK}')></iframe>",
    "style": f"</style><style>body{{display:none}}/*{MARK}*/",
    "link": f"<a href=\"javascript:alert('{MARK}')\">x</a>",
    "picture from elsewhere": f"<img src=http://198.51.100.7/{MARK}.png>",
    "refresh": f"<meta http-equiv=refresh content='0;url=http://198.51.100.7/{MARK}'>",
    "base": f"<base href=http://198.51.100.7/{MARK}/>",
    "vector image": f"<svg onload=alert('{MARK}')>",
    "template": f"{{{{ 7*7 }}}}{{% for x in [1] %}}{MARK}{{% endfor %}}",
    "comment": f"--><!-- {MARK} <![CDATA[",
    "JSON in a script": f"\\u003c/script\\u003e{MARK}\u2028\u2029",
    "formula": f'=HYPERLINK("http://198.51.100.7/{MARK}";"x")',
    "formula, plus": f"+cmd|' /C calc'!A0 {MARK}",
    "formula, minus": f"-2+3+cmd|' /C calc'!A0 {MARK}",
    "formula, at": f"@SUM(1+1)*cmd|' /C calc'!A0 {MARK}",
    "formula after a tab": f"\t=1+1 {MARK}",
    "formula after a space": f" =1+1 {MARK}",
    "formula, full width": f"＝1+1 {MARK}",
    "colours of a terminal": f"\x1b[2J\x1b[31m{MARK}\x1b[0m",
    "title of a terminal": f"\x1b]0;{MARK}\x07",
    "clipboard of a terminal": f"\x1b]52;c;{MARK}\x1b\\",
    "one-byte control": f"\x9b31m{MARK}\x08\x08\x08",
    "written backwards": f"{MARK} \u202egnp.exe\u202c",
    "isolated": f"\u2066{MARK}\u2069",
    "zero bytes": f"a\x00b{MARK}",
    "no characters": f"\ufffe\uffff{MARK}",
    "half of a pair": f"\ud800{MARK}",
    "other half": f"{MARK}\udfff",
    "long": MARK + "x" * 200_000,
    "many marks": MARK + "\u0301" * 5_000,
    "path": f"../../../../etc/passwd {MARK}",
    "format": f"%s%n{{}}{{0}}{{0.__class__}}$({MARK})`{MARK}`",
    "lines": f"{MARK}\r\nX-Header: 1\n\nbody",
    "quotation marks": f'"{MARK}""\',;',
    "spaces": f"\u00a0\u2003\u200b{MARK}\ufeff",
}
FORMULA = re.compile(r"^\s*[=+\-@＝＋－＠]|^[\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-")
ESCAPES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
LEADS_AWAY = re.compile(r"\s*(javascript|data:text/html|https?:|//)")
TURNING = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


def jobs(setting: Setting) -> list[Job]:
    """Each text in a run of its own, so that it is known which one did it."""
    names = list(TEXTS)
    if setting.quick:
        return [Job(NAME, hostile, (["end of a script", "formula"],), 6)]
    return [Job(NAME, hostile, (names[part::6],), 20) for part in range(6)]


def hostile(site: Site, names: list[str]) -> Iterator[Trial]:
    """A text as prompt, category and caption; in the page, tables, exports, and what commands print."""
    calm = _elements(_page(site, "calm", "a quiet text").read_text(encoding="utf-8"))
    for number, name in enumerate(names):
        outcome, detail = worst(_checks(site, f"t{number}", TEXTS[name], calm))
        yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail, files=2)


def _checks(site: Site, label: str, text: str, calm: dict[str, int]) -> Iterator[tuple[Outcome, str]]:
    run, files = _run(site, label, text)
    yield judged(run)
    yield _terminal(run, "run")
    for command in (
        ["prompts", "alignment", "--prompts", files["prompts"]],
        ["prompts", "alignment", "--prompts", files["prompts"], "--json"],
    ):
        done = forked(command, cwd=site.folder)
        yield judged(done)
        if "--json" not in command and done.code == 0:
            yield _table(done.out, "prompts")
    if run.code not in (0, 1):
        yield ("survived", "") if run.said.strip() else ("silent", f"exit code {run.code} without a word")
        return
    out = site.folder / label
    for options in ([], ["--csv"], ["--markdown"], ["--json"]):
        done = forked(["report", out, *options], cwd=site.folder)
        yield judged(done)
        if done.code != 0:
            yield "lost", f"report {options}: exit code {done.code}: {done.said[-200:]}"
        if options == ["--csv"]:
            yield _table(done.out, "report --csv")
        if options in ([], ["--markdown"]):
            yield _terminal(done, f"report {' '.join(options)}")
    page = out / "report" / "index.html"
    if page.exists():
        yield from _of_the_page(page.read_text(encoding="utf-8"), calm)
    for kind in ("table", "mturk", "label-studio", "bundle"):
        to = site.folder / f"{label}-{kind}"
        words = ["annotate", out, "--task", "alignment", "--export", kind, "--to", to, "--study", f"s-{kind}"]
        done = forked([*words, "--image-url", "https://me.example/{name}"], cwd=site.folder)
        yield judged(done)
        for table in to.glob("*.csv"):
            yield _table(table.read_bytes().decode(), f"export {kind}")
        for page in to.glob("*.html"):
            yield from _of_the_page(page.read_text(encoding="utf-8"), None)


def _page(site: Site, label: str, text: str) -> Path:
    run, _ = _run(site, label, text)
    if run.code not in (0, 1):
        raise RuntimeError(run.said)
    forked(["report", site.folder / label], cwd=site.folder)
    return site.folder / label / "report" / "index.html"


def _run(site: Site, label: str, text: str) -> tuple[Done, dict[str, Path]]:
    """A run of two prompts, the first of them hostile in every column, with captions from a file."""
    files = {name: site.folder / f"{label}-{name}.jsonl" for name in ("prompts", "images", "captions")}
    picture = sorted((site.templates / "pictures").glob("*.png"))[0]
    prompts = [
        {"prompt_id": "p1", "prompt": text, "reference": text, "category": text},
        {"prompt_id": "p2", "prompt": "a cat", "reference": "a cat", "category": "calm"},
    ]
    _lines(files["prompts"], prompts)
    _lines(files["images"], [{"path": str(picture), "prompt_id": name} for name in ("p1", "p2")])
    _lines(files["captions"], [{"image_id": "p1", "caption": text}, {"image_id": "p2", "caption": "a cat"}])
    words = ["run", "alignment", "--prompts", files["prompts"], "--images", files["images"], "--group-by", "category"]
    words += ["--captioner", f"results:{files['captions']}", "--out", site.folder / label]
    return forked(words, cwd=site.folder), files


def _lines(path: Path, records: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


# -------------------------------------------------------------------------------------------------------------- checks
class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


ACTIVE = ("script", "iframe", "object", "embed", "base", "meta", "link", "style", "form", "svg", "frame", "applet")


def _elements(page: str) -> dict[str, int]:
    """How many elements of each kind that could do something a page has."""
    reader = _Reader()
    reader.feed(page)
    return {tag: sum(name == tag for name, _ in reader.elements) for tag in ACTIVE if tag != "svg"}


def _of_the_page(page: str, calm: dict[str, int] | None) -> Iterator[tuple[Outcome, str]]:
    reader = _Reader()
    reader.feed(page)
    for tag, attributes in reader.elements:
        for name, value in attributes.items():
            if name.startswith("on") and MARK in (value or ""):
                yield "silent", f"the page has a handler: <{tag} {name}={value!r:.80}>"
            leads = name in ("src", "href", "action", "formaction", "content", "xlink:href")
            if leads and MARK in (value or "") and LEADS_AWAY.match(value or ""):
                yield "silent", f"the page leads away: <{tag} {name}={value!r:.80}>"
    if calm is not None and (now := _elements(page)) != calm:
        yield "silent", f"the page has other elements than a quiet one: {now} in place of {calm}"
    if turning := TURNING.search(page):
        place = max(0, turning.start() - 60)
        yield "silent", f"the page has characters that turn the direction of writing: {page[place : place + 100]!r}"


def _table(text: str, what: str) -> tuple[Outcome, str]:
    csv.field_size_limit(1 << 28)
    for row in csv.reader(io.StringIO(text, newline="")):
        for cell in row:
            if FORMULA.match(cell) and not NUMBER.fullmatch(cell):
                return "silent", f"{what} has a cell that a spreadsheet runs: {cell!r:.80}"
    return "survived", ""


def _terminal(done: Done, what: str) -> tuple[Outcome, str]:
    for pattern in (ESCAPES, TURNING):
        if found := pattern.search(done.said.replace("\r\n", "\n")):
            return "silent", f"{what} prints {found[0]!r}, which a terminal obeys"
    return "survived", ""
