"""Node properties that have an effect here: name, type, range, and the fields they set.

The rows of brokers are in `broker_properties`, those of controllers in `controller_properties`,
those that feed topic configurations in `topic_properties`. The names that Kafka knows and this code
does not use are in `known_names`.
"""

from typing import Final

from tidelog.config.broker_properties import BROKER, COORDINATORS, REPLICATION
from tidelog.config.controller_properties import CONTROLLER, METADATA_LOG, QUORUM
from tidelog.config.property_rows import BOOLEAN, INT, LIST, STRING, row
from tidelog.config.property_types import at_least, between

_IDENTITY: Final = (
    row("node.id", INT, "This node's id in the cluster.", check=at_least(0)),
    row("broker.id", INT, "The old name of `node.id`.", check=at_least(0)),
    row("process.roles", LIST, "What the node is: `broker`, `controller`, or both."),
    row(
        "listeners",
        LIST,
        "What to bind, as NAME://host:port; an empty host is every interface.",
        default="PLAINTEXT://:9092",
    ),
    row("advertised.listeners", LIST, "Where others reach the broker's listeners."),
    row(
        "listener.security.protocol.map",
        STRING,
        "Protocol of each listener name; only PLAINTEXT is supported today.",
    ),
    row("controller.listener.names", LIST, "Listeners that serve the controller's APIs."),
    row(
        "inter.broker.listener.name", STRING, "The listener on which brokers fetch from each other."
    ),
    row(
        "controller.quorum.voters",
        LIST,
        "The controllers, as id@host:port, the same list on every node; fixed for good.",
    ),
    row(
        "controller.quorum.bootstrap.servers",
        LIST,
        "Some controllers, as host:port, where the voter set is kept in the metadata log.",
    ),
    row(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        "Whether a controller that is not a voter asks to become one.",
        "quorum.auto_join_enable",
    ),
    row("log.dirs", LIST, "The data directory."),
    row("log.dir", STRING, "The data directory, where `log.dirs` is not given."),
    row("broker.rack", STRING, "The rack that placement spreads replicas over."),
    row(
        "tidelog.metrics.port",
        INT,
        "Port of the Prometheus endpoint; not given, there is none.",
        check=between(1, 65_535),
    ),
)


_EVENTS: Final = (
    row(
        "tidelog.events.enable",
        BOOLEAN,
        "Whether state changes and sampled figures are kept as JSON lines, for `spark health`.",
        "events.enable",
    ),
    row(
        "tidelog.events.dir",
        STRING,
        "Directory of `events.jsonl`; not given, the data directory.",
        "events.directory",
    ),
    row(
        "tidelog.events.segment.bytes",
        INT,
        "Size at which `events.jsonl` is set aside for a new file.",
        "events.segment_bytes",
        check=at_least(1 << 16),
    ),
    row(
        "tidelog.events.segments",
        INT,
        "Files of events that are kept, the one being written included.",
        "events.segments",
        check=between(1, 1000),
    ),
    row(
        "tidelog.events.topic.enable",
        BOOLEAN,
        "Whether events are produced to the topic `__tidelog_events` as well.",
        "events.topic_enable",
    ),
)


_ROWS: Final = (
    *_IDENTITY,
    *BROKER,
    *CONTROLLER,
    *QUORUM,
    *METADATA_LOG,
    *REPLICATION,
    *COORDINATORS,
    *_EVENTS,
)

NODE_PROPERTIES: Final = {prop.name: prop for prop in _ROWS}
"""Every node property with an effect, except for topic synonyms, by name."""

EXTRA_FIELDS: Final = {
    "min.insync.replicas": ("controller.min_insync_replicas",),
    "unclean.leader.election.enable": ("controller.unclean_leader_election_enable",),
}
"""Topic synonyms that the controller obeys too."""
