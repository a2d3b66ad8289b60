"""Secrets are compared by `hmac.compare_digest` alone, which takes the same time wherever they
differ: a client that measures answers learns nothing of a secret."""

import ast
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

PLACES = ("src/tidelog/security", "src/tidelog/metadata", "src/tidelog/controller")
SECRETS = {
    *("password", "proof", "proved", "signature", "_expected", "expected", "digest", "digests"),
    *("_digest", "_digests", "hmac", "stored_key", "server_key", "client_key", "salted"),
    *("code", "code_of", "reveal", "salt_password", "token_secret", "secret", "_password"),
}
"""Names of values, and of what makes them."""
KEPT = {"code"}
"""A token's HMAC where tokens are found, and an error elsewhere: only that module is looked at."""


def named(node: ast.expr) -> str:
    """The last name of a value, or of the function whose result it is."""
    match node:
        case ast.Call(func=function):
            return named(function)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(value=value):
            return named(value)
        case _:
            return ""


def compared(tree: ast.AST, secrets: set[str]) -> list[str]:
    """Comparisons of secrets by what may end early."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops):
            continue
        if any(named(side) in secrets for side in (node.left, *node.comparators)):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def secrets_in(path: Path) -> set[str]:
    """Which names are secrets in a module."""
    return SECRETS if path.name == "delegation_tokens.py" else SECRETS - KEPT


def test_secrets_are_compared_in_constant_time():
    paths = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    assert len(paths) > 20
    found = {
        str(path.relative_to(ROOT)): here
        for path in paths
        if (here := compared(ast.parse(path.read_text()), secrets_in(path)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    ["proved == credential.stored_key", "code_of(k, t) != code", "password.reveal() in known"],
)
def test_another_comparison_is_found(text):
    assert compared(ast.parse(text), SECRETS)


def test_the_right_one_is_not():
    assert not compared(ast.parse("hmac.compare_digest(proved, stored_key)"), SECRETS)
    assert not compared(ast.parse("len(proof) == len(signature)"), SECRETS)
