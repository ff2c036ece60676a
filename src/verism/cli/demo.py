"""The demo: a generative model beside pictures whose truth is known, all made and judged offline."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from verism import api
from verism.files import write_csv
from verism.reports.html import write_report
from verism.reports.tables import terminal_table
from verism.terminal import say

__all__ = ["run_demo"]

ERROR = 0.3  # of the scripted painter: enough wrong pictures to see the judge tell them from right ones


def run_demo(out: Path, *, limit: int, seed: int) -> None:
    """Evaluate the built-in model, a painter of known error, an oracle and shuffled pictures; table and report."""
    start = time.monotonic()
    processes = os.cpu_count() or 1
    say(f"{limit} prompts of paintskills for the built-in text-to-image model")
    model = api.evaluate("paintskills", model="builtin", out=out / "builtin", limit=limit, seed=seed)
    say(f"the same prompts painted by the simulator; the scripted painter errs in about {ERROR:.0%}")
    scripted = api.evaluate(
        "paintskills",
        model=f"scripted:error={ERROR}",
        out=out / "scripted",
        limit=limit,
        seed=seed,
        processes=processes,
    )
    oracle = api.evaluate(
        "paintskills", model="oracle", out=out / "oracle", limit=limit, seed=seed, processes=processes
    )
    # The oracle's pictures serve again: shuffling only changes whose prompt a picture answers.
    manifest = out / "oracle-pictures.csv"
    painted = [row for row in oracle.read("images").iter_rows(named=True) if row["state"] == "ok"]
    rows = ((row["prompt_id"], oracle.resolve(row["path"]).absolute()) for row in painted)
    write_csv(manifest, ("prompt_id", "path"), rows)
    shuffled = api.evaluate("paintskills", images=manifest, out=out / "shuffled", limit=limit, seed=seed, shuffle=True)
    runs = [model, scripted, oracle, shuffled]
    page = write_report(runs, out / "report.html")
    click.echo(terminal_table(runs))
    click.echo(f"\nreport: {page.absolute()}")
    say(f"done in {time.monotonic() - start:.0f} s; look closer with: verism compare {out}/shuffled {out}/builtin")
