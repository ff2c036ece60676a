"""verism from Python: the same steps as the command line, with objects instead of files.

>>> import verism
>>> run = verism.evaluate("paintskills", images="my_pictures", out="runs/mine")     # doctest: +SKIP
>>> [s for s in run.scores() if s.metric == "accuracy"]                              # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.pipeline.comparing import Difference, compare_runs
from verism.pipeline.local import make_requests, observe_pictures, run_pictures
from verism.pipeline.scoring import score_run
from verism.records import Generator, Judge, Score, content_hash
from verism.registry import Context, Spec, make_generator, make_judge, make_suite, suite_of_prompts
from verism.store import Run

__all__ = ["compare", "evaluate", "observe", "open_run", "plan", "score"]

PathLike = str | os.PathLike[str]


def evaluate(
    suite: str = "paintskills",
    *,
    out: PathLike,
    model: str | Generator | None = None,
    images: PathLike | None = None,
    scenes: PathLike | None = None,
    detector: str | Judge = "builtin",
    skills: Sequence[str] | None = None,
    split: str = "val",
    limit: int | None = None,
    n_images: int = 1,
    seed: int = 0,
    shuffle: bool = False,
    size: int = 256,
    assets: PathLike | None = None,
    processes: int = 1,
    threads: int | None = None,
    device: str | None = None,
    base_url: str | None = None,
    threshold: float | None = None,
    retry: bool = False,
    on_failure: Callable[[str], None] | None = None,
    on_matched: Callable[[str], None] | None = None,
    on_summary: Callable[[str], None] | None = None,
) -> Run:
    """Evaluate a model, or pictures you have, on a suite. Goes on where an interrupted call stopped.

    Args:
        suite: ``paintskills`` or ``paintskills-v1``.
        out: the run directory, new or to be resumed.
        model: a generator or its name (``scripted:error=0.2``). images: instead, a folder or manifest of pictures.
        scenes: take prompts from scenes on disk (published layout) instead of our own.
        detector: a judge or its name (``builtin``, ``transformers:ID``, ``detr:FILE``, ``open-vocabulary:ID``).
        skills: some of the suite's skills; with ``paintskills`` also the optional ``color``.
        split: ``val`` (papers: test) or ``train``. limit: prompts in all, spread evenly. n_images: pictures per prompt.
        seed: of scenes, of sampling, and of generation. shuffle: give each prompt the picture of a random other one.
        size: pixels of rendered pictures. assets: folder of the user's own models. processes: painters at once.
        threads: of the detector on the CPU. device: of hub models. base_url: of an OpenAI-compatible image service.
        threshold: confidence limit of the ``corrected`` rules; by default the detector's own calibrated one, or 0.5.
        retry: ask again for pictures that were missing, failed or refused.
        on_failure: told of each picture that is not ok. on_matched: told what matched among the images.
        on_summary: told what the pictures took: requests, retries, cost.

    Returns:
        The finished run: ``run.scores()``, ``run.verdicts()``, ``run.read("images")``.

    Raises:
        UsageError: something asked for does not exist, or the directory holds a run with other settings.
    """
    if (model is None) == (images is None):
        raise UsageError("give either a model (--model) or pictures (--images), not both and not neither")
    the_suite = make_suite(
        suite,
        scenes=None if scenes is None else Path(scenes),
        skills=skills,
        split=split,
        limit=limit,
        seed=seed,
        n_images=n_images,
    )
    _thresholds(None, threshold)  # refused now and not after the last picture
    prompts = the_suite.prompts()
    if not prompts:
        raise UsageError(f"{suite} asks no prompt with these settings; check --limit, --skill and --scenes")
    context = Context(
        prompts=prompts,
        classes=the_suite.shapes,
        colors=the_suite.colors,
        size=size,
        assets=None if assets is None else Path(assets),
        processes=processes,
        threads=threads,
        device=device,
        base_url=base_url,
        on_matched=on_matched,
    )
    generator = maker = _generator(model, images, context)
    try:
        if shuffle:
            from verism.generators.shuffled import ShuffledGenerator

            generator = ShuffledGenerator(generator, prompts, seed=seed)
        judge = make_judge(detector, context) if isinstance(detector, str) else detector
        run = Run.start(
            Path(out),
            {
                "suite": suite,
                "split": split,
                "skills": sorted({str(p.facets["skill"]) for p in prompts}),
                "limit": limit,
                "n_images": n_images,
                "seed": seed,
                "prompts": content_hash([[p.prompt_id, p.text, dict(p.spec)] for p in prompts])[:16],
                "generator": generator.name,
                "detector": judge.name,
            },
        )
        run.write_prompts(prompts)
        requests = make_requests(prompts, seed)
        known = set(run.read("images")["image_id"].to_list())
        try:
            run_pictures(
                run,
                requests,
                generator,
                [(judge, need) for need in the_suite.needs()],
                retry=retry,
                on_failure=on_failure,
            )
        finally:  # an interrupted run, too, says what made its pictures
            described: Mapping[str, Any] = getattr(maker, "describe", dict)()
            if described and not {r.image_id for r in requests} <= known:  # a call that made nothing has little to tell
                run.note(generator=described)
    finally:
        if on_summary is not None:
            for line in getattr(maker, "summary", list)():
                on_summary(line)
        getattr(generator, "close", lambda: None)()
    limits = _thresholds(judge, threshold)
    the_suite = the_suite.with_thresholds(**limits)
    _note_rules(run, the_suite, judge.name)
    score_run(run, the_suite, judge=judge.name)
    return run


def _note_rules(run: Run, suite: Any, judge: str | None) -> None:
    """Keep the rules last applied, and each judge's own limit: it is calibrated for that judge alone."""
    rules = dict(suite.settings())
    if judge is None:
        run.note(rules=rules)
        return
    limits = run.manifest.get("notes", {}).get("thresholds", {})
    run.note(judge=judge, rules=rules, thresholds=limits | {judge: rules["threshold_corrected"]})


