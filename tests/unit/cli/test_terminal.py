"""Goal: stdout carries the answer, and nothing else, whatever it is connected to."""

import json
from dataclasses import dataclass

import pytest

from tidelog.cli.terminal import (
    counted,
    ids,
    offset,
    plain,
    print_error,
    print_json,
    print_table,
    progress,
)


@dataclass(frozen=True)
class Pair:
    """Something to print."""

    left: int
    right: tuple[int, ...]


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(plain([Pair(1, (2, 3))]))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == [{"left": 1, "right": [2, 3]}]
    assert plain(Pair) is Pair


def test_a_table_has_its_cells_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("[bold]title", ("name", "n"), [("[red]a", 1), ("b", 22)])
    out = capsys.readouterr().out
    assert "[bold]title" in out
    assert "[red]a" in out
    assert "\x1b" not in out


def test_errors_and_progress_keep_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("starting"):
        print_error("what", "do this")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: what\nhint: do this\n"


def test_one_is_not_many() -> None:
    assert counted(1, "file") == "1 file" and counted(0, "file") == "0 files"
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(2_000, "batch", "batches") == "2,000 batches"


def test_ids_and_offsets() -> None:
    assert (ids((1, 2)), ids(())) == ("1,2", "-")
    assert (offset(5), offset(-1)) == ("5", "?")
