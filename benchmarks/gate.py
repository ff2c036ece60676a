"""How often `verism gate` raises a false alarm, and how often it misses what the planner says it sees.

    python benchmarks/gate.py                     both tables (some minutes of one core)
    python benchmarks/gate.py --only kinds        designs whose text contains it
    python benchmarks/gate.py --runs 4000         more simulated gates
    python benchmarks/gate.py --write             also write docs/gate.csv, and the tables in docs/gate.md
    python benchmarks/gate.py --quick             three gates of each: that everything works

*False alarms.* The true drop is exactly what is allowed, the hardest case. The test of ``verism.statistics`` is made of
each pair of simulated runs, and the share of gates that fail is counted; likewise the share that call the drop "within
limit", which is as wrong there. "Repeats 0.6": the verdicts of an image are as those of the image before it with
chance 0.6.

*Misses.* ``prompts_needed`` plans how many prompts see a drop with a power, and gates over as many prompts are
simulated. Images of a prompt are alike because each has the draw of its prompt with some chance.
"""

from __future__ import annotations

import argparse
import csv
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from verism.statistics import Spread, holm, non_inferiority, prompts_needed, wilson

RUNS = 2000
RESAMPLES = 400
PAGE = Path(__file__).resolve().parents[1] / "docs" / "gate.md"
START, END = "<!-- gate.py: start -->", "<!-- gate.py: end -->"
ALPHA = 0.05

Rng = np.random.Generator
Floats = np.ndarray
Pair = tuple[Floats, Floats, Floats]  # baseline, new run, prompts


@dataclass(frozen=True)
class Boundary:
    """A world whose true drop is what is allowed.

    Attributes:
        world: the data in words.
        margin: the drop, in the unit of the values.
        draw: a pair of runs over several groups that are gated together.
        points: whether the values are shares.
        adverse: a world that no test of so few prompts can stand, kept to show where the limits are.
    """

    world: str
    margin: float
    draw: Callable[[Rng], Sequence[Pair]]
    points: bool = True
    adverse: bool = False


@dataclass(frozen=True)
class Planned:
    """A drop, and how the runs of a plan differ.

    Attributes:
        drop: the true drop.
        margin: the drop that is allowed.
        discordance: share of images whose verdicts differ; of values other than 0/1, their standard deviation.
        images: images per prompt.
        correlation: of the differences of two images of a prompt.
        power: planned chance of seeing it.
        binary: whether the values are 0 or 1.
    """

    drop: float
    margin: float
    discordance: float
    images: int
    correlation: float
    power: float
    binary: bool = True

    @property
    def spread(self) -> Spread:
        if self.binary:
            return Spread(discordance=self.discordance, correlation=self.correlation)
        return Spread(deviation=self.discordance, correlation=self.correlation)


def labels_of(prompts: int, each: int) -> Floats:
    return np.repeat(np.arange(prompts), each)


def uniform(rng: Rng, prompts: int, each: int, stay: float) -> Floats:
    """Uniform draws, shape (prompts, each); each repeats the one before it with a chance."""
    drawn = rng.random((prompts, each))
    kept = rng.random((prompts, each)) < stay
    for image in range(1, each):
        drawn[:, image] = np.where(kept[:, image], drawn[:, image - 1], drawn[:, image])
    return drawn


def verdicts(rng: Rng, prompts: int, each: int, share: float, margin: float, churn: float, stay: float) -> Pair:
    """Verdicts: right in both, lost, gained, wrong in both; ``churn`` is gained, and lost besides the margin."""
    u = uniform(rng, prompts, each, stay).ravel()
    base = u < share
    lost = u < margin + churn
    gained = (u >= share) & (u < share + churn)
    return base.astype(float), ((base & ~lost) | gained).astype(float), labels_of(prompts, each)


KINDS = np.array([0.98, 0.6, 0.05])  # chance of a right image of an easy, a middling and a hopeless prompt
MIX = np.array([0.6, 0.3, 0.1])


def kinds(rng: Rng, prompts: int, largest: int, change: Sequence[float]) -> Pair:
    """Prompts of three kinds, with one to ``largest`` images, whose chances change by ``change``."""
    clusters = np.repeat(np.arange(prompts), rng.integers(1, largest + 1, prompts))
    kind = rng.choice(3, prompts, p=MIX)[clusters]
    base = rng.random(len(clusters)) < KINDS[kind]
    new = rng.random(len(clusters)) < (KINDS + np.asarray(change))[kind]
    return base.astype(float), new.astype(float), clusters


