"""Commits of progress: seen by lag tools, never in the way of a query."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode, UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.topics.group_progress import check_groups_are_served, commit_progress
from tidelog.wire.api import ApiKey

_OFFSETS = {TopicPartition("t", 0): 5, TopicPartition("u", 3): 2**40}


@pytest.fixture
def cluster():
    with ScriptedCluster({TopicPartition("t", 0): ScriptedPartition([])}) as started:
        yield started


@pytest.fixture
def client(cluster):
    with Client([Address(*address) for address in cluster.addresses], retry_s=1.0) as made:
        yield made


def test_offsets_reach_the_group(cluster, client):
    check_groups_are_served(client, "g")
    assert commit_progress(client, "g", _OFFSETS)
    assert cluster.committed == {"g": _OFFSETS}


def test_a_refused_commit_is_a_warning(cluster, client, caplog):
    cluster.on_commit = lambda: ErrorCode.UNKNOWN_MEMBER_ID
    assert not commit_progress(client, "g", _OFFSETS)
    assert "not committed to group `g`: `t-0`: UNKNOWN_MEMBER_ID" in caplog.text


def test_a_coordinator_that_comes_up_is_waited_for(cluster, client):
    answers = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    cluster.on_commit = lambda: next(answers, ErrorCode.NONE)
    assert commit_progress(client, "g", _OFFSETS)
    assert cluster.committed == {"g": _OFFSETS}


def test_brokers_without_groups_are_refused_at_once(cluster, client):
    del cluster.served[ApiKey.OFFSET_COMMIT]
    with pytest.raises(UsageError, match=r"`kafka\.group\.id` is `g`, but the brokers have no"):
        check_groups_are_served(client, "g")
    assert not commit_progress(client, "g", _OFFSETS)
