"""`tidelog groups …`: see, reset and delete the groups of any Kafka cluster."""

from typing import Annotated, Any, Final

from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    Bootstrap,
    DataDir,
    admin_client,
    argument,
    command,
    command_group,
    option,
)
from tidelog.cli.terminal import (
    TABLE,
    Output,
    OutputFormat,
    WorkFailed,
    plain,
    print_answer,
    print_json,
    print_rows,
    print_table,
)
from tidelog.errors import ErrorCode, UsageError

MAX_PARTITION: Final = 2**31 - 1

groups_app = command_group(
    "See, reset and delete consumer groups.", "groups describe billing --output json"
)

Name = Annotated[str, argument("NAME", "The group.")]

_HINTS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: "`tidelog groups list` shows the groups that there are",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first: `tidelog groups describe` shows them",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop its members first: `tidelog groups describe` shows them",
    ErrorCode.REBALANCE_IN_PROGRESS: "stop its members first: they decide what is committed",
}


@command(groups_app, "list", "groups list --output json")
def list_(
    bootstrap: Bootstrap = None, data_dir: DataDir = DEFAULT_DATA_DIR, output: Output = TABLE
) -> None:
    """List all groups with their states."""
    with admin_client(bootstrap, data_dir) as admin:
        groups = admin.groups.list()
    rows = [
        [each.group_id, each.state, each.group_type, each.protocol_type, each.coordinator]
        for each in groups
    ]
    columns = ("group", "state", "type", "protocol", "coordinator")
    print_rows(output, plain(groups), columns, rows)


@command(groups_app, "describe", "groups describe billing")
def describe(
    name: Name,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: Output = TABLE,
) -> None:
    """Show the members of a group, what it has committed, and how far it is behind."""
    with admin_client(bootstrap, data_dir) as admin:
        group = _hinted(lambda: admin.groups.describe(name))
    lag = sum(max(0, each.lag) for each in group.progress)
    if output is OutputFormat.JSON:
        progress = [{**plain(each), "lag": each.lag} for each in group.progress]
        print_json({**plain(group), "progress": progress, "lag": lag})
    else:
        title = f"{group.group_id}  {group.group_type}  {group.state}  "
        title += f"members={len(group.members)}  lag={lag}"
        columns = ("topic", "partition", "committed", "log end", "lag", "member")
        rows: list[list[Any]] = [
            [
                each.topic,
                each.partition,
                _shown(each.committed_offset),
                _shown(each.log_end_offset),
                _shown(each.lag),
                each.member_id or "-",
            ]
            for each in group.progress
        ]
        print_table(title, columns, rows)


@command(groups_app, "reset-offsets", "groups reset-offsets billing --topic orders --to earliest")
def reset_offsets(
    name: Name,
    topic: Annotated[str, option("--topic", metavar="NAME")],
    to: Annotated[str, option("--to", "`earliest`, `latest` or an offset.", "WHERE")],
    partition: Annotated[
        int | None, option("--partition", "Only this one.", "P", min=0, max=MAX_PARTITION)
    ] = None,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: Output = TABLE,
) -> None:
    """Commit other offsets for a group without members, which it goes on from."""
    from tidelog.client.core.values import EARLIEST, LATEST

    with admin_client(bootstrap, data_dir) as admin:
        groups = admin.groups
        partitions = [
            each
            for each in _hinted(lambda: groups.partitions_of(topic))
            if partition in (None, each.partition)
        ]
        if not partitions:
            raise WorkFailed(
                f"`{topic}` has no partition `{partition}`",
                f"`tidelog topics describe {topic}` shows its partitions",
            )
        bounds = groups.ends(partitions, EARLIEST), groups.ends(partitions, LATEST)
        unknown = [each for each in partitions if not all(each in bound for bound in bounds)]
        if unknown:
            raise WorkFailed(
                f"the leader of `{unknown[0]}` does not answer", "try again when it has a leader"
            )
        places = {"earliest": bounds[0], "latest": bounds[1]}
        if to in places:
            offsets = places[to]
        else:
            offset = _offset(to)
            offsets = {
                each: min(max(offset, bounds[0][each]), bounds[1][each]) for each in partitions
            }
        before = groups.offsets(name)
        _hinted(lambda: groups.reset(name, offsets))
    rows = [[*each, _shown(before.get(each, -1)), offsets[each]] for each in sorted(partitions)]
    value = {
        "group": name,
        "offsets": [{"topic": row[0], "partition": row[1], "offset": row[3]} for row in rows],
    }
    print_rows(output, value, ("topic", "partition", "before", "after"), rows)


@command(groups_app, "delete", "groups delete billing")
def delete(
    name: Name,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: Output = TABLE,
) -> None:
    """Delete a group without members, and all that it has committed."""
    with admin_client(bootstrap, data_dir) as admin:
        _hinted(lambda: admin.groups.delete(name))
    print_answer(output, {"group": name, "deleted": True}, f"deleted group `{name}`")


def _offset(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"`{text}` is not a place", "use `earliest`, `latest` or an offset")
    return int(text)


def _shown(offset: int) -> int | str:
    return "-" if offset < 0 else offset


def _hinted(ask: Any) -> Any:
    """The result, or the refusal with a hint."""
    from tidelog.client import AdminError

    try:
        return ask()
    except AdminError as error:
        if error.code not in _HINTS:
            raise
        raise WorkFailed(error.message, _HINTS[error.code]) from None
