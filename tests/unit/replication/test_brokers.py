"""Which uptime of a broker counts."""

from tidelog.replication.brokers import BrokerEpochs
from tidelog.sim.replicas.feed import MetadataFeed


def follow(feed: MetadataFeed) -> BrokerEpochs:
    """The epochs as the newest metadata has them."""
    brokers = BrokerEpochs()
    brokers.follow(feed.image)
    return brokers


def test_every_other_uptime_is_stale() -> None:
    """A newer one too: it will be known in a moment, or it was made up."""
    feed = MetadataFeed()
    feed.register(1)
    epoch = feed.register(2)
    brokers = follow(feed)
    assert brokers.is_stale(2, epoch - 1)
    assert not brokers.is_stale(2, epoch)
    assert brokers.is_stale(2, epoch + 1)
    assert not brokers.is_stale(2, -1)
    assert brokers.is_stale(9, 0)


def test_a_fenced_broker_is_stale_too() -> None:
    """A new process registers fenced; the old one's fetches must not count from then on."""
    feed = MetadataFeed()
    old = feed.register(1)
    feed.unfence(1)
    feed.register(1)
    assert follow(feed).is_stale(1, old)


def test_joining_needs_an_active_broker_in_the_same_uptime() -> None:
    """Fenced, unknown, never fetched, or fetched in another uptime: none may join."""
    feed = MetadataFeed()
    epoch = feed.register(1)
    assert not follow(feed).may_join_isr(1, epoch)
    feed.unfence(1)
    brokers = follow(feed)
    assert brokers.may_join_isr(1, epoch)
    assert brokers.may_join_isr(1, -1)
    assert not brokers.may_join_isr(1, epoch + 1)
    assert not brokers.may_join_isr(1, None)
    assert not brokers.may_join_isr(2, epoch)


def test_alive_is_registered_and_unfenced() -> None:
    """In whatever uptime: deletions wait for it."""
    feed = MetadataFeed()
    feed.register(1)
    assert not follow(feed).is_alive(1)
    feed.unfence(1)
    assert follow(feed).is_alive(1) and not follow(feed).is_alive(2)
    feed.fence(1)
    assert not follow(feed).is_alive(1)
