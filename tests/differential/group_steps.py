"""Requests to group coordinators: both protocols, offsets, what an administrator asks."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.differential.drafts import PARTITIONS, Draft, Member
from tests.differential.steps import Name
from tidelog.wire.api import ApiKey as K

PROTOCOLS: Final = ("range", "roundrobin", "sticky")
SUBSCRIPTION: Final = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
"""No topics, in the form of Kafka's consumers, version 0."""
LONG_MS: Final = 900_000
"""A timeout that does not end within a sequence."""
TOO_LONG: Final = "m" * 4097
"""Metadata of an offset that is refused."""
OFFSETS: Final = (0, 1, 5, 10**6, 2**63 - 1, -1, -2)


def group(draft: Draft, usual: str) -> Any:
    """Mostly the group of the sequence's theme."""
    return draft.good_or(Name(usual), Name("classic"), Name("consumer"), Name("simple"), "")


def member(draft: Draft) -> Member:
    return draft.prng.choice(draft.members)


def member_id(draft: Draft, one: Member, name: Any) -> Any:
    """The id that the group gave the member, or that it chose itself."""
    text = name.text if isinstance(name, Name) else ""
    beats, joins = one.beats.get(text, []), one.joins.get(text, [])
    given = draft.ref(
        beats if text == "consumer" else joins,
        "member_id",
        otherwise=one.own_id if text == "consumer" else "",
    )
    return draft.good_or(given, "", "stranger", "x" * 30_000)


def generation(draft: Draft, one: Member, name: Any) -> Any:
    """The generation or member epoch that the member was given."""
    text = name.text if isinstance(name, Name) else ""
    consumer = text == "consumer"
    steps = one.beats.get(text, []) if consumer else one.joins.get(text, [])
    field = "member_epoch" if consumer else "generation_id"

    def given(plus: int) -> Any:
        return draft.ref(steps, field, otherwise=-1, plus=plus)

    return draft.good_or(given(0), given(1), given(-1), -1, -2, 2**31 - 1)


def instance(draft: Draft, one: Member) -> Any:
    return draft.good_or(one.instance, "static", "other", "", None)


def join(draft: Draft, usual: str) -> None:
    one, name = member(draft), group(draft, usual)
    # See `known.py`: a join that is refused for them makes a classic group in Kafka.
    is_shared = name == Name("share")
    types: tuple[str, ...] = () if is_shared else ("",)
    lists: tuple[list[Any], ...] = () if is_shared else ([],)
    known = [
        {"name": protocol, "metadata": SUBSCRIPTION}
        for protocol in PROTOCOLS[draft.prng.below(2) :]
    ]
    step = draft.add(
        K.JOIN_GROUP,
        one.slot,
        group_id=name,
        session_timeout=draft.good_or(LONG_MS, 0, 1, 10**9),
        rebalance_timeout=draft.good_or(LONG_MS, 10**9),
        member_id=member_id(draft, one, name),
        group_instance_id=instance(draft, one),
        protocol_type=draft.good_or("consumer", "connect", *types),
        protocols=draft.good_or(known, [{"name": "odd", "metadata": b""}], *lists),
        reason=draft.good_or(None, "why"),
    )
    if isinstance(name, Name):
        one.joins.setdefault(name.text, []).insert(0, step)


def sync(draft: Draft, usual: str) -> None:
    one, name = member(draft), group(draft, usual)
    text = name.text if isinstance(name, Name) else ""
    assignments = [
        {
            "member_id": draft.ref(each.joins.get(text, []), "member_id", otherwise="none"),
            "assignment": b"part of %d" % each.slot,
        }
        for each in draft.members
        if each.joins.get(text) and not draft.prng.chance(1, 10)
    ]
    draft.add(
        K.SYNC_GROUP,
        one.slot,
        group_id=name,
        generation_id=generation(draft, one, name),
        member_id=member_id(draft, one, name),
        group_instance_id=instance(draft, one),
        protocol_type=draft.good_or("consumer", "connect", None),
        protocol_name=draft.good_or(
            draft.ref(one.joins.get(text, []), "protocol_name", otherwise="range"), "odd", None
        ),
        assignments=draft.good_or(assignments, []),
    )


