"""Every request that a broker forwards, sent to one broker of either kind, under each controller.

The brokers have logins and Kafka's authorizer; the controller's listener has none, and what comes
over it may do everything. So what a user may do is decided by the principal and the address that
the envelope names, and by nothing else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.items import BOTH_WAYS, Trio
from tests.interop.mixed import NOT_SERVED
from tests.interop.records import WAIT_S
from tests.login_cluster import PLAIN_MODULE, properties
from tidelog.client import AdminClient, AdminError, ClientSecurity
from tidelog.client.acls import Acl, AclQuery
from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import Call
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.metadata.scram_keys import salt_password
from tidelog.model import Mechanism
from tidelog.testing.waiting import wait_until
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis

SECRETS: Final = {"node": "node-s3cret", "admin": "admin-s3cret", "alice": "alice-s3cret"}
USERS: Final = " ".join(f'user_{name}="{secret}"' for name, secret in SECRETS.items())
LOGINS: Final = f"""\
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.broker.plain.sasl.jaas.config={PLAIN_MODULE} username="node" password="node-s3cret" \
{USERS};
listener.name.broker.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:admin;User:ANONYMOUS
delegation.token.secret.key=the-same-on-all
"""
NEWEST: Final = {
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.UPDATE_FEATURES: 2,
}
"""Requests that our client does not have otherwise, and their newest versions."""

TOPIC_RESOURCE: Final = 2
PREFERRED: Final = 0
UPGRADE, DOWNGRADE = 1, 2
SCRAM, ITERATIONS, SALT = 1, 8192, b"salted-salt"
TIMEOUT: Final = millis(60_000)
HERE, ELSEWHERE = "127.0.0.1", "10.0.0.1"


def security_of(user: str, mechanism: str = "PLAIN") -> ClientSecurity:
    """The login of a user."""
    return ClientSecurity(properties(mechanism, user, SECRETS.get(user, user)))


class OneBroker:
    """A client that asks one broker and no other."""

    def __init__(self, port: int, security: ClientSecurity) -> None:
        self.address = Address("127.0.0.1", port)
        self.admin = AdminClient([f"127.0.0.1:{port}"], timeout_s=WAIT_S, security=security)
        self._brokers = Brokers(
            [self.address], client_id="one", timeout_s=WAIT_S, security=security
        )

    def ask(self, key: ApiKey, **values: object) -> Any:
        """The answer to one request."""

        def encode(version: int, correlation_id: int, client_id: str) -> bytes:
            entity = make(codec.request_class(key, version), **values)
            return codec.encode_request(entity, correlation_id, client_id)

        call: Call[Any] = Call(key, NEWEST[key], encode, partial(codec.decode_response, key))
        return self._brokers.node(self.address, call)

    def change(self, key: ApiKey, rows: str, **values: object) -> None:
        """A request that is granted: the one row of the answer, and its only inner row, is fine."""
        row = self.ask(key, **values)
        for name in rows.split("."):
            (row,) = getattr(row, name)
        assert error_of(row.error_code) is ErrorCode.NONE, row

    def refusal(self, act: Callable[[AdminClient], object]) -> ErrorCode:
        """With what a request is refused; NONE for one that is granted."""
        try:
            act(self.admin)
        except AdminError as error:
            return error.code
        return ErrorCode.NONE

    def may(self, act: Callable[[AdminClient], object]) -> bool:
        """Whether a request is granted."""
        return self.refusal(act) is ErrorCode.NONE

    def close(self) -> None:
        self.admin.close()
        self._brokers.close()


class SecuredTrio(Trio):
    """With logins and rights; tests ask as `admin`."""

    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": SECRETS["admin"],
    }
    security = security_of("admin")

    def __init__(self, place: Path) -> None:
        super().__init__(place, features=NOT_SERVED, more_properties=LOGINS)

    @contextmanager
    def at(
        self, node_id: int, user: str = "admin", mechanism: str = "PLAIN"
    ) -> Iterator[OneBroker]:
        """A user at one broker."""
        client = OneBroker(self.ports[node_id], security_of(user, mechanism))
        try:
            yield client
        finally:
            client.close()


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[SecuredTrio]:
    made = SecuredTrio(tmp_path)
    yield made
    made.stop_all()


def seen(what: str, is_so: Callable[[], object]) -> None:
    """Until a broker that was not asked knows it as well."""
    wait_until(lambda: bool(is_so()), WAIT_S, what)


def change_topics(here: OneBroker, there: OneBroker, topic: str, ids: list[int]) -> None:
    """A topic from its creation to its end."""
    admin = here.admin
    admin.create_topic(topic, assignment=[ids])
    admin.create_partitions(topic, 2)
    admin.alter_topic_configs(topic, {"retention.ms": "1000000"})
    seen(
        "a topic with a value",
        lambda: topic_at(there, topic)[:2] == (2, {"retention.ms": "1000000"}),
    )
    values = [{"name": "segment.ms", "value": "900000"}]
    row = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": values}
    here.change(ApiKey.ALTER_CONFIGS, "responses", resources=[row], validate_only=False)
    seen("a value in place of all", lambda: topic_at(there, topic)[1] == {"segment.ms": "900000"})
    moved = {"partition_index": 0, "replicas": ids[::-1]}
    topics = [{"name": topic, "partitions": [moved]}]
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    here.change(key, "responses.partitions", timeout=TIMEOUT, topics=topics)
    seen("another order of replicas", lambda: topic_at(there, topic)[2] == ids[::-1])
    first = [{"topic": topic, "partitions": [0]}]
    elected = {"election_type": PREFERRED, "topic_partitions": first, "timeout": TIMEOUT}
    here.change(ApiKey.ELECT_LEADERS, "replica_election_results.partition_result", **elected)
    seen("another leader", lambda: topic_at(there, topic)[3] == ids[-1])
    admin.delete_topic(topic)
    seen("no topic", lambda: topic not in there.admin.list_topics())


def topic_at(broker: OneBroker, topic: str) -> tuple[int, dict[str, str], list[int], int]:
    """Partitions and own values; of the first partition the replicas and the leader."""
    if topic not in broker.admin.list_topics():
        return 0, {}, [], -1
    (found,) = broker.admin.describe_topics([topic], configs=True)
    first = found.partitions[0]
    return len(found.partitions), dict(found.configs), list(first.replicas), first.leader


def change_users(t: SecuredTrio, here: OneBroker, there: OneBroker, other: int, user: str) -> None:
    """A quota, a login, rights, a token."""
    quota = {"producer_byte_rate": 5000.0}
    here.admin.quotas.alter({"user": user}, quota)
    seen("a quota", lambda: [each.value for each in there.admin.quotas.list({"user": user})])
    salted = salt_password(Mechanism.SCRAM_SHA_256, user, SALT, ITERATIONS)
    login = {"name": user, "mechanism": SCRAM, "iterations": ITERATIONS}
    login |= {"salt": SALT, "salted_password": salted}
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    here.change(key, "results", deletions=[], upsertions=[login])
    seen("a login", lambda: may_log_in(t, other, user))
    entry = Acl("TOPIC", user, "LITERAL", f"User:{user}", "*", "READ", "ALLOW")
    here.admin.acls.add([entry])
    seen("an entry", lambda: there.admin.acls.list(AclQuery(name=user)) == [entry])
    assert here.admin.acls.remove(AclQuery(name=user)) == [entry]
    seen("no entry", lambda: there.admin.acls.list(AclQuery(name=user)) == [])
    owner = {"owner_principal_type": None, "owner_principal_name": None}
    made = here.ask(ApiKey.CREATE_DELEGATION_TOKEN, renewers=[], max_lifetime=millis(-1), **owner)
    assert error_of(made.error_code) is ErrorCode.NONE
    end = {"hmac": made.hmac, "expiry_time_period": millis(-1)}
    seen(
        "a token, and its end",
        lambda: (
            error_of(there.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, **end).error_code) is ErrorCode.NONE
        ),
    )


def may_log_in(t: SecuredTrio, node_id: int, user: str) -> bool:
    """By SCRAM, with a password that is the name."""
    with t.at(node_id, user, "SCRAM-SHA-256") as client:
        try:
            return client.admin.list_topics() == []
        except AuthenticationFailed:
            return False


def change_the_cluster(here: OneBroker, there: OneBroker) -> None:
    """A feature level down and up, and a broker that there is not."""
    for level, kind in ((0, DOWNGRADE), (1, UPGRADE)):
        update = {"feature": "group.version", "max_version_level": level, "upgrade_type": kind}
        values = {"feature_updates": [update], "timeout": TIMEOUT, "validate_only": False}
        answer = here.ask(ApiKey.UPDATE_FEATURES, **values)
        assert error_of(answer.error_code) is ErrorCode.NONE, answer
        seen("a level", partial(level_is, there, level))
    unknown = ErrorCode.BROKER_ID_NOT_REGISTERED
    assert here.refusal(lambda admin: admin.unregister_broker(99)) is unknown


def level_is(broker: OneBroker, level: int) -> bool:
    """Of `group.version`."""
    found = broker.admin.describe_features(broker.address).finalised
    return found.get("group.version", 0) == level


def deny_and_allow(here: OneBroker, alice: OneBroker, topic: str) -> None:
    """alice makes and deletes a topic when an entry says so for her address, and not before."""

    def make(admin: AdminClient) -> None:
        admin.create_topic(topic, partitions=1)

    def end(admin: AdminClient) -> None:
        admin.delete_topic(topic)

    for operation, act in (("CREATE", make), ("DELETE", end)):
        assert alice.refusal(act) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for host in (ELSEWHERE, HERE):
            entry = Acl("TOPIC", topic, "LITERAL", "User:alice", host, operation, "ALLOW")
            here.admin.acls.add([entry])
            if host == ELSEWHERE:
                assert alice.refusal(act) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        seen(f"{operation} for alice", partial(alice.may, act))
    seen("no topic of alice", lambda: topic not in here.admin.list_topics())


def test_one_broker_of_either_kind_forwards_everything(trio: SecuredTrio) -> None:
    for kind, controller in (("kafkas", trio.start_kafka), ("ours", trio.start_ours)):
        if 1 in trio.running:
            trio.stop(1)
        trio.start_all(controller)
        for node_id, other in BOTH_WAYS:
            name = f"{kind}-{node_id}"
            with trio.at(node_id) as here, trio.at(other) as there:
                change_topics(here, there, name, [node_id, other])
                change_users(trio, here, there, other, name)
                change_the_cluster(here, there)
                with trio.at(node_id, "alice") as alice:
                    deny_and_allow(here, alice, f"of-alice-{name}")
