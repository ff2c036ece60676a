"""Who is told of scores: functions and trackers. A tracker that fails costs neither the run nor its scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from verism.trackers.evaluation import Evaluation, redact

__all__ = ["OnScores", "Tracker", "close_trackers", "hooks_of", "tell_scores"]


@runtime_checkable
class Tracker(Protocol):
    """Logs evaluations. It may also have ``close()``, called when no more will come.

    Attributes:
        name: what messages call it; without credentials.
    """

    name: str

    def log(self, evaluation: Evaluation) -> None:
        """Log an evaluation; whatever it raises becomes a line of text.

        Args:
            evaluation: a scored run.
        """


OnScores = Callable[[Evaluation], None] | Tracker


def hooks_of(on_scores: OnScores | Sequence[OnScores] | None) -> tuple[OnScores, ...]:
    """One hook, several or none, as several.

    Args:
        on_scores: as a caller gave it.
    """
    if on_scores is None:
        return ()
    if callable(on_scores) or isinstance(on_scores, Tracker):
        return (on_scores,)
    return tuple(on_scores)


def tell_scores(hooks: Sequence[OnScores], evaluation: Evaluation, tell: Callable[[str], None]) -> int:
    """Tell functions and trackers of scores that are written.

    What a function raises is the caller's own and goes to the caller. A tracker that fails is told in a line, and the
    others still log.

    Args:
        hooks: functions and trackers.
        evaluation: what they are told.
        tell: called with a line for each tracker that failed.

    Returns:
        Number of trackers that failed.
    """
    failed = 0
    for hook in hooks:
        if not isinstance(hook, Tracker):
            hook(evaluation)
            continue
        try:
            hook.log(evaluation)
        except Exception as err:  # of any kind: servers, disks, libraries of others
            failed += 1
            tell(
                f"not logged to {hook.name}: {_words(err)}. The scores are in {evaluation.run.path}; log them with: "
                f"verism score {evaluation.run.path} --track ..."
            )
    return failed


def close_trackers(hooks: Iterable[OnScores], tell: Callable[[str], None]) -> None:
    """Close those that can be closed; one that fails is told in a line.

    Args:
        hooks: functions and trackers.
        tell: called with a line for each that failed.
    """
    for hook in hooks:
        if isinstance(hook, Tracker):
            try:
                getattr(hook, "close", lambda: None)()
            except Exception as err:
                tell(f"{hook.name} could not be closed: {_words(err)}")


def _words(err: Exception) -> str:
    return redact(f"{type(err).__name__}: {err}", 300).rstrip(".")
