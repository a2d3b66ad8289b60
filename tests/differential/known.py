"""Differences that we know and keep, each with its reason; `docs/compat.md` lists them."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from tests.differential.admin_steps import BROKER, CLIENT_METRICS
from tests.differential.comparison import Difference
from tests.differential.steps import Step, has_long
from tidelog.wire.api import ApiKey as K

FIRST_LIST_WITH_STATES: Final = 4
FIRST_COMMIT_WITH_NO_GROUP: Final = 9
"""From then on OffsetCommit may answer GROUP_ID_NOT_FOUND, before that ILLEGAL_GENERATION."""


class Known(NamedTuple):
    """A difference that is not reported."""

    api: K | None
    """`None` for every API."""
    field: str
    """The end of the way to it."""
    what: str
    """For a reader: what Kafka does and what Tidelog does, and why."""
    holds: Callable[[Step, Difference], bool] = lambda step, difference: True
    """Which differences of the field it covers."""


def _is_assignment(step: Step, difference: Difference) -> bool:
    return "assignment" in difference.path


def _is_never(step: Step, difference: Difference) -> bool:
    """For what the generator does not draw, since what comes after it could not be compared."""
    return False


def _is_not_begun(step: Step, difference: Difference) -> bool:
    return difference.kafka == "-1"


def _is_absent(step: Step, difference: Difference) -> bool:
    return difference.tidelog in ("69", '"Dead"')


def _is_unknown_without_protocols(step: Step, difference: Difference) -> bool:
    return difference.tidelog == "25" and not (
        step.body["protocols"] and step.body["protocol_type"]
    )


def _may_be_empty(step: Step, difference: Difference) -> bool:
    return '"Empty"' in difference.kafka or step.version < FIRST_LIST_WITH_STATES


def _is_broker(step: Step, difference: Difference) -> bool:
    return any(row["resource_type"] == BROKER for row in step.body["resources"])


def _is_of_client_metrics(step: Step, difference: Difference) -> bool:
    return any(row["resource_type"] == CLIENT_METRICS for row in step.body["resources"])


NO_SHARE_LEADER: Final = (
    "Beside an error of a partition, Kafka names the leader 0 in ShareFetch and ShareAcknowledge, "
    "which may not exist. Tidelog names no leader: -1."
)
NO_CONFIGS: Final = "Client metrics have no configurations of their own: INVALID_REQUEST."
FIRST_PLACE: Final = (
    "Where a share group begins in a partition is in its state from the first acknowledgement on "
    "in Kafka, and in Tidelog before a record is delivered."
)
_GONE_GROUP: Final = (
    "A group whose last offset was deleted, none of whose offsets could be committed, or that has "
    "only given out member ids, stays in Kafka as an empty group until the next expiry. In Tidelog "
    "a group exists if its log has something of it or a client may come back: GROUP_ID_NOT_FOUND, "
    "and UNKNOWN_MEMBER_ID for a join without protocols."
)
_BESIDE: Final = (
    "Which member of a share group gets which of equally good partitions follows the order of a "
    "hash map in Kafka, and member ids in Tidelog. The states of share partitions are initialised "
    "beside the heartbeat in both, so the next answer has them or not."
)
_HASH_ORDER: Final = (
    "Which member of a consumer group gets which of equally good partitions follows the order of a "
    "hash map in Kafka, and member ids in Tidelog."
)
_REFUSED_UPGRADE: Final = (
    "A member of the newer protocol that is refused, for its regular expression, in a classic "
    "group that rebalances: Kafka has answered the requests that wait with REBALANCE_IN_PROGRESS "
    "before it refuses. In Tidelog they go on waiting."
)
_RETENTION: Final = (
    "What a topic's new retention lets go is deleted within `log.retention.check.interval.ms` in "
    "Kafka, and at once in Tidelog."
)
_BROKER_CONFIGS: Final = (
    "Kafka takes any key for a broker and ignores those that it does not know, and refuses bad "
    "values with INVALID_REQUEST. Tidelog refuses what it would not follow, with INVALID_CONFIG, "
    "and a broker that does not exist with BROKER_ID_NOT_REGISTERED."
)


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        None,
        "error_code",
        "Where Kafka's code fails with an exception that it does not expect, it answers "
        "UNKNOWN_SERVER_ERROR. Tidelog answers the code that says what is wrong, or does what was "
        "asked. A sequence ends there.",
        _is_never,
    ),
    Known(
        None,
        "(waiting)",
        "An error's message that quotes a text of some 32,700 bytes does not fit into an answer. "
        "Kafka fails while it writes the answer, and gives none or UNKNOWN_SERVER_ERROR. Tidelog "
        "cuts the message.",
        lambda step, difference: difference.kafka == "waits" and has_long(step.body),
    ),
    Known(
        K.CREATE_ACLS,
        "results.error_code",
        "The host of an access control entry is `*` or an address. Kafka takes any text, and an "
        "entry that holds for nothing.",
        _is_never,
    ),
    Known(
        K.PRODUCE,
        "partition_responses",
        "A transactional batch without a producer id is appended by Kafka. Tidelog refuses it with "
        "INVALID_RECORD, since no marker could ever end its transaction.",
        _is_never,
    ),
    Known(
        K.PRODUCE,
        "partition_responses",
        "A Produce whose records are null gets no answer from Kafka. Tidelog refuses it.",
        _is_never,
    ),
    Known(
        K.ALTER_CONFIGS,
        "responses",
        "A request that names a resource twice gets no answer from Kafka. Tidelog refuses it.",
        _is_never,
    ),
    Known(K.ALTER_CONFIGS, "error_code", NO_CONFIGS, _is_of_client_metrics),
    Known(K.INCREMENTAL_ALTER_CONFIGS, "error_code", NO_CONFIGS, _is_of_client_metrics),
    Known(
        K.DESCRIBE_CONFIGS,
        "configs",
        NO_CONFIGS,
        lambda step, difference: difference.tidelog == "[]" and "interval.ms" in difference.kafka,
    ),
    Known(
        K.CREATE_PARTITIONS,
        "results",
        "Internal topics grow in Kafka, and groups and transactional ids are in other partitions "
        "from the next start of each broker on. Tidelog refuses it with INVALID_TOPIC_EXCEPTION.",
        _is_never,
    ),
    Known(
        K.INITIALIZE_SHARE_GROUP_STATE,
        "error_code",
        "A state that begins without an offset begins once in each state epoch. Kafka begins it "
        "anew, and forgets what was acknowledged since.",
        _is_never,
    ),
    Known(K.READ_SHARE_GROUP_STATE, "start_offset", FIRST_PLACE, _is_not_begun),
    Known(K.READ_SHARE_GROUP_STATE_SUMMARY, "start_offset", FIRST_PLACE, _is_not_begun),
    Known(K.DESCRIBE_SHARE_GROUP_OFFSETS, "start_offset", FIRST_PLACE, _is_not_begun),
    Known(K.DESCRIBE_SHARE_GROUP_OFFSETS, "lag", FIRST_PLACE, _is_not_begun),
    Known(
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        "(waiting)",
        "For a partition that does not exist Kafka gives no answer. Tidelog gives the offset -1.",
    ),
    Known(
        None,
        "partitions",
        "What a request names twice is answered once by Kafka in DeleteRecords, DeleteTopics, "
        "AddPartitionsToTxn and ListOffsets, and as often as it is named by Tidelog.",
        _is_never,
    ),
    Known(
        K.PRODUCE,
        "partition_responses.error_code",
        "A Produce with wrong acks and something else that is wrong: Kafka looks at the records "
        "or at the producer, and begins its transaction. Tidelog looks at the acks "
        "(INVALID_REQUIRED_ACKS).",
        lambda step, difference: difference.tidelog == "21",
    ),
    Known(
        K.SHARE_GROUP_HEARTBEAT,
        "error_code",
        "A join of the classic protocol that is refused for its protocols leaves an empty classic "
        "group in Kafka's log, and no share group can have its name. In Tidelog it leaves nothing.",
        _is_never,
    ),
    Known(K.JOIN_GROUP, "error_code", _GONE_GROUP, _is_unknown_without_protocols),
    Known(
        K.JOIN_GROUP,
        "(waiting)",
        "A member that waits for a generation and joins again on another connection: Kafka never "
        "answers the former request. Tidelog answers it with REBALANCE_IN_PROGRESS.",
        _is_never,
    ),
    Known(
        K.SYNC_GROUP,
        "(waiting)",
        "A member that waits for its assignment and leaves the group on another connection: Kafka "
        "never answers its SyncGroup. Tidelog answers it with UNKNOWN_MEMBER_ID.",
        lambda step, difference: (difference.kafka, difference.tidelog) == ("waits", "answers 25"),
    ),
    Known(K.JOIN_GROUP, "(waiting)", _REFUSED_UPGRADE, _is_never),
    Known(K.SYNC_GROUP, "(waiting)", _REFUSED_UPGRADE, _is_never),
    Known(
        K.PRODUCE,
        "log_append_time",
        "To a batch that is there already Kafka answers with the time of its last record as that "
        "of the append, so a producer takes it for the time of each of its records. Tidelog "
        "answers -1: they have the times that the producer gave them.",
        lambda step, difference: difference.tidelog == "null",
    ),
    Known(K.OFFSET_DELETE, "error_code", _GONE_GROUP, _is_absent),
    Known(
        K.OFFSET_COMMIT,
        "error_code",
        _GONE_GROUP,
        lambda step, difference: (
            (difference.kafka, difference.tidelog)
            == ("25", "69" if step.version >= FIRST_COMMIT_WITH_NO_GROUP else "22")
        ),
    ),
    Known(K.OFFSET_DELETE, "topics", _GONE_GROUP),
    Known(K.ALTER_SHARE_GROUP_OFFSETS, "error_code", _GONE_GROUP, _is_never),
    Known(K.DELETE_GROUPS, "error_code", _GONE_GROUP, _is_absent),
    Known(K.DESCRIBE_GROUPS, "error_code", _GONE_GROUP, _is_absent),
    Known(K.DESCRIBE_GROUPS, "group_state", _GONE_GROUP, _is_absent),
    Known(K.DESCRIBE_GROUPS, "authorized_operations", _GONE_GROUP),
    Known(K.LIST_GROUPS, "groups", _GONE_GROUP, _may_be_empty),
    Known(K.ALTER_CONFIGS, "resources", _RETENTION, _is_never),
    Known(K.INCREMENTAL_ALTER_CONFIGS, "resources", _RETENTION, _is_never),
    Known(K.ALTER_CONFIGS, "error_code", _BROKER_CONFIGS, _is_broker),
    Known(K.INCREMENTAL_ALTER_CONFIGS, "error_code", _BROKER_CONFIGS, _is_broker),
    Known(K.DESCRIBE_CONFIGS, "configs", _BROKER_CONFIGS, _is_broker),
    *(
        Known(
            key,
            f"current_leader.{field}",
            NO_SHARE_LEADER,
            lambda step, difference: (difference.kafka, difference.tidelog) == ("0", "-1"),
        )
        for key in (K.SHARE_FETCH, K.SHARE_ACKNOWLEDGE)
        for field in ("leader_id", "leader_epoch")
    ),
    Known(
        K.DESCRIBE_CONFIGS,
        "configs",
        "Tidelog assigns the partitions of a group within the heartbeat, so a group has no "
        "configurations of when and where that happens.",
        lambda step, difference: "consumer.assignment.interval.ms" in difference.kafka,
    ),
    Known(K.SHARE_GROUP_HEARTBEAT, "", _BESIDE, _is_assignment),
    Known(K.SHARE_GROUP_DESCRIBE, "", _BESIDE, _is_assignment),
    Known(
        K.INITIALIZE_SHARE_GROUP_STATE,
        "state_epoch",
        "A share partition whose first state was refused gets it again from the next heartbeat in "
        "Tidelog, and in Kafka only after `group.share.initialize.retry.interval.ms`.",
        _is_never,
    ),
    Known(
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        "groups.topics",
        _BESIDE,
        lambda step, difference: "[]" in (difference.kafka, difference.tidelog),
    ),
    Known(K.CONSUMER_GROUP_HEARTBEAT, "", _HASH_ORDER, _is_assignment),
    Known(K.CONSUMER_GROUP_DESCRIBE, "", _HASH_ORDER, _is_assignment),
    Known(
        K.PRODUCE,
        "log_start_offset",
        "Of a Produce that is refused, Kafka reports the log's start for some errors and -1 for "
        "others. Tidelog reports -1.",
    ),
    Known(
        K.DESCRIBE_QUORUM,
        "",
        "For another partition than that of the metadata, Kafka leaves out leader, epoch and "
        "nodes beside the error. Tidelog gives them. Offsets of the metadata log are not compared.",
    ),
    Known(
        K.ELECT_LEADERS,
        "error_code",
        "An election of an unknown kind is INVALID_REQUEST, also with nothing to elect.",
        lambda step, difference: not step.body["topic_partitions"],
    ),
    Known(
        K.ELECT_LEADERS,
        "replica_election_results",
        "Asked for all partitions, Kafka names every topic, also those of which it has nothing to "
        "say. Tidelog names topics with partitions that were to change.",
        lambda step, difference: (
            step.body["topic_partitions"] is None and difference.tidelog == "[]"
        ),
    ),
)


def begins_a_group(step: Step, found: Sequence[Difference]) -> bool:
    """Whether Tidelog makes a share group where Kafka keeps an empty one of another type: nothing
    behind that can be compared."""
    return step.key == K.ALTER_SHARE_GROUP_OFFSETS and found[:1] == (
        Difference("error_code", "69", "0"),
    )


def ends_waits(step: Step, codes: Collection[int], found: Difference) -> bool:
    """Whether this heartbeat, which both brokers refused with these codes, is why Kafka has
    answered a request that waited."""
    return (
        step.key == K.CONSUMER_GROUP_HEARTBEAT
        and any(codes)
        and found == Difference("(waiting)", "answers 27", "waits")
    )


def is_known(step: Step, difference: Difference) -> bool:
    """Whether it is one of `KNOWN`."""
    return any(
        known.api in (None, step.key)
        and difference.path.endswith(known.field)
        and known.holds(step, difference)
        for known in KNOWN
    )
