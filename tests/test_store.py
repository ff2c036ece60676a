"""Run directories: written whole or not at all, read the same whatever was killed, refused by name."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import verism.store.run as store_run
from verism.errors import UsageError, VerismError
from verism.manifest import RunSettings, Scoring
from verism.records import Prompt, Scene, SceneObject, Score, frame
from verism.store import TRUTH, Run, SettingsChanged, score_records, slug
from verism.store.ledger import SEGMENT, Ledger, _Merged

SETTINGS = RunSettings(
    suite="paintskills", generator="images:x", suite_settings={"a": 1, "nested": {"b": [1, 2], "c": 0}}
)


def image_rows(*ids: str, state: str = "ok") -> pl.DataFrame:
    return frame("images", [{"image_id": i, "prompt_id": i, "index": 0, "state": state, "note": ""} for i in ids])


def boxes(*ids: str, judge: str = "j@1", n: int = 2) -> pl.DataFrame:
    """A looked-at row and n boxes per image, in the judge's order."""
    return frame(
        "detections",
        [
            {"image_id": i, "judge": judge, "query": q, "score": 0.9 - 0.1 * q, "class_scores": [0.1, 0.9]}
            for i in ids
            for q in range(-1, n)
        ],
    )


@pytest.fixture
def run(tmp_path) -> Run:
    return Run.start(tmp_path / "run", SETTINGS)


# -------------------------------------------------------------------------------------------------------------- opening
def test_a_run_is_resumed_with_the_same_settings(run):
    again = Run.start(run.path, replace(SETTINGS, suite_settings=dict(reversed(SETTINGS.suite_settings.items()))))
    assert again.manifest == run.manifest
    assert json.loads((run.path / "manifest.json").read_text())["schema_version"] == 3
    assert run.manifest.environment.packages["numpy"]


def test_a_run_that_another_process_begins_meanwhile_is_gone_on_with(tmp_path, monkeypatch):
    exists, others = Path.exists, []

    def late(path, **options):
        if path.name == "manifest.json" and not others:
            others.append(None)
            others.append(Run.start(tmp_path / "run", SETTINGS))
            return False
        return exists(path, **options)

    monkeypatch.setattr(Path, "exists", late)
    assert Run.start(tmp_path / "run", SETTINGS).manifest.uid == others[-1].manifest.uid


def test_of_processes_that_say_at_once_how_a_run_will_be_scored_the_first_counts(run, monkeypatch):
    write = store_run.write_scoring

    def late(draft, before, **options):
        write(replace(draft, scoring=Scoring(rules={"threshold": 0.4})), None)  # of another process
        return write(draft, before, **options)

    monkeypatch.setattr(store_run, "write_scoring", late)
    run.expect_scoring(Scoring(rules={"threshold": 0.6}))
    assert run.manifest.scoring.rules == Run.open(run.path).manifest.scoring.rules == {"threshold": 0.4}
    assert len(list((run.path / "scorings").iterdir())) == 1


def test_how_a_run_will_be_scored_is_known_to_those_who_opened_it_before(run):
    Run.open(run.path).expect_scoring(Scoring(rules={"threshold": 0.4}))
    run.expect_scoring(Scoring(rules={"threshold": 0.6}))
    assert run.manifest.scoring.rules == {"threshold": 0.4}


def test_other_settings_are_refused_and_each_difference_named(run):
    changed = replace(SETTINGS, seed=3, suite_settings={"a": 1, "nested": {"b": [1, 5], "c": 0}, "extra": True})
    with pytest.raises(SettingsChanged) as err:
        Run.start(run.path, changed)
    text = str(err.value)
    assert "seed: 0 there, 3 now" in text
    assert "suite_settings.nested.b: [1, 2] there, [1, 5] now" in text
    assert "suite_settings.extra: None there, True now" in text
    assert "suite:" not in text
    assert "suite_settings.a" not in text
    assert "nested.c" not in text


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="not a run directory"):
        Run.start(tmp_path, SETTINGS)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(UsageError, match="not a run directory"):
        Run.start(tmp_path / "thesis.txt", SETTINGS)


def test_an_empty_directory_and_one_killed_at_its_first_file_are_taken(tmp_path):
    (tmp_path / ".manifest.json.17.ab.tmp").write_text('{"schema_ver')
    assert Run.start(tmp_path, SETTINGS).manifest.settings == SETTINGS


