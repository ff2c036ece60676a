"""Names of earlier versions stay accepted wherever a name comes from a file or from a user."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import verism
from verism.cards import read_card, shipped_cards, write_card
from verism.errors import UsageError
from verism.metrics.retrieval import r_precision
from verism.specs import Presentation
from verism.store import Run
from verism.suites.catalogue import suite_class

STORED = Path(__file__).parent / "regressions" / "runs"


def test_stored_run_with_former_names_reads_with_todays_names():
    run = Run.open(STORED / "paintskills")

    assert {s.protocol for s in run.scores()} == {"released", "paper", "revised"}
    assert set(run.verdicts()["protocol"].unique()) == {"released", "paper", "revised"}
    assert "threshold_revised" in run.manifest.scoring.rules
    assert "threshold_corrected" not in run.manifest.scoring.rules


def test_stored_run_with_debiased_scores_reads_with_todays_metric_names():
    names = {s.metric for s in Run.open(STORED / "gender_presentation").scores()}

    assert "gep_score_debiased" in names
    assert not any(name.endswith("_corrected") for name in names)


def test_compare_takes_the_former_name_of_a_protocol():
    rows = verism.compare(STORED / "paintskills", STORED / "paintskills_b", protocol="corrected")

    assert {row.protocol for row in rows} == {"revised"}
    assert rows == verism.compare(STORED / "paintskills", STORED / "paintskills_b", protocol="revised")


def test_rule_by_its_former_name_sets_the_rule_of_today():
    suite = suite_class("paintskills").make({}).with_rules(threshold_corrected=0.25)

    assert suite.all_rules()["threshold_revised"] == 0.25
    assert suite_class("paintskills").make({"threshold_corrected": 0.25}).all_rules()["threshold_revised"] == 0.25


def test_rule_that_chooses_protocols_takes_their_former_names():
    suite = suite_class("social_bias_v1").make({})

    assert suite.with_rules(protocols="released, corrected").all_rules()["protocols"] == ["released", "revised"]
    assert suite.with_rules(protocols=["corrected"]).all_rules()["protocols"] == ["revised"]


def test_unknown_rule_is_still_refused_by_the_name_given():
    with pytest.raises(UsageError, match="no rule 'limit_corrected'"):
        suite_class("paintskills").make({}).with_rules(limit_corrected=0.25)


def test_presentation_of_an_earlier_version_has_todays_names():
    record = Presentation.of_record(suite_class("gender_presentation").make({}).presentation().record()).record()
    former = json.loads(json.dumps(record).replace('"revised"', '"corrected"').replace("_debiased", "_corrected"))
    assert former != record

    assert Presentation.of_record(former).record() == record


def test_judge_card_of_an_earlier_version_has_todays_names(tmp_path):
    card = next(c for c in shipped_cards() if c.role == "detector")
    write_card(card, tmp_path / "card.json")
    text = (tmp_path / "card.json").read_text(encoding="utf-8")
    former = text.replace('"revised"', '"corrected"').replace("threshold_revised", "threshold_corrected")
    assert former != text
    (tmp_path / "former.json").write_text(former, encoding="utf-8")

    assert read_card(tmp_path / "former.json") == card


def test_metrics_take_the_former_name_of_the_protocol():
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(2, 12, 4))

    former = r_precision(images, texts, pool=5, protocol="corrected")  # type: ignore[arg-type]
    np.testing.assert_array_equal(former.per_image, r_precision(images, texts, pool=5).per_image)
