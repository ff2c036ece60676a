"""The whole bench: a judge that errs at a planted rate is found with that rate; stopped work goes on."""

import json
import re
import zlib

import polars as pl
import pytest
from browsing import CHROMIUM, broken_words, browsing, faults_of, too_small
from commands import verism
from fakes import PixelJudge
from service_fakes import Service, chat

from verism import api
from verism.annotation.ratings import study_path
from verism.annotation.sampling import draw_items
from verism.annotation.tasks import choose_tasks, tasks_of
from verism.annotation.votes import Study, VoteStore
from verism.cards import read_card
from verism.errors import UsageError
from verism.judge_bench.bench import BenchSettings, Truth, bench_roles, folder_of, read_bench, run_bench
from verism.judge_bench.disturbances import parse_disturbances
from verism.store import TRUTH, Run

SMALL = api.RunOptions(size=64)


class Knowing:
    """A detector that looks up what was rendered, and overlooks everything in some images."""

    name = "knowing@1"
    threshold = 0.5

    def __init__(self, out, *, blind=lambda _: False, stop_after=None, name="knowing@1"):
        self.out, self.blind, self.stop_after, self.name = out, blind, stop_after, name
        self.seen = []

    def observe(self, images, need):
        tables = []
        for image in images:
            if self.stop_after is not None and len(self.seen) >= self.stop_after:
                raise KeyboardInterrupt
            self.seen.append(image.image_id)
            rows = Run.open(self.out / "items" / "paintskills").read(need.table, TRUTH)
            rows = rows.filter(pl.col("image_id") == image.image_id).with_columns(pl.lit(self.name).alias("judge"))
            tables.append(rows.filter(pl.col("query") == -1) if self.blind(image.image_id) else rows)
        return pl.concat(tables)


def bench(out, *judges, limit=24, disturb=""):
    settings = BenchSettings(
        role="detector",
        judges=judges,
        truth=Truth(seed=5),
        limit=limit,
        suites=("paintskills",),
        disturbances=tuple(parse_disturbances(disturb)),
        options=SMALL,
    )
    return run_bench(settings, out, tell=lambda _: None)


def some(image):
    return zlib.crc32(image.encode()) % 3 == 0


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "B"
    judges = Knowing(out), Knowing(out, blind=some, name="blind@1")
    return out, bench(out, *judges, disturb="jpeg=30"), judges


def test_images_come_in_pairs_of_a_right_and_a_wrong_one(done):
    run = Run.open(done[0] / "items" / "paintskills")
    notes = run.read("images").sort("image_id").select("image_id", "note")
    assert notes.height == 24
    for image, note in notes.iter_rows():
        assert (note == "rendered as asked") == image.endswith("#0"), (image, note)
    assert sorted(p.facets["skill"] for p in run.prompts()) == sorted(["object", "count", "spatial", "color"] * 3)
    right, wrong = (
        run.load_image(row).pixels for row in run.read("images").sort("image_id").head(2).iter_rows(named=True)
    )
    assert 0 < (right != wrong).mean() < 1  # different objects before the same surroundings


def test_a_planted_error_is_found_with_its_rate(done):
    out, board, _ = done
    truth = Run.open(out / "items" / "paintskills")
    images = truth.read("images")["image_id"].to_list()
    results = {(r.judge, r.task): r for r in board.tasks if not r.disturbance}
    for skill in ("object", "count", "spatial", "color"):
        assert results["knowing@1", skill].sensitivity.value == results["knowing@1", skill].specificity.value == 1
        right = [i for i in images if i.startswith(skill) and i.endswith("#0")]
        found = results["blind@1", skill]
        assert found.sensitivity.value == pytest.approx(sum(not some(i) for i in right) / len(right))
        assert found.specificity.value == 1  # who sees nothing calls nothing right
        assert (found.n_items, found.n_pairs) == (6, 3)
    presence = results["blind@1", "presence of an object"]
    labels = truth.read("detections", TRUTH).select("image_id", "label").drop_nulls().unique()
    shown = [not some(i) for i in labels["image_id"]]
    assert presence.sensitivity.value == pytest.approx(sum(shown) / len(shown))
    assert presence.specificity.value == 1
    assert presence.auc.value == pytest.approx((1 + sum(shown) / len(shown)) / 2)  # unseen ones tie with absent ones


def test_disturbed_images_have_the_same_truth(done):
    out, board, _ = done
    run = Run.open(out / "disturbed" / "paintskills-jpeg-30")
    plain = Run.open(out / "items" / "paintskills")
    assert (
        run.read("detections", TRUTH)
        .sort("image_id", "query")
        .equals(plain.read("detections", TRUTH).sort("image_id", "query"))
    )
    rows = [r.read("images").sort("image_id").row(0, named=True) for r in (run, plain)]
    assert rows[0]["sha256"] != rows[1]["sha256"]
    disturbed = {r.task: r for r in board.tasks if r.disturbance == "jpeg=30" and r.judge == "knowing@1"}
    assert disturbed["count"].right.value == 1


