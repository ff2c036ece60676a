"""The built-in embedder: its words, what it refuses, what it says of renders, and the record of what it missed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from verism.errors import UsageError
from verism.judges.embedding.builtin import BuiltinEmbedder
from verism.judges.embedding.vocabulary import LONGEST, PADDING, START, UNKNOWN, Vocabulary, words_of
from verism.records import EmbeddingNeed, LoadedImage, Region, Scene, SceneObject, SkinToneNeed
from verism.simulator.portraits import PeopleRenderer
from verism.simulator.scene_renderer import SceneRenderer


@pytest.fixture(scope="module")
def judge() -> BuiltinEmbedder:
    return BuiltinEmbedder(threads=1)


# --------------------------------------------------------------------------------------------------------------------
# Words
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A photo of 3 dogs.", "a photo of 3 dog"),
        ("an image of three Dogs", "a photo of 3 dog"),
        ("buses and benches", "bus and bench"),
        ("A woman wears jeans and boots", "a person wearing jeans and boots"),
        ("a man in glasses; a glass", "a person in glasses ; a glass"),
        ("two bikes, one airplane", "2 bicycle 1 airplane"),
        ("", ""),
    ],
)
def test_words_are_brought_to_one_form(text: str, words: str):
    known = frozenset(["dog", "bus", "bench", "bicycle", "airplane", "jeans", "boots", "glasses", "glass"])
    assert words_of(text, known) == words.split()


def test_tokens_unknown_words_and_padding():
    vocabulary = Vocabulary(("a", "dog", "person"))
    dog, person = vocabulary.tokens("dog")[1], vocabulary.tokens("person")[1]
    assert len({PADDING, UNKNOWN, START, dog, person}) == 5
    assert vocabulary.tokens("a dog on a unicorn") == [START, *vocabulary.tokens("a")[1:], dog, UNKNOWN,
                                                       *vocabulary.tokens("a")[1:], UNKNOWN]  # fmt: skip
    assert vocabulary.unknown("a unicorn on a dog on a sofa") == ["unicorn", "on", "sofa"]
    rows = vocabulary.array(["dog", "dog " * 100])
    assert rows.shape == (2, LONGEST)
    assert rows[0].tolist() == [START, dog] + [PADDING] * (LONGEST - 2)
    assert (rows[1, 1:] == dog).all()


def test_a_vocabulary_has_each_word_once():
    with pytest.raises(UsageError, match="each word once"):
        Vocabulary(("dog", "dog"))


def test_words_for_women_and_men_are_one_word(judge: BuiltinEmbedder):
    rows = judge.embed_texts(["A woman in a hat", "A man in a hat", "A person in a hat", "A person in a tie"])
    a, b, c, d = np.array(rows["vector"].to_list())
    assert np.array_equal(a, b)
    assert np.array_equal(a, c)
    assert float(a @ d) < 0.9


# --------------------------------------------------------------------------------------------------------------------
# What it says
# --------------------------------------------------------------------------------------------------------------------
SCENES = {
    "a red car": ("open_road", (SceneObject(shape="car", label="car", color="red", texture="pure"),)),
    "a blue car": ("open_road", (SceneObject(shape="car", label="car", color="blue", texture="pure"),)),
    "3 dogs": ("meadow", (SceneObject(shape="dog", label="dog"),) * 3),
    "1 dog": ("meadow", (SceneObject(shape="dog", label="dog"),)),
    "a bus is left to a chair": (
        "city_plaza",
        (SceneObject(shape="chair", label="chair"), SceneObject(shape="bus", label="bus", relation="left_0")),
    ),
    "a bus is right to a chair": (
        "city_plaza",
        (SceneObject(shape="chair", label="chair"), SceneObject(shape="bus", label="bus", relation="right_0")),
    ),
}


@pytest.fixture(scope="module")
def shown() -> dict[str, list[LoadedImage]]:
    """Two images of each scene."""
    renderer = SceneRenderer(192)
    images = {}
    for number, (text, (place, objects)) in enumerate(SCENES.items()):
        images[text] = [
            LoadedImage(
                image_id=f"{number}#{k}",
                prompt_id=str(number),
                pixels=renderer.render(
                    Scene(
                        scene_id="s",
                        skill="object",
                        split="val",
                        text=text,
                        background=place,
                        objects=objects,
                        seed=7_000_000 + 10 * number + k,
                    )
                ).pixels,
            )
            for k in range(2)
        ]
    return images


def test_rendered_scenes_are_nearest_to_their_texts(judge: BuiltinEmbedder, shown: dict[str, list[LoadedImage]]):
    need = EmbeddingNeed(texts=tuple(shown))
    texts = np.array(judge.embed_texts(need.texts)["vector"].to_list())
    images = [image for pair in shown.values() for image in pair]
    table = judge.observe(images, need)
    assert isinstance(table, pl.DataFrame)
    vectors = np.array(table["vector"].to_list())
    assert table["judge"].unique().to_list() == [judge.name]
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    nearest = (vectors @ texts.T).argmax(axis=1)
    right = (nearest == np.repeat(np.arange(len(shown)), 2)).sum()
    assert right >= 10, nearest  # of twelve; chance gives two


def test_vectors_do_not_depend_on_the_batch(judge: BuiltinEmbedder, shown: dict[str, list[LoadedImage]]):
    images = [image for pair in shown.values() for image in pair]
    need = EmbeddingNeed(texts=())
    together = np.array(judge.observe(images, need)["vector"].to_list())  # type: ignore[call-overload]
    alone = np.array(BuiltinEmbedder(threads=1, batch_size=1).observe(images, need)["vector"].to_list())  # type: ignore[call-overload]
    assert np.allclose(together, alone, atol=1e-5)


def test_hats_are_seen_on_people(judge: BuiltinEmbedder):
    renderer = PeopleRenderer(256, "full")
    people = [
        renderer.render(woman=k % 2 == 0, tone=k % 10 + 1, worn={"jeans", *({"hat"} if hat else set())}, seed=910 + k)
        for hat in (True, False)
        for k in range(4)
    ]
    images = [LoadedImage(image_id=str(k), prompt_id="p", pixels=p.pixels) for k, p in enumerate(people)]
    rows = judge.observe(images, EmbeddingNeed(texts=("a hat",)))
    query = np.array(judge.embed_texts(["a hat"])["vector"].to_list())[0]
    cosines = np.array(rows["vector"].to_list()) @ query  # type: ignore[call-overload]
    assert cosines[:4].min() > cosines[4:].max()


def test_objects_of_a_segmenter_have_vectors_of_their_own(judge: BuiltinEmbedder):
    pixels = np.zeros((64, 64, 3), dtype=np.uint8)
    region = Region(segment=0, label="car", score=0.9, box=(4.0, 4.0, 40.0, 40.0), mask=None)
    image = LoadedImage(image_id="i", prompt_id="p", pixels=pixels, regions=(region,), regions_by="finder@1")
    need = EmbeddingNeed(texts=("a car",), regions={"p": ("car",)}, views=("boxed",))
    tables = judge.observe([image], need)
    assert isinstance(tables, dict)
    assert tables["region_embeddings"].select("image_id", "segmenter", "segment", "view").rows() == [
        ("i", "finder@1", 0, "boxed")
    ]


# --------------------------------------------------------------------------------------------------------------------
# What it refuses, and what it names
# --------------------------------------------------------------------------------------------------------------------
def test_texts_that_name_people_alone_are_refused(judge: BuiltinEmbedder):
    texts = ("a photo of a male", "a photo of a female", "a photo of a White person", "a photo of a Asian person")
    with pytest.raises(UsageError, match="it perceives no gender"):
        judge.check(EmbeddingNeed(texts=texts))
    judge.check(EmbeddingNeed(texts=(*texts, "a man in a white hat")))
    with pytest.raises(UsageError, match="SkinToneNeed"):
        judge.check(SkinToneNeed())  # type: ignore[arg-type]


def test_unknown_words_and_cut_texts_are_named_once():
    fresh = BuiltinEmbedder(threads=1)
    assert fresh.remarks() == []
    fresh.embed_texts(["a dog and a unicorn", "a unicorn by a sofa", "a dog " * 40])
    fresh.embed_texts(["a dog and a unicorn"])
    unknown, cut = fresh.remarks()
    assert "does not know 2 words of 3 texts" in unknown
    assert unknown.endswith("unicorn, sofa")  # the more frequent one first
    assert "1 texts are longer" in cut
    assert fresh.summary() == fresh.remarks()


def test_texts_without_a_known_word_are_named():
    fresh = BuiltinEmbedder(threads=1)
    fresh.embed_texts(["a dog and a unicorn", "", "ein Einhorn", "???", *(f"xyz{n}zyx" for n in "abcd")])
    _, foreign = fresh.remarks()
    assert "knows no word of 6 of 8 texts, so that similarities to them mean nothing, and count all the same" in foreign
    assert foreign.endswith(": 'ein Einhorn', '???', 'xyzazyx', 'xyzbzyx', 'xyzczyx' and 1 more")
    fresh.start_run()
    assert fresh.remarks() == []


def test_a_folder_without_an_embedder_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="verism train embedder"):
        BuiltinEmbedder(tmp_path)
    (tmp_path / "embedder_images.onnx").write_bytes(b"no network")
    with pytest.raises(UsageError, match="not a file written by"):
        BuiltinEmbedder(tmp_path)
