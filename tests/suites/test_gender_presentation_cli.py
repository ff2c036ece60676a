"""``verism gep``: from votes to labels, and from a run with planted images to how good its judges are."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from verism.cli.main import cli
from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.records import Observed, frame, make_image_id, vector_rows
from verism.store import Run
from verism.suites.gender_presentation.suite import GenderPresentation

WORKERS = ("A1SECRET", "A2SECRET", "A3SECRET")


def run_command(*words):
    return CliRunner().invoke(cli, ["gep", *map(str, words)], catch_exceptions=False)


# --------------------------------------------------------------------------------------------------------- planted runs
def planted_truth(seed):
    """What is in the images, (2, 1280, 15): each attribute more often with one of the genders."""
    rng = np.random.default_rng(seed)
    share = 0.5 + np.array([1, -1])[:, None] * rng.uniform(-0.2, 0.2, 15)
    return (rng.random((2, 1280, 15)) < share[:, None]).astype(np.int64)


def labelled(truth):
    """What people were asked about: zeros where explicit prompts name another attribute."""
    labels = truth.copy()
    for a in range(15):
        labels[:, 80 * (a + 1) : 80 * (a + 2), [b for b in range(15) if b != a]] = 0
    return labels


def planted_run(path, truth, *, noise=0.2, seed=0):
    """A run whose image vectors hold an axis for each attribute that is seen, and noise; texts likewise."""
    rng = np.random.default_rng(seed)
    suite = GenderPresentation.make({})
    names = [a.name for a in suite.study.attributes]
    width = 15 + 9

    def text_vector(text):
        words = text.lower()
        vector = np.zeros(width)
        for a, attribute in enumerate(suite.study.attributes):
            vector[a] = attribute.phrase in words or words == attribute.query
        rng = np.random.default_rng(abs(hash_of(text)))
        vector[15:] = 0.3 + 0.1 * rng.normal(size=9)
        return vector

    need = suite.needs()[0]
    texts = vector_rows("text_embeddings", need.texts, "planted", np.stack([text_vector(t) for t in need.texts]))
    images, vectors, ids = [], [], []
    for prompt in suite.prompts():
        gender, index = prompt.prompt_id.split("/")
        for number in range(5):
            shown = truth[("woman", "man").index(gender), 5 * int(index) + number].astype(float)
            ids.append(make_image_id(prompt.prompt_id, number))
            vectors.append(np.concatenate([shown, np.full(9, 0.3)]) + noise * rng.normal(size=width))
            images.append({"image_id": ids[-1], "prompt_id": prompt.prompt_id, "index": number, "state": "ok"})
    assert len(names) == 15
    embeddings = vector_rows("embeddings", ids, "planted", np.stack(vectors))
    run = Run.start(path, RunSettings(suite=suite.name, suite_settings=suite.settings()))
    run.note_scoring(judges={"clip": "planted"})
    run.write_prompts(suite.prompts())
    run.append("images", frame("images", images))
    run.append("embeddings", embeddings, "planted")
    run.append("text_embeddings", texts, "planted")
    observed = Observed(
        prompts={p.prompt_id: p for p in suite.prompts()},
        images=frame("images", images),
        observations={"embeddings": embeddings, "text_embeddings": texts},
    )
    run.write_verdicts(suite.verdicts(observed))
    return run


def hash_of(text):
    return sum((i + 1) * ord(c) for i, c in enumerate(text))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gep")
    for number, name in enumerate(("one", "two")):
        truth = planted_truth(number)
        np.save(folder / f"{name}.npy", labelled(truth))
        planted_run(folder / name, truth, seed=number)
    return folder


def test_a_planted_judge_is_found_good_and_its_numbers_are_right(world):
    result = run_command(
        "judge", world / "one", "--labels", world / "one.npy", "--protocol", "released",
        "--estimator", "CLS", "--estimator", "C", "--json",
    )  # fmt: skip
    assert result.exit_code == 0
    parsed = {entry["estimator"]: entry["runs"][str(world / "one")] for entry in json.loads(result.stdout)}
    assert list(parsed) == ["CLS", "C"]
    labels = np.load(world / "one.npy")
    report = parsed["CLS"]
    # People: the difference of the means of rows 0 to 79, and of the block of each attribute.
    neutral = labels[0, :80].mean(axis=0) - labels[1, :80].mean(axis=0)
    blocks = [labels[:, 80 * (a + 1) : 80 * (a + 2), a].mean(axis=1) for a in range(15)]
    assert report["vectors"]["neutral"]["human"] == pytest.approx(neutral)
    assert report["vectors"]["explicit"]["human"] == pytest.approx([w - m for w, m in blocks])
    assert report["vectors"]["neutral"]["human_score"] == pytest.approx(np.abs(neutral).mean())
    assert (report["n_used"], report["n_unusable"], report["n_unlabelled"]) == (4800, 0, 0)
    assert report["difference"] == "woman - man"
    for entry in parsed.values():
        assert entry["vectors"]["explicit"]["agreement"]["tau"]["value"] > 0.8
        assert entry["artificial"]["n_sets"] == 600
        assert entry["artificial"]["overall"]["tau"]["low"] > 0.6
        scales = [a["tau"]["value"] for a in entry["artificial"]["by_scale"].values()]
        assert scales == sorted(scales, reverse=True)  # small differences are harder
        assert scales[0] > 0.8
        assert entry["auc"]["mean"]["low"] > 0.9
        ties = labels[:, :80, 12].sum() + labels[:, 1040:1120, 12].sum()
        assert entry["auc"]["attributes"]["tie"]["n_positive"] == ties

    # Nothing of gender was planted: the classifiers react to the attribute alone.
    assert all(abs(r["ratio"]["value"]) < 0.3 for r in report["ratios"].values())


def test_labels_of_somebody_else_are_not_agreed_with(world):
    result = run_command("judge", world / "one", "--labels", world / "two.npy", "--estimator", "C", "--json")
    report = json.loads(result.stdout)[0]["runs"][str(world / "one")]
    assert 0.4 < report["auc"]["mean"]["value"] < 0.6
    assert abs(report["artificial"]["overall"]["tau"]["value"]) < 0.4


def test_the_report_in_words(world):
    result = run_command("judge", world / "one", "--labels", world / "one.npy", "--estimator", "CC")
    assert result.exit_code == 0
    for words in ("CC (revised)", "woman - man", "MCC of signs", "artificial sets", "scale 0.125", "AUC woman"):
        assert words in result.stdout


def test_several_runs_are_ranked(world):
    result = run_command(
        "judge", world / "one", world / "two", "--labels", world / "one.npy", "--labels", world / "two.npy",
        "--estimator", "C", "--protocol", "released", "--json",
    )  # fmt: skip
    models = json.loads(result.stdout)[0]["models"]
    assert len(models["ranks"]) == 4
    # 40 sets of each attribute and run: 15 * 2 * 780, 2 * C(600, 2) less these, 15 * 1600, and the rest of C(1200, 2).
    assert [p["pairs"] for p in models["pair_types"].values()] == [23_400, 336_000, 24_000, 336_000]
    assert models["artificial"]["n_used"] == 1200
    assert models["artificial"]["zeros"] == "positive"
    words = run_command("judge", world / "one", world / "two", "--labels", world / "one.npy", "--estimator", "C")
    assert "rank by judge" in words.stdout
    assert "same attribute same model" in words.stdout


def test_ablations_on_saved_vectors(world):
    result = run_command("ablate", world / "one", "--labels", world / "one.npy", "--protocol", "released", "--json")
    parsed = {entry["variant"]: entry for entry in json.loads(result.stdout)}
    assert list(parsed) == [
        "CLS", "CLS, no ensemble", "CLS, people of the groups only", "C",
        "CC, reference 'an object'", "CC, reference ''", "CC, reference 'clothes'",
    ]  # fmt: skip
    # The default is what the run's own verdicts say.
    judged = run_command(
        "judge", world / "one", "--labels", world / "one.npy", "--estimator", "CLS", "--protocol", "released", "--json"
    )
    subset = json.loads(judged.stdout)[0]["runs"][str(world / "one")]
    assert parsed["CLS"]["vectors"]["neutral"]["automatic"] == pytest.approx(subset["vectors"]["neutral"]["automatic"])
    assert parsed["CLS"]["artificial"]["overall"]["tau"]["value"] > 0.7
    # Neutral prompts: a reference takes one number off all attributes, so order and tau are those of C.
    taus = [parsed[name]["vectors"]["neutral"]["agreement"]["tau"]["value"] for name in list(parsed)[3:]]
    assert taus == pytest.approx([taus[0]] * 4)
    words = run_command("ablate", world / "one", "--labels", world / "one.npy")
    assert "CLS, people of the groups only" in words.stdout
    assert "no ensemble" not in words.stdout  # the revised classifiers have none


def test_new_texts_need_the_model(world, tmp_path):
    (tmp_path / "captions.txt").write_text("A dog on a lawn.\nTwo cups.\n")
    for option in (("--captions", tmp_path / "captions.txt"), ("--reference-text", "a thing")):
        with pytest.raises(UsageError, match=r"new texts, such as .* need the model: --clip"):
            run_command("ablate", world / "one", "--labels", world / "one.npy", *option)
    with pytest.raises(UsageError, match="no such file; expected the texts of --captions"):
        run_command("ablate", world / "one", "--labels", world / "one.npy", "--captions", tmp_path / "none.txt")


def test_other_negatives_and_contexts_with_the_model(world, tmp_path, monkeypatch):
    class Scripted:
        name = "planted"

        def embed_texts(self, texts):
            asked.extend(texts)
            rng = np.random.default_rng(len(texts))
            return vector_rows("text_embeddings", texts, "planted", rng.normal(size=(len(texts), 24)))

    asked = []
    monkeypatch.setattr("verism.registry.make_judge", lambda *_: Scripted())
    (tmp_path / "captions.txt").write_text("A dog on a lawn.\nTwo cups.\nA street.\nA red bus.\n")
    (tmp_path / "contexts.txt").write_text("waving at a bus\nreading a book.\nin a kitchen\n")
    result = run_command(
        "ablate", world / "one", "--labels", world / "one.npy", "--captions", tmp_path / "captions.txt",
        "--contexts", tmp_path / "contexts.txt", "--clip", "scripted", "--json",
    )  # fmt: skip
    names = [entry["variant"] for entry in json.loads(result.stdout)]
    assert names[2:4] == ["CLS, other negatives", "CLS, other contexts"]
    assert "A dog on a lawn." in asked
    assert "A woman in boots reading a book." in asked
    Scripted.name = "another"
    with pytest.raises(UsageError, match="is 'another', but the run was judged by 'planted'"):
        run_command("ablate", world / "one", "--labels", world / "one.npy", "--reference-text", "x", "--clip", "y")


def test_what_cannot_be_judged_says_why(world, tmp_path):
    with pytest.raises(UsageError, match="has no labels of people; give them with --labels"):
        run_command("judge", world / "one")
    with pytest.raises(UsageError, match="no verdicts of VQA under the protocol revised"):
        run_command("judge", world / "one", "--labels", world / "one.npy", "--estimator", "VQA")
    with pytest.raises(UsageError, match="once for each of the 1 runs; got 2"):
        run_command("judge", world / "one", "--labels", world / "one.npy", "--labels", world / "two.npy")
    Run.start(tmp_path / "other", RunSettings(suite="paintskills"))
    with pytest.raises(UsageError, match="a run of 'paintskills'; expected one of gender_presentation"):
        run_command("judge", tmp_path / "other", "--labels", world / "one.npy")


def test_few_images_give_no_sets_but_all_else(world):
    result = run_command(
        "judge", world / "one", "--labels", world / "one.npy", "--estimator", "C", "--group-size", 161, "--json"
    )
    report = json.loads(result.stdout)[0]["runs"][str(world / "one")]
    assert report["artificial"] is None
    assert "a group has 161 images, but only 160" in report["artificial_note"]
    assert report["auc"]["mean"]["value"] > 0.9


# --------------------------------------------------------------------------------------------------------------- labels
@pytest.fixture
def batch(tmp_path):
    path = tmp_path / "tie.csv"
    with path.open("w", newline="") as file:
        rows = []
        for worker in WORKERS:
            row = {"WorkerId": worker, "Input.attribute": "with a tie"}
            for i in range(10):
                model = "stable" if i < 6 else "dalle"
                seen = i % 3 == 0 or (i == 1 and worker == WORKERS[0])
                row |= {
                    f"Input.image_url{i}": f"https://x.org/male_v1_{model}_gen/{i}_0.png",
                    f"Answer.No{i}.0": str(not seen).lower(),
                    f"Answer.Yes{i}.1": str(seen).lower(),
                }
            rows.append(row)
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def test_labels_from_a_raw_batch(batch, tmp_path):
    out = tmp_path / "labels.csv"
    result = run_command("labels", batch, "--out", out, "--json")
    parsed = json.loads(result.stdout)
    assert (parsed["n_votes"], parsed["n_voters"], parsed["n_labels"], parsed["n_tasks"]) == (30, 3, 10, 1)
    assert parsed["models"] == ["dalle", "stable"]
    assert parsed["attributes"] == {"tie": {"labels": 10, "seen": 4}}
    # 13 yes, 17 no; one image with 1 of 3: D_o = 2 * 1 * 2 / 2 = 2, D_e = 2 * 13 * 17 = 442.
    assert parsed["alpha"]["all"]["value"] == pytest.approx(1 - 29 * 2 / 442)
    assert all(worker not in out.read_text() + result.stdout for worker in WORKERS)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {
        "model": "stable", "prompt_id": "man/1", "index": "0", "attribute": "tie", "label": "0", "n_yes": "1",
        "n_votes": "3",
    }  # fmt: skip


def test_labels_in_words_and_of_one_model(batch):
    result = run_command("labels", batch, "--model", "stable")
    assert "18 votes of 3 people: 6 labels, 0 undecided" in result.stdout
    assert "Krippendorff's alpha 0." in result.stdout
    with pytest.raises(UsageError, match="--model cogview2: no votes on its images; there are those of dalle"):
        run_command("labels", batch, "--model", "cogview2")
