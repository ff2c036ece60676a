"""Judge cards as files: what goes in comes out, what cannot be is refused, and counts of one judge add up."""

import json
from dataclasses import replace

import pytest

from verism.cards import (
    JudgeCard,
    Measured,
    find_measured,
    main_tables,
    merge_cards,
    read_card,
    shipped_cards,
    write_card,
)
from verism.errors import UsageError


def table(**more) -> Measured:
    described = {
        "task": "gender",
        "protocol": "revised",
        "labels": ("man", "woman"),
        "counts": ((8, 2), (1, 9)),
    } | more
    return Measured(**described)


def card(*tables: Measured, **more) -> JudgeCard:
    described = {
        "judge": "j@1",
        "role": "vqa",
        "kind": "human",
        "ground_truth": "20 images",
        "made": {"seed": 1},
    } | more
    return JudgeCard(measured=tables or (table(),), **described)


def test_a_card_comes_back_from_its_file_the_same(tmp_path):
    full = card(
        table(unusable=(1, 0), group={"attribute": "a skirt", "count": 2}, scores=((0, 0.25), (1, 0.75))),
        made={"verism": "1", "rules": {"unsure": 0.1}},
    )
    write_card(full, tmp_path / "new" / "card.json")
    assert read_card(tmp_path / "new" / "card.json") == full
    first = (tmp_path / "new" / "card.json").read_bytes()
    write_card(full, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == first


@pytest.mark.parametrize(
    "more",
    [
        {"labels": ("man", "man")},
        {"labels": ("man",), "counts": ((1,),)},
        {"counts": ((1, 2),)},
        {"counts": ((1, 2), (3, -1))},
        {"unusable": (1,)},
        {"unusable": (1, -1)},
        {"scores": ((2, 0.5),)},
        {"scores": ((1, float("nan")),)},
    ],
)
def test_tables_that_cannot_be_are_refused(more):
    with pytest.raises(ValueError):
        table(**more)


def test_files_that_are_no_cards_are_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"nothing\.json: no such file; expected a judge card"):
        read_card(tmp_path / "nothing.json")
    file = tmp_path / "card.json"
    write_card(card(), file)
    record = json.loads(file.read_text())
    for content, words in (
        ("{", "not JSON"),
        ("[]", "no judge card"),
        (json.dumps(record | {"version": 9}), "version 9"),
        (json.dumps(record | {"kind": "guessed"}), "guessed"),
        (json.dumps({k: v for k, v in record.items() if k != "judge"}), "judge"),
    ):
        file.write_text(content)
        with pytest.raises(UsageError, match=words):
            read_card(file)


def test_a_table_is_found_by_everything_that_it_is_about():
    fine = table(group={"light": "dark"})
    known = [card(table(), fine), card(table(protocol="paper"), kind="rendered")]
    assert find_measured(known, "j@1", "gender", "revised") == (known[0], known[0].measured[0])
    assert find_measured(known, "j@1", "gender", "revised", group={"light": "dark"}) == (known[0], fine)
    assert find_measured(known, "j@1", "gender", "paper") == (known[1], known[1].measured[0])
    assert find_measured(known, "j@1", "gender", "paper", kind="human") is None
    assert find_measured(known, "j@2", "gender", "revised") is None
    assert find_measured(known, "j@1", "tone", "revised") is None


def test_the_main_tables_hold_every_item_once():
    by_skill = [table(task="accuracy", group={"skill": s}) for s in ("count", "object")]
    finer = table(task="accuracy", group={"skill": "count", "object": "dog"})
    assert main_tables(card(*by_skill, finer, table(), table(group={"light": "dark"}))) == [*by_skill, table()]


def test_counts_of_one_judge_add_up():
    a = card(table(unusable=(1, 0), scores=((0, 0.2),)), table(protocol="paper"), made={"seed": 1, "rules": {"u": 1}})
    turned = table(labels=("woman", "man"), counts=((5, 0), (4, 3)), scores=())
    b = card(turned, table(group={"light": "dark"}), ground_truth="12 others", made={"seed": 2, "rules": {"u": 1}})
    both = merge_cards([a, b])
    result = find_measured([both], "j@1", "gender", "revised")
    assert result is not None
    # men: 8 + 3 called men, 2 + 4 women; women: 1 + 0 called men, 9 + 5 women
    assert result[1].labels == ("man", "woman")
    assert result[1].counts == ((11, 6), (1, 14))
    assert result[1].unusable == (1, 0)
    assert result[1].scores == ((0, 0.2),)
    assert [(m.protocol, dict(m.group)) for m in both.measured] == [
        ("revised", {}),
        ("paper", {}),
        ("revised", {"light": "dark"}),
    ]
    assert both.ground_truth == "20 images; 12 others"
    assert both.made == {"merged": [{"seed": 1, "rules": {"u": 1}}, {"seed": 2, "rules": {"u": 1}}], "rules": {"u": 1}}
    alike = merge_cards([card(), card(table(counts=((1, 0), (0, 1))), made={"seed": 2})])
    assert alike.ground_truth == "2 times 20 images"
    third = merge_cards([both, card(made={"seed": 3, "rules": {"u": 1}}, ground_truth="third")])
    assert [m["seed"] for m in third.made["merged"]] == [1, 2, 3]


def test_only_what_belongs_together_is_merged():
    one, other = card(), card(table(counts=((1, 0), (0, 1))), made={"seed": 2})
    with pytest.raises(UsageError, match="two or more"):
        merge_cards([one])
    for change, words in (
        ({"judge": "j@2"}, "judge"),
        ({"kind": "rendered"}, "kind of truth"),
        ({"role": "skin_tone"}, "role"),
        ({"made": {"seed": 2, "rules": {"unsure": 0.2}}}, "rules"),
    ):
        with pytest.raises(UsageError, match=words):
            merge_cards([one, replace(other, **change)])
    with pytest.raises(UsageError, match="twice"):
        merge_cards([one, replace(one)])
    with pytest.raises(UsageError, match="twice"):
        merge_cards([merge_cards([one, other]), one])
    with pytest.raises(UsageError, match="different classes"):
        merge_cards([one, replace(other, measured=(table(labels=("man", "person")),))])
    scored = table(scores=((1, 0.9),))
    turned = table(labels=("woman", "man"), scores=((1, 0.9),))
    with pytest.raises(UsageError, match="scores"):
        merge_cards([card(scored), replace(other, measured=(turned,))])


def test_the_cards_that_come_along_are_of_judges_that_come_along():
    from verism.registry import Context, make_judge

    by_role = {c.role: c for c in shipped_cards()}
    detector = make_judge("builtin", Context(classes={"dog": "animal"}), "detector")
    assert by_role["detector"].judge == detector.name
    skills = {m.group["skill"] for m in by_role["detector"].measured}
    assert skills == {"object", "count", "color", "spatial"}
    assert all(sum(map(sum, m.counts)) + sum(m.unusable) == 800 for m in by_role["detector"].measured)
    assert by_role["detector"].made["rules"]["threshold_revised"] == detector.threshold
