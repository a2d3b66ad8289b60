"""Runs golden scripts: text files with commands and everything that each one causes.

A script is a sequence of blocks, one empty line between two of them:

    # Comment lines say what happens and why it must.
    produce 1 topic=orders acks=all
    ----
    b1 orders-0 on_produce: appended base_offset=0

    tick
    ----

A command is a name, words, and `key=value` options; words with blanks are quoted as in a shell.
Below the divider stands everything the command caused, one line each; nothing if it caused nothing.
No line of an answer is empty, because the empty line ends the block.

An interpreter is any `Callable[[Command], Iterable[str]]`. A new one is made for each script, so
scripts share nothing:

    @pytest.mark.parametrize("script", scripts_beside(__file__), ids=script_name)
    def test_script(script: Path, rewrite_scripts: bool) -> None:
        run_script(script, Interpreter().run, rewrite=rewrite_scripts)

`pytest tests/scripts --rewrite` writes the answers it got into the files; review the diff: the
script is the specification, and a changed line is a changed behaviour.

When an answer is wrong the whole block is shown, expected and got, with its line number.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

DIVIDER = "----"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a script, parsed."""

    name: str
    words: tuple[str, ...]
    """The words after the name that are no options."""
    options: dict[str, str]
    """`key=value` words."""
    where: str
    """File and line, for messages."""

    def word(self, index: int = 0) -> str:
        """The word at `index`; a script without it is wrong."""
        assert index < len(self.words), f"{self.where}: `{self.name}` needs {index + 1} words"
        return self.words[index]

    def number(self, key: str, default: int | None = None) -> int:
        """The integer option `key`."""
        if key not in self.options:
            assert default is not None, f"{self.where}: `{self.name}` needs {key}=NUMBER"
            return default
        return int(self.options[key])

    def text(self, key: str, default: str | None = None) -> str:
        """The text option `key`."""
        if key not in self.options:
            assert default is not None, f"{self.where}: `{self.name}` needs {key}=TEXT"
            return default
        return self.options[key]

    def check_options(self, *known: str) -> None:
        """Fails on an option that the interpreter would overlook: a typo must not pass."""
        unknown = sorted(set(self.options) - set(known))
        assert not unknown, f"{self.where}: `{self.name}` does not know {unknown}"


@dataclass(slots=True)
class Block:
    """Comments, at most one command, and its answer."""

    line: int
    comments: list[str] = field(default_factory=list)
    command: str | None = None
    expected: list[str] = field(default_factory=list)

    def text(self, answer: Iterable[str]) -> str:
        """The block as it stands in the file, with this answer."""
        lines = list(self.comments)
        if self.command is not None:
            lines += [self.command, DIVIDER, *answer]
        return "\n".join(lines)


def parse_command(line: str, where: str) -> Command:
    """Splits a command line; quotes work as in a shell."""
    name, *rest = shlex.split(line)
    words = tuple(word for word in rest if "=" not in word)
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    return Command(name, words, options, where)


def parse_blocks(text: str) -> list[Block]:
    """The blocks of a script."""
    blocks: list[Block] = []
    block: Block | None = None
    divided = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            block, divided = None, False
            continue
        if block is None:
            block = Block(number)
            blocks.append(block)
        if divided:
            block.expected.append(line)
        elif line.startswith("#"):
            assert block.command is None, f"line {number}: comments stand above the command"
            block.comments.append(line)
        elif line == DIVIDER:
            assert block.command is not None, f"line {number}: a divider without a command"
            divided = True
        else:
            assert block.command is None, f"line {number}: one command a block"
            block.command = line
    return blocks


def run_script(path: Path, run: Callable[[Command], Iterable[str]], *, rewrite: bool) -> None:
    """Runs a script; fails at the first wrong answer, or writes all answers when rewriting."""
    blocks = parse_blocks(path.read_text())
    assert any(block.command for block in blocks), f"{path.name} has no command"
    rewritten = []
    for block in blocks:
        answer: list[str] = []
        if block.command is not None:
            where = f"{path.name}:{block.line + len(block.comments)}"
            answer = [line.rstrip() for line in run(parse_command(block.command, where))]
            assert all(answer), f"{where}: an empty line in an answer would end its block"
            if not rewrite:
                assert answer == block.expected, _difference(where, block, answer)
        rewritten.append(block.text(answer))
    if rewrite:
        path.write_text("\n\n".join(rewritten) + "\n")


def scripts_beside(test_file: str) -> list[Path]:
    """The scripts in the folder of the test file that runs them, in the order of their names."""
    scripts = sorted(Path(test_file).parent.glob("*.txt"))
    assert scripts, f"no scripts beside {test_file}"
    return scripts


def script_name(path: Path) -> str:
    """A test id: the sentence that is the file's name."""
    return path.stem


def _difference(where: str, block: Block, answer: list[str]) -> str:
    expected = "\n".join(f"  {line}" for line in block.expected)
    got = "\n".join(f"  {line}" for line in answer)
    return f"{where}: {block.command}\nexpected:\n{expected}\ngot:\n{got}"
