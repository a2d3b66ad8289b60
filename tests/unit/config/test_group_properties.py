"""Goal: a group's own value counts within the node's bounds, and only if it is a number."""

import pytest

from tidelog.config import GroupsConfig
from tidelog.config.group_properties import (
    HEARTBEAT_INTERVAL,
    OFFSET_RESET,
    SESSION_TIMEOUT,
    duration_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from tidelog.config.resolve import validate_group_config
from tidelog.errors import ProtocolError


@pytest.mark.parametrize(
    ("own", "session_ms"),
    [
        ({}, 45_000),
        ({SESSION_TIMEOUT: "50000"}, 50_000),
        ({SESSION_TIMEOUT: "1"}, 45_000),
        ({SESSION_TIMEOUT: "70000"}, 60_000),
        ({SESSION_TIMEOUT: "soon"}, 45_000),
        ({HEARTBEAT_INTERVAL: "6000"}, 45_000),
    ],
)
def test_a_session(own, session_ms):
    assert session_timeout_ms(GroupsConfig(), own) == session_ms


def test_an_interval():
    assert heartbeat_interval_ms(GroupsConfig(), {HEARTBEAT_INTERVAL: "6000"}) == 6000
    assert heartbeat_interval_ms(GroupsConfig(), {HEARTBEAT_INTERVAL: "60000"}) == 15_000


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H"])
def test_a_share_group_may_begin_there(value):
    validate_group_config(OFFSET_RESET, value)


@pytest.mark.parametrize("value", ["", "PT1H", "by_duration:", "by_duration:-PT1H", "newest"])
def test_a_share_group_may_not_begin_there(value):
    with pytest.raises(ProtocolError):
        validate_group_config(OFFSET_RESET, value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PT1H30M", 5_400_000),
        ("P1DT0.25S", 86_400_250),
        ("pt5s", 5000),
        ("P1D", 86_400_000),
        ("PT", None),
        ("P", None),
        ("1h", None),
        ("PT-5S", None),
    ],
)
def test_durations_are_read_as_iso_8601_writes_them(text, found):
    assert duration_ms(text) == found
