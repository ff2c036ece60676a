"""Lines of code by package, of this working tree and of another revision.

    python benchmarks/lines.py                  of the working tree
    python benchmarks/lines.py REVISION         beside those of a revision, with the difference

Physical lines of all Python files of ``src/verism``, tests not among them; single modules count as one package, and
templates, styles and scripts of pages stand apart.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/verism"
PAGES = (".j2", ".html", ".css", ".js")


def working_tree() -> Iterator[tuple[str, int]]:
    """Every file of the source below its root, with its lines."""
    for path in sorted((ROOT / SOURCE).rglob("*")):
        if path.is_file() and path.suffix in (".py", *PAGES):
            yield path.relative_to(ROOT / SOURCE).as_posix(), path.read_bytes().count(b"\n")


def revision(name: str) -> Iterator[tuple[str, int]]:
    """The same of a commit.

    Args:
        name: as git has it.

    Raises:
        subprocess.CalledProcessError: git knows no such revision.
    """

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout

    for path in git("ls-tree", "-r", "-z", "--name-only", name, SOURCE).decode().split("\0"):
        if PurePosixPath(path).suffix in (".py", *PAGES):
            yield path.removeprefix(f"{SOURCE}/"), git("show", f"{name}:{path}").count(b"\n")


def by_package(files: Iterator[tuple[str, int]]) -> Counter[str]:
    """Lines by package."""
    lines: Counter[str] = Counter()
    for path, n in files:
        package, inside, _ = path.partition("/")
        if not path.endswith(".py"):
            package = "(pages: templates, styles, scripts)"
        elif not inside:
            package = "(modules of the root)"
        lines[package] += n
    return lines


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Lines of src/verism by package.")
    parser.add_argument("revision", nargs="?", help="a commit to compare with")
    name = parser.parse_args().revision
    now = by_package(working_tree())
    before = by_package(revision(name)) if name else Counter()
    packages = sorted(set(now) | set(before), key=lambda p: (p.startswith("("), p))
    print(f"| package | {name} | now | difference |\n|---|---|---|---|" if name else "| package | lines |\n|---|---|")
    for package in [*packages, "**all**"]:
        a, b = (sum(c.values()) if package == "**all**" else c[package] for c in (before, now))
        print(f"| {package} | {a:,} | {b:,} | {b - a:+,} |" if name else f"| {package} | {b:,} |")


if __name__ == "__main__":
    main()
