"""From a scene to an image: models drawn and posed, placed so that what the scene says is true, then rendered.

Placement works in the image: positions are drawn until every object lies inside the frame, boxes hardly overlap, and
relations hold with room to spare. After rendering, the instance mask gives exact boxes and the visible share of every
object; an image in which one is hidden is laid out anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from verism.errors import VerismError
from verism.records import Rendered, Scene, SceneObject
from verism.simulator.catalogue import Catalogue, standard_catalogue
from verism.simulator.lettering import draw_texts
from verism.simulator.model import Asset, Material, Model, Pattern
from verism.simulator.renderer import Camera, Placed, render, require_embree, silhouette
from verism.simulator.shapes import extremes
from verism.simulator.surroundings import Surroundings
from verism.simulator.threads import single_threaded

__all__ = ["MATERIALS", "PAINTS", "RENDERER_VERSION", "SIZES", "SceneRenderer"]

# Enters the name of the renderer and so every manifest: raise it whenever the same scene would look different.
RENDERER_VERSION = 2

# sRGB of the paints, near the pure colours of the published simulator but dark and light enough to keep their shading.
PAINTS: dict[str, tuple[float, float, float]] = {
    "red": (0.86, 0.04, 0.04),
    "blue": (0.05, 0.10, 0.86),
    "yellow": (0.98, 0.86, 0.05),
    "white": (0.95, 0.95, 0.95),
    "purple": (0.48, 0.05, 0.55),
    "green": (0.04, 0.52, 0.10),
    # Beyond the published six, for suites that ask for the other basic colours.
    "orange": (0.96, 0.44, 0.03),
    "pink": (0.97, 0.50, 0.68),
    "brown": (0.36, 0.19, 0.08),
    "black": (0.035, 0.035, 0.035),
}

# What an object can be made of, by the field ``texture`` of scenes. Sketches of materials: a person would name most of
# them, and no photograph is meant.
MATERIALS: dict[str, Material] = {
    "wooden": Material((0.62, 0.40, 0.22), 0.7, pattern=Pattern("wood", (0.36, 0.20, 0.09), 0.12)),
    "metallic": Material((0.80, 0.81, 0.83), 0.18, metallic=1.0),
    "plastic": Material((0.90, 0.30, 0.12), 0.28),
    "rubber": Material((0.09, 0.09, 0.10), 0.95),
    "glass": Material((0.70, 0.86, 0.84), 0.04, metallic=0.35),
    "leather": Material((0.30, 0.15, 0.08), 0.5, pattern=Pattern("noise", (0.20, 0.09, 0.05), 0.05, 0.7)),
    "fabric": Material((0.25, 0.38, 0.62), 0.98, pattern=Pattern("checks", (0.80, 0.78, 0.70), 0.16)),
    "fluffy": Material((0.93, 0.90, 0.84), 1.0, pattern=Pattern("speckle", (0.66, 0.60, 0.52), 0.02, 0.8)),
}

SIZES = (64, 2048)  # images in pixels
MIN_VISIBLE = 0.75  # least visible share of each object
MAX_OVERLAP = 0.06  # of the smaller box
COVERED = (0.12, 0.42)  # of the smaller box by the other one's, where one lies in front
APART_M = 0.7  # least difference of their distances from the camera
FRAME_MARGIN = 0.015  # of the image, free on all sides
MIN_EXTENT = 0.11  # of the image, longer side of each box
LAYOUTS = 12  # rendered attempts before giving up
DRAWS = 240  # placements tried per attempt
DEPTH = ("front", "behind")
STAGE = 5.2  # metres from the camera to the middle of the stage

# Shares of the image that the longest extent of an object takes, by the number of objects.
EXTENTS = {1: (0.38, 0.72), 2: (0.27, 0.44), 3: (0.22, 0.36), 4: (0.20, 0.31)}
EXTENTS_STACKED = (0.22, 0.36)  # above and below: two heights share the image


@dataclass(frozen=True, eq=False)
class _Actor:
    """A model ready to be placed: turned, its extent 1, standing on z = 0 about the vertical axis."""

    model: Model
    linear: NDArray[np.float64]  # (3, 3) turn and scale to extent 1
    offset: NDArray[np.float64]  # (3,) applied after `linear`
    support: NDArray[np.float64]  # (S, 3) outermost points after both
    extent: float  # wanted share of the image

    @property
    def height(self) -> float:
        """Of the model at extent 1."""
        return float(self.support[:, 2].max())

    def matrix(self, position: NDArray[np.float64], size: float) -> NDArray[np.float64]:
        m = np.eye(4)
        m[:3, :3] = self.linear * size
        m[:3, 3] = self.offset * size + position
        return m


@dataclass(frozen=True, eq=False)
class _Spot:
    """A place found for an actor: world position, scale, height in metres, and its box as shares of the image."""

    position: NDArray[np.float64]
    size: float
    height: float
    box: NDArray[np.float64]


class SceneRenderer:
    """Renders scenes of any suite whose labels the catalogue knows.

    Args:
        size: width and height in pixels.
        catalogue: classes and environments; the standard ones if None.
        min_visible: least visible share of every object.

    Raises:
        ValueError: a size that is not rendered.
        MissingExtra: Embree is not installed.
    """

    def __init__(
        self, size: int = 256, catalogue: Catalogue | None = None, *, min_visible: float = MIN_VISIBLE
    ) -> None:
        if not SIZES[0] <= size <= SIZES[1]:
            raise ValueError(f"size must be {SIZES[0]} to {SIZES[1]} pixels, got {size}")
        require_embree()
        self.size = size
        self.catalogue = catalogue or standard_catalogue()
        self.min_visible = min_visible
        subset = f"+assets-{self.catalogue.version}" if self.catalogue.version else ""
        self.name = f"simulator-{RENDERER_VERSION}@{size}{subset}"

    def render_all(self, scenes: Sequence[Scene]) -> Iterator[Rendered | VerismError]:
        """Images in the order of the scenes; a scene that cannot be rendered gives its error instead."""
        for scene in scenes:
            try:
                yield self.render(scene)
            except VerismError as err:
                yield err

    @single_threaded
    def render(self, scene: Scene) -> Rendered:
        """The image of a scene with exact boxes.

        Raises:
            UsageError: a class or environment the catalogue does not have.
            VerismError: no placement shows every object; the scene asks for more than fits; a text that cannot be drawn
                (see ``draw_texts``).
        """
        if scene.texts:
            if scene.objects:
                raise VerismError(f"scene {scene.scene_id}: a scene has texts or objects, and this one has both")
            behind = self.render(replace(scene, texts=()))
            return draw_texts(scene, behind.pixels, self.catalogue.fonts)
        for attempt in range(LAYOUTS):
            rng = np.random.default_rng([scene.seed, attempt])
            surroundings = self.catalogue.environment(scene.background).build(rng)
            actors = self._actors(scene, rng)
            layout = _place(actors, scene.objects, surroundings.ground is not None, rng)
            if layout is None:
                continue
            camera, placed = layout
            rendered = self._render(placed, surroundings, camera, exposure=float(rng.uniform(0.88, 1.12)))
            if len(placed) == 0 or rendered.visible.min() >= self.min_visible:
                return rendered
        raise VerismError(
            f"scene {scene.scene_id}: no placement of {[o.label for o in scene.objects]} shows every object at least "
            f"{self.min_visible:.0%}, after {LAYOUTS} attempts; ask for fewer or smaller objects"
        )

    def _actors(self, scene: Scene, rng: np.random.Generator) -> list[_Actor]:
        stacked = any(o.relation in ("above_0", "below_0") for o in scene.objects)
        low, high = EXTENTS_STACKED if stacked else EXTENTS[min(max(len(scene.objects), 1), 4)]
        share = rng.uniform(low, high)
        # In half of the images all objects of a class are of one make, as a fleet or a set of chairs is.
        alike = rng.random() < 0.5
        make = int(rng.integers(2**62))
        actors = []
        for number, obj in enumerate(scene.objects):
            asset = self.catalogue.stand_in(obj.label, obj.shape)
            own_rng = np.random.default_rng([make, 0 if alike else number])
            state = obj.state if obj.state in asset.states else asset.states[int(own_rng.integers(len(asset.states)))]
            model = asset.build(own_rng, state)
            if obj.texture in MATERIALS:
                model = _made_of(model, obj, scene.scene_id)
            elif obj.color != "plain":
                paint = _paint(obj.color, rng)
                try:
                    model = model.painted(paint)
                except ValueError as err:
                    raise VerismError(f"scene {scene.scene_id}: {obj.label} cannot be {obj.color}: {err}") from err
            extent = float(np.clip(share * obj.scale * asset.size * rng.uniform(0.92, 1.08), 0.14, 0.8))
            actors.append(_actor(model, _yaw(asset, obj, rng), extent))
        return actors

    def _render(
        self, placed: Sequence[Placed], surroundings: Surroundings, camera: Camera, exposure: float
    ) -> Rendered:
        image = render(placed, surroundings, camera, self.size, exposure=exposure)
        boxes = np.zeros((len(placed), 4), dtype=np.float32)
        visible = np.zeros(len(placed))
        extents = [_extent(item, camera) for item in placed] if len(placed) > 1 else [np.zeros(4)]
        for number, item in enumerate(placed):
            ys, xs = np.nonzero(image.mask == number + 1)
            if len(xs) == 0:
                continue
            boxes[number] = xs.min(), ys.min(), xs.max() + 1, ys.max() + 1
            visible[number] = 1.0
            # Only where boxes meet can one object hide another: the ground hides nothing, scenery stays behind.
            if _meets_another(number, extents):
                visible[number] = min(len(xs) / max(silhouette(item, camera, self.size), 1), 1.0)
        return Rendered(pixels=image.pixels, boxes=boxes, visible=visible, mask=image.mask, depth=image.depth)


def _extent(item: Placed, camera: Camera) -> NDArray[np.float64]:
    """The item's box in the image, hidden parts included, as shares of the image: x0, y0, x1, y1."""
    corners = np.concatenate([p.mesh.triangles.reshape(-1, 3) for p in item.model.parts]).astype(np.float64)
    at = camera.project(corners @ item.matrix[:3, :3].T + item.matrix[:3, 3])
    low, high = extremes(at)
    return np.concatenate([low[:2], high[:2]])


