"""Whether a call may go on with the run that is there: with its settings, or with more prompts of the same draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.records import Prompt
from verism.store import TRUTH, Run
from verism.suites.base import Suite
from verism.suites.catalogue import stored_suite

__all__ = ["continued_settings"]


def continued_settings(
    run: Run,
    asked: RunSettings,
    suite: Suite,
    prompts: Sequence[Prompt],
    *,
    judged: bool = True,
    part: bool = False,
    fixed: str = "",
    alone: bool = True,
    ask: bool = False,
) -> RunSettings:
    """Let the run that is there go on with what a call asks for, as far as its images stay what they are.

    A run grows where all of its prompts are asked again, unchanged, and nothing else differs but how many there are.
    Judges may be added, and those named by a call that never led to a score give way to others. All other differences
    are left to ``Run.start``, which refuses them.

    Args:
        run: the run that is there.
        asked: settings of the call.
        suite: of the call.
        prompts: of the call.
        judged: whether the call names judges; otherwise those of the run stay.
        part: whether the call may ask for a part of the run, as one does that makes again what is lost.
        fixed: why images of the call depend on the number of prompts; empty if they do not.
        alone: whether no other process makes the run meanwhile; processes that share it name the same judges.
        ask: whether the run is left as it is, and only what would be refused is refused.

    Returns:
        Settings to go on with, which differ from those of the run only where it is to be refused.

    Raises:
        UsageError: fewer prompts than the run has, or more where that would change the images.
    """
    stored = run.manifest.settings
    if not judged:
        asked = replace(asked, judges=stored.judges)
    elif stored.judges != asked.judges and alone and (_adds(asked.judges, stored.judges) or not run.is_scored):
        stored = replace(stored, judges=asked.judges)
        if not stored.differences(asked) and not ask:
            run.resettle(stored)
    differing = [name for name, _, _ in stored.differences(asked)]
    growing = ("prompts", *(f"suite_settings.{name}" for name in suite.growing_settings))
    if not differing:
        return run.manifest.settings if ask else asked
    if any(not _is_below(name, growing) for name in differing):
        return asked
    extent = run.extent(prompts)
    if extent == "fewer":
        if part:
            return stored
        there, now = run.prompts(), sum(p.n_images for p in prompts)
        raise UsageError(
            f"{run.path} holds {sum(p.n_images for p in there):,} images of {len(there):,} prompts, and {now:,} of "
            f"{len(prompts):,} are asked for. A run grows but does not shrink: ask for at least as many, or use "
            "another --out"
        )
    if extent == "more" and fixed:
        raise UsageError(f"{run.path} cannot grow: {fixed}. Use another --out")
    if ask:
        return asked if extent == "other" else run.manifest.settings
    if extent == "same":  # of a growth that was stopped half-way, or another limit that leaves none out
        run.resettle(asked)
    if extent != "more":
        return asked
    _drop_narrower_observations(run, suite)
    run.resettle(asked, prompts)
    return asked


def _adds(asked: Mapping[str, str], stored: Mapping[str, str]) -> bool:
    return all(asked.get(role) == judge for role, judge in stored.items())


def _is_below(name: str, names: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in names)


def _drop_narrower_observations(run: Run, suite: Suite) -> None:
    """Drop observations for which judges were asked less than they are now, such as for fewer classes of objects.

    Their judges observe all images again, so that all were asked the same.
    """
    before = {need.role: need for need in stored_suite(run).needs()}
    for need in suite.needs():
        earlier = before.get(need.role)
        if earlier is None or need.covers(earlier):
            continue
        for table in (need.table, *need.beside):
            for judge in run.judges(table):
                keys = run.keys(table, judge)
                if keys and judge != TRUTH:
                    run.forget(table, sorted(keys), judge)
