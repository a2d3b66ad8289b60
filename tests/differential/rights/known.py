"""Differences of the matrix of rights that we know and keep, each with its reason;
`docs/compat.md` lists them. An entry that no case needs is reported: it would hide what comes."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.differential import known
from tests.differential.comparison import Difference
from tests.differential.rights.cases import ANONYMOUS, BROKER_LOGGER, CLIENT_METRICS, Question
from tests.unit.broker.authorization_matrix import INVALID, PRESENT
from tests.unit.broker.rights_table import CONTROLLER
from tidelog.wire.api import ApiKey as K


class Known(NamedTuple):
    """A difference that is not reported."""

    api: K
    fields: frozenset[str]
    """The ways to it."""
    what: str
    """For a reader: what Kafka does and what Tidelog does, and why."""
    holds: Callable[[Question, Difference], bool]


def _is_replica_elsewhere(question: Question, difference: Difference) -> bool:
    is_replica = question.case.row.values.get("replica_id", -1) >= 0
    is_denied = (difference.kafka, difference.tidelog) in (("6", "29"), ("null", "[]"))
    return is_denied and is_replica and question.listener == ANONYMOUS


def _is_refused_by_exception(question: Question, difference: Difference) -> bool:
    return difference.kafka in ("-1", "[]", "0", '""')


_PARTITION: Final = "responses.partitions."

KNOWN: Final[tuple[Known, ...]] = (
    Known(
        K.FETCH,
        frozenset((f"{_PARTITION}error_code", f"{_PARTITION}aborted_transactions")),
        "A Fetch with a replica id, by another listener than that between brokers: Kafka asks for "
        "CLUSTER_ACTION alone, and then misses the broker's epoch. Tidelog refuses it as denied.",
        _is_replica_elsewhere,
    ),
    Known(
        K.SHARE_FETCH,
        frozenset(
            (f"{_PARTITION}current_leader.leader_id", f"{_PARTITION}current_leader.leader_epoch")
        ),
        known.NO_SHARE_LEADER,
        lambda question, difference: difference.tidelog == "-1",
    ),
    Known(
        K.SHARE_FETCH,
        frozenset(("error_code", "responses", "acquisition_lock_timeout")),
        "A topic id that is unknown, in the first request of a session: Kafka fails with "
        "UNKNOWN_SERVER_ERROR. Tidelog answers UNKNOWN_TOPIC_ID.",
        lambda question, difference: (
            question.case.name != PRESENT and _is_refused_by_exception(question, difference)
        ),
    ),
    Known(
        K.DESCRIBE_PRODUCERS,
        frozenset(("topics.partitions.error_code",)),
        "Kafka looks at the name of a topic before the rights. Tidelog authorizes first.",
        lambda question, difference: (
            question.case.name == INVALID and (difference.kafka, difference.tidelog) == ("17", "29")
        ),
    ),
    Known(
        K.ALTER_CONFIGS,
        frozenset(("responses.error_code",)),
        "The logger of a broker: Kafka looks at the type before the rights. Tidelog authorizes "
        "first.",
        lambda question, difference: (
            question.case.row.values["resource_type"] == BROKER_LOGGER
            and (difference.kafka, difference.tidelog) == ("42", "31")
        ),
    ),
    *(
        Known(
            key,
            frozenset(("responses.error_code",)),
            known.NO_CONFIGS,
            lambda question, difference: (
                question.case.row.values["resource_type"] == CLIENT_METRICS
                and (difference.kafka, difference.tidelog) == ("0", "42")
            ),
        )
        for key in (K.ALTER_CONFIGS, K.INCREMENTAL_ALTER_CONFIGS)
    ),
    Known(
        K.FETCH_SNAPSHOT,
        frozenset(("error_code", "topics", "node_endpoints")),
        "An error about the snapshot that is asked for: Kafka fails while it writes the answer, "
        "with UNKNOWN_SERVER_ERROR. Tidelog answers the error.",
        _is_refused_by_exception,
    ),
    Known(
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        frozenset(("error_code", "results.error_code", "results.user")),
        "Kafka's controller lists this API and does not know it: UNKNOWN_SERVER_ERROR for "
        "every client. Tidelog answers as a broker does.",
        lambda question, difference: (
            question.listener == CONTROLLER and _is_refused_by_exception(question, difference)
        ),
    ),
)


def known_as(question: Question, difference: Difference) -> Known | None:
    """The entry that knows it, if there is one."""
    return next(
        (
            each
            for each in KNOWN
            if each.api is question.case.row.key
            and difference.path in each.fields
            and each.holds(question, difference)
        ),
        None,
    )
