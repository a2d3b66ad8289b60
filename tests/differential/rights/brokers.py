"""Both brokers, as one principal after the other sees them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.differential.__main__ import CONFIG, KAFKA_CONFIG, have_coordinators
from tests.differential.comparison import error_codes
from tests.differential.rights.cases import (
    ADDRESS,
    ANONYMOUS,
    CLIENTS,
    CONSUMERS,
    OWNED,
    RENEWED,
    ROOT,
    SHARERS,
    TIMEOUT_MS,
    UNKNOWN_TOKEN,
)
from tests.differential.running import PASSING as PASSING_CODES
from tests.differential.sides import CLOSED, Side
from tests.differential.steps import Step
from tests.interop.kafka_node import KafkaNode
from tests.login_cluster import PLAIN_MODULE
from tests.unit.broker.authorization_matrix import ABSENT, INVALID, PRESENT, TOKEN
from tests.unit.broker.rights_table import CONTROLLER, DELEGATION_TOKEN
from tidelog.metadata.acls import AclEntry
from tidelog.testing import LocalCluster
from tidelog.testing.ports import ports_from
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey as K
from tidelog.wire.api import VersionRange

PASSWORD: Final = "s3cret"
READY_S: Final = 60
SETTLED_S: Final = 0.1
STAY_MS: Final = 3_600_000
PASSING: Final = PASSING_CODES | {41}
"""Codes that may pass; 41 is NOT_CONTROLLER."""
MOST_USERS: Final = 3000
"""All that any run needs: users are configured before the versions of the brokers are known."""
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_WITH_MEMBERS: Final = (
    (K.CONSUMER_GROUP_HEARTBEAT, 1, CONSUMERS),
    (K.SHARE_GROUP_HEARTBEAT, 1, SHARERS),
)
_BATCH: Final = 500
_ANY: Final = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter"), 1),
    **dict.fromkeys(("operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
"""Every entry."""


class Broker:
    """One of the two: a connection for each listener, and who has logged in on it."""

    def __init__(self, name: str, ports: dict[str, int]) -> None:
        self.name = name
        self._ports = ports
        self._sides = {each: Side(f"{ADDRESS}:{port}") for each, port in ports.items()}
        # Who has logged in; listeners without a connection are not in it.
        self._users: dict[str, str] = {}
        # Topics and codes of tokens as they are now.
        self.ids = {ABSENT: b"n" * 16, INVALID: b"i" * 16, UNKNOWN_TOKEN: b"code"}
        # The id of the token that entries are about.
        self.token_id = ""

    def again(self) -> "Broker":
        """The same broker by other connections."""
        other = Broker(self.name, self._ports)
        other.ids, other.token_id = self.ids, self.token_id
        return other

    def visit(self, listener: str, user: str) -> Side:
        """The connection of a user; empty for one that does not log in."""
        side = self._sides[listener]
        if self._users.get(listener) != user:
            side.close()
            if user:
                log_in(side, user)
            self._users[listener] = user
        return side

    def ask(self, listener: str, user: str, key: K, version: int, body: dict[str, Any]) -> Any:
        """The answer to a user, or `CLOSED`."""
        answer = self.visit(listener, user).ask(Step(0, 0, int(key), version, body))
        if answer == CLOSED:
            self._users.pop(listener)
        return answer

    def versions(self, listener: str) -> dict[int, VersionRange]:
        """What the broker says that it serves."""
        return self.visit(listener, ROOT).versions()

    def root(self, key: K, version: int, *, listener: str = CLIENTS, **body: Any) -> Any:
        """The answer to the super user, who must get one; an idle connection may have been
        closed."""
        answer = self.ask(listener, ROOT, key, version, body)
        if answer == CLOSED:
            answer = self.ask(listener, ROOT, key, version, body)
        assert answer != CLOSED, (self.name, key, body)
        return answer

    def close(self) -> None:
        """Ends the connections."""
        for side in self._sides.values():
            side.close()

    def have_what_is_asked_about(self) -> None:
        """The topic and the group that are there."""
        row = {"name": PRESENT, "num_partitions": 1, "replication_factor": 1}
        row |= {"assignments": (), "configs": ()}
        more = {"timeout": TIMEOUT_MS, "validate_only": False}
        (made,) = self.root(K.CREATE_TOPICS, 7, topics=(row,), **more)["topics"]

        def is_known() -> bool:
            # For a moment the broker may still show a topic that was deleted.
            shown = self._topic()
            is_new = made["error_code"] != 0 or shown["topic_id"] == made["topic_id"]
            return shown["error_code"] == 0 and is_new

        wait_until(is_known, READY_S, "the topic")
        self.ids[PRESENT] = self._topic()["topic_id"]
        row = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
        topic = {"name": PRESENT, "partitions": (row,)}
        who = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}

        def is_committed() -> bool:
            answer = self.root(K.OFFSET_COMMIT, 5, **who, topics=(topic,))
            return not error_codes(answer) & PASSING

        wait_until(is_committed, READY_S, "the group")
        for key, version, name in _WITH_MEMBERS:
            wait_until(lambda key=key, v=version, n=name: self._joins(key, v, n), READY_S, name)
        if OWNED not in self.ids:
            self._have_token(OWNED)
            self.have_renewed()

    def have_renewed(self) -> None:
        """A new token that the super user may renew and end: the one before may be shown for a
        moment after its end."""
        self._have_token(RENEWED, {"principal_type": "User", "principal_name": ROOT})

    def _have_token(self, name: str, *renewers: dict[str, str]) -> None:
        """A new token of the user `owner`."""
        owner = {"owner_principal_type": "User", "owner_principal_name": "owner"}
        more = {**owner, "renewers": renewers, "max_lifetime": -1}
        made = self.root(K.CREATE_DELEGATION_TOKEN, 3, **more)
        assert not error_codes(made) - {0}, made
        self.ids[name] = made["hmac"]
        if name == OWNED:
            self.token_id = made["token_id"]
        wait_until(lambda: made["hmac"] in self._codes(), READY_S, "a token")

    def _codes(self) -> set[bytes]:
        """Of all tokens that it shows."""
        answer = self.root(K.DESCRIBE_DELEGATION_TOKEN, 3, owners=None)
        return {row["hmac"] for row in answer["tokens"]}

    def _joins(self, key: K, version: int, group: str) -> bool:
        """The group's one member joins, again if need be; whether it has the topic as it is now."""
        who = {"group_id": group, "member_id": MEMBER, "member_epoch": 0, "rack_id": None}
        who |= {"subscribed_topic_names": (PRESENT,), "rebalance_timeout": TIMEOUT_MS}
        who |= dict.fromkeys(("instance_id", "subscribed_topic_regex", "server_assignor"))
        answer = self.root(key, version, **who, topic_partitions=())
        rows = answer["assignment"] and answer["assignment"]["topic_partitions"]
        return bool(rows) and rows[0]["topic_id"] == self.ids[PRESENT]

    def _topic(self) -> Any:
        asked = {"name": PRESENT, "topic_id": bytes(16)}
        answer = self.root(
            *(K.METADATA, 12),
            topics=(asked,),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        return answer["topics"][0]

    def add(self, entries: Sequence[AclEntry]) -> None:
        """Adds entries, and waits until broker and controller decide by them."""
        before = self._counts(entries)
        for start in range(0, len(entries), _BATCH):
            rows = tuple(
                {**entry._asdict(), "resource_pattern_type": entry.pattern_type}
                for entry in map(self._named_here, entries[start : start + _BATCH])
            )
            answer = self.root(K.CREATE_ACLS, 3, creations=rows)
            refused = [each for each in answer["results"] if each["error_code"] != 0]
            assert not refused, refused[:3]
        self._await(entries, [count + len(entries) for count in before])

    def remove(self, entries: Sequence[AclEntry]) -> None:
        """Removes them again."""
        before = self._counts(entries)
        filters = tuple(
            {
                "resource_type_filter": entry.resource_type,
                "resource_name_filter": entry.resource_name,
                "pattern_type_filter": entry.pattern_type,
                "principal_filter": entry.principal,
                "host_filter": entry.host,
                "operation": entry.operation,
                "permission_type": entry.permission_type,
            }
            for entry in map(self._named_here, entries)
        )
        self.root(K.DELETE_ACLS, 3, filters=filters)
        self._await(entries, [count - len(entries) for count in before])

    def _named_here(self, entry: AclEntry) -> AclEntry:
        """The entry with the id of this broker's token, or what that begins with."""
        if entry.resource_type != DELEGATION_TOKEN or entry.resource_name == "*":
            return entry
        length = None if entry.resource_name == TOKEN else len(entry.resource_name)
        return entry._replace(resource_name=self.token_id[:length])

    def _await(self, entries: Sequence[AclEntry], counts: list[int]) -> None:
        wait_until(lambda: self._counts(entries) == counts, READY_S, f"entries of {self.name}")

    def _counts(self, entries: Sequence[AclEntry]) -> list[int]:
        """How many entries decide, on each listener: all of them, or those of the one principal
        that these are for."""
        principals = {entry.principal for entry in entries}
        asked = _ANY | {"principal_filter": principals.pop() if len(principals) == 1 else None}
        answers = [
            self.root(K.DESCRIBE_ACLS, 3, listener=listener, **asked)
            for listener in (CLIENTS, CONTROLLER)
        ]
        return [sum(len(each["acls"]) for each in answer["resources"]) for answer in answers]


def log_in(side: Side, user: str) -> None:
    """Logs in on a new connection, by PLAIN."""
    side.ask(Step(0, 0, int(K.SASL_HANDSHAKE), 1, {"mechanism": "PLAIN"}))
    message = f"\0{user}\0{PASSWORD}".encode()
    answer = side.ask(Step(0, 0, int(K.SASL_AUTHENTICATE), 1, {"auth_bytes": message}))
    assert answer != CLOSED and answer["error_code"] == 0, (user, answer)


@contextmanager
def both_brokers(base_port: int, more: dict[str, str]) -> Iterator[tuple[Broker, Broker]]:
    """One broker of each kind with this beside the usual configuration; users log in by PLAIN."""
    theirs, ours = _ports(base_port), _ports(base_port + 1 if base_port else 0)
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="rights-")))
        start(stack, place, theirs, ours, more)
        brokers = Broker("Kafka", theirs), Broker("Tidelog", ours)
        for broker in brokers:
            stack.callback(broker.close)
            have_coordinators(broker.visit(CLIENTS, ROOT))
            broker.have_what_is_asked_about()
        yield brokers


