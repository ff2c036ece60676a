"""Judge cards from runs: what is counted must be what was rendered, or what people said."""

import polars as pl
import pytest
from annotation_runs import make_run as plain_run
from fakes import PixelJudge

from verism import api
from verism.annotation.ratings import study_path
from verism.annotation.sampling import draw_items
from verism.annotation.tasks import choose_tasks, tasks_of
from verism.annotation.votes import Study, VoteStore
from verism.cards import find_measured, write_card
from verism.errors import UsageError
from verism.pipeline.local import make_requests
from verism.pipeline.scoring import score_run
from verism.suites.catalogue import make_suite

JUDGE = "pixel-judge@1"


@pytest.fixture(scope="module")
def asked():
    return make_suite("paintskills", skills=("object", "count"), limit=80, seed=2)


def rendered(asked, scripted, error):
    """Images of known content: which are as asked."""
    made = {
        r.image_id: r.note == "rendered as asked" for r in scripted(error).generate(make_requests(asked.prompts(), 2))
    }
    return [i for i, right in made.items() if right], [i for i, right in made.items() if not right]


def run_of(path, scripted, *, error=0.5, blind=(), dreams=None, limit=80):
    judge = PixelJudge(name=JUDGE, wrong={*blind, *(dreams or {})}.__contains__, dreams=dreams)
    return api.evaluate(
        "paintskills", model=scripted(error), detector=judge, skills=("object", "count"), limit=limit, seed=2, out=path
    )


def test_the_renderers_truth_gives_the_errors_that_were_put_in(tmp_path, asked, scripted):
    right, wrong = rendered(asked, scripted, 0.5)
    objects = [[i for i in members if i.startswith("object")] for members in (right, wrong)]
    labels = {r.image_id: r.prompt.spec["labels"] for r in make_requests(asked.prompts(), 2)}
    dreams = {i: [(labels[i][0], None, (10, 10, 30, 30))] for i in objects[1][:4]}
    run = run_of(tmp_path / "run", scripted, blind=objects[0][:3], dreams=dreams)
    card = api.judge_card(run, "truth", by=("skill", "object"))
    assert (card.judge, card.role, card.kind) == (JUDGE, "detector", "rendered")
    result = find_measured([card], JUDGE, "accuracy", "revised", group={"skill": "object"})
    assert result is not None
    n_right, n_wrong = map(len, objects)
    assert result[1].labels == ("wrong", "right")
    # Blind to 3 of the right images, dreaming of what was asked in 4 of the wrong ones.
    assert result[1].counts == ((n_wrong - 4, 4), (3, n_right - 3))
    assert result[1].unusable == (0, 0)
    other = find_measured([card], JUDGE, "accuracy", "revised", group={"skill": "count"})
    assert other is not None
    assert other[1].counts[0][1] == other[1].counts[1][0] == 0
    abouts = [(m.protocol, str(dict(m.group))) for m in card.measured]
    assert len(abouts) == len(set(abouts))
    finer = [m for m in card.measured if m.group.get("skill") == "object" and len(m.group) == 2]
    for protocol in ("revised", "released", "paper"):
        owner = [m for m in finer if m.protocol == protocol]
        assert sum(sum(map(sum, m.counts)) for m in owner) == 40  # the facet a table is about already makes no group
    assert "80 images for 80 prompts of paintskills" in card.ground_truth
    assert "scripted:error=0.5" in card.ground_truth
    assert "seed 2" in card.ground_truth
    assert card.made["rules"]["threshold_revised"] == 0.5
    assert (card.made["seed"], card.made["pictures"], card.made["truth"]) == (2, 80, "truth")
    assert api.judge_card(run, "truth", by=("skill", "object")) == card


