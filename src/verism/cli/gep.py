"""``verism gep``: labels of people, and how good automatic judges of gender presentation are by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism.cli.common import Group, put_json, say, without_nan
from verism.errors import UsageError
from verism.files import read_lines

if TYPE_CHECKING:
    from verism.metrics.presentation.evaluation import VectorAgreement
    from verism.metrics.presentation.judging import JudgeReport, ModelsReport, Protocol
    from verism.store import Run
    from verism.suites.gender_presentation.studies import Study

__all__ = ["gep"]

PROTOCOLS = ("corrected", "released")
ESTIMATORS = ("C", "CC", "CLS", "VQA")

_runs = click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
_labels = click.option(
    "--labels",
    "label_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Labels of people: a table, votes, or an array; once for all runs or once per run.  [default: the run's own]",
)
_protocol = click.option("--protocol", type=click.Choice(PROTOCOLS), default="corrected", show_default=True)
_group_size = click.option(
    "--group-size", type=click.IntRange(2), default=80, show_default=True, help="Pictures in an artificial group."
)
_seed = click.option("--seed", type=int, default=0, show_default=True, help="Of resamples and artificial sets.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group(cls=Group)
def gep() -> None:
    """Gender presentation differences: labels of people, and judges measured against them.

    \b
    verism gep labels batches/*.csv --model stable --out labels.csv
    verism gep judge runs/sd15 --labels labels.csv
    verism gep ablate runs/sd15 --labels labels.csv
    """


# -------------------------------------------------------------------------------------------------------------- labels
@gep.command("labels")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Table of labels to write (.csv).")
@click.option("--study", type=click.Path(path_type=Path), help="Attributes, groups, contexts.  [default: released]")
@click.option("--model", help="Only pictures of this model, by the name in their URLs (cogview2, dalle, stable).")
@click.option("--votes", "votes_each", type=click.IntRange(1), help="Every picture must have so many.  [batches: 3]")
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
    """Majority labels from FILES of votes, and how far the voters agree.

    FILES are raw batch results of Mechanical Turk, or tables (.csv, .jsonl) with the columns image (or prompt_id and
    index), attribute, vote, and optionally worker and model. Ids of workers are hashed on reading, with a key that is
    forgotten, and never written.

    \b
    verism gep labels tie.csv tie_2.csv --model stable --out labels.csv
    """
    from dataclasses import replace

    from verism.suites.gender_presentation.labels import majority_labels, read_votes, vote_agreement, write_labels

    chosen = _study(study)
    votes = read_votes(files, chosen, votes_each=votes_each)
    if model is not None:
        models = sorted({vote.picture.model or "(none)" for vote in votes.votes})
        votes = replace(votes, votes=tuple(vote for vote in votes.votes if vote.picture.model == model))
        if not votes.votes:
            raise UsageError(f"--model {model}: no votes on its pictures; there are those of {', '.join(models)}")
    labels = majority_labels(votes)
    agreement = vote_agreement(votes, by_attribute=True, seed=seed)
    by_attribute = {
        attribute.name: [label for label in labels if label.attribute == attribute.name]
        for attribute in chosen.attributes
    }
    record: dict[str, Any] = {
        "n_votes": len(votes.votes),
        "n_voters": len({vote.worker for vote in votes.votes if vote.worker is not None}),
        "n_tasks": votes.n_tasks,
        "n_rejected": votes.n_rejected,
        "n_labels": len(labels),
        "n_undecided": sum(label.label is None for label in labels),
        "models": sorted({label.picture.model or "(none)" for label in labels}),
        "alpha": {name: dict(found._asdict()) for name, found in agreement.items()},
        "attributes": {
            name: {"labels": len(of), "seen": sum(label.label == 1 for label in of)}
            for name, of in by_attribute.items()
            if of
        },
    }
    if out is not None:
        write_labels(out, labels)
    if as_json:
        put_json(without_nan(record))
    else:
        voters = f" of {record['n_voters']:,} people" if record["n_voters"] else ""
        click.echo(
            f"{record['n_votes']:,} votes{voters}: {record['n_labels']:,} labels, {record['n_undecided']:,} undecided"
        )
        if votes.n_rejected:
            click.echo(f"{votes.n_rejected:,} rows of rejected work left out")
        click.echo(f"Krippendorff's alpha {_number(agreement['all'])}")
        rows = [
            [name, f"{n['labels']:,}", f"{n['seen']:,}", _number(agreement[name])]
            for name, n in record["attributes"].items()
        ]
        click.echo(_aligned([["attribute", "labels", "seen", "alpha"], *rows]))
    if out is not None:
        say(f"written: {out}")


def _study(source: Path | None) -> Study:
    from verism.suites.gender_presentation.studies import read_study, standard_study

    return standard_study("released") if source is None else read_study(source)


# --------------------------------------------------------------------------------------------------------------- judge
@gep.command("judge")
@_runs
@_labels
@click.option("--estimator", "estimators", multiple=True, type=click.Choice(ESTIMATORS), help="Only this; several.")
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
    """How good are the judges of RUNS? Their differences beside those that people see.

    Kendall's tau, MCC of signs and Pearson's correlation of the vectors, AUC per attribute, reaction to gender over
    reaction to the attribute, and artificial sets with known differences; with several runs also the rank of models.

    \b
    verism gep judge runs/sd15 --labels labels.csv
    verism gep judge runs/sd15 runs/dalle2 --labels sd15.csv --labels dalle2.csv --estimator CLS --json
    """
    from verism.metrics.presentation.judging import judge_estimator, judge_models, models_record, report_record
    from verism.suites.gender_presentation.judged import judged_by

    opened = _opened(runs, label_files, protocol)
    results: list[tuple[str, tuple[str, str], dict[str, JudgeReport], ModelsReport | None]] = []
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
                results.append((name, pair, reports, judge_models(reports) if len(reports) > 1 else None))
    if not results:
        raise UsageError(
            f"no verdicts of {' or '.join(estimators or ESTIMATORS)} under the protocol {protocol} in "
            f"{', '.join(map(str, runs))}; the run needs --clip or --vqa"
        )
    if as_json:
        put_json(
            without_nan(
                [
                    {
                        "estimator": name,
                        "runs": {run: report_record(report) for run, report in reports.items()},
                        "models": None if models is None else models_record(models),
                    }
                    for name, _, reports, models in results
                ]
            )
        )
        return
    for name, _, reports, models in results:
        for run_name, report in reports.items():
            click.echo(_report_text(f"{name} ({protocol}), {run_name}", report))
        if models is not None:
            click.echo(_models_text(f"{name} ({protocol}), all runs", models))


def _opened(
    runs: Sequence[Path], label_files: Sequence[Path], protocol: str
) -> list[tuple[Run, Study, dict[tuple[str, str], float]]]:
    """Runs with their study and labels."""
    from verism.store import Run
    from verism.suites.gender_presentation.judged import labels_of_marks, labels_of_verdicts
    from verism.suites.gender_presentation.labels import labels_by_prompt
    from verism.suites.gender_presentation.studies import study_from_record

    if len(label_files) not in (0, 1, len(runs)):
        raise UsageError(f"--labels: give it once, or once for each of the {len(runs)} runs; got {len(label_files)}")
    opened = []
    for number, path in enumerate(runs):
        run = Run.open(path)
        settings = run.manifest["settings"]
        if "study" not in settings:
            raise UsageError(f"{path} is a run of {settings.get('suite')!r}; expected one of gender_presentation")
        study = study_from_record(settings["study"], where=f"the study of {path}")
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
@click.argument("run", type=click.Path(path_type=Path))
@_labels
@click.option("--captions", type=click.Path(path_type=Path), help="Sentences as negatives, one per line; with --clip.")
@click.option("--contexts", type=click.Path(path_type=Path), help="Other contexts, one per line; with --clip.")
@click.option("--reference-text", "references", multiple=True, help="Another reference of CC; several; with --clip.")
@click.option("--clip", help="The model the run was judged with: gives vectors of new texts.")
@click.option("--device", help="cpu, cuda, cuda:1 ... for --clip.")
@_protocol
@_group_size
@_seed
@_as_json
def gep_ablate(
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
    """Variants of the estimators on the vectors of RUN: which parts of them matter?

    No ensemble, people of the groups only, other negatives, other contexts, reference texts: each on the same
    artificial difference sets and on the vectors of each setting. Nothing is written.

    \b
    verism gep ablate runs/sd15 --labels labels.csv --protocol released
    verism gep ablate runs/sd15 --labels labels.csv --captions coco.txt --clip openai/clip-vit-large-patch14
    """
    from verism.metrics.presentation.judging import judge_estimator, report_record
    from verism.suites.gender_presentation.judged import judged_variants

    if len(label_files) > 1:
        raise UsageError("--labels: one file for the run")
    finished, study, labels = _opened([run], label_files, protocol)[0]
    judge = finished.judge("clip")
    if judge is None:
        raise UsageError(f"{run} has no vectors of pictures; run it with --clip, or: verism observe {run} --clip ID")
    try:
        judged = judged_variants(
            study,
            {prompt.prompt_id: prompt for prompt in finished.prompts()},
            finished.read("images"),
            finished.read("embeddings", judge),
            labels,
            _text_vectors(finished, judge, clip, device),
            negatives=_lines(captions, "--captions"),
            contexts=[line.rstrip(".") for line in _lines(contexts, "--contexts")],
            references=references,
            released=protocol == "released",
        )
    except ModuleNotFoundError as err:
        raise UsageError(f"{err}; or use --protocol corrected") from err
    results = [
        (name, pair, judge_estimator(
            rows, genders=pair, attributes=[a.name for a in study.attributes],
            protocol=protocol, group_size=group_size, seed=seed,
        ))
        for name, rows in judged.items()
        for pair in _pairs(study)
    ]  # fmt: skip
    if as_json:
        put_json(without_nan([{"variant": name, **report_record(report)} for name, _, report in results]))
        return
    rows = [["variant", "difference", "on", "tau", "MCC", "mean AUC"]]
    for name, pair, report in results:
        found = {} if report.artificial is None else {"artificial sets": report.artificial.overall}
        found |= {setting: vectors.agreement for setting, vectors in report.vectors.items()}
        for on, agreement in found.items():
            rows.append(
                [name, " - ".join(pair), on, _number(agreement.tau), _number(agreement.mcc), _number(report.auc.mean)]
            )
    click.echo(_aligned(rows))
    for note in dict.fromkeys(report.artificial_note for _, _, report in results if report.artificial_note):
        say(f"artificial sets: {note}")


def _lines(path: Path | None, option: str) -> list[str]:
    if path is None:
        return []
    lines = read_lines(path)
    if not lines:
        raise UsageError(f"{option} {path}: no lines in it")
    return lines


def _text_vectors(run: Run, judge: str, clip: str | None, device: str | None) -> Any:
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
                from verism.registry import Context, make_judge

                model.append(make_judge(clip, Context(device=device), EmbeddingNeed.role))
                if model[0].name != judge:
                    raise UsageError(f"--clip {clip} is {model[0].name!r}, but the run was judged by {judge!r}")
            told = model[0].embed_texts(new)
            known.update(zip(told["text"].to_list(), vectors_of(told["vector"])))
        return np.stack([known[text] for text in texts])

    return vectors


# ---------------------------------------------------------------------------------------------------------------- text
def _number(interval: Any) -> str:
    """``0.64 [0.34, 0.82]``; a dash where undefined."""
    if math.isnan(interval.value):
        return "-"
    if math.isnan(interval.low):
        return f"{interval.value:.3f}"
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _agreements(found: Mapping[str, VectorAgreement]) -> list[list[str]]:
    return [
        [name, _number(a.tau), _number(a.mcc), _number(a.pearson), f"{a.n_used:,}", f"{a.n_zero:,}"]
        for name, a in found.items()
    ]


def _report_text(title: str, report: JudgeReport) -> str:
    lines = [
        title,
        f"difference: {' - '.join(report.genders)}; {report.n_used:,} labelled answers used, {report.n_unusable:,} "
        f"labelled without an answer, {report.n_unlabelled:,} not labelled",
        "",
    ]
    found = {setting: vectors.agreement for setting, vectors in report.vectors.items()}
    if report.artificial is not None:
        found["artificial sets"] = report.artificial.overall
        found |= {f"  scale {scale:g}": agreement for scale, agreement in report.artificial.by_scale.items()}
    lines.append(_aligned([["", "tau", "MCC of signs", "Pearson", "n", "zeros"], *_agreements(found)]))
    if report.artificial_note:
        lines.append(f"artificial sets: {report.artificial_note}")
    lines.append("")
    scores = [[s, f"{v.automatic_score:.4g}", f"{v.human_score:.4g}"] for s, v in report.vectors.items()]
    lines += [_aligned([["GEP score", "judge", "people"], *scores]), ""]
    header = ["attribute", "AUC", *(f"AUC {gender}" for gender in report.auc_by_gender), "gender / attribute"]
    rows = [header, ["mean", *(_number(t.mean) for t in (report.auc, *report.auc_by_gender.values())), ""]]
    for name, auc in report.auc.groups.items():
        of_one = (
            _number(table.groups[name]) if name in table.groups else "-" for table in report.auc_by_gender.values()
        )
        rows.append([name, _number(auc), *of_one, _number(report.ratios[name].ratio)])
    lines += [_aligned(rows), ""]
    return "\n".join(lines)


def _models_text(title: str, models: ModelsReport) -> str:
    ranks = zip(models.entries, models.scores.ranks_automatic.tolist(), models.scores.ranks_reference.tolist())
    rows = [[model, setting, f"{judge:g}", f"{people:g}"] for (model, setting), judge, people in ranks]
    tau = "-" if math.isnan(models.scores.tau) else f"{models.scores.tau:.3f}"
    lines = [title, f"tau of scores {tau}", _aligned([["run", "setting", "rank by judge", "by people"], *rows]), ""]
    if models.mixed is not None:
        found = _agreements({"artificial sets of all runs": models.mixed})
        lines += [_aligned([["", "tau", "MCC of signs", "Pearson", "n", "zeros"], *found]), ""]
        pairs = [
            [name.replace("_", " "), "-" if math.isnan(pair.tau) else f"{pair.tau:.3f}", f"{pair.pairs:,}"]
            for name, pair in models.pairs.items()
        ]
        lines += [_aligned([["pairs of", "tau", "pairs"], *pairs]), ""]
    return "\n".join(lines)
