"""Reference files: what is written comes back, and nothing else is accepted."""

import io
import json
import zipfile

import numpy as np
import pytest

from verism.errors import UsageError
from verism.records import ReferenceImage, ReferenceSet
from verism.references import read_provenance, read_radii, read_reference, write_reference

FEATURES = np.arange(6, dtype=np.float32).reshape(3, 2)


def reference(tmp_path, features=FEATURES, judge="inception-x"):
    (tmp_path / "a.jpg").write_bytes(b"a")
    images = (
        ReferenceImage(image_id="real/a", path=str(tmp_path / "a.jpg"), sha256="aa", facets={"object": "Löffel"}),
        ReferenceImage(image_id="real/b", path=str(tmp_path / "gone.jpg"), sha256="bb", facets={"row": 1}),
        ReferenceImage(image_id="real/c", path=None, facets={"region": None}),
    )
    return ReferenceSet(source="my data", images=images, judge=judge, features=features)


def test_what_is_written_comes_back(tmp_path):
    path = tmp_path / "r.npz"
    radii = {"region k=3": np.array([1.0, np.nan, 2.0])}
    write_reference(path, reference(tmp_path), {"verism": "0.1", "seconds": 3}, radii=radii)
    result = read_reference(path)
    assert result.source == "my data"
    assert result.judge == "inception-x"
    assert result.features.dtype == np.float32
    np.testing.assert_array_equal(result.features, FEATURES)
    assert [p.image_id for p in result.images] == ["real/a", "real/b", "real/c"]
    assert result.images[0] == reference(tmp_path).images[0]
    assert result.images[1].path is None  # the file is not on this machine; its features are known all the same
    assert result.images[1].facets == {"row": 1}
    np.testing.assert_array_equal(read_radii(path)["region k=3"], radii["region k=3"])
    reported = read_provenance(path)
    assert (reported["verism"], reported["seconds"], reported["source"], reported["judge"]) == (
        "0.1",
        3,
        "my data",
        "inception-x",
    )


def test_the_identity_does_not_depend_on_where_hashed_files_lie(tmp_path):
    write_reference(tmp_path / "r.npz", reference(tmp_path), {})
    assert read_reference(tmp_path / "r.npz").identity() == reference(tmp_path).identity()


def test_features_may_be_left_out(tmp_path):
    write_reference(tmp_path / "r.npz", reference(tmp_path, None, None), {})
    result = read_reference(tmp_path / "r.npz")
    assert result.features is None
    assert result.judge is None
    assert read_radii(tmp_path / "r.npz") == {}


def test_the_same_content_gives_the_same_bytes_and_nothing_is_pickled(tmp_path):
    write_reference(tmp_path / "a.npz", reference(tmp_path), {"x": 1})
    write_reference(tmp_path / "b.npz", reference(tmp_path), {"x": 1})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as stored:
        assert {name: stored[name].dtype.kind for name in stored.files} == {"head": "u", "rows": "u", "features": "f"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jpg", "a.npz", "b.npz"]  # no temporary file stays


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": FEATURES[:2]}, r"3 images need features of shape \(3, D\)"),
        ({"features": np.full((3, 2), np.nan)}, "the features of 3 images are NaN"),
        ({"judge": None}, "name of the judge who made them"),
    ],
)
def test_content_that_does_not_fit_is_not_written(tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        write_reference(tmp_path / "r.npz", reference(tmp_path, **change), {})
    assert not (tmp_path / "r.npz").exists()


def test_ids_are_unique_radii_complete_and_the_suffix_right(tmp_path):
    good = reference(tmp_path)
    twice = ReferenceSet(source="x", images=(good.images[0],) * 2)
    with pytest.raises(UsageError, match="1 of its 2 images share an id"):
        write_reference(tmp_path / "r.npz", twice, {})
    with pytest.raises(UsageError, match=r"has shape \(2,\), expected \(3,\)"):
        write_reference(tmp_path / "r.npz", good, {}, radii={"region": np.zeros(2)})
    with pytest.raises(UsageError, match=r"ends in \.npz"):
        write_reference(tmp_path / "r.npy", good, {})
    with pytest.raises(UsageError, match="no such folder"):
        write_reference(tmp_path / "no" / "r.npz", good, {})


def rewritten(path, **members):
    """The file with some of its arrays replaced."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files} | members
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_damage_is_seen(tmp_path):
    path = tmp_path / "r.npz"
    write_reference(path, reference(tmp_path), {})
    rewritten(path, features=FEATURES + 1)
    with pytest.raises(UsageError, match="'features' is not what was written"):
        read_reference(path)
    rewritten(path, features=None)
    with pytest.raises(UsageError, match="is damaged: it should hold"):
        read_reference(path)


def head_of(path, **change):
    with np.load(path) as stored:
        return np.frombuffer(json.dumps(json.loads(stored["head"].tobytes()) | change).encode(), np.uint8)


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "r.npz"
    with pytest.raises(UsageError, match="no such file"):
        read_reference(path)
    path.write_bytes(b"no zip")
    with pytest.raises(UsageError, match="expected a reference file"):
        read_reference(path)
    np.savez(path, mu=np.zeros(2), sigma=np.eye(2))
    with pytest.raises(UsageError, match="is not a reference file"):
        read_reference(path)
    write_reference(path, reference(tmp_path), {})
    rewritten(path, head=head_of(path, version=9))
    with pytest.raises(UsageError, match="has version 9, this verism reads 1"):
        read_reference(path)
    write_reference(path, reference(tmp_path), {})
    rewritten(path, head=head_of(path, format="something"))
    with pytest.raises(UsageError, match="its format is 'something'"):
        read_reference(path)


def test_pickles_are_not_opened(tmp_path):
    path = tmp_path / "r.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("head.npy", buffer.getvalue())
    with pytest.raises(UsageError, match="expected a reference file"):
        read_reference(path)