def measured(rng: Rng, prompts: int, each: int, shape: str) -> Pair:
    """Numbers whose mean drops by 0.3; prompts are skewed in a way, and images vary about them."""
    clusters = labels_of(prompts, each)
    base = rng.gamma(2.0, 1.0, prompts)[clusters] + rng.normal(0.0, 0.3, len(clusters))
    drops = {
        "rare large drops": lambda: rng.exponential(0.3, prompts),
        "rare large gains": lambda: 0.6 - rng.exponential(0.3, prompts),
        "even": lambda: rng.normal(0.3, 0.5, prompts),
        "heavy tails": lambda: 0.3 + 0.3 * rng.standard_t(3, prompts),
    }[shape]()
    return base, base - drops[clusters] + rng.normal(0.0, 0.2, len(clusters)), clusters


def rare_gains(rng: Rng, prompts: int, each: int, before: Sequence[float], after: Sequence[float]) -> Pair:
    """Prompts of two sorts, of which the second is one in ten, and the chances of a right image before and after."""
    sort = (rng.random(prompts) < 0.1).astype(int)
    clusters = labels_of(prompts, each)
    base, new = (rng.random(len(clusters)) < np.asarray(chance)[sort][clusters] for chance in (before, after))
    return base.astype(float), new.astype(float), clusters


def asked(prompts: int, each: int) -> str:
    return f"{prompts} prompts of {each}" if each > 1 else f"{prompts} prompts"


def boundaries() -> Iterator[Boundary]:
    for prompts, each, share, margin, churn, stay in (
        (10, 1, 0.7, 0.02, 0.1, 0.0),
        (30, 1, 0.9, 0.05, 0.05, 0.0),
        (100, 1, 0.7, 0.0, 0.1, 0.0),
        (100, 1, 0.7, 0.02, 0.1, 0.0),
        (100, 1, 0.98, 0.02, 0.0, 0.0),
        (100, 1, 0.98, 0.02, 0.01, 0.0),
        (100, 1, 0.03, 0.02, 0.01, 0.0),
        (400, 1, 0.8, 0.05, 0.05, 0.0),
        (12, 4, 0.7, 0.05, 0.1, 0.6),
        (60, 4, 0.7, 0.02, 0.1, 0.0),
        (60, 4, 0.7, 0.02, 0.1, 0.6),
        (60, 4, 0.97, 0.02, 0.01, 0.3),
        (200, 4, 0.5, 0.0, 0.2, 0.6),
        (12, 9, 0.7, 0.05, 0.2, 0.6),
        (30, 9, 0.9, 0.02, 0.05, 0.9),
        (100, 9, 0.97, 0.02, 0.01, 0.6),
        (100, 9, 0.6, 0.1, 0.1, 0.3),
    ):
        alike = f", repeats {stay:g}" if each > 1 else ""
        draw = partial(verdicts, prompts=prompts, each=each, share=share, margin=margin, churn=churn, stay=stay)
        yield Boundary(
            f"{asked(prompts, each)}, share {share:g}, {margin + 2 * churn:.2g} differ{alike}",
            margin,
            lambda rng, draw=draw: [draw(rng)],
        )
    for prompts, change in (
        (15, (-0.03, 0.0, 0.0)),
        (80, (-0.03, 0.0, 0.0)),
        (15, (0.0, -0.1, 0.0)),
        (80, (0.0, -0.1, 0.0)),
        (15, (-0.05, 0.0, 0.1)),
        (80, (-0.05, 0.0, 0.1)),
    ):
        margin = -float(np.asarray(change) @ MIX)
        yield Boundary(
            f"{prompts} prompts of 1 to 9, three kinds changed by {', '.join(f'{100 * c:+g}' for c in change)} points",
            margin,
            lambda rng, prompts=prompts, change=change: [kinds(rng, prompts, 9, change)],
        )
    for shape in ("even", "rare large drops", "rare large gains", "heavy tails"):
        for prompts, each in ((8, 4), (12, 1), (30, 4), (100, 4)):
            yield Boundary(
                f"numbers, {asked(prompts, each)}, {shape}",
                0.3,
                lambda rng, prompts=prompts, each=each, shape=shape: [measured(rng, prompts, each, shape)],
                points=False,
            )
    yield Boundary(
        "five groups gated together, 40 prompts of 4 each, share 0.8, 0.12 differ, repeats 0.5",
        0.02,
        lambda rng: [verdicts(rng, 40, 4, 0.8, 0.02, 0.05, 0.5) for _ in range(5)],
    )
    for before, after in (((0.99, 0.02), (0.92, 0.45)), ((0.99, 0.02), (0.8, 1.0))):
        margin = float((np.subtract(before, after)) @ [0.9, 0.1])
        for prompts in (12, 30, 100):
            changes = (f"{100 * (y - x):+.0f}" for x, y in zip(before, after, strict=True))
            yield Boundary(
                f"{prompts} prompts of 9, nine in ten changed by {' points and one by '.join(changes)}",
                margin,
                lambda rng, n=prompts, before=before, after=after: [rare_gains(rng, n, 9, before, after)],
                adverse=prompts < 100 and after[1] == 1.0,
            )


