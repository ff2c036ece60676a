from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from verism.judges.vector_cache import VectorCache, cached_rows, pixels_key, text_key

KEYS = [text_key(t) for t in "abcdef"]
ROWS = np.arange(18, dtype=np.float32).reshape(6, 3)


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.npz"))


# --------------------------------------------------------------------------------------------------------------------
# Keys
# --------------------------------------------------------------------------------------------------------------------
def test_an_image_is_known_by_shape_and_bytes() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert pixels_key(pixels) == pixels_key(pixels.copy())
    assert pixels_key(pixels) != pixels_key(pixels.reshape(4, 2, 3)), "the same bytes in another shape"
    assert pixels_key(pixels) != pixels_key(pixels[::-1])
    turned = np.asfortranarray(pixels)  # the same image, laid out otherwise in memory
    assert pixels_key(turned) == pixels_key(pixels)
    assert pixels_key(pixels[:, ::2]) == pixels_key(pixels[:, ::2].copy())
    with pytest.raises(ValueError, match=r"must be uint8.*got float64 of shape \(2, 2, 3\)"):
        pixels_key(np.zeros((2, 2, 3)))  # type: ignore[arg-type]


def test_texts_are_known_by_their_letters() -> None:
    assert len({text_key(t) for t in ("a dog", "A dog", "a dog ", "", "犬")}) == 5
    assert text_key("") != pixels_key(np.zeros((0, 0, 3), dtype=np.uint8))


# --------------------------------------------------------------------------------------------------------------------
# In memory
# --------------------------------------------------------------------------------------------------------------------
def test_what_is_put_can_be_got_and_not_changed() -> None:
    cache = VectorCache("judge")
    rows = ROWS.copy()
    cache.put(KEYS, rows)
    rows[:] = -1  # the caller goes on with its array
    assert len(cache) == 6
    result = cache.get(KEYS[2])
    assert result is not None
    assert result.tolist() == [6, 7, 8]
    assert result.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 1
    assert cache.get(text_key("other")) is None
    with pytest.raises(ValueError, match=r"one row for each of the 2 keys; got shape \(6, 3\)"):
        cache.put(KEYS[:2], ROWS)


def test_only_missing_distinct_keys_are_computed_in_order() -> None:
    cache = VectorCache("judge")
    cache.put(KEYS[1:2], ROWS[1:2])
    asked: list[list[int]] = []

    def compute(positions: list[int]) -> np.ndarray:
        asked.append(positions)
        return np.array([[100.0 + p] * 3 for p in positions])

    keys = [KEYS[3], KEYS[1], KEYS[0], KEYS[3], KEYS[0]]
    result = cached_rows(cache, keys, compute)
    assert asked == [[0, 2]]
    assert result[:, 0].tolist() == [100, 3, 102, 100, 102]
    assert result.dtype == np.float32
    assert np.array_equal(cached_rows(cache, keys, compute), result)
    assert len(asked) == 1
    assert cached_rows(None, [KEYS[0], KEYS[0]], compute).tolist() == [[100] * 3] * 2
    assert asked[1:] == [[0]]
    assert cached_rows(cache, [], compute).shape == (0, 0)


def test_as_many_vectors_as_were_asked_for() -> None:
    with pytest.raises(ValueError, match="one row for each of the 2 keys"):
        cached_rows(None, KEYS[:2], lambda _: ROWS[:1])


# --------------------------------------------------------------------------------------------------------------------
# In a folder
# --------------------------------------------------------------------------------------------------------------------
def test_a_folder_is_shared_by_runs_and_judges_do_not_mix(tmp_path: Path) -> None:
    name = "clip:openai/clip@1 preprocessing=model" + " x" * 200  # longer than a file name may be
    VectorCache(name, tmp_path).put(KEYS[:3], ROWS[:3])
    VectorCache(name, tmp_path).put(KEYS[3:], ROWS[3:])
    again = VectorCache(name, tmp_path)
    assert [again.get(k).tolist() for k in KEYS] == ROWS.tolist()  # type: ignore[union-attr]
    assert len(VectorCache(name + " dtype=bfloat16", tmp_path)) == 0
    assert [p.name for p in parts(tmp_path)[0].parent.iterdir() if p.suffix != ".npz"] == [], "no files left behind"