def test_opening_what_is_no_run(tmp_path):
    with pytest.raises(UsageError, match=r"no manifest\.json"):
        Run.open(tmp_path)
    with pytest.raises(UsageError, match=r"nowhere is not a run directory: there is nothing of this name"):
        Run.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1, 2]", b"{}", b"\xff\xfe\x00", b'{"schema_version": 1}', b'{"schema_version": 1, "settings": 3}'],
)
def test_damaged_manifests_are_named(run, content):
    (run.path / "manifest.json").write_bytes(content)
    for use in (Run.open, lambda p: Run.start(p, SETTINGS)):
        with pytest.raises(UsageError, match=r"manifest\.json is damaged"):
            use(run.path)


def test_other_schema_versions_are_refused_by_number(run):
    manifest = json.loads((run.path / "manifest.json").read_text())
    (run.path / "manifest.json").write_text(json.dumps(manifest | {"schema_version": 5}))
    with pytest.raises(UsageError, match="run schema 5; this version of verism reads schemas 1 to 4"):
        Run.open(run.path)


def test_what_is_noted_adds_up_and_does_not_enter_the_settings(run):
    run.note_scoring(judges={"detector": "j@1"})
    run.note_scoring(rules={"threshold": 0.5}, remarks=["few images"])
    run.note_generator({"revision": "abc"})
    again = Run.start(run.path, SETTINGS)
    assert again.manifest.scoring == Scoring(
        judges={"detector": "j@1"}, rules={"threshold": 0.5}, remarks=("few images",)
    )
    assert again.manifest.generator == {"revision": "abc"}
    assert again.manifest.settings.hash() == SETTINGS.hash()


# -------------------------------------------------------------------------------------------------------------- prompts
def test_prompts_come_back_as_they_were(run, prompts):
    odd = Prompt(
        prompt_id="odd",
        suite="paintskills",
        text='"quoted", Ünïcode \u2028 and\nlines',
        facets={"skill": "object", "n": 3, "share": 0.5, "none": None},
        spec={"labels": ["a"], "deep": {"x": [1, None]}},
        n_images=4,
        scene=Scene(
            scene_id="odd",
            skill="object",
            split="val",
            text="t",
            background="empty",
            objects=(SceneObject(shape="dog", label="dog", rotation=(0.0, 1.5, -90.0), scale=0.1 + 0.2, state="up"),),
            seed=2**63 - 1,
        ),
    )
    bare = Prompt(prompt_id="bare", suite="s", text="")
    run.write_prompts([*prompts, odd, bare])
    assert Run.open(run.path).prompts() == [*prompts, odd, bare]
    run.write_prompts([bare])  # a resumed run keeps what it has
    assert len(run.prompts()) == len(prompts) + 2


def test_a_run_stopped_before_its_prompts_says_so(run):
    with pytest.raises(VerismError, match="stopped before its prompts"):
        run.prompts()


# ---------------------------------------------------------------------------------------------------------------- parts
def test_parts_are_put_together_by_image(run):
    assert run.read("images").height == 0
    run.append("images", image_rows("c", "d"))
    run.append("images", image_rows("b", "a"))
    assert run.read("images")["image_id"].to_list() == ["a", "b", "c", "d"]


def test_boxes_keep_the_judges_order_within_an_image(run):
    run.append("detections", boxes("b", "a", n=3), "j@1")
    assert run.read("detections", "j@1").select("image_id", "query").rows() == [
        (i, q) for i in "ab" for q in (-1, 0, 1, 2)
    ]


def test_leftover_temporary_files_are_no_parts(run):
    run.append("images", image_rows("a"))
    (run.path / "images" / ".part-0123.parquet.9.ff.tmp").write_bytes(b"PAR1 half of a fi")
    assert run.read("images").height == 1


def test_a_part_that_cannot_be_written_leaves_nothing(run, monkeypatch):
    def broken(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="no space"):
        run.append("images", image_rows("a"))
    monkeypatch.undo()
    assert list((run.path / "images").iterdir()) == []
    assert run.read("images").height == 0


def test_images_that_two_workers_did_count_once_and_as_the_same_for_every_reader(run):
    ids = [f"p#{n}" for n in range(40)]
    run.append("images", image_rows(*ids, state="failed"))
    run.append("images", image_rows(*ids[::-1]))
    rows = run.read("images")
    assert rows["image_id"].to_list() == sorted(ids)
    # Which one counts is a matter of chance, and of nothing that would favour a state.
    assert 5 < rows.filter(pl.col("state") == "ok").height < 35
    assert run.read("images", columns=["state", "image_id"]).equals(rows.select("state", "image_id"))
    assert run.read("images", columns=["state"]).equals(rows.select("state"))
    other = Run.start(run.path.with_name("other"), SETTINGS)
    other.append("images", image_rows(*ids))
    other.append("images", image_rows(*ids, state="failed"))
    run.compact("images")
    assert other.read("images").equals(rows)
    assert Run.open(run.path).read("images").equals(rows)
    assert run.append("images", image_rows()) is None


