"""What tests of commands share."""

import sys
from collections.abc import Callable

import pytest

from verism.cli.main import main


@pytest.fixture
def in_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["verism", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return int(str(code)), *capfd.readouterr()

    return call
