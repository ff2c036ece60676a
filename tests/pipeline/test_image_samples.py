"""What a card says of its images, and what is said of a run whose images are others."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from fakes import PixelJudge
from PIL import Image, ImageFilter

from verism import api
from verism.cards import ImageSample, JudgeCard, merge_cards, read_card, shipped_cards, write_card
from verism.cli.main import cli
from verism.errors import UsageError
from verism.generators.builtin import BuiltinGenerator
from verism.judges.detection.builtin import BuiltinDetector
from verism.pipeline.image_samples import detail_bands, image_match
from verism.records import Result

JUDGE = "pixel-judge@1"


class Blurred:
    """Images of another generator, out of focus."""

    name = "blurred@1?radius=2"

    def __init__(self, inner):
        self.inner = inner

    def generate(self, requests):
        for result in self.inner.generate(requests):
            image = Image.fromarray(result.pixels).filter(ImageFilter.GaussianBlur(2))
            yield Result(image_id=result.image_id, state="ok", pixels=np.asarray(image))


class Sharp(Blurred):
    name = "sharp@1"

    def generate(self, requests):
        for result in self.inner.generate(requests):
            yield Result(image_id=result.image_id, state="ok", pixels=result.pixels)


def run_of(path, model, seed=3, limit=60):
    judge = PixelJudge(name=JUDGE)
    return api.evaluate(
        "paintskills", model=model, detector=judge, skills=("object",), limit=limit, seed=seed, out=path
    )


def values(path):
    return {(s.metric, s.protocol, str(s.group)): s for s in api.open_run(path).scores() if s.adjusted}


def test_blur_takes_detail_away_and_what_is_flat_has_none():
    noise = np.random.default_rng(0).integers(0, 256, size=(64, 64, 3), dtype=np.uint8)
    soft = np.asarray(Image.fromarray(noise).filter(ImageFilter.GaussianBlur(2)))
    sharp, blurred = detail_bands(noise), detail_bands(soft)
    assert len(sharp) == len(blurred) == 4
    assert blurred[0] < sharp[0] - 0.5
    assert sharp[0] - blurred[0] > sharp[3] - blurred[3] + 0.3  # fine detail goes first
    assert detail_bands(np.full((40, 30, 3), 90, np.uint8)) == (-3.0,) * 4
    assert detail_bands(np.zeros((1, 3, 3), np.uint8)) == (-3.0,) * 4
    # A checkerboard of black and white: all the spread of 0.5 is between neighbours.
    board = (np.indices((32, 32)).sum(axis=0) % 2 * 255).astype(np.uint8)[..., None].repeat(3, axis=2)
    assert detail_bands(board) == (pytest.approx(math.log10(0.501), abs=6e-4), -3.0, -3.0, -3.0)


def test_a_card_keeps_a_sample_of_its_images(tmp_path, scripted):
    card = api.judge_card(run_of(tmp_path / "known", scripted(0.5)), "truth")
    [sample] = card.images
    assert "scripted:error=0.5" in sample.generator
    assert len(sample.features) == 60
    assert {stratum for stratum, _ in sample.features} == {'{"skill": "object"}'}
    write_card(card, tmp_path / "card.json")
    assert read_card(tmp_path / "card.json") == card
    other = api.judge_card(run_of(tmp_path / "more", scripted(0.5), seed=4), "truth")
    assert merge_cards([card, other]).images == (*card.images, *other.images)


def test_numbers_from_images_unlike_the_runs_are_refused_or_say_so_everywhere(tmp_path, scripted):
    card = tmp_path / "card.json"
    write_card(api.judge_card(run_of(tmp_path / "known", scripted(0.5)), "truth"), card)
    run = run_of(tmp_path / "blurred", Blurred(scripted(0.5)), seed=5)
    before = run.scores()
    with pytest.raises(UsageError, match=r"images differ from them .*p = 0\.001"):
        api.score(run, correct="rendered", cards=[card])
    assert str(run.scores()) == str(before)  # NaN is no equal of itself
    assert run.adjustments() == []
    arguments = ["score", str(run.path), "--correct", "rendered", "--card", str(card)]
    refused = CliRunner().invoke(cli, arguments)
    assert isinstance(refused.exception, UsageError)
    shown = CliRunner().invoke(cli, [*arguments, "--anyway"])
    assert shown.exit_code == 0, shown.output
    assert "NOT found to be of images like these" in shown.output
    assert "this run's images differ from them" in shown.output
    as_json = CliRunner().invoke(cli, [*arguments, "--anyway", "--json"])
    kinds = {row["adjusted"] for row in json.loads(as_json.stdout)}
    assert kinds == {"", "rendered-unmatched"}
    assert {s.adjusted for s in values(run.path).values()} == {"rendered-unmatched"}
    for options in (["--markdown"], ["--csv"]):
        text = CliRunner().invoke(cli, ["report", str(run.path), *options]).stdout
        assert "rendered-unmatched" in text or "NOT found to be of images like these" in text, options
    page = api.report(run.path, out=tmp_path / "page.html").read_text(encoding="utf-8")
    assert "NOT found to be of images like these" in page
    assert "images differ from them" in page


def test_images_of_the_same_kind_are_adjusted_without_a_word_against_it(tmp_path, scripted):
    card = tmp_path / "card.json"
    write_card(api.judge_card(run_of(tmp_path / "known", scripted(0.5)), "truth"), card)
    run = run_of(tmp_path / "second", Sharp(scripted(0.5)), seed=5)
    api.score(run, correct="rendered", cards=[card])
    [how] = [a for a in run.adjustments() if a["metric"] == "accuracy" and a["protocol"] == "revised"]
    assert (how["adjusted"], how["images"]) == ("rendered", "alike")
    assert how["images_p_value"] > 0.01
    assert "not found to differ" in how["note"]


def test_a_card_that_keeps_no_sample_cannot_be_compared_and_the_numbers_say_so(tmp_path, scripted):
    card = api.judge_card(run_of(tmp_path / "known", scripted(0.5)), "truth")
    write_card(replace(card, images=()), tmp_path / "card.json")
    run = run_of(tmp_path / "second", Sharp(scripted(0.5)), seed=5)
    api.score(run, correct="rendered", cards=[tmp_path / "card.json"])
    assert {a["adjusted"] for a in run.adjustments()} == {"rendered-unmatched"}
    assert all("keeps no sample" in a["note"] for a in run.adjustments())


def test_a_card_of_labels_counts_for_rendered_only_where_it_names_the_runs_generator(tmp_path, scripted):
    known = api.judge_card(run_of(tmp_path / "known", scripted(0.5)), "truth")
    [sample] = known.images
    run = run_of(tmp_path / "second", Sharp(scripted(0.5)), seed=5)
    labelled = replace(known, kind="model", ground_truth="labels of a model")
    write_card(labelled, tmp_path / "other.json")
    with pytest.raises(UsageError, match="no error rates for --correct rendered: it is of kind model"):
        api.score(run, correct="rendered", cards=[tmp_path / "other.json"])
    own = replace(labelled, images=(replace(sample, generator="sharp@1?size=64"),))
    write_card(own, tmp_path / "own.json")
    api.score(run, correct="rendered", cards=[tmp_path / "own.json"])
    assert {a["adjusted"] for a in run.adjustments()} == {"model"}


def test_few_images_decide_nothing():
    features = tuple(("x", (float(k), 0.0, 0.0, 0.0)) for k in range(20))
    card = JudgeCard(
        judge="j", role="detector", kind="rendered", ground_truth="", measured=(),
        images=(ImageSample(generator="g", measured_by="m", features=features),),
    )  # fmt: skip

    def match(members, measured_by="m"):
        return image_match(card, ImageSample(generator="h", measured_by=measured_by, features=members))

    far = tuple(("x", (100.0 + k, 1.0, 1.0, 1.0)) for k in range(8))
    assert match(far).state == "unlike"
    assert match(far[:7]).state == "unknown"
    assert match(features).state == "alike"
    assert match(far, measured_by="other").state == "unknown"
    assert match(tuple(("y", vector) for _, vector in far)).state == "unknown"


def test_the_cards_that_ship_tell_rendered_from_generated_images():
    cards = [c for c in shipped_cards() if c.role == "detector"]
    [rendered] = (card for card in cards if card.kind == "rendered")
    [generated] = (card for card in cards if card.is_of(BuiltinGenerator().name))
    [of_v1] = (card for card in cards if card.is_of(BuiltinGenerator(edition="v1").name))
    assert len(cards) == 3
    assert rendered.judge == generated.judge == of_v1.judge == BuiltinDetector().name
    for card in (generated, of_v1):
        assert card.kind == "model"
        assert "of no person" in card.ground_truth
        assert not card.is_of(rendered.images[0].generator)
    ours = generated.images[0]
    assert image_match(rendered, replace(ours, features=ours.features[::5])).state == "unlike"
    assert image_match(generated, replace(ours, features=ours.features[::5])).state == "alike"
    [own] = rendered.images
    assert image_match(generated, replace(own, features=own.features[::10])).state == "unlike"
    half = replace(rendered, images=(replace(own, features=own.features[::2]),))
    assert image_match(half, replace(own, features=own.features[1::2])).state == "alike"