def test_each_judge_has_a_card_of_the_items(done):
    out, board, _ = done
    card = read_card(out / board.judges[0].cards[0])
    assert (card.judge, card.role, card.kind) == (board.judges[0].name, "detector", "rendered")
    (table,) = [m for m in card.measured if m.protocol == "revised" and dict(m.group) == {"skill": "count"}]
    assert board.judges[0].name == "blind@1"
    right = [i for i in Run.open(out / "items" / "paintskills").read("images")["image_id"] if i.startswith("count")]
    seen = sum(not some(i) for i in right if i.endswith("#0"))
    assert table.counts == ((3, 0), (3 - seen, seen))
    assert table.unusable == (0, 0)


def test_the_same_call_again_asks_no_judge_anything(done):
    out, board, judges = done
    before = len(judges[0].seen)
    again = bench(out, judges[0], disturb="jpeg=30")
    assert len(judges[0].seen) == before == 48
    assert again.tasks == board.tasks  # both judges, also the one that was not named again
    assert {j.images for j in again.judges} == {48}


def test_a_stopped_bench_goes_on_where_it_was(tmp_path):
    out = tmp_path / "B"
    with pytest.raises(KeyboardInterrupt):
        bench(out, Knowing(out, stop_after=50), limit=60)
    run = Run.open(out / "items" / "paintskills")
    kept = run.read("detections", "knowing@1")["image_id"].n_unique()
    assert (len(run.read("images")), 0 < kept <= 50) == (60, True)
    rest = Knowing(out)
    board = bench(out, rest, limit=60)
    assert len(rest.seen) == 60 - kept
    assert all(r.right.value == 1 for r in board.tasks)
    assert board.judges[0].images >= 60


def test_a_folder_of_another_bench_is_refused(done):
    out, _, judges = done
    with pytest.raises(UsageError, match=r"holds another bench \(limit 24 there, 8 now\)"):
        bench(out, judges[0], limit=8)


@pytest.mark.parametrize(
    ("text", "message"),
    [("rendered:x", "rendered:SEED"), ("people", "human:RUN"), ("human:", "human:RUN"), ("rendered:-1", "SEED")],
)
def test_a_truth_that_is_none_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        Truth.parse(text)


def test_truth_is_read():
    assert Truth.parse("rendered:90001") == Truth(seed=90001)
    assert str(Truth.parse("human:runs/mine")) == "human:runs/mine"


def test_annotators_are_the_truth_of_a_run_that_stays_as_it_is(tmp_path, scripted):
    run = api.evaluate(
        "paintskills",
        model=scripted(0.5),
        detector=PixelJudge(),
        skills=("object",),
        limit=16,
        seed=2,
        out=tmp_path / "r",
    )
    labels = {p.prompt_id: p.spec["labels"][0] for p in run.prompts()}
    notes = run.read("images").select("image_id", "prompt_id", "note")
    [task] = choose_tasks(tasks_of(run), ["object"])
    store = VoteStore.create(
        study_path(run),
        Study(tasks=(task,), items=tuple(draw_items([run], task, per_cell=None)), runs=(str(run.path.absolute()),)),
    )
    answers = {
        image: labels[prompt] if note == "rendered as asked" else "none of these"
        for image, prompt, note in notes.rows()
    }
    rater = store.named_rater("ada")
    for position, item in enumerate(store.study.items):
        store.vote(rater, position, answers[item.item])
    right = sorted(image for image, answer in answers.items() if answer != "none of these")
    blind = set(right[:2])
    settings = BenchSettings(
        role="detector",
        judges=(PixelJudge(name="half-blind@1", wrong=blind.__contains__),),
        truth=Truth(run=tmp_path / "r"),
    )
    board = run_bench(settings, tmp_path / "B", tell=lambda _: None)
    (result,) = board.tasks
    assert (result.n_items, result.task) == (16, "object")
    assert result.sensitivity.value == pytest.approx(1 - 2 / len(right))
    assert result.specificity.value == 1
    assert Run.open(tmp_path / "r").judges("detections") == [PixelJudge().name]
    assert read_card(tmp_path / "B" / board.judges[0].cards[0]).kind == "human"


def test_every_declared_bench_can_be_made():
    from verism.suites.catalogue import SUITES, make_suite, suite_class

    for name in SUITES:
        for declared in suite_class(name).benches:
            suite = make_suite(name, **{**declared.options, "limit": 4})
            assert max(p.n_images for p in suite.prompts()) == declared.images_per_prompt
            asked = [need.role for need in suite.needs()]
            assert declared.by_prompts or set(declared.roles) <= set(asked), name
    assert "detector" in bench_roles()


