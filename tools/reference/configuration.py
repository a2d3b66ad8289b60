"""The page of configuration keys, from the tables of `tidelog.config`."""

from collections.abc import Iterable

from tidelog.config.dynamic_properties import DYNAMIC_PROPERTIES
from tidelog.config.group_properties import GROUP_PROPERTIES
from tidelog.config.known_names import KNOWN_NAMES, REMOVED_NAMES, WITHOUT_EFFECT
from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.profiles import TEST_PROFILE
from tidelog.config.property_types import Property, PropertyType
from tidelog.config.resolve import default_text
from tidelog.config.topic_properties import TOPIC_PROPERTIES
from tools.reference.markdown import code, page, section, table

_OWN_PREFIX = "tidelog."
_COLUMNS = ("name", "type", "default", "range", "changes", "meaning")
_INTRODUCTION = """
Names, types, defaults and meanings are Apache Kafka's unless the name begins with `tidelog.`.
A node reads node properties from its file (`tidelog server FILE.properties`) and from `--override`;
`tidelog up` takes them as `--config NAME=VALUE`. *Changes* says whether a property may change while
brokers run (`dynamic`) or only with a restart (`restart`).

An unknown name in the file of a node is ignored, as with Kafka. At each start one line of the
node's log lists them, each with a known name that is like it. An unknown name after `--override` or
`--config` is refused, and so is one that begins with `tidelog.`, and a setting of TLS behind
`listener.name.NAME.`.
"""


def configuration_page() -> str:
    """`docs/reference/configuration.md`."""
    kafka = [prop for name, prop in NODE_PROPERTIES.items() if not name.startswith(_OWN_PREFIX)]
    own = [prop for name, prop in NODE_PROPERTIES.items() if name.startswith(_OWN_PREFIX)]
    return page(
        "Configuration",
        _INTRODUCTION,
        (
            section("Node properties", _node_table(kafka)),
            section("Node properties of Tidelog", _node_table(own)),
            section("Topic properties", _TOPIC_TEXT, _topic_table(TOPIC_PROPERTIES.values())),
            section("Group properties", _GROUP_TEXT, _topic_table(GROUP_PROPERTIES.values())),
            section("Dynamic broker properties", _DYNAMIC_TEXT, _dynamic_table()),
            section("The profile `test`", _PROFILE_TEXT, _pairs(TEST_PROFILE, "value")),
            section("Accepted, but obeyed otherwise", _EFFECT_TEXT, _effects()),
            section("Accepted without effect", _KNOWN_TEXT, _names(KNOWN_NAMES)),
            section("Removed by Kafka 4", _REMOVED_TEXT, _removed()),
        ),
    )


_TOPIC_TEXT = """
A topic's value comes from the first of: the topic's own setting, a dynamic broker value, the node's
file, the default. *Node property* names the properties that give all topics their value.
"""
_GROUP_TEXT = """
A group's own value comes first, within the node's bounds. It is set with `kafka-configs --group
NAME` or any client's IncrementalAlterConfigs.
"""
_DYNAMIC_TEXT = """
These change while brokers run, for one broker or for all of them, with `kafka-configs` or any
client's IncrementalAlterConfigs. The other dynamic properties are in the tables above.
"""
_PROFILE_TEXT = """
`tidelog up --profile test` and `LocalCluster` set these short timers, so that a test sees a dead
node within half a second. Replication factors follow the number of brokers, up to 3.
"""
_EFFECT_TEXT = "A node that starts with one of these logs a warning that says what holds instead."
_KNOWN_TEXT = "A file that was written for Apache Kafka may have these. A node ignores them."
_REMOVED_TEXT = """
Ignored like an unknown name, with this advice. With `zookeeper.metadata.migration.enable=true` a
node refuses to start.
"""


def _node_table(properties: Iterable[Property]) -> str:
    return table(_COLUMNS, (_cells(prop) for prop in properties))


def _topic_table(rows: Iterable[Property]) -> str:
    columns = ("name", "type", "default", "range", "node property", "meaning")
    return table(columns, map(_topic_cells, rows))


def _dynamic_table() -> str:
    listed = {
        *NODE_PROPERTIES,
        *(s.name for row in TOPIC_PROPERTIES.values() for s in row.synonyms),
    }
    others = [prop for name, prop in DYNAMIC_PROPERTIES.items() if name not in listed]
    return table(_COLUMNS, (_cells(prop) for prop in others))


def _cells(prop: Property) -> tuple[str, ...]:
    changes = "dynamic" if prop.name in DYNAMIC_PROPERTIES else "restart"
    return (
        code(prop.name),
        prop.type.name.lower(),
        code(default_text(prop) or ""),
        _range(prop),
        changes,
        prop.doc,
    )


def _topic_cells(prop: Property) -> tuple[str, ...]:
    name, kind, default, allowed, _, meaning = _cells(prop)
    synonyms = ", ".join(code(synonym.name) for synonym in prop.synonyms)
    return name, kind, default, allowed, synonyms, meaning


def _range(prop: Property) -> str:
    """What the check of a property says of a value that no property takes."""
    if prop.check is None:
        return ""
    numbers = (PropertyType.INT, PropertyType.SHORT, PropertyType.LONG, PropertyType.DOUBLE)
    complaint = prop.check(-(2**63) if prop.type in numbers else "?")
    return (complaint or "").removeprefix("must be ").removeprefix("a list of ")


def _pairs(settings: dict[str, str], column: str) -> str:
    return table(("name", column), ((code(name), code(value)) for name, value in settings.items()))


def _effects() -> str:
    rows = ((code(name), instead) for name, instead in sorted(WITHOUT_EFFECT.items()))
    return table(("name", "what holds instead"), rows)


def _names(names: Iterable[str]) -> str:
    return ", ".join(code(name) for name in sorted(names)) + "."


def _removed() -> str:
    rows = ((code(name), advice) for name, advice in sorted(REMOVED_NAMES.items()))
    return table(("name", "what to do"), rows)