def _meets_another(number: int, boxes: Sequence[NDArray[np.float64]]) -> bool:
    subset = boxes[number]
    return any(
        bool((np.minimum(subset[2:], other[2:]) > np.maximum(subset[:2], other[:2])).all())
        for k, other in enumerate(boxes)
        if k != number
    )


def _paint(color: str, rng: np.random.Generator) -> tuple[float, float, float]:
    if color not in PAINTS:
        raise VerismError(f"unknown colour {color!r}; choose from {sorted(PAINTS)} or plain")
    r, g, b = np.clip(np.array(PAINTS[color]) * rng.uniform(0.9, 1.05), 0, 1).tolist()
    return (r, g, b)


def _made_of(model: Model, obj: SceneObject, scene_id: str) -> Model:
    try:
        return model.made_of(MATERIALS[obj.texture])
    except ValueError as err:
        raise VerismError(f"scene {scene_id}: {obj.label} cannot be {obj.texture}: {err}") from err


def _yaw(asset: Asset, obj: SceneObject, rng: np.random.Generator) -> float:
    if obj.rotation is not None:
        return float(obj.rotation[2])
    widths = np.array([b - a for a, b in asset.views])
    low, high = asset.views[int(rng.choice(len(widths), p=widths / widths.sum()))]
    return float(rng.uniform(low, high))


