"""Plans: many models on many suites, described in one file and run by one command."""

from verism.plans.execution import Outcome, run_plan
from verism.plans.plan import Pair, Plan
from verism.plans.status import PairStatus, plan_status

__all__ = ["Outcome", "Pair", "PairStatus", "Plan", "plan_status", "run_plan"]