def _generator(model: str | Generator | None, images: PathLike | None, context: Context) -> Generator:
    if images is not None:
        return make_generator(Spec("images", str(images), {}), context)
    assert model is not None
    return make_generator(model, context) if isinstance(model, str) else model


def _thresholds(judge: Any, threshold: float | None) -> dict[str, float]:
    if threshold is None:
        threshold = getattr(judge, "threshold", None)
    if threshold is None:
        return {}
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold must lie between 0 and 1, got {threshold}")
    return {"corrected": float(threshold)}


def plan(
    suite: str,
    *,
    scenes: PathLike | None = None,
    out: PathLike | None = None,
    model: str | Generator | None = None,
    base_url: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """What ``evaluate`` would ask for, what of it is done already, and what the rest would cost, without doing it."""
    the_suite = make_suite(suite, scenes=None if scenes is None else Path(scenes), **options)
    prompts = the_suite.prompts()
    requests = make_requests(prompts, int(options.get("seed", 0)))
    there: set[str] = set()
    if out is not None and (Path(out) / "manifest.json").exists():
        there = set(Run.open(Path(out)).read("images")["image_id"].to_list())
    pending = [r for r in requests if r.image_id not in there]
    estimate: list[str] = []
    if model is not None:
        context = Context(prompts=prompts, classes=the_suite.shapes, colors=the_suite.colors, base_url=base_url)
        maker = _generator(model, None, context)
        estimate = list(getattr(maker, "estimate", lambda _: ())(pending))
        getattr(maker, "close", lambda: None)()
    skills: dict[str, int] = {}
    for p in prompts:
        skills[str(p.facets["skill"])] = skills.get(str(p.facets["skill"]), 0) + p.n_images
    return {
        "suite": suite,
        "prompts": len(prompts),
        "pictures": len(requests),
        "pictures_per_skill": skills,
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


def score(run: Run | PathLike, *, threshold: float | None = None, detector: str | None = None) -> list[Score]:
    """Apply the rules of a run's suite again; no picture is made or looked at.

    Args:
        threshold: another confidence limit for the ``corrected`` rules. detector: whose boxes count, if several looked.
    """
    run = run if isinstance(run, Run) else open_run(run)
    suite = suite_of_prompts(run.manifest["settings"]["suite"], run.prompts())
    notes = run.manifest.get("notes", {})
    judge = detector or notes.get("judge")
    limits = {"corrected": notes["rules"]["threshold_corrected"]} if "rules" in notes else {}
    if judge in notes.get("thresholds", {}):
        limits = {"corrected": notes["thresholds"][judge]}
    if threshold is not None:
        limits = _thresholds(None, threshold)
    suite = suite.with_thresholds(**limits)
    scores = score_run(run, suite, judge=detector)
    _note_rules(run, suite, judge)
    return scores


def observe(
    run: Run | PathLike, detector: str, *, threads: int | None = None, device: str | None = None
) -> list[Score]:
    """Let another detector look at the pictures of a run, and score by it; no picture is made."""
    run = run if isinstance(run, Run) else open_run(run)
    prompts = run.prompts()
    suite = suite_of_prompts(run.manifest["settings"]["suite"], prompts)
    context = Context(prompts=prompts, classes=suite.shapes, colors=suite.colors, threads=threads, device=device)
    judge = make_judge(detector, context)
    requests = make_requests(prompts, int(run.manifest["settings"]["seed"]))
    for need in suite.needs():
        observe_pictures(run, requests, judge, need)
    suite = suite.with_thresholds(**_thresholds(judge, None))
    _note_rules(run, suite, judge.name)
    return score_run(run, suite, judge=judge.name)


def compare(a: Run | PathLike, b: Run | PathLike, **options: Any) -> list[Difference]:
    """Paired comparison of two runs: B minus A. See ``verism.pipeline.comparing.compare_runs``."""
    a = a if isinstance(a, Run) else open_run(a)
    b = b if isinstance(b, Run) else open_run(b)
    return compare_runs(a, b, **options)
