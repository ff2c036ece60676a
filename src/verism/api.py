"""verism from Python: the same steps as the command line, with objects instead of files.

>>> import verism
>>> run = verism.evaluate("paintskills", images="my_pictures", out="runs/mine")     # doctest: +SKIP
>>> [s for s in run.scores() if s.metric == "accuracy"]                              # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from verism.annotation.agreeing import agreement_report
from verism.annotation.carding import Source, card_of_run
from verism.annotation.planning import Planned
from verism.annotation.planning import plan_labels as planned_labels
from verism.annotation.ratings import (
    drawn_by,
    given_ratings,
    human_classes,
    people_as_labels,
    rating_remarks,
    ratings_of,
)
from verism.cards import JudgeCard, Kind, read_card, shipped_cards
from verism.errors import UsageError
from verism.pipeline.comparing import Difference, compare_runs, compare_scores
from verism.pipeline.correcting import Adjustment, adjust_by_cards, adjust_by_people
from verism.pipeline.local import make_requests, observe_pictures, run_pictures
from verism.pipeline.reference import observe_reference, reference_set, take_in_reference
from verism.pipeline.scoring import Adjust, observed_of, score_run, true_classes
from verism.records import (
    ROLES,
    Estimand,
    FeatureNeed,
    Generator,
    Judge,
    Need,
    Prompt,
    ReferenceSet,
    Score,
    content_hash,
    option_of,
)
from verism.registry import Context, Spec, make_generator, make_judge, make_suite, stored_suite, suite_options
from verism.store import TRUTH, Run

__all__ = [
    "agreement",
    "compare",
    "evaluate",
    "judge_card",
    "make_reference",
    "observe",
    "open_run",
    "plan",
    "plan_labels",
    "score",
]

PathLike = str | os.PathLike[str]
Tell = Callable[[str], None]


def evaluate(
    suite: str = "paintskills",
    *,
    out: PathLike,
    model: str | Generator | None = None,
    images: PathLike | None = None,
    detector: str | Judge | None = None,
    features: str | Judge | None = None,
    clip: str | Judge | None = None,
    captioner: str | Judge | None = None,
    vqa: str | Judge | None = None,
    skin_tone: str | Judge | None = None,
    limit: int | None = None,
    n_images: int | None = None,
    seed: int = 0,
    shuffle: bool = False,
    size: int = 256,
    assets: PathLike | None = None,
    processes: int = 1,
    threads: int | None = None,
    device: str | None = None,
    base_url: str | None = None,
    cache: PathLike | None = None,
    threshold: float | None = None,
    rules: Mapping[str, Any] | None = None,
    retry: bool = False,
    on_failure: Tell | None = None,
    on_matched: Tell | None = None,
    on_summary: Tell | None = None,
    **options: Any,
) -> Run:
    """Evaluate a model, or pictures you have, on a suite. Goes on where an interrupted call stopped.

    Args:
        suite: ``paintskills``, ``geography``, ``quality``, ``alignment`` ... (``verism list suites``).
        out: the run directory, new or to be resumed.
        model: a generator or its name (``scripted:error=0.2``). images: instead, a folder or manifest of pictures.
        detector, features, clip, captioner, vqa, skin_tone: judges or their names (``verism list judges``); a suite
            asks those it needs, and leaves out what rests on a judge that is not named, if the rest makes sense
            without. Unless another is named, the detector is the built-in one, and faces for skin tone are found by
            OpenCV's cascade if it is installed. ``truth``: what a painter who knows what it painted says itself.
            ``none``: nobody, where there is a usual one.
        limit: prompts in all, spread evenly. n_images: pictures per prompt, by default the suite's own number.
        seed: of scenes, of sampling, and of generation. shuffle: give each prompt the picture of a random other one.
        size: pixels of rendered pictures. assets: folder of the user's own models. processes: painters at once.
        threads: of judges on the CPU. device: of hub models. base_url: of an OpenAI-compatible image service.
        cache: folder where judges keep vectors of pictures by content, to be shared between runs.
        threshold: confidence limit of the ``corrected`` rules of a suite that rests on a detector; by default the
            detector's own calibrated one, or 0.5. rules: other rules of the suite, by name.
        retry: ask again for pictures that were missing, failed or refused.
        on_failure: told of each picture that is not ok. on_matched: told what matched among the images.
        on_summary: told what the pictures took: requests, retries, cost.
        options: of the suite: ``skills``, ``split``, ``scenes`` (PaintSkills); ``reference``, ``regions`` ...
            (``registry.suite_options``). Paths as text or ``Path``.

    Returns:
        The finished run: ``run.scores()``, ``run.verdicts()``, ``run.read("images")``.

    Raises:
        UsageError: something asked for does not exist, or the directory holds a run with other settings.
    """
    if (model is None) == (images is None):
        raise UsageError("give either a model (--model) or pictures (--images), not both and not neither")
    the_suite = _suite(suite, images, {"limit": limit, "n_images": n_images, "seed": seed, **options})
    the_suite = _with_rules(the_suite, None, threshold, rules)  # refused now and not after the last picture
    prompts = the_suite.prompts()
    if not prompts:
        raise UsageError(f"{suite} asks no prompt with these settings; check --limit and what else narrows it down")
    context = _context(
        the_suite,
        prompts,
        size=size,
        assets=None if assets is None else Path(assets),
        processes=processes,
        threads=threads,
        device=device,
        base_url=base_url,
        cache=None if cache is None else Path(cache),
        on_matched=on_matched,
    )
    with ExitStack() as at_end:
        generator = maker = _generator(model, images, the_suite, context)
        at_end.callback(_tell_and_close, maker, on_summary)
        if shuffle:
            from verism.generators.shuffled import ShuffledGenerator

            generator = ShuffledGenerator(generator, prompts, seed=seed)
        named = _named(detector, features, clip, captioner, vqa, skin_tone)
        judged = _judges(the_suite, named, context)
        told = {role: TRUTH for role, judge in named.items() if judge == TRUTH}
        reference: ReferenceSet | None = getattr(the_suite, "reference", None)
        run = Run.start(
            Path(out),
            {
                "suite": suite,
                "seed": seed,
                **the_suite.settings(),
                "prompts": content_hash([[p.prompt_id, p.text, dict(p.spec)] for p in prompts])[:16],
                "generator": generator.name,
                **({} if reference is None else {"reference": reference.identity()[:16]}),
                **{need.role: judge.name for judge, need in judged},
                **told,
            },
        )
        run.write_prompts(prompts)
        requests = make_requests(prompts, seed)
        known = run.keys("images")
        if reference is not None:
            unusable = take_in_reference(run, reference, _judge_of(judged, FeatureNeed))
            if on_failure is not None:
                for line in unusable:
                    on_failure(line)
        try:
            run_pictures(run, requests, generator, judged, retry=retry, on_failure=on_failure)
        finally:  # an interrupted run, too, says what made its pictures
            described: Mapping[str, Any] = getattr(maker, "describe", dict)()
            if described and not {r.image_id for r in requests} <= known:  # a call that made nothing has little to tell
                run.note(generator=described)
    for judge, _ in judged:
        _tell_and_close(judge, on_summary)
    names = {need.role: judge.name for judge, need in judged} | told
    the_suite = _with_rules(the_suite, judged, threshold, rules)
    _note_rules(run, the_suite, names)
    score_run(run, the_suite, judges=names)
    return run


def _suite(name: str, images: PathLike | None, options: Mapping[str, Any]) -> Any:
    """The suite; it reads the list of brought pictures itself if it can make prompts from it."""
    given = {key: Path(value) if key in PATHS and value is not None else value for key, value in options.items()}
    if images is not None and "images" in suite_options(name):
        given["images"] = Path(images)
    return make_suite(name, **given)


PATHS = (
    "scenes",
    "reference",
    "world",
    "annotations",
    "questions",
    "prompts",
    "labels",
    "target",
)  # options that name files


def _context(suite: Any, prompts: Sequence[Prompt], **more: Any) -> Context:
    return Context(prompts=prompts, classes=getattr(suite, "shapes", {}), colors=getattr(suite, "colors", ()), **more)


def _judges(suite: Any, named: Mapping[str, str | Judge | None], context: Context) -> list[tuple[Judge, Need]]:
    """Who fills which need; needs that may stay open do, if nobody is named for them."""
    judged: list[tuple[Judge, Need]] = []
    needs: Sequence[Need] = suite.needs()
    _refuse_idle(suite, needs, [role for role, judge in named.items() if judge not in (None, NOBODY)])
    for need in needs:
        judge = named.get(need.role)
        if judge is None and not getattr(suite, "only_named_judges", False):
            judge = _usual(need.role)
        if judge in (TRUTH, NOBODY):
            continue
        if judge is not None:
            made = make_judge(judge, context, need.role) if isinstance(judge, str) else judge
            getattr(made, "check", lambda _: None)(need)  # whether it knows the classes, before any picture is made
            judged.append((made, need))
        elif not need.optional:
            raise UsageError(
                f"{suite.name} needs a judge: name one with {option_of(need.role)}. See: verism list judges"
            )
    if not judged and TRUTH not in named.values() and not getattr(suite, "labels", None):  # people's labels are enough
        roles = " or ".join(option_of(need.role) for need in needs)
        raise UsageError(f"{suite.name} has nobody to look at the pictures: give {roles}. See: verism list judges")
    return judged


NOBODY = "none"  # in place of a judge's name: leave out what the usual one would look at


def _named(*judges: str | Judge | None) -> dict[str, str | Judge | None]:
    """Judges by role, in the order of ``ROLES``."""
    return dict(zip(ROLES, judges, strict=True))


def _usual(role: str) -> str | None:
    """Who looks where nobody is named."""
    if role == "detector":
        return "builtin"
    if role == "skin_tone" and find_spec("cv2") is not None:
        return "cascade"
    return None


def _refuse_idle(suite: Any, needs: Sequence[Need], named: Sequence[str]) -> None:
    """A judge nobody asks would be a number that somebody waits for in vain."""
    useful = [need.role for need in needs]
    if idle := [role for role in named if role not in useful]:
        raise UsageError(
            f"{suite.name} has no use for {option_of(idle[0])} with these settings; it asks "
            f"{', '.join(map(option_of, useful))}"
        )


def _judge_of(judged: Sequence[tuple[Judge, Need]], kind: type) -> Judge | None:
    return next((judge for judge, need in judged if isinstance(need, kind)), None)


def _tell_and_close(maker: Any, on_summary: Tell | None) -> None:
    """What a generator or judge has to say at the end; then it may go."""
    if on_summary is not None:
        for line in getattr(maker, "summary", list)():
            on_summary(line)
    getattr(maker, "close", lambda: None)()


def _with_rules(
    suite: Any,
    judged: Sequence[tuple[Judge, Need]] | None,
    threshold: float | None,
    rules: Mapping[str, Any] | None,
) -> Any:
    """The suite with the detector's own calibrated limit, or the one that was asked for, and other rules."""
    asked = dict(rules or {})
    if threshold is None and judged is not None and "threshold_corrected" in suite.rules():
        threshold = next((t for judge, _ in judged if (t := getattr(judge, "threshold", None)) is not None), None)
    if threshold is not None:
        asked.setdefault("threshold_corrected", threshold)
    if not asked:
        return suite
    if not hasattr(suite, "with_rules"):
        raise UsageError(f"{suite.name} has no rules that could be changed; asked for {asked}")
    return suite.with_rules(**asked)


