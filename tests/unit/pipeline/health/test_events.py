"""The instant that `--since` names."""

from datetime import UTC, datetime, timedelta

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.health.events import since

_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("2026-11-21T09:00:00", timedelta(hours=3)),
        ("2026-11-21T09:00:00+02:00", timedelta(hours=5)),
    ],
)
def test_an_instant_is_a_time_ago_or_a_time_itself(text, before):
    assert since(text, _NOW) == _NOW - before


@pytest.mark.parametrize("text", ["", "soon", "h", "-5m", "99999999d", "99999999999d"])
def test_what_names_no_instant_is_refused(text):
    with pytest.raises(UsageError) as caught:
        since(text, _NOW)
    assert caught.value.message == f"`--since` is `{text}`"
