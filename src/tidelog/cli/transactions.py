"""`tidelog transactions …`: see transactions of any Kafka cluster, and end one that hangs."""

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import (
    MAX_OFFSET,
    MAX_PARTITION,
    argument,
    command,
    command_group,
    option,
)
from tidelog.cli.terminal import (
    TABLE,
    BadAnswer,
    Output,
    moment,
    plain,
    print_answer,
    print_found,
    print_rows,
)
from tidelog.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.client import AdminClient
    from tidelog.client.transactions import TransactionDescription

DEFAULT_HANGING_S: Final = 900
"""The longest timeout that brokers allow transactions by default (`transaction.max.timeout.ms`)."""

transactions_app = command_group(
    "See transactions, and abort one that no coordinator will end.",
    "transactions describe copier --output json",
)

_HINTS: Final = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`tidelog transactions list` shows the ids that there "
    "are; one that is not used is forgotten after `transactional.id.expiration.ms`",
    ErrorCode.INVALID_TXN_STATE: "`tidelog transactions find-hanging` shows where transactions "
    "hang",
    ErrorCode.INVALID_PRODUCER_EPOCH: "its producer has gone on meanwhile: look again",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "its coordinator has ended it meanwhile: look again",
}


@command(transactions_app, "list", "transactions list --output json")
def list_(admin: "AdminClient", output: Output = TABLE) -> None:
    """List all transactional ids with their states."""
    found = admin.transactions.list()
    columns = ("transactional id", "state", "producer id", "coordinator")
    fields = attrgetter("transactional_id", "state", "producer_id", "coordinator")
    print_found(output, found, columns, fields)


@command(transactions_app, "describe", "transactions describe copier", hints=_HINTS)
def describe(
    admin: "AdminClient",
    name: Annotated[str, argument("ID", "The transactional id.")],
    output: Output = TABLE,
) -> None:
    """Show a transactional id: its producer, and the transaction that is open or ending."""
    found = admin.transactions.describe(name)
    value = {**plain(found), "partitions": [tp._asdict() for tp in found.partitions]}
    print_rows(output, value, ("", ""), _lines(found))


def _lines(found: "TransactionDescription") -> list[list[object]]:
    return [
        ["transactional id", found.transactional_id],
        ["state", found.state],
        ["producer id", found.producer_id],
        ["producer epoch", found.producer_epoch],
        ["timeout", f"{found.timeout_ms / 1000:g} s"],
        ["began", moment(found.start_ms)],
        ["partitions", ", ".join(map(str, found.partitions)) or "-"],
    ]


@command(transactions_app, "find-hanging", "transactions find-hanging --topic orders")
def find_hanging(
    admin: "AdminClient",
    topic: Annotated[str | None, option("--topic", "Only this one.", "NAME")] = None,
    older_than_s: Annotated[
        float,
        option(
            "--older-than",
            "Only those whose last record is so old; give the longest timeout of your producers.",
            "SECONDS",
            min=0,
        ),
    ] = DEFAULT_HANGING_S,
    output: Output = TABLE,
) -> None:
    """Find open transactions that no coordinator will end; exit code 1 when there are some.

    Readers of committed data wait at their first records for ever.
    """
    topics = None if topic is None else [topic]
    found = admin.transactions.hanging(topics, round(older_than_s * 1000))
    columns = ("topic", "partition", "start offset", "producer id", "epoch", "last record")
    fields = attrgetter("topic", "partition", "start_offset", "producer_id", "producer_epoch")
    print_found(output, found, columns, lambda it: (*fields(it), moment(it.last_timestamp_ms)))
    if found:
        raise BadAnswer


@command(
    transactions_app,
    "abort",
    "transactions abort --topic orders --partition 0 --start-offset 4200",
    hints=_HINTS,
)
def abort(
    admin: "AdminClient",
    topic: Annotated[str, option("--topic", metavar="NAME")],
    partition: Annotated[int, option("--partition", metavar="P", min=0, max=MAX_PARTITION)],
    start_offset: Annotated[
        int,
        option(
            "--start-offset",
            "Where the transaction begins, as `find-hanging` shows it.",
            "N",
            min=0,
            max=MAX_OFFSET,
        ),
    ],
    output: Output = TABLE,
) -> None:
    """Abort a transaction in one partition, without its coordinator.

    Only for one that hangs: of a transaction that its coordinator commits later, this partition
    would be missing.
    """
    found = admin.transactions.abort(topic, partition, start_offset)
    print_answer(
        output,
        {**plain(found), "aborted": True},
        f"aborted the transaction of producer {found.producer_id} in `{topic}-{partition}`",
    )
