"""What a registry refuses when it is made."""

from dataclasses import replace

import pytest

from tidelog.broker.api import k01_fetch, k01_quorum_fetch, k02_list_offsets, k19_create_topics
from tidelog.broker.api.declaration import Listener, VersionRange
from tidelog.broker.api.registry import Registry
from tidelog.controller.topic_messages import CreateTopics, DeleteTopics, NewTopic
from tidelog.wire.api import ApiKey

FETCH, QUORUM_FETCH = k01_fetch.API, k01_quorum_fetch.API
LIST_OFFSETS, CREATE_TOPICS = k02_list_offsets.API, k19_create_topics.API


def test_each_listener_has_a_table_of_its_own():
    apis = Registry((QUORUM_FETCH, LIST_OFFSETS, FETCH))
    assert apis.table(Listener.BROKER)[ApiKey.FETCH] is FETCH
    assert apis.table(Listener.CONTROLLER)[ApiKey.FETCH] is QUORUM_FETCH
    assert apis.table(Listener.CONTROLLER)[ApiKey.LIST_OFFSETS] is None
    assert [api.key for api in apis] == [1, 1, 2]


def test_an_api_is_declared_once_for_a_listener():
    with pytest.raises(AssertionError, match="Fetch is declared twice"):
        Registry((FETCH, LIST_OFFSETS, replace(FETCH, versions=VersionRange(4, 17))))


def test_a_message_of_the_controller_needs_an_api():
    apis = Registry((CREATE_TOPICS,))
    apis.require((CreateTopics,))
    with pytest.raises(AssertionError, match="no API carries DeleteTopics"):
        apis.require((CreateTopics, DeleteTopics))


def test_a_message_is_sent_by_one_api():
    other = replace(CREATE_TOPICS, key=ApiKey.DELETE_TOPICS, doc="DeleteTopics (20)")
    with pytest.raises(AssertionError, match="CreateTopics is sent twice"):
        Registry((CREATE_TOPICS, other))


def test_the_api_of_a_message_of_our_own():
    assert Registry((FETCH, CREATE_TOPICS)).call(CreateTopics((NewTopic("t"),))) is CREATE_TOPICS


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"listeners": ()}, "for no listener"),
        ({"versions": VersionRange(5, 4)}, "has no versions"),
        ({"doc": "Metadata (3)"}, "does not say what it does"),
        ({"sent_version": 8}, "is not served"),
        ({"advertised_from": 2}, "lists too little"),
    ],
)
def test_a_declaration_that_contradicts_itself(changes, fault):
    with pytest.raises(AssertionError, match=f"CreateTopics {fault}|CreateTopics is .*{fault}"):
        Registry((replace(CREATE_TOPICS, **changes),))