def plans() -> Iterator[Planned]:
    yield Planned(0.02, 0.0, 0.1, 1, 0.0, 0.8)
    yield Planned(0.02, 0.0, 0.1, 1, 0.0, 0.9)
    yield Planned(0.02, 0.0, 0.1, 4, 0.3, 0.8)
    yield Planned(0.02, 0.0, 0.1, 9, 0.3, 0.8)
    yield Planned(0.05, 0.0, 0.3, 4, 0.3, 0.8)
    yield Planned(0.05, 0.02, 0.2, 1, 0.0, 0.8)
    yield Planned(0.05, 0.02, 0.2, 4, 0.6, 0.9)
    yield Planned(0.04, 0.02, 0.04, 1, 0.0, 0.8)
    yield Planned(0.1, 0.02, 0.2, 9, 0.0, 0.9)
    yield Planned(0.2, 0.02, 0.5, 4, 0.2, 0.8)
    yield Planned(0.2, 0.0, 1.0, 1, 0.0, 0.8, binary=False)
    yield Planned(0.3, 0.1, 1.0, 4, 0.4, 0.9, binary=False)


def gated(pairs: Sequence[Pair], margin: float, rng: Rng) -> tuple[bool, bool]:
    """Whether a gate fails, and whether it says "within limit" of a number."""
    seed = int(rng.integers(2**31))
    results = [non_inferiority(*pair, margin=margin, seed=seed, n_resamples=RESAMPLES) for pair in pairs]
    fails = bool(np.any(holm([r.p_exceeds for r in results]) <= ALPHA))
    return fails, results[0].p_within <= ALPHA


def false_alarms(design: Boundary, runs: int, seed: int) -> tuple[int, int]:
    """How many gates of a world fail, and how many call a number within its limit."""
    rng = np.random.default_rng([seed, zlib.crc32(design.world.encode())])
    found = np.array([gated(design.draw(rng), design.margin, rng) for _ in range(runs)])
    return int(found[:, 0].sum()), int(found[:, 1].sum())


def planned_pair(rng: Rng, plan: Planned, prompts: int) -> Pair:
    clusters = labels_of(prompts, plan.images)
    if not plan.binary:
        part = np.sqrt(plan.correlation)
        noise = part * rng.normal(size=prompts)[clusters] + np.sqrt(1 - plan.correlation) * rng.normal(
            size=len(clusters)
        )
        base = rng.normal(size=len(clusters))
        return base, base - plan.drop - plan.discordance * noise, clusters
    u = rng.random((prompts, plan.images))
    shared = rng.random(u.shape) < np.sqrt(plan.correlation)
    u = np.where(shared, rng.random((prompts, 1)), u).ravel()
    lost, gained = u < (plan.discordance + plan.drop) / 2, u > 1 - (plan.discordance - plan.drop) / 2
    return (~gained).astype(float), (~lost).astype(float), clusters


def misses(plan: Planned, runs: int, seed: int) -> tuple[int, int]:
    """The planned number of prompts, and how many gates miss the drop."""
    prompts = prompts_needed(
        plan.drop, plan.spread, power=plan.power, margin=plan.margin, images_per_prompt=plan.images
    )
    rng = np.random.default_rng([seed, zlib.crc32(repr(plan).encode())])
    seen = [gated([planned_pair(rng, plan, prompts)], plan.margin, rng)[0] for _ in range(runs)]
    return prompts, runs - sum(seen)


def percent(n: int, runs: int) -> str:
    share = wilson(n, runs)
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