def test_a_card_of_one_run_corrects_another_of_other_error(tmp_path, scripted):
    """The same judge, blind to every sixth right image, looks at images of which fewer are wrong."""

    def blind(image):
        return int(image.rpartition("_")[2].partition("#")[0]) % 6 == 0

    def judged(name, error, seed):
        judge = PixelJudge(name=JUDGE, wrong=blind)
        return api.evaluate(
            "paintskills",
            model=scripted(error),
            detector=judge,
            skills=("object",),
            limit=150,
            seed=seed,
            out=tmp_path / name,
        )

    card = tmp_path / "card.json"
    write_card(api.judge_card(judged("known", 0.5, 3), "truth"), card)
    second = judged("second", 0.15, 9)
    # The pixels of these images are nothing but their content, of which less is wrong here: the images differ.
    with pytest.raises(UsageError, match=r"images differ from them .two-sample test.* --anyway"):
        api.score(second, correct="rendered", cards=[card])
    assert not any(s.adjusted for s in second.scores())
    api.score(second, correct="rendered", cards=[card], anyway=True)
    scores = {
        (s.metric, s.adjusted): s for s in second.scores() if s.protocol == "revised" and set(s.group) == {"skill"}
    }
    true = scores["true_accuracy", ""].value
    judged_value, freed = scores["accuracy", ""], scores["accuracy", "rendered-unmatched"]
    assert judged_value.ci_high < true  # the judge alone is wrong beyond its interval
    assert freed.ci_low <= true <= freed.ci_high
    assert abs(freed.value - true) < abs(judged_value.value - true) / 2
    [how] = [a for a in second.adjustments() if a["metric"] == "accuracy" and a["protocol"] == "revised"]
    assert how["method"] == "judge card"
    assert "150 images" in how["source"]
    assert (how["images"], how["adjusted"]) == ("unlike", "rendered-unmatched")
    assert "differ from them" in how["note"]
    # Without a card of one's own, the truth that this renderer told decides.
    api.score(second, correct="rendered")
    assert {a["method"] for a in second.adjustments()} == {"prediction-powered"}


def study(run, answers, *, raters=("ada",), task="object"):
    [chosen] = choose_tasks(tasks_of(run), [task])
    items = draw_items([run], chosen, per_cell=None)
    store = VoteStore.create(
        study_path(run), Study(tasks=(chosen,), items=tuple(items), runs=(str(run.path.absolute()),))
    )
    for rater in raters:
        who = store.named_rater(rater)
        for position, item in enumerate(store.study.items):
            if item.item in answers[rater]:
                store.vote(who, position, answers[rater][item.item])


def test_people_are_the_truth_where_most_of_them_agree(tmp_path, asked, scripted):
    right, wrong = ([i for i in members if i.startswith("object")] for members in rendered(asked, scripted, 0.5))
    run = run_of(tmp_path / "run", scripted, blind=right[:2])
    label = {r.image_id: r.prompt.spec["labels"][0] for r in make_requests(asked.prompts(), 2)}
    seen = {i: label[i] for i in right[:8]} | dict.fromkeys(wrong[:5], "none of these")
    others = seen | {right[7]: "none of these"}  # of this one they do not agree: a tie
    study(run, {"ada": seen, "bob": others}, raters=("ada", "bob"))
    card = api.judge_card(run, "human")
    assert card.kind == "human"
    result = find_measured([card], JUDGE, "accuracy", "revised", kind="human", group={"skill": "object"})
    assert result is not None
    assert result[1].counts == ((5, 0), (2, 5))  # 7 right images without the tie, 2 of which the judge is blind to
    assert {m.group["skill"] for m in card.measured} == {"object"}
    # Of 13 images 7 are right and 5 wrong for both: observed disagreement 1 / 13. Expected of 15 right and 11 wrong
    # answers: 2 * 15 * 11 / (26 * 25). alpha = 1 - (1 / 13) / (330 / 650) = 0.85.
    alpha = "Krippendorff's alpha of classes 0.85"
    assert (
        f"majority of 2 annotators (object: 26 answers about 13 images, {alpha}, 1 tie left out)" in card.ground_truth
    )
    assert card.made["pictures"] == 12


def test_images_without_a_verdict_are_counted(tmp_path, scripted):
    run = api.evaluate(
        "paintskills",
        model=scripted(0.5),
        detector=PixelJudge(name=JUDGE),
        skills=("object",),
        limit=12,
        seed=2,
        out=tmp_path / "run",
    )
    verdicts = run.verdicts()
    gone = verdicts["image_id"][0]
    run.write_verdicts(
        verdicts.with_columns(pl.when(pl.col("image_id") == gone).then(None).otherwise(pl.col("value")).alias("value"))
    )
    for m in api.judge_card(run, "truth").measured:
        assert sum(m.unusable) == 1
        assert sum(map(sum, m.counts)) == 11


def test_what_has_no_truth_or_no_judge_says_what_to_do(tmp_path, scripted):
    run = run_of(tmp_path / "run", scripted, limit=4)
    with pytest.raises(UsageError, match="verism annotate"):
        api.judge_card(run, "human")
    with pytest.raises(UsageError, match=r"no facet 'light'.*skill"):
        api.judge_card(run, "truth", by=("light",))
    with pytest.raises(UsageError, match=r"'vqa'.*detector"):
        api.judge_card(run, "truth", role="vqa")
    unjudged = plain_run(tmp_path / "plain", limit=3)
    score_run(unjudged, make_suite("paintskills", limit=3))
    with pytest.raises(UsageError, match="no judge observed"):
        api.judge_card(unjudged, "truth")
