"""The page of compatibility: APIs beside Apache Kafka's, who tries them, and what differs.

Everything comes from where it is decided: what is served from the declarations of the APIs, what
Kafka serves and what clients send from exchanges that were recorded (`tests/data`), what the
differential run sends from its generator, and the differences from its table.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from tests.differential.generator import DRAWS
from tests.differential.known import KNOWN
from tests.differential.rights.known import KNOWN as KNOWN_OF_RIGHTS
from tests.interop.prepare import KAFKA_VERSION, PYSPARK
from tests.interop.versions import PARTNERS
from tests.wire_corpus import wire_corpus

from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener
from tidelog.broker.held_questions import CATCH_UP_MS, HOLD_MS
from tidelog.config import parse_node_config
from tidelog.config.describe import describe_broker_config
from tidelog.metadata.image import BROKER_RESOURCE
from tidelog.wire.api import ApiKey, VersionRange, parse_header
from tidelog.wire.codec import decode_request, decode_response
from tools.reference.markdown import code, page, section, table

_INTRODUCTION = """
Tidelog beside Apache Kafka 4.3.1: what is served, who tries it, what differs. `make differential`
sends the same requests to one broker of each and compares the answers; `make differential-security`
does it as users with and without rights. `make interop` and `make test` run the
[clients of other projects](reference/clients.md) against Tidelog.
"""
_APIS = """
On a broker's listener. Clients are those whose requests were recorded, and which the tests run
against Tidelog; `differential` is what the generated sequences send. Nothing is listed that neither
of them tries.
"""
_CONTROLLERS = """
On a controller's listener, which brokers, controllers and `kafka-metadata-quorum` use.
"""
_CLIENTS = """
What each recorded client asked for, in which versions of the APIs, and the release that it was.
aiokafka does not say its release. `make test` takes the newest releases of the Python clients that
a package index has. `make interop` takes the tools and the Streams client of Apache Kafka {java},
kcat as Debian has it, and the client of Kafka 3.9.0 that is in the connector of {spark}.
"""
_CONFIGS = """
DescribeConfigs of a broker lists {ours} properties in Tidelog and {kafka} in Kafka, as recorded.
The {left_out} that Tidelog leaves out have no effect here. A node accepts them in its file
([configuration](reference/configuration.md)); a value that a client was shown would promise
something. The {own} that only Tidelog lists are its own, and some that Kafka obeys without a line.
"""
_DIFFERENCES = """
Answers that differ, with the reason. Texts of errors, addresses and times are not compared, and
neither is what each broker lists in ApiVersions, which is the table above.

Every Metadata is held for {hold_ms} ms, and so are DescribeTopicPartitions and other questions
about topics. A client that loses the connection to a leader asks at once who leads now, often
before this broker's own connections to the dead process are reported closed, and an answer that
still names the dead one costs it a second. A broker that has just started holds them until it has
the metadata, for {catch_up_ms} ms at most; Kafka's answers nothing before it is unfenced.

Two of Kafka's tools find nothing. Groups of the streams protocol (KIP-1071) are not served:
`kafka-streams-groups --list` lists none, and its other verbs end with UNSUPPORTED_VERSION.
`kafka-client-metrics --list` lists none, and `--alter` is refused as an invalid request.

