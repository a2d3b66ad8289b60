"""Reading a node's properties file."""

import socket
from collections.abc import Mapping
from pathlib import Path

from tidelog.config import NodeConfig, parse_node_config, parse_properties, require_known
from tidelog.errors import UsageError


def read_node_config(path: Path, overrides: Mapping[str, str] | None = None) -> NodeConfig:
    """The configuration of a node from its file, overrides on top. Raises `UsageError` for an
    unreadable file, for everything that is wrong in it, and for an override of an unknown name."""
    require_known(overrides or ())
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"`{path}` cannot be read: {reason}", "give the path of a node's properties file"
        ) from None
    settings = {**parse_properties(text), **(overrides or {})}
    # Looking the name up may ask a name server, so only a file that needs it pays for it.
    needs_name = "://:" in settings.get("listeners", "://:")
    return parse_node_config(settings, hostname=socket.getfqdn() if needs_name else "localhost")
