"""Writes what the Dockerfile installs, at tested versions and with hashes; ``make lock``.

    python tools/lock.py             # after a change of requirements or of constraints.txt
    python tools/lock.py --check     # whether the files are as they should be; exit code 1 if not

``requirements.lock`` is the core and light extras, ``tools/build.lock`` what builds the wheel. One file serves
Linux, macOS and Windows, on x86-64 and arm64 (environment markers say what is for whom).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("annotate", "api")  # light ones: pages for annotators and of runs, image and judge services
LOCKS = {
    "requirements.lock": f"""\
# What the Dockerfile installs: the core and the extras {", ".join(EXTRAS)}, with hashes. Made by `make lock`.
#   pip install --require-hashes -r requirements.lock && pip install --no-deps verism-*.whl
""",
    "tools/build.lock": "# What builds the wheel, with hashes. Made by `make lock`.\n",
}


def locked(name: str) -> str:
    """The content of a lock file.

    Args:
        name: key of ``LOCKS``.
    """
    uv = Path(sys.executable).with_name("uv.exe" if sys.platform == "win32" else "uv")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lock"
        words = [str(uv), "pip", "compile", "-c", "constraints.txt", "--universal", "--python-version", "3.11"]
        words += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", "-o", str(out)]
        words += ["--no-emit-index-url", "--no-emit-find-links"]
        if name == "requirements.lock":
            words += ["pyproject.toml", *(word for extra in EXTRAS for word in ("--extra", extra))]
        else:
            build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
            wanted = Path(folder) / "build.in"
            wanted.write_text("\n".join(build), encoding="utf-8")
            words.append(str(wanted))
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return LOCKS[name] + out.read_text(encoding="utf-8")


def main() -> int:
    """Write the files, or compare them; the exit code."""
    wrong = []
    for name in LOCKS:
        content, path = locked(name), ROOT / name
        if "--check" in sys.argv[1:]:
            wrong += [] if path.read_text(encoding="utf-8") == content else [name]
        else:
            path.write_text(content, encoding="utf-8", newline="\n")
    if wrong:
        print(
            f"{', '.join(wrong)}: not what pyproject.toml and constraints.txt ask for; run: make lock", file=sys.stderr
        )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
