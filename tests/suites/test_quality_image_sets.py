"""Where images and references of the quality suite come from."""

import numpy as np
import pytest
from PIL import Image

from verism.errors import DamagedRun, UsageError
from verism.records import Prompt, ReferenceImage, ReferenceSet, frame
from verism.references import write_reference
from verism.store import Run, RunSettings
from verism.suites.quality.image_sets import is_run, list_images, open_reference


def image(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((4, 4, 3), value, dtype=np.uint8)
    pixels[0, 0] = 255 - value
    Image.fromarray(pixels).save(path)
    return path


def started(folder):
    """A run directory with prompts and no images yet."""
    run = Run.start(folder, RunSettings(suite="s"))
    run.write_prompts(
        [
            Prompt(prompt_id="p", suite="s", text="a dog", facets={"region": "Africa"}, n_images=3),
            Prompt(prompt_id="q", suite="s", text="a cat", facets={"region": "Europe"}),
        ]
    )
    return run


def a_run(folder):
    """A run directory: two images of its own, one elsewhere, one failed."""
    elsewhere = image(folder.parent / "elsewhere" / "x.png", 9)
    images = [
        ("p#0", "p", 0, "ok", "images/p-0.png"),
        ("p#1", "p", 1, "failed", None),
        ("p#2", "p", 2, "ok", str(elsewhere)),
        ("q#0", "q", 0, "ok", "images/q-0.png"),
    ]
    rows = [
        {"image_id": i, "prompt_id": p, "index": n, "state": state, "path": path, "note": ""}
        for i, p, n, state, path in images
    ]
    run = started(folder)
    image(folder / "images" / "p-0.png", 1)
    image(folder / "images" / "q-0.png", 2)
    run.append("images", frame("images", rows[:2]))
    run.append("images", frame("images", rows[1:]))  # one image in both, as after a kill
    return folder


def test_a_folder_and_its_class_folders(tmp_path):
    image(tmp_path / "b.png")
    image(tmp_path / "cats" / "a.png")
    image(tmp_path / "cats" / "a.jpg")
    (tmp_path / "notes.txt").write_text("no image")
    listed = list_images(tmp_path)
    assert [(p.name, dict(p.facets)) for p in listed] == [
        ("b", {}),
        ("cats/a.jpg", {"folder": "cats"}),  # two files of one stem keep their endings
        ("cats/a.png", {"folder": "cats"}),
    ]
    assert all(p.path.is_absolute() for p in listed)


def test_a_list_with_facets(tmp_path):
    image(tmp_path / "x" / "a.png")
    path = tmp_path / "list.csv"
    path.write_text("file_path,region,prompt,object\nx/a.png,Africa,a car,car\n/elsewhere/b.png,Europe,,\n")
    first, second = list_images(path)
    assert (first.name, first.path, first.text) == ("x/a", tmp_path / "x" / "a.png", "a car")
    assert first.facets == {"region": "Africa", "object": "car"}
    assert second.facets == {"region": "Europe", "object": None}


def test_a_run_directory(tmp_path):
    run = a_run(tmp_path / "run")
    assert is_run(run)
    listed = list_images(run)
    assert [(p.name, p.prompt_id, p.index, p.text) for p in listed] == [
        ("p#0", "p", 0, "a dog"),
        ("p#1", "p", 1, "a dog"),
        ("p#2", "p", 2, "a dog"),
        ("q#0", "q", 0, "a cat"),
    ]
    assert [p.path for p in listed] == [
        run / "images" / "p-0.png",
        None,
        tmp_path / "elsewhere" / "x.png",
        run / "images" / "q-0.png",
    ]
    assert listed[0].facets == {"region": "Africa"}
    reference = open_reference(run)
    assert (reference.kind, len(reference.images.images), reference.left_out) == ("pictures", 3, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path_to,region\na.png,x\n", r"line 2: no file_path; .*this one has path_to, region"),
        ("file_path\na.png\n./a.png\n", r"line 3: a.png is listed already \(.*line 2\)"),
        ("file_path\n", "no rows in it"),
    ],
)  # fmt: skip
def test_bad_lists(tmp_path, content, message):
    path = tmp_path / "list.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        list_images(path)


