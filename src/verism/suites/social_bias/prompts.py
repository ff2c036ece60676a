"""The prompts of a study, in the released order: group by group, then those without descriptor."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from verism.records import Prompt
from verism.suites.prompt_lists import choose
from verism.suites.social_bias.studies import Descriptor, Study

__all__ = ["BARE", "GROUP_FACET", "chosen_descriptors", "make_prompts", "prompt_id_of"]

GROUP_FACET = "prompts"
BARE = "(none)"  # stands for the descriptor of bare prompts in ids and settings; no descriptor can be called so


def prompt_id_of(group: str, descriptor: Descriptor | None) -> str:
    """``woman/library_assistant``; ``woman/(none)`` for the prompt without descriptor."""
    name = BARE if descriptor is None else descriptor.name
    return f"{group}/{name}".replace(" ", "_")


def chosen_descriptors(
    study: Study, limit: int | None = None, seed: int = 0, *, among: Sequence[Descriptor | None] | None = None
) -> list[Descriptor | None]:
    """Descriptors, and None for the prompts without one, whose prompts are asked.

    Args:
        study: whose descriptors are chosen.
        limit: at most so many prompts, but those of one descriptor at least: all its groups are asked or none, so that
            they can be compared. Descriptors are drawn by ``seed``; a larger limit keeps what a smaller one drew.
        seed: of the random choice of descriptors.
        among: only these, in the order of the study.
    Raises:
        UsageError: a limit below 1.
    """
    every: list[Descriptor | None] = [*study.descriptors, *([None] if study.bare else [])]
    if among is not None:
        every = [d for d in every if d in among]
    if limit is None:
        return every
    names = [BARE if d is None else d.name for d in every]
    return choose(every, names, limit if limit < 1 else max(1, limit // len(study.groups)), seed)


def make_prompts(
    suite: str,
    study: Study,
    *,
    descriptors: Collection[Descriptor | None] | None = None,
    groups: Collection[str] | None = None,
    n_images: int | None = None,
) -> list[Prompt]:
    """The prompts of a study.

    Prompts of one descriptor share the seeds of their images over all groups, so that these differ by the word and
    not by the noise.

    Args:
        suite: name of the suite the prompts belong to.
        study: words for people, descriptors and templates.
        descriptors: only these; None among them stands for the prompts without descriptor. By default all.
        groups: only these, by name; None for all.
        n_images: images per prompt; None for the study's number.
    """
    kept = chosen_descriptors(study) if descriptors is None else descriptors
    names = [g for g in study.groups if groups is None or g in groups]
    facets = sorted({key for d in study.descriptors for key in d.facets})
    questions = [{"text": q.text, "choices": list(q.choices)} for q in study.questions()]
    asked: list[tuple[str, Descriptor | None]] = [(g, d) for g in names for d in study.descriptors if d in kept]
    if study.bare and None in kept:
        asked += [(g, None) for g in names]
    return [
        Prompt(
            prompt_id=prompt_id_of(group, descriptor),
            suite=suite,
            text=study.text(group, descriptor),
            facets={
                GROUP_FACET: group,
                study.facet: None if descriptor is None else descriptor.name,
                **_facets(descriptor, facets),
            },
            spec={
                "seed_key": f"{study.name}/{BARE if descriptor is None else descriptor.name}",
                "questions": questions,
            },
            n_images=study.n_images if n_images is None else n_images,
        )
        for group, descriptor in asked
    ]


def _facets(descriptor: Descriptor | None, names: Sequence[str]) -> dict[str, str | int | float | None]:
    return {name: None if descriptor is None else descriptor.facets.get(name) for name in names}
