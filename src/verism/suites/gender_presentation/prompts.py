"""The prompts of a study, in the released order: contexts without attribute first, then attribute by attribute."""

from __future__ import annotations

from collections.abc import Container, Sequence

from verism.errors import UsageError
from verism.records import Prompt
from verism.suites.gender_presentation.studies import Group, SettingName, Study

__all__ = ["SEEDS", "chosen_indices", "make_prompts", "prompt_id_of"]

SEEDS = ("paired", "released")
RELEASED_IMAGES = 5  # per prompt: what the released seeds leave room for


def prompt_id_of(group: Group, index: int) -> str:
    """``woman/17``."""
    return f"{group.name.replace(' ', '_')}/{index}"


def chosen_indices(
    study: Study, settings: Sequence[SettingName], limit: int | None = None, *, among: Container[int] | None = None
) -> list[int]:
    """Numbers of the prompts, the same for every group.

    With a limit, prompts of all groups at once, so that they stay comparable: neutral ones and those of all
    attributes by turns, in changing contexts. A larger limit keeps what a smaller one chose.

    Args:
        study: whose prompts are numbered.
        settings: ``neutral``, ``explicit`` or both.
        limit: largest number of prompts over all groups, but at least one per group; None for no limit.
        among: only these numbers; None for all.
    """
    n = len(study.contexts)
    blocks = [b for b in range(study.per_group // n) if study.place(b * n)[0] in settings]
    by_turns = [block * n + (block + turn) % n for turn in range(n) for block in blocks]
    allowed = [index for index in by_turns if among is None or index in among]
    return sorted(allowed if limit is None else allowed[: max(1, limit // len(study.groups))])


def make_prompts(
    suite: str, study: Study, indices: Sequence[int], *, n_images: int | None = None, seeds: str = "paired"
) -> list[Prompt]:
    """The prompts of these numbers, group by group.

    Args:
        suite: name of the suite the prompts belong to.
        study: groups, attributes, contexts and wording.
        indices: numbers of the prompts, see ``chosen_indices``.
        n_images: per prompt, by default the study's number.
        seeds: ``paired``: prompts of one number share the seeds of their images over all groups, so that these differ
            by the words and not by the noise. ``released``: so they do, and the seeds are those of the paper's Stable
            Diffusion images.

    Raises:
        UsageError: unknown ``seeds``.
    """
    if seeds not in SEEDS:
        raise UsageError(f"{suite}: seeds is {' or '.join(SEEDS)}; got {seeds!r}")
    n = study.n_images if n_images is None else n_images
    prompts = []
    for group in study.groups:
        for index in indices:
            setting, attribute, context = study.place(index)
            options = {"seeds": released_seeds(index, n)} if seeds == "released" else {}
            prompts.append(
                Prompt(
                    prompt_id=prompt_id_of(group, index),
                    suite=suite,
                    text=study.text(group, index),
                    facets={
                        "setting": setting,
                        "gender": group.name,
                        "attribute": None if attribute is None else attribute.name,
                        "context": study.contexts[context],
                    },
                    spec={"index": index, "seed_key": f"{study.name}/{index}", **options},
                    n_images=n,
                )
            )
    return prompts


def released_seeds(index: int, n_images: int) -> list[int]:
    """Seeds of the images of prompt ``index``: 5 (index + 1) + j, for more than five images with that number."""
    step = max(RELEASED_IMAGES, n_images)
    return [step * (index + 1) + j for j in range(n_images)]
