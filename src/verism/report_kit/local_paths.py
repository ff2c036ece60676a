"""Folders of the machine that a run was made on, taken out of what is published: they hold names of users."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePath

from verism.store import Run

__all__ = ["LocalPaths"]

HIDDEN = "…/"
SHORTEST = 4  # letters of a folder that is looked for as it stands: "/" and "/a" stand in too many texts
ABSOLUTE = re.compile(r"(?<![\w./\\-])(?:file:/{0,2})?(?:~?/|[A-Za-z]:[\\/])(?:[^\s\\/:*?\"'<>|,;()\[\]{}=&]+[\\/])+")


class LocalPaths:
    """Takes absolute folders out of texts, and leaves the names of files.

    >>> LocalPaths().without_folders("images:/home/ann/pictures/list.csv")
    'images:…/list.csv'

    Args:
        folders: known ones, which are found whatever they are called (with spaces, in other alphabets).
    """

    def __init__(self, folders: Iterable[str] = ()) -> None:
        known = {f.rstrip("/\\") for f in folders if _absolute(f) and len(f.rstrip("/\\")) >= SHORTEST}
        found = "|".join(re.escape(f) for f in sorted(known, key=len, reverse=True))
        self._known = re.compile(rf"(?:file:/{{0,2}})?(?:{found})[\\/]") if found else None

    @staticmethod
    def of_runs(runs: Iterable[Run]) -> LocalPaths:
        """Those that runs may speak of: where they lie, where they were made, and the user's own.

        Args:
            runs: the runs.
        """
        folders = {str(Path.cwd()), str(Path.home())}
        for run in runs:
            path = run.path.absolute()
            folders |= {str(path.parent), str(path.resolve().parent)}
            folders |= {str(call.get("folder", "")) for call in run.manifest.calls}
        return LocalPaths(folders)

    def without_folders(self, text: str) -> str:
        """A text with every absolute path shortened to the name of its file or last folder.

        Args:
            text: any.
        """
        shortened = text if self._known is None else self._known.sub(HIDDEN, text)
        return ABSOLUTE.sub(HIDDEN, shortened)

    def without_known(self, text: str) -> str:
        """The same for the known folders alone, where any other text must stay as it is.

        Args:
            text: any.
        """
        return text if self._known is None else self._known.sub(HIDDEN, text)


def _absolute(folder: str) -> bool:
    return bool(folder) and (PurePath(folder).is_absolute() or bool(re.match(r"[A-Za-z]:[\\/]", folder)))
