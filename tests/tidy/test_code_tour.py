"""Goal: the code tour leads to code. Method: each link of it names a file, and what is in there."""

import ast
import re

import pytest

from tests.tidy.source import ROOT

TOUR = ROOT / "docs/explanation/code-tour.md"
STEPS = re.findall(r"\[`(\w+)`\]\s*\(([^)]+\.py)\)", TOUR.read_text())


def defined(path) -> set[str]:
    """The functions, methods, classes and constants of a module."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize(("name", "target"), STEPS, ids=[name for name, _ in STEPS])
def test_the_tour_leads_to_what_it_names(name, target):
    path = (TOUR.parent / target).resolve()
    assert path.exists(), f"{name} has moved from {target}: follow it in {TOUR.name}"
    assert name in defined(path), f"{name} has moved from {target}: follow it in {TOUR.name}"


def test_the_tour_answers_the_newcomers_questions():
    text = TOUR.read_text()
    assert len(STEPS) >= 10
    for question in (
        "Where is the ISR shrunk?",
        "Where does acks=all wait?",
        "Where is a configuration key defined?",
        "Where is it checked?",
        "How does a Spark read find its leaders?",
        "How do I add an API?",
    ):
        assert f"**{question}**" in text
