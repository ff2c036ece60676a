"""Text rendering as a suite: prompt sets, what has to be read, rules, scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from verism.errors import UsageError
from verism.records import EmbeddingNeed, Estimand, Need, Observed, OcrNeed, Prompt, Score, UserImage, vectors_of
from verism.suites.base import (
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    JudgeBench,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Row,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.prompt_lists import choose
from verism.suites.right_or_wrong import right_or_wrong_estimands
from verism.suites.text_rendering.demo import DEMOS
from verism.suites.text_rendering.layout import GRID, released_images
from verism.suites.text_rendering.metrics import METRICS
from verism.suites.text_rendering.own_prompts import draw_own_prompts, scene_of
from verism.suites.text_rendering.prompt_sets import NOTHING_READ, SETS, AskedText, PromptSet, read_set
from verism.suites.text_rendering.released import cvtg_match, cvtg_targets, longtext_match, oneig_match
from verism.suites.text_rendering.rules import RuleSet, TextMatch, match_texts
from verism.suites.text_rendering.scoring import engine_errors, text_scores
from verism.suites.verdict_table import ShownImage, VerdictRows, in_order_of, shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["TextRendering"]

OWN = "own"
PARTS = ("text_similarity", "word_accuracy")
CLIP_PREFIX = "A photo depicts "  # of CVTG-2K's CLIPScore
LONGEST_SHOWN = 160  # characters of a text in a reason


@dataclass(frozen=True, kw_only=True, eq=False)
class TextRendering(Suite):
    """Prompts that ask for texts, from a published set or from ours.

    Attributes:
        asked: the prompts, in order.
        chosen: name of the set.
        n_images: images per prompt.
        altered: what distinguishes the prompts from the released ones; empty: nothing.
        found: images in the released layout; None for others.
        info: name, title, question, protocols and limits, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        in_blocks: large runs are scored block by block, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        benches: how judges are held against rendered images, see ``JudgeBench``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        metrics: every metric that its scores may have.
        judged_by: by what else than their words prompts are judged, see ``Suite``.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    asked: tuple[AskedText, ...]
    chosen: str = OWN
    n_images: int = 1
    altered: str = ""
    found: tuple[UserImage, ...] | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="text_rendering",
        title="Text rendering",
        question="Do the images show the requested text, letter by letter?",
        summary="text in images, read by OCR: verism's own prompts, LongText-Bench, CVTG-2K, OneIG's text part",
        protocols={
            "revised": "Order counts within each text, additional text is an error, a word requested twice must be "
            "read twice, and missing images are counted. Use it to compare models.",
            "released": "The arithmetic of the prompts' benchmark: bags of words, additions ignored, missing images "
            "excluded. Use it, with the published OCR engine, to compare with published numbers.",
        },
        limits=(
            "Every number holds the errors of the OCR engine: an engine that guesses words mends what a model "
            "misspelt, and one that cannot read a font or a tilt calls right letters wrong. Runs of two engines are "
            "not comparable.",
            "Whether a text is where it should be, or looks well, is not asked.",
            "Our own prompts are rendered texts on plain surfaces. What an engine reads there says little about "
            "photographs.",
        ),
        citation="LongText-Bench (arXiv:2507.22058), CVTG-2K (arXiv:2503.23461), OneIG (arXiv:2506.07977)",
    )
    published: ClassVar[Mapping[str, str]] = {
        "cvtg": "verism.suites.text_rendering.published:cvtg",
        "longtext": "verism.suites.text_rendering.published:longtext",
    }
    in_blocks: ClassVar[bool] = True
    judge_roles: ClassVar[tuple[str, ...]] = ("ocr", "clip")
    benches: ClassVar[tuple[JudgeBench, ...]] = (
        JudgeBench(
            roles=("ocr",),
            model="scripted:paired=true&pair_seed={seed}",
            options={"n_images": 2},
            images_per_prompt=2,
            paired=True,
            by=("script", "length", "render_size", "render_tilt", "render_font", "render_quality"),
        ),
    )
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "prompt_set",
            str,
            choices=(OWN, *SETS),
            flag="--set",
            help="Prompt set: verism's own, or a published one.",
            default=OWN,
        ),
        Option("prompts_file", Path, flag="--prompts", help="Your copy of a published set: a file, or a folder."),
        Option("altered", bool, help="Accept prompts other than the released ones.", default="false"),
        Option(
            "languages",
            str,
            many=True,
            flag="--language",
            help="Use only prompts with texts in this language; repeatable.",
        ),
        Option(
            "grid", int, low=1, high=8, help="Rows and columns of OneIG's grids; 1: single images.", default=str(GRID)
        ),
        Option("images", Path, help="Images, in the benchmark's layout or any list."),
        replace(LIMIT, help="Number of prompts, spread over the languages, or the groups of the set."),
        replace(SEED, help="Seed of prompt sampling (--limit) and images."),
        replace(N_IMAGES, default="as released: 4, CVTG-2K and ours 1"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "case",
            str,
            "ignore",
            choices=("ignore", "exact"),
            protocol="revised",
            help="Treatment of upper and lower case.",
        ),
        Rule(
            "punctuation",
            str,
            "ignore",
            choices=("ignore", "exact"),
            protocol="revised",
            help="Treatment of punctuation marks.",
        ),
        Rule(
            "text_order",
            str,
            "regions",
            choices=("regions", "reading"),
            protocol="revised",
            help="Word order. regions: counts within each text; reading: the order of the texts counts as well.",
        ),
        Rule(
            "repeats",
            str,
            "count",
            choices=("count", "once"),
            protocol="revised",
            help="Repeated words (words right). once: a word that is read once counts for every time it is asked for.",
        ),
        Rule(
            "surplus",
            str,
            "count",
            choices=("count", "free"),
            protocol="revised",
            help="Surplus text (CER, WER, text right): counted as an error, or free.",
        ),
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    judged_by: ClassVar[Mapping[str, str]] = MappingProxyType({"texts": OcrNeed.role})
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="text", metric="exact_text", facet="language", mean="exact_text_mean", right_or_wrong=True),
        Pairing(rule="text_similarity", metric="text_similarity", facet="language"),
        Pairing(rule="word_accuracy", metric="image_word_accuracy", facet="language"),
    )
    layout: ClassVar[Layout] = Layout(
        kind="rows",
        rows=(
            Row("longtext_score"),
            Row("cvtg_word_accuracy"),
            Row("cvtg_ned"),
            Row("clipscore"),
            Row("oneig_score"),
            Row("oneig_ed"),
            Row("oneig_cr"),
            Row("oneig_wac"),
            Row("exact_text"),
            Row("text_similarity"),
            Row("word_accuracy"),
            Row("word_accuracy_if_unusable_wrong"),
            Row("cer"),
            Row("wer"),
            Row("missing_words"),
            Row("surplus_words"),
            Row("repeated_words"),
            Row("cvtg_word_accuracy", ("regions",)),
            Row("exact_text", ("script",)),
            Row("cer", ("script",)),
            Row("true_cer"),
            Row("ocr_cer"),
            Row("ocr_wer"),
            Row("ocr_blind"),
            Row("ocr_cer", ("script",)),
        ),
        names={
            "regions": "number of texts",
            "render_size": "letters",
            "render_tilt": "tilt",
            "render_font": "font",
            "render_quality": "sharpness",
        },
    )

    @classmethod
    def build(
        cls,
        *,
        prompt_set: str = OWN,
        prompts_file: Path | None = None,
        altered: bool = False,
        languages: Sequence[str] = (),
        grid: int = GRID,
        images: Path | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite with these prompts.

        Args:
            prompt_set: ``own``, or the name of a published set.
            prompts_file: the user's copy of a published set.
            altered: whether prompts other than the released ones are meant.
            languages: only prompts with texts in these; empty: all.
            grid: rows and columns of OneIG's grids.
            images: images that exist; of a published set a folder is taken to be laid out as its images are.
            limit: prompts in all, drawn evenly; None for all.
            seed: of which prompts a limit keeps.
            n_images: images per prompt; None: as released.

        Raises:
            UsageError: no copy of a published set, or one that is not the released one; an unknown language; a folder
                whose files contradict each other.
        """
        if prompt_set == OWN:
            if prompts_file is not None:
                raise UsageError(f"--prompts is a copy of a published set: name it, --set {', '.join(SETS)}")
            every, problem = draw_own_prompts(), ""
        else:
            every, problem = read_set(prompt_set, prompts_file, altered=altered)
        known = list(dict.fromkeys(each.language for each in every))
        if foreign := [language for language in languages if language not in known]:
            raise UsageError(f"no prompts of the language {foreign[0]!r}; there are {', '.join(known)}")
        kept = [each for each in every if not languages or each.language in languages]
        asked = tuple(_limited(kept, limit, seed))
        of_set = SETS.get(prompt_set)
        found: tuple[UserImage, ...] | None = None
        if images is not None and of_set is not None and images.is_dir():
            found = tuple(released_images(of_set.benchmark, images, asked, grid=grid))
            if n_images is None:
                n_images = max((image.index + 1 for image in found), default=of_set.n_images)
        return cls(
            asked=asked,
            chosen=prompt_set,
            n_images=n_images or (1 if of_set is None else of_set.n_images),
            altered=problem,
            found=found,
        )

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored; they hold all it needs to know."""
        asked = tuple(
            AskedText(
                prompt_id=p.prompt_id,
                prompt=p.text,
                texts=tuple(p.spec["texts"]),
                language=p.spec["language"],
                facets={name: value for name, value in p.facets.items() if name not in ("set", "language")},
            )
            for p in prompts
        )
        return cls(
            asked=asked,
            chosen=str(settings.get("prompt_set") or OWN),
            n_images=max((p.n_images for p in prompts), default=1),
            altered=str(settings.get("altered") or ""),
        )

    def settings(self) -> Mapping[str, Any]:
        """What decides the prompts; where files lie does not."""
        kept = {
            name: value for name, value in self.made_with.items() if name in ("limit", "seed", "n_images", "languages")
        }
        return {**kept, "prompt_set": self.chosen, "altered": self.altered}

    @property
    def released_set(self) -> PromptSet | None:
        """The published set that was asked; None for our own prompts."""
        return SETS.get(self.chosen)

    @property
    def user_images(self) -> Sequence[UserImage] | None:  # type: ignore[override]
        """Images in the released layout; None for others, which are matched by their names."""
        return self.found

    def prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(
                prompt_id=each.prompt_id,
                suite=self.name,
                text=each.prompt,
                facets={"set": self.chosen, "language": each.language, **each.facets},
                spec={"texts": list(each.texts), "language": each.language},
                n_images=self.n_images,
                scene=scene_of(each),
            )
            for each in self.asked
        ]

    def needs(self) -> Sequence[Need]:
        """What stands in each image; and, for CVTG-2K's CLIPScore, vectors of images and prompts."""
        of_set = self.released_set
        languages = {each.prompt_id: each.language for each in self.asked}
        ocr = OcrNeed(languages=languages, instruction="" if of_set is None else of_set.instruction)
        if of_set is None or of_set.benchmark != "cvtg":
            return (ocr,)
        texts = tuple(dict.fromkeys(CLIP_PREFIX + each.prompt for each in self.asked))
        return (ocr, EmbeddingNeed(texts=texts, optional=True))

    # ------------------------------------------------------------------------------------------------------ verdicts
    def rule_set(self) -> RuleSet:
        """Our rules with the values that hold."""
        return RuleSet(
            case=self.rule("case") == "exact",
            punctuation=self.rule("punctuation") == "exact",
            order=self.rule("text_order"),
            repeats=self.rule("repeats") == "count",
            surplus=self.rule("surplus") == "count",
        )

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What of each text was read, by our rules and by the released arithmetic; table ``verdicts``."""
        readings = _readings(observed)
        heights = _letter_heights(observed)
        rules, rows = self.rule_set(), VerdictRows()
        images = shown_images(observed, judged=set(readings))
        for image in images:
            text, note = readings.get(image.image_id, (None, None))
            problem = image.problem or (None if text is not None else f"not read: {note or 'no answer'}")
            self._add_ours(rows, image, problem, text or "", rules, heights.get(image.image_id))
        if (of_set := self.released_set) is not None:
            for of_prompt in self._released_readings(images, observed):
                _add_released(rows, of_prompt, of_set)
            _add_clipscore(rows, images, observed)
        return rows.table()

    @staticmethod
    def _add_ours(
        rows: VerdictRows, image: ShownImage, problem: str | None, text: str, rules: RuleSet, height: float | None
    ) -> None:
        texts = image.prompt.spec["texts"]
        if problem is not None:
            nothing = match_texts(texts, "", rules)
            detail = {"words": nothing.bag.length, "characters": nothing.characters.length}
            rows.add(image, "revised", "text", None, problem, detail)
            for part in PARTS:
                rows.add(image, "revised", part, None, problem)
            return
        match = match_texts(texts, "" if _is_nothing(text) else text, rules)
        rows.add(image, "revised", "text", float(match.right), _reason(match), {**_detail(match), "height": height})
        rate = match.characters.distance / match.characters.length if match.characters.length else None
        similarity = None if rate is None else max(0.0, 1 - rate)
        share = match.bag.matched / match.bag.length if match.bag.length else None
        shown = "no characters to compare" if rate is None else f"CER {rate:.3f}"
        rows.add(image, "revised", "text_similarity", similarity, shown)
        words = f"{match.bag.matched} of {match.bag.length} words read"
        rows.add(image, "revised", "word_accuracy", share, words)

    def _released_readings(self, images: Sequence[ShownImage], observed: Observed) -> Iterator[_Readings]:
        """What counts as read in the images of each prompt, in the order of the prompts.

        Whether an engine failed or read nothing is the same to the released code: no words. OneIG takes the readings of
        the prompt before where all cells of a grid are black.
        """
        readings = _readings(observed)
        states = dict(observed.images.select("image_id", "state").iter_rows())
        of_prompt: dict[str, list[ShownImage]] = {}
        for image in images:
            of_prompt.setdefault(image.prompt.prompt_id, []).append(image)
        before: tuple[str, ...] = observed.carried or ()
        for several in of_prompt.values():
            black = self._takes_readings_again and all(states[image.image_id] == "blank" for image in several)
            texts: list[str | None] = []
            n_again = 0
            for number, image in enumerate(several):
                if black and number < len(before):
                    n_again += 1
                    texts.append(before[number])
                else:
                    texts.append(None if image.problem is not None else readings[image.image_id][0] or "")
            yield _Readings(several, texts, n_again)
            before = tuple(text for text in texts if text is not None) or before

    @property
    def _takes_readings_again(self) -> bool:
        """Whether black images take the readings of the prompt before."""
        return self.released_set is not None and self.released_set.benchmark == "oneig"

    # -------------------------------------------------------------------------------------------------------- scores
    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite."""
        of_set = self.released_set
        benchmark, language = ("", "en") if of_set is None else (of_set.benchmark, of_set.language)
        return text_scores(self.name, observed, verdicts, benchmark=benchmark, language=language)

    def block_key(self) -> Callable[[pl.Series], pl.Series] | None:
        """Of OneIG's prompts, their places: black images take the readings of the prompt before."""
        if not self._takes_readings_again:
            return None
        return in_order_of([each.prompt_id for each in self.asked])

    def carry(self, observed: Observed) -> Any:
        """Of OneIG's prompts, what was read in the images of the last one in which anything was."""
        if not self._takes_readings_again:
            return None
        images = shown_images(observed, judged=set(_readings(observed)))
        read: tuple[str, ...] = observed.carried or ()
        for of_prompt in self._released_readings(images, observed):
            read = tuple(text for text in of_prompt.texts if text is not None) or read
        return read

    def judge_errors(self, observed: Observed, verdicts: pl.DataFrame, true_verdicts: pl.DataFrame) -> Sequence[Score]:
        """How far the OCR engine is off, in verdicts and in characters, by script, size, tilt, font and sharpness."""
        of_verdicts = super().judge_errors(observed, verdicts, true_verdicts)
        return [*of_verdicts, *engine_errors(self.name, observed, verdicts, true_verdicts)]

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """Shares of images whose text is right. Error rates are no shares of classes, and no card corrects them."""
        scores = self.scores(observed, verdicts)
        return right_or_wrong_estimands(scores, observed.prompts, verdicts, self.pairings[0], OcrNeed.role)

    def remarks(self, observed: Observed) -> Sequence[str]:
        """What keeps the numbers from being compared with published ones."""
        lines = [f"the prompts are not the released ones: {self.altered}"] if self.altered else []
        of_set = self.released_set
        judge = next(iter(_table(observed)["judge"].to_list()), "")
        if of_set is not None and judge and of_set.judge not in judge.lower():
            lines.append(
                f"published numbers of {of_set.title} were read by {_JUDGES[of_set.judge]}, these by {judge}: released "
                "scores are not comparable with them"
            )
        return lines

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.text_rendering.report import text_sections

        return text_sections(evidence)


