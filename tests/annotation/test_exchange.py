"""Studies given away and answers taken in: each platform's own format, and the same ratings as by voting here."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from annotation_runs import make_run
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from verism.annotation.exchange import export_study, import_ratings
from verism.annotation.exchange.imports import option_of
from verism.annotation.exchange.material import item_keys, questions, swapped
from verism.annotation.ratings import ratings_of, study_path
from verism.annotation.sampling import draw_items, read_checks, with_checks
from verism.annotation.tasks import PREFERENCE
from verism.annotation.views import StudyView
from verism.annotation.votes import Study, VoteStore
from verism.errors import UsageError
from verism.records import RatingTask

HOSTILE = '<img src=x onerror="alert(1)"> & ${x} =1+1'
SEEN = RatingTask(
    name="seen", question="=Is it {prompt}? <b>", kind="choice", options=("yes", "no", HOSTILE), help=HOSTILE
)
OTHER = RatingTask(name="other", question="Another?", kind="choice", options=SEEN.options, help=HOSTILE)
NAMED = RatingTask(name="named", question="What?", kind="list", options=("a dog", "a cat", "-none", "none"))
FIT = RatingTask(
    name="fit", question="How well?", kind="scale", options=("1", "2", "3"), level="ordinal", examples={"1": "badly"}
)
TONE = RatingTask(name="tone", question="Tone?", kind="tone", options=(*map(str, range(1, 11)), "cannot tell"))
GRID = RatingTask(name="grid", question="Most?", kind="choice", options=("a", "b"), unit="prompt")
TASKS = (SEEN, OTHER, NAMED, FIT, TONE, GRID, PREFERENCE)
RATERS = ("A1WORKERSECRET", "A2WORKERSECRET")


@pytest.fixture
def runs(tmp_path):
    return [make_run(tmp_path / f"model-{c}", limit=4, n_images=2, seed=i) for i, c in enumerate("ab")]


def make(runs, tasks=TASKS, *, name="study", per_cell=2, gold=None, **more) -> VoteStore:
    items = [item for task in tasks for item in draw_items(runs, task, per_cell=per_cell)]
    if gold is not None:
        items = with_checks(items, read_checks(gold, tasks), runs, tasks)
    paths = tuple(str(run.path) for run in runs)
    return VoteStore.create(
        study_path(runs[0], name), Study(tasks=tuple(tasks), items=tuple(items), runs=paths, **more)
    )


def truth(store: VoteStore, rater: str, position: int) -> str:
    """What a simulated rater answers: anything, but the same at any place."""
    options = store.task(store.study.items[position].task).options
    return options[(position * 7 + len(rater) + RATERS.index(rater) * (position % 2)) % len(options)]


def told(store: VoteStore, rater: str, key: str) -> str:
    """The same as the rater of an export says it: of pairs, the side."""
    position = item_keys(store)[key]
    answer = truth(store, rater, position)
    if store.study.items[position].task != "preference" or answer == "tie":
        return answer
    return "left" if (answer == "first") != swapped(store, position) else "right"


def voted(store: VoteStore) -> list[tuple[str | None, ...]]:
    columns = ("item", "task", "rater", "answer")
    return sorted(store.ratings().select(columns).iter_rows())


def expected(store: VoteStore, raters=RATERS) -> list[tuple[str | None, ...]]:
    """The ratings if the same people had voted here."""
    return sorted(
        (item.item, item.task, store.anonymous(rater), truth(store, rater, position))
        for rater in raters
        for position, item in enumerate(store.study.items)
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


def batch(store: VoteStore, tables: list[Path], *, wide: bool = False, status: str = "Approved") -> list[dict]:
    """Results as Mechanical Turk gives them: inputs, one answer per field, or a column of truth per option."""
    made = []
    for rater in RATERS:
        for number, hit in enumerate(row for table in tables for row in rows_of(table)):
            row = {
                "HITId": f"3H{number}", "AssignmentId": f"3A{number}{rater}", "WorkerId": rater,
                "AssignmentStatus": status, "AcceptTime": "Mon Nov 02 08:10:00 PST 2020",
                "SubmitTime": "Mon Nov 02 08:12:21 PST 2020", "WorkTimeInSeconds": "60",
            }  # fmt: skip
            row |= {f"Input.{column}": cell for column, cell in hit.items()}
            for column, key in hit.items():
                if column.startswith("item") and key:
                    field, answer = f"Answer.q{column[4:]}", told(store, rater, key)
                    if not wide:
                        row[field] = answer
                        continue
                    task = store.task(store.study.items[item_keys(store)[key]].task)
                    for option in ("left", "right", "tie") if task.unit == "pair" else task.options:
                        row[f"{field}.{option}"] = str(option == answer).lower()
            made.append(row)
    return made


# ---------------------------------------------------------------------------------------------------------- round trips
def test_a_plain_table_comes_back_as_votes(runs, tmp_path):
    store = make(runs)
    export_study(store, runs, "table", tmp_path / "out")
    items = rows_of(tmp_path / "out" / "items.csv")
    rows = [
        {"item": row["item"], "task": row["task"], "rater": rater, "answer": told(store, rater, row["item"]),
         "seconds": 2.5, "at": "2024-05-01T12:00:00+02:00"}
        for rater in RATERS for row in items
    ]  # fmt: skip
    put = import_ratings(store, write_rows(tmp_path / "a.csv", rows))
    assert (put.n_votes, put.n_raters, put.skipped) == (2 * len(store.study.items), 2, ())
    assert voted(store) == expected(store)
    assert set(store.ratings()["seconds"]) == {2.5}
    assert set(store.ratings()["at"]) == {"2024-05-01T10:00:00.000+00:00"}
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    again = import_ratings(store, lines)
    assert (again.n_votes, again.n_unchanged, again.skipped) == (0, len(rows), ())


@pytest.mark.parametrize("wide", [False, True])
def test_batch_results_of_mechanical_turk_come_back_as_votes(runs, tmp_path, wide):
    store = make(runs)
    written = export_study(store, runs, "mturk", tmp_path / "out", image_url="https://me.example/{name}")
    tables = [path for path in written if path.suffix == ".csv"]
    assert len(tables) == 6  # seen and other only differ in the question
    results = write_rows(tmp_path / "batch.csv", batch(store, tables, wide=wide))
    put = import_ratings(store, results)
    assert put.skipped == ()
    assert voted(store) == expected(store)
    ratings = store.ratings()
    assert set(ratings["source"]) == {"mturk"}
    assert set(ratings["at"]) == {"2020-11-02T16:12:21.000+00:00"}
    # Four of the first layout in a HIT of 60 s, and two of the others
    assert set(ratings.filter(ratings["task"] == "seen")["seconds"]) == {60 / 8}
    assert set(ratings.filter(ratings["task"] == "preference")["seconds"]) == {30.0}
    assert (import_ratings(store, results).n_votes, voted(store)) == (0, expected(store))


def annotations(store: VoteStore, task: Mapping, rater_number: int) -> dict:
    answer = told(store, RATERS[rater_number], task["data"]["item"])
    kind = store.task(task["data"]["task"]).kind
    result = {"id": "x", "from_name": "answer", "to_name": "image0", "origin": "manual"}
    if kind == "pair":
        result |= {"type": "pairwise", "value": {"selected": answer}}
        if answer == "tie":
            result |= {"from_name": "tie", "type": "choices", "value": {"choices": ["tie"]}}
    elif kind == "scale":
        result |= {"type": "rating", "value": {"rating": int(answer)}}
    else:
        result |= {"type": "choices", "value": {"choices": [answer]}}
    by = {"id": 7, "email": RATERS[1], "first_name": "Ann"} if rater_number else RATERS[0]
    return {
        "id": 1, "completed_by": by, "result": [result], "was_cancelled": False, "ground_truth": False,
        "created_at": "2024-03-09T22:16:08.728353Z", "lead_time": 4.288,
    }  # fmt: skip


def test_exports_of_label_studio_come_back_as_votes(runs, tmp_path):
    store = make(runs)
    written = export_study(store, runs, "label-studio", tmp_path / "out")
    for number, path in enumerate(path for path in written if path.suffix == ".json"):
        tasks = json.loads(path.read_text())
        for task in tasks:
            task |= {"id": number, "annotations": [annotations(store, task, i) for i in (0, 1)], "predictions": []}
        exported = tmp_path / f"project-{number}.json"
        exported.write_text(json.dumps(tasks))
        assert import_ratings(store, exported).skipped == ()
    assert voted(store) == expected(store)
    assert set(store.ratings()["seconds"]) == {4.288}
    assert set(store.ratings()["source"]) == {"label-studio"}


@pytest.mark.parametrize("table", [False, True])
def test_short_exports_of_label_studio_come_back_as_votes(runs, tmp_path, table):
    store = make(runs)
    written = export_study(store, runs, "label-studio", tmp_path / "out")
    for number, path in enumerate(path for path in written if path.suffix == ".json"):
        rows = []
        for task in json.loads(path.read_text()):
            response = told(store, RATERS[0], task["data"]["item"])
            kind = store.task(store.study.items[item_keys(store)[task["data"]["item"]]].task).kind
            answer = {"scale": [{"rating": response}], "pair": [{"selected": response}]}.get(kind, response)
            field, answer = ("tie", response) if response == "tie" else ("answer", answer)
            answer = json.dumps(answer) if table and isinstance(answer, list) else answer
            rows.append({**task["data"], "id": 1, field: answer, "annotator": RATERS[0], "updated_at": None})
        exported = tmp_path / f"short-{number}.{'csv' if table else 'json'}"
        if table:
            write_rows(exported, rows)
        else:
            exported.write_text(json.dumps(rows))
        assert import_ratings(store, exported).skipped == ()
    assert voted(store) == expected(store, RATERS[:1])


def test_answers_of_the_page_come_back_as_votes_and_are_of_one_study(runs, tmp_path):
    store, another = make(runs), make(runs, name="another")
    export_study(store, runs, "bundle", tmp_path / "out")
    study = json.loads((tmp_path / "out" / "items.json").read_text())
    for rater in RATERS:
        answers = [
            {"item": i["item"], "task": i["task"], "answer": told(store, rater, i["item"])} for i in study["items"]
        ]
        record = {"format": "verism answers 1", "study": study["study"], "rater": rater, "answers": answers}
        (tmp_path / f"{rater}.json").write_text(json.dumps(record))
        assert import_ratings(store, tmp_path / f"{rater}.json").skipped == ()
    assert voted(store) == expected(store)
    with pytest.raises(UsageError, match="another study"):
        import_ratings(another, tmp_path / f"{rater}.json")


# ------------------------------------------------------------------------------------------------------- what is hidden
def everything(folder: Path) -> bytes:
    names = "\n".join(path.name for path in sorted(folder.rglob("*")))
    return names.encode() + b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("kind", ["bundle", "mturk", "label-studio", "table"])
def test_exports_tell_nothing_of_models_ids_cells_checks_and_what_programs_write_into_images(runs, tmp_path, kind):
    secret = PngInfo()
    secret.add_text("parameters", "made by model-a with steps 50")
    first = runs[0].read("images")["path"][0]
    Image.fromarray(np.full((9, 9, 3), 7, np.uint8)).save(runs[0].resolve(first), pnginfo=secret)
    task = RatingTask(name="kept", question="What?", kind="choice", options=("x", "y"))
    gold = tmp_path / "gold.csv"
    items = draw_items(runs, task, per_cell=None)
    gold.write_text(f"item,task,answer,check\n{items[0].item},kept,x,gold\n{items[1].item},kept,y,attention\n")
    store = make(runs, (task, PREFERENCE), per_cell=None, gold=gold, title="model-a against model-b")
    prompts = {prompt.prompt_id for prompt in runs[0].prompts()}
    out = tmp_path / "out"
    export_study(store, runs, kind, out, image_url="https://me.example/{name}")
    written = everything(out).decode("utf-8", "replace")
    assert not [word for word in ("model-a", "model-b", "gold", "attention", "steps 50") if word in written.lower()]
    assert not [prompt for prompt in prompts if prompt in written]
    images = sorted((out / "pictures").iterdir())
    assert len(images) == 16
    assert all(re.fullmatch(r"p[0-9a-f]{12}\.png", path.name) for path in images)
    shown = [name for q in questions(StudyView(store, runs)) for name in q.images]
    assert shown != sorted(shown)  # names are in another order than questions
    assert {path.name for path in images} == set(shown)


def test_images_keep_their_pixels(runs, tmp_path):
    store = make(runs, (SEEN,), per_cell=None)
    export_study(store, runs, "table", tmp_path / "out")
    paths = dict(runs[0].read("images").select("image_id", "path").iter_rows())
    for question in questions(StudyView(store, runs)):
        run, image = store.study.items[question.position].images[0]
        if run == 0:
            value = Image.open(tmp_path / "out" / "pictures" / question.images[0])
            assert np.array_equal(value, Image.open(runs[0].resolve(paths[image])))


def test_sides_of_pairs_are_drawn_by_lot_from_the_seed(tmp_path):
    runs = [make_run(tmp_path / name, limit=60) for name in "ab"]
    stores = [make(runs, (PREFERENCE,), per_cell=None, name=f"s{i}", seed=seed) for i, seed in enumerate((1, 1, 2))]
    sides = [[swapped(store, i) for i in range(60)] for store in stores]
    assert sides[0] == sides[1] != sides[2]
    assert 15 < sum(sides[0]) < 45  # within 4 standard errors of a half
    assert not {q.key for q in questions(StudyView(stores[0], runs))} & {
        q.key for q in questions(StudyView(stores[1], runs))
    }


def test_the_left_image_is_the_one_that_left_means(runs, tmp_path):
    store = make(runs, (PREFERENCE,), per_cell=None)
    export_study(store, runs, "table", tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "items.csv")
    answers = [{"item": row["item"], "rater": "Ann", "answer": "left"} for row in rows]
    import_ratings(store, write_rows(tmp_path / "a.csv", answers))
    labels = dict(store.ratings().select("item", "answer").iter_rows())
    assert set(labels.values()) == {"first", "second"}
    by_key = {key: store.study.items[position].item for key, position in item_keys(store).items()}
    for row in rows:
        left = np.asarray(Image.open(tmp_path / "out" / row["pictures"].split(" | ")[0]))
        first = left[-1, -1, 2] == 0  # images of the first run have no blue, of the second one level
        assert labels[by_key[row["item"]]] == ("first" if first else "second")


def test_workers_ids_are_nowhere(runs, tmp_path):
    store = make(runs, (SEEN,))
    written = export_study(store, runs, "mturk", tmp_path / "out", image_url="https://me.example/{name}")
    rows = batch(store, [path for path in written if path.suffix == ".csv"])
    rows[0]["Answer.q0"] = "maybe"
    put = import_ratings(store, write_rows(tmp_path / "batch.csv", rows + rows))
    assert put.skipped
    assert "WORKERSECRET" not in repr(put)
    kept = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    assert b"WORKERSECRET" not in kept
    assert b"worker-" in kept


# ------------------------------------------------------------------------------------------------------------ escaping
def test_text_is_escaped_for_pages_cells_and_configurations(runs, tmp_path):
    store = make(runs, (SEEN, NAMED, FIT))
    for kind in ("bundle", "mturk", "label-studio", "table"):
        export_study(store, runs, kind, tmp_path / kind, image_url="https://me.example/{name}?a=1&b=2")
    for page in (*(tmp_path / "mturk").glob("*.html"), tmp_path / "bundle" / "index.html"):
        text = page.read_text()
        assert "<img src=x" not in text
        assert "${x}" not in text or page.name == "index.html"  # a variable of the platform
    template = (tmp_path / "mturk" / "1-seen.html").read_text()
    names = set(re.findall(r"\$\{(\w+)\}", template))
    assert names == set(rows_of(tmp_path / "mturk" / "1-seen.csv")[0])
    question = rows_of(tmp_path / "mturk" / "1-seen.csv")[0]["question0"]
    assert question.startswith("&#61;Is it ")
    assert question.endswith("? &lt;b&gt;")
    for table in (tmp_path).rglob("*.csv"):
        cells = [cell for row in rows_of(table) for cell in row.values()]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    config = ElementTree.fromstring((tmp_path / "label-studio" / "1-seen.xml").read_text())
    assert [choice.get("value") for choice in config.iter("Choice")] == list(SEEN.options)
    content = re.search(
        r'<script type="application/json" id="study">(.*?)</script>',
        (tmp_path / "bundle" / "index.html").read_text(),
        re.S,
    )
    assert json.loads(content[1]) == json.loads((tmp_path / "bundle" / "items.json").read_text())


@pytest.mark.parametrize(
    ("task", "tag"), [(SEEN, "Choices"), (TONE, "Choices"), (FIT, "Rating"), (PREFERENCE, "Pairwise")]
)
def test_label_studio_is_asked_with_the_tag_of_the_kind(runs, tmp_path, task, tag):
    export_study(make(runs, (task,)), runs, "label-studio", tmp_path / "out")
    (config,) = (tmp_path / "out").glob("*.xml")
    tree = ElementTree.fromstring(config.read_text())
    control = next(element for element in tree.iter(tag) if element.get("name") == "answer")
    shown = {element.get("name"): element.get("value") for element in tree.iter("Image")}
    assert set(control.get("toName").split(",")) <= set(shown)
    (tasks,) = (tmp_path / "out").glob("*.json")
    data = json.loads(tasks.read_text())[0]["data"]
    assert {value.removeprefix("$") for value in shown.values()} <= set(data)
    assert data["image0"].startswith("/data/local-files/?d=pictures/p")


# --------------------------------------------------------------------------------------------------------------- hits
def test_every_hit_has_a_known_answer_and_the_last_one_may_be_short(tmp_path):
    runs = [make_run(tmp_path / "run", limit=13)]
    items = draw_items(runs, SEEN, per_cell=None)
    gold = tmp_path / "gold.csv"
    gold.write_text(f"item,answer\n{items[0].item},yes\n{items[5].item},no\n")
    store = make(runs, (SEEN,), per_cell=None, gold=gold)
    export_study(store, runs, "mturk", tmp_path / "out", image_url="https://x/{name}", items_per_hit=4)
    hits = [[row[f"item{i}"] for i in range(5) if row[f"item{i}"]] for row in rows_of(tmp_path / "out" / "1-seen.csv")]
    checks = {key for key, position in item_keys(store).items() if store.study.items[position].check}
    assert [len(hit) for hit in hits] == [5, 5, 4]  # 11 of the study proper
    assert all(len(checks & set(hit)) == 1 for hit in hits)
    assert {key for hit in hits for key in hit} == set(item_keys(store))


def test_attention_checks_are_spread(tmp_path):
    runs = [make_run(tmp_path / "run", limit=12)]
    items = draw_items(runs, SEEN, per_cell=None)
    gold = tmp_path / "gold.csv"
    gold.write_text(
        f"item,answer,check\n{items[0].item},yes,attention\n{items[5].item},no,attention\n{items[7].item},no,qualification\n"
    )
    store = make(runs, (SEEN,), per_cell=None, gold=gold, attention_every=3)
    kinds = [store.study.items[q.position].check for q in questions(StudyView(store, runs))]
    assert kinds == ["qualification", *[None] * 3, "attention", *[None] * 3, "attention", *[None] * 3]


# ---------------------------------------------------------------------------------------------------- what is left out
def test_what_cannot_be_used_is_named_with_its_row_and_the_reason(runs, tmp_path):
    store = make(runs, (SEEN, NAMED, PREFERENCE))
    mine = {item.task: item.item for item in store.study.items}
    key = next(k for k, position in item_keys(store).items() if store.study.items[position].task == "seen")
    base = {"rater": "Ann", "task": ""}
    rows = [
        base | {"item": "nothing", "answer": "yes"},
        base | {"item": key, "answer": "perhaps"},
        base | {"item": key, "answer": ""},
        base | {"item": key, "answer": "yes", "rater": ""},
        base | {"item": key, "answer": "a dog", "task": "named"},
        base | {"item": mine["preference"], "answer": "left"},
        base | {"item": mine["preference"], "answer": "first"},
        base | {"item": mine["named"], "task": "fit", "answer": "1"},
        base | {"item": key, "answer": "yes"},
        base | {"item": key, "answer": "no"},
    ]
    put = import_ratings(store, write_rows(tmp_path / "a.csv", rows))
    assert put.n_votes == 2
    assert [where for where, _ in put.skipped] == [f"a.csv, row {n}" for n in (1, 2, 3, 4, 5, 6, 8, 9)]
    reasons = ["no item 'nothing'", "no answer to 'seen'", "no answer", "no rater", "of the task 'seen'",
               "first or second", "does not ask 'fit'", "row 10 is the same person's later"]  # fmt: skip
    for (_, why), reason in zip(put.skipped, reasons, strict=True):
        assert reason in why
    assert set(store.ratings()["answer"]) == {"first", "no"}


def test_an_item_of_several_tasks_needs_its_task(runs, tmp_path):
    store = make(runs, (SEEN, NAMED), per_cell=None)
    item = store.study.items[0].item
    rows = [{"item": item, "rater": "Ann", "answer": "yes"}]
    (why,) = [why for _, why in import_ratings(store, write_rows(tmp_path / "a.csv", rows)).skipped]
    assert "seen, named" in why


def test_rejected_assignments_are_left_out_and_counted(runs, tmp_path):
    store = make(runs, (SEEN,))
    written = export_study(store, runs, "mturk", tmp_path / "out", image_url="https://x/{name}")
    rows = batch(store, [path for path in written if path.suffix == ".csv"])
    rows[0]["AssignmentStatus"] = "Rejected"
    put = import_ratings(store, write_rows(tmp_path / "b.csv", rows))
    assert (put.n_rejected, put.n_raters) == (1, 1)
    assert put.skipped == (("b.csv, row 1", "a rejected assignment"),)


def test_whoever_fails_a_qualification_elsewhere_is_left_out_here(runs, tmp_path):
    items = draw_items(runs[:1], SEEN, per_cell=None)
    gold = tmp_path / "gold.csv"
    gold.write_text(f"item,answer,check\n{items[0].item},yes,qualification\n")
    store = make(runs[:1], (SEEN,), per_cell=None, gold=gold)
    rows = [
        {"item": item.item, "rater": rater, "answer": answer}
        for rater, answer in (("Ann", "yes"), ("Bob", "no"))
        for item in store.study.items
    ]
    import_ratings(store, write_rows(tmp_path / "a.csv", rows))
    assert set(ratings_of(runs[0]).table["rater"]) == {store.anonymous("Ann")}


def test_two_boxes_ticked_for_one_question_are_no_answer(runs, tmp_path):
    store = make(runs, (SEEN,))
    written = export_study(store, runs, "mturk", tmp_path / "out", image_url="https://x/{name}")
    row = batch(store, [path for path in written if path.suffix == ".csv"], wide=True)[0]
    row |= {"Answer.q0.yes": "true", "Answer.q0.no": "true", f"Answer.q0.{HOSTILE}": "false"}
    row |= {f"Answer.q1.{option}": "false" for option in SEEN.options}
    put = import_ratings(store, write_rows(tmp_path / "b.csv", [row]))
    assert put.skipped == (("b.csv, row 1, q0", "several answers: yes, no"), ("b.csv, row 1, q1", "no answer"))
    assert put.n_votes == len(store.study.items) - 2


def test_a_mended_answer_replaces_the_one_before_and_says_so(runs, tmp_path):
    store = make(runs, (SEEN,))
    item = store.study.items[0].item
    for answer in ("yes", "no"):
        put = import_ratings(store, write_rows(tmp_path / "a.csv", [{"item": item, "rater": "Ann", "answer": answer}]))
    assert put.n_replaced == put.n_votes == 1
    assert "'yes'" in put.skipped[0][0]
    assert store.ratings()["answer"].to_list() == ["no"]


MORNING, EVENING = "2024-05-01T08:00:00+02:00", "2024-05-01T07:00:00+00:00"  # an hour apart, and not in this order


@pytest.mark.parametrize(
    ("first", "second", "stands"),
    [
        (("yes", MORNING), ("no", EVENING), ("no", "2024-05-01T07:00:00.000+00:00")),
        (("(skipped)", EVENING), ("no", MORNING), (None, "2024-05-01T07:00:00.000+00:00")),
    ],
)
@pytest.mark.parametrize("files", [1, 2])
def test_the_later_of_two_answers_stands_in_whatever_order_they_come(runs, tmp_path, files, first, second, stands):
    for name, given in (("ab", (first, second)), ("ba", (second, first))):
        store = make(runs, (SEEN,), name=name)
        item = store.study.items[0].item
        rows = [{"item": item, "rater": "Ann", "answer": answer, "at": at} for answer, at in given]
        for each in [rows] if files == 1 else [[row] for row in rows]:
            put = import_ratings(store, write_rows(tmp_path / "a.csv", each))
        assert store.ratings().select("answer", "at").rows() == [stands]
        assert len(put.skipped) == 1
        assert "later answer" in put.skipped[0][1] or "replaced by" in put.skipped[0][1]
        assert put.n_unchanged == 0


@pytest.mark.parametrize(
    ("first", "second", "stands"),
    [("yes", "no", "yes"), ("(skipped)", "no", "no")],  # the last in the alphabet
)
def test_of_equal_times_in_a_file_the_same_answer_stands_in_any_order(runs, tmp_path, first, second, stands):
    for name, given in (("ab", (first, second)), ("ba", (second, first))):
        store = make(runs, (SEEN,), name=name)
        item = store.study.items[0].item
        rows = [{"item": item, "rater": "Ann", "answer": answer, "at": EVENING} for answer in given]
        import_ratings(store, write_rows(tmp_path / "a.csv", rows))
        assert store.ratings()["answer"].to_list() == [stands]


@pytest.mark.parametrize("answers", [("yes", "no"), ("no", "yes"), ("yes", "(skipped)")])
def test_an_answer_mended_in_a_file_keeps_its_time_and_replaces_the_one_before(runs, tmp_path, answers):
    store = make(runs, (SEEN,))
    item = store.study.items[0].item
    for answer in answers:
        rows = [{"item": item, "rater": "Ann", "answer": answer, "at": EVENING}]
        put = import_ratings(store, write_rows(tmp_path / "a.csv", rows))
    assert (put.n_votes, put.n_replaced) == (1, 1)
    assert "replaced by" in put.skipped[0][1]
    assert store.ratings()["answer"].to_list() == [None if answers[1] == "(skipped)" else answers[1]]


def test_without_times_the_later_row_stands(runs, tmp_path):
    store = make(runs, (SEEN,))
    item = store.study.items[0].item
    rows = [{"item": item, "rater": "Ann", "answer": answer} for answer in ("yes", "no")]
    import_ratings(store, write_rows(tmp_path / "a.csv", rows))
    assert store.ratings()["answer"].to_list() == ["no"]


def test_skipping_is_kept_and_contradictions_are_not(runs, tmp_path):
    store = make(runs, (PREFERENCE,))
    export_study(store, runs, "label-studio", tmp_path / "out")
    (path,) = (tmp_path / "out").glob("*.json")
    one, two = json.loads(path.read_text())[:2]
    both = [{"from_name": "answer", "value": {"selected": "left"}}, {"from_name": "tie", "value": {"choices": ["tie"]}}]
    one["annotations"] = [{"completed_by": 1, "result": [], "was_cancelled": True}]
    two["annotations"] = [{"completed_by": 1, "result": both, "was_cancelled": False}]
    path.write_text(json.dumps([one, two]))
    put = import_ratings(store, path)
    assert (put.n_votes, store.ratings()["answer"].to_list()) == (1, [None])
    assert put.skipped == ((f"{path.name}, task 2, annotation 1", "several answers: left, tie"),)


@pytest.mark.parametrize(
    ("options", "label", "meant"),
    [
        (("yes", "no"), "Yes ", "yes"),
        (("yes", "no"), "TRUE", "yes"),
        (("yes", "no"), "1", None),
        (("Yes", "YES"), "yes", None),
        (("Yes", "YES"), "YES", "YES"),
        (("true", "yes"), "TRUE", "true"),
        (("1", "2"), "2.0", "2"),
        (("1", "1.0"), "1.00", None),
        (("a", "b"), "TRUE", None),
    ],
)
def test_labels_match_only_where_one_option_can_be_meant(options, label, meant):
    task = RatingTask(name="t", question="?", kind="choice", options=options)
    assert option_of(task, label) == meant


# ------------------------------------------------------------------------------------------------------------- refusals
def test_exports_that_cannot_be_are_refused_and_leave_nothing(runs, tmp_path):
    store = make(runs, (SEEN,))
    out = tmp_path / "out"
    for kind, options, message in (
        ("paper", {}, "no export of kind 'paper'"),
        ("mturk", {}, "--image-url"),
        ("mturk", {"image_url": "https://x/"}, "lacks {name}"),
        ("mturk", {"image_url": "https://x/{name}", "items_per_hit": 0}, "at least 1"),
    ):
        with pytest.raises(UsageError, match=message):
            export_study(store, runs, kind, out, **options)
    first = runs[0].resolve(runs[0].read("images")["path"][0])
    for path in first.parent.glob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(UsageError, match="cannot be given away"):
        export_study(make(runs, (SEEN,), name="all", per_cell=None), runs, "table", out)
    assert not out.exists()
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="holds something"):
        export_study(store, runs, "table", out)
    assert (out / "mine.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "picture,said\n1,2\n", "neither answers of the page.*picture, said"),
        ("a.json", "{", "is not JSON"),
        ("a.json", '{"format": "other"}', "neither"),
        ("a.json", "[]", "neither"),
        ("a.txt", "x", "csv"),
    ],
)
def test_other_files_are_refused(runs, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        import_ratings(make(runs, (SEEN,)), tmp_path / name)


def test_a_file_is_taken_for_what_it_is(runs, tmp_path):
    store = make(runs, (SEEN,))
    (tmp_path / "a.csv").write_text("item,rater,answer\nx,Ann,yes\n")
    with pytest.raises(UsageError, match="of kind table, not mturk"):
        import_ratings(store, tmp_path / "a.csv", kind="mturk")
    with pytest.raises(UsageError, match="no import of kind"):
        import_ratings(store, tmp_path / "a.csv", kind="paper")
    with pytest.raises(UsageError, match="no such file"):
        import_ratings(store, tmp_path / "none.json")