def test_nothing_there(tmp_path):
    with pytest.raises(UsageError, match="no such folder or file; expected a folder of images"):
        list_images(tmp_path / "none")
    with pytest.raises(UsageError, match="no images in it"):
        list_images(tmp_path)


# --------------------------------------------------------------------------------------------------------- references
def test_references_of_images(tmp_path):
    image(tmp_path / "real" / "a.png")
    opened = open_reference(tmp_path / "real")
    assert opened.kind == "pictures"
    (only,) = opened.images.images
    assert (only.image_id, only.path) == ("real/a", str(tmp_path / "real" / "a.png"))


def test_features_alone(tmp_path):
    features = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "f.npy", features)
    np.savez(tmp_path / "f.npz", pool=features)
    np.savez(tmp_path / "g.npz", features=features, labels=np.arange(4))
    for name in ("f.npy", "f.npz", "g.npz"):
        opened = open_reference(tmp_path / name)
        assert opened.kind == "features"
        assert opened.images.judge is None  # nobody knows who made them
        assert opened.images.features.tolist() == features.tolist()
        assert [p.image_id for p in opened.images.images][:2] == ["real/0000000", "real/0000001"]


def test_statistics(tmp_path):
    np.savez(tmp_path / "coco_val.npz", mu=np.zeros(3), sigma=np.eye(3))
    opened = open_reference(tmp_path / "coco_val.npz")
    assert (opened.kind, opened.images) == ("statistics", None)


def test_reference_files(tmp_path):
    images = (
        ReferenceImage(image_id="real/a", path=None, facets={"region": "Africa"}),
        ReferenceImage(image_id="real/b", path=None, facets={"region": "Europe"}),
    )
    features = np.ones((2, 3), dtype=np.float32)
    write_reference(tmp_path / "r.npz", ReferenceSet(source="s", images=images, judge="net@1", features=features), {})
    opened = open_reference(tmp_path / "r.npz")
    assert (opened.kind, opened.images.judge) == ("features", "net@1")
    assert [p.facets["region"] for p in opened.images.images] == ["Africa", "Europe"]
    write_reference(tmp_path / "names.npz", ReferenceSet(source="s", images=images), {})
    with pytest.raises(UsageError, match="names 2 images without their features, and 2 of the files are not here"):
        open_reference(tmp_path / "names.npz")


def test_arrays_that_are_no_features(tmp_path):
    def saved(name, **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    with pytest.raises(UsageError, match=r"got arrays \['a', 'b'\]"):
        open_reference(saved("two.npz", a=np.ones(2), b=np.ones(2)))
    with pytest.raises(UsageError, match=r"features have shape \(images, numbers per image\); got float64 \(2,\)"):
        open_reference(saved("flat.npz", features=np.ones(2)))
    with pytest.raises(UsageError, match="features of 1 images are NaN or infinite"):
        open_reference(saved("nan.npz", features=np.array([[1.0, 2.0], [np.nan, 1.0]])))
    with pytest.raises(UsageError, match="cannot be read as an array without unpickling"):
        open_reference(saved("objects.npz", features=np.array([{}], dtype=object)))
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(UsageError, match=r"text\.npz cannot be read as an array"):
        open_reference(tmp_path / "text.npz")


def test_a_run_without_images(tmp_path):
    run = started(tmp_path / "run")
    with pytest.raises(UsageError, match="has made no images yet"):
        list_images(run.path)
    run.append("images", frame("images", [{"image_id": "p#1", "prompt_id": "p", "index": 1, "state": "failed"}]))
    with pytest.raises(UsageError, match="none of the 1 images of this run can be used"):
        open_reference(run.path)


def test_a_run_with_a_damaged_table(tmp_path):
    run = a_run(tmp_path / "run")
    part = next((run / "images").glob("part-*.parquet"))
    part.unlink()
    with pytest.raises(DamagedRun, match=rf"{part.name} is damaged: it is gone"):
        list_images(run)