class _Readings(NamedTuple):
    """What counts as read in the images of a prompt under the released arithmetic.

    Attributes:
        images: of the prompt, by index.
        texts: what was read in each; None where that is not known.
        n_again: how many of the first are those of the prompt before.
    """

    images: Sequence[ShownImage]
    texts: Sequence[str | None]
    n_again: int


_JUDGES = {"qwen2.5-vl-7b": "Qwen2.5-VL-7B-Instruct", "paddleocr-2.10": "PaddleOCR 2.10 (English)"}


def _table(observed: Observed) -> pl.DataFrame:
    if OcrNeed.table not in observed.observations:
        raise UsageError(f"text_rendering needs an OCR engine; this run has {sorted(observed.observations)}")
    return observed.observations[OcrNeed.table]


def _readings(observed: Observed) -> dict[str, tuple[str | None, str | None]]:
    """All text of each image, and why there is none."""
    import polars as pl

    of_images = _table(observed).filter(pl.col("level") == "image")
    return {image: (text, note) for image, text, note in of_images.select("image_id", "text", "note").iter_rows()}


def _letter_heights(observed: Observed) -> dict[str, float]:
    """Median height of the words of each image in pixels, where the engine gives boxes of words."""
    import polars as pl

    of_words = _table(observed).filter((pl.col("level") == "word") & pl.col("y0").is_not_null())
    medians = of_words.group_by("image_id").agg((pl.col("y1") - pl.col("y0")).median().alias("height"))
    return {image: round(float(height), 1) for image, height in medians.iter_rows()}


