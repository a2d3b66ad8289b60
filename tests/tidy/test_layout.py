"""Where things are: tests beside their modules, tables beside their handlers, promises in words."""

import ast
import re
from collections.abc import Mapping
from importlib import import_module

from tests.tidy.covered_by import COVERED_BY, SMALL_LINES
from tests.tidy.ratchet import TESTS_OF_NO_ONE_MODULE, hold
from tests.tidy.source import ROOT, product, suite, texts
from tidelog.broker.api.catalogue import APIS
from tidelog.config import node_properties, topic_properties
from tidelog.config.property_types import Property


def test_unit_tests_stand_where_their_modules_stand():
    found = []
    for module in suite():
        place = module.path.removeprefix("tests/unit/")
        folder, _, name = place.rpartition("/")
        if place == module.path or not name.startswith("test_"):
            continue
        if not (ROOT / "src/tidelog" / folder / name.removeprefix("test_")).exists():
            found.append(place)
    hold(found, TESTS_OF_NO_ONE_MODULE, "unit tests of modules that do not exist")


def test_every_module_has_a_test():
    """Its own, or the one that `covered_by.py` names for it."""
    found = []
    for module in product():
        path = module.path.removeprefix("src/").removeprefix("tidelog/")
        folder, _, name = path.rpartition("/")
        own = ROOT / "tests/unit" / folder / f"test_{name}"
        is_small = texts()[module.path].count("\n") <= SMALL_LINES
        if not (own.exists() or is_small or name == "__init__.py"):
            found.append(path)
    hold(found, COVERED_BY, "modules without a test")
    missing = {test for test in COVERED_BY.values() if test not in texts()}
    assert not missing, "tests that cover a module and do not exist"


# APIs --------------------------------------------------------------------------------------


def test_apis_are_declared_in_files_that_carry_their_number():
    """`kNN_name.py` declares API NN, and every such file is in the catalogue."""
    declared = {api: api.key for api in APIS}
    files = sorted((ROOT / "src/tidelog/broker/api").glob("k[0-9]*.py"))
    found = []
    for path in files:
        module = import_module(f"tidelog.broker.api.{path.stem}")
        key = declared.get(module.API)
        words = "" if key is None else key.name.lower()
        if key is None or path.stem not in (f"k{key:02d}_{words}", f"k{key:02d}_quorum_{words}"):
            found.append(path.stem)
    assert found == []
    assert len(files) == len(declared)


def test_apis_say_which_versions_they_serve():
    """The ranges in their docstrings are those of the declarations."""
    found = []
    for api in APIS:
        low, high = api.versions
        span = f"{low}-{high}" if low != high else f"{low}"
        if not re.search(rf"\bversions? (?:{re.escape(span)})\b", api.doc):
            found.append(f"{api.name} does not say `version(s) {span}`")
    assert found == []


def test_api_keys_are_named():
    """No number stands where a key is meant."""
    numbers = re.compile(r"(?:re(?:quest|sponse)_(?:class|schema)|decode_response|ApiKey)\(\s*\d")
    assert [
        path for path, text in texts().items() if path.startswith("src/") and numbers.search(text)
    ] == []


# Bounds and names --------------------------------------------------------------------------


def test_every_limit_says_what_happens_at_it():
    found = []
    body = ast.parse(texts()["src/tidelog/limits.py"]).body
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign):
            continue
        assert isinstance(node.target, ast.Name)
        following = body[index + 1] if index + 1 < len(body) else None
        documented = (
            isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
            and len(following.value.value) > 40
        )
        if not documented:
            found.append(node.target.id)
    assert found == []


def test_every_limit_is_used():
    limits = texts()["src/tidelog/limits.py"]
    names = re.findall(r"^([A-Z][A-Z0-9_]+): Final", limits, re.MULTILINE)
    sources = [
        text
        for path, text in texts().items()
        if path.startswith("src/") and path != "src/tidelog/limits.py"
    ]
    assert len(names) > 10
    assert [name for name in names if not any(name in text for text in sources)] == []


def properties() -> list[Property]:
    """The rows of both tables of properties that have an effect."""
    rows: list[Property] = []
    for table in (node_properties, topic_properties):
        for group in vars(table).values():
            if isinstance(group, Mapping):
                group = tuple(group.values())
            if isinstance(group, tuple):
                rows += [row for row in group if isinstance(row, Property)]
    return rows


def test_every_property_is_documented():
    rows = properties()
    assert len(rows) > 60
    for row in rows:
        assert len(row.doc) > 10, row.name
        assert row.doc.endswith("."), row.name


def test_our_own_properties_are_marked_as_ours():
    """Every name that Kafka does not know begins with `tidelog.`; here: they are all described."""
    ours = {row.name for row in properties() if row.name.startswith("tidelog.")}
    assert "tidelog.broker.disconnect.grace.ms" in ours