Tidelog assigns a consumer group's partitions within the heartbeat. Kafka does it at most once a
second and in a thread of its own (`group.consumer.assignment.interval.ms`). An answer to a consumer
has 2 MiB of records at most, or one batch, however much it asks for, and 512 KiB while more than
eight others wait. A client that writes faster than the in-sync followers of its partitions fetch
waits for them, for three seconds at most after a request and by `throttle_time_ms`, also without
quotas; Kafka takes what it can, and drops the followers from the ISR. The answer to a refused batch
names 1,000 of its records at most. Where a broker has to look into a batch, for a topic with a
codec of its own, with compaction, or for timestamps out of range, the batch may have 200,000
records and inflate to 32 MiB; Kafka has no such bound. A member of a group whose connection ended
is removed before its session ends (`tidelog.group.disconnect.grace.ms`).
"""

_PARTNERS = """
Nodes of these versions of Apache Kafka beside ours, and in their place on the same disks
([mixed clusters](explanation/mixed-clusters.md)). `make interop-versions` tries them. First a
controller with a broker, and a second broker, one of each kind, which then exchange their disks.
Then a broker of each kind under a controller of Kafka and under one of ours: every row has topics
that one kind leads and the other follows, and both ways. All listeners have names of their own, and
the three brokers fetch with different `replica.fetch.*`. Then a cluster that begins one level of
`metadata.version` lower, and quorums whose voters are of both kinds. An empty cell was not tried.
"""

CLIENT_FAMILIES: Final = ("confluent-kafka", "kafka-python", "aiokafka", "java")
"""How the names of recorded clients begin."""

_PLAIN: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "data",
}
"""A node whose properties are at their defaults."""

_WHY_NOT: Final[Mapping[str, str]] = {
    "TELEMETRY": "clients go without; they ask only where it is listed",
    "STREAMS": "the Streams client uses classic groups unless it is configured otherwise",
}
"""Why an API is not served, by a word of its name."""


@cache
def kafka_versions() -> Mapping[int, VersionRange]:
    """What Apache Kafka 4.3.1 lists on a broker's listener."""
    listed: dict[int, VersionRange] = {}
    for exchange in wire_corpus():
        if exchange.api_key == ApiKey.API_VERSIONS and _family(exchange.peer):
            _, answer = decode_response(
                ApiKey.API_VERSIONS, exchange.version, memoryview(exchange.response)
            )
            if len(answer.api_keys) > len(listed):
                listed = {
                    int(row.api_key): VersionRange(int(row.min_version), int(row.max_version))
                    for row in answer.api_keys
                }
    return listed


@cache
def recorded() -> Mapping[tuple[str, int], tuple[int, ...]]:
    """By client family and API, the versions that it sent."""
    found: dict[tuple[str, int], set[int]] = {}
    for exchange in wire_corpus():
        if family := _family(exchange.peer):
            found.setdefault((family, exchange.api_key), set()).add(exchange.version)
    return {key: tuple(sorted(versions)) for key, versions in found.items()}


@cache
def kafka_broker_configs() -> frozenset[str]:
    """The properties of a broker that Apache Kafka 4.3.1 lists."""
    found: set[str] = set()
    for exchange in wire_corpus():
        if exchange.api_key == ApiKey.DESCRIBE_CONFIGS:
            _, answer = decode_response(
                ApiKey.DESCRIBE_CONFIGS, exchange.version, memoryview(exchange.response)
            )
            found.update(
                config.name
                for result in answer.results
                if result.resource_type == BROKER_RESOURCE
                for config in result.configs
            )
    return frozenset(found)


def our_broker_configs() -> frozenset[str]:
    """Those that Tidelog lists."""
    config = parse_node_config(_PLAIN)
    return frozenset(described.name for described in describe_broker_config(config))


def releases(family: str) -> frozenset[str]:
    """What the recorded clients said that they are."""
    found = set()
    for exchange in wire_corpus():
        if exchange.api_key == ApiKey.API_VERSIONS and _family(exchange.peer) == family:
            frame = memoryview(exchange.request)
            header, body = parse_header(frame)
            request = decode_request(header, frame, body)
            if hasattr(request, "client_software_name"):
                name, version = request.client_software_name, request.client_software_version
                found.add(f"{name} {version}")
    return frozenset(found)


def clients_of(key: int) -> list[str]:
    """The recorded clients that send an API."""
    return [family for family in CLIENT_FAMILIES if (family, key) in recorded()]


def _family(peer: str) -> str | None:
    return next((family for family in CLIENT_FAMILIES if peer.startswith(family)), None)


