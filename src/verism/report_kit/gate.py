"""What a gate found, for the terminal and for the test reports of CI services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from verism.characters import visible
from verism.report_kit.words import number

__all__ = ["gate_junit", "gate_plan_table", "gate_table", "refusal_junit"]

VERDICTS = {
    "exceeds": "DROP TOO LARGE",
    "within": "within limit",
    "undecided": "cannot tell",
    "untested": "not tested",
}
METHODS = {
    "paired": "paired image by image, clustered by prompt",
    "intervals": "from the intervals of both scores, taken for independent",
    "identical": "both runs hold the same images and verdicts",
}


def gate_table(record: Mapping[str, Any]) -> str:
    """``Gate.record()`` as aligned text, the verdict first; shares in per cent, drops in points.

    Args:
        record: the gate.
    """
    rows = record["rows"]
    several = len({row["method"] for row in rows}) > 1
    reasons = list(dict.fromkeys(text for row in rows for text in row["reasons"]))
    confidence = f"{100 * (1 - 2 * record['alpha']):g} %"
    header = ["metric", "group", "base", "new", "drop", f"[{confidence}]", "allowed", "p", "p (Holm)", "pairs"]
    header += [*(["not comparable"] if reasons else []), *(["test"] if several else []), "verdict"]
    cells = [
        [
            row["label"] or row["metric"],
            _group(row),
            _value(row["base"], row["unit"]),
            _value(row["new"], row["unit"]),
            _change(row["drop"], row["unit"]),
            f"{_change(row['low'], row['unit'])} to {_change(row['high'], row['unit'])}",
            _limit(row),
            _p(row["p_value"]),
            _p(row["p_holm"]),
            f"{row['n_pairs']:,}" if row["method"] != "intervals" else "-",
            *([" ".join(f"[{reasons.index(text) + 1}]" for text in row["reasons"])] if reasons else []),
            *([row["method"]] if several else []),
            VERDICTS[row["verdict"]],
        ]
        for row in rows
    ]
    left = {0, 1, len(header) - 1}
    widths = [max(len(row[k]) for row in [header, *cells]) for k in range(len(header))]
    lines = [_summary(record), "", f"BASE = {record['base']}", f"NEW  = {record['new']}", ""]
    for line in [header, *cells]:
        padded = [c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths, strict=True))]
        lines.append("  ".join(padded).rstrip())
    lines.append("")
    if reasons:
        lines += ["Not comparable, as these differ:", *(f"[{n}] {text}" for n, text in enumerate(reasons, 1)), ""]
    lines += _missing(rows)
    lines += [f"{METHODS[method]}." for method in dict.fromkeys(row["method"] for row in rows) if not several]
    lines += [f"{method}: {METHODS[method]}." for method in dict.fromkeys(row["method"] for row in rows) if several]
    lines += [f"not tested: {each['why']}" for each in record["untested"]]
    lines.append(
        f"A drop is how much worse NEW is. It is too large where p (Holm over these {len(rows)} rows) is at most "
        f"{record['alpha']:g}, and within the limit where the upper end is below it (each end one-sided, "
        f"{100 * (1 - record['alpha']):g} %)."
    )
    return "\n".join(lines)


def _summary(record: Mapping[str, Any]) -> str:
    counts = {verdict: sum(row["verdict"] == verdict for row in record["rows"]) for verdict in VERDICTS}
    counted = ", ".join(f"{n} {VERDICTS[verdict].lower()}" for verdict, n in counts.items() if n)
    if record["passed"]:
        return f"PASS: {counted}"
    if record["require"] == "shown" and not counts["exceeds"]:
        return f"FAIL: not every drop is shown to be within the limit ({counted})"
    return f"FAIL: {counted}"


def _missing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for the row with most images that are not in both runs."""
    unpaired = [row for row in rows if row["only_base"] + row["only_new"] + row["neither"]]
    if not unpaired:
        return []
    row = max(unpaired, key=lambda r: (r["only_base"] + r["only_new"] + r["neither"], r["n_pairs"]))
    n = row["only_base"] + row["only_new"] + row["neither"]
    return [
        f"{n:,} of {n + row['n_pairs']:,} images are not paired and not tested ({row['metric']}"
        f"{f', {_group(row)}' if row['group'] else ''}): no usable answer in NEW for {row['only_base']:,}, in BASE for "
        f"{row['only_new']:,}, in neither for {row['neither']:,}."
    ]


def _group(row: Mapping[str, Any]) -> str:
    return ", ".join(str(value) for value in row["group"].values()) or "all"


def _value(value: float | None, unit: str) -> str:
    return "-" if value is None else number(value, unit)


def _change(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.1f}" if unit == "share" else f"{value:+.3g}"