def test_overlapping_batches_of_two_workers_count_once(run):
    run.append("detections", boxes("a", "b", n=2), "j@1")
    run.append("detections", boxes("b", "c", n=2), "j@1")
    rows = run.read("detections", "j@1")
    assert rows.group_by("image_id").len().sort("image_id").rows() == [("a", 3), ("b", 3), ("c", 3)]
    assert run.read("detections", "j@1", columns=["query"]).equals(rows.select("query"))


def test_columns_of_another_table_are_refused(run):
    with pytest.raises(ValueError, match="table 'images' has columns"):
        run.append("images", boxes("a"))
    with pytest.raises(ValueError, match="kept per judge"):
        run.append("detections", boxes("a"))
    shuffled = image_rows("a")
    with pytest.raises(ValueError, match="has columns"):
        run.append("images", shuffled.select(reversed(shuffled.columns)))


@pytest.mark.parametrize("bound", [False, True])
def test_files_without_a_later_column_are_read_with_nulls_and_grow(run, bound):
    seen = {"judge": "j", "face": 0, "tone": 5, "tone_probability": 0.5}
    rows = frame("skin_tones", [{"image_id": i, **seen} for i in "abcd"])
    images = dict.fromkeys("abcd", "0" * 64) if bound else None
    if bound:
        run.append("images", image_rows(*"abcd").with_columns(sha256=pl.lit("0" * 64)))
    run.append("skin_tones", rows[:1], "j", images=images)
    (path,) = run._part_paths(run._folder("skin_tones", "j"))
    before = pl.read_parquet(run.path / path).drop("tone_probability")
    run._write_part(run._folder("skin_tones", "j"), before, replaced=[path])
    for _ in range(2):  # a file of before alone, then with one of today beside it
        read = run.read("skin_tones", "j")
        assert read.columns == list(rows.columns)
        assert read["tone_probability"][0] is None
        assert run.read("skin_tones", "j", columns=["face", "tone_probability"])["tone_probability"][0] is None
        assert run.read("skin_tones", "j", columns=["tone"]).columns == ["tone"]
        scanned = run.scan("skin_tones", "j").collect()
        assert scanned.select(rows.columns).equals(read)
        run.append("skin_tones", rows[1:], "j", images=images)
    assert read["tone_probability"].to_list() == [None, 0.5, 0.5, 0.5]
    run.compact("skin_tones", "j")
    assert len(run._part_paths(run._folder("skin_tones", "j"))) == 1
    assert run.read("skin_tones", "j").equals(read)


def test_compacting_changes_nothing_but_the_number_of_files(run):
    for ids in ("ab", "bc", "d"):
        run.append("detections", boxes(*ids), "j@1")
    before = run.read("detections", "j@1")
    run.compact("detections", "j@1")
    assert run.read("detections", "j@1").equals(before)
    assert len(list((run.path / "observations").rglob("*.parquet"))) == 1
    run.compact("detections", "j@1")
    assert run.read("detections", "j@1").equals(before)


def test_compacting_that_was_killed_half_way_reads_the_same(run, monkeypatch):
    for ids in ("ab", "c", "d"):
        run.append("detections", boxes(*ids), "j@1")
    before = run.read("detections", "j@1")

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        run.compact("detections", "j@1")
    monkeypatch.undo()
    assert len(list((run.path / "observations").rglob("*.parquet"))) == 4  # the whole and its three parts
    assert run.read("detections", "j@1").equals(before)
    run.compact("detections", "j@1")
    assert run.read("detections", "j@1").equals(before)
    assert len(list((run.path / "observations").rglob("*.parquet"))) == 1


def test_reading_while_another_worker_compacts(run, monkeypatch):
    for ids in ("ab", "c"):
        run.append("images", image_rows(*ids))
    read, other = pl.read_parquet, Run.open(run.path)

    def slow(path, **options):
        monkeypatch.setattr(pl, "read_parquet", read)
        other.compact("images")  # between the listing of the parts and their reading
        return read(path, **options)

    monkeypatch.setattr(pl, "read_parquet", slow)
    assert run.read("images")["image_id"].to_list() == ["a", "b", "c"]