ALARMS = ("world", "allowed and true drop", "false alarms, %", 'wrongly "within limit", %', "gates")
SORTS = {  # of worlds, by words that they begin with or contain
    "five groups": "five groups gated together",
    "numbers": "numbers, such as cosines",
    "kinds": "three kinds of prompts, changed differently",
    "(adverse)": "one prompt in ten gains a lot, and samples may have none (adverse)",
    "nine in ten": "one prompt in ten gains a lot",
    "prompts of": "verdicts, several images per prompt",
    "": "verdicts, one image per prompt",
}


def summary(alarms: Sequence[Sequence[str]]) -> list[str]:
    """A table with a line for each kind of world: how far its shares reach."""
    by_kind: dict[str, list[Sequence[str]]] = {}
    for row in alarms:
        by_kind.setdefault(next(kind for words, kind in SORTS.items() if words in row[0]), []).append(row)

    def span(rows: Sequence[Sequence[str]], column: int) -> str:
        ends = [min(rows, key=lambda row: leading(row[column])), max(rows, key=lambda row: leading(row[column]))]
        low, high = (row[column] for row in ends)
        return high if len(rows) == 1 else f"{leading(low):.1f} to {high}"

    head = ("worlds", "designs", "false alarms, %", 'wrongly "within limit", %', "most false alarms with")
    lines = []
    for kind, rows in by_kind.items():
        worst = max(rows, key=lambda row: leading(row[2]))
        lines.append((kind, str(len(rows)), span(rows, 2), span(rows, 3), worst[0].removesuffix(" (adverse)")))
    return table(head, lines)


def leading(text: str) -> float:
    """The share of a cell such as ``4.2 [3.4, 5.1]``."""
    return float(text.partition(" ")[0])


def measure(runs: int, seed: int, only: Sequence[str]) -> tuple[list[list[str]], str]:
    """False alarms by world, as rows of ``ALARMS``, and the table of misses."""

    def chosen(text: str) -> bool:
        return not only or any(word in text for word in only)

    alarms: list[list[str]] = []
    for design in boundaries():
        if not chosen(design.world):
            continue
        failed, within = false_alarms(design, runs, seed)
        unit = f"{100 * design.margin:g} points" if design.points else f"{design.margin:g}"
        note = " (adverse)" if design.adverse else ""
        alarms.append([design.world + note, unit, percent(failed, runs), percent(within, runs), f"{runs:,}"])
        print(" | ".join(alarms[-1]), flush=True)
    planned: list[list[str]] = []
    for plan in plans():
        if not chosen(str(plan)):
            continue
        prompts, missed = misses(plan, runs, seed)
        scale, unit = (100, " points") if plan.binary else (1, "")
        differ = f"{100 * plan.discordance:g} %" if plan.binary else f"sd {plan.discordance:g}"
        planned.append(
            [
                f"{scale * plan.drop:g}{unit}",
                f"{scale * plan.margin:g}{unit}",
                differ,
                f"{plan.correlation:g}",
                f"{prompts:,} of {plan.images}",
                f"{100 * (1 - plan.power):.0f}",
                percent(missed, runs),
                f"{runs:,}",
            ]
        )
        print(" | ".join(planned[-1]), flush=True)
    head = ("true drop", "allowed", "differ", "alike", "prompts planned", "misses planned, %", "misses, %", "gates")
    return alarms, "\n".join(table(head, planned))


def write(alarms: Sequence[Sequence[str]], misses: str, command: str, page: Path = PAGE) -> None:
    """Put a summary and the table of misses between the marks of a page, and all worlds into a CSV file beside it."""
    whole = page.read_text(encoding="utf-8")
    before, _, rest = whole.partition(START)
    after = rest.partition(END)[2]
    file = page.with_suffix(".csv")
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([ALARMS, *alarms])
    made = f"Made by `{command}`; [all {len(alarms)} designs]({file.name})."
    text = "\n".join([START, made, "", *summary(alarms), "", misses, END])
    page.write_text(f"{before}{text}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated gates of each design")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], help="designs whose text contains this; several times")
    parser.add_argument("--quick", action="store_true", help="three gates of each")
    parser.add_argument("--write", action="store_true", help="write docs/gate.csv, and the tables in docs/gate.md")
    options = parser.parse_args(arguments)
    if options.write and (options.only or options.quick):
        parser.error("--write is for all designs")
    alarms, misses = measure(3 if options.quick else options.runs, options.seed, options.only)
    print("", *summary(alarms), "", misses, sep="\n")
    if options.write:
        write(alarms, misses, f"python benchmarks/gate.py --write --runs {options.runs}")


if __name__ == "__main__":
    main()
