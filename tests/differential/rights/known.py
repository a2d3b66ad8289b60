"""Differences of the matrix of rights that we know and keep, each with its reason;
`docs/compat.md` lists them. Those of the other differential tests are known here too."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.differential import known
from tests.differential.comparison import Difference
from tests.differential.rights.cases import Question, values
from tests.differential.steps import Step
from tests.unit.broker.authorization_matrix import INVALID, PRESENT, filled
from tidelog.wire import codec
from tidelog.wire.api import ApiKey as K
from tidelog.wire.entities import plain


class Known(NamedTuple):
    """A difference that is not reported."""

    api: K
    field: str
    """The end of the way to it."""
    what: str
    """For a reader: what Kafka does and what Tidelog does, and why."""
    holds: Callable[[Question, Difference], bool] = lambda question, difference: True


_LEADER: Final = (
    "Beside an error of a partition, Kafka names no leader in Fetch, and the leader 0 in "
    "ShareFetch. Tidelog names the leader that it knows in Fetch, and none in ShareFetch."
)


_WHOLE: Final = (
    "An answer that is an error as a whole has no rows in Kafka. In Tidelog it has the rows of the "
    "topics that were denied before."
)


def _is_error(question: Question, difference: Difference) -> bool:
    return difference.kafka == "[]"


KNOWN: Final[tuple[Known, ...]] = (
    Known(K.FETCH, "leader_epoch", _LEADER),
    Known(K.FETCH, "leader_id", _LEADER),
    Known(K.SHARE_FETCH, "leader_epoch", _LEADER),
    Known(K.SHARE_FETCH, "leader_id", _LEADER),
    Known(K.SHARE_ACKNOWLEDGE, "responses", _WHOLE, _is_error),
    Known(K.ALTER_SHARE_GROUP_OFFSETS, "responses", _WHOLE, _is_error),
    Known(K.DELETE_SHARE_GROUP_OFFSETS, "responses", _WHOLE, _is_error),
    Known(K.OFFSET_DELETE, "topics", _WHOLE, _is_error),
    Known(
        K.SHARE_FETCH,
        "",
        "A topic id that is unknown, in the first request of a session: Kafka fails with "
        "UNKNOWN_SERVER_ERROR. Tidelog answers UNKNOWN_TOPIC_ID.",
        lambda question, difference: question.case.name != PRESENT,
    ),
    Known(
        K.DESCRIBE_PRODUCERS,
        "error_code",
        "Kafka looks at the name of a topic before the rights. Tidelog authorizes first.",
        lambda question, difference: question.case.name == INVALID and difference.kafka == "17",
    ),
)


def is_known(question: Question, difference: Difference) -> bool:
    """Whether it is one of `KNOWN`, or of those of the other differential tests."""
    key = question.case.row.key
    if any(
        each.api is key
        and difference.path.endswith(each.field)
        and each.holds(question, difference)
        for each in KNOWN
    ):
        return True
    return known.is_known(_step(question), difference)


def _step(question: Question) -> Step:
    case = question.case
    kind = codec.request_class(case.row.key, case.version)
    ids = dict.fromkeys(("orders", "nothing", "no/topic"), bytes(16))
    body = plain(filled(kind, values(question, ids)))
    return Step(0, 0, int(case.row.key), case.version, body)
