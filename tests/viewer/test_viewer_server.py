"""The viewer's answers: what is shown of runs in any state, which images a query gives, and who is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from report_runs import build_run

from verism.errors import UsageError
from verism.imaging import encode_png
from verism.manifest import RunSettings
from verism.records import frame, make_image_id
from verism.specs import Presentation
from verism.store import Run
from verism.viewer.server import create_app, view

TestClient = pytest.importorskip("fastapi.testclient").TestClient
SELF = {"sec-fetch-site": "same-origin"}


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    build_run(folder / "a" / "strong", skill_level=0.8, limit=24, states={3: "refused", 5: "failed"}, truth=True)
    build_run(folder / "a" / "weak", skill_level=0.4, limit=24, states={3: "refused"})
    return folder


@pytest.fixture
def folder(template, tmp_path) -> Path:
    return shutil.copytree(template, tmp_path / "runs", copy_function=shutil.copyfile)


@pytest.fixture(scope="module")
def planned(template, tmp_path_factory) -> Path:
    """A folder with a plan, for tests that change no run in it."""
    folder = shutil.copytree(template, tmp_path_factory.mktemp("planned") / "runs")
    make_plan_folder(folder)
    return folder


def client(folder: Path, **headers: str) -> TestClient:
    made = TestClient(create_app(folder), base_url="http://127.0.0.1:8123")
    made.headers.update(SELF | headers)
    return made


def get(folder: Path, path: str, status: int = 200, **params):
    reply = client(folder).get(path, params=params)
    assert reply.status_code == status, reply.text
    return reply.json()


def everything(folder: Path, run: str = "a/strong", **params) -> list[str]:
    """All ids of a query, page by page."""
    app = client(folder)
    found: list[str] = []
    with_size = {"size": 7, **params}
    while True:
        reply = app.get("/api/images", params={"run": run, "offset": len(found), **with_size})
        assert reply.status_code == 200, reply.text
        page = reply.json()
        found += [image["image_id"] for image in page["images"]]
        if len(found) >= page["total"]:
            assert len(found) == page["total"]
            return found


# ------------------------------------------------------------------------------------------------------- list and run
def test_list_shows_runs_with_headlines_as_the_run_has_them_and_pages(folder):
    (folder / "board.html").write_text("<h1>Board</h1>", encoding="utf-8")
    record = get(folder, "/api/runs")
    assert {run["key"] for run in record["runs"]} == {"a/strong", "a/weak"}
    assert [page["key"] for page in record["pages"]] == ["board.html"]
    for shown in record["runs"]:
        run = Run.open(folder / shown["key"])
        assert (shown["state"], shown["progress"]["done"], shown["progress"]["asked"]) == ("scored", 24, 24)
        assert [s["value"] for s in shown["headlines"]] == [pytest.approx(v) for v in run.metrics().values()]
        for score in shown["headlines"]:
            assert score["ci_low"] <= score["value"] <= score["ci_high"]


def test_reports_in_runs_are_pages_of_their_run_and_not_of_the_list(folder):
    for name in ("a/strong/report/index.html", "a/strong/mine.html"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("<h1>Report</h1>", encoding="utf-8")
    assert get(folder, "/api/runs")["pages"] == []
    pages = get(folder, "/api/run", run="a/strong")["pages"]
    assert [page["key"] for page in pages] == ["a/strong/mine.html", "a/strong/report/index.html"]
    assert get(folder, "/api/run", run="a/weak")["pages"] == []
    assert client(folder).get("/pages/a/strong/report/index.html").text == "<h1>Report</h1>"


def test_groups_of_scores_lead_to_images_by_facets_that_prompts_have():
    app = client(STORED)
    seen = set()
    for name in ("social_bias", "gender_presentation", "paintskills"):
        record = app.get("/api/run", params={"run": name}).json()
        rows = [row for p in record["tables"] for row in record["tables"][p] + record["breakdowns"][p]]
        groups = sorted({tuple(sorted(row["facets"].items())) for row in rows})
        kinds = [tuple(k for k, _ in facets) for facets in groups]
        for number, facets in enumerate(groups):
            if kinds[:number].count(kinds[number]) > 2:  # three groups of each kind
                continue
            chosen = {"run": name, "size": 1, "facet": [f"{k}={v}" for k, v in facets]}
            reply = app.get("/api/images", params=chosen)
            assert reply.status_code == 200, (name, facets, reply.text)
            assert reply.json()["total"] > 0 or len(facets) > 1
            seen.add((name, bool(facets)))
    # Groups of social bias are also of what was perceived, which no prompt asks for.
    assert {("paintskills", True), ("social_bias", False), ("social_bias", True)} <= seen


# -------------------------------------------------------------------------------------------------------------- plans
def make_plan_folder(folder: Path, **changes) -> Path:
    """The folder of a plan over both runs, one pair of which failed."""
    plan = folder / "plan"
    for model in ("strong", "weak"):
        shutil.copytree(folder / "a" / model, plan / "runs" / f"{model}-paintskills")
    names = ("strong", "weak", "gone")
    pair = {"suite": "paintskills", "column": "paintskills", "reference": False}
    record = {
        "format": "verism-plan", "version": 1, "title": "June <b>",
        "pairs": [{**pair, "model": name} for name in names],
        "rows": [{"name": name, "reference": False} for name in names],
        "columns": [{"name": "paintskills", "suite": "paintskills"}],
    }  # fmt: skip
    (plan / "plan.json").write_text(json.dumps(record | changes), encoding="utf-8")
    (plan / "status").mkdir()
    for name, state, reason in (("strong", "done", ""), ("gone", "failed", "no such <i>model</i>")):
        status = {
            "pair": f"{name}-paintskills",
            "model": name,
            "suite": "paintskills",
            "state": state,
            "reason": reason,
        }
        (plan / "status" / f"{name}-paintskills.json").write_text(json.dumps(status), encoding="utf-8")
    return plan


def test_plan_is_listed_with_its_pairs_by_state_and_why_some_failed(folder):
    make_plan_folder(folder)
    [plan] = get(folder, "/api/runs")["plans"]
    assert (plan["key"], plan["title"], plan["pairs"]) == ("plan", "June <b>", 3)
    assert plan["counts"] == {"done": 1, "waiting": 1, "failed": 1}
    assert plan["failed"] == [{"pair": "gone-paintskills", "reason": "no such <i>model</i>"}]


def test_board_of_a_plan_is_made_of_its_runs_as_they_are_now_and_links_to_them(folder):
    plan = make_plan_folder(folder)
    app = client(folder)
    reply = app.get("/board", params={"plan": "plan"})
    assert reply.status_code == 200
    assert "June &lt;b&gt;" in reply.text
    assert "no such <i>" not in reply.text
    assert 'href="/#/run?run=plan%2Fruns%2Fstrong-paintskills"' in reply.text
    assert reply.headers["content-security-policy"].startswith("sandbox")
    data = re.search(r'<script type="application/json" id="board">(.*?)</script>', reply.text, re.S)
    shown = {row["name"]: row for row in json.loads(data[1])["rows"]}
    for model in ("strong", "weak"):
        values = {s.metric: s.value for s in Run.open(plan / "runs" / f"{model}-paintskills").headlines()}
        cell = next(c for k, c in shown[model]["cells"].items() if k.endswith(":mean_accuracy"))
        assert cell["score"]["value"] == pytest.approx(values["mean_accuracy"])
    shutil.rmtree(plan / "runs" / "weak-paintskills")
    shutil.copytree(plan / "runs" / "strong-paintskills", plan / "runs" / "weak-paintskills")
    assert app.get("/board", params={"plan": "plan"}).text != reply.text


@pytest.mark.parametrize("key", ["", "..", "/", "a", "a/strong", "plan/runs", "plan/../plan", "../runs/plan"])
def test_board_by_any_other_name_is_not_found(planned, key):
    assert get(planned, "/board", 404, plan=key)["error"]


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "null", "{}", '{"format": "verism-plan"}', '{"format": "verism-plan", "pairs": [7], "rows": 3}',
        '{"format": "verism-plan", "pairs": {}, "rows": [{"name": []}]}',
    ],
)  # fmt: skip
def test_damaged_plan_is_told_and_the_rest_stays(planned, tmp_path, content):
    folder = tmp_path / "runs"
    shutil.copytree(planned / "plan", folder / "plan", ignore=shutil.ignore_patterns("*.png"))
    (folder / "plan" / "plan.json").write_text(content, encoding="utf-8")
    record = get(folder, "/api/runs")
    assert len(record["runs"]) == 2
    assert len(record["plans"]) == 1
    reply = client(folder).get("/board", params={"plan": "plan"})
    assert reply.status_code in (400, 409, 422)
    assert reply.json()["error"]


def test_plan_reads_nothing_outside_the_folder_by_links_and_no_device(folder, tmp_path):
    outside = shutil.copytree(folder / "a" / "strong", tmp_path / "outside")
    plan = make_plan_folder(folder, rows=[{"name": "people", "reference": True, "scores": "/dev/zero"}])
    assert "is not a file" in get(folder, "/board", 400, plan="plan")["error"]
    shutil.rmtree(plan / "runs" / "weak-paintskills")
    (plan / "runs" / "weak-paintskills").symlink_to(outside, target_is_directory=True)
    assert "leads out of the folder" in get(folder, "/board", 400, plan="plan")["error"]
    assert "plan/runs/weak-paintskills" not in {run["key"] for run in get(folder, "/api/runs")["runs"]}


def test_links_that_lead_out_of_the_folder_are_not_followed(folder, tmp_path):
    outside = shutil.copytree(folder / "a" / "strong", tmp_path / "outside")
    (outside / "report").mkdir()
    (outside / "report" / "index.html").write_text("secret", encoding="utf-8")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    half = shutil.copytree(folder / "a" / "weak", folder / "half")
    (half / "manifest.json").unlink()
    (half / "manifest.json").symlink_to(outside / "manifest.json")
    (folder / "a" / "strong" / "report").symlink_to(outside / "report", target_is_directory=True)
    (folder / "board.html").symlink_to(outside / "report" / "index.html")
    record = get(folder, "/api/runs")
    assert {run["key"] for run in record["runs"]} == {"a/strong", "a/weak"}
    assert record["pages"] == get(folder, "/api/run", run="a/strong")["pages"] == []
    for name in ("board.html", "linked/report/index.html", "a/strong/report/index.html"):
        assert client(folder).get(f"/pages/{name}").status_code == 404


def test_folder_that_is_a_run_itself_is_listed(template):
    assert [run["name"] for run in get(template / "a" / "strong", "/api/runs")["runs"]] == ["strong"]
    assert get(template / "a" / "strong", "/api/images", run=".")["total"] == 24


def test_run_that_is_at_work_shows_how_far_it_is(folder):
    done = Run.open(folder / "a" / "strong")
    run = Run.start(folder / "new", done.manifest.settings)
    run.write_prompts(done.prompts())
    images = done.read("images")
    run.append("images", images.head(10))
    run.append("detections", frame("detections", [{"image_id": images["image_id"][0], "judge": "d", "query": -1}]), "d")
    shown = get(folder, "/api/run", run="new")
    assert (shown["state"], shown["active"], shown["progress"]["done"]) == ("generating", True, 10)
    assert shown["progress"]["judged"] == [{"table": "detections", "judge": "d", "images": 1}]
    app = client(folder)
    assert app.get("/api/images", params={"run": "new"}).json()["total"] == 10
    run.append("images", images.tail(14))  # two workers may do an image twice
    run.append("images", images.slice(8, 3))
    assert app.get("/api/images", params={"run": "new"}).json()["total"] == 24
    record = app.get("/api/run", params={"run": "new"}).json()
    assert (record["state"], record["progress"]["done"]) == ("judging", 24)
    assert app.get("/api/filters", params={"run": "new"}).status_code == 200


def test_score_tables_say_what_the_run_s_scores_say(template):
    record = get(template, "/api/run", run="a/strong")
    run = Run.open(template / "a" / "strong")
    n = {p: len([s for s in run.scores() if s.protocol == p and not s.adjusted]) for p in record["tables"]}
    assert {p: len(record["tables"][p]) + len(record["breakdowns"][p]) for p in n} == n
    assert record["limits"]
    provenance = get(template, "/api/provenance", run="a/strong")
    rows = {row["name"]: row["values"][0] for section in provenance["sections"] for row in section["rows"]}
    assert rows["images asked for"] == "24"


# --------------------------------------------------------------------------------------- filters, against eager polars
def eager(folder: Path, run: str = "a/strong") -> pl.DataFrame:
    opened = Run.open(folder / run)
    prompts = pl.DataFrame(
        [
            {"prompt_id": p.prompt_id, "text": p.text, **{k: str(v) for k, v in p.facets.items()}}
            for p in opened.prompts()
        ]
    )
    verdicts = opened.verdicts().filter(pl.col("protocol") == "revised")
    chosen = verdicts.filter(pl.col("rule") == "accuracy").select("image_id", "value", "reason")
    return opened.read("images").join(prompts, on="prompt_id", how="left").join(chosen, on="image_id", how="left")


@pytest.mark.parametrize(
    ("params", "condition"),
    [
        ({}, pl.lit(value=True)),
        ({"outcome": "wrong"}, pl.col("value") == 0),
        ({"outcome": "right"}, pl.col("value") == 1),
        ({"outcome": "unusable"}, pl.col("value").is_null()),
        ({"outcome": "wrong", "rule": "accuracy"}, pl.col("value") == 0),
        ({"state": "refused"}, pl.col("state") == "refused"),
        ({"facet": ["skill=count"]}, pl.col("skill") == "count"),
        ({"facet": ["skill=count", "object=dog"]}, (pl.col("skill") == "count") & (pl.col("object") == "dog")),
        ({"facet": ["skill=count"], "outcome": "right"}, (pl.col("skill") == "count") & (pl.col("value") == 1)),
        ({"q": "PHOTO"}, pl.col("text").str.contains("(?i)photo") | pl.col("reason").str.contains("(?i)photo")),
        ({"reason": "found 2"}, pl.col("reason").str.contains("found 2", literal=True)),
        ({"judge": "detections/fake-detector@1"}, pl.col("state") == "ok"),
        ({"judge": "!detections/fake-detector@1"}, pl.col("state") != "ok"),
    ],
)  # fmt: skip
def test_query_chooses_what_whole_tables_say_page_by_page(template, params, condition):
    expected = eager(template).filter(condition).sort("image_id")["image_id"].to_list()
    assert everything(template, **params) == expected
    assert params == {} or 0 < len(expected) < 24 or len(params.get("facet", ())) == 2


def test_order_by_value_and_its_reverse(folder):
    run = Run.open(folder / "a" / "strong")
    rows = run.read("images")["image_id"]
    values = np.random.default_rng(0).permutation(len(rows)).astype(float)
    graded = frame(
        "verdicts",
        [
            {"image_id": i, "prompt_id": i.partition("#")[0], "protocol": "revised", "rule": "likeness",
             "value": None if v == 7 else v / 100, "reason": ""}
            for i, v in zip(rows, values, strict=True)
        ],
    )  # fmt: skip
    run.write_verdicts(pl.concat([run.verdicts(), graded]))
    rising = everything(folder, rule="likeness", order="value")
    assert rising == [i for v, i in sorted(zip(values, rows, strict=True)) if v != 7] + [rows[list(values).index(7)]]
    assert everything(folder, rule="likeness", order="-value")[:-1] == rising[:-1][::-1]
    names = {
        row["rule"]: row for row in get(folder, "/api/filters", run="a/strong")["rules"] if row["protocol"] == "revised"
    }
    assert (names["likeness"]["binary"], names["likeness"]["unusable"], names["accuracy"]["binary"]) == (False, 1, True)


def test_filters_name_facets_rules_and_reasons_with_their_numbers(folder):
    record = get(folder, "/api/filters", run="a/strong")
    table = eager(folder)
    skills = {v["value"]: v["prompts"] for f in record["facets"] if f["facet"] == "skill" for v in f["values"]}
    assert skills == dict(table["skill"].value_counts().iter_rows())
    assert record["states"] == dict(table["state"].value_counts().iter_rows())
    assert record["protocols"][0] == "revised"
    reason = record["reasons"][0]
    assert len(everything(folder, reason=reason["reason"])) >= 1
    assert "detections/truth" in record["judges"]


def test_outcome_needs_a_rule_where_none_says_right_or_wrong(folder):
    run = Run.open(folder / "a" / "strong")
    record = json.loads(json.dumps(run.presentation().record()))
    for pairing in record["pairings"]:
        pairing["right_or_wrong"] = False
    run.write_presentation(Presentation.of_record(record))
    assert "choose a rule" in get(folder, "/api/images", 400, run="a/strong", outcome="wrong")["error"]
    chosen = get(folder, "/api/images", run="a/strong", outcome="wrong", rule="right_classes")
    assert chosen["total"] > 0
    # Other rules than those that say right or wrong order and choose images, and call none wrong.
    assert {image["outcome"] for image in chosen["images"]} == {""}
    assert {image["verdicts"][0]["rule"] for image in chosen["images"]} == {"right_classes"}
    assert {image["outcome"] for image in get(folder, "/api/images", run="a/strong")["images"]} == {""}
    assert get(folder, "/api/run", run="a/strong")["right_or_wrong"] is False


STORED = Path(__file__).parents[1] / "regressions" / "runs"


@pytest.mark.parametrize("name", sorted(path.parent.name for path in STORED.glob("*/manifest.json")))
def test_stored_run_of_every_suite_is_shown(name):
    app = client(STORED)
    filters = app.get("/api/filters", params={"run": name}).json()
    page = app.get("/api/images", params={"run": name, "boxes": 1}).json()
    assert page["total"] == Run.open(STORED / name).read("images").height
    image = app.get("/api/image", params={"run": name, "id": page["images"][0]["image_id"]}).json()
    shown = {row["rule"] for rows in image["by_protocol"].values() for row in rows}
    assert shown <= {row["rule"] for row in filters["rules"]}
    assert app.get("/api/run", params={"run": name}).json()["state"] == "scored"
    for row in filters["rules"][:2]:
        total = 0
        for outcome in ("right", "wrong", "unusable", "undecided"):
            chosen = {"run": name, "protocol": row["protocol"], "rule": row["rule"], "outcome": outcome, "size": 1}
            total += app.get("/api/images", params=chosen).json()["total"]
        whole = {"run": name, "protocol": row["protocol"], "rule": row["rule"], "size": 1}
        assert total == app.get("/api/images", params=whole).json()["total"]


@pytest.mark.parametrize(
    "params",
    [
        {"protocol": "none"}, {"rule": "none"}, {"outcome": "good"}, {"judge": "detections/../.."}, {"order": "value"},
        {"order": "random"}, {"facet": ["nonsense=1"]}, {"facet": ["noequals"]}, {"size": 0}, {"size": 10**6},
        {"offset": -1}, {"offset": "x"}, {"q": "x" * 501},
    ],
)  # fmt: skip
def test_query_of_what_the_run_does_not_have_is_refused_with_a_reason(template, params):
    assert get(template, "/api/images", 400, run="a/strong", **params)["error"]


def test_image_says_why_it_is_wrong_what_was_observed_and_what_is_beside_it(template):
    wrong = everything(template, outcome="wrong")
    record = get(template, "/api/image", run="a/strong", id=wrong[1], outcome="wrong")
    assert (record["outcome"], record["position"], record["total"]) == ("wrong", 1, len(wrong))
    assert (record["previous"], record["next"]) == (wrong[0], wrong[2])
    first = record["by_protocol"]["revised"][0]
    expected = eager(template).filter(pl.col("image_id") == wrong[1]).row(0, named=True)
    assert (first["says"], first["rule"], first["reason"]) == ("wrong", "accuracy", expected["reason"])
    run = Run.open(template / "a" / "strong")
    seen = run.read("detections", "fake-detector@1").filter((pl.col("image_id") == wrong[1]) & (pl.col("query") >= 0))
    judged = next(o for o in record["observed"] if o["judge"] == "fake-detector@1")
    assert [b["x0"] for b in judged["boxes"]] == seen.sort("score", descending=True, maintain_order=True)[
        "x0"
    ].to_list()
    assert record["file"] == "same"
    outside = get(template, "/api/image", run="a/strong", id=wrong[0], outcome="right")
    assert (outside["position"], outside["next"]) == (None, None)
    assert get(template, "/api/image", 404, run="a/strong", id="none")["error"]


def test_file_that_changed_since_the_run_was_made_is_told(folder):
    run = Run.open(folder / "a" / "strong")
    row = run.read("images").filter(pl.col("state") == "ok").row(0, named=True)
    run.resolve(row["path"]).write_bytes(encode_png(np.zeros((9, 9, 3), np.uint8)))
    assert get(folder, "/api/image", run="a/strong", id=row["image_id"])["file"] == "changed"
    run.resolve(row["path"]).unlink()
    assert get(folder, "/api/image", run="a/strong", id=row["image_id"])["file"] == "gone"


# ------------------------------------------------------------------------------------------------------------ two runs
def test_pairs_come_by_size_of_disagreement_with_counts_of_what_is_left_out(template):
    record = get(template, "/api/compare", a="a/strong", b="a/weak", size=100)
    a, b = eager(template), eager(template, "a/weak")
    joined = a.select("image_id", "value").join(b.select("image_id", "value"), on="image_id", suffix="_b")
    difference = joined["value_b"] - joined["value"]
    assert record["counts"] == {
        "pairs": 24,
        "usable": 24 - difference.null_count(),
        "first": (difference < 0).sum(),
        "second": (difference > 0).sum(),
        "equal": (difference == 0).sum(),
        "unusable": difference.null_count(),
        "only_first": 0,
        "only_second": 0,
    }
    sizes = [abs(p["difference"]) if p["difference"] is not None else -1 for p in record["pairs"]]
    assert sizes == sorted(sizes, reverse=True)
    assert all(p["a"]["image_id"] == p["b"]["image_id"] == p["image_id"] for p in record["pairs"])
    last = [p for p in record["pairs"] if p["difference"] is None]
    assert [p["second"] is not None for p in last] == sorted([p["second"] is not None for p in last], reverse=True)
    assert get(template, "/api/compare", a="a/strong", b="a/weak", show="first")["total"] == record["counts"]["first"]
    same = get(template, "/api/compare", a="a/strong", b="a/strong")["counts"]
    assert (same["equal"], same["first"], same["second"]) == (24 - a["value"].null_count(), 0, 0)


def test_runs_that_cannot_be_paired_are_refused(folder):
    run = Run.open(folder / "a" / "weak")
    prompts = pl.read_parquet(run.path / "prompts.parquet")
    prompts.with_columns(pl.lit("another prompt").alias("text")).write_parquet(run.path / "prompts.parquet")
    assert "24 of 24 prompts" in get(folder, "/api/compare", 400, a="a/strong", b="a/weak")["error"]
    prompts.with_columns(pl.col("prompt_id") + "x").write_parquet(run.path / "prompts.parquet")
    assert "no prompt in common" in get(folder, "/api/compare", 400, a="a/strong", b="a/weak")["error"]
    assert get(folder, "/api/compare", 400, a="a/strong", b="a/strong", rule="none")["error"]
    Run.start(folder / "other", RunSettings(suite="another"))
    assert "not paired" in get(folder, "/api/compare", 400, a="a/strong", b="other")["error"]


# ------------------------------------------------------------------------------------------------------------- images
def thumbnail(folder: Path, image_id: str, status: int = 200, **params):
    reply = client(folder).get("/thumbnail", params={"run": "a/strong", "id": image_id, **params})
    assert reply.status_code == status, reply.text
    return reply


def test_thumbnail_is_small_plain_and_kept_by_content(folder):
    run = Run.open(folder / "a" / "strong")
    row = run.read("images").filter(pl.col("state") == "ok").row(0, named=True)
    path = run.resolve(row["path"])
    large = Image.fromarray(np.random.default_rng(0).integers(0, 255, (900, 600, 3), np.uint8))
    exif = Image.Exif()
    exif[0x010E] = "secret prompt"
    exif[0x0112] = 6  # turned by a quarter
    large.save(path, format="JPEG", exif=exif)
    reply = thumbnail(folder, row["image_id"])
    assert "secret" not in reply.content.decode("latin-1")
    shown = Image.open(io.BytesIO(reply.content))
    assert (shown.size, shown.format) == ((240, 160), "JPEG")
    assert reply.headers["cache-control"] == "private, no-cache"
    again = client(folder).get(
        "/thumbnail",
        params={"run": "a/strong", "id": row["image_id"]},
        headers={"if-none-match": reply.headers["etag"]},
    )
    assert (again.status_code, again.content) == (304, b"")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = thumbnail(folder, row["image_id"], v=digest[:16])
    assert "immutable" in named.headers["cache-control"]
    assert thumbnail(folder, row["image_id"], 400, side=100_000)


def test_thumbnail_of_what_a_run_may_not_name_is_not_found(folder):
    Image.fromarray(np.full((8, 8, 3), 9, np.uint8)).save(folder / "a" / "secret.png")
    run = Run.open(folder / "a" / "strong")
    (run.path / "note.txt").write_text("no image", encoding="utf-8")
    (run.path / "images" / "link.png").symlink_to(folder / "a" / "secret.png")
    os.mkfifo(folder / "fifo")
    names = ["../secret.png", "images/../../../secret.png", "/dev/zero", "a\x00b", "images/link.png", "note.txt"]
    names += [str(folder / "fifo"), str(folder / "a")]
    images = run.read("images")
    first = images["image_id"][0]
    part = next((run.path / "images").glob("part-*.parquet"))
    for named in names:
        renamed = pl.when(pl.col("image_id") == first).then(pl.lit(named)).otherwise("path").alias("path")
        images.with_columns(renamed).write_parquet(part)
        assert thumbnail(folder, first, 404).json()["error"], named
        shown = get(folder, "/api/image", run="a/strong", id=first)["file"]
        assert shown == ("changed" if named == "note.txt" else "gone"), named


def test_user_images_lie_where_the_run_s_table_says_and_nowhere_else(folder, tmp_path):
    outside = tmp_path / "mine.png"
    Image.fromarray(np.full((8, 8, 3), 9, np.uint8)).save(outside)
    run = Run.open(folder / "a" / "strong")
    row = run.read("images").filter(pl.col("state") == "ok").head(1).with_columns(pl.lit(str(outside)).alias("path"))
    run.forget("images", row["image_id"].to_list())
    run.append("images", row)
    assert thumbnail(folder, row["image_id"][0]).headers["content-type"] == "image/jpeg"
    assert thumbnail(folder, str(outside), 404)
    assert thumbnail(folder, "../../mine.png", 404)


# ------------------------------------------------------------------------------------------------------------- guards
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}, 403),
        ({}, 200),
    ],
)
def test_other_hosts_and_sites_read_nothing(template, headers, status):
    for path in ("/api/runs", "/api/images?run=a/strong", "/static/app.js"):
        assert client(template).get(path, headers=headers).status_code == status, path


def test_nothing_can_be_changed_and_headers_protect_every_reply(template):
    app = client(template)
    for method in ("post", "put", "delete", "patch"):
        assert getattr(app, method)("/api/runs").status_code in (403, 405)
    for path in ("/", "/api/runs", "/api/run?run=none", "/static/style.css"):
        headers = app.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
    with pytest.raises(UsageError, match="lets others in"):
        view(template, host="0.0.0.0")
    with pytest.raises(UsageError, match="not a folder"):
        create_app(template / "none")


def test_pages_are_those_found_below_the_folder(folder):
    (folder.parent / "secret.html").write_text("secret", encoding="utf-8")
    (folder / "link.html").symlink_to(folder.parent / "secret.html")
    (folder / ".hidden.html").write_text("secret", encoding="utf-8")
    app = client(folder)
    names = ("../secret.html", "/etc/passwd", "%2e%2e/secret.html", "a/strong/manifest.json", "link.html")
    for name in (*names, ".hidden.html"):
        reply = app.get(f"/pages/{name}")
        assert reply.status_code == 404, name
        assert reply.text != "secret"


def test_pages_and_reports_are_shut_off_from_everything_else(planned):
    (planned / "board.html").write_text("<script>fetch('/api/runs')</script>", encoding="utf-8")
    app = client(planned, **{"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"})
    for path in ("/pages/board.html", "/report?run=a/strong", "/board?plan=plan"):
        reply = app.get(path)
        assert reply.status_code == 200
        policy = reply.headers.get_list("content-security-policy")
        assert len(policy) == 1
        assert policy[0].startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in policy[0]
        assert "default-src 'none'" in policy[0]
    assert (
        client(planned, **{"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"}).get("/report").status_code
        == 403
    )


@pytest.mark.parametrize("key", ["", "..", "../runs/a/strong", "/etc", "a/strong/", "a//strong", "none", "a"])
def test_run_by_any_other_name_is_not_found(template, key):
    for path in ("/api/run", "/api/images", "/api/filters", "/api/provenance", "/report"):
        assert get(template, path, 404, run=key)["error"]


# ------------------------------------------------------------------------------------------------------ damaged runs
@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    for name in ("strong", "weak"):
        build_run(folder / "a" / name, skill_level=0.8, limit=4, truth=True)
    return folder


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _scrambled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 4 : len(data) // 2] = b"\xff" * (len(data) // 2 - len(data) // 4)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "damage", [_cut, _scrambled, lambda path: path.write_bytes(b""), lambda path: path.write_text("{}")]
)
@pytest.mark.parametrize(
    "file", ["manifest.json", "prompts.parquet", "images/part-*.parquet", "verdicts.parquet", "scores.parquet",
             "presentation.json", "observations/detections/fake-*/part-*.parquet"],
)  # fmt: skip
def test_damaged_run_is_shown_as_such_and_the_rest_stays(small, tmp_path, file, damage):
    folder = shutil.copytree(small, tmp_path / "runs", copy_function=shutil.copyfile)
    broken = folder / "a" / "strong"
    in_scoring = file in ("verdicts.parquet", "scores.parquet", "presentation.json")
    damage(Run.open(broken).scoring_file(file) if in_scoring else next(broken.glob(file)))
    app = client(folder)
    runs = {run["key"]: run for run in app.get("/api/runs").json()["runs"]}
    assert runs["a/weak"]["state"] == "scored"
    told = runs["a/strong"]["state"] == "damaged"
    assert not told or runs["a/strong"]["error"]
    image_id = everything(folder, "a/weak")[0]
    for path, params in (
        ("/api/run", {}), ("/api/provenance", {}), ("/api/filters", {}), ("/api/images", {"boxes": 1}),
        ("/api/image", {"id": image_id}), ("/thumbnail", {"id": image_id}), ("/report", {}),
        ("/api/compare", {"a": "a/strong", "b": "a/weak"}), ("/api/cautions", {"a": "a/strong", "b": "a/weak"}),
    ):  # fmt: skip
        reply = app.get(path, params={"run": "a/strong", **params})
        assert reply.status_code in (200, 400, 404, 409, 422), (path, reply.status_code)
        if reply.status_code != 200:
            told = True
            assert reply.json()["error"]
    assert told


def test_text_of_runs_comes_as_json_and_is_never_a_page(folder):
    run = Run.start(folder / "hostile", RunSettings(suite="<b>s", generator="<script>1</script>"))
    prompts = Run.open(folder / "a" / "weak").prompts()[:1]
    run.write_prompts(prompts)
    row = {"image_id": make_image_id(prompts[0].prompt_id, 0), "prompt_id": prompts[0].prompt_id, "index": 0}
    run.append("images", frame("images", [row | {"state": "<i>", "note": "</script>"}]))
    for path in ("/api/run", "/api/images", "/api/filters"):
        reply = client(folder).get(path, params={"run": "hostile"})
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
        json.loads(reply.text)
