"""`tidelog topics …`: create, list, describe, alter and delete topics of any Kafka cluster."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from tidelog.cli import terminal
from tidelog.cli.arguments import ConfigItems, argument, assignments, command, command_group, option
from tidelog.cli.terminal import TABLE, Output, OutputFormat
from tidelog.errors import ErrorCode, UsageError

if TYPE_CHECKING:
    from tidelog.client import AdminClient
    from tidelog.client.core.descriptions import PartitionDescription, TopicDescription

topics_app = command_group(
    "Create, list, describe, alter and delete topics.",
    "topics create orders --partitions 6 --replication-factor 3",
)

MAX_PARTITIONS: Final = 2**31 - 1
MAX_REPLICATION_FACTOR: Final = 2**15 - 1
"""The largest numbers that a request can carry."""

Name = Annotated[str, argument("NAME", "The topic.")]


@command(
    topics_app,
    "create",
    "topics create orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2",
)
def create(
    admin: "AdminClient",
    name: Name,
    partitions: Annotated[
        int, option("--partitions", "-1: the cluster's default.", "N", max=MAX_PARTITIONS)
    ] = -1,
    replication_factor: Annotated[
        int,
        option(
            "--replication-factor", "-1: the cluster's default.", "N", max=MAX_REPLICATION_FACTOR
        ),
    ] = -1,
    config: ConfigItems = None,
    if_not_exists: Annotated[
        bool, option("--if-not-exists", "Succeed if the topic exists.")
    ] = False,
    output: Output = TABLE,
) -> None:
    """Create a topic."""
    from tidelog.client import AdminError

    created = True
    try:
        admin.create_topic(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=assignments(config),
        )
    except AdminError as error:
        if not if_not_exists or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        created = False
    terminal.print_answer(
        output,
        {"topic": name, "created": created},
        f"{'created' if created else 'already exists:'} `{name}`",
    )


@command(topics_app, "list", "topics list --output json")
def list_(admin: "AdminClient", output: Output = TABLE) -> None:
    """List the names of all topics."""
    names = admin.list_topics()
    if output is OutputFormat.JSON:
        terminal.print_json(names)
    else:
        for name in names:
            terminal.print_line(name)


@command(topics_app, "describe", "topics describe orders")
def describe(
    admin: "AdminClient",
    names: Annotated[list[str] | None, argument("[NAME]…", "Topics; all if none is given.")] = None,
    output: Output = TABLE,
) -> None:
    """Show leaders, epochs, replicas, ISR and ELR, and each replica's own offsets.

    Replicas that a reassignment adds or removes are named below the replicas.
    """
    wanted = list(names) if names else admin.list_topics()
    topics = (
        admin.describe_topics(wanted, replica_logs=True, configs=True, moves=True) if wanted else []
    )
    if output is OutputFormat.JSON:
        terminal.print_json(terminal.plain(topics))
        return
    for topic in topics:
        _print_topic(topic)


def _print_topic(topic: "TopicDescription") -> None:
    configs = " ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
    title = f"{topic.name}  id={topic.topic_id}  {configs}".rstrip()
    # In two lines where one would make the table wider than 80 columns.
    columns = (
        *("parti-\ntion", "leader", "epoch", "replicas", "ISR", "ELR", "node"),
        *("log\nstart", "high\nwater-\nmark", "log\nend"),
    )
    terminal.print_table(
        title, columns, [_partition_row(partition) for partition in topic.partitions]
    )


def _partition_row(partition: "PartitionDescription") -> list[Any]:
    logs = partition.replica_logs
    return [
        partition.partition,
        "none" if partition.leader < 0 else str(partition.leader),
        partition.leader_epoch,
        _replicas(partition),
        terminal.ids(partition.isr),
        terminal.ids(partition.eligible_leaders),
        "\n".join(str(log.node_id) for log in logs),
        "\n".join(terminal.offset(log.log_start_offset) for log in logs),
        "\n".join(terminal.offset(log.high_watermark) for log in logs),
        "\n".join(terminal.offset(log.log_end_offset) for log in logs),
    ]


def _replicas(partition: "PartitionDescription") -> str:
    lines = [terminal.ids(partition.replicas)]
    if partition.adding:
        lines.append(f"adding {terminal.ids(partition.adding)}")
    if partition.removing:
        lines.append(f"removing {terminal.ids(partition.removing)}")
    return "\n".join(lines)


@command(topics_app, "alter", "topics alter orders --config retention.ms=60000")
def alter(
    admin: "AdminClient",
    name: Name,
    partitions: Annotated[
        int | None, option("--partitions", "Grow to this many partitions.", "N", max=MAX_PARTITIONS)
    ] = None,
    config: ConfigItems = None,
    delete_config: Annotated[
        list[str] | None, option("--delete-config", "Go back to the default.", "NAME")
    ] = None,
    output: Output = TABLE,
) -> None:
    """Add partitions to a topic, or change its configuration."""
    changes = assignments(config)
    if partitions is None and not changes and not delete_config:
        raise UsageError(
            f"nothing to change of `{name}`",
            "give `--partitions N`, `--config NAME=VALUE` or `--delete-config NAME`",
        )
    if delete_config:
        _check_names(delete_config, admin.topic_config_names(name))
    if changes or delete_config:
        admin.alter_topic_configs(name, changes, delete_config or [])
    if partitions is not None:
        admin.create_partitions(name, partitions)
    terminal.print_answer(output, {"topic": name, "altered": True}, f"altered `{name}`")


def _check_names(given: list[str], known: list[str]) -> None:
    """A cluster deletes an unknown configuration without an error: typing errors are found here."""
    from difflib import get_close_matches

    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            hint = f"did you mean `{near[0]}`?" if near else f"a topic has: {', '.join(known)}"
            raise UsageError(f"`{name}` is not a topic configuration", hint)


@command(topics_app, "delete", "topics delete orders")
def delete(admin: "AdminClient", name: Name, output: Output = TABLE) -> None:
    """Delete a topic and its records."""
    admin.delete_topic(name)
    terminal.print_answer(output, {"topic": name, "deleted": True}, f"deleted `{name}`")