def test_forgotten_images_are_gone_and_the_others_stay(run):
    for ids in ("ab", "cd"):
        run.append("images", image_rows(*ids))
    run.forget("images", ["b", "c", "never seen"])
    assert run.read("images")["image_id"].to_list() == ["a", "d"]
    run.forget("images", ["a", "d"])
    assert run.read("images").height == 0
    run.forget("images", ["a"])


def test_judges_are_told_apart_and_the_renderer_is_none(run):
    names = ["transformers:PekingU/rtdetr@abc", "transformers:PekingU-rtdetr@abc"]
    for name in names:
        run.append("detections", boxes("a", judge=name), name)
    run.append("detections", boxes("a", judge="truth"), TRUTH)
    assert sorted(run.judges("detections")) == sorted(names)
    assert run.has_truth("detections")
    assert run.read("detections", names[0])["judge"].unique().to_list() == names[:1]


# -------------------------------------------------------------------------------------------------------------- images
def test_images_lie_in_the_run_under_names_of_their_own(run):
    path = run.write_image("object_val_00001#0", b"png")
    assert path.startswith("images/object_val_00001-0")
    assert run.resolve(path).read_bytes() == b"png"
    assert run.resolve("/elsewhere/x.png") == Path("/elsewhere/x.png")


def test_slugs_are_file_names_and_never_shared():
    names = ["a/b", "a-b", "a b", "a#b", "ä-b", "-a-b-", "a//b", "", ".", "..", "/", "x", "x" * 80, "x" * 81, "x" * 82]
    names += ["猫", "犬", "con:1", "a\nb", "../../etc/passwd", ".hidden"]
    slugs = [slug(n) for n in names]
    assert len(set(slugs)) == len(names)
    for s in slugs:
        assert s
        assert s == os.path.basename(s)
        assert not s.startswith(".")
        assert len(s) <= 90
    assert slug("object_val_00001") == "object_val_00001"


# --------------------------------------------------------------------------------------------------- verdicts, scores
def score(**changes) -> Score:
    plain = Score(
        suite="s",
        metric="accuracy",
        protocol="paper",
        value=0.5,
        ci_low=0.1,
        ci_high=0.9,
        n_used=4,
        n_unusable=0,
        group={"skill": "count", "count": 2},
    )
    return replace(plain, **changes)


