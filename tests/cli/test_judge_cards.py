"""``verism judge card RUN``, ``show`` and ``merge``, from the command line to files and words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fakes import PixelJudge

from verism import api
from verism.cards import find_measured, read_card, shipped_cards
from verism.store import Run

JUDGE = "pixel-judge@1"


def blind(image: str) -> bool:
    return int(image.rpartition("_")[2].partition("#")[0]) % 5 == 0


def judged(path, scripted, *, error=0.5, seed=3, limit=60, **options) -> Run:
    return api.evaluate(
        "paintskills", model=scripted(error), detector=PixelJudge(name=JUDGE, wrong=blind), skills=("object",),
        limit=limit, seed=seed, out=path, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, Path]:
    """The run of all tests, once one of them has made it."""
    return {}


@pytest.fixture
def run(tmp_path, tmp_path_factory, scripted, made) -> Run:
    if not made:
        made["run"] = judged(tmp_path_factory.mktemp("made") / "run", scripted).path
    shutil.copytree(made["run"], tmp_path / "run")
    return Run.open(tmp_path / "run")


def test_from_a_run_to_a_card_to_revised_scores(run, tmp_path, scripted, in_process):
    code, out, err = in_process(
        "judge", "card", run.path, "--from", "truth", "--by", "object", "--out", tmp_path / "c.json"
    )
    assert code == 0, err
    assert "truly  right" in out
    card = read_card(tmp_path / "c.json")
    assert (card.judge, card.kind) == (JUDGE, "rendered")
    assert {"skill", "object"} in [set(m.group) for m in card.measured]

    judged(tmp_path / "second", scripted, error=0.2, seed=8)
    code, out, err = in_process("score", tmp_path / "second", "--correct", "rendered", "--card", tmp_path / "c.json")
    assert code == 0, err
    assert "second, adjusted by rendered images" in out
    [row] = [
        a
        for a in Run.open(tmp_path / "second").adjustments()
        if (a["metric"], a["protocol"]) == ("accuracy", "revised")
    ]
    assert row["method"] == "judge card"
    assert row["n_labels"] == 60
    assert row["judged"] < row["value"]

    code, out, err = in_process(
        "report", tmp_path / "second", "--card", tmp_path / "c.json", "--gallery", "0", "--out", tmp_path / "r.html"
    )
    assert code == 0, err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "60 images for 60 prompts of paintskills" in page
    assert "error rates of this judge have not been measured" not in page
    in_process("report", tmp_path / "second", "--gallery", "0", "--out", tmp_path / "without.html")
    assert "error rates of this judge have not been measured" in (tmp_path / "without.html").read_text(encoding="utf-8")


def test_another_limit_than_the_cards_gives_no_revised_number(run, tmp_path, in_process):
    in_process("judge", "card", run.path, "--from", "truth", "--out", tmp_path / "c.json")
    code, _, err = in_process(
        "score", run.path, "--threshold", "0.8", "--correct", "rendered", "--card", tmp_path / "c.json"
    )
    assert code == 0, err
    rows = {a["protocol"]: a for a in Run.open(run.path).adjustments() if a["metric"] == "accuracy"}
    assert rows["revised"]["value"] is None
    assert "threshold_revised=0.5" in rows["revised"]["note"]
    assert rows["paper"]["value"] is not None


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("rendered", {"judge": "another@2"}, "of the detector another@2; the run's detector is pixel-judge@1"),
        ("human", {}, "no error rates for --correct human: it is of kind rendered"),
        ("rendered", {"measured": []}, "no error rates for --correct rendered"),
    ],
)
def test_a_card_that_says_nothing_of_the_run_is_refused_and_no_other_takes_its_place(
    run, tmp_path, in_process, kind, change, message
):
    in_process("judge", "card", run.path, "--from", "truth", "--out", tmp_path / "c.json")
    card = json.loads((tmp_path / "c.json").read_text(encoding="utf-8")) | change
    (tmp_path / "c.json").write_text(json.dumps(card), encoding="utf-8")
    code, _, err = in_process("score", run.path, "--correct", kind, "--card", tmp_path / "c.json")
    assert code == 2
    assert message in err
    assert not any(score.adjusted for score in Run.open(run.path).scores())


def test_a_card_of_a_role_that_the_run_does_not_have_may_stand_beside_one_that_is_used(run, tmp_path, in_process):
    in_process("judge", "card", run.path, "--from", "truth", "--out", tmp_path / "c.json")
    card = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    (tmp_path / "tones.json").write_text(json.dumps(card | {"role": "skin_tone", "judge": "t@1"}), encoding="utf-8")
    given = ("--card", tmp_path / "tones.json")
    code, _, err = in_process("score", run.path, "--correct", "rendered", *given)
    assert code == 2
    assert "of the skin_tone t@1; the run's skin_tone is none" in err
    code, _, err = in_process("score", run.path, "--correct", "rendered", "--card", tmp_path / "c.json", *given)
    assert code == 0, err
    assert any(score.adjusted for score in Run.open(run.path).scores())


def test_json_has_the_rates_of_every_table(run, tmp_path, in_process):
    code, out, err = in_process("judge", "card", run.path, "--from", "truth", "--out", tmp_path / "c.json", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["judge"] == JUDGE
    assert {m["protocol"] for m in result["measured"]} == {"revised", "released", "paper"}
    code, out, _ = in_process("judge", "show", tmp_path / "c.json", "--json")
    assert code == 0
    assert json.loads(out)[0]["measured"] == result["measured"]


def test_cards_that_come_along_are_shown_by_name(tmp_path, in_process):
    code, out, err = in_process("judge", "show", "detector-builtin")
    assert code == 0, err
    assert "builtin:paintskills-detector@" in out
    assert "limits:" in out
    code, out, err = in_process("judge", "show", "detector-builtin", "--html", tmp_path / "card.html")
    assert code == 0, err
    assert out.strip() == str(tmp_path / "card.html")
    assert "How often does this judge err" in (tmp_path / "card.html").read_text(encoding="utf-8")
    code, _, err = in_process("judge", "show", "no-such-card")
    assert code == 2
    assert "no-such-card" in err


def test_merging_adds_up(tmp_path, scripted, in_process):
    judged(tmp_path / "run", scripted)
    judged(tmp_path / "more", scripted, seed=4)
    for name in ("run", "more"):
        in_process("judge", "card", tmp_path / name, "--from", "truth", "--out", tmp_path / f"{name}.json")
    both = tmp_path / "both.json"
    code, out, err = in_process("judge", "merge", tmp_path / "run.json", tmp_path / "more.json", "--out", both)
    assert code == 0, err
    assert "of 120 items" in out
    group = {"skill": "object"}
    tables = [
        find_measured([read_card(tmp_path / f"{n}.json")], JUDGE, "accuracy", "revised", group=group)
        for n in ("run", "more", "both")
    ]
    counts = [t[1].counts for t in tables if t is not None]
    assert [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(*counts[:2], strict=True)] == [
        list(row) for row in counts[2]
    ]
    code, _, err = in_process("judge", "merge", both, tmp_path / "run.json", "--out", tmp_path / "no.json")
    assert code == 2
    assert "twice" in err
    other = next(c for c in shipped_cards() if c.role == "detector")
    assert other.judge != JUDGE
    code, _, err = in_process("judge", "merge", both, "detector-builtin", "--out", tmp_path / "no.json")
    assert code == 2
    assert "one judge" in err
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN"], "--from is missing"),
        (["RUN", "--from", "truth", "--judge", "builtin"], "without a run"),
        (["RUN", "--from", "human"], "verism annotate"),
        (["RUN", "--from", "truth", "--role", "vqa"], "'vqa'"),
        (["RUN", "--from", "truth", "--by", "light"], "no facet 'light'"),
        (["--from", "truth"], "about a run"),
        (["--role", "skin_tone", "--judge", "cascade"], "--truth"),
        (["--role", "vqa", "--judge", "x", "--truth", "x.csv"], "only cards of skin_tone"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_said(run, tmp_path, in_process, arguments, words):
    values = [run.path if a == "RUN" else a for a in arguments]
    code, _, err = in_process("judge", "card", *values, "--out", tmp_path / "c.json")
    assert code == 2
    assert words in err
    assert not (tmp_path / "c.json").exists()
