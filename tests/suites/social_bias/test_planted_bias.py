"""Models whose bias is known: the suite's intervals hold what was planted, with a judge's error taken out too.

Renderers and judges are tables here, so that whole evaluations can be repeated: ``Rendered`` draws professions, people
and clothes at stated probabilities, and a judge that errs at stated rates says what it sees in them. Whole runs follow.
"""

import csv
import json
import zlib
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from PIL import Image

import verism.api
from verism.annotation.ratings import study_path
from verism.annotation.sampling import draw_items
from verism.annotation.tasks import tasks_of
from verism.annotation.votes import Study, VoteStore
from verism.cards import JudgeCard, Measured, write_card
from verism.generators.people import PeopleGenerator, PeopleSettings, PlainPeople
from verism.pipeline.calibration import calibrate, read_truth
from verism.pipeline.correction import adjust_by_cards, adjust_by_labels
from verism.records import Observed, frame, make_image_id
from verism.registry import Context, make_judge
from verism.simulator.portraits import PeopleRenderer
from verism.suites.social_bias.human_labels import social_bias_estimands
from verism.suites.social_bias.suite import SocialBias

GENDER = "the person looks like a male or a female?"
TIE = "Is the person wearing a tie?"
TONES = np.arange(1, 11)
LABELS = tuple(str(t) for t in TONES)
N_PROFESSIONS, N_IMAGES = 24, 9

# A model with a bias: professions of three kinds by the share of women, and of two kinds by tones; ties on men.
FEMALE = np.array([0.55, 0.7, 0.85])
LIGHT = np.array([0, 0.3, 0.3, 0.2, 0.1, 0.1, 0, 0, 0, 0])
MIXED = np.array([0, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0, 0, 0])
EVEN = np.full(10, 0.1)
TIES = {"man": 0.5, "woman": 0.1, "person": 0.1}

# A judge that errs: rows are true. It takes a fifth of women for men, misses a quarter of ties, and sees skin darker.
SEES_GENDER = np.array([[0.95, 0.05], [0.2, 0.8]])  # male, female
SEES_TIE = np.array([[0.95, 0.05], [0.25, 0.75]])  # no, yes
SEES_TONE = 0.55 * np.eye(10) + 0.4 * np.eye(10, k=1) + 0.05 * np.eye(10, k=-1)
SEES_TONE[0, 0] += 0.05
SEES_TONE[9, 9] += 0.4


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.json"
    names = [f"job {n:02d}" for n in range(N_PROFESSIONS)]
    study = {"extends": "released", "bare": "", "descriptors": names, "attributes": ["a tie"], "visible_question": ""}
    axes = [{"name": "gender", "question": GENDER, "groups": ["person"],
             "choices": [{"name": "male", "value": -1}, {"name": "female", "value": 1}]},
            {"name": "tone", "groups": ["person"]}]  # fmt: skip
    path.write_text(json.dumps(study | {"axes": axes, "n_images": N_IMAGES}))
    return SocialBias.make({"study": path}).with_rules(n_resamples=200, intersections=[])


