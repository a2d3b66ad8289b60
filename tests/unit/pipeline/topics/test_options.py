"""The Spark source's options: what is understood, and what is refused with which message."""

import json
from pathlib import Path

import pytest

from tidelog.client.core.values import EARLIEST, LATEST, Address
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.topics.option_names import Option
from tidelog.pipeline.topics.options import TriggerLimits, parse_bootstrap, parse_options

_NEEDED = {"kafka.bootstrap.servers": "a:1,b:2", "subscribe": "flights"}


def test_the_least_that_must_be_said():
    options = parse_options(_NEEDED)
    assert options.rules.bootstrap == (Address("a", 1), Address("b", 2))
    assert options.subscription.topics == ("flights",)
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.sizes.min_partitions == 0
    assert options.include_headers


def test_names_are_compared_without_case_and_topics_once():
    options = parse_options(
        {
            "KAFKA.bootstrap.SERVERS": "[::1]:9092",
            "subscribe": "b, a,b",
            "startingoffsets": json.dumps({"a": {"0": 7, "1": -2}, "b": {"0": -2}}),
            "ENDINGOFFSETS": "Latest",
            "minPartitions": "12",
            "includeHeaders": "False",
        }
    )
    assert options.rules.bootstrap == (Address("::1", 9092),)
    assert options.subscription.topics == ("b", "a")
    assert options.starting == {
        TopicPartition("a", 0): 7,
        TopicPartition("a", 1): EARLIEST,
        TopicPartition("b", 0): EARLIEST,
    }
    assert options.sizes.min_partitions == 12
    assert not options.include_headers


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "`kafka.bootstrap.servers` is missing"),
        ({"kafka.bootstrap.servers": " , "}, "is empty"),
        ({"kafka.bootstrap.servers": "host"}, "`host` in"),
        ({"kafka.bootstrap.servers": "host:0"}, "`host:0` in"),
        ({"kafka.bootstrap.servers": "host:port"}, "`host:port` in"),
        ({"kafka.bootstrap.servers": "ssl://host:1"}, "`ssl://host:1` in"),
        ({"subscribe": ""}, "`subscribe`, `subscribePattern` or `assign` is missing"),
        ({"subscribe": "a,,b"}, "empty name"),
        ({"startingOffset": "earliest"}, "no option `startingOffset`"),
        ({"startingOffsets": "latest"}, "may not be latest"),
        ({"startingOffsets": '{"flights": {"0": -1}}'}, "may not be latest"),
        ({"endingOffsets": "earliest"}, "may not be earliest"),
        ({"endingOffsets": '{"flights": {"0": -2}}'}, "may not be earliest"),
        ({"startingOffsets": "soon"}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": "[1]"}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": '{"flights": 1}'}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": '{"flights": {"x": 1}}'}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": '{"flights": {"0": 1.5}}'}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": '{"flights": {"0": true}}'}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": '{"flights": {"0": -3}}'}, "is not `earliest`, `latest` or JSON"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "names topic `other`"),
        ({"minPartitions": "-1"}, "`minPartitions` is `-1`"),
        ({"includeHeaders": "yes"}, "`includeHeaders` is `yes`"),
    ],
)
def test_what_is_wrong_is_named(changed, message):
    with pytest.raises(UsageError) as caught:
        parse_options({**_NEEDED, **changed})
    assert message in caught.value.message
    assert caught.value.hint


def test_spaces_around_addresses_do_not_matter():
    assert parse_bootstrap(" a:1 , b:2 ,") == (Address("a", 1), Address("b", 2))


def test_a_stream_begins_at_the_end_and_has_none():
    options = parse_options(_NEEDED | {"maxOffsetsPerTrigger": "500"}, streaming=True)
    assert (options.starting, options.trigger.max_offsets) == (LATEST, 500)
    assert options.rules.fail_on_data_loss
    with pytest.raises(UsageError, match="a stream has no `endingOffsets`"):
        parse_options(_NEEDED | {"endingOffsets": "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"maxOffsetsPerTrigger": "500"}, "`maxOffsetsPerTrigger` is for streams"),
        ({"startingOffsets": "latest"}, "may not be latest in a batch"),
    ],
)
def test_what_makes_sense_in_one_way_is_refused_in_the_other_only(given, message):
    with pytest.raises(UsageError, match=message):
        parse_options(_NEEDED | given)
    assert parse_options(_NEEDED | given, streaming=True) == parse_options(
        _NEEDED | given | {"startingOffsets": "latest"}, streaming=None
    )


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_must_be_a_number(limit):
    with pytest.raises(UsageError, match=f"`maxOffsetsPerTrigger` is `{limit}`"):
        parse_options(_NEEDED | {"maxOffsetsPerTrigger": limit}, streaming=True)


def test_what_else_may_be_said():
    options = parse_options(
        {
            "kafka.bootstrap.servers": "a:1",
            "assign": '{"flights": [0, 2]}',
            "kafka.isolation.level": "READ_COMMITTED",
            "kafka.client.rack": "eu-1",
            "columns": "offset, value",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "90s",
            "kafka.group.id": "dashboards",
            "maxRecordsPerPartition": "1000",
        },
        streaming=True,
    )
    assert options.subscription.assigned == {
        TopicPartition("flights", 0),
        TopicPartition("flights", 2),
    }
    assert options.rules.read_committed
    assert options.rules.rack == "eu-1"
    assert options.columns == ("offset", "value")
    assert options.trigger == TriggerLimits(None, 10, 90.0)
    assert options.commit_group == "dashboards"
    assert options.sizes.max_records == 1000


@pytest.mark.parametrize(
    ("changed", "message", "hint"),
    [
        ({"assign": '{"a": [0]}'}, "`subscribe` and `assign` are both given", "one of the two"),
        ({"isolation.level": "all"}, "`isolation.level` is `all`", "`read_committed`"),
        ({"startingOffest": "latest"}, "no option `startingOffest`", "did you mean `startingOff"),
        ({"groupIdPrefix": "x"}, "no option `groupIdPrefix`", "no consumer group"),
        ({"columns": "a,,b"}, "`columns` has an empty name", "single commas"),
        ({"maxRecordsPerPartition": "0"}, "is `0`", "1 or more"),
        (
            {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"},
            "`isolation.level` is given twice",
            "once",
        ),
    ],
)
def test_what_is_wrong_comes_with_advice(changed, message, hint):
    with pytest.raises(UsageError) as caught:
        parse_options({**_NEEDED, **changed})
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribePattern": "*"}, "is not a regular expression"),
        ({"assign": "[]"}, "is not JSON of partition numbers"),
        ({"assign": "{}"}, "is not JSON of partition numbers"),
        ({"assign": '{"a": [-1]}'}, "is not JSON of partition numbers"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, "`maxTriggerDelay` is `soon`"),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "`minOffsetsPerTrigger` `5` is more",
        ),
    ],
)
def test_other_ways_to_be_wrong(given, message):
    with pytest.raises(UsageError) as caught:
        parse_options({"kafka.bootstrap.servers": "a:1", **given}, streaming=True)
    assert message in caught.value.message


def test_every_option_is_documented():
    page = Path(__file__).parents[4] / "docs" / "reference" / "topic-source.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in Option if f"`{name}`" not in text] == []
