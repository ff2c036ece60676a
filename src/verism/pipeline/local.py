"""The stages of a run on this machine.

Images stream through: a batch is made or found, decoded once, stored and shown to every judge, and its rows are
written before the next batch is done. Encoding, hashing and decoding happen on worker threads while the models work.
Whatever was finished before is not done again, so a killed run goes on where it stopped and ends in the same tables.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import Unfinished, UsageError, VerismError
from verism.imaging import encode_png, is_blank, pixel_count, read_image
from verism.limits import PENDING_PIXELS, RUN_IMAGES
from verism.locations import location
from verism.pipeline.regions import SEGMENTS, asks_for_regions, with_regions
from verism.pipeline.selections import Blocks, Either, pending_items
from verism.pipeline.shares import ALONE, Claim, Claims, Shares
from verism.pipeline.stream import (
    BATCH,
    Batch,
    ahead,
    ask,
    batches,
    check_rows,
    claimed_batches,
    failure,
    reload_image,
)
from verism.progress import Progress
from verism.records import (
    FAILED,
    TABLES,
    AnswerNeed,
    EmbeddingNeed,
    FeatureNeed,
    Generator,
    Judge,
    LoadedImage,
    Need,
    Prompt,
    Question,
    ReferenceSet,
    Request,
    Result,
    frame,
    make_image_id,
    schema,
)
from verism.store import TRUTH, IdSet, Run, write_shards

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ask_again",
    "compact_tables",
    "failed_answers",
    "forget_failures",
    "image_seed",
    "make_requests",
    "observe_images",
    "observe_texts",
    "run_images",
    "unfinished",
]

PART_SECONDS = 30.0  # a slow generator's part ends sooner, so that no more than this is lost
TEXTS = 1024  # texts per part


def image_seed(seed: int, image_id: str) -> int:
    """The generator's seed of one image: a hash of the run's seed and the image's id, 31 bits.

    It does not depend on which other images are asked for, so a larger run repeats the images of a smaller one.
    """
    digest = hashlib.blake2b(f"{seed}/{image_id}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def make_requests(prompts: Sequence[Prompt], seed: int, needs: Sequence[Need] = ()) -> Sequence[Request]:
    """Every image a run asks for, in order. Each request is made when it is asked for, and not held.

    A suite may pair the images of several prompts by their noise: prompts whose ``spec`` holds the same ``seed_key``
    get the same seeds, index by index. Or it may give the seeds themselves, as ``seeds``, one for each image.

    Args:
        prompts: the suite's prompts.
        seed: the run's seed.
        needs: what the suite asks of judges; the questions among it go with the requests.
    Raises:
        UsageError: more images than ``limits.RUN_IMAGES``.
    """
    count = sum(p.n_images for p in prompts)
    if count > RUN_IMAGES.value:
        raise UsageError(f"{len(prompts):,} prompts ask for {count:,} images; {RUN_IMAGES.hint()}")
    asked = [need.questions for need in needs if isinstance(need, AnswerNeed)]

    def request(number: int, index: int) -> Request:
        prompt = prompts[number]
        return Request(
            image_id=make_image_id(prompt.prompt_id, index),
            prompt=prompt,
            index=index,
            seed=_seed_of(prompt, index, seed),
            questions=tuple(q for each in asked for q in each.get(prompt.prompt_id, ())),
        )

    return Blocks([p.n_images for p in prompts], request)


def _seed_of(prompt: Prompt, index: int, seed: int) -> int:
    seeds = prompt.spec.get("seeds")
    if seeds is not None:
        return int(seeds[index])
    return image_seed(seed, make_image_id(str(prompt.spec.get("seed_key", prompt.prompt_id)), index))


@dataclass(eq=False)
class _ReceivedImage:
    """An image on its way.

    Attributes:
        row: of the table, without a path where ``png`` is given.
        image: its pixels, if it has any to judge.
        truth: ground truth, by table.
        written: whether the run wrote its file.
        png: content of its file, which is to be put into a shard; None: it needs not.
        prompt: what was asked for, in words.
    """

    row: dict[str, Any]
    image: LoadedImage | None
    truth: Mapping[str, pl.DataFrame]
    written: bool
    png: bytes | None
    prompt: str


def run_images(
    run: Run,
    requests: Sequence[Request],
    generator: Generator,
    judges: Sequence[tuple[Judge, Need]],
    *,
    retry: bool = False,
    truth: Collection[str] | None = None,
    on_failure: Callable[[str], None] | None = None,
    shares: Shares = ALONE,
) -> None:
    """Make or find every image that is not there yet, and let the judges look at it.

    Args:
        run: the run that keeps images and observations.
        requests: images to make or find.
        generator: makes or finds the images.
        judges: each judge with what it is asked about the images.
        retry: whether images that are missing, failed or refused are asked for again, and judges what they failed to
            answer; other processes must not be at work then.
        truth: tables of ground truth that are kept; None for those of the judges' needs.
        on_failure: called with a line about every image that is not ok: first those of an earlier call, then as it
            happens.
        shares: which of the images this process does.
    """
    import polars as pl

    kept = {need.table for _, need in judges} if truth is None else set(truth)
    seen: set[str] = set()
    run.pass_images(seen)  # what is added from here on is added by others, too
    taken: dict[str, str | None] = {}
    if retry:
        forget_failures(run)
        for judge, need in judges:
            ask_again(run, requests, judge, need)
    have = run.ids("images")
    for judge, need in judges:
        # Rows of a batch cut off before its images' own rows: these images come anew, and may come otherwise.
        for table in _tables_of(need):
            if stale := run.unknown(table, judge.name, have):
                run.forget(table, stale, judge.name)
    if on_failure is not None:
        _tell_of_unusable(run, requests, on_failure)

    def there() -> Either:
        taken.update(run.images_since(seen))
        return Either(have, taken)

    def keep(
        batch: Batch, arrived: Sequence[_ReceivedImage], known: Mapping[str, pl.DataFrame], stored: Future[None]
    ) -> None:
        for table, rows in known.items():
            run.append(table, rows, TRUTH, images={a.row["image_id"]: a.row.get("sha256") for a in arrived})
        stored.result()
        # The images' own rows come last: an image is done once it is in this table.
        part = run.append("images", frame("images", [a.row for a in arrived]))
        if part is not None:
            seen.add(part.name)
        batch.keep()
        progress.advance(len(batch.futures))

    with (
        shares.claims("images", requests, key=lambda r: r.image_id, done=there) as claims,
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
        Progress("images", len(requests), done=_n_done(requests, have)) as progress,
    ):
        for batch in ahead(_claimed_parts(claims, there, generator, run, pool, progress)):
            taken |= run.images_since(seen)
            arrived = _first(run, [future.result() for future in batch.futures], taken)
            if on_failure is not None:
                for a in arrived:
                    if a.row["state"] != "ok":
                        on_failure(failure(a.row))
            stored = pool.submit(_store, run, arrived)  # while the judges work
            looked_at = [a.image for a in arrived if a.image is not None]
            known = {
                table: pl.concat([a.truth[table] for a in arrived if table in a.truth])
                for table in sorted({name for a in arrived for name in a.truth} & kept)
            }
            try:
                _ask_all(run, judges, looked_at, [a.truth for a in arrived])
            except UsageError:  # a service that is down: the images, and what it answered, are kept
                keep(batch, arrived, known, stored)
                raise
            keep(batch, arrived, known, stored)
    if shares.alone:
        run.compact("images")
    segmenter = next((judge.name for judge, need in judges if need.table == SEGMENTS), TRUTH)
    for judge, need in _in_order(judges):
        observe_images(run, requests, judge, need, segmenter=segmenter, shares=shares)
    if shares.alone:
        for table in {need.table for _, need in judges}:
            run.compact(table, TRUTH)


def _tell_of_unusable(run: Run, requests: Sequence[Request], on_failure: Callable[[str], None]) -> None:
    """Tell of the images that are wanted and cannot be used."""
    rows = run.unusable()
    if rows.is_empty():
        return
    of_run = IdSet(rows["image_id"])
    ids = (r.image_id for r in requests)
    wanted = {image_id for image_id in ids if image_id in of_run}
    for row in rows.iter_rows(named=True):
        if row["image_id"] in wanted:
            on_failure(failure(row))


def _n_done(requests: Sequence[Request], have: IdSet) -> int:
    return len(requests) - len(pending_items(requests, lambda r: r.image_id, have))


def forget_failures(run: Run) -> None:
    """Drop the rows of images that are missing, failed or refused, so that they are asked for again."""
    import polars as pl

    known = run.unusable()
    again = known.filter(pl.col("state").is_in(["missing", "failed", "refused"]))["image_id"].to_list()
    if again:
        run.forget("images", again)


def _tables_of(need: Need) -> list[str]:
    """The tables of a need that speak of images, its own last."""
    beside = [table for table in need.beside if TABLES[table][0].name == "image_id" and table != "reference_features"]
    return [*beside, need.table]


def _in_order(judges: Sequence[tuple[Judge, Need]]) -> list[tuple[Judge, Need]]:
    """Who looks at objects comes after who finds them."""
    return sorted(judges, key=lambda pair: asks_for_regions(pair[1]))


def _ask_all(
    run: Run,
    judges: Sequence[tuple[Judge, Need]],
    images: Sequence[LoadedImage],
    truth: Sequence[Mapping[str, pl.DataFrame]],
) -> None:
    """Show images to all judges, and the objects that the segmenter finds to those who look at objects.

    Args:
        run: keeps what they say.
        judges: each judge with what it is asked.
        images: the images.
        truth: ground truth of each by table; that of their objects counts where no segmenter is among the judges.
    """
    import polars as pl

    found: pl.DataFrame | None = None
    for judge, need in _in_order(judges):
        if asks_for_regions(need):
            if found is None and (objects := [tables[SEGMENTS] for tables in truth if SEGMENTS in tables]):
                found = pl.concat(objects)
            rows = ask(run, judge, need, with_regions(images, found))
        else:
            rows = ask(run, judge, need, images)
        if need.table == SEGMENTS:
            found = rows


def _store(run: Run, arrived: Sequence[_ReceivedImage]) -> None:
    """Put those images of a batch into a shard that have no file of their own, and say in their rows where they are."""
    packed = [(a, a.png) for a in arrived if a.png is not None]
    texts = {a.row["prompt_id"]: a.prompt for a in arrived}
    paths = write_shards(run, [(a.row, png) for a, png in packed], texts)
    for (a, _), path in zip(packed, paths, strict=True):
        a.row["path"] = path
        a.png = None


def _first(run: Run, arrived: Sequence[_ReceivedImage], taken: Mapping[str, str | None]) -> list[_ReceivedImage]:
    """Images that no other process kept meanwhile: the first one counts, and nobody looks at another.

    Two processes that keep an image in the same moment both write a row; readers choose one of them, and observations
    name the image they are of.
    """
    for a in arrived:
        image_id, own = a.row["image_id"], a.row.get("sha256")
        if image_id in taken and own is not None and a.written and taken[image_id] != own:
            run.image_path(image_id, own).unlink(missing_ok=True)
    return [a for a in arrived if a.row["image_id"] not in taken]


def observe_images(
    run: Run,
    requests: Sequence[Request],
    judge: Judge,
    need: Need,
    *,
    segmenter: str = TRUTH,
    shares: Shares = ALONE,
    after: str = "",
) -> None:
    """Let a judge look at the run's images it has not seen yet, without asking for any image again.

    Args:
        run: the run that keeps images and observations.
        requests: images of the run that are wanted.
        judge: who looks at them.
        need: what it is asked.
        segmenter: name of the judge whose objects it is shown, where the need asks about objects.
        shares: which of the images this process shows to it.
        after: the stage in which other processes make the images meanwhile; empty: they are there.
    """
    import polars as pl

    rows = _ImageRows(run)
    regions = asks_for_regions(need)
    if regions and after and segmenter != TRUTH:
        after = _stage(SEGMENTS, segmenter)  # an image is shown with its objects, once they are found

    def observed() -> IdSet:
        return run.ids(need.table, judge.name) | rows.unusable()

    with shares.claims(
        _stage(need.table, judge.name), requests, key=lambda r: r.image_id, done=observed, after=after
    ) as claims:
        first = next(claims, None)
        if first is not None:
            with (
                ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
                Progress("looked at", len(requests), done=len(requests) - len(first.items)) as progress,
            ):
                found = run.read(SEGMENTS, segmenter) if regions and not after else None
                for batch in ahead(claimed_batches(chain([first], claims), rows.of, run, pool)):
                    shown = [future.result() for future in batch.futures]
                    if regions:
                        ids = [image.image_id for image in shown]
                        if found is None:
                            of_batch = run.read_few(SEGMENTS, segmenter, ids)
                        else:
                            of_batch = found.filter(pl.col("image_id").is_in(ids))
                        shown = with_regions(shown, of_batch, segmenter="" if segmenter == TRUTH else segmenter)
                    ask(run, judge, need, shown)
                    batch.keep()
                    progress.advance(len(batch.futures))
    if shares.alone:
        for table in _tables_of(need):
            run.compact(table, judge.name)
    if isinstance(need, EmbeddingNeed):
        observe_texts(run, need.texts, judge, shares=shares)


def ask_again(run: Run, requests: Sequence[Request], judge: Judge, need: Need) -> int:
    """Ask a judge anew what it failed to answer, and nothing else; other processes must not be at work then.

    Args:
        run: the run that keeps images and observations.
        requests: images of the run that are wanted.
        judge: who looks at them.
        need: what it is asked.

    Returns:
        How many questions (or images, of needs without questions) were asked again.

    Raises:
        UsageError: the judge could not go on; what it answered until then is kept.
    """
    again: dict[str, set[str]] = {}
    for image_id, *question in failed_answers(run, judge.name, need).iter_rows():
        again.setdefault(image_id, set()).update(question)
    images = _ImageRows(run)
    count = 0
    for batch in batches([r for r in requests if r.image_id in again], BATCH):
        shown = [reload_image(run, row) for row in images.of(batch)]
        count += sum(len(again[image.image_id]) or 1 for image in shown)
        for group, narrowed in _narrowed(shown, need, again):
            _answer_again(run, judge, narrowed, group)
    return count


def failed_answers(run: Run, judge: str, need: Need) -> pl.DataFrame:
    """What a judge was asked and failed to answer: ids of images, and questions where the need has some.

    Args:
        run: the run that keeps its observations.
        judge: its full name.
        need: what it was asked.
    """
    import polars as pl

    columns = ["image_id", *(["question"] if isinstance(need, AnswerNeed) else [])]
    rows = run.scan(need.table, judge)
    if "note" not in schema(need.table):
        return rows.select(columns).limit(0).collect()
    return rows.filter(pl.col("note").str.starts_with(FAILED)).select(columns).unique().collect()


def _narrowed(
    images: Sequence[LoadedImage], need: Need, again: Mapping[str, Collection[str]]
) -> Iterator[tuple[list[LoadedImage], Need]]:
    """Images with a need that asks of each only what is asked again: questions are by prompt, failures by image."""
    if not isinstance(need, AnswerNeed):
        yield list(images), need
        return
    groups: list[tuple[list[LoadedImage], dict[str, tuple[Question, ...]]]] = []
    for image in images:
        wanted = tuple(q for q in need.questions.get(image.prompt_id, ()) if q.text in again[image.image_id])
        for group, questions in groups:
            if questions.setdefault(image.prompt_id, wanted) == wanted:
                group.append(image)
                break
        else:
            groups.append(([image], {image.prompt_id: wanted}))
    for group, questions in groups:
        yield group, replace(need, questions=questions)


def _answer_again(run: Run, judge: Judge, need: Need, images: Sequence[LoadedImage]) -> None:
    """Ask a judge about images, and put its rows in the place of those that failed."""
    import polars as pl

    reason = ""  # not the error, which would keep the images by its traceback
    try:
        observed = judge.observe(images, need)
        rows = observed[need.table] if isinstance(observed, Mapping) else observed
    except Unfinished as err:
        rows, reason = err.rows, str(err)
    done = [image for image in images if image.image_id in set(rows["image_id"].to_list())]
    check_rows(rows, judge.name, need, [image.image_id for image in done])
    if done:
        ids = [image.image_id for image in done]
        failed = pl.col("note").str.starts_with(FAILED).fill_null(value=False)
        old = run.read(need.table, judge.name, keys=ids)
        rows = pl.concat([old.filter(~failed), rows])
        if isinstance(need, AnswerNeed):  # in the order of the questions, as if none had failed
            position = {key: n for n, key in enumerate(old.select("image_id", "question").iter_rows())}
            order = pl.Series([position[key] for key in rows.select("image_id", "question").iter_rows()])
            rows = rows[order.arg_sort()]
        run.forget(need.table, ids, judge.name)
        run.append(need.table, rows, judge.name, images={image.image_id: image.sha256 for image in done})
    if reason:
        raise UsageError(reason)


def _stage(table: str, judge: str) -> str:
    """Name of the stage in which a judge looks at the images."""
    return f"{table}/{judge}"


class _ImageRows:
    """Rows of the images of a run, to which others may add; read when the first are asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.seen: set[str] = set()
        self.rows: pl.DataFrame | None = None

    def unusable(self) -> IdSet:
        """Images there is nothing to see of."""
        return IdSet(self.run.unusable()["image_id"])

    def of(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        """The rows of those images that can be looked at."""
        import polars as pl

        if self.rows is None:
            self.rows = self.run.read("images")
        ids = [r.image_id for r in requests]
        chosen = self.rows.filter(pl.col("image_id").is_in(ids))
        if chosen.height < len(ids):
            added = self.run.image_rows_since(self.seen)
            self.rows = pl.concat([self.rows, added]).unique("image_id", keep="first", maintain_order=True)
            chosen = self.rows.filter(pl.col("image_id").is_in(ids))
        return chosen.filter(pl.col("state") == "ok").rows(named=True)


def observe_texts(run: Run, texts: Sequence[str], judge: Any, *, shares: Shares = ALONE) -> None:
    """Let a judge embed the texts it has not embedded yet.

    Args:
        run: the run that keeps their vectors.
        texts: what to embed.
        judge: who does.
        shares: which of the texts this process has embedded.
    """
    distinct = list(dict.fromkeys(texts))
    with shares.claims(
        f"text_embeddings/{judge.name}", distinct, key=str, done=lambda: run.keys("text_embeddings", judge.name)
    ) as claims:
        first = next(claims, None)
        if first is not None:
            with Progress("texts", len(distinct), done=len(distinct) - len(first.items)) as progress:
                for claim in chain([first], claims):
                    for batch in batches([] if claim is None else claim.items, TEXTS):
                        rows = judge.embed_texts(batch)
                        if set(rows["text"].to_list()) != set(batch):
                            raise VerismError(
                                f"judge {judge.name} did not embed the texts it was given; every text needs a row"
                            )
                        run.append("text_embeddings", rows, judge.name)
                        assert claim is not None
                        claim.advance(len(batch))
                        progress.advance(len(batch))
    if shares.alone:
        run.compact("text_embeddings", judge.name)


def compact_tables(run: Run, judges: Sequence[tuple[str, Need]]) -> None:
    """Put together the parts of all tables that several processes wrote.

    Args:
        run: the run.
        judges: full name of each judge, with what it was asked.
    """
    for table in ("images", "reference"):
        run.compact(table)
    for name, need in judges:
        for table in (need.table, *need.beside):
            run.compact(table, name)
        run.compact(need.table, TRUTH)


def unfinished(
    run: Run, requests: Sequence[Request], judges: Sequence[tuple[str, Need]], reference: ReferenceSet | None = None
) -> dict[str, int]:
    """How many images and observations of a run are not there yet, by what they are; empty when it can be scored.

    Args:
        run: the run.
        requests: all its images.
        judges: full name of each judge, with what it is asked.
        reference: the real images it compares with, if any.
    """
    images = run.ids("images")
    usable = images - IdSet(run.unusable()["image_id"])
    gaps = {"images": len(requests) - _n_done(requests, images)}
    for name, need in judges:
        gaps[f"observations by {name}"] = len(usable - run.ids(need.table, name))
        if isinstance(need, EmbeddingNeed):
            gaps[f"texts by {name}"] = len(set(need.texts) - run.keys("text_embeddings", name))
    if reference is not None:
        real = run.read("reference").select("image_id", "state", "path").rows()
        gaps["real images"] = len({image.image_id for image in reference.images} - {row[0] for row in real})
        shown = {image_id for image_id, state, path in real if state == "ok" and path is not None}
        for name, need in judges:
            if isinstance(need, FeatureNeed) and reference.features is None:
                gaps[f"real images by {name}"] = len(shown - run.keys("reference_features", name))
    return {what: count for what, count in gaps.items() if count}


class _WrongAnswerError(VerismError):
    """A generator answered what it was not asked, or no image."""


def _claimed_parts(
    claims: Claims[Request],
    there: Callable[[], Container[str]],
    generator: Generator,
    run: Run,
    pool: ThreadPoolExecutor,
    progress: Progress,
) -> Iterator[Batch]:
    """The generator's answers to what this process claims, in parts."""
    for claim in claims:
        if claim is None:
            yield Batch.flush()
            continue
        known = there()  # also what an earlier owner of the claim kept
        left = pending_items(claim.items, lambda r: r.image_id, known)
        claim.advance(len(claim.items) - len(left))
        yield from _parts(left, generator, run, pool, claim, progress)


def _parts(
    requests: Sequence[Request],
    generator: Generator,
    run: Run,
    pool: ThreadPoolExecutor,
    claim: Claim[Request],
    progress: Progress,
) -> Iterator[Batch]:
    """The generator's answers in parts of ``BATCH``, or of what it made in ``PART_SECONDS`` if it is slow.

    Storing and decoding go on behind while it works on the next image. If it gives up, what it made is kept first.
    """
    if not requests:
        return
    part = Batch([], made=False, claim=claim)
    answered = pixels = 0
    began = time.monotonic()
    try:
        for result in generator.generate(requests):
            if answered == len(requests):
                raise _WrongAnswerError(
                    f"{generator.name} answered {result.image_id!r} after all {len(requests)} requests"
                )
            request = requests[answered]
            if result.image_id != request.image_id:
                raise _WrongAnswerError(
                    f"{generator.name} answered {result.image_id!r} when asked for {request.image_id!r}"
                )
            _check_result(generator, result)
            part.made = part.made or result.pixels is not None
            part.futures.append(pool.submit(_take_in, request, result, run))
            progress.arrive()
            answered += 1
            pixels += _pixels(result)
            full = len(part.futures) >= BATCH or pixels >= PENDING_PIXELS.value
            if full or (part.made and time.monotonic() - began > PART_SECONDS):
                yield part
                part = Batch([], made=False, claim=claim)
                pixels = 0
                began = time.monotonic()
    except _WrongAnswerError:
        raise  # whose image is whose can no longer be trusted
    except (Exception, KeyboardInterrupt):
        if part.futures:
            part.made = True  # to be stored now, and not ahead of what never comes
            yield part
        raise
    if answered < len(requests):
        raise _WrongAnswerError(f"{generator.name} gave no answer for {requests[answered].image_id!r}")
    if part.futures:
        yield part


def _check_result(generator: Generator, result: Result) -> None:
    """Refuse what would end as a wrong image: a state without one, or numbers that are no 8-bit RGB."""
    if result.state == "ok" and (result.pixels is None) == (result.path is None):
        raise _WrongAnswerError(f"{generator.name}: {result.image_id!r} is ok, so it needs either pixels or a path")
    if result.pixels is not None:
        shape, dtype = np.shape(result.pixels), np.asarray(result.pixels).dtype
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or dtype != np.uint8:
            raise _WrongAnswerError(
                f"{generator.name}: the pixels of {result.image_id!r} have shape {shape} and type {dtype}; "
                "expected RGB, (H, W, 3), uint8"
            )


def _pixels(result: Result) -> int:
    """Pixels of a generator's answer, decoded."""
    if result.pixels is not None:
        return int(np.shape(result.pixels)[0] * np.shape(result.pixels)[1])
    return 0 if result.path is None else pixel_count(location(result.path))


def _take_in(request: Request, result: Result, run: Run) -> _ReceivedImage:
    row: dict[str, Any] = {
        "image_id": request.image_id,
        "prompt_id": request.prompt.prompt_id,
        "index": request.index,
        "seed": None,
        "state": result.state,
        "note": result.note,
    }
    pixels, png, in_shard = None, None, False
    if result.path is not None:
        decoded = read_image(location(result.path))
        pixels = decoded.pixels
        note = "; ".join(n for n in (result.note, decoded.note) if n)
        state = decoded.state if result.state == "ok" else result.state
        row |= {"state": state, "path": result.path, "sha256": decoded.sha256, "note": note}
    elif result.pixels is not None:
        pixels = np.asarray(result.pixels)
        png = encode_png(pixels)
        in_shard = run.manifest.images_as == "shards"
        row |= {
            "path": None if in_shard else run.write_image(request.image_id, png),
            "sha256": hashlib.sha256(png).hexdigest(),
            "seed": request.seed if result.seeded else None,
        }
        if result.state == "ok" and is_blank(pixels):
            flat = "one flat colour, rgb({}, {}, {})".format(*pixels[0, 0].tolist())
            row |= {"state": "blank", "note": "; ".join(n for n in (result.note, flat) if n)}
    image = None
    if pixels is not None:
        row |= {"width": pixels.shape[1], "height": pixels.shape[0]}
        if row["state"] == "ok":
            image = LoadedImage(
                image_id=request.image_id,
                prompt_id=request.prompt.prompt_id,
                pixels=pixels,
                sha256=row["sha256"],
            )
    return _ReceivedImage(
        row,
        image,
        result.truth,
        written=result.path is None and row.get("path") is not None,
        png=png if in_shard else None,
        prompt=request.prompt.text,
    )