def _is_nothing(text: str) -> bool:
    """Whether a reading is the reply that the released instruction asks for where there is no text."""
    return text.strip().strip(".'\"").lower() == NOTHING_READ.lower()


def _released_detail(of_set: PromptSet, prompt: Prompt, text: str) -> dict[str, Any]:
    if of_set.benchmark == "longtext":
        return longtext_match(prompt.spec["texts"], text, of_set.language)._asdict()
    if of_set.benchmark == "cvtg":
        return cvtg_match(cvtg_targets(prompt.text), text)._asdict()
    return oneig_match(" ".join(prompt.spec["texts"]), text)._asdict()


def _add_released(rows: VerdictRows, read: _Readings, of_set: PromptSet) -> None:
    for number, (image, text) in enumerate(zip(read.images, read.texts, strict=True)):
        if text is None:
            rows.add(image, "released", of_set.benchmark, None, image.problem or "not read")
            continue
        detail = _released_detail(of_set, image.prompt, text)
        value = detail["matched"] / detail["length"] if detail["length"] else 0.0
        reason = f"{detail['matched']} of {detail['length']} read"
        if number < read.n_again:
            reason = "all cells are black: the readings of the prompt before are taken again"
        rows.add(image, "released", of_set.benchmark, value, reason, detail)