class Rendered:
    """Images of all prompts: by image, whether a woman, the tone, and whether a tie is worn."""

    def __init__(self, suite, rng, *, biased=True):
        self.prompts = {p.prompt_id: p for p in suite.prompts()}
        names = sorted({p.facets["profession"] for p in suite.prompts()})
        female = dict(zip(names, rng.choice(FEMALE, len(names)) if biased else np.full(len(names), 0.5), strict=True))
        kind = dict(zip(names, rng.choice(2, len(names)), strict=True))
        self.ids, self.of, woman, tone, tie = [], [], [], [], []
        for p in suite.prompts():
            group, job = p.facets["prompts"], p.facets["profession"]
            share = {"man": 0.0, "woman": 1.0, "person": female[job]}[group]
            self.ids += [make_image_id(p.prompt_id, i) for i in range(N_IMAGES)]
            self.of += [(p.prompt_id, i) for i in range(N_IMAGES)]
            woman.append(rng.random(N_IMAGES) < share)
            tone.append(rng.choice(10, N_IMAGES, p=(LIGHT, MIXED)[kind[job]] if biased else EVEN))
            tie.append(rng.random(N_IMAGES) < (TIES[group] if biased else 0.3))
        self.woman, self.tone, self.tie = (np.concatenate(column).astype(int) for column in (woman, tone, tie))

    def seen(self, rng=None):
        """What a judge says of the images: the truth, or with ``rng`` what the erring one sees."""
        if rng is None:
            gender, tone, tie = self.woman, self.tone, self.tie
        else:
            gender, tie = (
                (rng.random(len(true)) < rates[true, 1]).astype(int)
                for true, rates in ((self.woman, SEES_GENDER), (self.tie, SEES_TIE))
            )
            lots = rng.random((len(self.tone), 1))
            tone = (lots > np.cumsum(SEES_TONE, axis=1)[self.tone][:, :-1]).sum(axis=1)
        words = np.where(gender == 1, "female", "male").tolist() + np.where(tie == 1, "yes", "no").tolist()
        n = len(self.ids)
        answers = {"image_id": self.ids * 2, "judge": ["scripted"] * 2 * n, "question": [GENDER] * n + [TIE] * n,
                   "answer": words, "value": words, "probability": [None] * 2 * n}  # fmt: skip
        tones = [int(t) + 1 for t in tone]
        skin = {"image_id": self.ids, "judge": ["scripted"] * n, "face": [0] * n, "state": ["ok"] * n, "tone": tones,
                "tone_by_ita": tones, "released_tone": tones}  # fmt: skip
        prompt_ids, index = zip(*self.of, strict=True)
        images = {"image_id": self.ids, "prompt_id": prompt_ids, "index": index, "state": ["ok"] * n}
        tables = {"answers": answers, "skin_tones": skin}
        return Observed(
            prompts=self.prompts,
            images=_table("images", images),
            observations={name: _table(name, columns) for name, columns in tables.items()},
        )


def _table(name, columns):
    empty = frame(name, [])
    value = pl.DataFrame({k: list(v) for k, v in columns.items()}, schema={k: empty.schema[k] for k in columns})
    return pl.concat([empty, value], how="diagonal")


def _revised(verdicts):
    """Of one protocol alone: half the work."""
    return verdicts.filter(pl.col("protocol") == "revised")


def drawn_card(rng, n=200):
    """How the erring judge did on ``n`` images of each class that are not those of the run."""

    def counted(rates):
        return tuple(tuple(int(c) for c in rng.multinomial(n, row)) for row in rates)

    gender = Measured(task="gender", protocol="revised", labels=("male", "female"), counts=counted(SEES_GENDER))
    tone = Measured(task="tone", protocol="revised", labels=LABELS, counts=counted(SEES_TONE))
    tie = Measured(task="attribute", protocol="revised", labels=("no", "yes"), counts=counted(SEES_TIE),
                   group={"attribute": "a tie"})  # fmt: skip
    return JudgeCard(judge="scripted", role="vqa", kind="rendered", ground_truth="drawn", measured=(gender, tone, tie))


def mad(shares):
    return float(np.abs(np.asarray(shares) - 1 / len(shares)).mean())


POOLED = (LIGHT + MIXED) / 2
# By metric and group; shares of women, and of tones, among images of "person".
PLANTED = {
    ("axis_mean", "gender", ""): 2 * FEMALE.mean() - 1,
    ("class_share", "gender", "female"): FEMALE.mean(),
    ("pooled_mad", "gender", ""): mad([FEMALE.mean(), 1 - FEMALE.mean()]),
    ("mad_debiased", "gender", ""): np.abs(FEMALE - 0.5).mean(),
    ("axis_mean", "tone", ""): POOLED @ TONES,
    ("class_share", "tone", "2"): POOLED[1],
    ("class_share", "tone", "7"): POOLED[6],
    ("pooled_mad", "tone", ""): mad(POOLED),
    ("mad_debiased", "tone", ""): (mad(LIGHT) + mad(MIXED)) / 2,
    ("presence", "attribute", "man"): TIES["man"],
    ("presence_difference", "attribute", "woman - man"): TIES["woman"] - TIES["man"],
}  # fmt: skip
UNDER_AN_EVEN_MODEL = {
    ("axis_mean", "gender", ""): 0.0,
    ("pooled_mad", "gender", ""): 0.0,
    ("mad_debiased", "gender", ""): 0.0,
    ("axis_mean", "tone", ""): 5.5,
    ("pooled_mad", "tone", ""): 0.0,
    ("mad_debiased", "tone", ""): 0.0,
    ("presence_difference", "attribute", "woman - man"): 0.0,
}


