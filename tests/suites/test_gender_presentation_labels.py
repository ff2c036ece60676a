"""Votes and labels of people: what is read, what is refused, and what is never kept."""

import csv

import numpy as np
import pytest

from verism.errors import UsageError
from verism.suites.gender_presentation.labels import (
    explicit_labels,
    image_of,
    labels_by_prompt,
    majority_labels,
    read_label_array,
    read_labels,
    read_votes,
    vote_agreement,
    write_labels,
)
from verism.suites.gender_presentation.prompts import make_prompts
from verism.suites.gender_presentation.studies import standard_study

STUDY = standard_study("released")
WORKERS = ("A1SECRETWORKER", "A2SECRETWORKER", "A3SECRETWORKER")
ITEMS = 10


def write(path, rows):
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def url(gender, prompt, number, model="stable", suffix="png"):
    return f"https://example.org/data/{gender}_v1_{model}_gen/{prompt}_{number}.{suffix}"


def batch_rows(phrase, images, votes):
    """Rows of a raw batch, as Mechanical Turk writes them. ``votes``: per image three answers."""
    rows = []
    for start in range(0, len(images), ITEMS):
        for w, worker in enumerate(WORKERS):
            row = {"HITId": f"H{start}", "WorkerId": worker, "AssignmentStatus": "Approved", "Input.attribute": phrase}
            row |= {f"Input.positive_url{i}": url("female", 20, 0) for i in range(5)}
            row |= {f"Input.image_url{i}": images[start + i] for i in range(ITEMS)}
            row |= {f"Answer.No{i}.0": str(not votes[start + i][w]).lower() for i in range(ITEMS)}
            row |= {f"Answer.Yes{i}.1": str(votes[start + i][w]).lower() for i in range(ITEMS)}
            rows.append(row)
    return rows


IMAGES = [url(g, first + p, j) for g, first in (("female", 0), ("male", 208)) for p in (0, 1) for j in range(5)]
VOTES = [(True, True, False), (False, False, False)] * 5 + [(True, True, True), (False, True, False)] * 5


@pytest.fixture
def batch(tmp_path):
    return write(tmp_path / "tie.csv", batch_rows("with a tie", IMAGES, VOTES))


# -------------------------------------------------------------------------------------------------------------- images
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://x.org/a/female_v1_stable_gen/12_3.png", ("stable", "woman/12", 3)),
        ("male_v1_cogview2_gen/255_4.jpg", ("cogview2", "man/255", 4)),
        (r"C:\data\woman_v1_dalle_gen\0_0.png", ("dalle", "woman/0", 0)),
        ("woman/12_3.png", (None, "woman/12", 3)),
        ("man/7#1", (None, "man/7", 1)),
        ("https://x.org/female_v1_stable_gen/12_3.png?raw=true", ("stable", "woman/12", 3)),
    ],
)
def test_the_image_is_decoded_from_its_name(text, expected):
    assert image_of(text, STUDY, "here") == expected


@pytest.mark.parametrize("text", ["cat_v1_stable_gen/1_1.png", "female_v1_stable_gen/1.png", "", "superwoman/1_1.png"])
def test_other_names_are_refused(text):
    with pytest.raises(UsageError, match="here: cannot tell which image"):
        image_of(text, STUDY, "here")


def test_prompts_the_study_lacks_are_refused():
    with pytest.raises(UsageError, match="prompts 0 to 255, not 256"):
        image_of("male_v1_dalle_gen/256_0.png", STUDY, "here")


# --------------------------------------------------------------------------------------------------------- raw batches
def test_a_raw_batch_becomes_majority_labels(batch):
    votes = read_votes([batch], STUDY)
    assert (len(votes.votes), votes.n_tasks, votes.n_rejected) == (60, 2, 0)
    labels = majority_labels(votes)
    assert len(labels) == 20
    results = {label.image[1:]: (label.label, label.n_yes, label.n_votes) for label in labels}
    assert results["woman/0", 0] == (1, 2, 3)
    assert results["woman/0", 1] == (0, 0, 3)
    assert results["man/208", 0] == (1, 3, 3)
    assert results["man/208", 1] == (0, 1, 3)
    assert {label.attribute for label in labels} == {"tie"}
    assert {label.image.model for label in labels} == {"stable"}


def test_nobody_can_be_found_in_what_is_kept(batch, tmp_path):
    first, second = read_votes([batch], STUDY), read_votes([batch], STUDY)
    assert all(worker not in repr(first) for worker in WORKERS)
    # One import knows three people apart; another import has other names for them.
    hashes = [{vote.worker for vote in votes.votes} for votes in (first, second)]
    assert [len(h) for h in hashes] == [3, 3]
    assert not hashes[0] & hashes[1]
    out = tmp_path / "labels.csv"
    write_labels(out, majority_labels(first))
    text = out.read_text()
    assert text.splitlines()[0] == "model,prompt_id,index,attribute,label,n_yes,n_votes"
    assert all(name not in text for name in (*WORKERS, *hashes[0]))


