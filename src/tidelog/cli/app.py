"""The `tidelog` command: its verbs, and what becomes of errors.

Exit codes: 0 done, 1 the answer is bad or the work was refused, 2 wrong use, 3 no answer, try
again, 130 interrupted. Every error is one message and one hint; a stack trace comes only with
`--debug`, which may stand anywhere.

Commands import what they need when they run: `tidelog --help` loads no protocol, and a command
whose packages are an extra (`demo` needs Spark) says so only when it is asked for.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from tidelog import __version__
from tidelog.cli.acls import acls_app
from tidelog.cli.arguments import command, option
from tidelog.cli.brokers import brokers_app
from tidelog.cli.cluster import down, nodes_app, status, up
from tidelog.cli.consume import consume
from tidelog.cli.dump_log import dump_log
from tidelog.cli.exit_codes import EXIT_BAD, EXIT_DONE, EXIT_INTERRUPTED, EXIT_NO_ANSWER, EXIT_USAGE
from tidelog.cli.groups import groups_app
from tidelog.cli.migrate import migrate_app
from tidelog.cli.node import format_, random_uuid, server
from tidelog.cli.produce import produce
from tidelog.cli.quorum import quorum_app
from tidelog.cli.quotas import quotas_app
from tidelog.cli.records import records_app
from tidelog.cli.sim import sim_app
from tidelog.cli.sim_campaign import campaign
from tidelog.cli.spark import spark_app
from tidelog.cli.terminal import BadAnswer, NoAnswer, WorkFailed, print_error, print_line
from tidelog.cli.topics import topics_app
from tidelog.cli.transactions import transactions_app
from tidelog.cli.users import users_app
from tidelog.errors import ErrorCode, StorageError, UnwritableText, UsageError

_UNREACHABLE: Final = (
    "look at the nodes with `tidelog status`, and at their logs; if the listener has TLS or "
    "logins, give `--command-config FILE`"
)

app = typer.Typer(
    help="Kafka's replicated log in Python: brokers, a KRaft quorum, a local cluster in seconds.",
    epilog="Example: tidelog up --detach && tidelog topics create orders --partitions 6",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def _tidelog(
    context: typer.Context,
    version: Annotated[bool, option("--version", "Show the version.")] = False,
    debug: Annotated[bool, option("--debug", "Show stack traces; may stand anywhere.")] = False,
) -> None:
    if version:
        print_line(f"tidelog {__version__}")
    elif context.invoked_subcommand is None:
        print_line(context.get_help())


command(app, "up", "up --brokers 3 --profile test --detach")(up)
command(app, "down", "down --data-dir tidelog-data")(down)
command(app, "status", "status --output json")(status)
app.add_typer(nodes_app, name="nodes")
command(app, "server", "server server.properties --override log.dirs=/data/1")(server)
command(app, "format", "format server.properties --cluster-id MkU3OEVBNTcwNTJENDM2Qk")(format_)
command(app, "random-uuid", "random-uuid")(random_uuid)
app.add_typer(topics_app, name="topics")
app.add_typer(brokers_app, name="brokers")
app.add_typer(records_app, name="records")
command(app, "produce", "produce orders --format '{key}:{value}' < orders.txt")(produce)
command(app, "consume", "consume orders --from latest --follow --format json")(consume)
app.add_typer(groups_app, name="groups")
app.add_typer(transactions_app, name="transactions")
app.add_typer(acls_app, name="acls")
app.add_typer(users_app, name="users")
app.add_typer(quotas_app, name="quotas")
app.add_typer(quorum_app, name="quorum")
app.add_typer(migrate_app, name="migrate")
command(sim_app, "campaign", "sim campaign --jobs 2 --rounds 10")(campaign)
app.add_typer(sim_app, name="sim")
app.add_typer(spark_app, name="spark")
command(app, "dump-log", "dump-log --deep tidelog-data/node-1/data/orders-0/*.log")(dump_log)


@app.command(
    "demo",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def demo(context: typer.Context) -> None:
    """Produce real data, kill a leader, and prove with Spark that nothing was lost."""
    try:
        module: Any = import_module("tidelog.cli.demo")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tidelog"):
            raise
        raise UsageError(
            f"the demo needs the package `{error.name}`",
            "install it with `pip install tidelog[demo]`",
        ) from None
    command = typer.main.get_command(module.app)
    code = command.main(args=context.args, prog_name="tidelog demo", standalone_mode=False)
    if isinstance(code, int) and code:
        raise typer.Exit(code)


# The fault of a wrong option or argument, from whichever click this typer stands on.
_Misuse: Final[Any] = typer.BadParameter.__mro__[2]


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit code."""
    debug = "--debug" in arguments
    try:
        rest = [argument for argument in arguments if argument != "--debug"]
        command = typer.main.get_command(app)
        code = command.main(args=rest, prog_name="tidelog", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_DONE
    except BaseException as error:
        if debug and not isinstance(error, BadAnswer):
            raise
        return _report(error, arguments)


def _report(error: BaseException, arguments: Sequence[str]) -> int:
    """Prints what went wrong and returns the exit code. Bugs are raised again."""
    from tidelog.client import AdminError, Unreachable

    match error:
        case BadAnswer() | BrokenPipeError():
            return EXIT_BAD
        case SystemExit(code=int(code)):
            return code
        case typer.Exit():
            return int(error.exit_code)
        case KeyboardInterrupt() | typer.Abort():
            return EXIT_INTERRUPTED
        case UsageError():
            print_error(error.message, error.hint)
            return EXIT_USAGE
        case UnwritableText():
            print_error(error.message, "no name of anything is that long; look at the command")
            return EXIT_USAGE
        case WorkFailed():
            print_error(error.message, error.hint)
            return EXIT_NO_ANSWER if isinstance(error, NoAnswer) else EXIT_BAD
        case AdminError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            print_error(error.message, "list the topics with `tidelog topics list`")
            return EXIT_BAD
        case AdminError(code=code) if code.name.endswith("_AUTHORIZATION_FAILED"):
            print_error(error.message, "an administrator may allow it with `tidelog acls add`")
            return EXIT_BAD
        case AdminError():
            print_error(error.message, "the cluster refused; correct the command and try again")
            return EXIT_BAD
        case Unreachable() | TimeoutError():
            print_error(str(error), _UNREACHABLE)
            return EXIT_NO_ANSWER
        case StorageError():
            print_error(str(error), "check the disk and its permissions")
            return EXIT_NO_ANSWER
        case OSError():
            named = "" if error.filename is None else f"`{error.filename}`: "
            print_error(f"{named}{error.strerror or error}", "check the disk and its permissions")
            return EXIT_NO_ANSWER
    if isinstance(error, _Misuse):
        context = getattr(error, "ctx", None)
        path = "tidelog" if context is None else context.command_path
        written = " ".join(("tidelog", *arguments))
        print_error(f"{error.format_message()} (in `{written}`)", f"run `{path} --help`")
        return EXIT_USAGE
    raise error
