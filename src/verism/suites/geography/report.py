"""The report of geography: what suits any suite, trade-offs, and maps of objects and regions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from verism.records import FacetValue, Score
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import FigureByProtocol, figure, part
from verism.report_kit.gallery import GallerySettings
from verism.report_kit.generic import generic_sections
from verism.report_kit.maps import Point, group_map, scatter
from verism.report_kit.section import Section
from verism.report_kit.trade_offs import trade_off_section

__all__ = ["geography_sections"]

AIMS = {"precision_mean": "realism", "coverage_mean": "diversity", "consistency": "consistency"}
MAPS = ("precision", "coverage", "consistency")
FILTERS = {"region": ("region",), "object": ("object",)}

Cells = dict[tuple[str, str], Score]  # by object and region


def geography_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    gallery = GallerySettings(filters=FILTERS, within="object")
    results = {section.id: section for section in generic_sections(evidence, gallery=gallery)}
    particular = {"trade-offs": trade_off_section(evidence, AIMS), "objects": _objects(evidence)}
    results |= {name: section for name, section in particular.items() if section is not None}
    order = ("results", "trade-offs", "groups", "objects", "gallery", "protocols")
    return [results[name] for name in order if name in results]


def _objects(evidence: Evidence) -> Section | None:
    """Objects by regions: realism against diversity, and maps; None if these runs have no such numbers."""
    maps, scatters = _maps(evidence), _scatters(evidence)
    if not maps and not scatters:
        return None
    body = part(evidence, "objects.html.j2", package=__package__, maps=maps, scatters=scatters)
    return Section(title="Objects", id="objects", body=body)


def _cells(found: Sequence[Score], metric: str, family: FacetValue, protocol: str) -> Cells:
    """Scores of single objects in single regions."""
    return {
        (str(s.group["object"]), str(s.group["region"])): s
        for s in found
        if s.metric == metric
        and s.protocol == protocol
        and set(s.group) - {"family"} == {"object", "region"}
        and s.group.get("family") == family
    }


def _families(evidence: Evidence) -> list[FacetValue]:
    """Families of prompts that have numbers of single objects in single regions."""
    return list(
        dict.fromkeys(
            s.group.get("family")
            for members in evidence.scores
            for s in members
            if {"object", "region"} <= set(s.group) and s.metric in MAPS
        )
    )


def _titled(evidence: Evidence, what: str, family: FacetValue, run: int) -> str:
    """What a figure shows, of which prompts and, among several, of which run."""
    form = "" if family is None else evidence.vocabulary.value_name("family", family)
    name = evidence.names[run] if len(evidence.names) > 1 else ""
    return ", ".join(filter(None, (what, form, name))) or "all"


def _maps(evidence: Evidence) -> list[FigureByProtocol]:
    """Objects by regions, for each family, metric and run: runs side by side, in the same shades."""
    figures = []
    for family in _families(evidence):
        for metric in MAPS:
            every = [_cells(members, metric, family, p) for members in evidence.scores for p in evidence.protocols]
            scale = _scale([s for cells in every for s in cells.values()])
            spec = evidence.vocabulary.spec(metric)
            unit = spec.scale.title if spec and spec.scale else ""
            for n, result in enumerate(evidence.scores):
                title = _titled(evidence, evidence.vocabulary.title(metric), family, n)

                def draw(
                    protocol: str,
                    of: tuple[Sequence[Score], str, FacetValue] = (result, metric, family),
                    look: tuple[tuple[float, float], str] = (scale, unit),
                    label: str = f"{metric} of every object in every region, {evidence.names[n]}, prompts by {family}",
                ) -> Markup | None:
                    cells = _cells(*of, protocol)
                    return group_map(
                        rows=union([row] for row, _ in cells),
                        columns=union([column] for _, column in cells),
                        cells=cells,
                        scale=look[0],
                        unit=look[1],
                        label=f"{label}, {protocol}",
                    ) if cells else None  # fmt: skip

                figures += figure(title, evidence.protocols, draw)
    return figures


def _scale(found: Sequence[Score]) -> tuple[float, float]:
    """The palest and the darkest value of maps: shares from 0 to 1, others (cosines) over the range of these pages."""
    values = [s.value for s in found if math.isfinite(s.value)]
    if not values or all(s.unit == "share" for s in found):
        return 0.0, 1.0
    return min(values), max(values)


def _scatters(evidence: Evidence) -> list[FigureByProtocol]:
    """Precision against coverage, a mark for each object and region."""
    figures = []
    for family in _families(evidence):
        for n, result in enumerate(evidence.scores):

            def draw(
                protocol: str, of: Sequence[Score] = result, family: FacetValue = family, name: str = evidence.names[n]
            ) -> Markup | None:
                precision, coverage = (_cells(of, metric, family, protocol) for metric in ("precision", "coverage"))
                regions = union([region] for _, region in precision)
                points = [
                    Point(
                        x=score.value,
                        y=coverage[key].value,
                        kind=regions.index(key[1]),
                        tooltip=f"{key[0]}, {key[1]}: precision {evidence.cell(score)}, "
                        f"coverage {evidence.cell(coverage[key])}",
                    )
                    for key, score in precision.items()
                    if key in coverage
                ]
                return scatter(
                    points=points,
                    kinds=regions,
                    x_name="precision, % (realism)",
                    y_name="coverage, % (diversity)",
                    label=f"Precision and coverage of every object and region, {name}, {family}, {protocol}; "
                    "numbers: maps below",
                ) if points else None  # fmt: skip

            figures += figure(_titled(evidence, "", family, n), evidence.protocols, draw)
    return figures