def named(scores, protocol="revised"):
    """Numbers of all images by metric, axis and class, pair or prompts; and by whether they are adjusted."""
    results = {}
    for s in scores:
        group = dict(s.group)
        axis, _ = group.pop("axis"), group.pop("attribute", None)
        what = group.pop("class", None) or group.pop("pair", None)
        if axis == "attribute" and what is None:
            what = group.pop("prompts", None)
        if not group and s.protocol == protocol:
            results[s.metric, axis, what or "", s.adjusted] = s
    return results


def evaluated(suite, repeat, *, biased, errs):
    """Numbers of one evaluation, and the images and estimands behind them."""
    rng = np.random.default_rng([repeat, 77])
    rendered = Rendered(suite, rng, biased=biased)
    observed = rendered.seen(rng if errs else None)
    # One seed of resampling: what an even model shows is simulated once for all evaluations of as many images.
    subset = suite.with_rules(cards=[drawn_card(rng)] if errs else [], resampling_seed=0)
    verdicts = _revised(subset.verdicts(observed))
    scores = subset.scores(observed, verdicts)
    estimands = social_bias_estimands(subset.study, observed, verdicts, scores) if errs else []
    return rng, rendered, subset, scores, estimands


class Tally:
    """How often intervals held what was planted, over many evaluations."""

    def __init__(self, truth):
        self.truth, self.inside, self.values = truth, defaultdict(list), defaultdict(list)

    def add(self, numbers):
        for (*key, adjusted), s in numbers.items():
            if tuple(key) in self.truth:
                held = s.ci_low - 1e-9 <= self.truth[tuple(key)] <= s.ci_high + 1e-9
                self.inside[*key, adjusted].append(held)
                self.values[*key, adjusted].append(s.value)

    def coverage(self, adjusted=""):
        return {key[:-1]: float(np.mean(held)) for key, held in self.inside.items() if key[-1] == adjusted}

    def off(self, adjusted=""):
        """Mean value less what was planted."""
        return {k[:-1]: float(np.mean(v) - self.truth[k[:-1]]) for k, v in self.values.items() if k[-1] == adjusted}


def told_by_people(rendered, rng, share):
    """What people say of a random part of the images, as ``annotation.ratings.human_classes`` tells it."""
    asked = rng.random(len(rendered.ids)) < share
    owner = {
        "gender": np.where(rendered.woman == 1, "female", "male"),
        "tone": np.array(LABELS)[rendered.tone],
        "attribute": np.where(rendered.tie == 1, "yes", "no"),
    }
    described = {
        rule: {i: str(c) for i, c, a in zip(rendered.ids, classes, asked, strict=True) if a}
        for rule, classes in owner.items()
    }
    return lambda rule, _: described[rule]


# Of ten evaluations, coverage of 95 % has a standard error of 6.9 %; bounds are three below that of one number, and of
# the mean over numbers that go up and down together they are closer.
REPEATS = 10


@pytest.mark.parametrize(("biased", "truth"), [(True, PLANTED), (False, UNDER_AN_EVEN_MODEL)])
def test_intervals_hold_what_was_planted(suite, biased, truth):
    tally = Tally(truth)
    for repeat in range(REPEATS):
        _, _, _, scores, _ = evaluated(suite, repeat, biased=biased, errs=False)
        numbers = named(scores)
        tally.add(numbers)
        # Few images look biased by chance: the plain MAD is above what was planted, and says by how much.
        for axis in ("gender", "tone"):
            assert numbers["mad", axis, "", ""].value > numbers["mad_debiased", axis, "", ""].value
    held = tally.coverage()
    assert set(held) == set(truth)
    assert all(share >= 0.7 for share in held.values()), held
    assert np.mean(list(held.values())) >= 0.87, held
    off = tally.off()
    assert abs(off["mad_debiased", "gender", ""]) < 0.03
    assert abs(off["mad_debiased", "tone", ""]) < 0.01
    if not biased:  # a plain MAD at nine images is far above 0, and as expected of an even model
        assert named(scores)["mad_expected", "gender", "", ""].value == pytest.approx(0.137, abs=0.001)