def test_written_labels_are_read_again(batch, tmp_path):
    labels = majority_labels(read_votes([batch], STUDY))
    write_labels(tmp_path / "labels.csv", labels)
    assert read_labels(tmp_path / "labels.csv", STUDY) == labels
    assert read_labels(batch, STUDY) == labels
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv", "tie.csv"]


def broken(tmp_path, change):
    rows = batch_rows("with a tie", IMAGES, VOTES)
    return write(tmp_path / "tie.csv", change(rows) or rows)


def test_yes_must_be_not_no(tmp_path):
    path = broken(tmp_path, lambda rows: rows[4].update({"Answer.No3.0": "true", "Answer.Yes3.1": "true"}))
    with pytest.raises(UsageError, match=r"tie.csv, line 6, item 3: Yes is 'true' and No is 'true'"):
        read_votes([path], STUDY)
    path = broken(tmp_path, lambda rows: rows[4].update({"Answer.No3.0": "", "Answer.Yes3.1": ""}))
    with pytest.raises(UsageError, match="Yes is 'empty'"):
        read_votes([path], STUDY)


def test_every_task_has_three_rows(tmp_path):
    with pytest.raises(UsageError, match=r"1 of 2 tasks do not have 3 rows.* one has 2"):
        read_votes([broken(tmp_path, lambda rows: rows[:-1])], STUDY)


def test_every_image_is_judged_three_times(batch, tmp_path):
    again = batch_rows("with a tie", [*IMAGES[:9], url("female", 5, 0)], VOTES[:10])
    for row in again:
        row["WorkerId"] = "B" + row["WorkerId"]
    with pytest.raises(UsageError, match=r"9 of 21 images and attributes do not have 3 votes; .* has 6"):
        read_votes([batch, write(tmp_path / "again.csv", again)], STUDY)
    with pytest.raises(UsageError, match="one person voted twice on image 0 of woman/0 by stable"):
        read_votes([batch, batch], STUDY)


def test_rejected_work_is_left_out_and_counted(tmp_path):
    def change(rows):
        return [*rows, {**rows[0], "WorkerId": "A9", "AssignmentStatus": "Rejected", "Answer.Yes0.1": ""}]

    votes = read_votes([broken(tmp_path, change)], STUDY)
    assert (len(votes.votes), votes.n_rejected) == (60, 1)


def test_unknown_and_foreign_attributes_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", batch_rows("with a crown", IMAGES, VOTES))
    with pytest.raises(UsageError, match="no attribute 'with a crown' in the study 'released'; there are in boots"):
        read_votes([path], STUDY)
    path = write(tmp_path / "b.csv", batch_rows("in a hat", IMAGES, VOTES))
    with pytest.raises(UsageError, match="man/208 was asked for 'with a tie' and is judged for that alone, not"):
        read_votes([path], STUDY)


def test_a_file_that_is_neither_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"neither votes .* nor a raw batch"):
        read_votes([write(tmp_path / "x.csv", [{"a": 1}])], STUDY)
    (tmp_path / "empty.csv").write_text("attribute,vote\n")
    with pytest.raises(UsageError, match="no rows"):
        read_votes([tmp_path / "empty.csv"], STUDY)


# --------------------------------------------------------------------------------------------------------------- tables
def test_a_table_of_votes_and_an_even_split(tmp_path):
    rows = [
        {"image": "woman/0_0.png", "attribute": "tie", "vote": vote, "worker": w}
        for w, vote in enumerate(("yes", "no", "1", "FALSE"))
    ]
    rows.append({"image": "man/0#2", "attribute": "a tie", "vote": "true", "worker": ""})
    votes = read_votes([write(tmp_path / "votes.csv", rows)], STUDY)
    even, clear = majority_labels(votes)
    assert (even.label, even.n_yes, even.n_votes) == (None, 2, 4)
    assert (clear.image.prompt_id, clear.label, clear.n_votes) == ("man/0", 1, 1)
    with pytest.raises(UsageError, match="do not have 3 votes"):
        read_votes([tmp_path / "votes.csv"], STUDY, votes_each=3)
    rows[0]["vote"] = "maybe"
    with pytest.raises(UsageError, match="line 2: 'maybe' is no vote"):
        read_votes([write(tmp_path / "votes.csv", rows)], STUDY)
    with pytest.raises(UsageError, match="no image named"):
        read_votes([write(tmp_path / "v.csv", [{"attribute": "tie", "vote": "no"}])], STUDY)


