"""Is this a release that others can install? Builds it, looks at it, installs it, uses it; ``make release-check``.

    python tools/release_check.py                    # everything; half an hour and 5 GB, mostly PyTorch
    python tools/release_check.py --extra core       # the core only; minutes
    python tools/release_check.py --extra api --extra ocr

Writes sdist, wheel, checksums and the bill of materials to ``build/release``. Every check ends as passed, FAILED or
"not checked", and the last has a reason: a check that could not run is not one that passed. Exit code 1 if one failed.
It needs the tools of ``tools/release-requirements.txt`` and an index of packages.
"""

from __future__ import annotations

import argparse
import email.parser
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import smoke

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "release"
WHEEL_MB = 60  # what an index takes without asking is 100
LARGE_MB = 1.0  # a file from here on needs a reason
# Why the wheel is as large as it is. A large file that is not named here fails the check.
REASONS = {
    "verism/judges/detection/data/paintskills_detector.onnx": "the built-in detector: the demo, and tests of suites, "
    "need no network",
    "verism/judges/embedding/data/": "the built-in embedder of rendered images and texts: CLIP metrics and "
    "questions offline",
    "verism/judges/skin_tone/data/": "the built-in face finder and estimator of skin tones: skin tones offline",
    "verism/generators/data/": "the built-in generator (three networks for each edition of PaintSkills): a model that "
    "can be evaluated offline",
}
# Systems and Python versions that must be able to install all extras without a compiler.
SYSTEMS = {
    "Linux, x86-64": "x86_64-manylinux_2_28",
    "Windows, x86-64": "x86_64-pc-windows-msvc",
    "macOS 14, arm64": "aarch64-apple-darwin",
}
ARM = "aarch64-manylinux_2_28"  # of Linux: no wheel of Embree, so the core must do without
NEEDS_TORCH = ("models", "generate", "train")


@dataclass
class Log:
    """Results of all checks, printed as they come.

    Attributes:
        entries: state (``passed``, ``FAILED``, ``not checked``), name and detail of each.
    """

    entries: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, state: str, name: str, detail: str = "") -> None:
        """Note a result."""
        self.entries.append((state, name, detail))
        print(f"{state:<12} {name}{': ' + detail if detail else ''}", flush=True)

    def check(self, name: str, problem: str | None, detail: str = "") -> None:
        """Note a result: ``problem`` if there is one, else ``detail``."""
        self.add("FAILED" if problem else "passed", name, problem or detail)

    def failed(self) -> int:
        """How many failed."""
        return sum(state == "FAILED" for state, _, _ in self.entries)


class CheckError(Exception):
    """A program that a check needs has failed; the message ends with what it said."""


