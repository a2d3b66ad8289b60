"""The cluster's feature levels, changed while it runs: UpdateFeatures decided.

A *finalised* level decides which records and protocols all nodes may use; a node registers the
range of levels that it can work with. So a level is raised or lowered only when every registered
broker and controller knows the new one, and all updates of a request are made together or not at
all.

What may change:

- `metadata.version` goes up to any level that all nodes know, and never down: the records of the
  newer level would be lost.
- `kraft.version` goes from 0 to 1, when the voters move from the configuration to the log
  (`kraft/membership.py`), and never down.
- `group.version` from 0 to 1 and back: consumer groups (KIP-848) are served, or refused.
- `share.version` from 0 to 1 and back: share groups (KIP-932), likewise.
- `eligible.leader.replicas.version` goes up from `metadata.version` 23 on, and the min ISR becomes
  one for all brokers; down while every partition has a replica in sync, and all ELRs are forgotten.

`kraft.version` is the quorum's own record and no matter of the image; it is changed last, when
nothing else can refuse the request any more. Its leader writes it as soon as it is decided, so a
change of leaders right then may lose the rest of the request and keep the version, or neither. The
answer waits until both are committed.

- `transaction.version` goes up and down (KIP-890): at level 2 the coordinator gives a client a new
  epoch for each transaction; from level 1 on it writes the fields that level 2 needs into its log.

Left out: features that this software knows only at level 0: raising them is
refused, because no node supports more.

Source: KIP-584, KIP-778, KIP-853, KIP-966; Kafka's feature control.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from tidelog.controller import messages
from tidelog.controller.records import config_record
from tidelog.controller.view import MIN_INSYNC_REPLICAS, ControllerDecision, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
)
from tidelog.metadata.records import ClearElrRecord, FeatureLevelRecord, MetadataRecord, NoOpRecord

KRAFT_VERSION: Final = "kraft.version"
ELR_NEEDS_METADATA_VERSION: Final = 23
"""4.0-IV1, the first level whose records have room for the ELR."""
_ABSENT: Final = (0, 0)


class QuorumVersion(Protocol):
    """What the decision needs of the metadata quorum; `broker.metadata_log.MetadataLog` is one."""

    @property
    def kraft_version(self) -> int:
        """The level that the quorum runs with."""

    @property
    def voter_ids(self) -> Sequence[int]:
        """The nodes that vote."""

    def upgrade_version(self, level: int, *, validate_only: bool) -> tuple[ErrorCode, str]:
        """Raises the level, or returns why not."""


def decide_update_features(
    view: View, quorum: QuorumVersion, request: messages.UpdateFeatures
) -> ControllerDecision:
    """All updates, or none. Raises `ProtocolError`, mostly `INVALID_UPDATE_VERSION`."""
    # The last one of a name counts.
    updates = {update.name: update for update in request.updates}
    levels = {**view.image.features, KRAFT_VERSION: quorum.kraft_version}
    proposed = levels | {name: update.level for name, update in updates.items()}
    records: list[MetadataRecord] = []
    for update in updates.values():
        _check(view, quorum, update, levels.get(update.name, 0))
        if update.name == KRAFT_VERSION:
            _upgrade_quorum(quorum, update.level, validate_only=True)
        elif update.level != levels.get(update.name, 0):
            records += _records_of(view, update, proposed)
    if request.validate_only:
        return ControllerDecision(messages.UpdateFeaturesResult())
    view.check_atomic(records)
    if KRAFT_VERSION in updates:
        _upgrade_quorum(quorum, updates[KRAFT_VERSION].level, validate_only=False)
        if not records and quorum.kraft_version != levels[KRAFT_VERSION]:
            # It stands behind the quorum's own records: the answer waits for all of them.
            records.append(NoOpRecord())
    for update in updates.values():
        view.trace.info(
            "controller",
            "decide_update_features",
            "updated",
            feature=update.name,
            level=update.level,
            was=levels.get(update.name, 0),
        )
    return ControllerDecision(messages.UpdateFeaturesResult(), records)


def _invalid(update: messages.FeatureUpdate, text: str) -> ProtocolError:
    text = f"Invalid update version {update.level} for feature {update.name}. {text}"
    return ProtocolError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _check(view: View, quorum: QuorumVersion, update: messages.FeatureUpdate, current: int) -> None:
    """What is asked of every feature, in Kafka's order."""
    if update.upgrade_type not in tuple(messages.UpgradeType):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    supported = list(_supported(view, update.name))
    for who, (low, high) in supported:
        if (low, high) == _ABSENT and update.level > 0:
            raise _invalid(update, f"{who} does not support this feature.")
        if not low <= update.level <= high:
            raise _invalid(update, f"{who} only supports versions {low}-{high}")
    for node_id in quorum.voter_ids:
        if node_id not in view.image.controllers:
            text = f"controller {node_id} has not registered, and may not support this feature"
            raise _invalid(update, text)
    upgrades = update.upgrade_type == messages.UpgradeType.UPGRADE
    if update.level < current and upgrades:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if update.level > current and not upgrades:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _supported(view: View, name: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Every registered node and the levels it knows."""
    for node_id, controller in sorted(view.image.controllers.items()):
        yield f"controller {node_id}", controller.features.get(name, _ABSENT)
    for node_id, broker in sorted(view.image.brokers.items()):
        yield f"broker {node_id}", broker.features.get(name, _ABSENT)


def _upgrade_quorum(quorum: QuorumVersion, level: int, *, validate_only: bool) -> None:
    code, text = quorum.upgrade_version(level, validate_only=validate_only)
    if code is not ErrorCode.NONE:
        raise ProtocolError(code, text)


def _records_of(
    view: View, update: messages.FeatureUpdate, proposed: Mapping[str, int]
) -> list[MetadataRecord]:
    """What a change of level writes."""
    record = FeatureLevelRecord(name=update.name, feature_level=update.level)
    if update.name == METADATA_VERSION:
        _check_metadata_version(view, update)
    elif update.name == ELIGIBLE_LEADER_REPLICAS_VERSION:
        if update.level == 0:
            return [record, *_forget_elrs(view, update)]
        if proposed.get(METADATA_VERSION, 0) < ELR_NEEDS_METADATA_VERSION:
            text = f"It depends on {METADATA_VERSION} level {ELR_NEEDS_METADATA_VERSION}."
            raise _invalid(update, text)
        return [*_one_min_isr(view), record]
    return [record]


def _check_metadata_version(view: View, update: messages.FeatureUpdate) -> None:
    if update.level > view.image.features.get(METADATA_VERSION, 0):
        return
    if update.upgrade_type == messages.UpgradeType.UNSAFE_DOWNGRADE:
        text = "Unsafe metadata downgrade is not supported in this version."
    else:
        text = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
    text = f"Invalid {METADATA_VERSION} {update.level}. {text}"
    raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _one_min_isr(view: View) -> Iterator[MetadataRecord]:
    """With eligible leaders the min ISR is part of who may lead: every broker must mean the same by
    it. Those that are set for one broker go."""
    configs = view.image.configs
    if MIN_INSYNC_REPLICAS not in configs.get(CLUSTER_DEFAULT, {}):
        yield config_record(
            CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, str(view.config.min_insync_replicas)
        )
    for resource, values in sorted(configs.items()):
        own = resource.resource_type == BROKER_RESOURCE and resource != CLUSTER_DEFAULT
        if own and MIN_INSYNC_REPLICAS in values:
            yield config_record(resource, MIN_INSYNC_REPLICAS, None)


def _forget_elrs(view: View, update: messages.FeatureUpdate) -> list[MetadataRecord]:
    """No controller removes unclean restarts from an ELR any more, so it is not valid."""
    for topic in view.image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if not partition.isr:
                name = f"{topic.name}-{number}"
                text = f"No replica is in sync for {name}, only eligible leaders have it."
                raise _invalid(update, text)
    return [ClearElrRecord(topic_name="")]
