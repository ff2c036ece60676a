"""Contact sheets, tiny."""

import numpy as np
import pytest
from PIL import Image

from verism.errors import UsageError
from verism.simulator.catalogue import Catalogue, standard_catalogue
from verism.simulator.scene_renderer import PAINTS
from verism.simulator.sheet import LABEL_PX, VIEWS, draw_sheets

TILE = 64


@pytest.fixture(scope="module")
def tiny() -> Catalogue:
    every = standard_catalogue()
    return Catalogue({"stop sign": every.assets["stop sign"]}, {"empty": every.environments["empty"]})


def test_every_class_and_every_place_has_a_row(tiny, tmp_path):
    out = tmp_path / "new" / "sheet.png"
    paths = draw_sheets(tiny, out, tile=TILE)
    assert paths == [out, out.with_name("sheet-environments.png")]
    classes, places = (np.asarray(Image.open(p)) for p in paths)
    assert classes.shape == (TILE + LABEL_PX, 110 + (VIEWS + len(PAINTS)) * TILE, 3)
    assert places.shape == (TILE + LABEL_PX, 110 + VIEWS * TILE, 3)
    tiles = [classes[:TILE, 110 + k * TILE :][:, :TILE] for k in range(VIEWS + len(PAINTS))]
    assert all(np.ptp(t) > 60 for t in tiles)
    red, blue = (t.reshape(-1, 3).astype(int).sum(axis=0) for t in (tiles[VIEWS], tiles[VIEWS + 1]))
    assert red[0] > 1.2 * red[2]
    assert blue[2] > 1.2 * blue[0]


def test_unknown_classes_and_odd_names_are_refused_before_painting(tiny, tmp_path):
    with pytest.raises(UsageError, match=r"no class 'stop sgin'.* 'stop sign'"):
        draw_sheets(tiny, tmp_path / "a.png", only=["stop sgin"], tile=TILE)
    with pytest.raises(UsageError, match=r"name an image file, for example sheet\.png"):
        draw_sheets(tiny, tmp_path / "sheet", tile=TILE)
    assert list(tmp_path.iterdir()) == []