def _ports(base_port: int) -> dict[str, int]:
    ((broker, controller, peer),) = ports_from(base_port, 1)
    return {ANONYMOUS: broker, CONTROLLER: controller, CLIENTS: peer}


def start(
    stack: ExitStack,
    place: Path,
    theirs: dict[str, int],
    ours: dict[str, int],
    more: dict[str, str],
) -> None:
    """Starts both."""
    config = {**CONFIG, **_properties(theirs), **KAFKA_CONFIG, **more}
    lines = "".join(f"{name}={value}\n" for name, value in config.items())
    stack.enter_context(KafkaNode(place, lines, (theirs[CLIENTS], theirs[CONTROLLER])))
    config = {**CONFIG, **_properties(ours), **more}
    base = ours[ANONYMOUS]
    stack.enter_context(
        LocalCluster(1, base_port=base, profile="default", config=config, data_dir=place / "ours")
    )


def _properties(ports: dict[str, int]) -> dict[str, str]:
    users = [ROOT, *(f"u{number}" for number in range(MOST_USERS))]
    names = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    jaas = f'{PLAIN_MODULE} username="{ROOT}" password="{PASSWORD}" {names};'
    advertised = [f"{name}://{ADDRESS}:{ports[name]}" for name in (ANONYMOUS, CLIENTS)]
    return {
        "listeners": ",".join([*advertised, f"{CONTROLLER}://{ADDRESS}:{ports[CONTROLLER]}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": (
            f"{ANONYMOUS}:PLAINTEXT,{CLIENTS}:SASL_PLAINTEXT,{CONTROLLER}:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": CLIENTS,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "super.users": f"User:{ROOT}",
        "delegation.token.secret.key": "the key of all nodes",
        # Members that send no heartbeats stay.
        **dict.fromkeys(
            (
                *("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
                *("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
            ),
            str(STAY_MS),
        ),
    }


def settle() -> None:
    """What both have been sent is in force a moment later in all parts of Apache Kafka."""
    time.sleep(SETTLED_S)
