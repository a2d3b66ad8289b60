"""The script runner itself: it must notice a wrong answer, or every script would be green."""

from pathlib import Path

import pytest

from tests.scripts.runner import Command, parse_blocks, parse_command, run_script

SCRIPT = """\
# A comment of its own.

# Says a word.
say hello times=2
----
hello
hello

quiet
----
"""


def interpret(command: Command) -> list[str]:
    """`say WORD times=N` and `quiet`."""
    command.check_options("times")
    if command.name == "say":
        return [command.word()] * command.number("times", 1)
    return []


def test_a_right_script_passes(tmp_path: Path) -> None:
    """All answers as written."""
    path = tmp_path / "right.txt"
    path.write_text(SCRIPT)
    run_script(path, interpret, rewrite=False)


def test_a_wrong_answer_fails_with_both_texts(tmp_path: Path) -> None:
    """Expected and got are shown with the line."""
    path = tmp_path / "wrong.txt"
    path.write_text(SCRIPT.replace("hello\nhello", "hello\nbye"))
    with pytest.raises(
        AssertionError, match=r"wrong.txt:4: say hello times=2\nexpected:\n  hello\n  bye"
    ):
        run_script(path, interpret, rewrite=False)


def test_rewriting_puts_the_answers_in_and_keeps_the_rest(tmp_path: Path) -> None:
    """A script with empty answers becomes the right one."""
    path = tmp_path / "new.txt"
    path.write_text(SCRIPT.replace("hello\nhello\n", "stale\n"))
    run_script(path, interpret, rewrite=True)
    assert path.read_text() == SCRIPT


def test_an_unknown_option_fails() -> None:
    """A misspelt option would otherwise test something else."""
    with pytest.raises(AssertionError, match="does not know"):
        interpret(parse_command("say hello time=2", "here"))


def test_quotes_keep_blanks_together() -> None:
    """As in a shell."""
    assert parse_command("say 'good day' as='a word'", "here") == Command(
        "say", ("good day",), {"as": "a word"}, "here"
    )


def test_a_block_has_one_command() -> None:
    """The second one would never be checked."""
    with pytest.raises(AssertionError, match="one command a block"):
        parse_blocks("first\nsecond\n")
