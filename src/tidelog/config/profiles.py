"""Named sets of node properties, and the sizes that depend on how many nodes there are.

`test` is production code with short timers: a dead node is noticed within half a second, so that
tests of failures finish. Nothing else in the code knows about profiles.
"""

from typing import Final

from tidelog.errors import UsageError

TEST_PROFILE: Final = {
    "broker.session.timeout.ms": "500",
    "broker.heartbeat.interval.ms": "100",
    "tidelog.broker.disconnect.grace.ms": "200",
    "replica.lag.time.max.ms": "500",
    # Each fetch of an idle follower proves that it is caught up: several within the lag time.
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": "100",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
}
"""Short timers and small internal topics."""

PROFILES: Final = {"default": {}, "test": TEST_PROFILE}


def profile_settings(profile: str, brokers: int) -> dict[str, str]:
    """The properties of a profile for a cluster of this many brokers.

    Internal topics and new topics get as many replicas as there are brokers, at most three, and
    a minimum ISR of one less, as an operator would set them. Raises `UsageError` for a profile
    that does not exist.
    """
    if profile not in PROFILES:
        raise UsageError(f"unknown profile `{profile}`", f"use one of {', '.join(PROFILES)}")
    replicas = min(3, brokers)
    min_isr = max(1, replicas - 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min_isr),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min_isr),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(min_isr),
        **PROFILES[profile],
    }
