"""Topics of an ingest: those that are named, those that match now, and those that match later."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batch, batches
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.jobs import ingest_topics
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan
from tidelog.pipeline.jobs.ingest_topics import Topics
from tidelog.pipeline.typed.formats import Format


@pytest.fixture
def brokers():
    # The scripted cluster knows a partition by its number alone.
    places = TopicPartition("a1", 0), TopicPartition("b", 5)
    partitions = {place: ScriptedPartition(batches(1)) for place in places}
    with ScriptedCluster(partitions) as started:
        yield started


@pytest.fixture
def topics(brokers, tmp_path):
    """Topics by names or a pattern, with a list of what was shown."""

    def topics(names=None, pattern=None, value=Format.RAW):
        shown = []

        def plan(name):
            place = brokers.bootstrap_servers, name, tmp_path / name
            return IngestPlan(*place, value=AskedLayout(value))

        reached = {"kafka.bootstrap.servers": brokers.bootstrap_servers}
        made = Topics(reached, names, pattern, plan, lambda *what: shown.append(what))
        return made, shown

    return topics


def _names(found):
    return [one.plan.topic for one in found]


def test_named_topics_are_read_and_no_other_joins(brokers, topics):
    found, shown = topics(["b", "a1"])
    assert _names(found.first()) == ["b", "a1"]
    assert [name for name, _ in shown] == ["b", "a1"]
    brokers.partitions[TopicPartition("a2", 0)] = ScriptedPartition(batches(1))
    assert found.joining() == []


def test_new_topics_that_match_join_once(brokers, topics):
    found, _ = topics(pattern="a.*")
    assert _names(found.first()) == ["a1"]
    assert found.joining() == []
    for name in ("a2", "c", "__consumer_offsets"):
        brokers.partitions[TopicPartition(name, 0)] = ScriptedPartition(batches(1))
    assert _names(found.joining()) == ["a2"]
    assert found.joining() == []
    assert list(found.prepared) == ["a1", "a2"]


def test_a_pattern_that_matches_nothing_is_refused(topics):
    with pytest.raises(UsageError, match="no topic matches"):
        topics(pattern="x.*")[0].first()


def test_a_topic_that_cannot_be_prepared_waits_and_is_shown_once(brokers, topics):
    brokers.partitions[TopicPartition("a1", 0)].batches[:] = [batch(0, value=b'{"x": 1}')]
    found, shown = topics(pattern="a.*", value=Format.JSON)
    found.first()
    late = ScriptedPartition([])
    brokers.partitions[TopicPartition("a2", 1)] = late
    assert (found.joining(), found.joining()) == ([], [])
    (_, (name, error)) = shown
    assert name == "a2"
    assert "no value to infer a schema from" in error.message
    late.batches.append(batch(0, value=b'{"y": 1}'))
    assert _names(found.joining()) == ["a2"]


def test_a_cluster_that_does_not_answer_is_asked_again(brokers, topics, monkeypatch):
    found, shown = topics(pattern="a.*")
    found.first()
    brokers.partitions[TopicPartition("a2", 0)] = ScriptedPartition(batches(1))
    whole = Topics._matching

    def failing(self):
        raise ingest_topics.ClusterUnavailable("silence")

    monkeypatch.setattr(Topics, "_matching", failing)
    assert found.joining() == []
    monkeypatch.setattr(Topics, "_matching", whole)
    assert _names(found.joining()) == ["a2"]
    assert len(shown) == 2


def test_more_topics_than_a_run_takes_are_refused(topics, monkeypatch):
    monkeypatch.setattr(ingest_topics, "MAX_TOPICS", 1)
    with pytest.raises(UsageError, match="2 topics are more than one run takes"):
        topics(["a1", "b"])[0].first()
