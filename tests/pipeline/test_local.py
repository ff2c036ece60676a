"""A run on this machine: every image has a state, and killing it changes nothing but the time it takes."""

import signal
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import PixelJudge, found_in
from PIL import Image

from verism.errors import UsageError, VerismError
from verism.imaging import encode_png
from verism.manifest import RunSettings
from verism.pipeline import local
from verism.pipeline.local import image_seed, make_requests, observe_images, run_images
from verism.pipeline.scoring import score_run
from verism.records import Prompt, Request, Result, empty_table, make_image_id
from verism.store import TRUTH, Run
from verism.suites.paintskills.suite import PaintSkills

NOISE = np.random.default_rng(0).integers(0, 100, (20, 30, 3), dtype=np.uint8)


class Answers:
    """A generator that answers as it is told."""

    name = "answers@1"

    def __init__(self, answer: Callable[[Request], Result]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            self.asked.append(request.image_id)
            yield self.answer(request)


def ok(request: Request) -> Result:
    return Result(image_id=request.image_id, state="ok", pixels=NOISE)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(local, "BATCH", 4)


@pytest.fixture
def start(tmp_path, suite, prompts):
    def make(name: str = "run") -> Run:
        run = Run.start(tmp_path / name, RunSettings(suite=suite.name, seed=5))
        run.write_prompts(prompts)
        return run

    return make


def finish(run: Run, suite: PaintSkills, generator, judge=None, **options) -> Run:
    judge = judge or PixelJudge()
    needs = [(judge, need) for need in suite.needs()]
    run_images(run, make_requests(run.prompts(), 5), generator, needs, **options)
    score_run(run, suite, judges={"detector": judge.name} if judge.seen or run.judges("detections") else None)
    return run


def contents(run: Run) -> dict[str, bytes]:
    """Everything a reader of the run can see, and the images."""
    judges = [*run.judges("detections"), TRUTH]
    tables = {"images": run.read("images"), "verdicts": run.verdicts()}
    tables |= {f"detections/{j}": run.read("detections", j) for j in judges}
    results = {name: table.write_json().encode() for name, table in tables.items()}
    results |= {p.name: p.read_bytes() for p in (run.path / "images").glob("*.png")}
    return results | {"scores.json": (run.path / "scores.json").read_bytes()}


# --------------------------------------------------------------------------------------------------------------- states
def test_every_state_is_kept_with_its_reason_and_counted(tmp_path, start, suite, prompts):
    (tmp_path / "broken.png").write_bytes(encode_png(NOISE)[:60])
    (tmp_path / "flat.png").write_bytes(encode_png(np.full((8, 8, 3), 7, np.uint8)))
    (tmp_path / "good.png").write_bytes(encode_png(NOISE))
    answers = [
        {"state": "refused", "note": "policy"},
        {"state": "failed", "note": "out of memory"},
        {"state": "missing", "note": "no file of that name"},
        {"state": "ok", "path": str(tmp_path / "broken.png")},
        {"state": "ok", "path": str(tmp_path / "nowhere.png")},
        {"state": "ok", "path": str(tmp_path / "flat.png")},
        {"state": "ok", "pixels": np.zeros((8, 8, 3), np.uint8), "note": "made"},
        {"state": "ok", "path": str(tmp_path / "good.png"), "note": "brought"},
        {"state": "refused", "path": str(tmp_path / "good.png"), "note": "a placeholder"},
    ]
    order = {p.prompt_id: n for n, p in enumerate(prompts)}

    def answer(request: Request) -> Result:
        number = order[request.prompt.prompt_id]
        return Result(image_id=request.image_id, **answers[number]) if number < len(answers) else ok(request)

    collected: list[str] = []
    judge = PixelJudge()
    run = finish(start(), suite, Answers(answer), judge, on_failure=collected.append)
    rows = {r["prompt_id"]: r for r in run.read("images").iter_rows(named=True)}
    states = [rows[p.prompt_id]["state"] for p in prompts]
    assert (
        states == ["refused", "failed", "missing", "failed", "missing", "blank", "blank", "ok", "refused"] + ["ok"] * 3
    )
    notes = [rows[p.prompt_id]["note"] for p in prompts]
    assert notes[:3] == ["policy", "out of memory", "no file of that name"]
    assert "truncated" in notes[3]
    assert notes[4] == "no such file: nowhere.png"
    assert notes[6] == "made; one flat colour, rgb(0, 0, 0)"
    assert len(collected) == 8
    assert collected[0] == f"{make_image_id(prompts[0].prompt_id, 0)}: refused: policy"
    # Only images that are ok are shown to the judge; all others are counted as unusable and none as wrong.
    assert sorted(judge.seen) == sorted(
        make_image_id(p.prompt_id, 0) for n, p in enumerate(prompts) if n in (7, 9, 10, 11)
    )
    headline = [s for s in run.scores() if s.metric == "accuracy" and s.protocol == "revised" and len(s.group) == 1]
    assert sum(s.n_unusable for s in headline) == 8
    assert sum(s.n_used for s in headline) == 4
    good, made = rows[prompts[7].prompt_id], rows[prompts[9].prompt_id]
    assert (good["seed"], good["width"], good["height"]) == (None, 30, 20)
    assert good["path"] == str(tmp_path / "good.png")
    assert made["seed"] == image_seed(5, made["image_id"])
    np.testing.assert_array_equal(np.asarray(Image.open(run.resolve(made["path"]))), NOISE)


def test_a_resumed_run_tells_again_what_failed_before(start, suite):
    run, result = start(), []
    refuse = Answers(lambda r: Result(image_id=r.image_id, state="refused", note="policy"))
    finish(run, suite, refuse)
    finish(run, suite, Answers(ok), on_failure=result.append)
    assert len(result) == 12


def test_retry_asks_again_only_for_what_has_no_image(start, suite, prompts):
    states = dict(zip([p.prompt_id for p in prompts], ["refused", "failed", "missing"]))

    def first(request: Request) -> Result:
        state = states.get(request.prompt.prompt_id, "ok")
        if request.prompt is prompts[3] or request.prompt.prompt_id == prompts[3].prompt_id:
            return Result(image_id=request.image_id, state="ok", pixels=np.zeros((8, 8, 3), np.uint8))  # blank
        return ok(request) if state == "ok" else Result(image_id=request.image_id, state=state)

    run = finish(start(), suite, Answers(first))
    patient = Answers(ok)
    finish(run, suite, patient)
    assert patient.asked == []
    finish(run, suite, patient, retry=True)
    assert sorted(patient.asked) == sorted(make_image_id(p, 0) for p in states)
    counts = run.read("images")["state"].value_counts().sort("state").rows()
    assert counts == [("blank", 1), ("ok", 11)]
    assert set(run.read("detections", "pixel-judge@1")["image_id"]) == set(
        run.read("images").filter(run.read("images")["state"] == "ok")["image_id"]
    )


# --------------------------------------------------------------------------------------------------------------- killed
@pytest.mark.usefixtures("small_batches")
def test_a_run_stopped_at_any_write_ends_in_the_same_tables(start, suite, scripted, monkeypatch):
    # Three batches of four images; each writes detections, truth and images: nine writes to stop at.
    full = contents(finish(start("whole"), suite, scripted(0.5)))
    append = Run.append
    for at in range(9):
        run, writes = start(f"cut-{at}"), iter(range(100))

        def cut(self, table, rows, judge=None, *, at=at, writes=writes, **options):
            if next(writes) == at:
                raise KeyboardInterrupt
            return append(self, table, rows, judge, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Run, "append", cut)
            with pytest.raises(KeyboardInterrupt):
                finish(run, suite, scripted(0.5))
        assert run.read("images").height == 4 * (at // 3)
        finish(Run.open(run.path), suite, scripted(0.5))
        assert contents(run) == full


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes import PixelJudge, PixelRenderer
from verism.generators.scripted import ScriptedGenerator
from verism.pipeline import local
from verism.store import Run
from verism.suites.paintskills.suite import PaintSkills
local.BATCH = 4
run = Run.open(Path({run!r}))
suite = PaintSkills.reopen({{}}, run.prompts())
painter = PixelRenderer(tuple(suite.classes), suite.colors)
made = ScriptedGenerator(painter, classes=suite.classes, colors=suite.colors, error=0.5)
calls = []
def die(images):
    calls.append(len(images))
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
judge = PixelJudge(before=die)
local.run_images(run, local.make_requests(run.prompts(), 5), made, [(judge, n) for n in suite.needs()])
"""


@pytest.mark.usefixtures("small_batches")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_process_loses_one_batch_and_nothing_else(start, suite, scripted):
    full = finish(start("whole"), suite, scripted(0.5))
    run = start("killed")
    script = textwrap.dedent(KILLED).format(tests=str(Path(__file__).parents[1]), run=str(run.path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert run.read("images").height == 4
    finish(run, suite, scripted(0.5))
    assert contents(run) == contents(full)


@pytest.mark.usefixtures("small_batches")
def test_two_workers_side_by_side_end_in_the_same_tables(start, suite, scripted):
    full = finish(start("whole"), suite, scripted(0.5))
    run = start("shared")
    requests, judge = make_requests(run.prompts(), 5), PixelJudge()
    needs = [(judge, need) for need in suite.needs()]
    # The second worker begins when the first has done a batch, knows nothing of the rest, and overlaps.
    run_images(run, requests[:6], scripted(0.5), needs)
    known = Run.read

    def blind(self, table, judge=None):
        return empty_table(table) if table == "images" else known(self, table, judge)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "read", blind)
        patch.setattr(Run, "compact", lambda *_: None)
        run_images(run, requests[3:], scripted(0.5), needs)
    finish(run, suite, scripted(0.5))
    assert contents(run) == contents(full)


@pytest.mark.usefixtures("small_batches", "without_collector")
def test_a_judge_that_cannot_go_on_ends_the_generator_and_no_image_stays_in_memory(start, suite):
    pixels: list[weakref.ref[np.ndarray]] = []
    ended = []

    class Waiting:
        """Has begun the next image when the judge ends the work, as a service's workers have."""

        name = "waiting"

        def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
            try:
                for request in requests:
                    made = NOISE.copy()
                    pixels.append(weakref.ref(made))
                    yield replace(ok(request), pixels=made)
                    del made
            finally:
                ended.append(len(pixels))

    def stop(_: object) -> None:
        raise UsageError("the service is down")

    run = start()
    with pytest.raises(UsageError, match="the service is down"):
        finish(run, suite, Waiting(), PixelJudge(before=stop))
    assert ended == [len(pixels)]
    assert [ref() for ref in pixels if ref() is not None] == []
    assert run.read("images").height == 4


@pytest.mark.usefixtures("small_batches")
def test_made_images_are_kept_before_more_are_made(start, suite):
    run, kept = start(), []

    def answer(request: Request) -> Result:
        kept.append(run.read("images").height)
        return ok(request)

    finish(run, suite, Answers(answer))
    assert kept == [0] * 4 + [4] * 4 + [8] * 4


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_what_was_seen_of_a_lost_image_is_forgotten(shift, start, suite):
    # Killed between the detections and the images' own rows; the generator then paints something else.
    run, append = start(), Run.append

    def cut(self, table, rows, judge=None, **options):
        if table == "images":
            raise KeyboardInterrupt
        return append(self, table, rows, judge, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "append", cut)
        with pytest.raises(KeyboardInterrupt):
            finish(run, suite, Answers(ok))
    assert run.read("detections", "pixel-judge@1").height == 0  # of images that the run does not have
    marked = NOISE.copy()
    marked[2:9, 3:12] = 1, 0, 200
    # In batches of other images, so that no new part replaces the old one by its name.
    requests = make_requests(run.prompts(), 5)
    requests = [*requests[shift:], *requests[:shift]]
    judge = PixelJudge()
    run_images(run, requests, Answers(lambda r: replace(ok(r), pixels=marked)), [(judge, n) for n in suite.needs()])
    rows = run.read("detections", judge.name)
    assert rows.group_by("image_id").len()["len"].to_list() == [2] * 12
    assert rows.filter(rows["query"] == 0).select("x0", "y0", "x1", "y1").unique().rows() == [(3.0, 2.0, 12.0, 9.0)]


# --------------------------------------------------------------------------------------------------------------- judges
def test_another_judge_looks_and_no_image_is_made(start, suite, scripted):
    run = finish(start(), suite, scripted(0.5))
    before = {p.name: p.stat().st_mtime_ns for p in (run.path / "images").glob("*.png")}
    second = PixelJudge(name="second@1")
    for need in suite.needs():
        observe_images(run, make_requests(run.prompts(), 5), second, need)
    assert len(second.seen) == 12
    assert sorted(run.judges("detections")) == ["pixel-judge@1", "second@1"]
    assert {p.name: p.stat().st_mtime_ns for p in (run.path / "images").glob("*.png")} == before
    for need in suite.needs():
        observe_images(run, make_requests(run.prompts(), 5), second, need)
    assert len(second.seen) == 12
    a, b = (run.read("detections", j).drop("judge") for j in ("pixel-judge@1", "second@1"))
    assert a.equals(b)


@pytest.mark.parametrize("change", ["other content", "gone"])
def test_an_image_changed_on_disk_is_an_error_that_names_it(change, tmp_path, start, suite, prompts):
    for p in prompts:
        (tmp_path / f"{p.prompt_id}.png").write_bytes(encode_png(NOISE))
    files = Answers(lambda r: Result(image_id=r.image_id, state="ok", path=str(tmp_path / f"{r.prompt.prompt_id}.png")))
    run = start()
    run_images(run, make_requests(prompts, 5), files, [])
    victim = tmp_path / f"{prompts[4].prompt_id}.png"
    if change == "gone":
        victim.unlink()
    else:
        victim.write_bytes(encode_png(NOISE[::-1]))
    judge = PixelJudge()
    with pytest.raises(VerismError) as err:
        observe_images(run, make_requests(prompts, 5), judge, suite.needs()[0])
    assert make_image_id(prompts[4].prompt_id, 0) in str(err.value)
    assert str(victim) in str(err.value)
    assert ("no such file" if change == "gone" else "its content changed") in str(err.value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        pytest.param(lambda t: t.filter(t["image_id"] != t["image_id"][0]), "returned no row for", id="silent"),
        pytest.param(lambda t: t.with_columns(image_id=t["image_id"] + "x"), "returned no row for", id="other ids"),
        pytest.param(lambda t: t.vstack(t.with_columns(image_id=t["image_id"] + "x")), "not shown", id="foreign"),
        pytest.param(lambda t: t.with_columns(judge=t["judge"] + "x"), "judge's own name", id="signed otherwise"),
    ],
)
def test_judges_that_answer_wrongly_are_named(edit, message, start, suite, scripted):
    class Odd(PixelJudge):
        def observe(self, images, need):
            return edit(super().observe(images, need))

    with pytest.raises(VerismError, match=f"judge pixel-judge@1 .*{message}"):
        finish(start(), suite, scripted(), Odd())


# ----------------------------------------------------------------------------------------------------------- generators
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(lambda rs: [ok(r) for r in rs[::-1]], r"answers@1 answered '.*' when asked for", id="wrong order"),
        pytest.param(lambda rs: [ok(r) for r in rs[:-1]], "answers@1 gave no answer for", id="one too few"),
        pytest.param(lambda rs: [ok(r) for r in [*rs, rs[0]]], "after all 12 requests", id="one too many"),
        pytest.param(
            lambda rs: [Result(image_id=r.image_id, state="ok") for r in rs], "pixels or a path", id="nothing"
        ),
        pytest.param(lambda rs: [replace(ok(r), path="x.png") for r in rs], "either pixels or a path", id="both"),
        pytest.param(lambda rs: [replace(ok(r), pixels=NOISE / 255) for r in rs], "type float64", id="floats"),
        pytest.param(lambda rs: [replace(ok(r), pixels=NOISE[..., 0]) for r in rs], r"shape \(20, 30\)", id="grey"),
    ],
)
def test_generators_that_answer_wrongly_are_named(answer, message, start, suite):
    class Odd:
        name = "answers@1"

        def generate(self, requests):
            yield from answer(list(requests))

    run = start()
    with pytest.raises(VerismError, match=message):
        finish(run, suite, Odd())
    assert run.read("images").height == 0


