"""Opening a connection to another node: resolve, try each address, give up in time.

A refusal counts only when every address refuses: the failure detector takes it as "the process is
gone", while a timeout or an unreachable network proves nothing about the process.

On one machine a connection to a port without a listener can connect *to itself*, when the kernel
happens to choose that very port as the source. It would look like a live node and keep the real one
from binding its port, so it counts as refused.
"""

import asyncio
import socket
from collections.abc import Callable

from tidelog.env.effects import CloseReason
from tidelog.runtime.connection import set_options


async def dial(
    loop: asyncio.AbstractEventLoop,
    factory: Callable[[], asyncio.BufferedProtocol],
    host: str,
    port: int,
    *,
    timeout_ms: int,
) -> CloseReason | None:
    """Connects and calls `connection_made` of the protocol. Returns why it failed, or `None`."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            sock = await _connect(loop, host, port)
    except TimeoutError:
        return CloseReason.TIMEOUT
    except ConnectionRefusedError:
        return CloseReason.REFUSED
    except OSError:
        return CloseReason.ERROR
    try:
        await loop.create_connection(factory, sock=sock)
    except OSError:
        sock.close()
        return CloseReason.ERROR
    return None


async def _connect(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    failures: list[OSError] = []
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            set_options(sock)
            await loop.sock_connect(sock, address)
            if sock.getsockname() == sock.getpeername():
                raise ConnectionRefusedError("connected to itself")
        except OSError as error:
            sock.close()
            failures.append(error)
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    other = [error for error in failures if not isinstance(error, ConnectionRefusedError)]
    raise (other or failures)[0]