def heartbeat(draft: Draft, usual: str) -> None:
    one, name = member(draft), group(draft, usual)
    draft.add(
        K.HEARTBEAT,
        one.slot,
        group_id=name,
        generation_id=generation(draft, one, name),
        member_id=member_id(draft, one, name),
        group_instance_id=instance(draft, one),
    )


def leave(draft: Draft, usual: str) -> None:
    one, name = member(draft), group(draft, usual)
    gone = [one] if draft.prng.chance(4, 5) else draft.members
    draft.add(
        K.LEAVE_GROUP,
        one.slot,
        group_id=name,
        member_id=member_id(draft, one, name),
        members=draft.good_or(
            [
                {
                    "member_id": member_id(draft, each, name),
                    "group_instance_id": instance(draft, each),
                    "reason": None,
                }
                for each in gone
            ],
            [],
        ),
    )


def beat(draft: Draft, usual: str) -> None:
    """A heartbeat of the newer protocol: joins, stays or leaves."""
    one, name = member(draft), group(draft, usual)
    text = name.text if isinstance(name, Name) else ""
    joins = not one.beats.get(text) or draft.prng.chance(1, 5)
    epoch = 0 if joins else generation(draft, one, name)
    if joins and one.instance is not None and len(draft.steps) % 2:
        # A static member comes back under another id, or under its own.
        one.own_id = f"member-{one.slot}-{len(draft.steps)}"
    if not joins and draft.prng.chance(1, 6):
        epoch = draft.prng.choice((-1, -2))
    topics = draft.prng.choice(([Name("t0")], [Name("t0"), Name("t1")], [Name("none")], []))
    owned = [{"topic_id": draft.topic_id(Name("t0")), "partitions": [0, 1]}]
    step = draft.add(
        K.CONSUMER_GROUP_HEARTBEAT,
        one.slot,
        draft.prng.choice((1, 1, 1, 0)),
        group_id=name,
        member_id=draft.good_or(one.own_id, "", "stranger", "x" * 30_000)
        if joins
        else member_id(draft, one, name),
        member_epoch=epoch,
        instance_id=instance(draft, one) if joins or epoch == -2 else None,
        rack_id=None,
        rebalance_timeout=draft.good_or(LONG_MS, -1, 0) if joins else -1,
        subscribed_topic_names=draft.good_or(topics, None) if joins else None,
        subscribed_topic_regex=draft.good_or(None, "t.*", "[") if joins else None,
        server_assignor=draft.good_or(None, "uniform", "range", "odd"),
        topic_partitions=draft.good_or([], owned, None)
        if joins
        else draft.prng.choice((None, owned, [])),
    )
    if isinstance(name, Name):
        one.beats.setdefault(name.text, []).insert(0, step)


def commit(draft: Draft, usual: str) -> None:
    one, name = member(draft), group(draft, usual)
    simple = draft.prng.chance(1, 5) or name == Name("simple")
    draft.add(
        K.OFFSET_COMMIT,
        one.slot,
        group_id=name,
        generation_id_or_member_epoch=-1 if simple else generation(draft, one, name),
        generation_id=-1 if simple else generation(draft, one, name),
        member_id="" if simple else member_id(draft, one, name),
        group_instance_id=None if simple else instance(draft, one),
        retention_time=-1,
        retention_time_ms=-1,
        topics=offset_rows(draft),
    )


