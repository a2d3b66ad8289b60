"""`tidelog groups …`: see, reset and delete the groups of any Kafka cluster."""

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

from tidelog.cli.arguments import MAX_PARTITION, argument, command, command_group, option
from tidelog.cli.positions import WHERE, Bounds, Position, partitions_of
from tidelog.cli.terminal import (
    TABLE,
    Output,
    OutputFormat,
    plain,
    print_answer,
    print_found,
    print_json,
    print_rows,
    print_table,
)
from tidelog.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.client import AdminClient

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
def list_(admin: "AdminClient", output: Output = TABLE) -> None:
    """List all groups with their states."""
    groups = admin.groups.list()
    fields = attrgetter("group_id", "state", "group_type", "protocol_type", "coordinator")
    columns = ("group", "state", "type", "protocol", "coordinator")
    print_found(output, groups, columns, fields)


@command(groups_app, "describe", "groups describe billing", hints=_HINTS)
def describe(admin: "AdminClient", name: Name, output: Output = TABLE) -> None:
    """Show the members of a group, what it has committed, and how far it is behind."""
    group = admin.groups.describe(name)
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
        readers = {each.member_id for each in group.progress}
        rows += [
            ["-", "-", "-", "-", "-", each.member_id]
            for each in group.members
            if each.member_id not in readers
        ]
        print_table(title, columns, rows)


@command(
    groups_app,
    "reset-offsets",
    "groups reset-offsets billing --topic orders --to earliest",
    hints=_HINTS,
)
def reset_offsets(
    admin: "AdminClient",
    name: Name,
    topic: Annotated[str, option("--topic", metavar="NAME")],
    to: Annotated[str, option("--to", f"{WHERE}.", "WHERE")],
    partition: Annotated[
        int | None, option("--partition", "Only this one.", "P", min=0, max=MAX_PARTITION)
    ] = None,
    dry_run: Annotated[
        bool, option("--dry-run", "Show what would be committed, and commit nothing.")
    ] = False,
    output: Output = TABLE,
) -> None:
    """Commit other offsets for a group without members, which it goes on from."""
    position = Position.parse(to)
    groups = admin.groups
    partitions = partitions_of(groups, topic, partition)
    offsets = Bounds.of(groups, partitions).offsets_at(groups, position)
    before = groups.offsets(name)
    if not dry_run:
        groups.reset(name, offsets)
    rows = [[*each, _shown(before.get(each, -1)), offsets[each]] for each in sorted(partitions)]
    value = {
        "group": name,
        "committed": not dry_run,
        "offsets": [{"topic": row[0], "partition": row[1], "offset": row[3]} for row in rows],
    }
    print_rows(output, value, ("topic", "partition", "before", "after"), rows)


@command(groups_app, "delete", "groups delete billing", hints=_HINTS)
def delete(admin: "AdminClient", name: Name, output: Output = TABLE) -> None:
    """Delete a group without members, and all that it has committed."""
    admin.groups.delete(name)
    print_answer(output, {"group": name, "deleted": True}, f"deleted group `{name}`")


def _shown(offset: int) -> int | str:
    return "-" if offset < 0 else offset
