"""The requests of the viewer. All are GET, and none changes anything.

``/api/runs`` lists runs and pages. Of one run (``run=NAME``): ``/api/run`` has its scores, ``/api/provenance`` where
they come from, ``/api/filters`` what images can be chosen by, ``/api/images`` a page of them, ``/api/image`` all of
one, ``/thumbnail`` its pixels, made small. ``/api/compare`` pairs the images of two runs (``a``, ``b``), and
``/api/cautions`` says why their numbers may not be comparable. ``/pages/NAME`` is a page that was found, ``/report``
the report of a run and ``/board`` that of a plan, made when they are asked for; all three are shut off from everything
else.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from verism.errors import UsageError, VerismError
from verism.imaging import thumbnail
from verism.plans.board import Board, make_board
from verism.plans.board_page import board_page
from verism.plans.status import read_rows
from verism.report_kit import tables
from verism.report_kit.evidence import Evidence
from verism.report_kit.generic import first_scores
from verism.report_kit.page import render, sections_of
from verism.report_kit.provenance import cautions, introduce, provenance
from verism.store import Run
from verism.terminal import without_nan
from verism.viewer import images as chosen
from verism.viewer.images import Cache, ImageTable
from verism.viewer.library import DamagedRunError, Library, NotFoundError, fingerprint, presentation_for, reading
from verism.viewer.pairs import paired

__all__ = ["PAGES", "add_routes"]

WEB = resources.files("verism.viewer") / "web"
STATIC = {
    "app.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
PAGES = ("/pages/", "/report", "/board")  # opened as documents, also from pages that may not read anything here
SIDES = (240, 480, 1440)  # pixels of the longer side that an image is made small to
MAX_PAGE = 200  # images
MAX_TEXT = 500  # characters of a name or a text
THUMBNAILS = 512  # kept in memory, some 20 kB each
# A page brings its own script. In a sandbox without an origin it can read nothing here, and reach nothing elsewhere.
SANDBOX = (
    "sandbox allow-scripts allow-popups allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Site:
    """What all requests are answered from."""

    def __init__(self, library: Library) -> None:
        """The site of a folder.

        Args:
            library: what lies below it.
        """
        self.library = library
        self.cache = Cache()
        self.provenance = lru_cache(maxsize=16)(_provenance)
        self.board = lru_cache(maxsize=4)(_board)
        self._thumbnails: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def images(self, key: str) -> ImageTable:
        """The images of a run.

        Args:
            key: name of the run.
        """
        return self.cache.table(self.library.run(key))

    def thumbnail(self, digest: str, side: int, data: bytes) -> bytes:
        """An image made small, from memory if it was asked for lately.

        Args:
            digest: SHA-256 of its file.
            side: longer side at most, pixels.
            data: content of its file.
        Raises:
            ValueError: not an image that can be shown.
        """
        key = (digest, side)
        small = self._thumbnails.get(key) or thumbnail(data, side)
        self._thumbnails[key] = small
        while len(self._thumbnails) > THUMBNAILS:
            self._thumbnails.pop(next(iter(self._thumbnails)), None)
        return small


def _site(request: Request) -> Site:
    site = request.app.state.site
    assert isinstance(site, Site)
    return site


TheSite = Annotated[Site, Depends(_site)]
Text = Annotated[str, Query(max_length=MAX_TEXT)]
Index = Annotated[int, Query(ge=0, le=10**9)]
Size = Annotated[int, Query(ge=1, le=MAX_PAGE)]


def _query(
    protocol: Text = "",
    rule: Text = "",
    outcome: Text = "",
    reason: Text = "",
    judge: Text = "",
    state: Text = "",
    q: Text = "",
    order: Text = "id",
    facet: Annotated[list[str] | None, Query(max_length=32)] = None,
) -> chosen.Query:
    facets = []
    for pair in facet or []:
        name, found, value = pair.partition("=")
        if not found:
            raise UsageError(f"a facet is chosen as NAME=VALUE; got {pair[:MAX_TEXT]!r}")
        facets.append((name, value))
    return chosen.Query(
        protocol=protocol,
        rule=rule,
        outcome=outcome,
        reason=reason,
        judge=judge,
        state=state,
        text=q,
        facets=tuple(sorted(facets)),
        order=order,
    )


TheQuery = Annotated[chosen.Query, Depends(_query)]
router = APIRouter()


# ---------------------------------------------------------------------------------------------------------------- page
@router.get("/")
def start() -> Response:
    """The page itself, which holds no data."""
    return Response((WEB / "index.html").read_text(encoding="utf-8"), media_type="text/html")


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Script, style and icon."""
    if name not in STATIC:
        raise NotFoundError("there is nothing here")
    return Response((WEB / name).read_bytes(), media_type=STATIC[name])