def test_alpha_of_votes(batch):
    result = vote_agreement(read_votes([batch], STUDY), by_attribute=True, n_resamples=200)
    assert set(result) == {"all", "tie"}
    # 20 units of 3 votes; 5 of each pattern. Yes: 5 (2 + 0 + 3 + 1) = 30 of 60. Per unit with one vote against two the
    # ordered pairs that differ are 4, over (3 - 1) = 2; ten such units: D_o = 20. D_e = 2 * 30 * 30 = 1800.
    assert result["all"].value == pytest.approx(1 - 59 * 20 / 1800)
    assert result["all"].low < result["all"].value < result["all"].high
    assert result["all"].n_units == 20


def test_labels_by_prompt_are_in_the_order_of_the_images(batch):
    prompts = make_prompts("gender_presentation", STUDY, [0, 208], n_images=5)
    assert labels_by_prompt(batch, STUDY, prompts) == {"woman/0": {"tie": "10101"}, "man/208": {"tie": "10101"}}
    fewer = make_prompts("gender_presentation", STUDY, [0, 1], n_images=2)
    assert labels_by_prompt(batch, STUDY, fewer)["woman/0"] == {"tie": "10"}
    with pytest.raises(UsageError, match="none of its 20 labels is of an image of this run"):
        labels_by_prompt(batch, STUDY, make_prompts("gender_presentation", STUDY, [3]))


def test_models_must_be_told_apart(tmp_path):
    mixed = [p if i % 2 else p.replace("stable", "dalle") for i, p in enumerate(IMAGES)]
    path = write(tmp_path / "mixed.csv", batch_rows("with a tie", mixed, VOTES))
    prompts = make_prompts("gender_presentation", STUDY, [0, 208])
    with pytest.raises(UsageError, match="several models: dalle, stable"):
        labels_by_prompt(path, STUDY, prompts)
    assert labels_by_prompt(path, STUDY, prompts, model="dalle")["woman/0"] == {"tie": "1-1-1"}
    with pytest.raises(UsageError, match="no labels of 'cogview2'; it has those of dalle, stable"):
        read_labels(path, STUDY, model="cogview2")


def test_a_second_label_is_refused(tmp_path):
    row = {"prompt_id": "woman/0", "index": 0, "attribute": "tie", "label": 1}
    with pytest.raises(UsageError, match="line 3: a second label for image 0 of woman/0"):
        read_labels(write(tmp_path / "labels.csv", [row, row]), STUDY)


# --------------------------------------------------------------------------------------------------------------- arrays
@pytest.fixture
def array():
    """Labels in the released layout: random where there are labels, 0 elsewhere."""
    rng = np.random.default_rng(0)
    labels = np.zeros((2, 1280, 15), dtype=np.int64)
    labels[:, :80] = rng.integers(0, 2, (2, 80, 15))
    for a in range(15):
        labels[:, 80 * (a + 1) : 80 * (a + 2), a] = rng.integers(0, 2, (2, 80))
    return labels


def test_label_arrays_are_read_prompt_by_prompt(array, tmp_path):
    np.save(tmp_path / "stable.npy", array)
    labels = read_labels(tmp_path / "stable.npy", STUDY, model="stable")
    assert len(labels) == 2 * (80 * 15 + 15 * 80)
    results = {(*label.image, label.attribute): label.label for label in labels}
    assert results["stable", "woman/12", 3, "boots"] == array[0, 12 * 5 + 3, 0]
    assert results["stable", "man/255", 4, "gloves"] == array[1, 1279, 14]
    prompts = make_prompts("gender_presentation", STUDY, [16])
    assert labels_by_prompt(tmp_path / "stable.npy", STUDY, prompts) == {
        name: {"boots": "".join(map(str, array[g, 80:85, 0]))} for g, name in enumerate(("woman/16", "man/16"))
    }


def test_an_explicit_block_is_no_answer_about_another_attribute(array):
    ties = explicit_labels(array, STUDY, gender="man", prompts_of="tie", judged_for="tie")
    assert ties.shape == (80,)
    assert np.array_equal(ties, array[1, 13 * 80 : 14 * 80, 12])
    with pytest.raises(UsageError, match="labelled for 'tie' alone; the zeros under 'hat' are not labels"):
        explicit_labels(array, STUDY, gender="man", prompts_of="tie", judged_for="hat")
    with pytest.raises(UsageError, match="no 'crown' in the study"):
        explicit_labels(array, STUDY, gender="man", prompts_of="crown", judged_for="crown")


def test_arrays_of_another_order_or_kind_are_refused(array, tmp_path):
    with pytest.raises(UsageError, match="woman/16 was asked for 'in boots' but has labels of 'in slippers'"):
        read_label_array(np.ones_like(array), STUDY)
    with pytest.raises(UsageError, match=r"shape \(2, 1280, 15\)"):
        read_label_array(array[:, :80], STUDY)
    with pytest.raises(UsageError, match="labels are 0 or 1"):
        read_label_array(array * 2, STUDY)
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match=r"without unpickling anything.*an array of numbers"):
        read_label_array(tmp_path / "pickled.npy", STUDY)
