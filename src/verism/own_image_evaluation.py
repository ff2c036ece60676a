"""Images of a user with their own prompts, evaluated on every suite that fits them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism import api
from verism.errors import UsageError
from verism.files import csv_text, write_whole
from verism.own_images import OwnImages, Possible, write_lists
from verism.suites.catalogue import suite_class, suite_entries

if TYPE_CHECKING:
    from verism.store import Run

__all__ = ["LISTED", "evaluate_own_images", "left_out", "possible_suites"]

LISTED = 5  # left-out entries that are named


def possible_suites(found: OwnImages, *, judges: Mapping[str, str], reference: Path | None) -> list[Possible]:
    """Which suites fit these images, with the judges that are named, and what the others need; asked of every suite.

    Args:
        found: the images.
        judges: names of judges by role.
        reference: real images to compare with.
    """
    made = []
    for name in suite_entries():
        fitting = suite_class(name).for_own_images(found, judges, reference)
        if fitting is not None:
            made.append(fitting)
    return made


def evaluate_own_images(
    found: OwnImages, out: Path, *, judges: Mapping[str, str], reference: Path | None = None, **options: Any
) -> dict[str, Run]:
    """Evaluate images on every suite that fits them; the same call goes on where it stopped.

    Args:
        found: the images, see ``own_images.read_own_images``.
        out: directory; runs lie in it by name of the suite.
        judges: names of judges by role.
        reference: real images to compare with.
        **options: of ``verism.evaluate`` for every run.

    Returns:
        The runs by suite.

    Raises:
        UsageError: no suite fits with these judges; the message says what each needs.
    """
    possible = possible_suites(found, judges=judges, reference=reference)
    if not any(each.options is not None for each in possible):
        needs = "\n".join(f"  {each.suite}: {each.why}" for each in possible)
        raise UsageError(f"{found.words()}. Nothing can be run with what was named:\n{needs}")
    prompts, images = write_lists(found, out)
    all_images = out / "all_images.csv"
    files = dict.fromkeys(str(file) for file, _ in found.images)  # an image may have several prompts
    write_whole(all_images, csv_text(["path"], [[file] for file in files], raw=True))
    runs: dict[str, Run] = {}
    for each in possible:
        if each.options is None:
            continue
        given: dict[str, Any] = {"images": images, "prompts": prompts} if each.by_prompt else {"images": all_images}
        run = api.evaluate(each.suite, out=out / each.suite, **given, **each.options, **options)
        of_suite = left_out(found, each)
        n_images = found.with_prompt if each.by_prompt else len(files)
        if (n_drawn := sum(run.image_summary().states.values())) < n_images:
            of_suite.append(f"{n_images - n_drawn:,} of {n_images:,} images are not part of the sample (--limit)")
        run.note_images(of_suite)
        runs[each.suite] = run
    return runs


def left_out(found: OwnImages, suite: Possible) -> list[str]:
    """What of the user's images a suite leaves out, and why, in lines; empty for nothing.

    Args:
        found: the images.
        suite: one that fits them.
    """
    lines = []
    without = len(found.images) - found.with_prompt
    if suite.by_prompt and without:
        lines.append(f"{without:,} of {len(found.images):,} images have no prompt and are left out")
    if n := len(found.skipped):
        more = f"; and {n - LISTED:,} more" if n > LISTED else ""
        lines.append(f"{n:,} entries of the source are left out: {'; '.join(found.skipped[:LISTED])}{more}")
    return lines
