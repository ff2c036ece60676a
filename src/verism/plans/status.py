"""What has become of each pair of a plan: kept in small files beside the runs, so that a second call goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from verism.errors import UsageError, VerismError
from verism.files import read_json, write_json
from verism.locations import location
from verism.plans.plan import Pair, Plan
from verism.records import Prompt
from verism.store import Run, slug

__all__ = [
    "PLAN_FILE",
    "PairStatus",
    "State",
    "keep_plan",
    "keep_status",
    "kept_statuses",
    "plan_status",
    "read_rows",
    "report_path",
    "run_path",
    "status_of",
]

State = Literal["waiting", "running", "done", "failed", "changed"]

PLAN_FILE = "plan.json"
FORMAT = "verism-plan"


@dataclass(frozen=True, kw_only=True)
class PairStatus:
    """What has become of a pair.

    Attributes:
        pair: name of its run directory.
        model: name of the model in the plan.
        suite: name of the suite in the plan.
        state: ``waiting``: not begun; ``running``: begun, and neither finished nor failed; ``done``; ``failed``: its
            reason is in ``reason``; ``changed``: done with other settings than the plan has now.
        images: images the run has.
        wanted: images it will have; None if that is not known yet.
        reason: of a failure, one line.
        seconds: time the last call took.
        settings_hash: of the settings it was last run with.
        fixed_hash: of those of them that a run cannot go on without; empty of runs before it was kept.
        when: of the last change, ISO 8601 in UTC.
    """

    pair: str
    model: str
    suite: str
    state: State = "waiting"
    images: int = 0
    wanted: int | None = None
    reason: str = ""
    seconds: float = 0.0
    settings_hash: str = ""
    fixed_hash: str = ""
    when: str = ""

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def run_path(out: Path, pair: Pair) -> Path:
    """The run directory of a pair.

    Args:
        out: the plan's directory.
        pair: the pair.
    """
    return out / "runs" / pair.name


def report_path(run: Path) -> Path:
    """Where boards look for the report of a run.

    Args:
        run: the run's directory.
    """
    return run / "report" / "index.html"


def _file(out: Path, pair: Pair) -> Path:
    return out / "status" / f"{pair.name}.json"


def keep_plan(out: Path, plan: Plan) -> None:
    """Write what the plan asks for beside its runs; boards read the order and the kinds of rows from it.

    Args:
        out: the plan's directory; made if need be.
        plan: the plan.

    Raises:
        UsageError: the directory holds something else.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / PLAN_FILE).exists())):
        raise UsageError(f"{out} exists and is not the directory of a plan; choose another --out")
    rows = [
        {"name": row.name, "reference": row.reference, row.source: str(row.value)}
        if row.source == "scores"
        else {"name": row.name, "reference": row.reference}
        for row in plan.rows
    ]
    columns = [{"name": column.name, "suite": column.suite.info.name} for column in plan.columns]
    write_json(out / PLAN_FILE, {"format": FORMAT, "version": 1, **plan.record(), "rows": rows, "columns": columns})


def read_rows(out: Path) -> Mapping[str, Any] | None:
    """What ``keep_plan`` wrote; None for a directory that is not of a plan.

    Args:
        out: a directory.
    """
    file = out / PLAN_FILE
    if not file.is_file():
        return None
    record = read_json(file, "a plan, as `verism plan run` keeps it")
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise UsageError(f"{file} was not written by `verism plan run`")
    return record


def keep_status(out: Path, pair: Pair, state: State, *, reason: str = "", seconds: float = 0.0) -> PairStatus:
    """Write what has become of a pair, and return it.

    Args:
        out: the plan's directory.
        pair: the pair.
        state: its state.
        reason: of a failure, one line.
        seconds: time it took.
    """
    status = PairStatus(
        pair=pair.name,
        model=pair.model,
        suite=pair.column,
        state=state,
        reason=reason,
        seconds=round(seconds, 1),
        settings_hash=pair.settings_hash(),
        fixed_hash=pair.fixed_hash(),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_json(_file(out, pair), status.record())
    return status


def status_of(out: Path, pair: Pair) -> PairStatus:
    """What has become of a pair.

    Args:
        out: the plan's directory, also one that does not exist yet.
        pair: the pair.
    """
    fresh = PairStatus(pair=pair.name, model=pair.model, suite=pair.column)
    kept = _kept(out, fresh)
    path = run_path(out, pair)
    if kept.state == "done" and not (path / "manifest.json").exists():
        return fresh
    other = kept.state == "done" and kept.settings_hash != pair.settings_hash()
    if other:
        kept = _with(kept, state="changed", reason="done with other settings than the plan has now")
    if (path / "manifest.json").exists():
        try:
            run = Run.open(path)
            asked: Sequence[Prompt] = run.prompts()
            if other and kept.fixed_hash == pair.fixed_hash():
                extent, now = _asked_now(run, pair)
                if extent == "more":
                    kept, asked = _with(kept, state="waiting", reason="the plan asks for more images now"), now
                elif extent == "fewer":
                    kept = _with(kept, reason="the plan asks for fewer images now, and a run does not shrink")
            kept = _with(kept, images=len(run.ids("images")), wanted=sum(p.n_images for p in asked))
        except UsageError as err:  # damaged
            kept = _with(kept, state="failed", reason=str(err))
        except VerismError:  # stopped before its prompts were written
            return kept
    return kept


def _asked_now(run: Run, pair: Pair) -> tuple[str, Sequence[Prompt]]:
    """How the prompts of a pair relate to those of its run (``Run.extent``), and the prompts."""
    try:
        prompts = pair.make_suite().prompts()
    except VerismError:  # a file that is not there any more
        return "other", ()
    return run.extent(prompts), prompts


def kept_statuses(out: Path, record: Mapping[str, Any]) -> list[PairStatus]:
    """What is kept of every pair, as the plan's directory names them. No run is opened, so images are not counted.

    Args:
        out: the plan's directory.
        record: what ``read_rows`` gives.
    """
    names = [(str(pair["model"]), str(pair["column"])) for pair in record["pairs"]]
    fresh = [PairStatus(pair=slug(f"{model}-{suite}"), model=model, suite=suite) for model, suite in names]
    return [_kept(out, status) for status in fresh]


def _kept(out: Path, fresh: PairStatus) -> PairStatus:
    try:
        record = read_json(out / "status" / f"{fresh.pair}.json", "what became of a pair")
        return PairStatus(**{k: v for k, v in record.items() if k in PairStatus.__dataclass_fields__})
    except (UsageError, AttributeError, TypeError):  # damaged or not there: the run itself says what is done
        return fresh


def _with(status: PairStatus, **changes: Any) -> PairStatus:
    return PairStatus(**{**asdict(status), **changes})


@dataclass(frozen=True, kw_only=True)
class PlanStatus:
    """What has become of all pairs.

    Attributes:
        pairs: in the order of the plan.
        counts: number of pairs by state.
    """

    pairs: Sequence[PairStatus]
    counts: Mapping[str, int] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"counts": dict(self.counts), "pairs": [pair.record() for pair in self.pairs]}


def plan_status(plan: Plan, out: Path | str) -> PlanStatus:
    """What has become of every pair of a plan.

    Args:
        plan: the plan.
        out: its directory, also one that does not exist yet.
    """
    pairs = [status_of(location(out), pair) for pair in plan.pairs]
    counts: dict[str, int] = {}
    for pair in pairs:
        counts[pair.state] = counts.get(pair.state, 0) + 1
    return PlanStatus(pairs=pairs, counts=counts)
