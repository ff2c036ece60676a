"""``verism gep``: labels of people, and how good automatic judges of gender presentation are by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism.errors import UsageError
from verism.files import read_lines
from verism.terminal import SEED, Group, PathType, ProtocolChoice, Services, put_result, say

if TYPE_CHECKING:
    from verism.metrics.presentation.judge_agreement import Protocol
    from verism.store import Run
    from verism.suites.gender_presentation.studies import Study

__all__ = ["gep"]

PROTOCOLS = ("revised", "released")
ESTIMATORS = ("C", "CC", "CLS", "VQA")

_runs = click.argument("runs", nargs=-1, required=True, type=PathType())
_labels = click.option(
    "--labels",
    "label_files",
    multiple=True,
    type=PathType(),
    help="Human labels: a table, votes or an array; once for all runs, or once per run.  [default: the run's own]",
)
_protocol = click.option(
    "--protocol", type=ProtocolChoice(PROTOCOLS), default="revised", show_default=True, help="Protocol of the scores."
)
_group_size = click.option(
    "--group-size", type=click.IntRange(2), default=80, show_default=True, help="Images per artificial group."
)
_seed = click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of resamples and artificial sets.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group(cls=Group)
def gep() -> None:
    """Measure judges of gender presentation against human labels.

    \b
    verism gep labels batches/*.csv --model stable --out labels.csv
    verism gep judge runs/sd15 --labels labels.csv
    verism gep ablate runs/sd15 --labels labels.csv
    """


# -------------------------------------------------------------------------------------------------------------- labels
@gep.command("labels")
@click.argument("files", nargs=-1, required=True, type=PathType())
@click.option("--out", type=PathType(), help="Output table of labels (.csv).")
@click.option("--study", type=PathType(), help="Study with attributes, groups and contexts.  [default: released]")
@click.option("--model", help="Use only images of this model, by the name in their URLs (cogview2, dalle, stable).")
@click.option(
    "--votes", "votes_each", type=click.IntRange(1), help="Votes that every image must have.  [default for batches: 3]"
)
@_seed
@_as_json
def gep_labels(
    files: tuple[Path, ...],
    out: Path | None,
    study: Path | None,
    model: str | None,
    votes_each: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compute majority labels from FILES of votes, and the agreement of the voters.

    FILES are raw batch results of Mechanical Turk, or tables (.csv, .jsonl) with the columns image (or prompt_id and
    index), attribute, vote, and optionally worker and model. Ids of workers are hashed on reading, with a key that is
    forgotten, and never written.

    \b
    verism gep labels tie.csv tie_2.csv --model stable --out labels.csv
    """
    from dataclasses import replace

    from verism.suites.gender_presentation.labels import (
        LabelSummary,
        majority_labels,
        read_votes,
        vote_agreement,
        write_labels,
    )

    chosen = _study(study)
    votes = read_votes(files, chosen, votes_each=votes_each)
    if model is not None:
        models = sorted({vote.image.model or "(none)" for vote in votes.votes})
        votes = replace(votes, votes=tuple(vote for vote in votes.votes if vote.image.model == model))
        if not votes.votes:
            raise UsageError(f"--model {model}: no votes on its images; there are those of {', '.join(models)}")
    labels = majority_labels(votes)
    agreement = vote_agreement(votes, by_attribute=True, seed=seed)
    if out is not None:
        write_labels(out, labels)
    names = [attribute.name for attribute in chosen.attributes]
    put_result(LabelSummary(votes=votes, labels=labels, agreement=agreement, attributes=names), as_json)
    if out is not None:
        say(f"written: {out}")


def _study(source: Path | None) -> Study:
    from verism.suites.gender_presentation.studies import read_study, standard_study

    return standard_study("released") if source is None else read_study(source)


# --------------------------------------------------------------------------------------------------------------- judge
@gep.command("judge")
@_runs
@_labels
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    type=click.Choice(ESTIMATORS),
    help="Use only this estimator; repeatable.",
)
@_protocol
@_group_size
@_seed
@_as_json
def gep_judge(
    runs: tuple[Path, ...],
    label_files: tuple[Path, ...],
    estimators: tuple[str, ...],
    protocol: Protocol,
    group_size: int,
    seed: int,
    as_json: bool,
) -> None:
    """Measure the judges of RUNS: their differences beside those in human labels.

    Kendall's tau, MCC of signs and Pearson's correlation of the vectors, AUC per attribute, reaction to gender over
    reaction to the attribute, and artificial sets with known differences; with several runs also the rank of models.

    \b
    verism gep judge runs/sd15 --labels labels.csv
    verism gep judge runs/sd15 runs/dalle2 --labels sd15.csv --labels dalle2.csv --estimator CLS --json
    """
    from verism.metrics.presentation.judge_agreement import EstimatorResult, judge_estimator, judge_models
    from verism.suites.gender_presentation.judged_images import judged_by

    opened = _opened(runs, label_files, protocol)
    results = []
    for name in estimators or ESTIMATORS:
        for pair in _pairs(opened[0][1]):
            reports = {}
            for run, study, labels in opened:
                prompts = {prompt.prompt_id: prompt for prompt in run.prompts()}
                judged = judged_by(run.verdicts(), prompts, labels, estimator=name, protocol=protocol)
                if judged is not None:
                    reports[str(run.path)] = judge_estimator(
                        judged,
                        genders=pair,
                        attributes=[attribute.name for attribute in study.attributes],
                        protocol=protocol,
                        group_size=group_size,
                        seed=seed,
                    )
            if reports:
                models = judge_models(reports) if len(reports) > 1 else None
                results.append(EstimatorResult(estimator=name, protocol=protocol, reports=reports, models=models))
    if not results:
        raise UsageError(
            f"no verdicts of {' or '.join(estimators or ESTIMATORS)} under the protocol {protocol} in "
            f"{', '.join(map(str, runs))}; the run needs --clip or --vqa"
        )
    put_result(results, as_json)


def _opened(
    runs: Sequence[Path], label_files: Sequence[Path], protocol: str
) -> list[tuple[Run, Study, dict[tuple[str, str], float]]]:
    """Runs with their study and labels."""
    from verism.store import Run
    from verism.suites.gender_presentation.judged_images import labels_of_marks, labels_of_verdicts
    from verism.suites.gender_presentation.labels import labels_by_prompt
    from verism.suites.gender_presentation.studies import study_from_record

    if len(label_files) not in (0, 1, len(runs)):
        raise UsageError(f"--labels: give it once, or once for each of the {len(runs)} runs; got {len(label_files)}")
    opened = []
    for number, path in enumerate(runs):
        run = Run.open(path)
        settings = run.manifest.settings
        if settings.suite != "gender_presentation":
            raise UsageError(f"{path} is a run of {settings.suite!r}; expected one of gender_presentation")
        study = study_from_record(settings.suite_settings["study"], where=f"the study of {path}")
        if label_files:
            file = label_files[0] if len(label_files) == 1 else label_files[number]
            labels = labels_of_marks(run.read("images"), labels_by_prompt(file, study, run.prompts()))
        else:
            labels = labels_of_verdicts(run.verdicts(), protocol)
            if not labels:
                raise UsageError(f"{path} has no labels of people; give them with --labels FILE")
        opened.append((run, study, labels))
    groups = {tuple(group.name for group in study.groups) for _, study, _ in opened}
    if len(groups) > 1:
        raise UsageError(f"the runs are of studies with other groups: {sorted(groups)}; judge them one by one")
    return opened


def _pairs(study: Study) -> list[tuple[str, str]]:
    return [(first.name, second.name) for first, second in study.pairs()]


# -------------------------------------------------------------------------------------------------------------- ablate
@gep.command("ablate")
@click.argument("run", type=PathType())
@_labels
@click.option("--captions", type=PathType(), help="File of negative sentences, one per line; needs --clip.")
@click.option("--contexts", type=PathType(), help="File of other contexts, one per line; needs --clip.")
@click.option(
    "--reference-text",
    "references",
    multiple=True,
    help="Another reference text of the estimator CC; repeatable; needs --clip.",
)
@click.option("--clip", help="Model the run was judged with, to embed new texts.")
@click.option("--device", help="Device of --clip: cpu, cuda, cuda:1 ...")
@_protocol
@_group_size
@_seed
@_as_json
@click.pass_obj
def gep_ablate(
    services: Services,
    run: Path,
    label_files: tuple[Path, ...],
    captions: Path | None,
    contexts: Path | None,
    references: tuple[str, ...],
    clip: str | None,
    device: str | None,
    protocol: Protocol,
    group_size: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compare variants of the estimators on the vectors of RUN, to see which parts matter.

    No ensemble, people of the groups only, other negatives, other contexts, reference texts: each on the same
    artificial difference sets and on the vectors of each setting. Nothing is written.

    \b
    verism gep ablate runs/sd15 --labels labels.csv --protocol released
    verism gep ablate runs/sd15 --labels labels.csv --captions coco.txt --clip openai/clip-vit-large-patch14
    """
    from verism.metrics.presentation.judge_agreement import AblationResult, judge_estimator
    from verism.suites.gender_presentation.judged_images import judged_variants

    if len(label_files) > 1:
        raise UsageError("--labels: one file for the run")
    finished, study, labels = _opened([run], label_files, protocol)[0]
    judge = finished.judge("clip")
    if judge is None:
        raise UsageError(f"{run} has no vectors of images; run it with --clip, or: verism observe {run} --clip ID")
    try:
        judged = judged_variants(
            study,
            {prompt.prompt_id: prompt for prompt in finished.prompts()},
            finished.read("images"),
            finished.read("embeddings", judge),
            labels,
            _text_vectors(services, finished, judge, clip, device),
            negatives=_lines(captions, "--captions"),
            contexts=[line.rstrip(".") for line in _lines(contexts, "--contexts")],
            references=references,
            released=protocol == "released",
        )
    except ModuleNotFoundError as err:
        raise UsageError(f"{err}; or use --protocol revised") from err
    variants = [
        (
            name,
            judge_estimator(
                rows,
                genders=pair,
                attributes=[attribute.name for attribute in study.attributes],
                protocol=protocol,
                group_size=group_size,
                seed=seed,
            ),
        )
        for name, rows in judged.items()
        for pair in _pairs(study)
    ]
    put_result(AblationResult(variants), as_json)
    if not as_json:
        for note in dict.fromkeys(report.artificial_note for _, report in variants if report.artificial_note):
            say(f"artificial sets: {note}")


def _lines(path: Path | None, option: str) -> list[str]:
    if path is None:
        return []
    lines = read_lines(path, f"the texts of {option}, one per line")
    if not lines:
        raise UsageError(f"{option} {path}: no lines in it")
    return lines


def _text_vectors(services: Services, run: Run, judge: str, clip: str | None, device: str | None) -> Any:
    """Vectors of texts: those the run keeps, and by the model itself for others."""
    import numpy as np

    from verism.records import EmbeddingNeed, vectors_of

    stored = run.read("text_embeddings", judge)
    known = dict(zip(stored["text"].to_list(), vectors_of(stored["vector"])))
    model: list[Any] = []

    def vectors(texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            if clip is None:
                raise UsageError(f"{len(new):,} new texts, such as {new[0]!r}, need the model: --clip ID_OR_PATH")
            if not model:
                model.append(services.make_judge(clip, EmbeddingNeed.role, device=device))
                if model[0].name != judge:
                    raise UsageError(f"--clip {clip} is {model[0].name!r}, but the run was judged by {judge!r}")
            result = model[0].embed_texts(new)
            known.update(zip(result["text"].to_list(), vectors_of(result["vector"])))
        return np.stack([known[text] for text in texts])

    return vectors
