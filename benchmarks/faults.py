"""Kills, damage, floods and lies, in turn: what is lost, what is said of it, and what nobody says.

    python benchmarks/faults.py                     everything; 42 minutes on two busy cores, half of it kills
    python benchmarks/faults.py --quick             a few trials of each kind, in seconds
    python benchmarks/faults.py --only kills --only damage --seed 3
    python benchmarks/faults.py --json faults.json

Exit code 0: of all trials none lost anything, none gave other numbers without a word, and none ended in a traceback.
The trials follow from the seed; where a process is killed after a random time, the moment it is met in does not.

``kills``: ``kill -9`` of every command that writes, at random moments and before each change of a file.
``images``: files that are no images, or bad ones, one for each prompt of a run.
``disk``: a disk that fills up (a small tmpfs, where mounting is permitted), and a limit on the size of files.
``damage``: every file of a run with flipped bits, cut, zeroed, gone, or another run's, before every reader.
``processes``: several processes on one run, with a generator that does not repeat itself, and readers beside them.
``texts``: hostile prompts, captions and names in pages, tables and on the terminal.
``raters``: abuse of the annotation server, and kills while raters vote.
``services``: services of images that misbehave.
``programs``: ``command:`` programs that flood, hang, lie and die.
``bombs``: small files that unpack to large ones, and numbers at their ends, under a limit of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from fault_campaigns.commands import preload
from fault_campaigns.runs import make_templates
from fault_campaigns.trials import Job, Setting, Site, Skipped, Trial, table

CAMPAIGNS = (
    *("kills", "images", "disk", "damage", "processes"),
    *("texts", "raters", "services", "programs", "bombs"),
)


def work(job: Job, setting: Setting) -> tuple[list[Trial], list[Skipped], float]:
    """Do one job in a folder of its own; the error of a job is a trial that was lost, as it tried nothing."""
    begun = time.monotonic()
    found: list[Trial | Skipped] = []
    with tempfile.TemporaryDirectory(dir=setting.work, prefix=f"{job.campaign}-", ignore_cleanup_errors=True) as name:
        lot = random.Random(f"{setting.seed} {job.campaign} {job.function.__name__} {job.arguments}")
        try:
            found.extend(job.function(Site(setting, Path(name), lot), *job.arguments))
        except Exception as err:
            what = f"{job.function.__name__}{job.arguments}: the campaign itself failed"
            found.append(Trial(campaign=job.campaign, name=what, outcome="lost", detail=f"{type(err).__name__}: {err}"))
            if os.environ.get("VERISM_FAULTS_DEBUG"):
                raise
    trials = [item for item in found if isinstance(item, Trial)]
    return trials, [item for item in found if isinstance(item, Skipped)], time.monotonic() - begun


def campaign(
    names: Sequence[str], setting: Setting, processes: int
) -> tuple[list[Trial], list[Skipped], dict[str, float]]:
    """Do campaigns.

    Args:
        names: of ``CAMPAIGNS``.
        setting: for all.
        processes: jobs at once.
    Returns:
        Trials, what was skipped, and seconds by campaign, added up over the processes.
    """
    jobs = [job for name in names for job in import_module(f"fault_campaigns.{name}").jobs(setting)]
    jobs.sort(key=lambda job: -job.cost)
    trials, skipped, seconds = list[Trial](), list[Skipped](), dict.fromkeys(names, 0.0)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=preload) as pool:
        pool.submit(make_templates, setting).result()
        futures = {pool.submit(work, job, setting): job for job in jobs}
        for done, future in enumerate(as_completed(futures), start=1):
            found, left_out, took = future.result()
            trials += found
            skipped += left_out
            seconds[futures[future].campaign] += took
            for trial in found:
                if trial.outcome != "survived":
                    print(f"{trial.outcome}: {trial.campaign}: {trial.name}", file=sys.stderr)
            if done % max(1, len(jobs) // 20) == 0:
                print(f"{done} of {len(jobs)} jobs, {len(trials):,} trials", file=sys.stderr, flush=True)
    order = {name: place for place, name in enumerate(names)}
    trials.sort(key=lambda t: (order[t.campaign], t.outcome == "survived", t.name))
    return trials, list(dict.fromkeys(skipped)), seconds


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few trials of each kind")
    parser.add_argument("--only", action="append", choices=CAMPAIGNS, help="this campaign; may be given several times")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn [0]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="jobs at once [one for each core]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every trial to a file")
    parser.add_argument("--work", type=Path, help="existing folder for what is written [that of the system]")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(variable, "1")  # of the workers: a thread that numpy or polars started is lost by a fork
    begun = time.monotonic()
    names = [name for name in CAMPAIGNS if not options.only or name in options.only]
    with tempfile.TemporaryDirectory(dir=options.work, prefix="verism-faults-", ignore_cleanup_errors=True) as name:
        setting = Setting(work=Path(name).resolve(), quick=options.quick, seed=options.seed)
        trials, skipped, seconds = campaign(names, setting, options.jobs)
    bad = [trial for trial in trials if trial.outcome != "survived"]
    for trial in bad:
        print(f"{trial.outcome}: {trial.campaign}: {trial.name}: {trial.detail}")
    print(table(trials, skipped, seconds))
    print(f"\n{time.monotonic() - begun:,.0f} s with {options.jobs} jobs at once, seed {options.seed}")
    if options.json:
        record = {"trials": [asdict(t) for t in trials], "skipped": [asdict(s) for s in skipped], "seed": options.seed}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if bad or not trials else 0)


if __name__ == "__main__":
    main()
