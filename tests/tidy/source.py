"""The repository's files, read and parsed once for all tidy tests.

Each Python file is parsed, walked once, and kept as the few facts that the tests ask for: half a
million syntax nodes would cost more than all tests together.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

BELOW_RUNTIME = (
    "model.py",
    "errors.py",
    "limits.py",
    "config",
    "env",
    "wire",
    "records",
    "log",
    "kraft",
    "metadata",
    "rsm",
    "controller",
    "groups",
    "shares",
    "sharing",
    "transactions",
    "replication",
    "security",
    "broker",
    "client/core",
    "sim",
)
"""Packages and modules that may not do I/O, read a clock or draw random numbers by themselves."""

_TEXT = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ".ini", ".sh", ".properties", ""}
_PLACES = ("src", "tests", "bench", "docs", "tools", "examples", ".ci", ".github", ".devcontainer")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class FunctionFacts(NamedTuple):
    """One function or method."""

    name: str
    """Qualified: `Class.method`."""
    body_lines: int
    """From the first statement behind the docstring to the end."""
    arguments: int


class Module(NamedTuple):
    """What the tests need of one Python file."""

    path: str
    """Relative to the repository, with forward slashes."""
    docstring: str | None
    functions: tuple[FunctionFacts, ...]
    classes: tuple[str, ...]
    calls: tuple[tuple[str, int], ...]
    """(dotted name, line) of calls whose target is a plain name."""
    imports: tuple[tuple[str, int], ...]
    """(module, line) of every import, wherever it stands."""
    top_level: tuple[str, ...]
    """Names of functions and classes defined at the top."""


@cache
def texts() -> dict[str, str]:
    """Every text file of the repository by its path."""
    # In a second work tree `.git` is a file.
    files = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for place in _PLACES:
        files += [path for path in (ROOT / place).rglob("*") if path.is_file()]
    found = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        generated = "__pycache__" in name or ".egg-info" in name
        if path.suffix in _TEXT and not generated:
            found[name] = path.read_text(errors="replace")
    return dict(sorted(found.items()))


@cache
def all_modules() -> tuple[Module, ...]:
    """Every Python file."""
    return tuple(_facts(path, text) for path, text in texts().items() if path.endswith(".py"))


def product() -> list[Module]:
    """The modules that are installed."""
    return [module for module in all_modules() if module.path.startswith("src/")]


def suite() -> list[Module]:
    """Test files and their helpers."""
    return [module for module in all_modules() if module.path.startswith("tests/")]


def below_runtime() -> list[Module]:
    """The modules that must be free of I/O."""
    places = tuple(
        f"src/tidelog/{place}" if place.endswith(".py") else f"src/tidelog/{place}/"
        for place in BELOW_RUNTIME
    )
    return [module for module in product() if module.path.startswith(places)]


def _facts(path: str, text: str) -> Module:
    tree = ast.parse(text, path)
    functions: list[FunctionFacts] = []
    classes: list[str] = []
    calls: list[tuple[str, int]] = []
    imports: list[tuple[str, int]] = []
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, Function):
            prefix = f"{prefix}{node.name}"
            functions.append(_function(prefix, node))
            prefix += "."
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
            prefix = f"{prefix}{node.name}."
        elif isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name:
                calls.append((name, node.lineno))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports += [(name, node.lineno) for name in _imported(node)]
        pending += [(child, prefix) for child in ast.iter_child_nodes(node)]
    top = [node.name for node in tree.body if isinstance(node, Function | ast.ClassDef)]
    return Module(
        path,
        ast.get_docstring(tree),
        tuple(functions),
        tuple(classes),
        tuple(calls),
        tuple(imports),
        tuple(top),
    )


def _function(name: str, node: Function) -> FunctionFacts:
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
    given = node.args
    return FunctionFacts(name, lines, len(given.posonlyargs + given.args + given.kwonlyargs))


def _dotted(node: ast.AST) -> str:
    """`a.b.c` for names and attributes of names, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.level == 0 and node.module:
        yield node.module
