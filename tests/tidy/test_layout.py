"""Where things are: tests beside their modules, tables beside their handlers, promises in words."""

import ast
import re
from collections.abc import Mapping

from tests.tidy.covered_by import COVERED_BY, SMALL_LINES
from tests.tidy.ratchet import TESTS_OF_NO_ONE_MODULE, hold
from tests.tidy.source import ROOT, product, suite, texts
from tidelog.broker import router
from tidelog.config import node_properties, topic_properties
from tidelog.config.property_types import Property
from tidelog.wire.api import BROKER_APIS, CONTROLLER_APIS, ApiKey


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

HOT = {ApiKey.PRODUCE, ApiKey.FETCH}


def test_every_api_of_the_broker_listener_has_a_handler():
    handled = HOT | set(router._LOCAL) | set(router._CONTROLLER)
    assert set(BROKER_APIS) <= handled


def test_every_api_of_the_controller_listener_has_a_handler():
    local = {key for key in router._LOCAL if key in CONTROLLER_APIS}
    handled = local | set(router._CONTROLLER) | router._QUORUM | {ApiKey.ENVELOPE}
    assert set(CONTROLLER_APIS) <= handled


def test_every_handler_is_advertised():
    handled = HOT | set(router._LOCAL) | set(router._CONTROLLER) | router._QUORUM
    assert handled <= set(BROKER_APIS) | set(CONTROLLER_APIS)


def test_handler_modules_carry_the_number_of_their_api():
    """`kNN_name.py` handles API NN, whose name it has, and every such file is used."""
    used = set()
    for key, handler in router._LOCAL.items():
        used.add(handler.__module__)
        assert handler.__module__.endswith(f".k{key.value:02}_{key.name.lower()}"), handler
    for key, module in router._CONTROLLER.items():
        used.add(module.__name__)
        assert module.__name__.endswith(f".k{key.value:02}_{key.name.lower()}"), module
    files = {
        f"tidelog.broker.api.{path.stem}"
        for path in (ROOT / "src/tidelog/broker/api").glob("k[0-9]*.py")
    }
    by_hand = {f"tidelog.broker.api.{n}" for n in ("k00_produce", "k01_fetch", "k58_envelope")}
    assert files == used | by_hand


def test_handlers_say_which_versions_they_serve():
    """The ranges in their docstrings are those of the tables."""
    found = []
    for key in {**BROKER_APIS, **CONTROLLER_APIS}:
        path = f"src/tidelog/broker/api/k{key.value:02}_{key.name.lower()}.py"
        text = texts().get(path)
        if text is None:
            continue
        low, high = BROKER_APIS.get(key) or CONTROLLER_APIS[key]
        low = 3 if key is ApiKey.PRODUCE else low
        span = f"{low}-{high}" if low != high else f"{low}"
        introduction = ast.get_docstring(ast.parse(text)) or ""
        if not re.search(rf"\bversions? (?:{re.escape(span)})\b", introduction):
            found.append(f"{path} does not say `version(s) {span}`")
    assert found == []


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
