"""Links between nodes, and between clients and nodes, that can be cut.

In front of every listener of every node stands a proxy on a port of its own, and this port is what
the node advertises (and what the other voters have in `controller.quorum.voters`). So every
connection goes through a proxy, and the product knows nothing of it.

A *link* is a pair (from, to) of node ids; `CLIENT` stands for every process that is not a node. The
proxy asks the kernel which process owns the other end. A link has a direction, so a one-way cut
lets requests through and holds the answers, or the other way round.

- `hold`: bytes wait, and so does the end of a connection; a new connection is accepted and gets
  no answer. After `release` everything is delivered, late but in order, as TCP would.
- `reset`: connections are reset, bytes under way are lost.
- `refuse`: the same, and every new connection is reset until `release`.

A connect through a proxy would succeed although no node listens behind it. The proxy of a dead node
therefore closes its own port, so that connects are refused as they would be without it, and opens
it when the node is back. One limit remains: across a held link a connect succeeds, where a network
would let it time out.
"""

import asyncio
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
CLIENT: Final = 0
_POLL_S: Final = 0.02
_KNOWN_FOR_S: Final = 0.1

Link = tuple[int, int]


class Route(NamedTuple):
    """One proxy: whose listener, on which port it stands, where it leads."""

    node_id: int
    port: int
    target_port: int


def _reset(transport: asyncio.Transport) -> None:
    """Ends a connection with an RST."""
    if not transport.is_closing():
        # Lingering for no time at all: what is unsent is dropped, and the peer gets an RST.
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


class _End(asyncio.Protocol):
    """One of the two sockets of a proxied connection; what it receives goes to the other one."""

    def __init__(self, links: "_Board", link: Link) -> None:
        self._links = links
        # From whom to whom the bytes go that arrive here.
        self.link = link
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None
        # What waits for the link, and whether the end of the stream follows it.
        self._held: list[bytes] = []
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), transport
        self.transport = transport
        self._links.ends.add(self)

    def data_received(self, data: bytes) -> None:
        if self.is_waiting():
            self._held.append(data)
            self.pause()
        else:
            self._write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._links.on_end(self)
        if self.link not in self._links.held:
            self.pass_on()

    def is_waiting(self) -> bool:
        """Whether bytes cannot go on: the link is held, or the way behind it is not open yet."""
        return self.link in self._links.held or self.other is None or self.other.transport is None

    def pass_on(self) -> None:
        """Delivers what was held, the end included."""
        held, self._held = self._held, []
        for data in held:
            self._write(data)
        if self._ended:
            self._links.ends.discard(self)
            if self.other is not None and self.other.transport is not None:
                self.other.transport.close()
        elif self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """Resets this side."""
        self._held.clear()
        self._links.ends.discard(self)
        if self.transport is not None:
            _reset(self.transport)

    def pause(self) -> None:
        """Stops reading; the sender's kernel fills up."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.is_waiting():
            self.other.pass_on()

    def _write(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)


class _Board:
    """The state of links and connections; only the event loop's thread touches it."""

    def __init__(self, on_end: Callable[[_End], None]) -> None:
        self.held: set[Link] = set()
        self.refused: set[Link] = set()
        self.ends: set[_End] = set()
        self.on_end = on_end