def _support_directions() -> NDArray[np.float64]:
    """Directions spread over the sphere (Fibonacci), and the six axes, shape (54, 3)."""
    k = np.arange(48) + 0.5
    z = 1 - 2 * k / 48
    turn = k * math.pi * (3 - math.sqrt(5))
    r = np.sqrt(1 - z**2)
    spiral = np.stack([r * np.cos(turn), r * np.sin(turn), z], axis=1)
    return np.concatenate([spiral, np.eye(3), -np.eye(3)])


_SUPPORT = _support_directions()


def _actor(model: Model, yaw: float, extent: float) -> _Actor:
    c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    points = np.concatenate([p.mesh.triangles.reshape(-1, 3) for p in model.parts])
    # The axes are among the directions, so that these few points have the bounds of all.
    points = points[np.unique((_SUPPORT.astype(np.float32) @ points.T).argmax(axis=1))]
    low, high = extremes(points)
    linear = turn / float((high - low).max())
    turned = points.astype(np.float64) @ linear.T
    lowest, highest = turned.min(axis=0), turned.max(axis=0)
    offset = -np.array([(lowest[0] + highest[0]) / 2, (lowest[1] + highest[1]) / 2, lowest[2]])
    return _Actor(model, linear, offset, turned + offset, extent)


def _place(
    actors: Sequence[_Actor], objects: Sequence[SceneObject], on_ground: bool, rng: np.random.Generator
) -> tuple[Camera, list[Placed]] | None:
    """A camera and placements under which the scene is true, or None if none was found."""
    camera = _camera(len(actors), on_ground, rng)
    # "below" is placed as its mirror: the lower object first, on the ground, and the other one above it.
    swapped = len(objects) == 2 and objects[1].relation == "below_0"
    order = (1, 0) if swapped else tuple(range(len(actors)))
    in_depth = len(objects) == 2 and (objects[1].relation or "").rpartition("_")[0] in DEPTH
    hanging = {order[1]} if len(objects) == 2 and objects[1].relation in ("above_0", "below_0") else set()
    shrink = 1.0
    for draw in range(DRAWS):
        if draw and draw % 30 == 0:
            shrink *= 0.92
        spots: dict[int, _Spot] = {}
        for number in order:
            others = list(spots.values())
            if number in hanging:
                spot = _above(actors[number], others[0], camera, shrink, rng)
            else:
                spot = _anywhere(actors[number], camera, on_ground, shrink, rng)
            if spot is None or not (_apart(spot, others) if in_depth else _fits(spot, others)):
                break
            spots[number] = spot
        if len(spots) < len(actors):
            continue
        if in_depth:
            holds = _covers(objects[1].relation or "", spots[0], spots[1], camera)
        else:
            holds = _relations_hold(objects, [spots[k].box for k in range(len(actors))])
        if holds:
            return camera, [
                Placed(actor.model, actor.matrix(spots[k].position, spots[k].size)) for k, actor in enumerate(actors)
            ]
    return None


