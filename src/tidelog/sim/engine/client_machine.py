"""The machine on which all simulated clients run: their connections, and who gets what arrives."""

from dataclasses import dataclass, field
from typing import Final

from tidelog.env.effects import CloseReason
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.network import End, Network

CLIENT: Final = "client"
BROKER_LISTENER: Final = "PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"


class ClientPort:
    """The receiving side of one simulated client."""

    def on_connected(self, connection_id: int) -> None:
        """The stream is up."""

    def on_closed(self, connection_id: int) -> None:
        """The stream is gone, or could not be made."""

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes arrived."""


@dataclass(slots=True, eq=False)
class ClientMachine:
    """It is a `network.Machine`."""

    network: Network
    name: str = CLIENT
    ends: dict[int, End] = field(default_factory=dict)
    powered: bool = True
    listening: bool = False
    # The client that gets the events of a connection.
    ports: dict[int, ClientPort] = field(default_factory=dict)
    # Counts down: clients open connections, they accept none.
    next_id: int = -1

    def open(self, port: ClientPort, target: Host, listener: str = BROKER_LISTENER) -> int:
        """Connects a client to a listener of a node; returns the connection id."""
        connection_id = self.next_id
        self.next_id -= 1
        self.ports[connection_id] = port
        target_port = next(e.port for e in target.config.listeners if e.listener == listener)

        def wanted() -> bool:
            return connection_id in self.ports

        def done(up: bool) -> None:
            if up:
                port.on_connected(connection_id)
            else:
                self.on_closed(connection_id, CloseReason.REFUSED)

        self.network.connect((CLIENT, connection_id), (target.name, target_port), wanted, done)
        return connection_id

    def send(self, connection_id: int, data: bytes) -> None:
        """Sends a client's bytes."""
        end = self.ends.get(connection_id)
        if end is not None:
            self.network.send(end, data)

    def close(self, connection_id: int) -> None:
        """Closes a client's end; its port gets no further events."""
        self.ports.pop(connection_id, None)
        end = self.ends.pop(connection_id, None)
        if end is not None:
            self.network.close(end)

    def new_connection_id(self) -> int:
        """Clients are not connected to."""
        raise AssertionError("a client does not listen")

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        """Clients are not connected to."""
        raise AssertionError("a client does not listen")

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes for the client."""
        self.ports[connection_id].on_bytes(connection_id, data)

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """The stream of the client ended."""
        self.ports.pop(connection_id).on_closed(connection_id)