def _add_clipscore(rows: VerdictRows, images: Sequence[ShownImage], observed: Observed) -> None:
    """Cosines of images and prompts as CVTG-2K scales them, where a CLIP model looked at them."""
    import numpy as np

    tables = observed.observations
    if "embeddings" not in tables or "text_embeddings" not in tables:
        return
    of_image = dict(zip(tables["embeddings"]["image_id"], _units(tables["embeddings"]), strict=True))
    of_text = dict(zip(tables["text_embeddings"]["text"], _units(tables["text_embeddings"]), strict=True))
    for image in images:
        vector, text = of_image.get(image.image_id), of_text.get(CLIP_PREFIX + image.prompt.text)
        if image.problem is not None or vector is None or text is None:
            rows.add(image, "released", "clipscore", None, image.problem or "no vector of the image or its prompt")
            continue
        cosine = float(np.dot(vector, text))
        rows.add(image, "released", "clipscore", 2.5 * max(cosine, 0.0), f"cosine {cosine:.4f}")


def _units(table: pl.DataFrame) -> Any:
    """Vectors of a table at length 1."""
    import numpy as np

    vectors = vectors_of(table["vector"]).astype(np.float64)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _detail(match: TextMatch) -> dict[str, Any]:
    return {
        "edits": match.characters.distance,
        "characters": match.characters.length,
        "word_edits": match.words.distance,
        "words": match.bag.length,
        "matched": match.bag.matched,
        "missing": match.bag.missing,
        "surplus": match.bag.surplus,
        "repeated": match.bag.repeated,
        "read": match.read,
    }