def test_an_error_inside_a_generator_is_not_renamed(start, suite):
    def broken(_):
        raise ValueError("the model broke")

    with pytest.raises(ValueError, match="the model broke"):
        finish(start(), suite, Answers(broken))


class Steady:
    """Answers like `ok`, and calls `before(number)` before each image."""

    name = "steady@1"

    def __init__(self, before):
        self.before = before

    def generate(self, requests):
        for number, request in enumerate(requests):
            self.before(number)
            yield ok(request)


@pytest.mark.parametrize("error", [ValueError("no more"), KeyboardInterrupt()])
def test_images_made_before_a_generator_breaks_are_kept(error, start, suite):
    def before(number):
        if number == 7:
            raise error

    run = start()
    with pytest.raises(type(error)):
        finish(run, suite, Steady(before))
    assert run.read("images").height == 7
    asked = []
    finish(run, suite, Steady(asked.append))
    assert asked == list(range(5))
    assert run.read("images").height == 12


def test_a_slow_generator_loses_little_when_it_is_killed(start, suite, monkeypatch):
    """Parts are cut by time as well as by number."""
    now = [0.0]
    monkeypatch.setattr(local.time, "monotonic", lambda: now[0])
    run = start()
    stored = []

    def before(_):
        stored.append(run.read("images").height)
        now[0] += local.PART_SECONDS * 0.4

    finish(run, suite, Steady(before))
    # The third image of a part comes after 1.2 times the limit, so each part holds three.
    assert stored == [0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9]