def offset_rows(draft: Draft) -> list[dict[str, Any]]:
    """What is committed of one topic."""
    topic = draft.topic()
    rows = draft.partitions(
        lambda index: {
            "partition_index": index,
            "committed_offset": draft.prng.choice(OFFSETS),
            "committed_leader_epoch": draft.good_or(0, -1, 9),
            "committed_metadata": draft.good_or("note", None, "", "m" * 4096, TOO_LONG),
        }
    )
    # A partition that does not exist is refused before the group is looked at.
    reach = [row for row in rows if row["partition_index"] in range(PARTITIONS)] or rows
    if all(row["committed_metadata"] == TOO_LONG for row in reach):
        # See `known.py`: a group none of whose offsets can be committed is in Kafka's memory only,
        # and DescribeGroups does not find it, even with members.
        reach[0]["committed_metadata"] = "note"
    return [{"name": topic, "topic_id": draft.topic_id(topic), "partitions": rows}]


def fetch_offsets(draft: Draft, usual: str) -> None:
    one, name = member(draft), group(draft, usual)
    topic = draft.topic()
    row = {"name": topic, "topic_id": draft.topic_id(topic), "partition_indexes": [0, 1, 9]}
    # A group without a name has what all runs have committed to it.
    topics = draft.prng.choice(([row], [row], None if name else [row], []))
    version = draft.version(K.OFFSET_FETCH)
    draft.add(
        K.OFFSET_FETCH,
        one.slot,
        version,
        group_id=name,
        topics=[row] if topics is None and version < 2 else topics,
        groups=[
            {
                "group_id": name,
                "member_id": draft.good_or(None, member_id(draft, one, name)),
                "member_epoch": draft.good_or(-1, generation(draft, one, name)),
                "topics": topics,
            }
        ],
        require_stable=draft.prng.chance(1, 2),
    )


def describe(draft: Draft, usual: str) -> None:
    names = [group(draft, usual), Name("absent")][: draft.prng.between(1, 2)]
    draft.add(
        K.DESCRIBE_GROUPS,
        draft.admin_slot,
        groups=names,
        include_authorized_operations=draft.prng.chance(1, 4),
    )


def describe_consumer(draft: Draft, usual: str) -> None:
    draft.add(
        K.CONSUMER_GROUP_DESCRIBE,
        draft.admin_slot,
        group_ids=[group(draft, usual)],
        include_authorized_operations=draft.prng.chance(1, 4),
    )


def list_groups(draft: Draft, usual: str) -> None:
    draft.add(
        K.LIST_GROUPS,
        draft.admin_slot,
        states_filter=draft.good_or([], ["Stable"], ["empty"], ["odd"], ["PreparingRebalance"]),
        types_filter=draft.good_or([], ["classic"], ["Consumer"], ["odd"]),
    )


def delete_groups(draft: Draft, usual: str) -> None:
    draft.add(K.DELETE_GROUPS, draft.admin_slot, groups_names=[group(draft, usual)])


def delete_offsets(draft: Draft, usual: str) -> None:
    draft.add(
        K.OFFSET_DELETE,
        draft.admin_slot,
        group_id=group(draft, usual),
        topics=[
            {
                "name": draft.topic(),
                "partitions": draft.partitions(lambda index: {"partition_index": index}),
            }
        ],
    )


def find(draft: Draft, usual: str) -> None:
    name = group(draft, usual)
    draft.add(
        K.FIND_COORDINATOR,
        draft.admin_slot,
        key=name,
        key_type=draft.good_or(draft.prng.below(2), 2, 3, -1),
        coordinator_keys=draft.good_or([name], [name, Name("other")], []),
    )


Draw = Callable[[Draft, str], None]
GROUP_DRAWS: Final[Mapping[K, Draw]] = {
    K.JOIN_GROUP: join,
    K.SYNC_GROUP: sync,
    K.HEARTBEAT: heartbeat,
    K.LEAVE_GROUP: leave,
    K.CONSUMER_GROUP_HEARTBEAT: beat,
    K.OFFSET_COMMIT: commit,
    K.OFFSET_FETCH: fetch_offsets,
    K.DESCRIBE_GROUPS: describe,
    K.CONSUMER_GROUP_DESCRIBE: describe_consumer,
    K.LIST_GROUPS: list_groups,
    K.DELETE_GROUPS: delete_groups,
    K.OFFSET_DELETE: delete_offsets,
    K.FIND_COORDINATOR: find,
}
