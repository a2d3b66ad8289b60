"""Rights over the wire, where an answer is more than a code: lists, operations, envelopes."""

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.api.group_client import commit, one_node
from tests.unit.broker.api.test_k01_fetch import fetch, request, wanted
from tests.unit.broker.one_node import CONTROLLER, OneNode, Wire
from tests.unit.broker.secured_node import (
    ALL,
    CLUSTER,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    GROUP,
    READ,
    add,
    as_user,
    entry,
    metadata,
    topics_of,
)
from tidelog.broker.api import k19_create_topics, k20_delete_topics
from tidelog.broker.api.answers import reply
from tidelog.broker.api.k58_envelope import request_of
from tidelog.broker.authorization import escaped
from tidelog.broker.connections import RequestContext
from tidelog.broker.events import AccessDenied
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.controller.topic_messages import CreateTopics, NewTopic
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_AUDIT_TEXT, MAX_KEPT_DECISIONS
from tidelog.model import ZERO_TOPIC_ID, Principal
from tidelog.security.rights import Operation, ResourceType
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis


def test_a_list_of_all_topics_has_those_that_may_be_described(secured):
    add(secured, entry(READ))
    assert topics_of(metadata(as_user(secured, "ada"), None)) == {"orders": ErrorCode.NONE}


def test_a_topic_asked_for_by_id_is_denied_without_its_name(secured):
    topic_id = next(
        topic.topic_id
        for topic in metadata(secured.client(), "secret").topics
        if topic.name == "secret"
    )
    wire = as_user(secured, "ada")
    response = wire.call(
        ApiKey.METADATA,
        12,
        topics=[{"name": None, "topic_id": topic_id}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (topic,) = response.topics
    assert error_of(topic.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (topic.name, topic.topic_id) == (None, topic_id)


def test_operations_are_those_that_are_allowed(secured):
    add(secured, entry(READ), entry(DESCRIBE, "kafka-cluster", resource_type=CLUSTER))
    shown = metadata(as_user(secured, "ada"), "orders", operations=True)
    assert shown.topics[0].topic_authorized_operations == (1 << READ) + (1 << DESCRIBE)
    assert shown.cluster_authorized_operations == 1 << DESCRIBE
    none = metadata(as_user(secured, "bob"), None, operations=True)
    assert none.cluster_authorized_operations == 0


def test_automatic_creation_needs_create(secured):
    add(secured, entry(DESCRIBE, "*"), entry(CREATE, "new", resource_pattern_type=4))
    wire = as_user(secured, "ada")
    codes = topics_of(metadata(wire, "other", "new1", creates=True))
    assert codes == {
        "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "new1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    secured.run_until(lambda: "new1" in secured.broker.image.topics_by_name)
    assert "other" not in secured.broker.image.topics_by_name


def test_configs_of_a_new_topic_are_shown_to_those_who_may_see_them(secured):
    add(secured, entry(CREATE, "*"), entry(DESCRIBE, "*"))
    request = k19_create_topics.API.request(CreateTopics((NewTopic("mine", 1, 1),)))
    frame = as_user(secured, "ada").ask(ApiKey.CREATE_TOPICS, request)
    (topic,) = codec.decode_response(ApiKey.CREATE_TOPICS, 7, frame)[1].topics
    assert error_of(topic.error_code) is ErrorCode.NONE
    assert (topic.topic_config_error_code, topic.configs) == (29, ())
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)


def test_a_topic_is_deleted_by_those_who_may(secured):
    add(secured, entry(DELETE))
    names = ("orders", "secret", "nothing")
    wire = as_user(secured, "ada")
    response = wire.call(ApiKey.DELETE_TOPICS, 5, topic_names=names, timeout=millis(1000))
    codes = {each.name: error_of(each.error_code) for each in response.responses}
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes == {"orders": ErrorCode.NONE, "secret": denied, "nothing": denied}
    assert "secret" in secured.broker.image.topics_by_name


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry(DESCRIBE)], id="may only describe"),
        pytest.param([entry(DELETE), entry(DESCRIBE, permission_type=DENY)], id="may not describe"),
    ],
)
def test_a_topic_is_deleted_by_those_who_may_delete_and_describe_it(secured, entries):
    add(secured, *entries)
    response = as_user(secured, "ada").call(
        ApiKey.DELETE_TOPICS, 5, topic_names=("orders",), timeout=millis(1000)
    )
    assert error_of(response.responses[0].error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_denied_produce_without_acks_closes_the_connection(secured):
    wire = as_user(secured, "ada")
    kind = codec.request_class(ApiKey.PRODUCE, 9)
    partition = {"index": 0, "records": None}
    request = make(
        kind,
        transactional_id=None,
        acks=0,
        timeout=millis(1000),
        topic_data=[{"name": "orders", "partition_data": [partition]}],
    )
    assert wire.ask(ApiKey.PRODUCE, request) is None
    assert wire.closed


def test_a_client_that_passes_for_a_follower_is_refused(secured):
    """CVE-2018-1288: what counts is the right of the principal and not the field."""
    add(secured, entry(ALL, "*"))
    wire = as_user(secured, "ada")
    kind = codec.request_class(ApiKey.FETCH, 15)
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": 0,
        "partition_max_bytes": 1000,
    }
    topic_id = next(iter(metadata(secured.client(), "orders").topics)).topic_id
    request = make(
        kind,
        max_wait=millis(0),
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic_id": topic_id, "partitions": [partition]}],
        forgotten_topics_data=(),
        rack_id="",
        replica_state={"replica_id": 1, "replica_epoch": 5},
    )
    response = codec.decode_response(ApiKey.FETCH, 15, wire.ask(ApiKey.FETCH, request))[1]
    (topic,) = response.responses
    code = error_of(topic.partitions[0].error_code)
    assert code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def enveloped(wire: Wire, principal: str, host: str = "10.0.0.1") -> tuple[ErrorCode, Any]:
    inner = k19_create_topics.API.request(CreateTopics((NewTopic("inside", 1, 1),)))
    frame = codec.encode_request(inner, 5, "inner")[4:]
    envelope = request_of(frame, Principal("User", principal), host)
    _, answer = codec.decode_response(ApiKey.ENVELOPE, 0, wire.ask(ApiKey.ENVELOPE, envelope))
    code = error_of(answer.error_code)
    if answer.response_data is None:
        return code, None
    _, response = codec.decode_response(ApiKey.CREATE_TOPICS, 7, answer.response_data)
    return code, error_of(response.topics[0].error_code)


