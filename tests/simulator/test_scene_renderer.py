"""Images with exact truth: what the scene says holds in the boxes, and the same scene is the same image."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import trimesh
from PIL import Image
from trimesh.visual.material import PBRMaterial, SimpleMaterial

from verism.errors import UsageError, VerismError
from verism.records import Rendered, Scene, SceneObject
from verism.simulator import parallel_renderer, user_assets
from verism.simulator import scene_renderer as scene_renderer_module
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.model import Asset, Material, Model
from verism.simulator.parallel_renderer import ParallelRenderer
from verism.simulator.renderer import Camera
from verism.simulator.scene_renderer import MATERIALS, MIN_VISIBLE, SceneRenderer
from verism.simulator.shapes import box
from verism.simulator.user_assets import load_assets, load_model

SIZE = 96


def thing(label: str, **fields) -> SceneObject:
    return SceneObject(shape=label, label=label, **fields)


def scene(*objects: SceneObject, seed: int = 1, background: str = "empty", skill: str = "object") -> Scene:
    return Scene(
        scene_id=f"s{seed}", skill=skill, split="val", text="", background=background, objects=objects, seed=seed
    )


@cache
def paint(asked: Scene) -> Rendered:
    return SceneRenderer(SIZE).render(asked)


FOUR = scene(*[thing("suitcase")] * 4, seed=5, background="tiled_hall", skill="count")
RELATED = [
    scene(thing("chair"), thing(other, relation=f"{relation}_0"), seed=seed, background=position, skill="spatial")
    for other, position, seed in (("dog", "beach", 3), ("chair", "empty", 4))
    for relation in ("left", "right", "above", "below")
]
ALL = [FOUR, *RELATED]
NAMES = [f"{len(s.objects)} {s.objects[1].label} {s.objects[1].relation or ''}".strip() for s in ALL]


@pytest.mark.parametrize("asked", ALL, ids=NAMES)
def test_boxes_are_the_extents_of_the_mask(asked):
    rendered = paint(asked)
    assert rendered.pixels.shape == (SIZE, SIZE, 3)
    assert rendered.pixels.dtype == rendered.mask.dtype == np.uint8
    assert rendered.boxes.dtype == np.float32
    assert set(np.unique(rendered.mask)) == set(range(len(asked.objects) + 1))
    for number, result in enumerate(rendered.boxes):
        ys, xs = np.nonzero(rendered.mask == number + 1)
        assert result.tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]


@pytest.mark.parametrize("asked", ALL, ids=NAMES)
def test_every_object_is_there_and_can_be_seen(asked):
    rendered = paint(asked)
    assert rendered.visible.shape == (len(asked.objects),)
    assert rendered.visible.min() >= MIN_VISIBLE
    assert rendered.visible.max() <= 1
    extent = rendered.boxes[:, 2:] - rendered.boxes[:, :2]
    assert extent.max(axis=1).min() >= 0.1 * SIZE
    assert rendered.boxes.min() >= 0
    assert rendered.boxes.max() <= SIZE


@pytest.mark.parametrize("asked", RELATED, ids=NAMES[1:])
def test_relations_hold_in_the_boxes(asked):
    a, b = (np.array([(x0 + x1) / 2, (y0 + y1) / 2]) for x0, y0, x1, y1 in paint(asked).boxes)
    right, down = (b - a).tolist()
    relation = asked.objects[1].relation
    along, across = {
        "left_0": (-right, down),
        "right_0": (right, down),
        "above_0": (-down, right),
        "below_0": (down, right),
    }[relation]
    assert along > abs(across)
    sides = paint(asked).boxes[:, 2:] - paint(asked).boxes[:, :2]
    axis = 0 if relation in ("left_0", "right_0") else 1
    assert along > 0.5 * sides[:, axis].mean()  # the revised rule asks for a quarter


def test_a_seed_decides_every_bit():
    asked = RELATED[0]
    again = SceneRenderer(SIZE).render(asked)
    first = paint(asked)
    for name in ("pixels", "boxes", "visible", "mask"):
        assert getattr(again, name).tobytes() == getattr(first, name).tobytes()
    assert paint(replace(asked, seed=99)).pixels.tobytes() != first.pixels.tobytes()


def test_several_renderers_paint_the_same_and_in_order(monkeypatch):
    monkeypatch.setattr(parallel_renderer, "FEW", 0)
    wrong = scene(thing("dgo"), seed=9)
    with ParallelRenderer(SIZE, processes=2) as several:
        assert several.name == SceneRenderer(SIZE).name
        rendered = list(several.render_all([RELATED[4], wrong, RELATED[5]]))
    assert isinstance(rendered[1], VerismError)
    assert "'dgo'" in str(rendered[1])
    for result, asked in ((rendered[0], RELATED[4]), (rendered[2], RELATED[5])):
        assert result.pixels.tobytes() == paint(asked).pixels.tobytes()
        assert result.boxes.tobytes() == paint(asked).boxes.tobytes()


def test_processes_start_when_more_than_a_few_scenes_were_asked_for(monkeypatch):
    class Started(Exception):
        pass

    def start(*_, **__):
        raise Started

    monkeypatch.setattr(parallel_renderer, "FEW", 3)
    monkeypatch.setattr(parallel_renderer, "ProcessPoolExecutor", start)
    several = ParallelRenderer(SIZE, processes=2)
    wrong = scene(thing("dgo"), seed=9)
    first, second, third = [*several.render_all([RELATED[4], wrong]), *several.render_all([RELATED[5]])]
    assert first.pixels.tobytes() == paint(RELATED[4]).pixels.tobytes()
    assert isinstance(second, VerismError)
    assert third.pixels.tobytes() == paint(RELATED[5]).pixels.tobytes()
    with pytest.raises(Started):
        next(several.render_all([RELATED[4]]))


def test_a_scene_of_nothing_is_its_place():
    rendered = paint(scene(background="meadow"))
    assert rendered.boxes.shape == (0, 4)
    assert rendered.visible.shape == (0,)
    assert not rendered.mask.any()
    assert np.ptp(rendered.pixels) > 20
    assert not paint(scene(background="empty")).pixels.any()  # the published v1 background is black


def is_of(color: str, pixels: np.ndarray) -> np.ndarray:
    """Which pixels (N, 3) a person would call by that colour, bright or in the shade."""
    r, g, b = pixels.astype(float).T + 1
    return {
        "red": r > 1.6 * np.maximum(g, b),
        "blue": b > 1.4 * np.maximum(r, g),
        "yellow": np.minimum(r, g) > 1.5 * b,
        "white": (np.max([r, g, b], axis=0) < 1.35 * np.min([r, g, b], axis=0)) & (g > 60),
        "purple": np.minimum(r, b) > 1.4 * g,
        "green": g > 1.4 * np.maximum(r, b),
    }[color]


PUBLISHED = ("red", "blue", "yellow", "white", "purple", "green")


@pytest.mark.parametrize("color", PUBLISHED)
def test_paint_dominates_what_is_rendered(color):
    rendered = paint(scene(thing("suitcase", color=color, texture="pure"), seed=3))
    shown = rendered.pixels[rendered.mask == 1]
    shares = {name: is_of(name, shown).mean() for name in PUBLISHED}
    assert shares[color] > 0.5
    assert max(shares, key=shares.get) == color


def test_solid_stands_in_for_a_class_without_model_and_gives_way_to_one():
    cube = SceneObject(shape="solid:cube", label="toothbrush", color="pink")
    rendered = paint(scene(cube, seed=4))
    assert rendered.boxes.shape == (1, 4)
    assert (rendered.mask == 1).sum() > 50
    dog = replace(cube, label="dog")  # the simulator has a dog, so the solid is not needed
    assert (
        paint(scene(dog, seed=4)).pixels.tobytes() == paint(scene(replace(dog, shape="dog"), seed=4)).pixels.tobytes()
    )
    with pytest.raises(UsageError, match="no class 'toothbrush'"):
        paint(scene(replace(cube, shape="solid:teapot"), seed=4))


# ------------------------------------------------------------------------------------------------------------- refused
def test_unknown_classes_and_places_suggest_near_ones():
    renderer = SceneRenderer(SIZE)
    with pytest.raises(UsageError, match=r"no class 'dgo'\. Did you mean 'dog'\?.*--assets"):
        renderer.render(scene(thing("dgo")))
    with pytest.raises(UsageError, match=r"no environment 'medow'\. Did you mean 'meadow'"):
        renderer.render(scene(background="medow"))
    with pytest.raises(UsageError, match=r"no environment 'qqq'\. There are \["):
        renderer.render(scene(background="qqq"))
    with pytest.raises(VerismError, match=r"unknown colour 'mauve'; choose from \['black'"):
        renderer.render(scene(thing("dog", color="mauve")))
    (answer,) = renderer.render_all([scene(thing("dgo"))])
    assert isinstance(answer, UsageError)


@pytest.mark.parametrize("size", [63, 2049, 0, -5])
def test_sizes_out_of_range(size):
    for make in (SceneRenderer, ParallelRenderer):
        with pytest.raises(ValueError, match=f"64 to 2048 pixels, got {size}"):
            make(size)


def test_what_does_not_fit_is_an_error_and_no_image(monkeypatch):
    monkeypatch.setattr(scene_renderer_module, "LAYOUTS", 2)
    monkeypatch.setattr(scene_renderer_module, "DRAWS", 5)
    with pytest.raises(VerismError, match=r"scene s1: no placement .* after 2 attempts; ask for fewer"):
        SceneRenderer(SIZE).render(scene(*[thing("stop sign", scale=3.0)] * 9))


def test_what_takes_no_paint_is_an_error_and_not_a_crash():
    bare = Asset(label="ghost", build=lambda *_: Model.of([(box((1, 1, 1)), Material((0.5, 0.5, 0.5)))]))
    catalogue = replace(standard_catalogue(), assets={"ghost": bare})
    (answer,) = SceneRenderer(SIZE, catalogue).render_all([scene(thing("ghost", color="red"))])
    assert isinstance(answer, VerismError)
    assert "ghost cannot be red: no part of this model is paintable" in str(answer)


def of_two(relation=None, texture="plain", background="meadow", seed=1):
    objects = (
        SceneObject(shape="dog", label="dog"),
        SceneObject(shape="suitcase", label="suitcase", relation=relation, texture=texture),
    )
    return Scene(scene_id="s", skill="spatial", split="val", text="", background=background, objects=objects, seed=seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("relation", ["front_0", "behind_0"])
def test_what_lies_in_front_is_nearer_and_covers_some_of_the_other(relation, seed):
    rendered = SceneRenderer(96).render(of_two(relation, seed=seed))
    depth = [float(np.median(rendered.depth[rendered.mask == number])) for number in (1, 2)]
    assert (depth[1] < depth[0]) == (relation == "front_0")
    a, b = rendered.boxes
    assert (np.minimum(a[2:], b[2:]) > np.maximum(a[:2], b[:2]) - 2).all()  # boxes meet; what is hidden is not in them
    assert rendered.visible.min() >= MIN_VISIBLE


def test_depth_is_the_distance_from_the_camera():
    rendered = SceneRenderer(64).render(of_two())
    assert rendered.depth.shape == (64, 64)
    assert np.isinf(rendered.depth[0]).any()  # the sky
    seen = rendered.depth[rendered.mask > 0]
    assert np.isfinite(np.median(seen))  # at its rim an object's pixel may see past it
    assert 2 < seen.min() < np.median(seen) < 12
    ground = rendered.depth[-1]
    assert np.all(np.diff(rendered.depth[-8:, 0]) <= 0)  # nearer towards the lower edge
    assert ground.max() < 8


def test_materials_show():
    pixels = {texture: SceneRenderer(64).render(of_two(texture=texture)) for texture in ("plain", *sorted(MATERIALS))}
    suitcases = {name: r.pixels[r.mask == 2].astype(float).mean(axis=0) for name, r in pixels.items()}
    for name, color in suitcases.items():
        for other, another in suitcases.items():
            assert name == other or np.abs(color - another).max() > 3, (name, other)
    dogs = {name: r.pixels[r.mask == 1].astype(float).mean(axis=0) for name, r in pixels.items()}
    assert max(np.abs(dogs[name] - dogs["plain"]).max() for name in dogs) < 15  # which are as they were


def test_what_takes_no_material_is_an_error(monkeypatch):
    def bare(_rng, _state):
        return Model.of([(box((1, 1, 1)), Material((0.5, 0.5, 0.5)))])

    catalogue = standard_catalogue()
    monkeypatch.setitem(catalogue.assets, "suitcase", Asset("suitcase", bare))
    with pytest.raises(VerismError, match="suitcase cannot be wooden: no part"):
        SceneRenderer(64, catalogue).render(of_two(texture="wooden"))


def test_the_camera_sees_along_its_rays():
    camera = Camera(position=(1, -5, 2), target=(0, 0, 0.5), fov=40, roll=10)
    x, y = np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.5, 0.7])
    rays = camera.rays(x, y)
    points = np.array(camera.position) + rays * np.array([[1.0], [3.0], [8.0]])
    np.testing.assert_allclose(camera.project(points)[:, :2], np.stack([x, y], axis=1), atol=1e-5)
    assert camera.project(np.array([[0, 0, 0.5]]))[0, :2] == pytest.approx([0.5, 0.5])
    level = Camera(position=(0, -5, 1), target=(0, 0, 1))
    assert level.project(np.array([[1, 0, 1]]))[0, 0] > 0.5  # +x is to the right
    assert level.project(np.array([[0, 0, 2]]))[0, 1] < 0.5  # +z is up


# ----------------------------------------------------------------------------------------------------------- own models
def export(mesh: trimesh.Trimesh, path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mesh.export(path)


@pytest.fixture
def folder(tmp_path):
    tower = trimesh.creation.box((1, 3, 1))  # y is up in glTF and OBJ
    tower.visual.face_colors = (230, 20, 20, 255)
    export(tower, tmp_path / "tea_pot.glb")
    export(trimesh.creation.icosphere(2), tmp_path / "mug" / "one.obj")
    export(trimesh.creation.icosphere(1), tmp_path / "mug" / "two.glb")
    return tmp_path


def test_models_of_ones_own_are_classes(folder):
    catalogue = standard_catalogue().with_assets(folder)
    assert {"tea pot", "mug"} <= set(catalogue.assets)
    assert "tea pot" not in standard_catalogue().assets
    rendered = SceneRenderer(SIZE, catalogue).render(scene(thing("tea pot"), thing("mug"), seed=2))
    assert set(np.unique(rendered.mask)) == {0, 1, 2}
    tower = rendered.pixels[rendered.mask == 1]
    assert is_of("red", tower).mean() > 0.7
    x0, y0, x1, y1 = rendered.boxes[0]
    assert y1 - y0 > 1.4 * (x1 - x0)  # it stands
    green = SceneRenderer(SIZE, catalogue).render(scene(thing("tea pot", color="green"), seed=2))
    assert is_of("green", green.pixels[green.mask == 1]).mean() > 0.7


def test_own_models_keep_their_colours(tmp_path):
    def color_of(name: str) -> list[int]:
        return [round(255 * c) for c in load_model(tmp_path / name).parts[0].material.color]

    ball = trimesh.creation.icosphere(0)
    ball.export(tmp_path / "bare.obj")
    assert color_of("bare.obj") == [178, 178, 178]  # 0.7
    ball.visual.vertex_colors = (20, 200, 30, 255)
    ball.export(tmp_path / "vertices.glb")
    assert color_of("vertices.glb") == [20, 200, 30]
    ball.visual = trimesh.visual.TextureVisuals(material=PBRMaterial(baseColorFactor=[200, 30, 10, 255]))
    ball.export(tmp_path / "material.glb")
    assert color_of("material.glb") == [200, 30, 10]
    texture = SimpleMaterial(image=Image.new("RGB", (4, 4), (10, 20, 200)))
    ball.visual = trimesh.visual.TextureVisuals(uv=np.full((len(ball.vertices), 2), 0.5), material=texture)
    ball.export(tmp_path / "texture.glb")
    assert color_of("texture.glb") == [10, 20, 200]
    # Written by hand: a material without texture coordinates.
    (tmp_path / "m.mtl").write_text("newmtl red\nKd 0.8 0.1 0.2\n")
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    (tmp_path / "plain.obj").write_text(f"mtllib m.mtl\nusemtl red\n{corners}f 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n")
    assert color_of("plain.obj") == pytest.approx([204, 26, 51], abs=1)


def test_own_models_stand_on_the_ground_in_unit_size(folder):
    low, high = load_model(folder / "tea_pot.glb").bounds
    np.testing.assert_allclose([low, high], [(-1 / 6, -1 / 6, 0), (1 / 6, 1 / 6, 1)], atol=1e-6)
    assets = load_assets(folder)
    assert set(assets) == {"tea pot", "mug"}
    faces = {len(assets["mug"].build(np.random.default_rng(k), "default").parts[0].mesh) for k in range(12)}
    assert faces == {80, 320}  # both variants


def test_own_files_are_part_of_the_renderers_name(folder):
    plain, subset = SceneRenderer(SIZE), SceneRenderer(SIZE, standard_catalogue().with_assets(folder))
    assert plain.name == "simulator-2@96"
    assert subset.name.startswith("simulator-2@96+assets-")
    assert ParallelRenderer(SIZE, folder).name == subset.name
    export(trimesh.creation.icosphere(0), folder / "mug" / "two.glb")
    assert SceneRenderer(SIZE, standard_catalogue().with_assets(folder)).name not in (plain.name, subset.name)


def test_folders_and_files_that_cannot_be_used(tmp_path, monkeypatch):
    for make in (standard_catalogue().with_assets, lambda f: ParallelRenderer(SIZE, f)):
        with pytest.raises(UsageError, match="no such folder"):
            make(tmp_path / "nowhere")
        with pytest.raises(UsageError, match=r"no \.glb, \.gltf, \.obj file in it"):
            make(tmp_path)
    (tmp_path / "a.glb").write_bytes(b"not a model")
    with pytest.raises(UsageError, match=r"a\.glb: cannot be read as a 3D model"):
        load_model(tmp_path / "a.glb")
    (tmp_path / "b.obj").write_text("v 1 2 3\n")
    with pytest.raises(UsageError, match=r"b\.obj: (holds no triangles|cannot be read)"):
        load_model(tmp_path / "b.obj")
    (tmp_path / "c.obj").write_text("v 1 2 3\nv 1 2 3\nv 1 2 3\nf 1 2 3\n")
    with pytest.raises(UsageError, match=r"c\.obj: (has no extent|holds no triangles)"):
        load_model(tmp_path / "c.obj")
    export(trimesh.creation.icosphere(2), tmp_path / "d.obj")
    monkeypatch.setattr(user_assets, "MAX_TRIANGLES", 300)
    with pytest.raises(UsageError, match=r"d\.obj: 320 triangles; simplify it to at most 300"):
        load_model(tmp_path / "d.obj")
