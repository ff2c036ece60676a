"""Published weights of preference scorers: files read as plain tensors, networks filled with every one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError

if TYPE_CHECKING:
    import torch

__all__ = ["build", "missing_file", "nested_tensors", "tokenizer_of"]

# What a network has that follows from its configuration and stands in no file, or only in old ones.
_DERIVED = ("position_ids", "inv_freq")


def missing_file(path: Path, kind: str) -> None:
    """Refuse a path that is no file.

    Args:
        path: of the weights.
        kind: of the scorer, for messages.

    Raises:
        UsageError: there is no such file.
    """
    if not path.is_file():
        raise UsageError(f"{kind}: no file of weights at {str(path)!r}; give the path of a .pt or .safetensors file")


def nested_tensors(path: Path, *under: str) -> dict[str, torch.Tensor]:
    """Tensors by name from ``.safetensors`` or PyTorch's own format, with nothing but plain data unpickled.

    Args:
        path: the file.
        under: names under which the state dictionary may lie, beside other things.

    Raises:
        UsageError: a file that cannot be read so, or holds something else.
    """
    import torch

    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as err:  # a foreign file can fail in any way
        raise UsageError(
            f"cannot read {str(path)!r} as plain tensors ({type(err).__name__}: {' '.join(str(err).split())[:300]})"
        ) from err
    for name in under:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(isinstance(value, torch.Tensor) for value in content.values())
    ):
        raise UsageError(
            f"{str(path)!r} holds no dictionary of tensors, not even under {' or '.join(under) or 'a name'}"
        )
    return {str(name): value for name, value in content.items()}


def build(make: Callable[[], Any], weights: Mapping[str, torch.Tensor], source: str) -> Any:
    """A network in evaluation mode with exactly these weights.

    Args:
        make: makes the network; its own weights are never used.
        weights: by the network's names; the network takes the type of each.
        source: for messages.

    Raises:
        UsageError: weights that are missing, too many, or of another shape.
    """
    import torch

    try:
        with torch.device("meta"):  # random numbers for weights that are replaced would take minutes
            expected = {name: tuple(value.shape) for name, value in make().state_dict().items()}
    except (RuntimeError, ValueError, NotImplementedError) as err:
        raise UsageError(f"the shapes of the weights in {source!r} fit no network of this kind: {err}") from err
    given = {name: value for name, value in weights.items() if not name.endswith(_DERIVED) or name in expected}
    missing = sorted(name for name in expected if name not in given and not name.endswith(_DERIVED))
    unknown = sorted(set(given) - set(expected))
    other = sorted(name for name in set(given) & set(expected) if tuple(given[name].shape) != expected[name])
    if missing or unknown or other:
        raise UsageError(
            f"the weights in {source!r} do not fit: {len(missing)} missing ({', '.join(missing[:3])}), {len(unknown)} "
            f"unknown ({', '.join(unknown[:3])}), {len(other)} of another shape ({', '.join(other[:3])}). A scorer "
            "with some weights of its own would give numbers that look real."
        )
    network = make()
    network.load_state_dict(dict(given), strict=False)
    return network.eval()


def tokenizer_of(path: Path, usual: str) -> str:
    """Where the tokenizer of weights is: their folder if it has one, else the usual repository.

    Args:
        path: file of the weights, or their folder.
        usual: repository on the hub.
    """
    folder = path if path.is_dir() else path.parent
    has = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json", "vocab.txt"))
    return str(folder) if has else usual
