"""Goal: the code tour leads to code. Method: each link of it names a file, and what is in there; on
a path of calls, the file of each step names the next step."""

import ast
import re

import pytest

from tests.tidy.source import ROOT

TOUR = ROOT / "docs/explanation/code-tour.md"
LINK = r"\[`(\w+)`\]\s*\(([^)]+\.py)\)"
STEPS = list(dict.fromkeys(re.findall(LINK, TOUR.read_text())))
CALLS = re.findall(f"(?={LINK}" + r"(?: of `\w+`)?\s*→\s*" + f"{LINK})", TOUR.read_text())


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


@pytest.mark.parametrize(
    ("name", "target", "called"),
    [call[:3] for call in CALLS],
    ids=[f"{call[0]}-{call[2]}" for call in CALLS],
)
def test_each_step_of_a_path_names_the_next(name, target, called):
    text = (TOUR.parent / target).read_text()
    uses = re.findall(rf"(?<!def )\b{called}\b", text)
    assert uses, f"{name} in {target} no longer leads to {called}: follow it in {TOUR.name}"


def test_the_tour_answers_the_newcomers_questions():
    text = TOUR.read_text()
    assert len(STEPS) >= 40
    assert len(CALLS) >= 40
    for question in (
        "Where is the ISR shrunk?",
        "Where does the controller shrink an ISR by itself?",
        "Where does acks=all wait?",
        "Where is a configuration key defined?",
        "Where is it checked?",
        "How does a Spark read find its leaders?",
        "How do I add an API?",
        "How does a request get to the controller's decider?",
    ):
        assert f"**{question}**" in text
