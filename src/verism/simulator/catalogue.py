"""All classes and environments the simulator knows: ours, and those a user adds as files."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from verism.errors import UsageError
from verism.simulator.fonts import Font, standard_fonts, user_fonts
from verism.simulator.model import Asset
from verism.simulator.surroundings import Environment

__all__ = ["SOLID", "Catalogue", "standard_catalogue"]

SOLID = "solid:"  # before the name of a solid, in the field ``shape`` of scene files


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Assets by label and environments by name. ``version``: a hash of the user's own files, empty without any.

    ``solids`` are plain bodies by name, for classes without a model: a scene names one in ``shape`` to have it stand
    in where ``label`` is none of the assets. They are no classes. ``fonts`` are what texts are drawn with.
    """

    assets: Mapping[str, Asset]
    environments: Mapping[str, Environment]
    version: str = ""
    solids: Mapping[str, Asset] = field(default_factory=dict)
    fonts: tuple[Font, ...] = field(default_factory=standard_fonts)

    def stand_in(self, label: str, shape: str) -> Asset:
        """The class of that label, or else the solid that the scene names in its place.

        Args:
            label: class of the object.
            shape: as scene files have it: ``solid:cube`` for a solid.

        Raises:
            UsageError: neither exists.
        """
        solid = self.solids.get(shape.removeprefix(SOLID)) if shape.startswith(SOLID) else None
        return self.asset(label) if label in self.assets or solid is None else solid

    def asset(self, label: str) -> Asset:
        """The class of that label.

        Raises:
            UsageError: there is none; near names and the way to add one are given.
        """
        if label not in self.assets:
            near = difflib.get_close_matches(label, self.assets, n=3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UsageError(
                f"the simulator has no class {label!r}.{hint} Add your own as {label}.glb or {label}.obj in a folder "
                "given with --assets"
            )
        return self.assets[label]

    def environment(self, name: str) -> Environment:
        """The environment of that name.

        Raises:
            UsageError: there is none.
        """
        if name not in self.environments:
            near = difflib.get_close_matches(name, self.environments, n=3)
            hint = (
                f" Did you mean {' or '.join(map(repr, near))}?" if near else f" There are {list(self.environments)}."
            )
            raise UsageError(f"the simulator has no environment {name!r}.{hint}")
        return self.environments[name]

    def with_assets(self, folder: Path) -> Catalogue:
        """With models (.glb, .gltf, .obj), images (environments) and fonts of a folder; taken names are replaced."""
        from verism.simulator.environments import user_environment
        from verism.simulator.user_assets import load_assets

        assets = dict(self.assets) | load_assets(folder)
        environments = dict(self.environments)
        for path in sorted((folder / "environments").glob("*")):
            environments[path.stem] = user_environment(path)
        added = user_fonts(folder / "fonts")
        taken = {font.name for font in added}
        fonts = (*(font for font in self.fonts if font.name not in taken), *added)
        return replace(self, assets=assets, environments=environments, fonts=fonts, version=_hash_of(folder))


def _hash_of(folder: Path) -> str:
    """Of names and contents of all files, 8 hexadecimal digits: other files, other images."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:8]


@cache
def standard_catalogue() -> Catalogue:
    """Everything that comes with verism."""
    from verism.simulator.assets import animals, furniture, people, things, vehicles
    from verism.simulator.assets.solids import SOLIDS
    from verism.simulator.environments import ENVIRONMENTS

    assets = [*people.ASSETS, *animals.ASSETS, *vehicles.ASSETS, *furniture.ASSETS, *things.ASSETS]
    return Catalogue({a.label: a for a in assets}, {e.name: e for e in ENVIRONMENTS}, solids=SOLIDS)