def test_scores_come_back_and_undefined_is_null(run):
    undefined = score(value=math.nan, ci_low=math.nan, ci_high=math.inf, n_used=0, n_unusable=4, higher_is_better=None)
    run.write_scores([score(), undefined])
    first, second = run.scores()
    assert first == score()
    assert math.isnan(second.value)
    assert math.isnan(second.ci_high)
    assert (second.n_used, second.n_unusable, second.higher_is_better) == (0, 4, None)
    text = (run.path / "scores.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    record = json.loads(text)[1]
    assert (record["value"], record["ci_low"], record["ci_high"]) == (None, None, None)
    assert json.loads(text) == score_records([score(), undefined])
    assert set(record) >= {"suite", "metric", "protocol", "group", "value", "ci_low", "ci_high", "n_used", "n_unusable"}
    assert json.loads(text)[0]["group"] == {"skill": "count", "count": 2}


def test_scores_that_are_not_there_say_how_to_get_them(run):
    with pytest.raises(VerismError, match="verism run"):
        run.scores()
    with pytest.raises(VerismError, match="verism score"):
        run.verdicts()


def test_verdicts_are_sorted_so_that_equal_ones_are_equal_bytes(run):
    rows = [
        {"image_id": i, "prompt_id": i, "protocol": p, "rule": "accuracy", "value": None, "reason": "r"}
        for i in "ab"
        for p in ("paper", "released")
    ]
    run.write_verdicts(frame("verdicts", rows))
    first = run.scoring_file("verdicts.parquet").read_bytes()
    run.write_verdicts(frame("verdicts", rows[::-1]))
    assert run.scoring_file("verdicts.parquet").read_bytes() == first
    assert run.verdicts()["value"].null_count() == 4


def test_nothing_in_a_run_is_a_pickle(run, prompts):
    run.write_prompts(prompts)
    run.append("images", image_rows("a"))
    run.append("detections", boxes("a"), "j@1")
    run.write_scores([score()])
    kinds = {p.suffix for p in run.path.rglob("*") if p.is_file()}
    assert kinds == {".json", ".parquet"}
    for path in run.path.rglob("*.parquet"):
        assert path.read_bytes()[:4] == b"PAR1"


def test_pinned_run_scans_the_verdicts_it_holds_on_to(tmp_path):
    run = Run.start(tmp_path / "run", RunSettings(suite="mine"))
    rows = [{"image_id": "p#0", "prompt_id": "p", "protocol": "revised", "rule": "right", "value": 1.0}]
    assert run.pinned().scan("verdicts").collect().is_empty()
    run.write_verdicts(frame("verdicts", rows))
    pinned = run.pinned()
    run.write_verdicts(frame("verdicts", [{**rows[0], "value": 0.0}]))
    assert pinned.scan("verdicts").collect()["value"].to_list() == [1.0]
    assert run.scan("verdicts").collect()["value"].to_list() == [0.0]
    assert pinned.scan("verdicts", keys=["q#0"]).collect().is_empty()


# --------------------------------------------------------------------------------------------------------------- growth
def test_what_a_part_costs_does_not_depend_on_how_many_there_are(run, monkeypatch):
    opened: list[str] = []
    segment, checked = Ledger.segment, Run.checked
    monkeypatch.setattr(Ledger, "segment", lambda self, path: opened.append(path.name) or segment(self, path))
    monkeypatch.setattr(Run, "checked", lambda self, path, known: opened.append(path) or checked(self, path, known))
    merged = []
    monkeypatch.setattr(_Merged, "listing", lambda self: merged.append(len(self.paths)))
    other, seen, costs = Run.open(run.path), set(), []
    other.images_since(seen)
    for number in range(3 * SEGMENT):
        run.append("images", image_rows(f"i{number}"))
        opened.clear()
        assert other.images_since(seen) == {f"i{number}": None}
        costs.append(len(opened))
    assert max(costs) == 2  # the segment that grew, and the new part
    assert not merged  # the whole of the ledger was never put together


def test_parts_of_many_rows_are_large_however_well_they_are_compressed(run, monkeypatch):
    monkeypatch.setattr("verism.store.run.PART_ROWS", 30)
    for number in range(11):
        run.append("detections", boxes(f"i{number:02d}", n=5), "j@1")
    before = run.read("detections", "j@1")
    run.compact("detections", "j@1")
    parts = sorted((run.path / "observations").rglob("part-*.parquet"))
    assert sorted(pl.read_parquet(part).height for part in parts) == [6, 30, 30]
    run.append("detections", boxes("i99", n=5), "j@1")
    run.compact("detections", "j@1")
    left = sorted((run.path / "observations").rglob("part-*.parquet"))
    assert sorted(pl.read_parquet(part).height for part in left) == [12, 30, 30]
    assert len(set(left) & set(parts)) == 2
    assert run.read("detections", "j@1").filter(pl.col("image_id") != "i99").equals(before)


def test_parts_that_are_large_are_not_written_again_when_others_are_added(run, monkeypatch):
    first = run.append("detections", boxes(*(f"x{number}" for number in range(20)), n=40), "other")
    monkeypatch.setattr("verism.store.run.PART_BYTES", 2 * first.stat().st_size)
    written: dict[str, int] = {}
    write = Run._write_part

    def counted(self, folder, rows, **options):
        for image in rows["image_id"].unique().to_list():
            written[image] = written.get(image, 0) + 1
        return write(self, folder, rows, **options)

    monkeypatch.setattr(Run, "_write_part", counted)
    ids = [f"i{number:03d}" for number in range(200)]
    for start in range(0, len(ids), 5):
        run.append("detections", boxes(*ids[start : start + 5], n=40), "j@1")
        if start % 25 == 20:  # a run that is resumed often
            run.compact("detections", "j@1")
    parts = sorted((run.path / "observations").rglob("part-*.parquet"))
    assert 2 < len(parts) < 20
    assert max(written.values()) <= 3  # as they come, and with others until the part is large enough
    assert run.read("detections", "j@1")["image_id"].unique().sort().to_list() == ids
    assert run.read("detections", "j@1", keys=["i007"]).equals(
        run.read("detections", "j@1").filter(pl.col("image_id") == "i007")
    )
    assert run.scan("detections", "j@1", keys=["i007", "i190"]).collect().height == 2 * 41


def hashed_images(*ids: str, version: str = "1") -> pl.DataFrame:
    return image_rows(*ids).with_columns((pl.col("image_id") + version * 64).str.head(64).alias("sha256"))


def test_a_few_images_observations_are_those_of_the_whole_table(run):
    """Whatever two workers did twice, of whichever version of an image, and whether parts were put together."""
    first, other = hashed_images("a", "b", "c"), hashed_images("c", "d", version="2")
    for rows, version, n in ((first, "1", 2), (other, "2", 3), (first, "1", 4)):
        bound = {i: (i + version * 64)[:64] for i in rows["image_id"]}
        run.append("detections", boxes(*rows["image_id"], n=n), "j@1", images=bound)
        run.append("images", rows)
    reader = Run.open(run.path)

    def check() -> None:
        whole = reader.read("detections", "j@1")
        assert whole["image_id"].n_unique() >= 4
        some = ["label", "query"]
        assert reader.read("detections", "j@1", columns=some).equals(whole.select(some))
        for few in (["a"], ["c"], ["b", "c"], ["d", "a"], ["none"], list("abcd")):
            expected = whole.filter(pl.col("image_id").is_in(few))
            assert reader.read_few("detections", "j@1", few).equals(expected), few

    check()
    run.append("detections", boxes("e", n=5), "j@1")
    check()
    run.compact("detections", "j@1")
    run.compact("images")
    check()


def test_asking_for_a_few_images_opens_each_part_once_and_then_only_those_that_hold_them(run, monkeypatch):
    for number in range(40):
        run.append("detections", boxes(f"i{number:02d}"), "j@1", images={f"i{number:02d}": "0" * 64})
        run.append("images", image_rows(f"i{number:02d}").with_columns(sha256=pl.lit("0" * 64)))
    reader, opened = Run.open(run.path), []
    part = Run._part
    monkeypatch.setattr(Run, "_part", lambda self, path, hashes: opened.append(path) or part(self, path, hashes))
    reader.read_few("detections", "j@1", ["i07"])
    opened.clear()
    for number in range(40):
        assert reader.read_few("detections", "j@1", [f"i{number:02d}"])["image_id"].unique().to_list() == [
            f"i{number:02d}"
        ]
    assert len(opened) == 80  # of the observations one part, and one of the list of images


def test_a_part_that_is_put_together_between_two_looks_is_found_again(run, monkeypatch):
    for ids in ("ab", "cd"):
        run.append("detections", boxes(*ids), "j@1", images=None)
    reader, other = Run.open(run.path), Run.open(run.path)
    with_keys = Run._parts_with

    def compacted_meanwhile(self, table, judge, keys):
        paths = with_keys(self, table, judge, keys)
        if self is reader:
            monkeypatch.setattr(Run, "_parts_with", with_keys)
            other.compact("detections", "j@1")
        return paths

    monkeypatch.setattr(Run, "_parts_with", compacted_meanwhile)
    assert reader.read_few("detections", "j@1", ["c"])["image_id"].to_list() == ["c"] * 3


def test_forgetting_writes_only_the_parts_that_hold_what_is_forgotten(run):
    parts = [run.append("images", image_rows(*ids)) for ids in ("ab", "cd", "ef")]
    run.forget("images", ["c"])
    assert [part.exists() for part in parts] == [True, False, True]
    assert run.read("images")["image_id"].to_list() == list("abdef")
    assert run.keys("images") == set("abdef")


def test_forgetting_while_another_worker_compacts_leaves_nothing(run, monkeypatch):
    for ids in ("ab", "cd", "ef"):
        run.append("images", image_rows(*ids))
    grouped, other = Run._grouped, Run.open(run.path)

    def compacted_meanwhile(self, paths, sizes):
        monkeypatch.setattr(Run, "_grouped", grouped)
        other.compact("images")
        return grouped(self, paths, sizes)

    monkeypatch.setattr(Run, "_grouped", compacted_meanwhile)
    run.forget("images", ["c", "f"])
    assert Run.open(run.path).read("images")["image_id"].to_list() == list("abde")


def test_of_two_processes_that_begin_a_run_at_once_both_go_on_with_one_manifest(tmp_path, monkeypatch):
    path, settings, others = tmp_path / "run", RunSettings(suite="mine"), []
    write = store_run.write_new

    def late(file, data):
        if not others:
            others.append(None)
            others.append(Run.start(path, settings).manifest.uid)
        return write(file, data)

    monkeypatch.setattr(store_run, "write_new", late)
    assert Run.start(path, settings).manifest.uid == others[1] == Run.open(path).manifest.uid