def _camera(count: int, on_ground: bool, rng: np.random.Generator) -> Camera:
    if not on_ground:
        pitch = math.radians(rng.uniform(2, 22))
        target = 0.0
    else:
        # More objects are seen from higher up, so that those behind are not hidden.
        pitch = math.radians(rng.uniform(7, 18) + 3.0 * max(count - 1, 0))
        target = rng.uniform(0.55, 0.8)
    return Camera(
        position=(0.0, -STAGE * math.cos(pitch), target + STAGE * math.sin(pitch)),
        target=(0.0, 0.0, target),
        fov=float(rng.uniform(36, 42)),
        roll=float(rng.uniform(-2, 2)),
    )


def _image_width(camera: Camera) -> float:
    """Metres across the image at the distance of the stage."""
    return 2 * STAGE * math.tan(math.radians(camera.fov) / 2)


def _anywhere(actor: _Actor, camera: Camera, on_ground: bool, shrink: float, rng: np.random.Generator) -> _Spot | None:
    """A random place in the image, on the ground where there is one."""
    u, v = rng.uniform(0.06, 0.94), rng.uniform(0.12, 0.94)
    ray = camera.rays(np.array([u]), np.array([v]))[0].astype(np.float64)
    eye = np.array(camera.position)
    if on_ground:
        if ray[2] > -0.05:
            return None
        reach = -eye[2] / ray[2]
        if not 3.6 <= reach <= 9.5:
            return None
    else:
        reach = rng.uniform(4.6, 6.2)
    # Far objects are a little smaller in the image, but not by the full perspective, or they would vanish.
    size = actor.extent * shrink * _image_width(camera) * (reach / STAGE) ** 0.6
    position = eye + ray * reach
    if not on_ground:
        position[2] -= actor.height * size / 2
    return _spot(actor, position, size, camera)


