"""Goal: a group's own value counts within the node's bounds, and only if it is a number."""

import pytest

from tidelog.config import GroupsConfig
from tidelog.config.group_properties import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    heartbeat_interval_ms,
    session_timeout_ms,
)


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