def _note_rules(run: Run, suite: Any, judges: Mapping[str, str]) -> None:
    """Keep the rules last applied, and each detector's own limit: it is calibrated for that detector alone."""
    rules = dict(suite.rules())
    notes: dict[str, Any] = {"judges": dict(judges), "rules": rules}
    if "threshold_corrected" in rules and "detector" in judges:
        limits = run.manifest.get("notes", {}).get("thresholds", {})
        notes["thresholds"] = limits | {judges["detector"]: rules["threshold_corrected"]}
    run.note(**notes)


def _generator(model: str | Generator | None, images: PathLike | None, suite: Any, context: Context) -> Generator:
    if images is not None:
        brought = getattr(suite, "brought", None)
        if brought is not None:
            from verism.generators.folder import FolderGenerator, brought_pictures

            matching = brought_pictures(Path(images), context.prompts, brought)
            if context.on_matched is not None:
                context.on_matched(matching.table())
            return FolderGenerator(matching)
        return make_generator(Spec("images", str(images), {}), context)
    assert model is not None
    return make_generator(model, context) if isinstance(model, str) else model


def plan(
    suite: str,
    *,
    out: PathLike | None = None,
    model: str | Generator | None = None,
    images: PathLike | None = None,
    base_url: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """What ``evaluate`` would ask for, what of it is done already, and what the rest would cost, without doing it."""
    the_suite = _suite(suite, images, options)
    prompts = the_suite.prompts()
    requests = make_requests(prompts, int(options.get("seed", 0)))
    there: set[str] = set()
    if out is not None and (Path(out) / "manifest.json").exists():
        there = Run.open(Path(out)).keys("images")
    pending = [r for r in requests if r.image_id not in there]
    estimate: list[str] = []
    if model is not None:
        maker = _generator(model, None, the_suite, _context(the_suite, prompts, base_url=base_url))
        estimate = list(getattr(maker, "estimate", lambda _: ())(pending))
        getattr(maker, "close", lambda: None)()
    part = next(iter(prompts[0].facets), "suite") if prompts else "suite"
    counts: dict[str, int] = {}
    for p in prompts:
        name = str(p.facets.get(part, suite))
        counts[name] = counts.get(name, 0) + p.n_images
    return {
        "suite": suite,
        "prompts": len(prompts),
        "pictures": len(requests),
        f"pictures_per_{part}": counts,
        "pictures_done": len(requests) - len(pending),
        "estimate": estimate,
        "examples": [p.text for p in prompts[:: max(1, len(prompts) // 5)]][:5],
    }


def open_run(path: PathLike) -> Run:
    """A run directory.

    Raises:
        UsageError: it is not one.
    """
    return Run.open(Path(path))


def _stored(run: Run) -> Any:
    return stored_suite(run.manifest["settings"]["suite"], run.manifest["settings"], run.prompts())


def score(
    run: Run | PathLike,
    *,
    threshold: float | None = None,
    judges: Mapping[str, str] | None = None,
    rules: Mapping[str, Any] | None = None,
    correct: Kind | None = None,
    cards: Sequence[PathLike] = (),
    min_right: float = 0.0,
) -> list[Score]:
    """Apply the rules of a run's suite again; no picture is made or looked at.

    Args:
        correct: take the judges' error out of what can be had without it, beside the scores as judged: ``human`` by
            people's answers about pictures of the run (``verism annotate``) or by a card made from people's answers
            elsewhere; ``rendered`` by a card made from rendered pictures, or what the painter of this run told.
        cards: files of judge cards, before those that come with verism.
        min_right: people with a smaller share of right answers to checks are left out of ``human``.
        threshold: another confidence limit for the ``corrected`` rules.
        rules: other rules of the suite, by name. ``labels="annotation"``: people's answers about this run
            (``verism annotate``) are the labels of a suite that takes any.
        judges: by role (``detector`` ...), the full name of whose observations count, if several looked.
    """
    run = run if isinstance(run, Run) else open_run(run)
    notes = run.manifest.get("notes", {})
    names = {role: name for role in ROLES if (name := (judges or {}).get(role) or run.judge(role)) is not None}
    asked = dict(notes.get("rules", {}))
    own = notes.get("thresholds", {}).get(names.get("detector"))
    if own is not None:
        asked["threshold_corrected"] = own
    if threshold is not None:
        asked["threshold_corrected"] = threshold
    suite = _stored(run)
    suite = _with_rules(suite, None, None, people_as_labels(run, suite, asked | dict(rules or {})))
    adjust = (
        None
        if correct is None
        else _adjuster(run, suite, correct, [read_card(Path(card)) for card in cards], min_right)
    )
    scores = score_run(run, suite, judges=names, adjust=adjust)
    _note_rules(run, suite, names)
    return scores


def _cells(run: Run, by: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The cell of every picture of a run: its prompt's values of some facets; empty for no facets."""
    if not by:
        return {}
    cell_of = {p.prompt_id: tuple(p.facets.get(facet) for facet in by) for p in run.prompts()}
    return {image: cell_of[prompt] for image, prompt in run.read("images").select("image_id", "prompt_id").iter_rows()}


def _adjuster(run: Run, suite: Any, kind: Kind, cards: Sequence[JudgeCard], min_right: float) -> Adjust:
    """How a run's estimands are adjusted: by people's answers about its own pictures first, by cards where there are
    none; by cards that were asked for first, then by the truth of its own painter, then by cards that come along."""
    if not hasattr(suite, "estimands"):
        raise UsageError(f"{suite.name} has no scores that could be corrected for the error of a judge")

    def adjust(estimands: Sequence[Estimand], judges: Mapping[str, str]) -> list[Adjustment]:
        made: list[Adjustment] = []

        def rest() -> list[Estimand]:
            done = [a.judged for a in made]
            return [e for e in estimands if not any(e.score is judged for judged in done)]

        if kind == "human":
            ratings = ratings_of(run, min_right=min_right)
            if ratings.table.height:
                made = adjust_by_people(
                    estimands,
                    lambda rule, key: human_classes(run, suite, rule, key, ratings=ratings),
                    cells=lambda rule, key: _cells(run, drawn_by(run, rule, key)),
                    remarks=lambda rule, key: rating_remarks(run, suite, rule, key, ratings=ratings),
                )
        else:
            # A card that was asked for counts, even where the painter of this run told the truth itself.
            made = adjust_by_cards(estimands, cards, judges, kind=kind, rules=suite.rules())
            if truth := true_classes(run, suite):
                made += adjust_by_people(
                    rest(), lambda rule, key: truth.get((rule, content_hash(dict(key))), {}), kind=kind
                )
        made += adjust_by_cards(rest(), [*cards, *shipped_cards()], judges, kind=kind, rules=suite.rules())
        if not made:
            how = (
                f"ask people first: verism annotate {run.path}; or give a card of this judge: --card FILE"
                if kind == "human"
                else "give a card of this judge: --card FILE (verism judge card makes one)"
            )
            raise UsageError(
                f"{run.path}: nothing tells how its judges err ({', '.join(sorted(judges.values()))}); {how}"
            )
        return made

    return adjust


def agreement(
    run: Run | PathLike, *, by: Sequence[str] = (), min_right: float = 0.0, n_resamples: int = 2_000, seed: int = 0
) -> dict[str, Any]:
    """How far the people who judged a run's pictures agree, and its judges with them (``annotation.agreeing``).

    Args:
        by: facets of prompts by which judges are looked at group by group.
        min_right: raters with a smaller share of right answers to checks are left out.

    Raises:
        UsageError: nobody judged the run's pictures yet, or an unknown facet.
    """
    run = run if isinstance(run, Run) else open_run(run)
    ratings = given_ratings(run, min_right=min_right)
    suite = _with_rules(_stored(run), None, None, run.manifest.get("notes", {}).get("rules"))
    known = sorted({facet for prompt in run.prompts() for facet in prompt.facets})
    if foreign := [facet for facet in by if facet not in known]:
        raise UsageError(f"no facet {foreign[0]!r}; prompts have {', '.join(known) or 'none'}")
    judges = {role: name for role in ROLES if (name := run.judge(role)) is not None}
    observed = observed_of(run, suite, judges) if (run.path / "verdicts.parquet").exists() else None
    return agreement_report(run, suite, ratings, observed, by=by, n_resamples=n_resamples, seed=seed)


def judge_card(
    run: Run | PathLike,
    source: Source = "truth",
    *,
    role: str | None = None,
    by: Sequence[str] = (),
    min_right: float = 0.0,
) -> JudgeCard:
    """How a judge of a run errs, beside the people who looked at its pictures or the painter that made them.

    Args:
        source: ``human``: the majority of people's answers (``verism annotate``) is the truth; ``truth``: what the
            painter told. role: of the judge, if several looked. by: facets by whose values tables are made besides.
        min_right: raters with a smaller share of right answers to checks are left out.

    Raises:
        UsageError: see ``annotation.carding.card_of_run``.
    """
    run = run if isinstance(run, Run) else open_run(run)
    suite = _with_rules(_stored(run), None, None, run.manifest.get("notes", {}).get("rules"))
    return card_of_run(run, suite, source, role=role, by=by, min_right=min_right)


def plan_labels(run: Run | PathLike, *, half_width: float, cards: Sequence[PathLike] = ()) -> list[Planned]:
    """Answers of people that each score needs for an interval of ``value +- half_width`` (``annotation.planning``).

    Raises:
        UsageError: the suite has no scores that people's answers could correct.
    """
    run = run if isinstance(run, Run) else open_run(run)
    suite = _with_rules(_stored(run), None, None, run.manifest.get("notes", {}).get("rules"))
    if not hasattr(suite, "estimands"):
        raise UsageError(f"{suite.name} has no scores that people's answers could correct")
    judges = {role: name for role in ROLES if (name := run.judge(role)) is not None}
    known = [read_card(Path(card)) for card in cards]
    return planned_labels(
        run,
        suite,
        observed_of(run, suite, judges),
        half_width=half_width,
        ratings=ratings_of(run),
        cards=[*known, *shipped_cards()],
        judges=judges,
    )


def observe(
    run: Run | PathLike,
    detector: str | Judge | None = None,
    *,
    features: str | Judge | None = None,
    clip: str | Judge | None = None,
    captioner: str | Judge | None = None,
    vqa: str | Judge | None = None,
    skin_tone: str | Judge | None = None,
    threads: int | None = None,
    device: str | None = None,
    cache: PathLike | None = None,
) -> list[Score]:
    """Let other judges look at the pictures of a run, and score by them; no picture is made.

    Raises:
        UsageError: nobody was named, or the suite has no use for a judge.
    """
    run = run if isinstance(run, Run) else open_run(run)
    suite = _stored(run)
    prompts = run.prompts()
    context = _context(suite, prompts, threads=threads, device=device, cache=None if cache is None else Path(cache))
    given = _named(detector, features, clip, captioner, vqa, skin_tone)
    named = {role: judge for role, judge in given.items() if judge is not None}
    needs = {need.role: need for need in suite.needs()}
    if not named:
        raise UsageError(f"name who shall look, by {' or '.join(map(option_of, needs))}")
    _refuse_idle(suite, list(needs.values()), list(named))
    requests = make_requests(prompts, int(run.manifest["settings"]["seed"]))
    judged: list[tuple[Judge, Need]] = []
    for role, who in named.items():
        judge = make_judge(who, context, role) if isinstance(who, str) else who
        observe_pictures(run, requests, judge, needs[role])
        if isinstance(needs[role], FeatureNeed) and not run.read("reference").is_empty():
            observe_reference(run, judge)
        judged.append((judge, needs[role]))
    names = {role: name for role in needs if (name := run.judge(role)) is not None}
    names |= {need.role: judge.name for judge, need in judged}
    stored_rules = run.manifest.get("notes", {}).get("rules", {})
    suite = _with_rules(_with_rules(suite, None, None, stored_rules), judged, None, None)
    _note_rules(run, suite, names)
    return score_run(run, suite, judges=names)


def make_reference(
    suite: str,
    reference: PathLike,
    *,
    features: str | Judge,
    out: PathLike,
    work: PathLike,
    threads: int | None = None,
    device: str | None = None,
    cache: PathLike | None = None,
    on_failure: Tell | None = None,
    **options: Any,
) -> ReferenceSet:
    """Compute the features of a reference set once, and write them to a file that ``reference=`` takes.

    Args:
        suite: whose reading of the data counts (``geography``, ``quality``). reference: CSV, folder ...
        features: the judge. out: the ``.npz`` file. work: folder where an interrupted call goes on.
        options: of the suite.

    Raises:
        UsageError: no such pictures, or none that can be used.
    """
    from verism.references import write_reference

    the_suite = _suite(suite, None, {"reference": reference, **options})
    pictures: ReferenceSet = the_suite.reference
    context = Context(threads=threads, device=device, cache=None if cache is None else Path(cache))
    judge = make_judge(features, context, "features") if isinstance(features, str) else features
    run = Run.start(Path(work), {"suite": suite, "reference": pictures.identity()[:16], "features": judge.name})
    for line in take_in_reference(run, pictures, judge):
        if on_failure is not None:
            on_failure(line)
    finished = reference_set(run, judge.name, pictures.source)
    if not finished.pictures:
        raise UsageError(f"{reference}: no picture of it can be used")
    provenance = {"suite": suite, "judge": judge.name, "source": pictures.source, "pictures": len(finished.pictures)}
    write_reference(Path(out), finished, provenance | {"environment": run.manifest["environment"]})
    return finished


def compare(
    a: Run | PathLike, b: Run | PathLike, *, by: str | None = None, protocol: str | None = None, seed: int = 0
) -> list[Difference]:
    """Comparison of two runs: B minus A. Paired by picture where the suite decides picture by picture (PaintSkills,
    see ``pipeline.comparing.compare_runs``), otherwise measure by measure (``compare_scores``).

    Args:
        by: facet to group by; PaintSkills: ``skill`` by default. seed: of random permutations, where they are needed.
    """
    a = a if isinstance(a, Run) else open_run(a)
    b = b if isinstance(b, Run) else open_run(b)
    suites = [str(run.manifest["settings"].get("suite", "")) for run in (a, b)]
    if all(name.startswith("paintskills") for name in suites):
        return compare_runs(a, b, by=by or "skill", protocol=protocol, seed=seed)
    if suites[0] != suites[1]:
        raise UsageError(f"{a.path} is a run of {suites[0]} and {b.path} of {suites[1]}: they measure different things")
    return compare_scores(a, b, by=by, protocol=protocol)