def _above(actor: _Actor, lower: _Spot, camera: Camera, shrink: float, rng: np.random.Generator) -> _Spot | None:
    """A place over another object; what is above hangs in the air, as in the published data."""
    size = actor.extent * shrink * _image_width(camera)
    gap = rng.uniform(0.04, 0.3) * size
    shift = np.array([rng.uniform(-0.35, 0.35) * size, rng.uniform(-0.1, 0.1), lower.height + gap])
    position = lower.position + shift
    return _spot(actor, position, size, camera)


def _spot(actor: _Actor, position: NDArray[np.float64], size: float, camera: Camera) -> _Spot | None:
    """The place with its box, or None where the object would leave the frame or be too small."""
    corners = camera.project(actor.support * size + position)
    if not (corners[:, 2] > 0.5).all():
        return None
    (x0, y0), (x1, y1) = corners[:, :2].min(axis=0), corners[:, :2].max(axis=0)
    if min(x0, y0) < FRAME_MARGIN or max(x1, y1) > 1 - FRAME_MARGIN or max(x1 - x0, y1 - y0) < MIN_EXTENT:
        return None
    return _Spot(position, size, actor.height * size, np.array([x0, y0, x1, y1]))


def _fits(spot: _Spot, others: Sequence[_Spot]) -> bool:
    """Whether boxes hardly overlap and bodies do not touch."""
    for other in others:
        corner = np.minimum(spot.box[2:], other.box[2:]) - np.maximum(spot.box[:2], other.box[:2])
        smaller = min(float(np.prod(s.box[2:] - s.box[:2])) for s in (spot, other))
        if (corner > 0).all() and corner[0] * corner[1] > MAX_OVERLAP * smaller:
            return False
    return _apart(spot, others)


def _apart(spot: _Spot, others: Sequence[_Spot]) -> bool:
    """Whether bodies do not touch."""
    gaps = ((float(np.linalg.norm(spot.position - o.position)), 0.3 * (spot.size + o.size)) for o in others)
    return all(gap >= least for gap, least in gaps)


def _covers(relation: str, first: _Spot, second: _Spot, camera: Camera) -> bool:
    """Whether the second object lies clearly in front of the first, or behind it, and the nearer covers some of the
    farther, but not most of it."""
    eye = np.array(camera.position)
    nearer = float(np.linalg.norm(first.position - eye) - np.linalg.norm(second.position - eye))
    if (nearer if relation.startswith("front") else -nearer) < APART_M:
        return False
    corner = np.minimum(first.box[2:], second.box[2:]) - np.maximum(first.box[:2], second.box[:2])
    if (corner <= 0).any():
        return False
    smaller = min(float(np.prod(s.box[2:] - s.box[:2])) for s in (first, second))
    return COVERED[0] <= float(corner[0] * corner[1]) / smaller <= COVERED[1]


def _relations_hold(objects: Sequence[SceneObject], boxes: Sequence[NDArray[np.float64]]) -> bool:
    """Whether stated relations hold clearly: boxes hardly overlap along the axis, and it is the longer axis."""
    for number, obj in enumerate(objects):
        if obj.relation is None:
            continue
        relation, _, index = obj.relation.rpartition("_")
        a, b = boxes[int(index)], boxes[number]
        center_a, center_b = (a[:2] + a[2:]) / 2, (b[:2] + b[2:]) / 2
        axis = 0 if relation in ("left", "right") else 1
        offset = center_b - center_a
        if relation in ("left", "above"):
            offset = -offset
        mean_extent = (a[2 + axis] - a[axis] + b[2 + axis] - b[axis]) / 2
        if offset[axis] < 0.9 * mean_extent or offset[axis] < 1.25 * abs(offset[1 - axis]):
            return False
    return True
