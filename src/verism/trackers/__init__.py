"""Experiment trackers: what a scored run says, logged to MLflow, Weights & Biases, TensorBoard, or a tracker of yours.

``evaluate(..., on_scores=...)`` calls functions and trackers with an ``Evaluation`` once the scores are written. The
libraries of trackers are imported when the first one is made.
"""

from verism.trackers.evaluation import Evaluation, SampleImage
from verism.trackers.hooks import OnScores, Tracker, close_trackers, tell_scores

__all__ = ["Evaluation", "OnScores", "SampleImage", "Tracker", "close_trackers", "tell_scores"]
