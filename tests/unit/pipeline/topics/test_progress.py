"""Lag from progress reports."""

import json

import pytest

from tidelog.model import TopicPartition
from tidelog.pipeline.topics.progress import source_lag

_ID, _OTHER = "AAECAwQFBgcICQoLDA0ODw", "AQECAwQFBgcICQoLDA0ODw"


def test_lag_is_what_waits_by_partition():
    end = {"t:0": 10, "t:1": 7, "gone:0": 5, "t": _ID}
    latest = {"t:0": 15, "t:1": 7, "t:2": 3, "t": _ID}
    lag = source_lag(json.dumps(end), latest)
    assert lag.partitions == {
        TopicPartition("t", 0): 5,
        TopicPartition("t", 1): 0,
        TopicPartition("t", 2): 3,
    }
    assert lag.total == 8
    assert source_lag(None, "null").total == 0


def test_a_topic_made_anew_waits_from_its_beginning():
    assert source_lag({"t:0": 10, "t": _ID}, {"t:0": 4, "t": _OTHER}).total == 4


def test_another_source_is_not_understood():
    with pytest.raises(ValueError, match="uuid"):
        source_lag({"logOffset": 3}, {"logOffset": 4})
    with pytest.raises(ValueError, match="not an offset"):
        source_lag("3", "4")
