"""Runs as earlier versions kept them: without a ledger, the files of the scoring beside the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from verism.store import Run
from verism.store.scorings import FILES


def as_earlier_version(run: Run) -> Run:
    """The run directory as schema 2 had it; nothing else of it changes."""
    stored = run.stored_scoring()
    record: dict[str, Any] = run.manifest.record()
    for name in ("uid", "calls", "checksum"):
        del record[name]
    del record["scoring"]["adjustment"]
    for name in FILES:
        if stored is not None and name in stored:
            (run.path / name).write_bytes(stored.read(name))
    for folder in ("ledger", "scorings"):
        shutil.rmtree(run.path / folder, ignore_errors=True)
    (run.path / "scoring.json").unlink(missing_ok=True)
    manifest: Path = run.path / "manifest.json"
    manifest.write_text(json.dumps(record | {"schema_version": 2}), encoding="utf-8")
    return type(run).open(run.path)
