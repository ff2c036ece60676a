"""The record of a run: what was asked of which suite, who made and who judged the images, and with which software.

It is written to ``manifest.json`` before anything else, with a hash of its own content. Records of schemas 1 (flat
mappings) and 2 (runs without a ledger of their files) are read and migrated in memory; they are written back only when
something is written to the run. Schema 4 is schema 3 with the images in shards.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

from verism.errors import UsageError
from verism.records import content_hash, roles
from verism.renames import rules_of
from verism.systems import physical_memory_bytes

__all__ = [
    "SCHEMA_VERSION",
    "STORAGES",
    "Environment",
    "Manifest",
    "RunSettings",
    "Scoring",
    "canonical_suite_name",
    "scoring_of_record",
]

SCHEMA_VERSION = 3
SHARDS_VERSION = 4  # of runs whose images are in shards, which versions that know no shards must refuse
STORAGES = ("files", "shards")  # how a run keeps the images it makes
PACKAGES = ("numpy", "scipy", "polars", "pillow", "onnxruntime", "embreex", "torch", "transformers", "diffusers")
SHARED_KEYS = ("suite", "seed", "prompts", "generator", "reference")  # of schema 1, beside roles and suite settings
GIT_SECONDS = 5.0


def canonical_suite_name(name: str) -> str:
    """A suite's name as runs keep it: spellings with hyphens are old ones.

    >>> canonical_suite_name("paintskills-v1")
    'paintskills_v1'
    """
    return name.replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What decides prompts, images and observations. A run is only resumed with equal settings.

    Attributes:
        suite: name of the suite.
        suite_settings: what the suite says decides prompts and needs (``Suite.settings``), in a namespace of its own.
        generator: name of the generator, with its settings; empty if none is recorded.
        judges: full names of the judges by role.
        seed: seed of every random choice.
        prompts: hash of ids, texts and specs of the prompts.
        reference: hash of the real images compared with; empty without any.
    """

    suite: str
    suite_settings: Mapping[str, Any] = field(default_factory=dict)
    generator: str = ""
    judges: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    prompts: str = ""
    reference: str = ""

    def hash(self) -> str:
        """SHA-256 of the settings."""
        return content_hash(asdict(self))

    def differences(self, other: RunSettings) -> list[tuple[str, Any, Any]]:
        """Dotted names of what differs, with both values."""
        return _differences(asdict(self), _plain(asdict(other)))


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How the scores of a run were last made: what may change from one scoring to the next.

    Attributes:
        judges: whose observations count, by role.
        rules: rules of the suite, with their values.
        thresholds: by full name of a judge, its own calibrated threshold.
        remarks: lines without which the scores could be misread.
        answers: sentences that answer the suite's question with numbers; empty for scorings before there were any.
        adjustment: how scores were adjusted for judge error, as arguments of ``score``; empty if they were not.
    """

    judges: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    adjustment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """With what a run was made.

    Attributes:
        verism: version of this package.
        python: version of the interpreter.
        platform: system and machine.
        packages: versions of the libraries that numbers may depend on.
        plugins: versions of the packages that the suite, generator or judges come from, if not from this one.
        commit: commit of the git repository that the caller stood in; empty outside of one.
        dirty: whether that repository had uncommitted changes; None outside of one.
        hardware: processor, cores, memory in GiB, accelerators.
    """

    verism: str = ""
    python: str = ""
    platform: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    dirty: bool | None = None
    hardware: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def current(plugins: Mapping[str, str] | None = None) -> Environment:
        """That of this process.

        Args:
            plugins: versions by package, of what does not come with this one.
        """
        from verism._version import __version__

        packages = {package: version for package in PACKAGES if (version := _installed(package)) is not None}
        commit, dirty = _repository(os.getcwd())
        return Environment(
            verism=__version__,
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            packages=packages,
            plugins=dict(plugins or {}),
            commit=commit,
            dirty=dirty,
            hardware=_hardware(),
        )


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The whole record.

    Attributes:
        settings: what decides prompts, images and observations.
        scoring: how the scores were last made.
        generator: what the generator says of itself beside its name (revision, versions, settings).
        created: when the run was started, ISO 8601 in UTC.
        environment: software and hardware it was started with.
        uid: identity of the run, which its files are bound to; empty for runs of earlier versions, without a ledger.
        calls: calls that made images and observations, as far as plain JSON can say them, to make again what is lost.
        images_as: how images that the run makes are kept: in ``files`` of their own, or many in one of ``shards``.
        judge_remarks: by full name of a judge, lines of its own without which what it said could be misread.
        image_remarks: which of the user's images are not part of the run, and why, in lines.
    """

    settings: RunSettings
    scoring: Scoring = field(default_factory=Scoring)
    generator: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    environment: Environment = field(default_factory=Environment)
    uid: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()
    images_as: str = "files"
    judge_remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    image_remarks: tuple[str, ...] = ()

    @staticmethod
    def new(
        settings: RunSettings,
        *,
        scoring: Scoring | None = None,
        plugins: Mapping[str, str] | None = None,
        images_as: str = "files",
    ) -> Manifest:
        """The record of a run that starts now.

        Args:
            settings: what is asked for.
            scoring: if it is known already.
            plugins: versions by package, of what does not come with this one.
            images_as: one of ``STORAGES``.
        """
        return Manifest(
            settings=_settings_of(_plain(asdict(settings))),
            scoring=scoring or Scoring(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            environment=Environment.current(plugins),
            uid=os.urandom(16).hex(),
            images_as=images_as,
        )

    def adopted(self) -> Manifest:
        """The same with an identity, for a run of an earlier version: all processes give it the same."""
        made = [asdict(self.settings), self.created, asdict(self.environment)]
        return replace(self, uid=self.uid or content_hash(_plain(made))[:32])

    def with_settings(self, settings: RunSettings) -> Manifest:
        """The same with other settings, of a run that grows or is judged by others."""
        return replace(self, settings=_settings_of(_plain(asdict(settings))))

    def with_call(self, call: Mapping[str, Any]) -> Manifest:
        """The same with one more call that made images or observations, in place of one with the same judges."""
        plain = _plain(call)
        others = [c for c in self.calls if (c["command"], c["judges"]) != (plain["command"], plain["judges"])]
        return self if plain in self.calls else replace(self, calls=(*others, plain))

    def with_scoring(self, **changes: Any) -> Manifest:
        """The same with other fields of ``scoring``."""
        plain = _plain(changes)
        for name in ("remarks", "answers"):
            if name in plain:
                plain[name] = tuple(plain[name])
        return replace(self, scoring=replace(self.scoring, **plain))

    def with_generator(self, details: Mapping[str, Any]) -> Manifest:
        """The same with what the generator says of itself."""
        return replace(self, generator=_plain(dict(details)))

    def with_judge_remarks(self, judge: str, lines: Sequence[str]) -> Manifest:
        """The same with what a judge says of its observations, in place of what it said before."""
        return replace(self, judge_remarks={**self.judge_remarks, judge: tuple(lines)})

    def with_image_remarks(self, lines: Sequence[str]) -> Manifest:
        """The same with what is said of the user's images that are not part of the run, in place of what was said."""
        return replace(self, image_remarks=tuple(lines))

    def record(self, *, scoring: bool = True) -> dict[str, Any]:
        """As plain JSON, with a hash of all of it.

        Args:
            scoring: whether it says how the scores were made; the file of a run does not, as its scoring does.
        """
        plain = _plain(asdict(self))
        if not scoring:
            del plain["scoring"]
        version = SHARDS_VERSION
        if self.images_as == "files":
            version = SCHEMA_VERSION
            del plain["images_as"]
        for name in ("judge_remarks", "image_remarks"):
            if not plain[name]:
                del plain[name]
        record = {"schema_version": version, **plain, "settings_hash": self.settings.hash()}
        return record | {"checksum": content_hash(record)}

    @staticmethod
    def of_record(record: Any) -> Manifest:
        """What ``record`` wrote, also by earlier versions.

        Raises:
            UsageError: of a schema this version does not read.
            KeyError, TypeError, ValueError: something that is no such record, or was altered.
        """
        version = record["schema_version"]
        if version == 1:
            return _migrated(record)
        if version not in (2, SCHEMA_VERSION, SHARDS_VERSION):
            raise UsageError(f"run schema {version}; this version of verism reads schemas 1 to {SHARDS_VERSION}")
        if version != 2:
            rest = {name: value for name, value in record.items() if name != "checksum"}
            if record["checksum"] != content_hash(rest):
                raise ValueError("its content is not what was written")
        if (images_as := record.get("images_as", "files")) not in STORAGES:
            raise ValueError(f"its images are kept as {images_as!r}; expected {' or '.join(STORAGES)}")
        return Manifest(
            settings=_settings_of(record["settings"]),
            scoring=scoring_of_record(record.get("scoring", {})),
            generator=dict(record["generator"]),
            created=str(record["created"]),
            environment=Environment(**record["environment"]),
            uid=str(record.get("uid", "")),
            calls=tuple(record.get("calls", ())),
            images_as=images_as,
            judge_remarks={name: tuple(lines) for name, lines in record.get("judge_remarks", {}).items()},
            image_remarks=tuple(record.get("image_remarks", ())),
        )


def scoring_of_record(record: Mapping[str, Any]) -> Scoring:
    """How scores were made, as a run keeps it, with the names of today.

    Args:
        record: fields of ``Scoring`` as plain JSON.
    """
    lines = {name: tuple(record.get(name, ())) for name in ("remarks", "answers")}
    return Scoring(**{**record, **lines, "rules": rules_of(record.get("rules", {}))})


def _settings_of(record: Mapping[str, Any]) -> RunSettings:
    return RunSettings(**{**record, "suite": canonical_suite_name(record["suite"])})


def _migrated(record: Mapping[str, Any]) -> Manifest:
    """A record of schema 1: one flat mapping of settings, and notes."""
    settings = record["settings"]
    if not isinstance(settings, Mapping):
        raise TypeError("settings is no JSON object")
    notes = record.get("notes", {})
    environment = record.get("environment", {})
    judges = {role: str(settings[role]) for role in roles() if role in settings}
    subset = {k: v for k, v in settings.items() if k not in SHARED_KEYS and k not in judges}
    used = notes.get("judges")
    generator = notes.get("generator")
    return Manifest(
        settings=RunSettings(
            suite=canonical_suite_name(str(settings.get("suite", ""))),
            suite_settings=subset,
            generator=str(settings.get("generator", "")),
            judges=judges,
            seed=int(settings.get("seed", 0)),
            prompts=str(settings.get("prompts", "")),
            reference=str(settings.get("reference") or ""),
        ),
        scoring=Scoring(
            judges={k: v for k, v in used.items() if isinstance(v, str)} if isinstance(used, Mapping) else {},
            rules=rules_of(notes.get("rules", {})),
            thresholds=notes.get("thresholds", {}),
            remarks=tuple(notes.get("remarks", ())),
        ),
        generator=generator if isinstance(generator, Mapping) else {},
        created=str(record.get("created", "")),
        environment=Environment(
            **{k: environment[k] for k in ("verism", "python", "platform", "packages") if k in environment}
        ),
    )


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=_jsonable))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def _differences(old: Any, new: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        listed = []
        for key in sorted(set(old) | set(new)):
            listed += _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
        return listed
    return [] if old == new else [(name, old, new)]


@functools.lru_cache(maxsize=8)
def _repository(folder: str) -> tuple[str, bool | None]:
    """Commit and dirty flag of the git repository around a folder; ("", None) outside of one or without git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=GIT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if not commit:
        return "", None
    changes = git("status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


@functools.cache
def _installed(package: str) -> str | None:
    """Version of an installed package; read once, since every start of a run asks for all of them."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _hardware() -> dict[str, Any]:
    """Processor, cores, memory, and accelerators that a loaded library knows of."""
    known: dict[str, Any] = {"processor": _processor(), "cores": os.cpu_count() or 1}
    if (memory := physical_memory_bytes()) is not None:
        known["memory_gib"] = round(memory / 2**30, 1)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        known["accelerators"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return known


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
