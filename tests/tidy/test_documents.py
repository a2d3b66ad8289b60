"""What documents name is true: their commands, paths, names and numbers exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, texts

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
README_LINES = 150
CELL_CHARACTERS = 130
CODE_PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`")
LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#)([^)#\s]+)")
CELL_END = re.compile(r"(?<!\\)\|")
MAKE = re.compile(r"(?:`|^    )make ([a-z][a-z-]*)", re.MULTILINE)


def documents() -> dict[str, str]:
    return {
        path: text
        for path, text in texts().items()
        if path in DOCUMENTS or (path.startswith(("docs/", "examples/")) and path.endswith(".md"))
    }


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_are_there(name):
    assert len(texts()[name]) > 500


def test_the_readme_is_one_sitting():
    assert texts()["README.md"].count("\n") <= README_LINES


def test_table_cells_are_no_longer_than_a_line():
    long = [
        f"{path}:{number}: {cell.strip()[:60]}"
        for path, text in documents().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if line.startswith("|")
        for cell in CELL_END.split(line)
        if len(cell.strip()) > CELL_CHARACTERS
    ]
    assert long == []


def test_every_page_is_in_the_navigation():
    """Of the site; records of decisions and results are reached through their index."""
    pages = {path.removeprefix("docs/") for path in documents() if path.startswith("docs/")}
    listed = set(re.findall(r'"([a-z_-]+(?:/[\w-]+)?\.md)"', texts()["zensical.toml"]))
    indexed = {page for page in pages if re.match(r"(decisions|results)/\d", page)}
    assert pages - indexed == listed
    for page in indexed:
        folder, name = page.split("/")
        assert f"({name})" in texts()[f"docs/{folder}/index.md"], page


def test_make_targets_in_documents_exist():
    makefile = texts()["Makefile"]
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = {(path, target) for path, text in documents().items() for target in MAKE.findall(text)}
    assert {target for path, target in named if path == "README.md"} >= {"demo", "test"}
    assert {(path, target) for path, target in named if target not in targets} == set()


def test_make_help_names_every_target():
    makefile = texts()["Makefile"]
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    shown = set(re.findall(r'@echo "make ([a-z-]+)', makefile))
    assert set(phony.split()) - {"help", "clean"} == shown


def test_files_that_documents_name_exist():
    missing = []
    for path, text in documents().items():
        for named in CODE_PATH.findall(text):
            places = (ROOT / named, ROOT / "src/tidelog" / named, ROOT / "src" / named)
            if not any(place.exists() for place in places):
                missing.append(f"{path}: {named}")
    assert missing == []


def test_links_in_documents_lead_somewhere():
    missing = [
        f"{path}: {target}"
        for path, text in documents().items()
        for target in LINK.findall(text)
        if not (ROOT / Path(path).parent / target).exists()
    ]
    assert missing == []


def python_examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", texts()["README.md"], re.DOTALL)


def test_python_in_the_readme_is_python_and_imports_what_exists():
    assert len(python_examples()) >= 3
    for code in python_examples():
        compile(code, "README.md", "exec")
        for module, names in re.findall(r"^from (tidelog[\w.]*) import (.+)$", code, re.MULTILINE):
            for name in names.split(", "):
                assert hasattr(import_module(module), name), f"{module}.{name}"


def test_the_cluster_of_the_readme_has_what_the_readme_calls():
    from tidelog.testing.local_cluster import LocalCluster

    text = texts()["README.md"]
    used = set(re.findall(r"\bcluster\.([a-z_]+)", "\n".join(python_examples())))
    used |= {name for name in ("pause", "resume", "wait_for_isr", "kill") if f"`{name}`" in text}
    assert {"create_topic", "kill", "wait_for_leader"} <= used
    assert {name for name in used if not hasattr(LocalCluster, name)} == set()


def test_commands_in_the_readme_exist():
    """Every `tidelog <noun>` of the README is a command of the program."""
    from typer.main import get_command

    from tidelog.cli.app import app

    commands = set(getattr(get_command(app), "commands", {}))
    named = set(re.findall(r"(?:`|^)\s*tidelog ([a-z][a-z-]+)", texts()["README.md"], re.MULTILINE))
    assert "up" in named
    assert named <= commands


def test_named_properties_are_asserted_or_checked_somewhere():
    """Every property in ARCHITECTURE's table of names is named in the code."""
    text = texts()["ARCHITECTURE.md"]
    table = text.split("## Properties by name")[1].split("##")[0]
    names = set(re.findall(r"\b((?:[A-Z][a-z]+){2,})\b", table))
    assert len(names) > 15
    code = "\n".join(
        content for path, content in texts().items() if path.startswith(("src/", "tests/"))
    )
    assert sorted(name for name in names if name not in code) == []


def test_decisions_are_numbered_without_gaps():
    files = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    numbers = [int(path.name[:4]) for path in files]
    assert numbers == list(range(1, len(files) + 1))


def test_decisions_have_their_four_parts():
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        text = path.read_text()
        number = path.name[:4]
        assert text.startswith(f"# {number} "), path.name
        for part in ("Context", "Choice", "Refused", "Consequences"):
            assert f"**{part}.**" in text, f"{path.name} has no {part}"
