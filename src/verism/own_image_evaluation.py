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

__all__ = ["evaluate_own_images", "possible_suites"]


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
        runs[each.suite] = api.evaluate(each.suite, out=out / each.suite, **given, **each.options, **options)
    return runs
