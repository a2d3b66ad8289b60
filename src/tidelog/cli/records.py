"""`tidelog records …`: delete the oldest records of a partition, of any Kafka cluster."""

from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import MAX_OFFSET, MAX_PARTITION, command, command_group, option
from tidelog.cli.terminal import TABLE, Output, print_answer
from tidelog.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.client import AdminClient

_HINTS: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "only what is committed can be deleted: `tidelog topics "
    "describe {topic}` shows the high watermark",
    ErrorCode.POLICY_VIOLATION: "a topic that is only compacted keeps the last record of each "
    "key: `tidelog topics alter {topic} --config cleanup.policy=compact,delete` allows it",
    ErrorCode.REQUEST_TIMED_OUT: "the leader has deleted them, another replica is slow: "
    "`tidelog topics describe {topic}` shows where each log starts",
}

records_app = command_group(
    "Delete the oldest records of a partition.",
    "records delete --topic orders --partition 0 --before-offset 4200",
)


@records_app.callback()
def _records() -> None:
    """Makes the subcommands a group, although there is one only."""


@command(
    records_app,
    "delete",
    "records delete --topic orders --partition 0 --before-offset 4200",
    hints=_HINTS,
)
def delete(
    admin: "AdminClient",
    topic: Annotated[str, option("--topic", metavar="NAME")],
    partition: Annotated[int, option("--partition", metavar="P", min=0, max=MAX_PARTITION)],
    before_offset: Annotated[
        int,
        option(
            "--before-offset",
            "The first offset that stays; -1 deletes all that is committed.",
            "N",
            min=-1,
            max=MAX_OFFSET,
        ),
    ],
    output: Output = TABLE,
) -> None:
    """Delete all records below an offset, on every replica.

    Done when no replica that is alive serves them any more. It cannot be taken back.
    """
    low_watermark = admin.delete_records(topic, partition, before_offset)
    print_answer(
        output,
        {"topic": topic, "partition": partition, "low_watermark": low_watermark},
        f"`{topic}-{partition}` starts at {low_watermark}",
    )