def test_generators_are_asked_once_for_everything(start, suite):
    class Counting(Steady):
        calls = 0

        def generate(self, requests):
            self.calls += 1
            return super().generate(requests)

    counting = Counting(lambda _: None)
    finish(start(), suite, counting)
    assert counting.calls == 1


def test_images_without_their_seed_say_so(start, suite):
    run = start()
    finish(run, suite, Answers(lambda r: replace(ok(r), seeded=r.image_id < "d")))
    rows = run.read("images")
    assert rows.filter(rows["seed"].is_null())["image_id"].to_list() == [i for i in rows["image_id"] if i >= "d"]
    assert 0 < rows["seed"].null_count() < 12


# ---------------------------------------------------------------------------------------------------------------- seeds
def test_seeds_do_not_depend_on_what_else_is_asked_for(prompts):
    many = {r.image_id: r.seed for r in make_requests([replace(p, n_images=3) for p in prompts], 5)}
    few = {r.image_id: r.seed for r in make_requests(prompts[::-1][:4], 5)}
    assert few.items() <= many.items()
    assert len(set(many.values())) == 36
    assert all(0 <= s < 2**31 for s in many.values())
    other = {r.image_id: r.seed for r in make_requests(prompts, 6)}
    assert not set(other.values()) & set(many.values())
    # Written down once: a change of the rule would make every stored run unrepeatable.
    assert image_seed(0, "object_val_00000#0") == 1972158672  # blake2b-32 of "0/object_val_00000#0", halved


