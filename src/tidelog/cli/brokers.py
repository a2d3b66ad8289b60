"""`tidelog brokers …`: the brokers that a cluster knows, whether they run or not."""

from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import command, command_group, option
from tidelog.cli.terminal import TABLE, Output, WorkFailed, ids, print_answer
from tidelog.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.client import AdminClient

MAX_BROKER_ID: Final = 2**31 - 1
"""The largest id that a request can carry."""

brokers_app = command_group(
    "Unregister brokers that will not come back.", "brokers unregister --id 4"
)


@brokers_app.callback()
def _brokers() -> None:
    """Makes the subcommands a group, although there is one only."""


@command(brokers_app, "unregister", "brokers unregister --id 4")
def unregister(
    admin: "AdminClient",
    broker_id: Annotated[int, option("--id", "The broker's id.", "ID", min=0, max=MAX_BROKER_ID)],
    output: Output = TABLE,
) -> None:
    """Remove the registration of a broker that will not come back.

    Its replicas stay assigned to it: reassign them first. A broker that still runs registers again.
    """
    from tidelog.client import AdminError

    try:
        admin.unregister_broker(broker_id)
    except AdminError as error:
        if error.code is not ErrorCode.BROKER_ID_NOT_REGISTERED:
            raise
        known = ids([node.node_id for node in admin.describe_cluster().nodes])
        raise WorkFailed(error.message, f"use the id of a registered broker: {known}") from None
    print_answer(
        output, {"broker": broker_id, "unregistered": True}, f"unregistered broker {broker_id}"
    )
