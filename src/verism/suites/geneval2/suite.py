"""GenEval 2 as a suite: the user's prompts, questions to a VQA model with likelihoods, Soft-TIFA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError
from verism.files import read_json
from verism.records import AnswerNeed, Need, Observed, Prompt, Question, Score, UserImage
from verism.statistics.intervals import clustered_average
from verism.suites.base import (
    LIMIT,
    SEED,
    SHARE,
    Demo,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Row,
    Suite,
    SuiteInfo,
)
from verism.suites.geneval2.demo import DEMOS
from verism.suites.geneval2.questions import (
    NO,
    NUMBERS,
    SKILLS,
    YES,
    Asked,
    read_asked,
    refusal,
    strings_of,
    structure_problem,
)
from verism.suites.geneval2.soft_tifa import arithmetic_mean, geometric_mean, released_probability
from verism.suites.prompt_lists import choose
from verism.suites.token_probabilities import TOKENS, first_tokens, share_of_answer
from verism.suites.verdict_table import VerdictRows, shown_images

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GenEval2"]

INSTRUCTION = " Answer in one word."
VQASCORE = 'Does this image show "{prompt}"? Answer the question with Yes or No.'
PROTOCOLS = ("revised", "released")
PAPER = "GenEval 2, arXiv:2512.16853"

METRICS = (
    MetricSpec(
        "soft_tifa_am",
        title="Soft-TIFA, arithmetic mean",
        meaning="Mean over images of the mean probability of the right answers; by skill: mean over its questions.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PAPER}; released evaluation",
        compare="paired",
    ),
    MetricSpec(
        "soft_tifa_gm",
        title="Soft-TIFA, geometric mean",
        meaning="Mean over images of the geometric mean of the probabilities of the right answers. It falls with the "
        "number of questions by construction: read it by number of atoms.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PAPER}; released evaluation",
        compare="paired",
    ),
    MetricSpec(
        "tifa",
        title="TIFA",
        meaning="Mean over images of the share of questions whose reply is the right answer.",
        scale=SHARE,
        better="higher",
        source=f"{PAPER}; Hu et al. 2023",
        compare="paired",
    ),
    MetricSpec(
        "vqascore",
        title="VQAScore",
        meaning="Mean probability of yes to the question whether the image shows the prompt.",
        scale=SHARE,
        better="higher",
        source=f"{PAPER}; Lin et al. 2024",
        compare="paired",
    ),
    MetricSpec(
        "answer_mass",
        title="mass of the answers",
        meaning="Mean probability that the reply begins with any of the answers that a question allows: coverage of "
        "the revised probabilities.",
        scale=SHARE,
        better=None,
        source="coverage of the judge's answers",
        compare="never",
    ),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class GenEval2(Suite):
    """The prompts and questions of a file that the user names.

    Attributes:
        asked: id and questions of each prompt, in order.
        altered: how the prompts differ from the released ones; empty if they do not.
        found: images that a list of the released format names; None for others.
        with_vqascore: whether the prompt as a whole is asked about, too.
        info: name, title, question, protocols and limits, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        judged_by: by what else than their words prompts are judged, see ``Suite``.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
        in_blocks: large runs are scored block by block, see ``Suite``.
    """

    asked: tuple[tuple[str, Asked], ...]
    altered: str = ""
    found: tuple[UserImage, ...] | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="geneval2",
        title="GenEval 2",
        question="How much of a prompt of three to ten atoms do images show?",
        summary="800 prompts of 3 to 10 atoms, 6,012 questions, Soft-TIFA; from your copy of the data (CC BY-NC)",
        protocols={
            "revised": "Only tokens that decide between answers count, and probabilities are shares of the mass of all "
            "answers. Use it to compare models and judges.",
            "released": "The sum over the first tokens of every accepted string, including the space before a digit. "
            "Use it to compare with published numbers.",
        },
        limits=(
            "The geometric mean falls with the number of questions by construction; compare it at equal atoms.",
            "Every number holds the errors of the VQA model, and its habit of saying yes.",
            "Numbers of questions that count to one say how well objects are seen, not how well they are counted.",
        ),
        citation="GenEval 2, arXiv:2512.16853",
    )
    judge_roles: ClassVar[tuple[str, ...]] = ("vqa",)
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("prompts_file", Path, flag="--prompts", help="Your copy of the released prompts, JSON lines."),
        Option("own", bool, help="Accept prompts other than the released ones.", default="false"),
        Option("vqascore", bool, help="Also ask whether the image shows the whole prompt.", default="false"),
        Option("images", Path, help="Images; a JSON object of path by prompt, as released, or any other list."),
        replace(LIMIT, help="Number of prompts, spread over numbers of atoms."),
        SEED,
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "alignment": (
                "soft_tifa_am",
                "soft_tifa_gm",
                "tifa",
                "vqascore",
            ),
            "reasoning": (
                "soft_tifa_am",
                "soft_tifa_gm",
            ),
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    judged_by: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"questions": AnswerNeed.role, "answers": AnswerNeed.role}
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="soft_tifa_am", metric="soft_tifa_am", facet="atoms"),
        Pairing(rule="soft_tifa_gm", metric="soft_tifa_gm", facet="atoms"),
    )
    layout: ClassVar[Layout] = Layout(
        kind="rows",
        rows=(
            Row("soft_tifa_am"),
            Row("soft_tifa_gm"),
            Row("tifa"),
            Row("vqascore"),
            Row("soft_tifa_gm", ("atoms",)),
            Row("soft_tifa_am", ("skill",)),
        ),
        names={"atoms": "number of atoms"},
    )
    in_blocks: ClassVar[bool] = True
    with_vqascore: bool = False

    @classmethod
    def build(
        cls,
        *,
        prompts_file: Path | None = None,
        own: bool = False,
        vqascore: bool = False,
        images: Path | None = None,
        limit: int | None = None,
        seed: int = 0,
    ) -> Self:
        """The suite with the prompts of a file.

        Args:
            prompts_file: the user's copy of the released file.
            own: whether prompts other than the released ones are meant.
            vqascore: whether to ask about the prompt as a whole, too.
            images: images that exist; a ``.json`` file is an object of path by prompt.
            limit: prompts in all, drawn evenly by number of atoms; None for all.
            seed: of which prompts a limit keeps.

        Raises:
            UsageError: no file named, or one that is not the released one, and ``own`` does not say that this is meant.
        """
        if prompts_file is None:
            raise refusal(
                "geneval2", "its prompts may not be bundled (CC BY-NC 4.0); name your copy with --prompts FILE"
            )
        listed = read_asked(prompts_file)
        altered = structure_problem(listed, prompts_file)
        if altered and not own:
            raise refusal(str(prompts_file), f"{altered}. If it is meant to be so, add --own true")
        every = [(f"{index:04d}", each) for index, each in enumerate(listed)]
        chosen = {prompt_id for prompt_id, _ in _limited(every, limit, seed)}
        asked = tuple((prompt_id, each) for prompt_id, each in every if prompt_id in chosen)
        found = None
        if images is not None and images.suffix.lower() == ".json":
            found = tuple(_listed_images(images, {each.prompt: prompt_id for prompt_id, each in asked}))
        return cls(asked=asked, altered=altered, found=found, with_vqascore=vqascore)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored; they hold all it needs to know."""
        asked = []
        for p in prompts:
            spec = p.spec
            asked.append(
                (
                    p.prompt_id,
                    Asked(
                        prompt=p.text,
                        atoms=int(p.facets["atoms"] or 0),
                        questions=tuple(spec["questions"]),
                        answers=tuple(spec["answers"]),
                        skills=tuple(spec["skills"]),
                    ),
                )
            )
        return cls(
            asked=tuple(asked),
            altered=str(settings.get("altered", "")),
            with_vqascore=bool(settings.get("vqascore", False)),
        )

    def settings(self) -> Mapping[str, Any]:
        """What decides the prompts; where files lie does not."""
        kept = {name: value for name, value in self.made_with.items() if name in ("limit", "seed")}
        return {**kept, "vqascore": self.with_vqascore, "altered": self.altered}

    @property
    def user_images(self) -> Sequence[UserImage] | None:  # type: ignore[override]
        """Images of a released list; None for others, which are matched by their names."""
        return self.found

    def prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(
                prompt_id=prompt_id,
                suite=self.name,
                text=each.prompt,
                facets={"atoms": each.atoms},
                spec={"questions": each.questions, "answers": each.answers, "skills": each.skills},
            )
            for prompt_id, each in self.asked
        ]

    def needs(self) -> Sequence[Need]:
        """Every question by itself, with the probabilities of the first tokens of all answers it allows."""
        questions = {}
        for prompt_id, each in self.asked:
            made = [_question(text, skill) for text, skill in zip(each.questions, each.skills, strict=True)]
            if self.with_vqascore:
                made.append(Question(text=_vqascore_question(each.prompt), strings=_strings((YES, NO)), bare=True))
            questions[prompt_id] = tuple(made)
        return (AnswerNeed(questions=questions),)

    # ------------------------------------------------------------------------------------------------------ verdicts
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Probabilities of right answers by question, and their means by image; table ``verdicts``."""
        answers = observed.observations.get("answers")
        if answers is None:
            raise UsageError(f"geneval2 needs a VQA model; this run has {sorted(observed.observations)}")
        replies = {
            (row["image_id"], row["question"]): (row["value"], row["probability"])
            for row in answers.iter_rows(named=True)
            if row["question"] is not None
        }
        tokens = first_tokens(observed.observations.get(TOKENS))
        rows = VerdictRows()
        for image in shown_images(observed, judged=set(answers["image_id"].to_list())):
            spec = image.prompt.spec
            triples = list(zip(spec["questions"], spec["answers"], spec["skills"], strict=True))
            names = ("soft_tifa_am", "soft_tifa_gm")
            if image.problem:
                for protocol in PROTOCOLS:
                    for name in (*names, "tifa", *(["vqascore"] if self.with_vqascore else [])):
                        rows.add(image, protocol, name, None, image.problem)
                continue
            right = []
            for protocol in PROTOCOLS:
                found = []
                for text, answer, skill in triples:
                    wanted = answer.lower()
                    seen = tokens.get((image.image_id, _worded(text)), {})
                    value, said = replies.get((image.image_id, _worded(text)), (None, None))
                    probability, mass = _probability(protocol, wanted, skill, seen, value, said)
                    if protocol == PROTOCOLS[0]:
                        right.append(None if value is None else float(value == wanted))
                    found.append(probability)
                    shown = "not given" if probability is None else f"{probability:.3f}"
                    detail = {"skill": skill, "mass": mass}
                    rows.add(image, protocol, "question", probability, f"{text} {answer}: {shown}", detail)
                self._add_means(rows, image, protocol, found)
                share = None if any(v is None for v in right) else arithmetic_mean([v for v in right if v is not None])
                rows.add(image, protocol, "tifa", share, f"replies right: {sum(v == 1 for v in right)} of {len(right)}")
                if self.with_vqascore:
                    text = _vqascore_question(image.prompt.text)
                    seen = tokens.get((image.image_id, text), {})
                    value, said = replies.get((image.image_id, text), (None, None))
                    probability, _ = _probability(protocol, YES, "object", seen, value, said)
                    rows.add(image, protocol, "vqascore", probability, text)
        return rows.table()

    @staticmethod
    def _add_means(rows: VerdictRows, image: Any, protocol: str, found: Sequence[float | None]) -> None:
        known = [p for p in found if p is not None]
        complete = len(known) == len(found)
        reason = f"{len(known)} of {len(found)} questions have a probability"
        means = {"soft_tifa_am": arithmetic_mean(known), "soft_tifa_gm": geometric_mean(known)}
        for name, value in means.items():
            rows.add(image, protocol, name, value if complete else None, reason)

    # -------------------------------------------------------------------------------------------------------- scores
    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """Means over images, by number of atoms, and over the questions of each skill."""
        import polars as pl

        detail = pl.Struct({"skill": pl.String, "mass": pl.Float64})
        atoms = {prompt_id: int(p.facets["atoms"] or 0) for prompt_id, p in observed.prompts.items()}
        scores: list[Score] = []
        for protocol in PROTOCOLS:
            of_protocol = verdicts.lazy().filter(pl.col("protocol") == protocol)
            for metric in ("soft_tifa_am", "soft_tifa_gm", "tifa", "vqascore"):
                rows = of_protocol.filter(pl.col("rule") == metric).select("prompt_id", "value").collect()
                if rows.is_empty():
                    continue
                scores.append(self._mean(metric, protocol, {}, rows))
                of_prompt = rows["prompt_id"].replace_strict(atoms, return_dtype=pl.Int64)
                for n in sorted(set(atoms.values())):
                    scores.append(self._mean(metric, protocol, {"atoms": n}, rows.filter(of_prompt == n)))
            asked = of_protocol.filter(pl.col("rule") == "question")
            about = pl.col("detail").str.json_decode(detail).struct
            questions = asked.select(
                "prompt_id", "value", about.field("skill").cast(pl.Categorical), about.field("mass")
            )
            table = questions.collect()
            for skill in SKILLS:
                of_skill = table.filter(pl.col("skill") == skill)
                if of_skill.height:
                    scores.append(self._mean("soft_tifa_am", protocol, {"skill": skill}, of_skill))
            masses = table.filter(pl.col("mass").is_not_null())
            if masses.height and protocol == PROTOCOLS[0]:
                scores.append(self._mean("answer_mass", protocol, {}, masses.with_columns(value="mass")))
        return scores

    def _mean(self, metric: str, protocol: str, group: Mapping[str, Any], rows: pl.DataFrame) -> Score:
        used = rows.filter(rows["value"].is_not_null() & rows["value"].is_not_nan())
        values, prompts = used["value"].to_numpy(), used["prompt_id"].rank("dense").to_numpy()
        interval = clustered_average(values, prompts, bounds=(0.0, 1.0))
        return Score(
            suite=self.name,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=used.height,
            n_unusable=rows.height - used.height,
        )

    def remarks(self, observed: Observed) -> Sequence[str]:
        """What keeps the numbers from being compared with published ones."""
        lines = [f"the prompts are not the released ones: {self.altered}"] if self.altered else []
        tokens = observed.observations.get(TOKENS)
        if tokens is None or tokens.is_empty():
            lines.append(
                "the judge gives no probabilities of tokens: those of its replies were taken, so released numbers are "
                "not comparable with published ones"
            )
        return lines


def _worded(question: str) -> str:
    """A question as it is asked: each by itself, with the released instruction behind it."""
    return question + INSTRUCTION


def _vqascore_question(prompt: str) -> str:
    return VQASCORE.replace("{prompt}", prompt)


def _answers(skill: str) -> tuple[str, ...]:
    """Answers that questions of a skill allow."""
    return tuple(NUMBERS) if skill == "count" else (YES, NO)


def _strings(answers: Sequence[str]) -> tuple[str, ...]:
    return tuple(string for answer in answers for string in strings_of(answer))


def _question(text: str, skill: str) -> Question:
    answers = _answers(skill)
    choices = answers if skill == "count" else ()
    return Question(text=_worded(text), choices=choices, strings=_strings(answers), bare=True)


def _probability(
    protocol: str,
    answer: str,
    skill: str,
    tokens: Mapping[str, tuple[int, float]],
    value: str | None,
    probability: float | None,
) -> tuple[float | None, float | None]:
    """Probability of the right answer, and the mass of all answers (None where it is not known).

    Without tokens: what the judge says of its own answer, as far as that tells the right one's probability.
    """
    if tokens:
        if protocol == "released":
            return released_probability(strings_of(answer), tokens), None
        return share_of_answer(answer, {each: strings_of(each) for each in _answers(skill)}, tokens)
    if probability is None or (skill == "count" and value != answer):
        return None, None
    return probability, None


def _limited(prompts: Sequence[tuple[str, Asked]], limit: int | None, seed: int) -> list[tuple[str, Asked]]:
    """A limit dealt out evenly by number of atoms."""
    groups: dict[int, list[tuple[str, Asked]]] = {}
    for item in prompts:
        groups.setdefault(item[1].atoms, []).append(item)
    left = len(prompts) if limit is None else limit
    kept: list[tuple[str, Asked]] = []
    ordered = sorted(groups.values(), key=len)
    for number, group in enumerate(ordered):
        share = min(len(group), -(-left // (len(ordered) - number)))
        left -= share
        if share:
            kept += choose(group, [prompt_id for prompt_id, _ in group], share, seed)
    return kept


def _listed_images(path: Path, prompts: Mapping[str, str]) -> list[UserImage]:
    """Images of a JSON object of path by prompt, as the released code takes them; relative paths count from the file.

    Raises:
        UsageError: no such object.
    """
    record = read_json(path, "images by prompt")
    if not isinstance(record, dict) or not all(isinstance(value, str) for value in record.values()):
        raise UsageError(f"{path}: expected a JSON object of image path by prompt")
    return [
        UserImage(prompt_id=prompts[text], index=0, path=str((path.parent / file).absolute()))
        for text, file in record.items()
        if text in prompts
    ]
