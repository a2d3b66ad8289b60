"""The page of the command line, from the commands themselves.

Typer brings a copy of Click or uses the one that is installed, by its release, so parameters are
looked at by what they have and not by their class.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from typer.main import get_command

from tools.reference.markdown import code, page, section, table

_INTRODUCTION = """
Every command explains itself with `--help`. A command that reports prints a table on a terminal and
one line of JSON with `--output json`. `--debug` may stand anywhere and shows stack traces.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the answer is bad (records were lost, the cluster is unhealthy), or the work failed |
| 2 | wrong use: nothing was done, the message ends with a hint |
| 130 | interrupted, by Ctrl-C, SIGTERM or a closed terminal |
"""


def commands_page() -> str:
    """`docs/reference/command-line.md`."""
    from tidelog.cli.app import app
    from tidelog.cli.demo import app as demo

    # The demo imports Spark, so the program looks its options up when it is asked for.
    lazy: dict[str, Any] = {"demo": get_command(demo)}
    found = [
        _command(f"tidelog {' '.join(path)}", lazy.get(path[0], command))
        for path, command in _leaves(get_command(app), ())
    ]
    return page("Command line", _INTRODUCTION, found)


def _leaves(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _command(name: str, command: Any) -> str:
    text = " ".join((command.help or "").split())
    example = " ".join((command.epilog or "").removeprefix("Example: ").split())
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    rows = [(code(_placeholder(each)), "", each.help) for each in arguments if each.help]
    rows += [
        (_names(each), _default(each), _meaning(each))
        for each in options
        if not each.hidden and "--help" not in each.opts
    ]
    title = " ".join([name, *map(_placeholder, arguments)])
    shown = f"    {example}" if example else ""
    return section(title, text, shown, table(("option", "default", "meaning"), rows))


def _placeholder(param: Any) -> str:
    name = (param.metavar or param.name or "").strip("[].").upper()
    name = f"{name}…" if param.nargs == -1 else name
    return name if param.required else f"[{name}]"


def _names(param: Any) -> str:
    return ", ".join(code(name) for name in (*param.opts, *param.secondary_opts))


def _meaning(param: Any) -> str:
    kind = type(param.default)
    choices = [str(each.value) for each in kind] if issubclass(kind, Enum) else []
    listed = f"({' or '.join(map(code, choices))})" if choices else ""
    return f"{(param.help or '').strip()} {listed}".strip()


def _default(param: Any) -> str:
    if param.required:
        return "required"
    default = getattr(param.default, "value", param.default)
    if default is None or callable(default) or default in ((), [], "", False):
        return ""
    return code("on" if default is True else str(default))
