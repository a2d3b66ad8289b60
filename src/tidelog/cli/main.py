"""The entry point of the `tidelog` script, kept light.

`tidelog up` is measured from the key press to three ready nodes. Most of that time goes into
importing: the node's code in the launcher, the command line here. So the launcher is started
before anything else is imported, and both import at the same time.

SIGTERM and a closed terminal interrupt a command as Ctrl-C does: nodes that it started are stopped,
its temporary files go, a group is left, and the exit code is 130.
"""

import signal
import sys

from tidelog.cli.exit_codes import EXIT_INTERRUPTED


def main() -> None:
    """Runs the command line of this process and exits."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    arguments = sys.argv[1:]
    early = None
    try:
        if arguments[:1] == ["up"] and not {"-h", "--help"} & set(arguments):
            from tidelog.testing.launching import prepare_launcher

            early = prepare_launcher()
        from tidelog.cli.app import run

        code = run(arguments)
    except KeyboardInterrupt:
        # While it imported: `run` answers for what comes after.
        code = EXIT_INTERRUPTED
    if early is not None:
        early.cancel()
    # `python -m` ends by SIGINT, whatever the code, if the last text that was executed was
    # interrupted: dataclasses execute one each, hundreds while this imports. So one more is.
    exec("")
    sys.exit(code)


if __name__ == "__main__":
    main()
