"""The properties that every metadata image has, under their names.

`check_image` compares an image with an earlier one of the same log and looks only at what
differs, so that it can run after every event of a simulation.

- **IsrWithinReplicas**: ISR, ELR, adding and removing replicas are replicas; none twice.
- **LeaderInIsr**: the leader is in the ISR, or there is none.
- **IsrElrDisjoint**: no replica is both in sync and merely eligible.
- **IsrNeverEmptyWithoutElr**: without ELR the last ISR member stays.
- **RecoveringAlone**: a leader that recovers from an unclean election is the whole ISR.
- **FencedNotInIsr**: a fenced broker is in no ISR, except as its leaderless last member without
  ELR; and it leads nothing.
- **LostNeverLeads**: a leader's log is not lost, and its log directory is registered.
- **EpochsMonotonic**: leader epochs, partition epochs and broker epochs never decrease; an
  unchanged partition epoch means an unchanged partition.
- **PartitionsDense**: partitions are numbered from 0 without gaps and never become fewer.
- **TopicMapsAgree**: a topic is found by its name and by its id, or by neither.
- **ProducerIdsMonotonic**: producer ids are handed out once.

Source: the invariants of Kafka's TLA+ models (ValidControllerState, ValidControllerIsrAndElr).
"""

from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import NO_LEADER


def check_image(image: MetadataImage, before: MetadataImage) -> None:
    """Asserts all properties of `image`, given that `before` had them."""
    if image is before:
        return
    assert image.offset >= before.offset, f"offset went back: {before.offset} -> {image.offset}"
    assert image.next_producer_id >= before.next_producer_id, (
        f"ProducerIdsMonotonic: {before.next_producer_id} -> {image.next_producer_id}"
    )
    _check_brokers(image, before)
    if image.topics_by_id is not before.topics_by_id:
        _check_topics(image, before)
    if image.brokers is not before.brokers or image.topics_by_id is not before.topics_by_id:
        _check_fenced(image)
        _check_directories(image, before)


def _check_brokers(image: MetadataImage, before: MetadataImage) -> None:
    for broker_id, broker in image.brokers.items():
        older = before.brokers.get(broker_id)
        assert older is None or broker.broker_epoch >= older.broker_epoch, (
            f"EpochsMonotonic: broker {broker_id} epoch {older and older.broker_epoch} -> "
            f"{broker.broker_epoch}"
        )


def _check_topics(image: MetadataImage, before: MetadataImage) -> None:
    assert len(image.topics_by_name) == len(image.topics_by_id), (
        f"TopicMapsAgree: {len(image.topics_by_name)} names, {len(image.topics_by_id)} ids"
    )
    for topic_id, topic in image.topics_by_id.items():
        older = before.topics_by_id.get(topic_id)
        if topic is older:
            continue
        assert image.topics_by_name.get(topic.name) is topic, f"TopicMapsAgree: {topic.name}"
        _check_topic(topic, older, image.elr_enabled)


def _check_topic(topic: TopicImage, older: TopicImage | None, elr_enabled: bool) -> None:
    count = len(topic.partitions)
    assert all(number < count for number in topic.partitions), f"PartitionsDense: {topic.name}"
    assert older is None or count >= len(older.partitions), f"PartitionsDense: {topic.name}"
    for number, partition in topic.partitions.items():
        previous = None if older is None else older.partitions.get(number)
        if partition is previous:
            continue
        where = f"{topic.name}-{number}"
        _check_partition(where, partition, elr_enabled)
        if previous is not None:
            _check_epochs(where, previous, partition)


def _check_partition(where: str, partition: PartitionImage, elr_enabled: bool) -> None:
    def fault(rule: str) -> str:
        return f"{rule}: {where} {partition}"

    replicas, isr = set(partition.replicas), partition.isr
    assert len(replicas) == len(partition.replicas), fault("IsrWithinReplicas")
    moved = (partition.adding_replicas, partition.removing_replicas)
    for members in (isr, partition.eligible_leaders, *moved):
        inside = len(set(members)) == len(members) and replicas.issuperset(members)
        assert inside, fault("IsrWithinReplicas")
    assert partition.leader == NO_LEADER or partition.leader in isr, fault("LeaderInIsr")
    assert not set(isr) & set(partition.eligible_leaders), fault("IsrElrDisjoint")
    assert isr or elr_enabled, fault("IsrNeverEmptyWithoutElr")
    assert not partition.recovering or len(isr) <= 1, fault("RecoveringAlone")


def _check_epochs(where: str, before: PartitionImage, after: PartitionImage) -> None:
    assert after.leader_epoch >= before.leader_epoch, (
        f"EpochsMonotonic: {where} leader epoch {before.leader_epoch} -> {after.leader_epoch}"
    )
    assert after.partition_epoch > before.partition_epoch or after == before, (
        f"EpochsMonotonic: {where} changed within partition epoch {after.partition_epoch}"
    )
    assert after.leader == before.leader or after.leader_epoch > before.leader_epoch, (
        f"EpochsMonotonic: {where} leader {before.leader} -> {after.leader} within leader epoch "
        f"{after.leader_epoch}"
    )


def _check_fenced(image: MetadataImage) -> None:
    fenced = {broker.node_id for broker in image.brokers.values() if broker.fenced}
    if not fenced:
        return
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if fenced.isdisjoint(partition.isr):
                continue
            last_member = len(partition.isr) == 1 and not image.elr_enabled
            assert last_member and partition.leader == NO_LEADER, (
                f"FencedNotInIsr: {topic.name}-{number} {partition}, fenced {sorted(fenced)}"
            )


def _check_directories(image: MetadataImage, before: MetadataImage) -> None:
    """Looks at changed topics, and at all of them if a broker has other directories."""
    moved = any(
        (older := before.brokers.get(broker_id)) is None or older.log_dirs != broker.log_dirs
        for broker_id, broker in image.brokers.items()
    )
    for topic_id, topic in image.topics_by_id.items():
        if not moved and before.topics_by_id.get(topic_id) is topic:
            continue
        for number, partition in topic.partitions.items():
            leader = partition.leader
            assert leader == NO_LEADER or image.has_directory(partition, leader), (
                f"LostNeverLeads: {topic.name}-{number} {partition}"
            )
