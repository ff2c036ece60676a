"""Where a model comes from: a folder, or a repository of the hub by its commit."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError, VerismError, require
from verism.generators.diffusers_pipeline._libraries import EXTRA, PURPOSE, first_line, out_of_memory
from verism.services.hub import hub_is_reachable, not_reached

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONFIGS = ["model_index.json", "*/config.json", "*/*component_config.json", "README.md"]
WEIGHTS = (".safetensors", ".bin")
_DIGESTED = {*WEIGHTS, ".json", ".txt", ".model"}
_VARIANT = re.compile(r"\.([A-Za-z]\w*)(?:-\d+-of-\d+)?\.(?:safetensors|bin)$|\.([A-Za-z]\w*)\.index\.json$")


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        shown: its name for people, without the places of this machine.
        folder: holds at least its configuration files.
        identity: commit of the hub (40 digits), or SHA-256 over the folder's weights and settings (64 digits).
        index: content of ``model_index.json``.
        repository: id on the hub, or None for a folder.
        files: names of all files, relative to the root; empty if unknown.
        licence: the licence tag of its model card, or None if there is none.
    """

    shown: str
    folder: Path
    identity: str
    index: Mapping[str, Any]
    repository: str | None
    files: tuple[str, ...]
    licence: str | None


def has_component(index: Mapping[str, Any], component: str) -> bool:
    value = index.get(component)
    return isinstance(value, list) and len(value) == 2 and value[1] is not None


def component_config(source: Source, component: str) -> Mapping[str, Any]:
    path = source.folder / component / "config.json"
    content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


def find_source(model: str, *, revision: str | None, local_files_only: bool) -> Source:
    """The model's configuration files and identity, fetched if need be; its weights stay where they are.

    Raises:
        UsageError: no such model, and what to do about it.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if revision is not None:
            raise UsageError(f"diffusers: revision={revision} is for the hub; {model} is a folder")
        folder, repository = path.resolve(), None
        shown = folder.name
        missing = f"{model} has no model_index.json; expected a folder that diffusers' save_pretrained wrote"
    elif path.is_file():
        raise UsageError(
            f"diffusers: {model} is a file; expected an id on the hub or a folder with model_index.json. Convert a "
            "single checkpoint with StableDiffusionPipeline.from_single_file(FILE).save_pretrained(FOLDER)"
        )
    elif not _HUB_ID.fullmatch(model) or model.startswith((".", "-")):
        raise UsageError(f"diffusers: no such folder {model!r}, and an id on the hub is written owner/name")
    else:
        folder = _fetch_configs(model, revision, local_files_only)
        repository = shown = model
        missing = f"{model} on the hub has no model_index.json: no diffusers pipeline (for LoRA weights use lora=FILE)"
    try:
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"diffusers: {missing}") from None
    except ValueError as err:
        raise UsageError(f"diffusers: {folder / 'model_index.json'} is no JSON: {err}") from err
    if not isinstance(index, dict):
        raise UsageError(f"diffusers: {folder / 'model_index.json'} holds no JSON object")
    files: tuple[str, ...] = ()
    if repository is None:
        parts = [n for n in index if (folder / n).is_dir()]
        results = [p for n in parts for p in sorted((folder / n).rglob("*")) if p.is_file()]
        files = tuple(p.relative_to(folder).as_posix() for p in results)
        identity = digest(folder, ["model_index.json", *(f for f in files if Path(f).suffix in _DIGESTED)])
    else:
        identity = folder.name
    return Source(shown, folder, identity, index, repository, files, _licence(folder))


def _fetch_configs(model: str, revision: str | None, local_files_only: bool) -> Path:
    """The folder of the hub's cache with the configuration files; it is named by the commit."""
    hub = require("huggingface_hub", extra=EXTRA, purpose=PURPOSE)
    try:
        folder = Path(
            hub.snapshot_download(
                model,
                revision=revision,
                allow_patterns=_CONFIGS,
                local_files_only=local_files_only or not hub_is_reachable(),
            )
        )
    except Exception as err:
        raise _hub_error(err, model, revision) from err
    if not _COMMIT.fullmatch(folder.name):
        raise VerismError(f"diffusers: the hub's cache gave {folder}, which is not named by a commit")
    return folder