def _reason(match: TextMatch) -> str:
    if match.right:
        return f"read as asked: {_short(match.target)}"
    bag = match.bag
    counts = [(bag.missing, "missing"), (bag.surplus - bag.repeated, "surplus"), (bag.repeated, "repeated")]
    parts = [f"{n} {'word' if n == 1 else 'words'} {what}" for n, what in counts if n]
    wrong = ", ".join(parts) or "the words in another order or otherwise divided"
    return f"asked for {_short(match.target)!r}, read {_short(match.read)!r}: {wrong}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _limited(asked: Sequence[AskedText], limit: int | None, seed: int) -> list[AskedText]:
    """A limit dealt out evenly to the languages, or of one language to the groups of its set."""
    facet = "language" if len({each.language for each in asked}) > 1 else "group"
    groups: dict[str, list[AskedText]] = {}
    for each in asked:
        key = each.language if facet == "language" else str(each.facets.get("regions") or each.facets.get("category"))
        groups.setdefault(key, []).append(each)
    left = len(asked) if limit is None else limit
    kept: set[str] = set()
    ordered = sorted(groups.values(), key=len)
    for number, group in enumerate(ordered):
        share = min(len(group), -(-left // (len(ordered) - number)))
        left -= share
        if share:
            kept |= {each.prompt_id for each in choose(group, [each.prompt_id for each in group], share, seed)}
    return [each for each in asked if each.prompt_id in kept]
