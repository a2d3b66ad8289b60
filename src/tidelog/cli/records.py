"""`tidelog records …`: delete the oldest records of a partition, of any Kafka cluster."""

from typing import Annotated

from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    MAX_OFFSET,
    MAX_PARTITION,
    Bootstrap,
    DataDir,
    admin_client,
    command,
    command_group,
    hinted,
    option,
)
from tidelog.cli.terminal import TABLE, Output, print_answer
from tidelog.errors import ErrorCode

records_app = command_group(
    "Delete the oldest records of a partition.",
    "records delete --topic orders --partition 0 --before-offset 4200",
)


@records_app.callback()
def _records() -> None:
    """Makes the subcommands a group, although there is one only."""


@command(records_app, "delete", "records delete --topic orders --partition 0 --before-offset 4200")
def delete(
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
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: Output = TABLE,
) -> None:
    """Delete all records below an offset, on every replica.

    Done when no replica that is alive serves them any more. It cannot be taken back.
    """
    hints = {
        ErrorCode.OFFSET_OUT_OF_RANGE: "only what is committed can be deleted: `tidelog topics "
        f"describe {topic}` shows the high watermark",
        ErrorCode.POLICY_VIOLATION: "a topic that is only compacted keeps the last record of each "
        f"key: `tidelog topics alter {topic} --config cleanup.policy=compact,delete` allows it",
        ErrorCode.REQUEST_TIMED_OUT: "the leader has deleted them, another replica is slow: "
        f"`tidelog topics describe {topic}` shows where each log starts",
    }
    with admin_client(bootstrap, data_dir) as admin:
        low_watermark = hinted(hints, lambda: admin.delete_records(topic, partition, before_offset))
    print_answer(
        output,
        {"topic": topic, "partition": partition, "low_watermark": low_watermark},
        f"`{topic}-{partition}` starts at {low_watermark}",
    )
