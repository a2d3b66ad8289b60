"""`tidelog migrate …`: from Apache Kafka to Tidelog, and back, node by node on the same disks.

`check` looks for what would hinder: in a node's properties file and its directories, offline, and
in a running cluster. `plan` prints the order of the nodes and what to watch. Neither writes.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli import terminal
from tidelog.cli.arguments import DEFAULT_DATA_DIR, admin_client, command, command_group, option
from tidelog.cli.terminal import TABLE, BadAnswer, Output
from tidelog.errors import UsageError

if TYPE_CHECKING:
    from tidelog.cli.migrate_checks import Finding

migrate_app = command_group(
    "Change a cluster of Apache Kafka into one of Tidelog, node by node, and back.",
    "migrate check --properties server.properties",
)

_COLUMNS = ("severity", "place", "reason", "hint")


class Kind(StrEnum):
    """Whose programs the nodes shall run."""

    TIDELOG = "tidelog"
    KAFKA = "kafka"


@command(migrate_app, "check", "migrate check --properties server.properties --output json")
def check(
    properties: Annotated[
        list[Path] | None,
        option("--properties", "A node's properties file; may be given many times.", "FILE"),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        option("--bootstrap-server", "Any brokers of the running cluster.", "HOST:PORT,…"),
    ] = None,
    output: Output = TABLE,
) -> None:
    """Name what hinders nodes of Tidelog from taking the places of nodes of Kafka.

    Exit code 1 when something hinders; notes alone are 0. Nothing is written.
    """
    from tidelog.cli.migrate_checks import Severity, check_cluster, check_node

    if not properties and bootstrap_server is None:
        raise UsageError(
            "nothing to check", "give `--properties FILE`, `--bootstrap-server HOST:PORT`, or both"
        )
    findings: list[Finding] = []
    cluster_ids: dict[str, str] = {}
    for file in properties or ():
        of_node = check_node(file)
        findings += of_node.findings
        cluster_ids |= of_node.cluster_ids
    if bootstrap_server is not None:
        with admin_client(bootstrap_server, DEFAULT_DATA_DIR) as admin:
            findings += check_cluster(admin, cluster_ids)
    hinders = [each for each in findings if each.severity is Severity.HINDERS]
    found = {"fit": not hinders, "findings": terminal.plain(findings)}

    def show() -> None:
        if findings:
            rows = [(each.severity, each.place, each.reason, each.hint) for each in findings]
            terminal.print_table("", _COLUMNS, rows)
        terminal.print_line(
            f"{terminal.counted(len(hinders), 'hindrance')}, "
            f"{terminal.counted(len(findings) - len(hinders), 'note')}"
        )

    terminal.print_answer(output, found, show)
    if hinders:
        raise BadAnswer


@command(migrate_app, "plan", "migrate plan --bootstrap-server kafka-1:9092")
def plan(
    bootstrap_server: Annotated[
        str, option("--bootstrap-server", "Any brokers of the running cluster.", "HOST:PORT,…")
    ],
    to: Annotated[Kind, option("--to", "What the nodes shall become.")] = Kind.TIDELOG,
    output: Output = TABLE,
) -> None:
    """Print the order in which the nodes change, and what to watch after each."""
    from tidelog.cli.migrate_checks import plan_steps

    with admin_client(bootstrap_server, DEFAULT_DATA_DIR) as admin:
        steps = plan_steps(admin, to.value)

    def show() -> None:
        rows = [(number, s.node_id, s.role, s.why) for number, s in enumerate(steps, 1)]
        terminal.print_table("", ("step", "node", "role", "why in this place"), rows)
        for line in steps[0].do if steps else ():
            terminal.print_line(line)

    terminal.print_answer(output, {"to": to.value, "steps": terminal.plain(steps)}, show)
