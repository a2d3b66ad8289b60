"""Requests to coordinators of share groups and of their states."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.differential.drafts import PARTITIONS, Draft
from tests.differential.group_steps import group, member
from tests.differential.steps import Name
from tidelog.wire.api import ApiKey as K

SHARE: Final = "share"
_EPOCHS: Final = (-1, 1, 2, 2**31 - 1)


def share_group(draft: Draft, usual: str) -> Any:
    """Mostly a share group; now and then one of another type."""
    return draft.good_or(Name(SHARE), group(draft, usual))


def beat(draft: Draft, usual: str) -> None:
    one, name = member(draft), share_group(draft, usual)
    epoch = draft.ref(one.beats.get(SHARE, []), "member_epoch", otherwise=0)
    joins = draft.prng.chance(1, 3)
    step = draft.add(
        K.SHARE_GROUP_HEARTBEAT,
        one.slot,
        group_id=name,
        member_id=draft.good_or(one.own_id, "", "stranger", "x" * 37),
        member_epoch=0 if joins else draft.good_or(epoch, -1, -2, 99),
        rack_id=draft.good_or(None, "", "rack"),
        subscribed_topic_names=[draft.topic()] if joins else draft.good_or(None, []),
    )
    one.beats.setdefault(SHARE, []).insert(0, step)


def describe(draft: Draft, usual: str) -> None:
    draft.add(
        K.SHARE_GROUP_DESCRIBE,
        draft.admin_slot,
        group_ids=[share_group(draft, usual)],
        include_authorized_operations=draft.prng.chance(1, 4),
    )


def of_states(key: K, row: Callable[[Draft], Mapping[str, Any]]) -> Callable[[Draft, str], None]:
    """What draws a request about partitions of one topic, whose rows have these fields."""

    def draw(draft: Draft, usual: str) -> None:
        topic_id = draft.topic_id(draft.topic())
        rows = draft.partitions(lambda index: {"partition": index, **row(draft)})
        draft.add(
            key,
            draft.admin_slot,
            group_id=share_group(draft, usual),
            topics=[{"topic_id": topic_id, "partitions": rows}],
        )

    return draw


def _epoch(draft: Draft) -> Any:
    return draft.good_or(draft.prng.below(3), *_EPOCHS)


def _initial(draft: Draft) -> Mapping[str, Any]:
    # With a higher one the group cannot begin its own states. Of those without an offset see
    # `known.py`.
    return {"state_epoch": draft.prng.between(-1, 1), "start_offset": draft.good_or(0, 5)}


def _written(draft: Draft) -> Mapping[str, Any]:
    first = draft.prng.below(10)
    run = {
        "first_offset": first,
        "last_offset": first + draft.prng.below(4),
        "delivery_state": draft.prng.choice((0, 2, 4)),
        "delivery_count": 1 + draft.prng.below(3),
    }
    return {
        "state_epoch": _epoch(draft),
        "leader_epoch": _epoch(draft),
        "start_offset": draft.good_or(draft.prng.below(6), -1),
        "delivery_complete_count": draft.prng.below(4),
        "state_batches": draft.good_or([run], []),
    }


def _of_leader(draft: Draft) -> Mapping[str, Any]:
    return {"leader_epoch": _epoch(draft)}


def _some(draft: Draft) -> list[int]:
    """Partitions that an administrator names. Kafka does not answer for the highest number, and has
    an internal error for a negative one and for a group without a name."""
    return [draft.good_or(draft.prng.below(PARTITIONS), 7)]


def describe_offsets(draft: Draft, usual: str) -> None:
    row = {"topic_name": draft.topic(), "partitions": _some(draft)}
    topics = draft.prng.choice(([row], None, []))
    draft.add(
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        draft.admin_slot,
        groups=[{"group_id": draft.good_or(Name(SHARE), Name("simple")), "topics": topics}],
    )


def alter_offsets(draft: Draft, usual: str) -> None:
    rows = [
        {"partition_index": index, "start_offset": draft.good_or(5, 0, -1)}
        for index in _some(draft)
    ]
    draft.add(
        K.ALTER_SHARE_GROUP_OFFSETS,
        draft.admin_slot,
        group_id=share_group(draft, usual),
        topics=[{"topic_name": draft.topic(), "partitions": rows}],
    )


def delete_offsets(draft: Draft, usual: str) -> None:
    draft.add(
        K.DELETE_SHARE_GROUP_OFFSETS,
        draft.admin_slot,
        group_id=share_group(draft, usual),
        topics=[{"topic_name": draft.topic()}],
    )


def _acknowledgements(draft: Draft) -> list[Mapping[str, Any]]:
    first = draft.prng.below(6)
    last = first + draft.good_or(draft.prng.below(3), -1)
    kinds = draft.prng.choice(((1,), (2,), (0,), (1, 2), (4,), (5,), ()))
    row = {"first_offset": first, "last_offset": last, "acknowledge_types": kinds}
    return draft.prng.choice(([], [row]))


def of_leader(key: K, **values: Any) -> Callable[[Draft, str], None]:
    """What draws a request of a member to the leader of a partition. Nothing is fetched: what is
    there at once depends on how fast a broker has loaded the state."""

    def draw(draft: Draft, usual: str) -> None:
        one = member(draft)
        topic_id = draft.topic_id(draft.topic())
        rows = draft.partitions(
            lambda index: {
                "partition_index": index,
                "acknowledgement_batches": _acknowledgements(draft),
            }
        )
        draft.add(
            key,
            draft.admin_slot,
            group_id=share_group(draft, usual),
            member_id=draft.good_or(one.own_id, "", "x" * 37),
            share_session_epoch=draft.prng.choice((0, 1, 2, -1, 9)),
            is_renew_ack=draft.prng.chance(1, 5),
            topics=[{"topic_id": topic_id, "partitions": rows}],
            **values,
        )

    return draw


_NOTHING: Final[Mapping[str, Any]] = {
    "max_wait": 0,
    "min_bytes": 0,
    "max_bytes": 0,
    "max_records": 0,
    "batch_size": 10,
    "share_acquire_mode": 0,
    "forgotten_topics_data": [],
}

SHARE_DRAWS: Final[Mapping[K, Callable[[Draft, str], None]]] = {
    K.SHARE_GROUP_HEARTBEAT: beat,
    K.SHARE_GROUP_DESCRIBE: describe,
    K.SHARE_FETCH: of_leader(K.SHARE_FETCH, **_NOTHING),
    K.SHARE_ACKNOWLEDGE: of_leader(K.SHARE_ACKNOWLEDGE),
    K.INITIALIZE_SHARE_GROUP_STATE: of_states(K.INITIALIZE_SHARE_GROUP_STATE, _initial),
    K.READ_SHARE_GROUP_STATE: of_states(K.READ_SHARE_GROUP_STATE, _of_leader),
    K.WRITE_SHARE_GROUP_STATE: of_states(K.WRITE_SHARE_GROUP_STATE, _written),
    K.DELETE_SHARE_GROUP_STATE: of_states(K.DELETE_SHARE_GROUP_STATE, lambda _: {}),
    K.READ_SHARE_GROUP_STATE_SUMMARY: of_states(K.READ_SHARE_GROUP_STATE_SUMMARY, _of_leader),
    K.DESCRIBE_SHARE_GROUP_OFFSETS: describe_offsets,
    K.ALTER_SHARE_GROUP_OFFSETS: alter_offsets,
    K.DELETE_SHARE_GROUP_OFFSETS: delete_offsets,
}