def ran(words: Sequence[object], *, cwd: Path = ROOT, env: dict[str, str] | None = None, timeout: float = 1800) -> str:
    """Standard output of a program.

    Raises:
        CheckError: its exit code is not 0, or it does not end.
    """
    try:
        done = subprocess.run(
            [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8",
            errors="replace", timeout=timeout, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as err:
        raise CheckError(f"{words[0]} did not end within {timeout:.0f} s") from err
    if done.returncode:
        raise CheckError(f"{' '.join(map(str, words))[:300]}: {(done.stderr or done.stdout)[-1500:]}")
    return done.stdout


def tool(name: str) -> Path | None:
    """A program of the tools' environment, or of the path."""
    here = Path(sys.executable).with_name(name + (".exe" if os.name == "nt" else ""))
    found = here if here.exists() else shutil.which(name)
    return Path(found) if found else None


def project() -> dict[str, object]:
    """The table ``project`` of ``pyproject.toml``."""
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def extras() -> list[str]:
    """Extras that users install; ``dev`` is for contributors."""
    declared = project()["optional-dependencies"]
    assert isinstance(declared, dict)
    return [name for name in declared if name != "dev"]


# ----------------------------------------------------------------------------------------------------------- building
def source_date() -> str:
    """Seconds since 1970 of the last commit, so that two builds of it are the same."""
    try:
        return ran(["git", "log", "-1", "--format=%ct"]).strip()
    except (CheckError, FileNotFoundError):
        return "1767225600"  # from an sdist: any fixed time


def copy_of_source(folder: Path) -> Path:
    """The project's files without what is built or ignored, in a folder of another name."""
    try:
        listed = ran(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")
        names = [name for name in listed if name and (ROOT / name).is_file()]
    except (CheckError, FileNotFoundError):
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".venv*", "build", "dist", "__pycache__"))
        return folder
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def build(folder: Path, out: Path) -> list[Path]:
    """An sdist of the folder, and a wheel of the sdist."""
    env = os.environ | {"SOURCE_DATE_EPOCH": source_date()}
    ran([sys.executable, "-m", "build", "--outdir", out, folder], cwd=folder, env=env)
    return sorted(out.iterdir())


def sha256(path: Path) -> str:
    """Hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_build(log: Log, scratch: Path) -> tuple[Path, Path]:
    """Build twice, in different places and with other permissions; wheel and sdist of the first."""
    hashes, made = [], []
    for number, umask in enumerate((0o022, 0o077)):
        before = os.umask(umask)
        try:
            files = build(copy_of_source(scratch / f"source{number}"), scratch / f"dist{number}")
        finally:
            os.umask(before)
        hashes.append({path.name: sha256(path) for path in files})
        made.append(files)
    differ = [name for name in hashes[0] if hashes[0][name] != hashes[1].get(name)]
    log.check(
        "reproducible build",
        f"{', '.join(differ)} differ between two builds" if differ else None,
        f"two builds with SOURCE_DATE_EPOCH={source_date()} in different folders are equal, byte for byte",
    )
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    kept = [Path(shutil.copy2(path, OUT)) for path in made[0]]
    lines = [f"{sha256(path)}  {path.name}\n" for path in kept]
    (OUT / "SHA256SUMS").write_text("".join(lines), encoding="utf-8", newline="\n")
    (wheel,) = (path for path in kept if path.suffix == ".whl")
    (sdist,) = (path for path in kept if path.name.endswith(".tar.gz"))
    return wheel, sdist


# ----------------------------------------------------------------------------------------------------------- contents
def metadata_problems(wheel: Path) -> list[str]:
    """What the wheel's metadata lack, or say otherwise than ``pyproject.toml``."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (info,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.parser.Parser().parsestr(archive.read(info).decode("utf-8"))
    declared = project()
    problems = []
    for name in ("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Description-Content-Type"):
        if not fields.get(name):
            problems.append(f"no field {name}")
    urls = {str(value).partition(",")[0] for value in fields.get_all("Project-URL", [])}
    if missing := {"Homepage", "Repository", "Documentation", "Changelog", "Issues"} - urls:
        problems.append(f"no project URL {sorted(missing)}")
    licences = {str(value) for value in fields.get_all("License-File", [])}
    if missing := {"LICENSE", "NOTICE"} - licences:
        problems.append(f"no licence file {sorted(missing)}")
    folder = info.rpartition("/")[0]
    problems += [f"{folder}/licenses/{name} is not in the wheel" for name in licences - {""}
                 if f"{folder}/licenses/{name}" not in names]  # fmt: skip
    wanted = declared["classifiers"]
    assert isinstance(wanted, list)
    if set(fields.get_all("Classifier", [])) != set(wanted):
        problems.append("other classifiers than pyproject.toml")
    from trove_classifiers import classifiers

    problems += [f"{name!r} is no classifier of PyPI" for name in wanted if name not in classifiers]
    provided, declared_extras = set(fields.get_all("Provides-Extra", [])), declared["optional-dependencies"]
    assert isinstance(declared_extras, dict)
    if provided != set(declared_extras):
        problems.append(f"extras {sorted(provided ^ set(declared_extras))} differ from pyproject.toml")
    if any(" @ " in str(value) for value in fields.get_all("Requires-Dist", [])):
        problems.append("a requirement by its URL, which PyPI refuses")
    return problems


def content_problems(wheel: Path, sdist: Path) -> list[str]:
    """What is in the archives and should not be, or the other way round."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    source = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "verism").rglob("*") if p.is_file()}
    source = {name for name in source if "__pycache__" not in name and not name.endswith(".pyc")}
    package = {name for name in inside if ".dist-info/" not in name}
    problems = [f"missing in the wheel: {name}" for name in sorted(source - package)]
    problems += [f"not of the source: {name}" for name in sorted(package - source)]
    if "verism/py.typed" not in package:
        problems.append("no py.typed: type checkers would not read the types")
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py", "Makefile"}
    return problems + [f"missing in the sdist: {name}" for name in sorted(needed - files)]


def large_files(wheel: Path) -> Iterator[tuple[str, float, str]]:
    """Name, size in MB in the wheel, and reason of each large file; the reason is empty if there is none."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in sorted(archive.infolist(), key=lambda e: -e.compress_size):
            size = entry.compress_size / 1e6
            if size >= LARGE_MB:
                yield (
                    entry.filename,
                    size,
                    next((why for at, why in REASONS.items() if entry.filename.startswith(at)), ""),
                )


def check_contents(log: Log, wheel: Path, sdist: Path) -> None:
    """Metadata, files and size."""
    twine = [sys.executable, "-m", "twine", "check", "--strict", wheel, sdist]
    try:
        ran(twine)
        log.add("passed", "twine check --strict")
    except CheckError as err:
        log.add("FAILED", "twine check --strict", str(err))
    log.check("metadata", "; ".join(metadata_problems(wheel)), "addresses, classifiers, licence files, extras")
    log.check("contents", "; ".join(content_problems(wheel, sdist)), "the package's files and no others")
    size = wheel.stat().st_size / 1e6
    log.check("size", f"{size:.1f} MB, more than {WHEEL_MB}" if size > WHEEL_MB else None, f"{size:.1f} MB")
    for name, megabytes, why in large_files(wheel):
        log.check(f"  {megabytes:5.1f} MB {name}", None if why else "no reason for it in REASONS", why)


# ------------------------------------------------------------------------------------------------------- installation
def new_environment(folder: Path) -> Path:
    """The interpreter of a new environment with nothing but pip."""
    ran([sys.executable, "-m", "venv", folder])
    return folder / ("Scripts" if os.name == "nt" else "bin") / ("python.exe" if os.name == "nt" else "python")


def installed(python: Path, *requirements: object) -> None:
    """Install with pip at the tested versions."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    ran([*pip, "-c", ROOT / "constraints.txt", *requirements], env=smoke.environment())


def torch_pin() -> str:
    """The tested version of PyTorch. Asked for by itself, it may be taken from where a CPU build is configured."""
    match = re.search(r"^torch==\S+", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    return match[0]


def megabytes(folder: Path) -> float:
    """Size of a folder's files."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink()) / 1e6


def check_extra(log: Log, wheel: Path, extra: str, scratch: Path) -> Path | None:
    """Install the core or an extra in a new environment, and try it from another folder; the interpreter."""
    began = time.monotonic()
    folder, elsewhere = scratch / f"env-{extra}", scratch / f"elsewhere-{extra}"
    elsewhere.mkdir()
    try:
        python = new_environment(folder)
        if extra in NEEDS_TORCH:
            installed(python, torch_pin())
        installed(python, str(wheel) if extra == "core" else f"{wheel}[{extra}]")
        ran([python, "-m", "pip", "--disable-pip-version-check", "check"], env=smoke.environment())
    except CheckError as err:
        log.add("FAILED", f"install {extra}", str(err))
        return None
    log.add(
        "passed",
        f"install {extra}",
        f"{megabytes(folder):,.0f} MB with Python's own pip, {time.monotonic() - began:.0f} s",
    )
    where = ran([python, "-c", "import verism; print(verism.__file__)"], cwd=elsewhere, env=smoke.environment())
    log.check(f"{extra}: verism is the installed one", None if str(folder) in where else f"it is {where.strip()}")
    try:
        ran([python, "-c", "import importlib.util as u; raise SystemExit(u.find_spec('torchvision') is not None)"])
    except CheckError:
        log.add("FAILED", f"{extra}: no torchvision", "a dependency brought it")
    if extra == "core":
        try:
            names = smoke.helps(python, elsewhere)
            log.add("passed", "core: help of every command", f"{len(names)} commands")
        except RuntimeError as err:
            log.add("FAILED", "core: help of every command", str(err))
    for done in smoke.called(python, smoke.CORE if extra == "core" else smoke.EXTRAS[extra], elsewhere):
        shown = done.call.words.strip().splitlines()[-1] if done.call.python else f"verism {done.call.words}"
        log.check(f"{extra}: {shown[:90]}", done.problem)
    if extra == "core":
        for command, why in smoke.HELP_ONLY.items():
            log.add("not checked", f"core: verism {command}", f"its help only; {why}")
    return python


def check_uvx(log: Log, wheel: Path, scratch: Path) -> None:
    """The demo without an installation."""
    uvx = tool("uvx")
    if uvx is None:
        log.add("not checked", "uvx --from WHEEL verism demo", "uv is not installed")
        return
    folder = scratch / "uvx"
    folder.mkdir()
    env = smoke.environment() | {"UV_CACHE_DIR": str(scratch / "uv-cache")}
    try:
        words = [
            uvx,
            "--python",
            sys.executable,
            "--from",
            wheel,
            "verism",
            "demo",
            "--limit",
            "12",
            "--out",
            "demo_run",
        ]
        ran(words, cwd=folder, env=env)
        log.check(
            "uvx --from WHEEL verism demo", None if (folder / "demo_run" / "report.html").exists() else "no report"
        )
    except CheckError as err:
        log.add("FAILED", "uvx --from WHEEL verism demo", str(err))


def check_lock(log: Log, wheel: Path, scratch: Path) -> None:
    """What the Dockerfile installs: the locked versions with their hashes, then the wheel and nothing else."""
    folder = scratch / "env-lock"
    try:
        python = new_environment(folder)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        ran([*pip, "install", "--require-hashes", "-r", ROOT / "requirements.lock"], env=smoke.environment())
        ran([*pip, "install", "--no-deps", "--no-index", wheel], env=smoke.environment())
        ran([*pip, "check"], env=smoke.environment())
        said = ran([folder / python.parent.name / "verism", "doctor"], cwd=scratch, env=smoke.environment())
        log.check(
            "requirements.lock", None if "renders" in said else said, "installs with hashes, as in the Dockerfile"
        )
    except CheckError as err:
        log.add("FAILED", "requirements.lock", str(err))
    shutil.rmtree(folder, ignore_errors=True)


def check_systems(log: Log) -> None:
    """Whether wheels of all requirements exist for other systems and versions of Python."""
    uv = tool("uv")
    if uv is None:
        log.add("not checked", "wheels for other systems", "uv is not installed")
        return
    everything = [word for extra in extras() for word in ("--extra", extra)]
    cases = [(name, system, everything) for name, system in SYSTEMS.items()]
    cases.append(("Linux, arm64 (core)", ARM, []))
    for name, system, wanted in cases:
        for version in ("3.11", "3.12", "3.13"):
            # The tested versions are those of one system; here only whether there is any solution counts.
            words = [uv, "pip", "compile", "pyproject.toml", *wanted, "--quiet", "--only-binary", ":all:"]
            words += ["--python-platform", system, "--python-version", version, "-o", os.devnull]
            try:
                ran(words)
                log.add("passed", f"wheels for {name}, Python {version}")
            except CheckError as err:
                log.add("FAILED", f"wheels for {name}, Python {version}", str(err))


def check_bill(log: Log, python: Path, version: str) -> None:
    """The bill of materials (CycloneDX) of verism and what its core installs."""
    out = OUT / f"verism-{version}.cdx.json"
    program = tool("cyclonedx-py")
    if program is None:
        log.add("not checked", "bill of materials", "cyclonedx-bom is not installed")
        return
    try:
        ran([program, "environment", python, "--pyproject", ROOT / "pyproject.toml", "--output-reproducible",
             "--of", "JSON", "-o", out])  # fmt: skip
        bill = json.loads(out.read_text(encoding="utf-8"))
        names = {str(part["name"]).lower() for part in bill["components"]}
        wanted = {"numpy", "scipy", "polars", "pillow", "onnxruntime", "click", "jinja2"}
        log.check(
            "bill of materials", f"without {sorted(wanted - names)}" if wanted - names else None,
            f"{len(names)} components in {out.name}",
        )  # fmt: skip
    except CheckError as err:
        log.add("FAILED", "bill of materials", str(err))


def check_container(log: Log, scratch: Path) -> None:
    """Build the image and ask it for the demo, where there is a Docker."""
    docker = shutil.which("docker")
    why = "docker is not installed"
    if docker:
        try:
            ran([docker, "info"], timeout=60)
            why = ""
        except CheckError:
            why = "no Docker daemon is running"
    if why:
        log.add("not checked", "Dockerfile", f"{why}; its commands are (see requirements.lock)")
        return
    assert docker is not None
    try:
        ran([docker, "build", "--tag", "verism:release-check", copy_of_source(scratch / "docker")])
        said = ran([docker, "run", "--rm", "verism:release-check", "demo", "--limit", "12", "--out", "/tmp/demo_run"])
        log.check("Dockerfile", None if said else "the demo printed nothing", "built, and its demo ran")
    except CheckError as err:
        log.add("FAILED", "Dockerfile", str(err))


def not_here(log: Log) -> None:
    """What no machine can check by itself."""
    system = f"{sys.platform}, Python {sys.version_info.major}.{sys.version_info.minor}"
    log.add("not checked", "installation and tests on other systems", f"this is {system}; see .github/workflows/ci.yml")
    log.add("not checked", "extras on a GPU", "PyTorch is whatever build the index gives; models need weights of hubs")
    log.add("not checked", "upload", "trusted publishing is set up on PyPI; see CONTRIBUTING.md")
    log.add("not checked", "project addresses", "whether they exist is not asked of the network")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extra", action="append", choices=["core", *extras()], help="only these; several times")
    parser.add_argument("--keep", action="store_true", help="keep the environments, in a temporary folder")
    options = parser.parse_args(arguments)
    chosen = options.extra or ["core", *extras()]
    log = Log()
    scratch = Path(tempfile.mkdtemp(prefix="verism-release-"))
    try:
        wheel, sdist = check_build(log, scratch)
        check_contents(log, wheel, sdist)
        steps: list[Callable[[], None]] = [lambda: check_systems(log), lambda: check_lock(log, wheel, scratch)]
        for step in steps:
            step()
        for extra in dict.fromkeys(["core", *chosen]):
            python = check_extra(log, wheel, extra, scratch)
            if extra == "core" and python is not None:
                check_bill(log, python, wheel.name.split("-")[1])
            if not options.keep:
                shutil.rmtree(scratch / f"env-{extra}", ignore_errors=True)
        for extra in [name for name in extras() if name not in chosen]:
            log.add("not checked", f"install {extra}", "not asked for (--extra)")
        check_uvx(log, wheel, scratch)
        check_container(log, scratch)
        not_here(log)
    except CheckError as err:
        log.add("FAILED", "release check", str(err))
    finally:
        if not options.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    counts = {state: sum(s == state for s, _, _ in log.entries) for state in ("passed", "FAILED", "not checked")}
    OUT.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(("state", "name", "detail"), entry, strict=True)) for entry in log.entries]
    (OUT / "report.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8", newline="\n")
    print(", ".join(f"{count} {state}" for state, count in counts.items()), f"in {OUT}")
    return int(log.failed() > 0)


if __name__ == "__main__":
    sys.exit(main())