def test_a_smaller_run_is_part_of_a_larger_one(tmp_path, suite, prompts, scripted):
    runs = []
    for name, asked in (("few", prompts[4:9]), ("all", prompts)):
        run = Run.start(tmp_path / name, RunSettings(suite=suite.name))
        run.write_prompts(asked)
        runs.append(finish(run, suite, scripted(0.5)))
    few, every = (r.read("images") for r in runs)
    assert every.filter(every["image_id"].is_in(few["image_id"].to_list())).equals(few)


def test_progress_is_silent_off_a_terminal(start, suite, scripted, capfd):
    finish(start(), suite, scripted())
    assert capfd.readouterr() == ("", "")


def test_the_pixel_judge_reads_what_was_rendered(suite, prompts, scripted):
    # The judge of these tests itself: it must see every object where it is.
    for request, result in zip(make_requests(prompts, 5), scripted().generate(make_requests(prompts, 5))):
        boxes = [box for _, _, box in found_in(result.pixels)]
        truth = result.truth["detections"].filter(result.truth["detections"]["query"] >= 0)
        assert truth.select("x0", "y0", "x1", "y1").rows() == [tuple(map(float, b)) for b in boxes]
        assert [suite.labels[k] for k, _, _ in found_in(result.pixels)] == list(request.prompt.spec["labels"])


def test_a_suite_may_pair_images_by_their_noise_or_give_the_seeds():
    def asked(prompt_id: str, **spec: object) -> Prompt:
        return Prompt(prompt_id=prompt_id, suite="s", text=prompt_id, spec=spec, n_images=2)

    plain, woman, man = asked("plain"), asked("woman/0", seed_key="0"), asked("man/0", seed_key="0")
    seeds = [r.seed for r in make_requests([plain, woman, man, asked("given", seeds=[5, 6])], 3)]
    assert seeds[:2] == [image_seed(3, "plain#0"), image_seed(3, "plain#1")]
    assert seeds[2:4] == seeds[4:6] == [image_seed(3, "0#0"), image_seed(3, "0#1")]
    assert seeds[6:] == [5, 6]