# ---------------------------------------------------------------------------------------------------------------- runs
@router.get("/api/runs")
def runs(site: TheSite) -> Response:
    """All runs, plans and pages below the folder."""
    library = site.library
    entries = [entry.record for entry in library.entries()]
    pages = [page for page in library.pages() if not page["run"]]
    record = {"folder": str(library.root), "runs": entries, "plans": library.plans(), "pages": pages}
    return JSONResponse(without_nan(record | {"truncated": library.truncated}))


@router.get("/api/run")
def run(site: TheSite, run: Text) -> Response:
    """A run: how far it is, its scores and what they do not say."""
    entry = site.library.entry(run)
    record = dict(entry.record)
    record["pages"] = [page for page in site.library.pages() if page["run"] == entry.key]
    if entry.run is not None and record["state"] != "damaged":
        with reading(entry.run):
            record |= _scores(entry.run, site.images(run))
    return JSONResponse(without_nan(record))


@router.get("/api/provenance")
def run_provenance(site: TheSite, run: Text) -> Response:
    """Where the numbers of a run come from, and why they may not be final."""
    opened = site.library.run(run)
    return JSONResponse(site.provenance((opened.path,), (fingerprint(opened),)))


@router.get("/report")
def report(site: TheSite, run: Text) -> Response:
    """The report of a run as the run itself keeps its suite's sections."""
    opened = site.library.run(run)
    with reading(opened):
        evidence = Evidence.of([opened], [presentation_for(opened)])
        page = render(evidence, sections_of(evidence, [None]))
    return _document(page.encode("utf-8", "backslashreplace"))


@router.get("/board")
def board(site: TheSite, plan: Text) -> Response:
    """The board of a plan as its runs are now; its rows link to the runs."""
    folder = site.library.plan(plan)
    kept = tuple(sorted((p.name, p.stat().st_mtime_ns) for p in (folder / "status").glob("*.json")))
    opened = [entry.run for entry in site.library.entries() if entry.run is not None]
    runs = tuple(fingerprint(run) for run in opened if run.path.is_relative_to(folder))
    made = site.board(folder, (kept, runs))
    rows = [replace(row, reports=_links(site.library, row.runs)) for row in made.rows]
    return _document(board_page(replace(made, rows=tuple(rows)), link="run").encode("utf-8", "backslashreplace"))


@router.get("/pages/{name:path}")
def page(site: TheSite, name: str) -> Response:
    """A page that was found below the folder."""
    return _document(site.library.page(name))


# -------------------------------------------------------------------------------------------------------------- images
@router.get("/api/filters")
def filters(site: TheSite, run: Text) -> Response:
    """What images of a run can be chosen by."""
    return JSONResponse(without_nan(site.images(run).filters()))


@router.get("/api/images")
def images(
    site: TheSite, query: TheQuery, run: Text, offset: Index = 0, size: Size = 48, boxes: bool = False
) -> Response:
    """Some images of a query in order, and how many there are in all."""
    table = site.images(run)
    ids = table.select(query)
    wanted = ids.slice(offset, size).to_list()
    query = table.checked(query)
    rows = table.rows(wanted, protocol=query.protocol, rule=query.rule, boxes=boxes)
    return JSONResponse(without_nan({"total": len(ids), "offset": offset, "protocol": query.protocol, "images": rows}))


