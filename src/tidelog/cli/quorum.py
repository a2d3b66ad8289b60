"""`tidelog quorum …`: the metadata quorum, its voters and observers, and their lag."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli import terminal
from tidelog.cli.arguments import argument, command, command_group, option
from tidelog.cli.terminal import TABLE, Output, OutputFormat
from tidelog.errors import UsageError

if TYPE_CHECKING:
    from tidelog.client import AdminClient

quorum_app = command_group(
    "Describe the metadata quorum, and add or remove voters.", "quorum describe"
)


@command(quorum_app, "describe", "quorum describe --output json")
def describe(admin: "AdminClient", output: Output = TABLE) -> None:
    """Show the quorum's leader, its epoch, and how far each voter and observer has replicated."""
    quorum = admin.describe_quorum()
    if output is OutputFormat.JSON:
        terminal.print_json(terminal.plain(quorum))
        return
    terminal.print_line(
        f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}"
    )
    leader = [voter for voter in quorum.voters if voter.node_id == quorum.leader_id]
    now_ms = leader[0].last_fetch_ms if leader else -1

    def ago(when_ms: int) -> str:
        return "never" if when_ms < 0 else f"{max(0, now_ms - when_ms)} ms"

    rows = [
        (
            row.node_id,
            role,
            row.log_end_offset,
            row.lag,
            ago(row.last_fetch_ms),
            ago(row.last_caught_up_ms),
            row.directory_id,
        )
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for row in replicas
    ]
    columns = ("node", "role", "log end", "lag", "last fetch", "caught up", "directory")
    terminal.print_table("", columns, rows)


@command(
    quorum_app, "add-controller", "quorum add-controller controller-4.properties", timeout_s=30.0
)
def add_controller(
    admin: "AdminClient",
    file: Annotated[Path, argument("FILE.properties", "The properties of the new controller.")],
) -> None:
    """Make a controller that runs and follows the quorum one of its voters."""
    from tidelog.log.identity import read_identity
    from tidelog.runtime.node_file import read_node_config
    from tidelog.runtime.os_disk import OsDisk

    config = read_node_config(file)
    if not config.is_controller:
        raise UsageError(
            f"node `{config.node_id}` is not a controller", "give the properties of a controller"
        )
    directory_id = read_identity(OsDisk(config.log_dir)).directory_id
    listeners = config.advertised_controller_listeners
    admin.add_voter(config.node_id, directory_id, listeners)
    terminal.print_line(f"controller {config.node_id} is a voter now")


@command(
    quorum_app,
    "remove-controller",
    "quorum remove-controller --controller-id 3 --controller-directory-id 8o2mlfZ2TLmuyc9w0cFR0Q",
    timeout_s=30.0,
)
def remove_controller(
    admin: "AdminClient",
    controller_id: Annotated[int, option("--controller-id", metavar="ID")],
    directory_id: Annotated[
        str, option("--controller-directory-id", "As `describe` shows it.", "DIRECTORY")
    ],
) -> None:
    """Take a controller out of the voters, whether it runs or not."""
    from tidelog.model import uuid_from_text

    try:
        directory = uuid_from_text(directory_id)
    except ValueError:
        raise UsageError(
            f"`{directory_id}` is not a directory id", "copy it from `tidelog quorum describe`"
        ) from None
    admin.remove_voter(controller_id, directory)
    terminal.print_line(f"controller {controller_id} is not a voter any more")
