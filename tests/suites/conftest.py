"""Fixtures that tests of reports share."""

from __future__ import annotations

from report_runs import built, geography_run, geography_runs, make_run, measured_run

__all__ = ["built", "geography_run", "geography_runs", "make_run", "measured_run"]
