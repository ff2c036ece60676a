"""Commands in this process, for fixtures that outlive a test."""

from __future__ import annotations

from click.testing import CliRunner, Result

from verism.cli.main import cli

__all__ = ["verism"]


def verism(*words: object) -> Result:
    """A command's result; what went wrong other than by its exit code is raised."""
    done = CliRunner().invoke(cli, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done