def test_the_command_writes_page_board_and_card(tmp_path):
    out = tmp_path / "B"
    words = ("judge", "bench", "--role", "detector", "--judge", "builtin", "--truth", "rendered:5", "--limit", "8")
    done = verism(*words, "--suite", "paintskills", "--size", "128", "--out", out)
    assert done.exit_code == 0, done.output
    assert "builtin" in done.output
    assert "Trusted:" in done.output
    page = (out / "index.html").read_text()
    assert "Which judge can be trusted with what?" in page
    assert "<script" not in page
    board = json.loads((out / "board.json").read_text())
    assert board["role"] == "detector"
    assert {t["task"] for t in board["tasks"]} == {"object", "count", "spatial", "color", "presence of an object"}
    assert (out / "judges" / "builtin" / "card-paintskills.json").is_file()
    assert read_bench(out).judges[0].images == 8


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_of_a_bench_fits_a_phone(tmp_path):
    pytest.importorskip("playwright")
    out = tmp_path / "B"
    words = ("judge", "bench", "--role", "detector", "--judge", "builtin", "--truth", "rendered:5", "--limit", "8")
    verism(*words, "--suite", "paintskills_v1", "--size", "64", "--out", out)
    with browsing() as browser:
        page = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark").new_page()
        page.goto((out / "index.html").resolve().as_uri())
        assert faults_of(page) == []
        assert too_small(page) == []
        assert broken_words(page) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--role", "painter"), "no role 'painter'"),
        (("--role", "depth"), "no suite declares a bench"),
        (("--suite", "quality"), "quality declares no bench"),
        (("--disturb", "fog"), "no disturbance 'fog'"),
        (("--judge", "nobody"), "nobody"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(tmp_path, change, message):
    words = {"--role": "detector", "--judge": "builtin", "--out": str(tmp_path / "B"), **dict([change])}
    with pytest.raises(UsageError, match=message):
        verism("judge", "bench", *[word for pair in words.items() for word in pair])


def test_folders_of_judges_are_told_apart():
    assert folder_of("builtin") == "builtin"
    assert folder_of("a/b") != folder_of("a-b")


# --------------------------------------------------------------------------------------------- judges behind a service
def bench_of(service, out, *more):
    judge = f"openai:m?base_url={service.base}&retries=0&concurrency=1"
    words = ("judge", "bench", "--role", "vqa", "--judge", judge, *more, "--truth", "rendered:5", "--limit", "12")
    before = len(service.bodies)
    done = verism(*words, "--suite", "paintskills", "--size", "64", "--out", out)
    return done, [json.dumps(body["messages"]) for body in service.bodies[before:]]


def test_a_service_that_goes_down_is_left_and_asked_the_rest_when_the_command_is_repeated(service, tmp_path):
    out = tmp_path / "B"
    service.reply = lambda _: chat("Yes.") if len(service.bodies) <= 10 else (503, {})
    with pytest.raises(UsageError, match=f"{service.base} answered none of 5 requests in a row") as err:
        bench_of(service, out)
    assert "Repeat the command to ask it the rest" in str(err.value)
    first = [json.dumps(body["messages"]) for body in service.bodies]
    service.reply = lambda _: chat("Yes.")
    done, second = bench_of(service, out)
    assert done.exit_code == 0, done.output
    assert len(first) == 15
    assert not set(first[:10]) & set(second)
    assert set(first[10:]) <= set(second)
    assert len({*first[:10], *second}) == 10 + len(second)  # each question was answered once
    (judged,) = read_bench(out).judges
    assert (judged.images, json.loads((out / "board.json").read_text())["stopped"]) == (12, [])
    assert bench_of(service, out)[1] == []


def test_a_service_that_is_down_does_not_keep_other_judges_from_being_measured(service, tmp_path):
    out = tmp_path / "B"
    other = Service()
    service.reply = lambda _: (503, {})
    done, asked = bench_of(service, out, "--judge", f"openai:up?base_url={other.base}")
    other.shutdown()
    other.server_close()
    assert done.exit_code == 1
    assert len(asked) == 5
    (line,) = json.loads((out / "board.json").read_text())["stopped"]
    assert re.match(r"openai:m\S+ could not be asked to the end, so it is not on the board: ", line)
    assert f"{service.base} answered none of 5 requests in a row" in line
    assert line in done.output
    assert f"{service.base} answered none" in (out / "index.html").read_text()
    (judged,) = read_bench(out).judges
    assert judged.given.startswith("openai:up")


def test_answers_that_failed_are_asked_again_and_no_others(service, tmp_path):
    out, failed = tmp_path / "B", set()

    def reply(body):
        text = json.dumps(body["messages"])
        if len(service.bodies) % 3 == 0:
            failed.add(text)
            return 503, {}
        return chat("No.")

    service.reply = reply
    done, first = bench_of(service, out)
    assert done.exit_code == 0
    assert f"{len(failed)} answers about paintskills did not come; repeat the command to ask again" in done.output
    table = Run.open(out / "items" / "paintskills-prompts").scan("answers", read_bench(out).judges[0].name).collect()
    before = table.sort("image_id", maintain_order=True)
    service.reply = lambda _: chat("Yes.")
    done, second = bench_of(service, out)
    assert done.exit_code == 0
    assert 0 < len(failed) < len(first)
    assert set(second) == failed
    assert "did not come" not in done.output
    table = Run.open(out / "items" / "paintskills-prompts").scan("answers", read_bench(out).judges[0].name).collect()
    after = table.sort("image_id", maintain_order=True)
    assert after.select("image_id", "question").equals(before.select("image_id", "question"))
    assert after["value"].to_list() == [value or "yes" for value in before["value"]]
    assert after["note"].null_count() == after.height