def _limit(row: Mapping[str, Any]) -> str:
    return f"{100 * row['max_drop']:g} points" if row["unit"] == "share" else f"{row['max_drop']:g} {row['unit']}"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _sentence(row: Mapping[str, Any]) -> str:
    """A row in words."""
    unit = row["unit"]
    return (
        f"{VERDICTS[row['verdict']]}: drop {_change(row['drop'], unit)} "
        f"({_change(row['low'], unit)} to {_change(row['high'], unit)}), allowed {_limit(row)}; "
        f"base {_value(row['base'], unit)}, new {_value(row['new'], unit)}; p (Holm) {_p(row['p_holm'])}, "
        f"{row['n_pairs']:,} pairs of {row['n_prompts']:,} prompts; {METHODS[row['method']]}"
    )


def gate_junit(record: Mapping[str, Any]) -> str:
    """``Gate.record()`` as a JUnit report: a test case for each row, and one that is skipped for what was not tested.

    Args:
        record: the gate.
    """
    good = ("within",) if record["require"] == "shown" else ("within", "undecided")
    cases = []
    for row in record["rows"]:
        group = ", ".join(f"{name}={value}" for name, value in row["group"].items())
        case = _case(record["suite"], f"{row['metric']}{f' [{group}]' if group else ''}")
        text = _sentence(row)
        if row["verdict"] == "untested" and record["require"] != "shown":
            ElementTree.SubElement(case, "skipped", message=_text(text))
        elif row["verdict"] not in good:
            ElementTree.SubElement(case, "failure", type=row["verdict"], message=_text(text)).text = _text(text)
        else:
            ElementTree.SubElement(case, "system-out").text = _text(text)
        cases.append(case)
    for each in record["untested"]:
        case = _case(record["suite"], each["metric"])
        ElementTree.SubElement(case, "skipped", message=_text(each["why"]))
        cases.append(case)
    return _report(cases, gate_table(record))


def refusal_junit(message: str) -> str:
    """A JUnit report of a gate that could not be made: one test case with an error.

    Args:
        message: why not.
    """
    case = _case("verism", "runs are comparable")
    ElementTree.SubElement(case, "error", type="refused", message=_text(message)).text = _text(message)
    return _report([case], message)


def _text(words: str) -> str:
    """Words that XML has characters for: two that are none in Unicode are left out."""
    return visible(words).replace("\ufffe", "").replace("\uffff", "")


def _case(suite: str, name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname=_text(f"gate.{suite}"), name=_text(name), time="0")


def _report(cases: Sequence[ElementTree.Element], text: str) -> str:
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    attributes = {"name": "verism gate", **{name: str(n) for name, n in counts.items()}, "time": "0"}
    root = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    suite.extend(cases)
    ElementTree.SubElement(suite, "system-out").text = _text(text)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def gate_plan_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Records of ``GatePlan`` as aligned text.

    Args:
        records: the plans.
    """
    powers = list(records[0]["prompts"])
    runs = any(record["metric"] for record in records)
    header = [
        *(["metric", "group"] if runs else []),
        "images a prompt",
        "differ",
        "alike",
        *(f"prompts, {power} %" for power in powers),
        *([f"seen now, {power} %" for power in powers] if runs else []),
    ]
    cells = []
    for record in records:
        seen = record["seen"] or {}
        cells.append(
            [
                *([record["metric"], _group(record)] if runs else []),
                f"{record['images_per_prompt']}",
                _differ(record),
                "-" if record["correlation"] is None else f"{record['correlation']:.2f}",
                *(f"{n:,}" if n is not None else "-" for n in record["prompts"].values()),
                *([_change(seen.get(power), record["unit"]) for power in powers] if runs else []),
            ]
        )
    widths = [max(len(row[k]) for row in [header, *cells]) for k in range(len(header))]
    left = 2 if runs else 0
    first = records[0]
    lines = [
        f"To see a drop of {_drop(first, 'drop')} where {_drop(first, 'max_drop')} is allowed:",
        "",
        *(
            "  ".join(
                c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [header, *cells]
        ),
        "",
        "differ: share of images whose verdicts differ between the runs; alike: correlation of the differences of two "
        "images of a prompt.",
    ]
    basis = {record["basis"] for record in records}
    if "run" in basis:
        lines.append(
            "From one run: another run of the same model is taken to differ as images of one prompt do, or, with one "
            "image a prompt, as if drawn anew, which is more than real pairs of runs do. A pilot of two runs is better."
        )
    return "\n".join(lines)


def _differ(record: Mapping[str, Any]) -> str:
    if record["discordance"] is not None:
        return f"{100 * record['discordance']:.1f} %"
    return "nothing" if record["deviation"] is None else f"sd {record['deviation']:.3g}"


def _drop(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    return f"{100 * value:g} points" if record["unit"] == "share" else f"{value:g} {record['unit']}"