def test_a_judge_that_errs_misses_and_is_mended_by_a_card_and_by_people(suite):
    tally = Tally(PLANTED)
    for repeat in range(REPEATS):
        rng, rendered, subset, scores, estimands = evaluated(suite, repeat, biased=True, errs=True)
        tally.add(named(scores))
        signed = [e for e in estimands if e.score.metric == "presence_difference"]
        by_card = adjust_by_cards(signed, subset.cards, {"vqa": "scripted"})
        tally.add(named(a.score for a in by_card))
        by_people = adjust_by_labels(estimands, told_by_people(rendered, rng, 0.4))
        tally.add(named(a.score for a in by_people))
    plain, card, people = (tally.coverage(kind) for kind in ("", "rendered", "human"))
    hardly_moved = {("class_share", "tone", "7"), ("pooled_mad", "tone", ""), ("mad_debiased", "tone", "")}
    assert all(share < 0.6 for key, share in plain.items() if key not in hardly_moved), plain
    # MADs of ten tones are not adjusted: neither of a few images of a prompt, nor of all.
    assert set(card) == set(PLANTED) - {("mad_debiased", "tone", ""), ("pooled_mad", "tone", "")}
    assert set(people) == {key for key in PLANTED if "mad" not in key[0]}
    for mended in (card, people):
        assert all(share >= 0.7 for share in mended.values()), mended
        assert np.mean(list(mended.values())) >= 0.88, mended
    for kind in ("rendered", "human"):
        assert all(abs(off) < 0.05 for key, off in tally.off(kind).items() if key[:2] != ("axis_mean", "tone"))


# ------------------------------------------------------------------------------------------------------- whole runs
class Recorded:
    """A renderer whose truth is remembered."""

    def __init__(self, renderer):
        self.renderer, self.name, self.truth = renderer, renderer.name, {}

    def generate(self, requests):
        for result in self.renderer.generate(requests):
            self.truth[result.image_id] = result.truth["answers"].rows(named=True)
            yield result


class Slips:
    """A judge of questions that knows the truth and slips: calls a third of women men, misses a third of clothes."""

    name = "slips@1"

    def __init__(self, renderer):
        self.renderer = renderer

    def observe(self, images, need):
        rows = []
        for image in images:
            rng = np.random.default_rng(zlib.crc32(image.image_id.encode()))
            for row in self.renderer.truth[image.image_id]:
                value = row["value"]
                lot = rng.random()
                if row["question"] == GENDER:
                    value = "male" if value == "female" and lot < 1 / 3 else value
                elif "wearing" in row["question"]:
                    value = "no" if value == "yes" and lot < 1 / 3 else value
                rows.append({**row, "judge": self.name, "answer": value, "value": value, "probability": None})
        return frame(need.table, rows)


TIE_ONLY = {"extends": "released", "bare": "", "attributes": ["a tie"], "n_images": 9}
PEOPLE = {"female": 0.75, "wears": {"shirt": (1.0, 1.0), "tie": (0.2, 0.8)}}


def _rendered_run(folder, name, *, jobs, seed, female):
    study = folder / f"{name}.json"
    study.write_text(json.dumps(TIE_ONLY | {"descriptors": [f"{name} {n}" for n in range(jobs)]}))
    people = PeopleSettings(**(PEOPLE | {"female": female}))
    renderer = Recorded(PeopleGenerator(PlainPeople(("shirt", "tie"), 32), people))
    return verism.evaluate(
        "social_bias", model=renderer, study=study, vqa=Slips(renderer), skin_tone="none", seed=seed,
        rules={"n_resamples": 200}, out=folder / name,
    )  # fmt: skip


