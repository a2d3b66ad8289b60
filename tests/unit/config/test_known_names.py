"""Goal: an operator learns which properties are accepted and have no effect."""

from tests.unit.config.test_resolve import config_with
from tidelog.config import profile_settings
from tidelog.config.known_names import KNOWN_NAMES, WITHOUT_EFFECT
from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.topic_properties import TOPIC_SYNONYMS

SAYS_ENOUGH = {
    # Sizes of what the broker itself compresses.
    *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    # Tiered storage.
    *("log.local.retention.bytes", "log.local.retention.ms"),
}


def test_only_names_that_are_accepted_are_spoken_of() -> None:
    assert WITHOUT_EFFECT.keys() <= {*KNOWN_NAMES, *NODE_PROPERTIES, *TOPIC_SYNONYMS}


def test_every_default_of_topics_that_nothing_reads_is_spoken_of() -> None:
    unread = {name for name, (prop, _) in TOPIC_SYNONYMS.items() if not prop.fields}
    assert unread - WITHOUT_EFFECT.keys() == SAYS_ENOUGH


def test_what_is_set_is_reported_in_order_and_nothing_else() -> None:
    found = config_with(num__replica__fetchers="4", log__flush__interval__ms="10").without_effect
    assert list(found) == ["log.flush.interval.ms", "num.replica.fetchers"]
    assert config_with(num__io__threads="8", log__segment__bytes="1048576").without_effect == {}


def test_what_only_kafkas_own_parts_read_is_listed_apart() -> None:
    config = config_with(
        num__replica__fetchers="4",
        num__io__threads="8",
        metric__reporters="org.x.Y",
        log__segment__bytes="1048576",
    )
    assert config.ignored == ("metric.reporters", "num.io.threads")


def test_our_own_profiles_ask_for_nothing_that_is_not_there() -> None:
    for profile in ("default", "test"):
        asked = profile_settings(profile, 3).keys()
        assert not WITHOUT_EFFECT.keys() & asked
        assert not KNOWN_NAMES & asked
