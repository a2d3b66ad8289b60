"""`tidelog server` and `tidelog format`: one node, from its properties file."""

import os
import sys
from pathlib import Path
from typing import Annotated

from tidelog.cli.arguments import argument, option
from tidelog.cli.terminal import TABLE, Output, print_answer, print_line
from tidelog.errors import UsageError

PropertiesFile = Annotated[
    Path, argument("FILE.properties", "The node's properties, as Kafka has them.")
]


def server(
    file: PropertiesFile,
    override: Annotated[
        list[str] | None, option("--override", "A property, instead of the file's.", "NAME=VALUE")
    ] = None,
) -> None:
    """Run one node in the foreground. Ctrl-C or SIGTERM stops it cleanly."""
    command = [sys.executable, "-m", "tidelog.runtime.server", str(file)]
    for item in override or ():
        command += ["--override", item]
    # The same process, without the memory of a command-line framework.
    os.execv(command[0], command)


def random_uuid() -> None:
    """Print a new id, for a cluster or for a directory."""
    from tidelog.model import uuid_to_text
    from tidelog.runtime.formatting import new_uuid

    print_line(uuid_to_text(new_uuid()))


def format_(
    file: PropertiesFile,
    cluster_id: Annotated[str, option("--cluster-id", "The same on every node.", "ID")],
    ignore_formatted: Annotated[
        bool, option("--ignore-formatted", "Leave a formatted directory as it is.")
    ] = False,
    standalone: Annotated[
        bool, option("--standalone", "Begin a quorum with this controller alone.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        option(
            "--initial-controllers",
            "Begin a quorum with these controllers; the same list on each.",
            "ID@HOST:PORT:DIRECTORY,…",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, option("--no-initial-controllers", "Join a quorum that exists.")
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        option(
            "--add-scram",
            "A user of SCRAM from the beginning; the same on every controller.",
            "'SCRAM-SHA-512=[name=…,password=…]'",
        ),
    ] = None,
    output: Output = TABLE,
) -> None:
    """Format a node's data directory."""
    from tidelog.runtime.first_users import parse_first_users
    from tidelog.runtime.formatting import FirstVoters, format_node
    from tidelog.runtime.node_file import read_node_config

    if not cluster_id.strip() or not cluster_id.isprintable():
        raise UsageError(
            f"`{cluster_id}` is not a cluster id",
            "use 22 letters and digits, the same on every node",
        )
    config = read_node_config(file)
    written = format_node(
        config,
        cluster_id,
        ignore_formatted=ignore_formatted,
        first_voters=FirstVoters(standalone, initial_controllers, no_initial_controllers),
        first_users=parse_first_users(add_scram or ()),
    )
    report = {
        "node_id": config.node_id,
        "cluster_id": cluster_id,
        "log_dir": config.log_dir,
        "log_dirs": list(config.all_log_dirs),
        "formatted": written,
    }
    names = ", ".join(f"`{directory}`" for directory in config.all_log_dirs)
    text = f"formatted {names} for node {config.node_id} of `{cluster_id}`"
    was = "were" if config.more_log_dirs else "was"
    print_answer(output, report, text if written else f"{names} {was} formatted already")