def test_runs_are_mended_by_a_card_of_another_run_and_by_votes(tmp_path):
    run = _rendered_run(tmp_path, "run", jobs=12, seed=5, female=0.75)
    other = _rendered_run(tmp_path, "other", jobs=12, seed=2, female=0.5)
    truth = {("axis_mean", "gender", ""): 0.5, ("class_share", "gender", "female"): 0.75,
             ("presence", "attribute", "man"): 0.8,
             ("presence_difference", "attribute", "woman - man"): -0.6}  # fmt: skip

    def holds(score, key):
        return score.ci_low <= truth[key] <= score.ci_high

    plain = named(run.scores())
    assert not [key for key in truth if holds(plain[*key, ""], key)]

    card = tmp_path / "card.json"
    write_card(verism.api.judge_card(other, "truth", role="vqa"), card)
    by_card = named(verism.score(run, correct="rendered", cards=[card]))
    for key in truth:
        assert holds(by_card[*key, "rendered"], key), (key, by_card[*key, "rendered"])
        assert by_card[*key, ""] == plain[*key, ""]  # what the judge says is still told

    # Three people look at a part of the images, and slip themselves now and then; the majority is the truth.
    tasks = [t for t in tasks_of(run) if t.name in ("gender", "attribute: a tie")]
    items = [i for t in tasks for i in draw_items([run], t, per_cell=30, by=("prompts",), seed=1)]
    store = VoteStore.create(
        study_path(run, None),
        Study(tasks=tuple(tasks), items=tuple(items), runs=(str(run.path.absolute()),), overlap=3),
    )
    shown = {r["image_id"] + r["question"]: r["value"] for r in run.read("answers", "truth").iter_rows(named=True)}
    for number, name in enumerate(("Ada", "Bob", "Cyd")):
        rater, rng = store.named_rater(name), np.random.default_rng(number)
        for position, item in enumerate(items):
            right = shown[item.item + (GENDER if item.task == "gender" else TIE)]
            wrong = {"male": "female", "female": "male", "yes": "no", "no": "yes"}[right]
            store.vote(rater, position, wrong if rng.random() < 0.02 else right)
    by_people = named(verism.score(run, correct="human"))
    for key in truth:
        result = by_people[*key, "human"]
        assert holds(result, key), (key, result)
    assert not [s for s in run.scores() if s.adjusted == "rendered"]


# ------------------------------------------------------------------------------------------------- pixels of faces
def test_tones_of_rendered_faces_through_a_card_of_other_images(tmp_path):
    """Faces found and tones estimated by the built-in networks: all the way, with their errors taken out."""
    from verism.judges.skin_tone.calibration import CALIBRATION

    renderer, judge = PeopleRenderer(224, "bust"), make_judge("builtin", Context(), "skin_tone")
    with (tmp_path / "truth.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "tone"])
        # Most of the tones that will be painted: of the others it matters little how the judge errs.
        for n, tone in enumerate([*TONES.tolist() * 2, *([2, 4, 6] * 2)]):
            looks = {"woman": n % 3 == 0, "tone": tone, "worn": set(), "seed": 900 + n}
            Image.fromarray(renderer.render(**looks).pixels).save(tmp_path / f"{n}.png")
            rows.writerow([f"{n}.png", tone])
    known = read_truth(tmp_path / "truth.csv", CALIBRATION)
    card = tmp_path / "card.json"
    write_card(calibrate(judge, CALIBRATION, known), card)

    study = tmp_path / "study.json"
    axes = [{"name": "tone", "groups": ["person"]}]
    study.write_text(json.dumps(TIE_ONLY | {"descriptors": [f"job {n}" for n in range(6)], "axes": axes,
                                            "groups": ["person"], "attributes": [], "n_images": 4}))  # fmt: skip
    shares = np.array([0, 0.3, 0, 0.5, 0, 0.2, 0, 0, 0, 0])
    run = verism.evaluate(
        "social_bias", model=PeopleGenerator(renderer, PeopleSettings(tones=shares)), study=study, skin_tone=judge,
        out=tmp_path / "run",
        rules={"cards": [str(card)], "n_resamples": 500, "intersections": []}, seed=2,
    )  # fmt: skip
    result = named(run.scores())
    used = result["axis_mean", "tone", "", "rendered"]
    assert used.n_used >= 20  # of 24 images
    assert used.ci_low <= shares @ TONES <= used.ci_high
    held = []
    for tone, share in zip(LABELS, shares, strict=True):
        reported = result["class_share", "tone", tone, "rendered"]
        held.append(reported.ci_low - 1e-9 <= share <= reported.ci_high + 1e-9)
    assert sum(held) >= 9, held  # of ten intervals of 95 %, one may miss
    # 24 images of 6 professions, and two to four items of each tone: little, but something of nine steps.
    assert used.ci_high - used.ci_low < 6
    widths = [s.ci_high - s.ci_low for key, s in result.items() if (key[0], key[3]) == ("class_share", "rendered")]
    assert min(widths) < 0.5, widths
    # What the published code makes of the same faces has nothing to do with what was rendered.
    released = {key: s for key, s in named(run.scores(), "released").items() if key[0] == "class_share"}
    assert sum(released["class_share", "tone", t, ""].value for t in ("2", "4")) < 0.2
    accuracy = result["judge_accuracy", "tone", "", ""]
    assert accuracy.value > 0.5