def _hub_error(err: Exception, model: str, revision: str | None) -> UsageError:
    """What a failed download means for the user, in one sentence; an error of another kind is raised as it is."""
    errors = require("huggingface_hub.errors", extra=EXTRA, purpose=PURPOSE)
    where = f"diffusers: {model}" + (f" at revision {revision}" if revision else "")
    if isinstance(err, errors.GatedRepoError):
        return UsageError(
            f"{where} is gated: accept its terms at https://huggingface.co/{model}, then log in with `hf auth login` "
            "(formerly huggingface-cli login) or set HF_TOKEN"
        )
    if isinstance(err, errors.RevisionNotFoundError):
        return UsageError(f"{where}: the hub has no such branch, tag or commit of {model}")
    if isinstance(err, errors.RepositoryNotFoundError):
        return UsageError(
            f"{where} is not on the Hugging Face hub, or private: check the spelling (owner/name); for a private one "
            "log in with `hf auth login` (formerly huggingface-cli login) or set HF_TOKEN"
        )
    if isinstance(err, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError):
        return UsageError(f"diffusers: {not_reached(model, revision)}")
    if isinstance(err, errors.HFValidationError):
        return UsageError(f"{where}: not an id of the hub, which is written owner/name")
    if isinstance(err, errors.HfHubHTTPError | OSError):
        return UsageError(f"{where} could not be fetched from the hub: {first_line(err)}")
    raise err


def loading_error(err: Exception, source: Source, revision: str | None) -> Exception:
    """What a failed loading of weights means for the user; an error of an unknown kind as it is."""
    errors = require("huggingface_hub.errors", extra=EXTRA, purpose=PURPOSE)
    known = errors.HfHubHTTPError | errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError
    if source.repository is not None and isinstance(err, known):
        return _hub_error(err, source.repository, revision)
    if isinstance(err, ImportError):
        return UsageError(f"{source.shown} needs a library that is not installed: {first_line(err)}")
    if out_of_memory(err):
        return UsageError(f"{source.shown} does not fit this machine's memory; use dtype=bfloat16. {first_line(err)}")
    if isinstance(err, OSError | ValueError | KeyError | RuntimeError | AttributeError):
        return UsageError(f"cannot load {source.shown}: {first_line(err)}")
    return err


def check_variant(source: Source, variant: str | None, *, local_files_only: bool) -> None:
    """Raise UsageError if no weights' file bears the variant's name, as far as the files are known."""
    if variant is None:
        return
    files = source.files
    if source.repository is not None and not local_files_only:
        hub = require("huggingface_hub", extra=EXTRA, purpose=PURPOSE)
        with contextlib.suppress(Exception):  # no network: the cache may hold the variant, and loading will tell
            files = tuple(hub.HfApi().list_repo_files(source.repository, revision=source.identity))
    matches = [_VARIANT.search(f) for f in files]
    result = {m.group(1) or m.group(2) for m in matches if m is not None}
    if files and variant not in result:
        there = f"there are: {', '.join(sorted(result))}" if result else "there is only the plain one, so leave it out"
        raise UsageError(f"diffusers: {source.shown} has no weights of variant {variant!r}; {there}")


def digest(folder: Path, names: Sequence[str]) -> str:
    """SHA-256 over names and contents of files."""

    def of_file(name: str) -> bytes:
        with (folder / name).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()

    digest = hashlib.sha256()
    with ThreadPoolExecutor(max_workers=4) as pool:  # hashing large files runs outside Python's lock
        for name, of_content in zip(names, pool.map(of_file, names), strict=True):
            digest.update(name.encode() + b"\0" + of_content)
    return digest.hexdigest()


def _licence(folder: Path) -> str | None:
    """The licence tag of the model card's header, if there is one."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    header = re.match(r"---\s*\n(.*?)\n---", text, re.DOTALL)
    matches = re.findall(r"^(license(?:_name)?):\s*(\S.*?)\s*$", header.group(1), re.MULTILINE) if header else []
    tags = {key: value.strip("'\"") for key, value in matches}
    tag = tags.get("license")
    return tags.get("license_name", tag) if tag == "other" else tag
