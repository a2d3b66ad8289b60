"""The page of APIs and versions. `served` is all that knows where they are declared."""

from collections.abc import Mapping

from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener
from tidelog.broker.api.k00_produce import API as PRODUCE
from tidelog.wire.api import ApiKey
from tools.reference.markdown import page, section, table

_FIRST_PRODUCE = PRODUCE.versions.min_version
_INTRODUCTION = f"""
What each listener serves, as ApiVersions answers it. A request in a version outside its range ends
the connection, as in Apache Kafka; only ApiVersions itself answers UNSUPPORTED_VERSION. Produce is
listed from version 0, because librdkafka takes a missing 0 for an old broker (KAFKA-18659);
versions below {_FIRST_PRODUCE} are refused.
"""

_RIGHTS = """
What a principal needs where `authorizer.class.name` is set; "; " joins rights that are all needed.
A right on a topic, group or transactional id is asked for each one that the request, or the answer,
names.

"""


def served() -> Mapping[str, Mapping[ApiKey, tuple[int, int]]]:
    """Versions by listener and API."""
    return {listener.value: APIS.advertised(listener) for listener in Listener}


def apis_page() -> str:
    """`docs/reference/apis.md`."""
    listeners = served()
    keys = sorted({key for apis in listeners.values() for key in apis})
    rows = [
        (str(key.value), _name(key), *(_span(apis.get(key)) for apis in listeners.values()))
        for key in keys
    ]
    columns = ("key", "API", *(f"versions on a {name} listener" for name in listeners))
    missing = [_name(key) for key in ApiKey if key not in keys]
    return page(
        "APIs and versions",
        _INTRODUCTION,
        (
            section("Served", table(columns, rows)),
            section("Rights", _RIGHTS + table(("key", "API", "needs"), _rights())),
            section("Not served", "Apache Kafka 4 has these: " + ", ".join(missing) + "."),
        ),
    )


def _rights() -> list[tuple[str, str, str]]:
    """What each API asks about, in order."""
    rows = []
    for api in APIS:
        needs = [" or ".join(map(str, check.rights)) for check in api.requires if check.rights]
        text = "; ".join(dict.fromkeys(needs)) or "nothing"
        rows.append((str(api.key.value), f"{api.name} ({_where(api.listeners)})", text))
    return rows


def _where(listeners: tuple[Listener, ...]) -> str:
    return ", ".join(listener.value for listener in listeners)


def _name(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


def _span(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return ""
    low, high = versions
    return f"{low}" if low == high else f"{low} to {high}"