def test_the_principal_and_the_address_in_an_envelope_are_those_of_the_request(secured):
    """Goal: the broker's own rights are only for the envelope around it."""
    broker = secured.client(CONTROLLER)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert enveloped(broker, "ada") == (ErrorCode.NONE, denied)
    add(secured, entry(CREATE, "inside", host="10.0.0.1"))
    assert enveloped(broker, "ada", "10.0.0.2") == (ErrorCode.NONE, denied)
    assert enveloped(broker, "ada", "::ffff:10.0.0.1") == (ErrorCode.NONE, ErrorCode.NONE)


def test_an_envelope_of_another_client_is_refused(secured):
    """Goal: a client on a controller listener cannot speak for a super user."""
    add(secured, entry(ALL, "kafka-cluster", resource_type=CLUSTER, principal="User:operator"))
    wire = as_user(secured, "ada", CONTROLLER)
    refused = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    assert enveloped(wire, "ANONYMOUS") == refused


def events_of(node: OneNode, kind: type) -> list[Any]:
    return [event for event in node.trace.events if isinstance(event, kind)]


def test_a_denial_is_an_event_with_its_reason(secured):
    add(secured, entry(READ), entry(READ, permission_type=DENY))
    request = a_delete("orders")
    as_user(secured, "ada").call(ApiKey.DELETE_RECORDS, 2, **request)
    denied = events_of(secured, AccessDenied)[-1]
    assert (denied.principal, denied.operation, denied.resource) == (
        "User:ada",
        "DELETE",
        "TOPIC:orders",
    )
    assert denied.rule == "DefaultDeny"
    before = len(events_of(secured, AccessDenied))
    metadata(as_user(secured, "ada"), None)
    assert len(events_of(secured, AccessDenied)) == before, "a list leaves out, and denies nothing"


def a_delete(name: str) -> dict[str, Any]:
    rows = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}]
    return {"topics": rows, "timeout": millis(0)}


def test_texts_of_clients_are_escaped_and_cut(secured):
    assert escaped("a\nb\x1b[1m\u2603") == "a\\nb\\x1b[1m\\u2603"
    assert len(escaped("x" * 5000)) == MAX_AUDIT_TEXT + 1
    as_user(secured, "ada\nadmin").call(ApiKey.DELETE_RECORDS, 2, **a_delete("x" * 5000))
    denied = events_of(secured, AccessDenied)[-1]
    assert denied.principal == "User:ada\\nadmin"
    assert len(denied.resource) <= MAX_AUDIT_TEXT + 1


def test_only_super_users_are_answered_before_the_entries_are_known():
    """Goal: a node whose quorum has no leader yet answers super users only."""
    node = OneNode(
        alone=False,
        controller_quorum_voters="1@host1:9093,2@host2:9093,3@host3:9093",
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:root",
        allow_everyone_if_no_acl_found="true",
    )
    assert _heartbeat(as_user(node, "ada")) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert _heartbeat(as_user(node, "root")) is ErrorCode.NOT_COORDINATOR


def _heartbeat(wire: Wire) -> ErrorCode:
    values = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    return error_of(wire.call(ApiKey.HEARTBEAT, 0, **values).error_code)


# Ways around a check: what is named twice, not known yet, or forged -----------------------


