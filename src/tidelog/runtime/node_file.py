"""Reading a node's properties file."""

import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tidelog.config import NodeConfig, parse_node_config, parse_properties, require_known
from tidelog.config.secret_properties import secrets_in
from tidelog.errors import UsageError
from tidelog.tls.stores import is_open_to_all


def read_node_config(path: Path, overrides: Mapping[str, str] | None = None) -> NodeConfig:
    """The configuration of a node from its file, overrides on top. Raises `UsageError` for an
    unreadable file, for everything that is wrong in it, and for an override of an unknown name.

    Secrets in a file that every user may read are named in `exposed` and not refused: Kafka starts
    with such a file, and a node must start with Kafka's."""
    require_known(overrides or ())
    try:
        text, is_open = path.read_text(encoding="utf-8"), is_open_to_all(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"`{path}` cannot be read: {reason}", "give the path of a node's properties file"
        ) from None
    written = parse_properties(text)
    settings = {**written, **(overrides or {})}
    # Looking the name up may ask a name server, so only a file that needs it pays for it.
    needs_name = "://:" in settings.get("listeners", "://:")
    hostname = socket.getfqdn() if needs_name else "localhost"
    exposed = secrets_in(written) if is_open else ()
    return replace(parse_node_config(settings, hostname=hostname), exposed=exposed)
