"""`tidelog quorum …`: the metadata quorum."""

import typer

from tidelog.cli.arguments import DEFAULT_DATA_DIR, Bootstrap, DataDir, find_bootstrap
from tidelog.cli.output import Output, OutputFormat, plain, print_json, print_line, print_table

quorum_app = typer.Typer(
    help="Look at the metadata quorum.",
    epilog="Example: tidelog quorum describe",
    rich_markup_mode=None,
)


@quorum_app.callback()
def _quorum() -> None:
    """Keeps `describe` a word of its own although it is the only one."""


@quorum_app.command("describe", epilog="Example: tidelog quorum describe --output json")
def describe(
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the quorum's leader, its epoch, and how far each voter is."""
    from tidelog.testing.admin_client import AdminClient

    with AdminClient(find_bootstrap(bootstrap, data_dir)) as admin:
        quorum = admin.describe_quorum()
    if output is OutputFormat.JSON:
        print_json(plain(quorum))
        return
    print_line(
        f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}"
    )
    rows = [(v.node_id, "voter", v.log_end_offset, v.lag) for v in quorum.voters]
    rows += [(v.node_id, "observer", v.log_end_offset, v.lag) for v in quorum.observers]
    print_table("", ("node", "role", "log end", "lag"), rows)