class _Proxy:
    """The proxy of one listener."""

    def __init__(self, route: Route, board: _Board, node_at: Callable[[int, int], int]) -> None:
        self.route = route
        self._board = board
        self._node_at = node_at
        self._server: asyncio.Server | None = None
        self._following: asyncio.Task[None] | None = None
        self._accepted: set[asyncio.Task[None]] = set()
        # Whether nothing is to be begun any more.
        self._closed = False

    async def open(self) -> None:
        """Opens the port as soon as the node listens behind it."""
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Ends everything."""
        self._closed = True
        tasks = [task for task in (self._following, *self._accepted) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    def on_lost(self) -> None:
        """A connection to the node has ended: is it dead?"""
        if not self._closed and (self._following is None or self._following.done()):
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        """Until the port here is open exactly if the one behind is."""
        while not await self._is_up():
            if self._server is not None:
                self._server.close()
                self._server = None
            await asyncio.sleep(_POLL_S)
        while self._server is None:
            try:
                self._server = await asyncio.get_running_loop().create_server(
                    lambda: _Accepted(self), HOST, self.route.port, backlog=1024
                )
            except OSError:
                await asyncio.sleep(_POLL_S)

    async def _is_up(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, self.route.target_port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    def accept(self, transport: asyncio.Transport) -> None:
        """A client or another node has connected."""
        port = transport.get_extra_info("peername")[1]
        link = (self._node_at(port, self.route.port), self.route.node_id)
        if {link, link[::-1]} & self._board.refused:
            _reset(transport)
            return
        near = _End(self._board, link)
        transport.set_protocol(near)
        near.connection_made(transport)
        near.pause()
        task = asyncio.get_running_loop().create_task(self._connect(near, link))
        self._accepted.add(task)
        task.add_done_callback(self._accepted.discard)

    async def _connect(self, near: _End, link: Link) -> None:
        while {link, link[::-1]} & self._board.held:
            await asyncio.sleep(_POLL_S)
        far = _End(self._board, link[::-1])
        far.other = near
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: far, HOST, self.route.target_port
            )
        except OSError:
            near.abort()
            self.on_lost()
            return
        near.other = far
        if near.transport is None or near.transport.is_closing():
            far.abort()
        elif not near.is_waiting():
            near.pass_on()


class _Accepted(asyncio.Protocol):
    """Hands an accepted transport to its proxy."""

    def __init__(self, proxy: _Proxy) -> None:
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), transport
        self._proxy.accept(transport)


class Links:
    """All proxies of a cluster, on a thread of their own. A context manager."""

    def __init__(self, routes: Collection[Route], pids: Callable[[], Mapping[int, int]]) -> None:
        """`pids` gives the process of each node that runs now."""
        self.routes = tuple(routes)
        self._pids = pids
        # What it gave last, and when; a node takes far longer to start than this is believed.
        self._known_pids: dict[int, int] = {}
        self._known_at = 0.0
        self._board = _Board(self._on_end)
        self._proxies = [_Proxy(route, self._board, self._node_at) for route in self.routes]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Links":
        self._thread.start()
        for proxy in self._proxies:
            asyncio.run_coroutine_threadsafe(proxy.open(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._proxies:
            asyncio.run_coroutine_threadsafe(proxy.close(), self._loop).result()
        self._do(lambda: [end.abort() for end in list(self._board.ends)])
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold(self, links: Collection[Link]) -> None:
        """Nothing passes these links until `release`."""
        self._do(lambda: self._board.held.update(links))

    def reset(self, links: Collection[Link]) -> None:
        """Resets the connections on these links, in both directions."""
        wanted = {*links, *(link[::-1] for link in links)}
        self._do(lambda: self._reset(wanted))

    def refuse(self, links: Collection[Link]) -> None:
        """Resets them, and every new one until `release`."""
        self._do(lambda: self._board.refused.update(links))
        self.reset(links)

    def release(self, links: Collection[Link] | None = None) -> None:
        """Heals these links, or all; what was held is delivered."""
        wanted = None if links is None else set(links)
        self._do(lambda: self._release(wanted))

    def _do(self, action: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(60), "the proxies' thread does not answer"

    def _reset(self, wanted: set[Link]) -> None:
        for end in list(self._board.ends):
            if end.link in wanted:
                end.abort()

    def _release(self, wanted: set[Link] | None) -> None:
        for links in (self._board.held, self._board.refused):
            links.difference_update(links.copy() if wanted is None else wanted)
        for end in list(self._board.ends):
            if not end.is_waiting():
                end.pass_on()

    def _on_end(self, end: _End) -> None:
        for proxy in self._proxies:
            if proxy.route.node_id == end.link[0]:
                proxy.on_lost()

    def _node_at(self, port: int, proxy_port: int) -> int:
        inode = _inode_of(port, proxy_port)
        if not inode:
            return CLIENT
        owner = self._owner(inode)
        if owner is None and time.monotonic() - self._known_at > _KNOWN_FOR_S:
            self._known_pids, self._known_at = dict(self._pids()), time.monotonic()
            owner = self._owner(inode)
        return CLIENT if owner is None else owner

    def _owner(self, inode: int) -> int | None:
        found = (node_id for node_id, pid in self._known_pids.items() if _owns(pid, inode))
        return next(found, None)


_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_HEADER: Final = struct.Struct("=IHHII")
_INODE_AT: Final = _HEADER.size + 4 + 48 + 16


def _inode_of(port: int, peer_port: int) -> int | None:
    """The socket with these ports, as the kernel numbers it.

    Asked for by its addresses (sock_diag): the table in `/proc/net/tcp` has every socket of the
    machine, and reading it for each connection is what a cluster that reconnects cannot afford.
    """
    address = socket.inet_aton(HOST).ljust(16, b"\0")
    any_interface_and_cookie = bytes(4) + b"\xff" * 8
    wanted = struct.pack("!HH", port, peer_port) + address * 2 + any_interface_and_cookie
    kind = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    length = _HEADER.size + len(kind) + len(wanted)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(_HEADER.pack(length, _BY_FAMILY, 1, 1, 0) + kind + wanted)
            answer = kernel.recv(4096)
    except (OSError, AttributeError):
        # Not Linux, or not allowed: every process counts as a client.
        return None
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
    return int(inode)


def _owns(pid: int, inode: int) -> bool:
    """Whether a process has this socket open."""
    wanted = f"socket:[{inode}]"
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(_target(entry.path) == wanted for entry in entries)
    except OSError:
        return False


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return ""
