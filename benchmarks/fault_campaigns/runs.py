"""Small runs: templates to copy, and what a run says, to be compared with what another says."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from fault_campaigns.commands import Done, called, forked
from fault_campaigns.trials import Outcome, Setting, traceback_in

__all__ = ["PROMPTS", "SIZE", "contents", "differences", "fingerprint", "judged", "make_templates", "undisturbed"]

PROMPTS = ("--limit", "6", "--seed", "5")
SIZE = ("--size", "64")
DETECTOR = ("--detector", "builtin", "--threads", "1")


def make_templates(setting: Setting) -> None:
    """Make the runs and images that campaigns copy.

    ``rendered`` is a run of rendered images with ground truth and boxes of the built-in detector, ``pictures`` its
    images under the names of their prompts, and ``mine`` a run of those images, as of a user.

    Raises:
        RuntimeError: a command failed, with what it said.
    """
    root = setting.templates
    root.mkdir(parents=True)
    undisturbed(
        ["run", "paintskills", "--model", "scripted", "--processes", "1", *SIZE, *PROMPTS, *DETECTOR],
        root / "rendered",
        root,
    )
    names = called(_image_names, root / "rendered", cwd=root)
    (root / "pictures").mkdir()
    for path, prompt_id in names.result:
        shutil.copyfile(path, root / "pictures" / f"{prompt_id}.png")
    undisturbed(["run", "paintskills", "--images", root / "pictures", *PROMPTS, *DETECTOR], root / "mine", root)


def undisturbed(words: list[object], out: Path, cwd: Path) -> Done:
    """A command with ``--out`` that must succeed.

    Raises:
        RuntimeError: it did not, with what it said.
    """
    done = forked([*words, "--out", out], cwd=cwd)
    if done.code != 0:
        raise RuntimeError(f"verism {' '.join(map(str, words))}: exit code {done.code}\n{done.said}")
    return done


def _image_names(path: Path) -> list[tuple[str, str]]:
    from verism.store import Run

    run = Run.open(path)
    return [(str(run.resolve(row["path"])), row["prompt_id"]) for row in run.read("images").iter_rows(named=True)]


# ---------------------------------------------------------------------------------------------------------- comparing
def contents(path: Path) -> dict[str, Any]:
    """What a run says, in a process of its own: ``fingerprint``, or ``{"broken": what it printed}``."""
    done = called(fingerprint, path, cwd=path.parent)
    if done.result is not None:
        found: dict[str, Any] = done.result
        return found
    return {"broken": traceback_in(done.said) or done.said[-300:] or f"exit code {done.code}"}


def fingerprint(path: Path) -> dict[str, Any]:
    """Scores, verdicts, rules, images and observations of a run; two runs that say the same have the same.

    Args:
        path: the run directory.
    Returns:
        ``scoring``: scores, hash of the verdicts, rules and judges; ``images``: id, state and hash; ``tables``: hash of
        each table of observations; ``faults``: what contradicts itself: images unlike their rows, doubled rows, and
        what ``verism verify`` finds. Or ``refused``: the message of an error in words.
    """
    from verism import api
    from verism.errors import VerismError
    from verism.records import NEEDS
    from verism.store import TRUTH, Run, score_records

    faults = []
    try:
        run = Run.open(path)
        rows = run.read("images").select("image_id", "state", "path", "sha256").rows()
        for image_id, _, file, sha256 in rows:
            if file is not None and sha256 is not None:
                data = run.resolve(file).read_bytes() if run.resolve(file).is_file() else b""
                if hashlib.sha256(data).hexdigest() != sha256:
                    faults.append(f"the file of {image_id} is not that of its row")
        if len({row[0] for row in rows}) != len(rows):
            faults.append("an image has two rows")
        tables = {}
        for kind in NEEDS.values():
            for judge in [*run.judges(kind.table), *([TRUTH] if run.has_truth(kind.table) else [])]:
                frame = run.read(kind.table, judge)
                tables[f"{kind.table}/{judge}"] = hashlib.sha256(
                    repr(sorted(map(repr, frame.rows()))).encode()
                ).hexdigest()
        scoring = {
            "scores": score_records(run.scores()),
            "verdicts": hashlib.sha256(repr(sorted(map(repr, run.verdicts().rows()))).encode()).hexdigest(),
            "rules": dict(run.manifest.scoring.rules),
            "judges": dict(run.manifest.scoring.judges),
        }
        if hasattr(api, "verify"):
            found = api.verify(path)
            faults += [f"{f.problem} {f.file}: {f.what}" for f in found.findings if f.problem != "leftover"]
    except VerismError as err:
        return {"refused": str(err)}
    images = sorted((image_id, state, sha256) for image_id, state, _, sha256 in rows)
    return {"scoring": scoring, "images": images, "tables": tables, "faults": faults}


def differences(now: dict[str, Any], expected: dict[str, Any]) -> str:
    """How one run's contents differ from another's, in words; empty if they do not."""
    for key in ("broken", "refused"):
        if key in now:
            return f"{key}: {now[key]}"[:400]
    if now["faults"]:
        return "; ".join(now["faults"])[:400]
    for key in ("images", "tables", "scoring"):
        if now[key] != expected[key]:
            return f"other {key}: {_first(now[key], expected[key])}"
    return ""


def _first(now: Any, expected: Any) -> str:
    if isinstance(now, dict) and isinstance(expected, dict):
        for key in {**expected, **now}:
            if now.get(key) != expected.get(key):
                return f"{key}: {_first(now.get(key), expected.get(key))}"
    if isinstance(now, list) and isinstance(expected, list) and len(now) == len(expected):
        for a, b in zip(now, expected, strict=True):
            if a != b:
                return _first(a, b)
    return f"{now!r:.150} in place of {expected!r:.150}"


def judged(*commands: Done, within: bool = True) -> tuple[Outcome, str]:
    """What commands show by themselves: a traceback, or that they did not end; otherwise ``survived``."""
    for done in commands:
        if found := traceback_in(done.said):
            return "traceback", found
        if within and done.code is None:
            return "lost", f"not over after {done.seconds:.0f} s"
        if done.code is not None and done.code < 0:
            return "lost", f"ended by signal {-done.code}: {done.said[-200:]}"
    return "survived", ""