@router.get("/api/image")
def image(site: TheSite, query: TheQuery, run: Text, id: Text) -> Response:
    """All that is known of an image, and which images of the query stand before and after it."""
    table = site.images(run)
    record = table.detail(id)
    query = table.checked(query)
    ids = table.select(query)
    position = next(iter((ids == id).arg_true().to_list()), None)
    beside = {"position": position, "total": len(ids), "previous": None, "next": None, "protocol": query.protocol}
    if position is not None:
        beside["previous"] = ids[position - 1] if position > 0 else None
        beside["next"] = ids[position + 1] if position + 1 < len(ids) else None
    return JSONResponse(without_nan(record | beside))


@router.get("/thumbnail")
def small_image(request: Request, site: TheSite, run: Text, id: Text, side: int = SIDES[0], v: Text = "") -> Response:
    """An image, made small and encoded anew: what its file may hold besides pixels stays where it is."""
    if side not in SIDES:
        raise UsageError(f"side is one of {', '.join(map(str, SIDES))}")
    data = site.images(run).content(id)
    digest = hashlib.sha256(data).hexdigest()
    tag = f'"{digest[:32]}-{side}"'
    # An address that names the content may be kept for good; another is asked for again.
    forever = bool(v) and digest.startswith(v)
    headers = {
        "cache-control": "private, max-age=31536000, immutable" if forever else "private, no-cache",
        "etag": tag,
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    try:
        return Response(site.thumbnail(digest, side, data), media_type="image/jpeg", headers=headers)
    except ValueError as err:
        raise NotFoundError(str(err)) from err


@router.get("/api/compare")
def compare(
    site: TheSite,
    a: Text,
    b: Text,
    protocol: Text = "",
    rule: Text = "",
    show: Text = "",
    offset: Index = 0,
    size: Size = 24,
) -> Response:
    """Images of two runs side by side; where they disagree most comes first."""
    first, second = site.images(a), site.images(b)
    pairs = paired(first, second, protocol=protocol, rule=rule, show=show)
    rows = pairs.table.slice(offset, size)
    ids = rows["image_id"].to_list()
    sides = [
        {row["image_id"]: row for row in table.rows(ids, protocol=pairs.protocol, rule=pairs.rule, boxes=True)}
        for table in (first, second)
    ]
    record = {
        "rule": pairs.rule,
        "protocol": pairs.protocol,
        "rules": pairs.rules,
        "protocols": pairs.protocols,
        "right_or_wrong": pairs.rule in first.decisive,
        "counts": pairs.counts,
        "total": pairs.table.height,
        "offset": offset,
        "pairs": [row | {"a": sides[0].get(row["image_id"]), "b": sides[1].get(row["image_id"])}
                  for row in rows.iter_rows(named=True)],
    }  # fmt: skip
    return JSONResponse(without_nan(record))


@router.get("/api/cautions")
def compare_cautions(site: TheSite, a: Text, b: Text) -> Response:
    """Why the numbers of two runs may not be comparable."""
    opened = [site.library.run(key) for key in (a, b)]
    record = site.provenance(tuple(r.path for r in opened), tuple(map(fingerprint, opened)))
    return JSONResponse({"cautions": record["cautions"]})


# ------------------------------------------------------------------------------------------------------------- helpers
def _links(library: Library, runs: Mapping[str, str]) -> dict[str, str]:
    """By suite, the address of the run in the viewer."""
    keys = {suite: library.key_of(Path(path)) for suite, path in runs.items()}
    return {suite: f"/#/run?{urlencode({'run': key})}" for suite, key in keys.items() if key is not None}


def _board(folder: Path, versions: Any) -> Board:
    """The board of a plan.

    Args:
        folder: the plan's directory.
        versions: what changes whenever a run of the plan does, for the cache.
    """
    del versions
    for path in (folder / "runs").glob("*"):
        if not path.resolve().is_relative_to(folder):
            raise UsageError(f"{path} leads out of the folder that is shown")
    try:
        for row in (read_rows(folder) or {}).get("rows", ()):
            if "scores" in row and not Path(row["scores"]).is_file():  # what is none may never end
                raise UsageError(f"the table of scores {row['scores']} is not a file")
        return make_board([folder])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        if isinstance(err, VerismError):
            raise
        raise DamagedRunError(f"the board of {folder} cannot be made: {type(err).__name__}: {err}") from err


def _document(content: bytes) -> Response:
    headers = {"content-security-policy": SANDBOX, "cross-origin-opener-policy": "same-origin"}
    return Response(content, media_type="text/html; charset=utf-8", headers=headers)


def _scores(run: Run, images: ImageTable) -> dict[str, Any]:
    """Scores by protocol as tables write them, what the suite asks, its limits, and remarks.

    Args:
        run: the run.
        images: its images; a group of scores leads to them by those facets that the prompts have.
    """
    if not run.is_scored:
        return {
            "protocols": [],
            "right_or_wrong": False,
            "question": "",
            "limits": [],
            "remarks": [],
            "tables": {},
            "breakdowns": {},
        }
    evidence = Evidence.of([run], [presentation_for(run)], gallery=0)
    first = first_scores(evidence)

    def rows(protocol: str, *, detailed: bool) -> list[dict[str, Any]]:
        found = tables.score_rows(evidence, protocol, lambda s: first(s) != detailed, adjusted=True)
        return [
            {
                "metric": r.metric,
                "group": r.group,
                "facets": {k: str(v) for k, v in r.key[1] if images.has_facet(k, str(v))},
                "better": r.better,
                "unit": r.unit,
                **asdict(r.cells[0]),
            }
            for r in found
        ]

    def spec_rows() -> list[dict[str, str]]:
        used = {s.metric for s in evidence.scores[0]}
        specs = [spec for spec in evidence.presentations[0].metrics if spec.name in used]
        return [{"title": s.title, "meaning": s.meaning, "source": s.source} for s in specs]

    return {
        "protocols": [{"name": p, "meaning": evidence.meanings.get(p, "")} for p in evidence.protocols],
        "right_or_wrong": any(p.right_or_wrong for p in evidence.presentations[0].pairings),
        "question": evidence.info.question,
        "limits": list(evidence.info.limits),
        "remarks": [line for _, line in evidence.remarks],
        "tables": {p: rows(p, detailed=False) for p in evidence.protocols},
        "breakdowns": {p: rows(p, detailed=True) for p in evidence.protocols},
        "metrics": spec_rows(),
    }


def _provenance(paths: Sequence[Path], versions: Sequence[Any]) -> dict[str, Any]:
    """Sections and cautions of some runs.

    Args:
        paths: of the runs.
        versions: fingerprints of the runs, for the cache.
    """
    del versions
    opened = [Run.open(path) for path in paths]
    with reading(opened[0]):
        evidence = Evidence.of(opened, [presentation_for(run) for run in opened], gallery=0)
        sources = introduce(evidence)
        sections = provenance(evidence, sources)
        return {
            "sections": [{"title": t, "rows": [{"name": k, "values": v} for k, v, _ in rows]} for t, rows in sections],
            "cautions": cautions(sources),
        }


def _reply(status: int, err: Exception) -> JSONResponse:
    return JSONResponse({"error": str(err)}, status)


def add_routes(app: FastAPI, library: Library) -> None:
    """Let an application answer the requests about a folder.

    Args:
        app: the application.
        library: what lies below the folder.
    """
    app.state.site = Site(library)
    app.include_router(router)
    app.add_exception_handler(NotFoundError, lambda _, err: _reply(404, err))
    app.add_exception_handler(DamagedRunError, lambda _, err: _reply(422, err))
    app.add_exception_handler(UsageError, lambda _, err: _reply(400, err))
    app.add_exception_handler(VerismError, lambda _, err: _reply(409, err))
    app.add_exception_handler(RequestValidationError, lambda _, err: _reply(400, err))