def compatibility_page() -> str:
    """`docs/compat.md`."""
    ours, kafka = APIS.advertised(Listener.BROKER), kafka_versions()
    keys = sorted({*map(int, ours), *kafka})
    rows = [
        (
            str(key),
            _name(key),
            _span(ours.get(ApiKey(key))),
            _span(kafka.get(key)),
            _state(ours.get(ApiKey(key)), kafka.get(key), key),
            ", ".join([*clients_of(key), *(["differential"] if key in DRAWS else [])]),
        )
        for key in keys
    ]
    columns = ("key", "API", "Tidelog", "Kafka", "state", "tried by")
    controllers = [
        (str(int(key)), _name(key), _span(span))
        for key, span in sorted(APIS.advertised(Listener.CONTROLLER).items())
    ]
    return page(
        "Compatibility",
        _INTRODUCTION,
        (
            section("APIs", _APIS.strip(), table(columns, rows)),
            section(
                "Between nodes", _CONTROLLERS.strip(), table(("key", "API", "Tidelog"), controllers)
            ),
            section(
                "Clients",
                _CLIENTS.format(java=KAFKA_VERSION, spark=PYSPARK.replace("==", " ")).strip(),
                *(_client(each) for each in CLIENT_FAMILIES),
            ),
            section("Configurations of a broker", *_configs()),
            section("Partners", _PARTNERS.strip(), _partners()),
            section(
                "Known differences",
                _DIFFERENCES.format(hold_ms=HOLD_MS, catch_up_ms=f"{CATCH_UP_MS:,}").strip(),
                _differences(),
            ),
        ),
    )


def _configs() -> tuple[str, ...]:
    ours, kafka = our_broker_configs(), kafka_broker_configs()
    left_out, own = sorted(kafka - ours), sorted(ours - kafka)
    text = _CONFIGS.format(ours=len(ours), kafka=len(kafka), left_out=len(left_out), own=len(own))
    rows = [("left out", left_out), ("only here", own)]
    return text.strip(), *(f"- {word}: {', '.join(map(code, names))}." for word, names in rows)


def _partners() -> str:
    found = json.loads(PARTNERS.read_text())
    steps = list(dict.fromkeys(name for each in found.values() for name in each["steps"]))
    rows = [(name, *(each["steps"].get(name, "") for each in found.values())) for name in steps]
    lowered = [", ".join(f"`{name}`" for name in each["lowered"]) for each in found.values()]
    return table(("", *found), [*rows, ("features that were lowered", *lowered)])


def _client(family: str) -> str:
    sent = ", ".join(
        f"{_name(key)} {'/'.join(map(str, versions))}"
        for (one, key), versions in sorted(recorded().items())
        if one == family
    )
    release = ", ".join(sorted(releases(family)))
    return f"- **{family}**{release and f' ({release})'}: {sent}."


def _differences() -> str:
    by_text: dict[str, list[str]] = {}
    rows = [(known.api, known.what) for known in KNOWN]
    rows += [(known.api, known.what) for known in KNOWN_OF_RIGHTS]
    for api, what in rows:
        name = "all" if api is None else _name(api)
        apis = by_text.setdefault(what, [])
        if name not in apis:
            apis.append(name)
    return "\n".join(f"- {', '.join(apis)}: {text}" for text, apis in by_text.items())


def _state(ours: VersionRange | None, kafka: VersionRange | None, key: int) -> str:
    if ours is None:
        words = {word: why for words, why in _WHY_NOT.items() for word in words.split()}
        found: Iterable[str] = (why for word, why in words.items() if word in ApiKey(key).name)
        return f"not served: {next(iter(found))}"
    if kafka is None:
        return "served; Kafka does not list it"
    if ours == kafka:
        return "served"
    missing = [
        f"{version}"
        for version in range(kafka.min_version, kafka.max_version + 1)
        if not ours.min_version <= version <= ours.max_version
    ]
    return f"served, without version {', '.join(missing)}" if missing else "served, and more"


def _name(key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def _span(versions: VersionRange | None) -> str:
    if versions is None:
        return ""
    low, high = versions
    return f"{low}" if low == high else f"{low} to {high}"