def test_a_group_that_is_named_twice_shows_no_more():
    """What one row of a request asks for must not decide what the other one is shown."""
    rights = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
    secured = one_node(**rights)
    for topic in ("orders", "secret"):
        secured.client().create_topic(topic)
    commit(secured.client(), 9, {"orders": {0: 7}, "secret": {0: 8}})
    add(secured, entry(DESCRIBE), entry(DESCRIBE, "g", resource_type=GROUP))
    row = {"group_id": "g", "member_id": None, "member_epoch": -1}
    named = {"name": "secret", "topic_id": ZERO_TOPIC_ID, "partition_indexes": (0,)}
    for others in ((), (named,)):
        groups = [row | {"topics": None}, row | {"topics": others}]
        for asked in (groups, groups[::-1]):
            answer = as_user(secured, "ada").call(
                ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False
            )
            shown = {
                (topic.name, partition.committed_offset)
                for group in answer.groups
                for topic in group.topics
                for partition in topic.partitions
            }
            assert ("orders", 7) in shown
            assert ("secret", 8) not in shown


def test_an_id_that_becomes_known_is_asked_about_then(secured: OneNode):
    """A client may know the id of a topic before this broker does."""
    add(secured, entry(READ))
    wire = as_user(secured, "ada")
    image = secured.broker.image
    later = wanted(secured, "secret")
    try:
        secured.broker.image = _without(image, "secret")
        first = fetch(wire, 13, request(later, session_epoch=0))
        assert [each.error_code for each in first.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
    finally:
        secured.broker.image = image
    again = fetch(wire, 13, request(session_id=first.session_id, session_epoch=1))
    denied = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert [each.error_code for each in again.partitions] == denied


def _without(image: Any, name: str) -> Any:
    """The metadata as it was before a topic was created."""
    by_name = {each: topic for each, topic in image.topics_by_name.items() if each != name}
    by_id = {topic.topic_id: topic for topic in by_name.values()}
    return replace(image, topics_by_name=by_name, topics_by_id=by_id)


def test_who_only_passes_for_a_follower_gets_no_session(secured: OneNode):
    """Sessions of followers are worth more than those of others, which would make room for it."""
    add(secured, entry(ALL, "*"))
    sessions = len(secured.broker.fetch_sessions)
    forged = request(wanted(secured, "orders"), session_epoch=0, replica_id=1, replica_epoch=5)
    answer = fetch(as_user(secured, "ada"), 15, forged)
    assert [each.error_code for each in answer.partitions] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert (answer.session_id, len(secured.broker.fetch_sessions)) == (0, sessions)


def test_a_topic_is_not_deleted_by_an_id_that_only_the_controller_knows(secured: OneNode):
    """The controller is ahead of the metadata that a request was checked by."""
    broker = secured.broker
    row = {"name": None, "topic_id": b"?" * 16}
    asked = make(codec.request_class(ApiKey.DELETE_TOPICS, 6), topics=[row], timeout=millis(1000))
    api = k20_delete_topics.API
    header = RequestHeader(ApiKey.DELETE_TOPICS, 6, 1, "test")
    connection = broker.connections.get(as_user(secured, "ada").connection_id)
    context = RequestContext(connection, header)
    passed = broker.gate.pass_forwarded(api, context, asked, broker.image, Instant(0))
    assert passed.request.topics == ()
    answer = passed.amend(reply(codec.response_class(ApiKey.DELETE_TOPICS, 6), responses=()))
    assert error_of(answer.responses[0].error_code) is ErrorCode.UNKNOWN_TOPIC_ID


def test_long_names_are_not_kept(secured: OneNode):
    """Four thousand decisions about names of 32 KB would be much for one connection."""
    access = secured.broker.authorization.at(Principal("User", "ada"), "peer")
    tracemalloc.start()
    try:
        for number in range(MAX_KEPT_DECISIONS // 16):
            name = f"{number}".zfill(30_000)
            access.allows(Operation.READ, ResourceType.GROUP, name, audits=False)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


@pytest.mark.parametrize(
    "name",
    [
        "authorizer.class.name",
        "listener.name.plaintext.plain.sasl.jaas.config",
        "listener.name.plaintext.sasl.login.callback.handler.class",
        "metric.reporters",
        "sasl.jaas.config",
        "sasl.oauthbearer.jwks.endpoint.url",
        "super.users",
    ],
)
def test_no_login_module_and_no_class_is_set_over_the_wire(secured: OneNode, name: str):
    """CVE-2023-25194, 2025-27818, 2025-27819. Not even by a super user."""
    config = {"name": name, "config_operation": 0, "value": "evil"}
    for broker in ("1", ""):
        resource = {"resource_type": 4, "resource_name": broker, "configs": [config]}
        answer = secured.client().call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
        )
        assert error_of(answer.responses[0].error_code) is ErrorCode.INVALID_CONFIG