def test_vectors_survive_to_the_bit(tmp_path: Path) -> None:
    rows = np.array([[np.nan, -0.0, np.inf, 1e-45, np.float32(1) / 3]], dtype=np.float32)
    VectorCache("judge", tmp_path).put(KEYS[:1], rows)
    result = VectorCache("judge", tmp_path).get(KEYS[0])
    assert result is not None
    assert result.tobytes() == rows.tobytes()


def test_what_another_process_adds_is_found(tmp_path: Path) -> None:
    first, second = VectorCache("judge", tmp_path), VectorCache("judge", tmp_path)
    first.put(KEYS, ROWS)

    def never(_: list[int]) -> np.ndarray:
        raise AssertionError("known already")

    assert np.array_equal(cached_rows(second, KEYS, never), ROWS)


def test_a_damaged_part_is_absent_and_replaced(tmp_path: Path) -> None:
    VectorCache("judge", tmp_path).put(KEYS[:3], ROWS[:3])
    VectorCache("judge", tmp_path).put(KEYS[3:], ROWS[3:])
    (part,) = (p for p in parts(tmp_path) if _holds(p, KEYS[0]))
    part.write_bytes(part.read_bytes()[:-40])
    cache = VectorCache("judge", tmp_path)
    assert [cache.get(k) is not None for k in KEYS] == [False] * 3 + [True] * 3
    cached_rows(cache, KEYS[:2], lambda positions: ROWS[positions])  # other keys than the damaged part held
    assert part not in parts(tmp_path)
    assert len(VectorCache("judge", tmp_path)) == 5


def _holds(part: Path, key: str) -> bool:
    with np.load(part) as stored:
        return bytes.fromhex(key) in [bytes(k) for k in stored["keys"]]


def test_no_damage_stops_a_run_or_gives_a_wrong_vector(tmp_path: Path) -> None:
    VectorCache("judge", tmp_path).put(KEYS, ROWS)
    (part,) = parts(tmp_path)
    full = part.read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(300):
        data = bytearray(full)
        if trial % 3 == 0:
            data = data[: rng.integers(0, len(data))]
        elif trial % 3 == 1:
            data[rng.integers(0, len(data))] ^= 1 << int(rng.integers(0, 8))
        else:
            data = bytearray(rng.bytes(int(rng.integers(0, 400))))
        part.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cache = VectorCache("judge", tmp_path)
        for key, row in zip(KEYS, ROWS, strict=True):
            result = cache.get(key)
            assert result is None or np.array_equal(result, row), trial


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    VectorCache("judge", tmp_path).put(KEYS, ROWS)
    folder = parts(tmp_path)[0].parent
    (folder / "notes.txt").write_text("mine")
    (folder / "half.tmp").write_bytes(b"another process is writing")
    other = VectorCache("other judge", tmp_path)
    other.put(KEYS, ROWS + 1)
    moved = next(p for p in parts(tmp_path) if p.parent != folder)
    moved = moved.rename(folder / f"{'0' * 32}.npz")  # of another judge: not ours, wherever it lies
    (folder / "own.npz").write_bytes(b"no part of a cache")
    cache = VectorCache("judge", tmp_path)
    assert cache.get(KEYS[0]).tolist() == [0, 1, 2]  # type: ignore[union-attr]
    cache.put([text_key("new")], ROWS[:1])
    assert all((folder / name).is_file() for name in ("notes.txt", "half.tmp", "own.npz", moved.name))


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = VectorCache("judge", tmp_path / "file")
    with pytest.warns(UserWarning, match="cannot be kept in .*they stay in memory"):
        cache.put(KEYS[:3], ROWS[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEYS[3:], ROWS[3:])
    assert len(cache) == 6


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from verism.judges.vector_cache import VectorCache, cached_rows, text_key\n"
        "cache = VectorCache('judge', Path(sys.argv[1]))\n"
        "for i in range(40):\n"
        "    keys = [text_key(str(n)) for n in range(i, i + 5)]\n"
        "    rows = cached_rows(cache, keys, lambda ps: np.array([[float(i + p)] for p in ps]))\n"
        "    assert rows[:, 0].tolist() == list(range(i, i + 5)), rows\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    cache = VectorCache("judge", tmp_path)
    assert len(cache) == 44
    assert [float(cache.get(text_key(str(n)))[0]) for n in range(44)] == list(range(44))  # type: ignore[index]
