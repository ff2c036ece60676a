"""Alignment as a suite: captions as prompts, and the ways of asking whether an image shows its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from verism.errors import UsageError
from verism.metrics.captions import DocumentFrequencies
from verism.records import AnswerNeed, CaptionNeed, EmbeddingNeed, Need, Observed, Prompt, Question, Score, frame
from verism.suites.alignment.caption_scores import (
    METRICS,
    CaptionTally,
    caption_metric_scores,
    caption_tally,
    caption_verdicts,
    captioned,
    check_tools,
    frequencies_of,
)
from verism.suites.alignment.captions import CaptionChoice, read_annotations, with_references
from verism.suites.alignment.demo import DEMOS
from verism.suites.alignment.image_groups import Listed, groups_of
from verism.suites.alignment.metrics import METRIC_SPECS
from verism.suites.alignment.question_scores import (
    QuestionTally,
    question_scores,
    question_tally,
    question_verdicts,
    vqascore_question,
)
from verism.suites.alignment.questions import Asked, match_questions, prompts_of_questions, read_questions
from verism.suites.alignment.retrieval import (
    POOL,
    RetrievalTally,
    Retrieved,
    Texts,
    retrieval_scores,
    retrieval_tally,
    retrieval_verdicts,
)
from verism.suites.base import (
    COSINE,
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.prompt_lists import ListedPrompt, choose, file_hash, read_prompt_list
from verism.suites.verdict_table import ShownImage, in_order_of, shown_images

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from verism.own_images import OwnImages, Possible
    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["Alignment"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment(Suite):
    """Prompts with their references and questions. Make one with ``Alignment.make``.

    Attributes:
        listed: the prompts; ``spec`` holds ``references`` and ``questions``.
        source: what the prompts were made from, for the settings of a run.
        vqascore: whether VQAScore's question is asked of every image.
        info: name, title, question, protocols and limits, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        in_blocks: large runs are scored block by block, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        judged_by: by what else than their words prompts are judged, see ``Suite``.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    listed: tuple[Prompt, ...]
    source: Mapping[str, Any] = field(default_factory=dict)
    vqascore: bool = True

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="alignment",
        title="Alignment",
        question="Do the images show what their texts say?",
        summary="caption metrics, R-precision, CLIPScore and questions, for COCO captions or prompts of your own",
        protocols={
            "revised": "Cosine similarities, negatives without the positive, fair ties, unusable answers excluded. "
            "Use it to compare models.",
            "released": "What DALL-Eval's published code does: raw dot products, negatives drawn with replacement.",
            "paper": "The definition in the text of the publication.",
        },
        limits=(
            "The judge's own mistakes are part of every number and of no interval.",
            "Caption metrics measure the captioner as well as the image, and words as well as meaning.",
            "Similarities of different models, or on different scales, are not comparable.",
        ),
        citation="Cho, Zala & Bansal 2022, DALL-Eval, arXiv:2202.04053v1, section 4",
    )
    published: ClassVar[Mapping[str, str]] = {"dalleval": "verism.suites.alignment.published:dalleval"}
    judge_roles: ClassVar[tuple[str, ...]] = ("captioner", "clip", "vqa")
    in_blocks: ClassVar[bool] = True
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("annotations", Path, help="COCO captions. With --prompts they give only the references."),
        Option("prompts", Path, help="Prompt list (.txt, .csv, .jsonl), instead of the annotations' captions."),
        Option("questions", Path, help="Questions in the format of TIFA or DSG; alone, they also give the prompts."),
        Option("split", str, help="Split of Karpathy's annotations.", default="test"),
        Option("caption", str, choices=("first", "random"), help="Caption of an image to use as its prompt."),
        Option("vqascore", bool, help="Ask VQAScore's question about every image.", default="true"),
        replace(LIMIT, help="Number of prompts, sampled at random by --seed."),
        SEED,
        replace(N_IMAGES, default="1"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "group_by",
            str,
            many=True,
            flag="--group-by",
            affects="scores",
            metrics=(),
            help="Facets to report scores by, comma-separated.",
        ),
        Rule(
            "caption_metrics",
            str,
            many=True,
            affects="scores",
            metrics=(),
            help="Caption metrics beyond BLEU, ROUGE-L and CIDEr: meteor, spice.",
        ),
        Rule(
            "pool",
            int,
            POOL,
            low=2,
            metrics=("r_precision",),
            help="Texts per pool of R-precision, the image's own among them.",
        ),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "alignment": (
                "clipscore_cosine",
                "clipscore_x100",
                "clipscore_hessel",
                "r_precision",
                "cider",
                "question_score",
                "question_accuracy",
                "vqascore",
            )
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRIC_SPECS
    judged_by: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"references": CaptionNeed.role, "questions": AnswerNeed.role}
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="clipscore", metric="clipscore_cosine", scale=COSINE),
        Pairing(rule="r_precision", metric="r_precision"),
        Pairing(rule="questions", metric="question_score"),
        Pairing(rule="vqascore", metric="vqascore"),
    )
    layout: ClassVar[Layout] = Layout(detail=("element_type", "category"))

    def prompts(self) -> Sequence[Prompt]:
        return self.listed

    def needs(self) -> Sequence[Need]:
        """Captions where there are references, vectors of texts, answers where there are questions; all optional."""
        needs: list[Need] = []
        if any(p.spec.get("references") for p in self.listed):
            needs.append(CaptionNeed(optional=True))
        needs.append(EmbeddingNeed(texts=tuple(sorted({p.text for p in self.listed})), optional=True))
        questions = {p.prompt_id: self._questions(p) for p in self.listed}
        if any(questions.values()):
            needs.append(AnswerNeed(questions=questions, optional=True))
        return needs

    def _questions(self, prompt: Prompt) -> tuple[Question, ...]:
        asked = [Asked.of_spec(spec).question for spec in prompt.spec.get("questions", ())]
        if self.vqascore:
            asked.append(vqascore_question(prompt.text))
        return tuple(dict.fromkeys(asked))

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.alignment.report import alignment_sections

        return alignment_sections(evidence)

    def settings(self) -> Mapping[str, Any]:
        return {**self.source, "vqascore": self.vqascore}

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule; facets and caption metrics must exist.

        Raises:
            UsageError: a value that does not fit, no such facet or caption metric.
            MissingExtra: a caption metric needs something that is not installed.
        """
        checked = rule.check(value)
        if rule.name == "group_by":
            facets = sorted({name for p in self.listed for name in p.facets})
            if foreign := [name for name in checked if name not in facets]:
                raise UsageError(
                    f"{self.name}: the prompts have no facet {foreign[0]!r} to group by; they have {facets}"
                )
        if rule.name == "caption_metrics":
            checked = [name.lower() for name in checked]
            if foreign := [name for name in checked if name not in METRICS]:
                raise UsageError(f"{self.name}: unknown caption metric {foreign[0]!r}; choose from {list(METRICS)}")
            if set(checked) - set(self.rule("caption_metrics")):
                check_tools(checked)
        return checked

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Per image: its sentence, cosine, chance of retrieval, every question; table ``verdicts``."""
        images = shown_images(observed)
        tables = observed.observations
        facts: _Facts = self.known_facts(observed)
        rows: list[dict[str, Any]] = []
        if facts.frequencies is not None:
            rows += caption_verdicts(images, tables["captions"], facts.frequencies)
        if facts.retrieved is not None:
            rows += retrieval_verdicts(images, tables["embeddings"], facts.retrieved)
        if "answers" in tables:
            rows += question_verdicts(images, tables["answers"], vqascore=self.vqascore)
        return frame("verdicts", rows)

    def block_key(self) -> Callable[[pl.Series], pl.Series]:
        """The places of the prompts: R-precision draws texts in their order."""
        return in_order_of([prompt.prompt_id for prompt in self.listed])

    def facts_of_all(self, blocks: Iterable[Observed], folder: Path | None) -> Any:
        """How often references have each n-gram, and how images are retrieved among the texts of all prompts.

        Args:
            blocks: all images, in the order of the prompts.
            folder: for the vectors of images, which are gone through again; None: in memory.
        """
        captions: dict[str, int] = {}
        embedded = _Embedded(folder)
        prompts: Mapping[str, Prompt] = {}
        has_captions = False
        for block in blocks:
            images, tables, prompts = shown_images(block), block.observations, block.prompts
            if "captions" in tables:
                has_captions = True
                captions |= captioned(images, tables["captions"])
            if "embeddings" in tables:
                embedded.add(images, block)
            elif not has_captions:
                break  # answers are about one image
        return _Facts(
            frequencies=frequencies_of(prompts, captions) if has_captions else None,
            retrieved=embedded.retrieved(self.rule("pool")),
        )

    def tally(self, observed: Observed, verdicts: pl.DataFrame) -> Any:
        """The numbers of each image that scores are made of."""
        images = shown_images(observed)
        tables = observed.observations
        facts: _Facts = self.known_facts(observed) if "captions" in tables else _Facts()
        listed = Listed.of(images, observed.prompts)
        verdicts = verdicts.lazy().collect()
        return _Tally(
            number=listed.number,
            captions=None
            if facts.frequencies is None
            else caption_tally(images, tables["captions"], facts.frequencies, self.rule("caption_metrics")),
            retrieval=retrieval_tally(images, verdicts) if "embeddings" in tables else None,
            questions=question_tally(images, listed, verdicts, vqascore=self.vqascore) if "answers" in tables else None,
        )

    def remarks(self, observed: Observed) -> Sequence[str]:
        """That R-precision has no value, where there are too few texts for it."""
        if "embeddings" not in observed.observations:
            return ()
        facts: _Facts = self.known_facts(observed)
        too_few = facts.retrieved.too_few if facts.retrieved is not None else ""
        return [f"r_precision (revised protocol): {too_few}"] if too_few else ()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order."""
        tallies: Sequence[_Tally] = self.known_tallies(observed, verdicts)
        listed = Listed(
            prompts=list(observed.prompts.values()), number=np.concatenate([tally.number for tally in tallies])
        )
        if not len(listed.number):
            return []
        groups = groups_of(listed, self.rule("group_by"))
        captions = [tally.captions for tally in tallies if tally.captions is not None]
        retrieval = [tally.retrieval for tally in tallies if tally.retrieval is not None]
        questions = [tally.questions for tally in tallies if tally.questions is not None]
        scores: list[Score] = []
        if captions:
            scores += caption_metric_scores(self.name, listed, captions, groups, self.rule("caption_metrics"))
        if retrieval:
            scores += retrieval_scores(self.name, listed, retrieval, groups)
        if questions:
            scores += question_scores(self.name, listed, questions, groups)
        return scores

    def graded_rules(self) -> Mapping[str, Sequence[str]]:
        """What people's ratings of alignment can be held against."""
        return {"alignment": ("clipscore", "vqascore", "questions", "r_precision")}

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def build(
        cls,
        *,
        annotations: Path | None = None,
        prompts: Path | None = None,
        questions: Path | None = None,
        split: str | None = None,
        caption: CaptionChoice | None = None,
        vqascore: bool = True,
        limit: int | None = None,
        seed: int = 0,
        n_images: int = 1,
    ) -> Self:
        """The suite over the captions, prompts or questions of a file.

        Args:
            annotations: COCO captions (see ``captions.read_annotations``). With ``prompts`` they only give the
                references.
            prompts: a prompt list, in place of the annotations' own choice (see ``prompt_lists.read_prompt_list``).
            questions: a file of questions (see ``questions.read_questions``). Without the others it gives the prompts,
                too.
            split: of Karpathy's annotations; None for ``test``.
            caption: ``first`` or ``random``: which caption of an image is the prompt.
            vqascore: whether VQAScore's question is asked.
            limit: prompts, drawn at random by seed; None for all.
            seed: of that draw, at least 0.
            n_images: images per prompt.

        Raises:
            UsageError: no file, or one that cannot be read as any of the forms; files that do not go together.
        """
        name = cls.info.name
        asked = None if questions is None else read_questions(questions)
        annotated: list[ListedPrompt] | None = None
        if annotations is not None:
            annotated = read_annotations(annotations, split=split, caption=caption, seed=seed)
        elif split is not None or caption is not None:
            raise UsageError("split and caption choose among annotations; give --annotations FILE with them")
        if prompts is not None:
            listed = read_prompt_list(prompts) if prompts.suffix.lower() != ".json" else read_annotations(prompts)
            if annotated is not None:
                listed = with_references(listed, annotated, source=annotations or prompts)
        elif annotated is not None:
            listed = annotated
        elif asked is not None:
            listed = prompts_of_questions(asked)
        else:
            raise UsageError(
                f"{name} needs prompts: COCO captions (--annotations FILE), a prompt list (--prompts FILE), or "
                "questions about prompts (--questions FILE). For a table of images with a column prompt, use "
                "`verism run auto --images TABLE`, or name it twice: --prompts TABLE --images TABLE"
            )
        matched = {} if asked is None or questions is None else match_questions(listed, asked, source=questions)
        chosen = choose(listed, [p.prompt_id for p in listed], limit, seed)
        files = {"annotations": annotations, "prompt_list": prompts, "questions_file": questions}
        return cls(
            listed=tuple(_prompt(name, p, matched.get(p.prompt_id, ()), n_images) for p in chosen),
            source={
                **{
                    key: None if path is None else {"file": path.name, "sha256": file_hash(path)[:16]}
                    for key, path in files.items()
                },
                "split": split,
                "caption": caption,
                "limit": limit,
                "n_images": n_images,
            },
            vqascore=vqascore,
        )

    @classmethod
    def for_own_images(cls, found: OwnImages, judges: Mapping[str, str], reference: Path | None) -> Possible | None:
        """Images with prompts, and at least one judge of whether they show them.

        Args:
            found: the images.
            judges: names of judges that the user named, by role.
            reference: not used here.
        """
        from verism.own_images import Possible

        del reference
        named = {role: judges[role] for role in ("clip", "vqa", "captioner") if role in judges}
        if not found.with_prompt:
            why = "whether images show their prompts; needs prompts: a table with the columns path and prompt"
            return Possible(suite=cls.info.name, options=None, why=why)
        if not named:
            why = "whether images show their prompts; needs a judge: --clip ViT-B/32, --vqa ID or --captioner ID"
            return Possible(suite=cls.info.name, options=None, why=why)
        return Possible(suite=cls.info.name, options=named, why="whether the images show their prompts")

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run; its prompts hold references and questions."""
        source = {key: settings[key] for key in SOURCE_KEYS if key in settings}
        return cls(listed=tuple(prompts), source=source, vqascore=bool(settings.get("vqascore", True)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Facts:
    """What the verdicts of an image rest on besides its own observations.

    Attributes:
        frequencies: of n-grams in the references of all images; None without captions.
        retrieved: how images are retrieved among the texts; None without vectors.
    """

    frequencies: DocumentFrequencies | None = None
    retrieved: Retrieved | None = None


class _Embedded:
    """The vectors of all images, as they come."""

    def __init__(self, folder: Path | None) -> None:
        """No vectors yet.

        Args:
            folder: for a file of them; None: they are held in memory.
        """
        self._path = None if folder is None else folder / "embeddings.f32"
        self._held: list[NDArray[np.float32]] = []
        self._rows: list[NDArray[np.intp]] = []
        self._first: dict[str, int] = {}
        self._n = 0
        self._texts: Texts | None = None

    def add(self, images: Sequence[ShownImage], block: Observed) -> None:
        """Take in the vectors of some images.

        Args:
            images: in the order of the prompts and their indices, behind all that came before.
            block: their observations.
        """
        tables = block.observations
        if self._texts is None:
            self._texts = Texts([p.text for p in block.prompts.values()], tables["text_embeddings"])
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        for number, image in enumerate(images):
            self._first.setdefault(image.prompt.prompt_id, self._n + number)
        self._n += len(images)
        self._rows.append(self._texts.rows(images))
        vectors = self._texts.image_vectors(images, tables["embeddings"])
        if self._path is None:
            self._held.append(vectors)
        else:
            with self._path.open("ab") as file:
                vectors.tofile(file)

    def retrieved(self, pool: int) -> Retrieved | None:
        """How they are retrieved; None without vectors.

        Args:
            pool: texts of a pool.
        """
        if self._texts is None or not self._n:
            return None
        vectors: NDArray[np.float32]
        if self._path is None:
            vectors = np.concatenate(self._held)
        else:
            vectors = np.memmap(self._path, np.float32, "r", shape=(self._n, self._texts.vectors.shape[1]))
        return Retrieved.of(self._texts, vectors, np.concatenate(self._rows), self._first, pool)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tally:
    """Numbers of some images, in the order of the prompts.

    Attributes:
        number: of the prompt of each image, see ``Listed``.
        captions: None where there are none; likewise the others.
        retrieval: of vectors.
        questions: of answers.
    """

    number: NDArray[np.intp]
    captions: CaptionTally | None
    retrieval: RetrievalTally | None
    questions: QuestionTally | None


SOURCE_KEYS = ("annotations", "prompt_list", "questions_file", "split", "caption", "limit", "n_images")


def _prompt(suite: str, listed: ListedPrompt, asked: Sequence[Asked], n_images: int) -> Prompt:
    spec: dict[str, Any] = {"references": list(listed.references)}
    if asked:
        spec["questions"] = [a.spec() for a in asked]
    return Prompt(
        prompt_id=listed.prompt_id,
        suite=suite,
        text=listed.text,
        facets=dict(listed.facets),
        spec=spec,
        n_images=listed.n_images or n_images,
    )
