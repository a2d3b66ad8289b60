"""Runs the command line in this process, as the `tidelog` script would."""

import json
from typing import Any, NamedTuple

import pytest

from tidelog.cli.app import run


class Done(NamedTuple):
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON of the last line on stdout."""
        return json.loads(self.out.strip().splitlines()[-1])


def tidelog(capsys: pytest.CaptureFixture[str], *arguments: object) -> Done:
    """Runs one command line."""
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return Done(code, captured.out, captured.err)
